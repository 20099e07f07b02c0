# Counters that roll over every 4.7 and 43 s, widened by the daemon and continued by its readers: 256 and 28 times; for
# hours in a soak. What becomes of them when the daemon is stopped: daemon-counters.sh.
# needs: modules veth
# needs: programs ip tc chronyd
# shellcheck shell=dash
. /guest/lib.sh
. /guest/net.sh

: "${MINUTES:=20}"

wait_for_tsc
ok "network" network
for source in acpi_pm hpet; do
    counter=$(echo $source | tr _ -)
    ok "clocksource $source" clocksource $source
    ok "chronyd" start_chronyd
    daemon "$counter" "$counter" 16
    ok "$counter synchronises" synchronised "$counter" 60s
    watch_during "$MINUTES minutes" "$counter" $((MINUTES * 60)) 1700 true
    j() { json "$1" <"/tmp/$counter.json"; }
    note "$counter: median $(j median_ns) ns, max $(j max_ns) ns, bound $(j median_bound_ns) ns"
    is "$counter: no bound broken in $MINUTES minutes" "$(j broken)" 0
    is "$counter: every reading had a bound" "$(j promised)" "$(j readings)"
    is "$counter: nothing but synchronised" "$(cat "/tmp/$counter.statuses")" synchronised
    is "$counter: one epoch" "$(cat "/tmp/$counter.epochs")" 1

    [ "$tap_failed" = 0 ] || logs
    stop_all
    rm -f /tmp/log.*
done
finish
