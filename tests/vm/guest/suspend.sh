# Suspend to memory, ended by the alarm of the hardware clock: a new epoch, disrupted, and
# synchronised again. The emulator's counted time stands still while the
# machine is suspended, so this one runs in real time.
# needs: modules veth sch_netem
# needs: programs ip tc chronyd
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
[ "$tap_failed" = 0 ] || logs
stop_all
finish
