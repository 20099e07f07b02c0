# HPET and ACPI PM timer, read directly, agree with the kernel: the rate, and the value against
# CLOCK_MONOTONIC_RAW while that is made of the very same counter.
# shellcheck shell=dash
. /guest/lib.sh

: "${SECONDS_LONG:=120}"

wait_for_tsc
echo "| counter | clocksource | rate, Hz | +/- | phase noise at 1 s |"
echo "|---|---|---|---|---|"
for pair in hpet:hpet:100000000 acpi-pm:acpi_pm:3579545 acpi-pm-safe:acpi_pm:3579545; do
    counter=${pair%%:*}
    hz=${pair##*:}
    source=${pair#*:}
    source=${source%:*}
    for over in tsc "$source"; do
        ok "clocksource $over" clocksource "$over"
        truechimer counters list --seconds 10 --json >/tmp/list.json
        of() { json "inventory/counters/name=$counter/$1" </tmp/list.json; }
        if [ "$(of unusable)" != null ]; then
            fail "$counter cannot be read: $(of unusable)"
            continue
        fi
        measured=$(of measured/hz) error=$(of measured/error_hz)
        ppm=$(awk "BEGIN { print ($measured / $hz - 1) * 1e6 }")
        # The kernel measures the TSC's rate at each boot, to some ppm; of the others it knows it.
        [ "$over" = tsc ] && within=20 || within=0.5
        holds "$counter over $over: the rate, ppm" "${ppm#-} < $within"
        truechimer counters stability --counter "$counter" --against raw --duration "${SECONDS_LONG}s" \
            --json >/tmp/stability.json 2>/tmp/said || note "$(cat /tmp/said)"
        adev=$(json analysis/points/0/adev </tmp/stability.json)
        echo "| $counter | $over | $measured | $error | $adev |"
        # A read takes a microsecond in here, and a step of the ACPI PM timer 280 ns.
        holds "$counter over $over: its phase keeps to the kernel's" "$adev < 2e-6"
    done
done
ok "tsc again" clocksource tsc
finish
