# A change of the clocksource breaks the raw clock, and the daemon sees it: a new epoch, disrupted,
# and synchronised again. The TSC itself does not care. No bound is ever broken.
# needs: modules veth sch_netem
# needs: programs ip tc chronyd
# shellcheck shell=dash
. /guest/lib.sh
. /guest/net.sh

wait_for_tsc
ok "network" network
# So that the next reply, and the end of the disruption, is some looks of whoever watches away.
ok "a path" path delay 10ms
ok "chronyd" start_chronyd
daemon raw raw 1
daemon tsc tsc 1
ok "raw synchronises" synchronised raw 60s
ok "tsc synchronises" synchronised tsc 60s
# The daemons have to know both clocks well.
sleep 60
for change in "tsc hpet" "hpet acpi_pm" "acpi_pm tsc"; do
    to=${change#* }
    what="$to takes over from ${change% *}"
    watch_during "$what" "raw tsc" 15 5 clocksource "$to"
    is_disrupted "$what" raw
    is "$what: to the TSC it is nothing" "$(cat /tmp/tsc.epochs /tmp/tsc.statuses)" "1
synchronised"
    for counter in raw tsc; do
        is "$what: $counter: no bound broken" "$(json broken </tmp/$counter.json)" 0
    done
    sleep 60
done
[ "$tap_failed" = 0 ] || logs
stop_all
finish
