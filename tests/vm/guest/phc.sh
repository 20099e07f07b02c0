# A PTP hardware clock as a source of the daemon, read in each of the three ways: alone with a vote,
# on TAI, and stepped by somebody; and linuxptp's word on the system clock that the daemon keeps by it. The
# card shows the raw clock's time, slow by a known part.
# needs: modules ptp veth
# needs: programs ip tc phc_ctl
# needs: built vm_ptp
# shellcheck shell=dash
. /guest/lib.sh
. /guest/net.sh

: "${PPB:=250}"
base=1782863400
line=$base-$PPB
leaps=none

# The daemon with this page and these further lines about the card.
follow() {
    follow_page=$1
    shift
    cat >/run/"$follow_page".toml <<END
page = "/run/$follow_page"
state = "none"
counter = "tsc"
max-step = "none"
leap-file = "$leaps"
$(printf '%s\n' "$@")
END
    on client truechimer run --config /run/"$follow_page".toml
}

# A field of the card's row in `sources`.
card() { truechimer sources --json --control /run/"$1".control 2>/dev/null | json "name=card/$2"; }

wait_for_tsc
ok "network" network
on server truechimer-testbed serve 0.0.0.0:123 "$line"
ok "the server answers" answers "$server:123"

for way in 0 1 2; do
    ok "the module, way $way" insmod /modules/vm_ptp.ko "base=$base" "ppb=$PPB" "way=$way"
    is "its name" "$(cat /sys/class/ptp/ptp0/clock_name)" vm_ptp
    follow alone$way '[[source]]' 'phc = "vm_ptp"' 'name = "card"' 'error = "100ns"' 'scale = "utc"' \
        'trust = true'
    ok "alone, way $way: it synchronises" synchronised alone$way 60s
    sleep 60
    truechimer-testbed watch /run/alone$way "line:$line" 120 200 >/tmp/alone.json
    note "way $way: median $(json median_ns </tmp/alone.json) ns, bound" \
        "$(json median_bound_ns </tmp/alone.json) ns"
    is "way $way: no bound broken" "$(json broken </tmp/alone.json)" 0
    # By hardware at once, or nearly: a bound of the card's own error and little more.
    [ $way != 0 ] || holds "way $way: below 1 us" "$(json median_bound_ns </tmp/alone.json) < 1000"
    stop_all
    on server truechimer-testbed serve 0.0.0.0:123 "$line"
    ok "the module goes" rmmod vm_ptp
done

# The system clock, a day off at first, is kept by the daemon by the card: linuxptp compares the two.
date -s "@$((base + 86400))" >/dev/null
ok "the module, for the system clock" insmod /modules/vm_ptp.ko "base=$base" "ppb=$PPB"
follow system 'system-clock.discipline = true' '[[source]]' 'phc = "vm_ptp"' 'name = "card"' 'error = "100ns"' \
    'scale = "utc"' 'trust = true'
ok "the system clock: it synchronises" synchronised system 60s
sleep 60
for _ in 1 2 3 4 5 6 7 8 9 10; do
    phc_ctl /dev/ptp0 cmp 2>&1 | sed -n 's/.*offset from CLOCK_REALTIME is -*\([0-9]*\)ns.*/\1/p'
    sleep 6
done >/tmp/judged
note "the system clock: by linuxptp at most $(sort -n /tmp/judged | tail -n 1) ns from the card"
is "the system clock: linuxptp compared" "$(wc -l </tmp/judged)" 10
holds "the system clock: within 1 us of the card" "$(sort -n /tmp/judged | tail -n 1) < 1000"
stop_all
on server truechimer-testbed serve 0.0.0.0:123 "$line"
ok "the module goes" rmmod vm_ptp

# Beside a server that vouches for it; then somebody steps it.
ok "the module" insmod /modules/vm_ptp.ko "base=$base" "ppb=$PPB"
follow beside '[[source]]' "host = \"$server\"" 'poll = 4' \
    '[[source]]' 'phc = "/dev/ptp0"' 'name = "card"' 'error = "1us"'
ok "beside a server: it synchronises" synchronised beside 60s
sleep 60
is "the card is selected" "$(card beside status)" selected
echo 37000000000 >/sys/module/vm_ptp/parameters/ahead
sleep 60
truechimer-testbed watch /run/beside "line:$line" 60 200 >/tmp/beside.json
is "stepped: no bound broken" "$(json broken </tmp/beside.json)" 0
holds "stepped: refused" "$(card beside refused/off-time) > 20"
[ "$tap_failed" = 0 ] || logs
stop_all
ok "the module goes" rmmod vm_ptp

# On TAI, which nobody says: found by the server and the list of leap seconds.
leaps=/run/leap-seconds.list
cat >$leaps <<'LIST'
#$ 3960835200
#@ 4102444800
3692217600 37
LIST
on server truechimer-testbed serve 0.0.0.0:123 "$line"
ok "the module, on TAI" insmod /modules/vm_ptp.ko "base=$((base + 37))" "ppb=$PPB"
follow tai '[[source]]' "host = \"$server\"" 'poll = 4' \
    '[[source]]' 'phc = "vm_ptp"' 'name = "card"' 'error = "1us"'
ok "on TAI: it synchronises" synchronised tai 60s
sleep 60
is "on TAI: the card is selected" "$(card tai status)" selected
is "on TAI: it says so" "$(card tai reference)" "PHC on TAI"
ok "on TAI: so does the log" grep -F "shows TAI, 37 s ahead of UTC" /tmp/log.*
truechimer-testbed watch /run/tai "line:$line" 60 200 >/tmp/tai.json
is "on TAI: no bound broken" "$(json broken </tmp/tai.json)" 0
[ "$tap_failed" = 0 ] || logs
stop_all
ok "the module goes" rmmod vm_ptp
finish
