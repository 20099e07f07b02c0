# The system clock is stepped, slewed and given a leap second while the daemon runs: its page does
# not move. Both follow a server whose time is a straight line over the raw clock: chronyd, which
# steers the system clock as it likes, and the daemon, which leaves it alone. Who waits by the page for a
# time is woken in time throughout, in Rust, C and Go.
# needs: modules veth sch_netem
# needs: programs ip tc chronyd chrt
# needs: readers c go
# shellcheck shell=dash
. /guest/lib.sh
. /guest/net.sh

# Ten minutes before the end of June 2026, which ends with a leap second; 30 ppm fast.
midnight=1782864000
line=$((midnight - 600))+30000,leap=$midnight
counter=tsc

system_clock() { truechimer-testbed clock | cut -d' ' -f2; }

# watched SECONDS: one line of figures, and the tests that each watch has to pass.
watched() {
    ip netns exec client truechimer-testbed watch /run/page "line:$line" "$2" 100 >/tmp/watch.json
    j() { json "$1" </tmp/watch.json; }
    note "$1: median $(j median_ns) ns, largest move $(j largest_move_ns) ns, bound $(j median_bound_ns) ns"
    is "$1: every reading inside its bound" "$(j broken)" 0
    is "$1: every reading has a bound" "$(j promised)" "$(j readings)"
    holds "$1: the page does not move" "$(j largest_move_ns) < 20000"
    is "$1: one status, one epoch" "$(grep -c '"status": "synchronised"' /tmp/watch.json)" 1
}

# steers LINE...: chronyd with this configuration steers the system clock.
steers() {
    mkdir -p /var/lib/chrony /run/chrony
    printf '%s\n' "server $server minpoll 0 maxpoll 0" "cmdport 0" "bindcmdaddress /" "user root" \
        "pidfile /run/chronyd.pid" "$@" >/tmp/steering.conf
    on client chronyd -d -f /tmp/steering.conf
    chronyd=$!
}

wait_for_tsc
ok "network" network
on server truechimer-testbed serve 0.0.0.0:123 "$line"
ok "the server answers" answers "$server:123"
daemon page $counter 1 'leap-file = "none"' 'max-step = "none"'
ok "the daemon synchronises" synchronised page 60s
# The rate is measured, and the bound of it small, after some minutes.
sleep 120
watched "left alone" 20

# Who waits by the page meanwhile does not notice either.
waits page "line:$line" 75 1000
waits_in c 80 page "line:$line" 75 1000
waits_in go 160 page "line:$line" 75 1000

# By a tenth slower and faster, as much as the kernel lets anybody. So is then what a sleep lasts.
for tick in 9000 11000 10000; do
    adjtimex -t $tick >/dev/null
    watched "at a tick of $tick us" 3
done

# Hours away: chronyd steps.
before=$(system_clock)
steers "makestep 1 3"
watched "while chronyd steps" 20
holds "chronyd has stepped by months" "($(system_clock) - $before) / 1000000000 > 86400"
kill $chronyd
wait $chronyd

# A twentieth of a second behind: chronyd slews as fast as the kernel lets it.
for by in -1 1; do
    date -s "@$(($(date +%s) + by))" >/dev/null
    watched "after a step by $by s" 5
    steers
    watched "while chronyd slews that away" 15
    kill $chronyd
    wait $chronyd
done
waited "over steps and slews" page "before best after utc" $turn_ns
for who in c go; do waited "over steps and slews" $who "before best after utc" $turn_ns; done
for who in page c go; do
    for kind in before best after; do
        is "over steps and slews: $who: no tick is missed ($kind)" "$(json $kind/missed </tmp/$who.waits)" 0
    done
done
# Where nothing comes in between, the last look but one was before the time. An interrupt may come in between: the kernel
# has one every 4 ms, and where the system clock is slewed the waits' times fall anywhere between two.
note "a look takes $(json look_ns </tmp/page.waits) ns"
holds "over steps and slews: waits before a time end before it, but one in ten" \
    "10 * $(json before/late </tmp/page.waits) <= $(json before/waits </tmp/page.waits)"
off=$(truechimer-testbed clock | awk -v base=$((midnight - 600)) '{ print $2 - $1 * 1.00003 - base * 1e9 }')
note "the system clock is off by $off ns"

# The leap second. The system clock is set right, and chronyd arms the kernel, which inserts it.
steers "makestep 0.001 1"
until=$((midnight - 20 - $(date +%s)))
note "$until s to go"
[ $until -lt 0 ] || sleep $until
truechimer status --page /run/page >/tmp/status
note "$(grep "leap second" /tmp/status)"
ok "the daemon has heard of it" grep -q "inserted at 2026-06-30T23:59:60" /tmp/status
before=$(system_clock)
raw=$(truechimer-testbed clock | cut -d' ' -f1)
waits page "line:$line" 38 0
waits_in c 80 page "line:$line" 38 0
waits_in go 160 page "line:$line" 38 0
watched "over the leap second" 40
for who in page c go; do waited "over the leap second" $who utc $turn_ns; done
after=$(system_clock)
passed=$(($(truechimer-testbed clock | cut -d' ' -f1) - raw))
holds "the kernel has inserted a leap second" "$passed - ($after - $before) > 900000000"
[ "$tap_failed" = 0 ] || logs
stop_all
finish
