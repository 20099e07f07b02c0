# Stability against pulses per second whose period is known: the frequency is recovered, by the
# device and by the plain file, with the kernel's own counter and with the TSC.
# needs: modules pps_core
# needs: built vm_pps
# shellcheck shell=dash
. /guest/lib.sh

# measured COUNTER PATH PPB SLACK: five minutes of pulses, and what they must show.
measured() {
    ok "$1 measured by $2" sh -c "truechimer counters stability --counter $1 --against pps:$2 \
        --duration 5min --json >/tmp/stability.json"
    frequency=$(json analysis/trend/frequency </tmp/stability.json)
    holds "$1 by $2: $3 ppb within $4" \
        "($frequency * 1e9 - ($3)) < $4 && (($3) - $frequency * 1e9) < $4"
    holds "hardly a pulse is missing" "$(json analysis/samples </tmp/stability.json) >= 297"
}

wait_for_tsc
is "the clocksource" "$(clocksource tsc && echo tsc)" tsc
# A period that is too long is a reference that is slow: the counter gains.
ok "pulses with 250 ppb" insmod /modules/vm_pps.ko ppb=250
measured raw /dev/pps0 250 1
measured raw /sys/class/pps/pps0/assert 250 1
# The TSC is as far off as its nominal frequency is: measured for a tenth of a second.
measured tsc /dev/pps0 250 2000
ok "the pulses end" rmmod vm_pps
ok "pulses with -12345 ppb" insmod /modules/vm_pps.ko ppb=-12345
measured raw /dev/pps0 -12345 1
ok "the pulses end" rmmod vm_pps
truechimer counters stability --counter raw --against pps 2>/tmp/stability.err
is "without pulses there is an error" $? 2
ok "which names the device" grep -q /dev/pps0 /tmp/stability.err
finish
