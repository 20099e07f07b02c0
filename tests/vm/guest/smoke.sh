# The machine itself: three clocksources, our programs, a network of namespaces with netem.
# needs: modules veth sch_netem
# needs: programs ip tc
# shellcheck shell=dash
. /guest/lib.sh

ok "tsc is there" wait_for_tsc
for name in tsc hpet acpi_pm; do
    ok "$name can be selected" clocksource $name
done
ok "our program runs" truechimer --version
ok "the test bed's program runs" truechimer-testbed clock
ok "a namespace" ip netns add client
ok "veth" ip link add wire type veth peer name wire netns client
ok "netem" tc qdisc add dev wire root netem delay 2ms loss 10%
note "$(truechimer-testbed clock)"
sleep 600
note "$(truechimer-testbed clock)"
finish
