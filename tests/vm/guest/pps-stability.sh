# Stability against pulses per second whose period is known: the frequency is recovered, by the
# device and by the plain file, with the kernel's own counter and with the TSC.
# needs: modules pps_core
# needs: built vm_pps
# shellcheck shell=dash
. /guest/lib.sh

# stability OPTION...: ten minutes of pulses.
stability() {
    truechimer counters stability --duration 10min --json "$@" >/tmp/stability.json 2>/tmp/stability.err
}

# near DESCRIPTION PPB SLACK: the frequency that was found.
near() {
    near_got=$(json frequency </tmp/stability.json)
    holds "$1: $near_got" "($near_got * 1e9 - $2) < $3 && ($2 - $near_got * 1e9) < $3"
}

wait_for_tsc
is "the clocksource" "$(clocksource tsc && echo tsc)" tsc
for ppb in 0 250 -12345; do
    ok "pulses with $ppb ppb" insmod /modules/vm_pps.ko ppb=$ppb
    for path in /dev/pps0 /sys/class/pps/pps0/assert; do
        ok "measured by $path" stability --counter raw --against pps:$path
        # A period that is too long is a reference that is slow: the counter gains.
        near "$ppb ppb by $path" $ppb 1
        holds "hardly a pulse is missing" "$(json samples </tmp/stability.json) >= 595"
    done
    # The TSC is as far off as its nominal frequency is: measured for a tenth of a second.
    ok "measured with the tsc" stability --counter tsc --against pps
    near "$ppb ppb with the tsc, roughly" $ppb 2000
    ok "the pulses end" rmmod vm_pps
done
stability --counter raw --against pps
is "without pulses there is an error" $? 2
ok "which names the device" grep -q /dev/pps0 /tmp/stability.err
finish
