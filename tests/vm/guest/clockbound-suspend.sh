# Suspend to memory, as the unmodified clients 2.x and 3.x of ClockBound, YugabyteDB's logic and ScyllaDB's see it in the
# pages of a daemon that keeps the system clock: no bound from when the daemon looks at the counter, a second later at
# most, until the next reply. The emulator's counted time stands still while the machine is suspended, so this one runs in
# real time. The truth is not known to its clients then: what is judged are the statuses, and that nobody is given an error.
# needs: modules veth sch_netem
# needs: programs ip tc chronyd clockbound-clients clockbound-scylla
# needs: time real
# shellcheck shell=dash
. /guest/lib.sh
. /guest/net.sh

pages=/run/clockbound
# Any line: they ask for one.
line=1767225600

# reads CLIENT PAGE: in the background, into /tmp/CLIENT.json.
reads() {
    (exec clockbound-clients "$1" $pages/"$2" 20 20000 $line) >"/tmp/$1.json" 2>&1 &
    readers="$readers $!"
}
j() { tail -n 1 "/tmp/$1.json" | json "$2"; }
# changes CLIENT: the statuses that it saw, in order.
changes() { tail -n 1 "/tmp/$1.json" | sed 's/.*"changes":\[//; s/[^A-Za-z,]//g; s/,,*/ /g; s/^ //; s/ $//'; }

wait_for_tsc
ok "network" network
# So that the next reply, and the end of the disruption, is some time away.
ok "a path" path delay 100ms
ok "chronyd" start_chronyd
daemon page tsc 1 'system-clock = { discipline = true, step = "always", step-above = "100ms" }' \
    "clockbound = { pages = [\"shm\", \"shm0\", \"shm1\"], directory = \"$pages\" }"
ok "it synchronises" synchronised page 60s
# The daemon has to know the clock well, and the rate of the system clock.
sleep 15
readers=
reads 1 shm
reads 2 shm0
reads 3 shm1
reads yugabyte shm
(exec clockbound-scylla $pages/shm1 20 20000 $line 0) >/tmp/scylla.json 2>&1 &
readers="$readers $!"
sleep 5
ok "suspend to memory" sh -c 'echo +6 >/sys/class/rtc/rtc0/wakealarm && echo mem >/sys/power/state'
# shellcheck disable=SC2086  # one word for each
wait $readers
for client in 1 2 3 yugabyte scylla; do
    note "suspend: $client: $(tail -n 1 /tmp/$client.json)"
    is "suspend: $client: no error" "$(j $client errors)" 0
done
is "client 1 goes without a bound" "$(changes 1)" "Synchronized Unknown Synchronized"
# Unknown may come before it, where the system clock's step is seen first, and after it, until its rate is measured.
is "client 2 hears of it" "$(changes 2 | sed 's/Unknown Disrupted/Disrupted/; s/Disrupted Unknown/Disrupted/')" \
    "Synchronized Disrupted Synchronized"
is "client 3 hears of it" "$(changes 3)" "Synchronized Disrupted Synchronized"
is "YugabyteDB stops and goes on" "$(changes yugabyte)" "served unavailable served"
[ "$tap_failed" = 0 ] || logs
stop_all
finish
