# The daemon steers the system clock by adjtimex(2): one step at the start, no overshoot, within a
# microsecond of its own clock from then on; the kernel knows how far off it may be, and inserts the
# leap second that the server announces.
# needs: modules veth sch_netem
# needs: programs ip tc chrt
# shellcheck shell=dash
. /guest/lib.sh
. /guest/net.sh

# A quarter of an hour before the end of June 2026, 30 ppm fast.
midnight=1782864000
base=$((midnight - 900))
line=$base+30000,leap=$midnight
counter=tsc

# off: what the system clock is ahead of the line, ns, to some thousands of instructions of 2 ns.
off() {
    # shellcheck disable=SC2046  # three words
    set -- $(truechimer-testbed clock)
    off_raw=$((($1 + $3) / 2))
    echo $(($2 - base * 1000000000 - off_raw - off_raw / 100000 * 3))
}

# follows WHAT SECONDS: all the time, the system clock is what the daemon's clock says, and the line
# is within that clock's bound.
follows() {
    ip netns exec client truechimer-testbed watch /run/page system "$2" 500 >/tmp/system.json &
    ip netns exec client truechimer-testbed watch /run/page "line:$line" "$2" 500 >/tmp/line.json
    wait $!
    note "$1: the system clock is $(json median_ns </tmp/system.json) ns off it, give or take $(json max_from_median_ns </tmp/system.json) ns; looking takes $(json median_sandwich_ns </tmp/system.json) ns"
    note "$1: $(json max_ns </tmp/line.json) ns off at most, bound $(json median_bound_ns </tmp/line.json) ns"
    holds "$1: the daemon's clock is within its bound" \
        "$(json promised </tmp/line.json) > 0 && $(json broken </tmp/line.json) == 0"
    # Of the offset, up to half of what looking takes is the looking's own: it is the same each time here.
    holds "$1: the system clock is within half a microsecond of it, as far as looking tells" \
        "$(json with_bound </tmp/system.json) > 0 && $(json max_certain_ns </tmp/system.json) == 0 && $(json max_from_median_ns </tmp/system.json) <= 500"
}

# kernel NAME: what adjtimex(2) says.
kernel() { adjtimex | sed -n "s/^.* $1: *//p"; }

wait_for_tsc
ok "network" network
on server truechimer-testbed serve 0.0.0.0:123 "$line"
ok "the server answers" answers "$server:123"
ok "before: the kernel's clock is not synchronised" sh -c "adjtimex | grep -q UNSYNC"
# The gate for what reads the system clock, which is a day off, opens when that is set and not before.
date -s "@$((base + 86400))" >/dev/null
(
    truechimer waitsync --page /run/page --system-clock 10ms --timeout 60s
    off
) >/tmp/gate 2>&1 &
gate=$!
daemon page $counter 1 'leap-file = "none"' 'max-step = "none"' 'system-clock.discipline = true'
ok "the daemon synchronises" synchronised page 60s
ok "the gate opens" wait $gate
note "$(cat /tmp/gate)"
holds "the system clock is right behind the gate" "$(tail -n 1 /tmp/gate | tr -d -) < 10000000"
note "the system clock is $(off) ns off"
sleep 60
follows "after a minute" 30
note "frequency $(kernel 'freq.adjust'), maxerror $(kernel maxerror) us, status $(kernel status)"
is "one step" "$(cat /tmp/log.* | grep -c 'system clock: stepped')" 1
ok "the kernel takes its clock for synchronised" sh -c "! adjtimex | grep -q UNSYNC"
holds "the kernel's bound is a small one" "$(kernel maxerror) < 2000"
truechimer now --page /run/page >/tmp/now
note "$(cat /tmp/now)"

ok "the leap second is announced to the kernel" sh -c "adjtimex | grep -q INS"
until=$((midnight + 20 - $(date +%s)))
note "$until s to go"
waits page "line:$line" $((until + 10)) 0
raw=$(truechimer-testbed clock | cut -d' ' -f1)
before=$(truechimer-testbed clock | cut -d' ' -f2)
[ $until -lt 0 ] || sleep $until
after=$(truechimer-testbed clock | cut -d' ' -f2)
passed=$(($(truechimer-testbed clock | cut -d' ' -f1) - raw))
holds "the kernel has inserted a leap second" "$passed - ($after - $before) > 900000000"
waited "over the leap second" page utc $turn_ns
follows "after the leap second" 30
is "still one step" "$(cat /tmp/log.* | grep -c 'system clock: stepped')" 1
ok "the kernel's leap is over" sh -c "! adjtimex | grep -q INS"
[ "$tap_failed" = 0 ] || logs
stop_all
finish
