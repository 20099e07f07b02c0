# The latency of the kernel's own clock interface on each clocksource (the paper's Figure 15). In
# counted instructions every call takes the same; with --real-time the emulator's own work shows.
# needs: built vm_latency
# shellcheck shell=dash
. /guest/lib.sh

: "${CALLS:=20000}"

wait_for_tsc
ok "the module" insmod /modules/vm_latency.ko "calls=$CALLS"

# quantiles FILE: for each path, ns: least, median, p99, largest; less what nothing takes.
quantiles() {
    awk -v calls="$CALLS" '
    function ns(ticks) { return int((ticks - $3) * 1e6 / $2 + 0.5) }
    {
        n = 0; least = -1; median = -1; p99 = -1
        for (i = 5; i < NF; i += 2) {
            n += $(i + 1) + 0
            if (least < 0) least = ns($i)
            if (median < 0 && n * 2 >= calls) median = ns($i)
            if (p99 < 0 && n * 100 >= calls * 99) p99 = ns($i)
            # The module counts whatever took longer as this.
            largest = ($i == 65535 ? ">" : "") ns($i)
        }
        print $1, least, median, p99, largest, n
    }' "$1"
}

echo "| kernel path | clocksource | min | median | p99 | max |"
echo "|---|---|---|---|---|---|"
for source in tsc hpet acpi_pm; do
    ok "clocksource $source" clocksource $source
    cat /proc/vm_latency >/tmp/latency
    quantiles /tmp/latency >/tmp/table.$source
    while read -r path least median p99 largest n; do
        [ "$path" = nothing ] || echo "| $path | $source | $least | $median | $p99 | $largest |"
        [ "$n" = "$CALLS" ] || fail "$path on $source: $n calls of $CALLS"
    done </tmp/table.$source
    is "$source: all paths" "$(wc -l </tmp/table.$source)" 5
done
median() { sed -n "s/^$1 [0-9-]* \([0-9-]*\) .*/\1/p" "/tmp/table.$2"; }
for source in tsc hpet acpi_pm; do
    holds "reading $source takes longer than nothing" "$(median ktime_get_raw_ns $source) > 0"
    holds "a snapshot takes longer than its counter" \
        "$(median ktime_get_snapshot $source) > $(median ktime_get_raw_ns $source)"
done
ok "tsc again" clocksource tsc
ok "the module goes" rmmod vm_latency
finish
