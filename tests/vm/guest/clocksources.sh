# All three clocksources and the counters behind them: listed, compared, selected.
# shellcheck shell=dash
. /guest/lib.sh

: "${READS:=20k}"
current() { cat "$sources/current_clocksource"; }

wait_for_tsc
ok "list" truechimer counters list
truechimer counters list --json >/tmp/list.json
of() { json "inventory/clocksources/name=$1" </tmp/list.json; }
is "tsc is in force" "$(of tsc/state)" current
for name in hpet acpi_pm; do is "$name is available" "$(of $name/state)" available; done
is "the width of hpet" "$(of hpet/bits)" 32
is "the width of acpi_pm" "$(of acpi_pm/bits)" 24
holds "acpi_pm rolls over every 4.69 s" "$(of acpi_pm/rolls_over_s) > 4.68 && $(of acpi_pm/rolls_over_s) < 4.69"
is "the machine is emulated" "$(json inventory/host/hypervisor </tmp/list.json)" emulation
for name in hpet acpi-pm acpi-pm-safe; do
    is "$name can be read directly" "$(json "inventory/counters/name=$name/unusable" </tmp/list.json)" null
done

# The classic comparison, of all that can be selected, and of the counters read directly.
truechimer counters bench --reads "$READS" --switch --json >/tmp/bench.json 2>/tmp/bench.said
is "tsc is put back" "$(current)" tsc
ok "the comparison says how to go back by hand" grep -q current_clocksource /tmp/bench.said
cost() { json "sources/clocksource=$1/costs/what=CLOCK_MONOTONIC_RAW/ns" </tmp/bench.json; }
echo "| read | clocksource | ns |"
echo "|---|---|---|"
for name in tsc hpet acpi_pm; do echo "| CLOCK_MONOTONIC_RAW by clock_gettime | $name | $(cost $name) |"; done
for name in tsc tsc-fenced hpet acpi-pm acpi-pm-safe; do
    echo "| $name directly | | $(json "direct/what=$name/ns" </tmp/bench.json) |"
done
for name in hpet acpi_pm; do
    holds "$name costs more than tsc" "$(cost $name) > 3 * $(cost tsc)"
    is "$name is not in the vDSO" "$(json "sources/clocksource=$name/in_vdso" </tmp/bench.json)" false
done

for name in acpi_pm hpet tsc; do
    ok "select $name" truechimer counters select $name --yes
    is "$name is in force" "$(current)" $name
done
truechimer counters select jiffy --yes >/tmp/said 2>&1
is "a name that is none is refused" $? 2
is "and nothing is changed" "$(current)" tsc
finish
