# Programs read the system clock's error by adjtimex(2): what node_exporter shows of it, and a bounded
# clock as ScyllaDB makes it. While the daemon keeps the clock, whatever is done to either, the kernel's
# word holds; nobody trusts it where nobody keeps it.
# needs: modules veth sch_netem
# needs: programs ip tc
# shellcheck shell=dash
. /guest/lib.sh
. /guest/net.sh

# Some minutes before the end of June 2026, 30 ppm fast.
midnight=1782864000
base=$((midnight - 400))
line=$base+30000,leap=$midnight

# The list of leap seconds, in seconds since 1900: made, good until, TAI - UTC.
printf '%s\n' '#$ 3944678400' '#@ 4007750400' '3692217600 37' "$((midnight + 2208988800)) 38" >/tmp/leaps

# field NAME: what node_exporter would show as node_timex_NAME.
field() { truechimer-testbed timex | sed -n "s/^node_timex_$1 //p"; }

# reads SECONDS [EVERY_MS]: in the background, into /tmp/timex.json.
reads() {
    (exec truechimer-testbed timex "line:$line" "$1" "${2:-20}") >/tmp/timex.json 2>&1 &
    reader=$!
}

# holds_true WHAT CHANGES [OR]: waits for the reader; no word was false, and it was trusted as in
# CHANGES.
holds_true() {
    wait $reader
    note "$1: $(tr -d '\n' </tmp/timex.json)"
    is "$1: the bound holds" "$(json broken </tmp/timex.json)" 0
    is "$1: so does that of a clock that never goes back" "$(json centre_broken </tmp/timex.json)" 0
    changes=$(json changes </tmp/timex.json)
    [ "$changes" != "${3:-}" ] || set -- "$1" "$3"
    is "$1: trusted and not" "$changes" "$2"
}

# kept WHAT: the daemon keeps the clock, as the exporter shows it.
kept() {
    is "$1: synchronised" "$(field sync_status)" 1
    holds "$1: the error is a small one" "$(field maxerror_seconds) < 0.002"
    holds "$1: the estimate is smaller" "$(field estimated_error_seconds) <= $(field maxerror_seconds)"
    is "$1: nanoseconds, and no loop of the kernel's" "$(field status)" "${2:-8192}"
    is "$1: no offset is left to the kernel" "$(field offset_seconds)" 0
}

wait_for_tsc
ok "network" network
on server truechimer-testbed serve 0.0.0.0:123 "$line"
ok "the server answers" answers "$server:123"
is "before: not synchronised" "$(field sync_status)" 0
is "before: the largest error" "$(field maxerror_seconds)" 16
is "before: no TAI" "$(field tai_offset_seconds)" 0

reads 150
daemon page tsc 1 'leap-file = "/tmp/leaps"' 'max-step = "none"' \
    'system-clock = { discipline = true, step = "always", step-above = "60s" }'
daemon_pid=${pids##* }
ok "the daemon synchronises" synchronised page 60s
holds_true "from the start on, over a step and a slew" "refused trusted"

# The leap second is announced: STA_INS stands.
reads 60
holds_true "followed" trusted
holds "followed: the word is renewed each second" "$(json renewed </tmp/timex.json) >= 50"
holds "followed: the bound is a small one" "$(json most_maxerror_us </tmp/timex.json) < 1000"
kept "followed" $((8192 + 16))
is "followed: TAI" "$(field tai_offset_seconds)" 37

# 23:59:59 comes twice.
until=$((midnight - 30 - $(date +%s)))
[ $until -lt 0 ] || sleep $until
reads 60
holds_true "a leap second" trusted
is "a leap second: TAI" "$(field tai_offset_seconds)" 38
kept "after the leap second"

# Somebody else sets the clock. The kernel itself calls it unsynchronised at once, the daemon says how
# far off it is: whether a reader sees what is between is chance.
reads 90
sleep 5
truechimer-testbed clock >/tmp/now
date -s "@$(($(cut -d' ' -f2 /tmp/now) / 1000000000 + 12))" >/dev/null
holds_true "set by twelve seconds" trusted "trusted refused trusted"
holds "set by twelve seconds: the rest is counted in" "$(json most_maxerror_us </tmp/timex.json) > 10000000"

# Left in the middle of that slew: the kernel's word grows faster than the clock strays.
reads 120
sleep 5
kill -KILL "$daemon_pid"
holds_true "killed" trusted
holds "killed: the word grows by 500 us a second" \
    "$(json last_maxerror_us </tmp/timex.json) - $(json least_maxerror_us </tmp/timex.json) > 55000"
# To 16 s, unless somebody is there.
left=$(awk "BEGIN { print int((16 - $(field maxerror_seconds)) / 0.0005) }")
reads $((left + 60)) 10000
holds_true "killed, until the kernel gives it up after $left s" "trusted refused"
is "given up: not synchronised" "$(field sync_status)" 0
is "given up: the largest error" "$(field maxerror_seconds)" 16

# Another daemon takes over, which may not step: further off than the kernel can say is not
# synchronised, and the rest is.
date -s "@$(($(date +%s) + 30))" >/dev/null
sed -i 's/step = "always"/step = "never"/' /run/page.toml
on client truechimer run --config /run/page.toml
daemon_pid=${pids##* }
ok "the next daemon synchronises" synchronised page 60s
reads 30
holds_true "half a minute off" refused
is "half a minute off: not synchronised" "$(field sync_status)" 0
reads 60
sleep 5
date -s "@$(($(date +%s) - 30))" >/dev/null
holds_true "some seconds off" "refused trusted"

# A daemon that is stopped leaves its word to the kernel.
kill "$daemon_pid"
sleep 2
is "stopped: still synchronised" "$(field sync_status)" 1
reads 60
holds_true "stopped" trusted
[ "$tap_failed" = 0 ] || logs
stop_all
finish
