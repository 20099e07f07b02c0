# Suspend to memory, ended by the alarm of the hardware clock: a new epoch, disrupted, and
# synchronised again. The emulator's counted time stands still while the
# machine is suspended, so this one runs in real time.
# needs: modules veth sch_netem
# needs: programs ip tc chronyd chrt
# needs: readers c go
# needs: time real
# shellcheck shell=dash
. /guest/lib.sh
. /guest/net.sh

suspend() {
    echo +6 >/sys/class/rtc/rtc0/wakealarm && echo mem >/sys/power/state
}

wait_for_tsc
ok "network" network
# So that the next reply, and the end of the disruption, is some time away.
ok "a path" path delay 100ms
ok "chronyd" start_chronyd
daemon raw raw 1
daemon tsc tsc 1
ok "raw synchronises" synchronised raw 60s
ok "tsc synchronises" synchronised tsc 60s
# The daemons have to know both clocks well.
sleep 10
# Waits that are begun before it, for times while the machine is suspended and after.
for page in raw tsc; do waits $page system 25 1000; done
waits_in c 80 raw system 25 1000
waits_in go 160 tsc system 25 1000
watch_during "suspend to memory" "raw tsc" 20 5 suspend
for counter in raw tsc; do
    is_disrupted "suspend to memory" $counter
    # A clock that stood still cannot tell its readers: the daemon's next check does, a second later
    # at most; after three without a check the readers look for themselves.
    note "$counter: bounds broken for $(json broken_for_s </tmp/$counter.json) s," \
        "by $(json worst_outside_ns </tmp/$counter.json) ns"
    holds "$counter: broken bounds end within the promised time" \
        "$(json broken_for_s </tmp/$counter.json) < 4"
done
# A second until the clock is looked at again, a second for the host. One of the ticks may have been due as the machine
# went to sleep, and ends when it wakes, 6 s later. The wait for a time after that was begun before: who slept through
# the suspend instead, as nanosleep(2) does, would be late by all of it.
for who in raw tsc c go; do
    waited "suspend to memory" $who "before best after" 8000000000
    waited "suspend to memory" $who "utc" 2000000000
    holds "suspend to memory: $who: ticks of that time are given out as missed" \
        "$(json after/missed </tmp/$who.waits) >= 3"
done
[ "$tap_failed" = 0 ] || logs
stop_all
finish
