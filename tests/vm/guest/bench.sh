# What the comparison of clocksources changes, and that it puts it back: really switched here.
# shellcheck shell=dash
. /guest/lib.sh

current() { cat "$sources/current_clocksource"; }
# runs until the clocksource is no longer NAME, or 60 s
left() {
    left_i=0
    while [ "$(current)" = "$1" ] && [ $left_i -lt 600 ]; do
        usleep 100000
        left_i=$((left_i + 1))
    done
    [ "$(current)" != "$1" ]
}

ok "tsc is there" wait_for_tsc
for name in hpet acpi_pm tsc; do
    ok "select $name" truechimer counters select $name --yes
    is "$name is selected" "$(current)" $name
done
ok "selecting it again changes nothing" truechimer counters select tsc --yes

for name in htep acpi-pm jiffies ''; do
    truechimer counters select "$name" --yes >/tmp/out 2>&1
    is "select '$name' is refused" $? 2
    note "$(tail -n 1 /tmp/out)"
done
is "nonsense changes nothing" "$(current)" tsc
truechimer counters select hpet </dev/null >/tmp/out 2>&1
is "unasked nothing is changed" "$?-$(current)" 2-tsc

ok "the comparison" sh -c 'truechimer counters bench --switch --reads 20k >/tmp/bench 2>/tmp/said'
is "puts back what was there" "$(current)" tsc
for name in tsc hpet acpi_pm; do
    ok "it has $name" grep -q "^clocksource $name" /tmp/bench
done
ok "it says what it does before" grep -q "echo tsc" /tmp/said
sed 's/^/# /' /tmp/bench

truechimer counters select acpi_pm --yes >/dev/null 2>&1
ok "from another one" truechimer counters bench --switch --reads 2k --json
is "that one is put back" "$(current)" acpi_pm

# In the middle: each time it is sure that another clocksource is in use.
for signal in INT TERM HUP; do
    truechimer counters bench --switch --reads 50k >/tmp/out 2>&1 &
    bench=$!
    ok "it switches" left acpi_pm
    # A background job of this shell ignores INT from the start: the program takes it all the same.
    kill -$signal $bench
    wait $bench
    is "$signal ends it" $? 2
    is "$signal puts it back" "$(current)" acpi_pm
    ok "and says so" grep -q "the clocksource is acpi_pm again" /tmp/out
done

# Somebody else's change in the middle stays.
truechimer counters bench --switch --reads 50k >/tmp/out 2>&1 &
bench=$!
ok "it switches" left acpi_pm
note "now $(current)"
other=hpet
[ "$(current)" = hpet ] && other=tsc
ok "somebody else selects $other" clocksource $other
wait $bench
is "which ends it" $? 2
is "and stays" "$(current)" $other
ok "it says so" grep -q "somebody else has changed the clocksource" /tmp/out

truechimer counters select tsc --yes >/dev/null 2>&1
ok "latency" sh -c 'truechimer counters latency --stress all --samples 2k --phase 0.2 >/tmp/latency'
sed 's/^/# /' /tmp/latency
is "which changes nothing" "$(current)" tsc
is "and leaves no load behind" "$(cat /proc/[0-9]*/comm | grep -c truechimer)" 0
finish
