# The unmodified clients 1.x, 2.x and 3.x of ClockBound read the pages of a daemon that keeps the
# system clock, while it is followed, paused, set by somebody else, and left alone by a daemon that
# was killed. The truth is a line over the raw clock.
# needs: modules veth sch_netem
# needs: programs ip tc clockbound-clients
# shellcheck shell=dash
. /guest/lib.sh
. /guest/net.sh

line=1795700000+30000
pages=/run/clockbound

# reads CLIENT PAGE SECONDS READINGS: in the background, into /tmp/CLIENT.json.
reads() {
    (exec clockbound-clients "$1" $pages/"$2" "$3" "$4" $line) >"/tmp/$1.json" 2>&1 &
    readers="$readers $!"
}
all_read() {
    readers=
    reads 1 shm "$1" "$2"
    reads 2 shm0 "$1" "$2"
    reads 3 shm1 "$1" "$2"
    reads yugabyte shm "$1" "$2"
}
await() {
    # shellcheck disable=SC2086  # one word for each
    wait $readers
}
j() { tail -n 1 "/tmp/$1.json" | json "$2"; }
# changes CLIENT: the statuses that it saw, in order.
changes() { tail -n 1 "/tmp/$1.json" | sed 's/.*"changes":\[//; s/[^A-Za-z,]//g; s/,,*/ /g; s/^ //; s/ $//'; }

wait_for_tsc
ok "network" network
on server truechimer-testbed serve 0.0.0.0:123 "$line"
ok "the server answers" answers "$server:123"
daemon page tsc 1 'leap-file = "none"' 'max-step = "none"' \
    'system-clock = { discipline = true, step = "always" }' \
    "clockbound = { pages = [\"shm\", \"shm0\", \"shm1\"], directory = \"$pages\" }"
daemon_pid=${pids##* }
ok "the daemon synchronises" synchronised page 60s
sleep 30

all_read 40 "${readings:-250000}"
sleep 20
kill -STOP "$daemon_pid"
sleep 3
kill -CONT "$daemon_pid"
await
for client in 1 2 3 yugabyte; do
    note "followed and paused: $client: $(tail -n 1 /tmp/$client.json)"
    is "followed and paused: $client: no bound broken" "$(j $client broken)" 0
    is "followed and paused: $client: no error" "$(j $client errors)" 0
    is "followed and paused: $client: every reading has a bound" "$(j $client promised)" "$(j $client readings)"
done
is "client 1 is never told of free running" "$(changes 1)" Synchronized
is "client 2 is never told of free running" "$(changes 2)" Synchronized
is "client 3 is never told of free running" "$(changes 3)" Synchronized
is "YugabyteDB serves" "$(changes yugabyte)" served

# Somebody else sets the system clock.
all_read 20 20000
sleep 5
date -s "@$(($(date +%s) + 10))" >/dev/null
await
for client in 1 2 3 yugabyte; do note "set by somebody else: $client: $(tail -n 1 /tmp/$client.json)"; done
is "set: client 1 hears of it" "$(changes 1)" "Synchronized Unknown Synchronized"
is "set: client 2 hears of it" "$(changes 2)" "Synchronized Unknown Synchronized"
is "set: YugabyteDB stops and goes on" "$(changes yugabyte)" "served unavailable served"
is "set: client 3 has nothing to do with it" "$(changes 3) $(j 3 broken)" "Synchronized 0"
# The time from the step to the daemon's word: one burst of a hundred readings at most.
holds "set: client 1 was wrong for an instant at most" "$(j 1 broken) <= 100"
holds "set: client 2 was wrong for an instant at most" "$(j 2 broken) <= 100"

# Nobody tends the pages any more.
all_read 75 "${readings:-250000}"
sleep 3
kill -KILL "$daemon_pid"
await
for client in 1 2 3 yugabyte; do
    note "killed: $client: $(tail -n 1 /tmp/$client.json)"
    is "killed: $client: no bound broken" "$(j $client broken)" 0
    is "killed: $client: no error" "$(j $client errors)" 0
done
is "killed: client 1 hears of it" "$(changes 1)" "Synchronized FreeRunning"
is "killed: client 2 hears of it" "$(changes 2)" "Synchronized FreeRunning"
is "killed: client 3 hears of it" "$(changes 3)" "Synchronized FreeRunning"
is "killed: YugabyteDB warns" "$(changes yugabyte)" "served warned"

# Where nothing can be written, it is said, and nothing is left behind.
mkdir /tmp/full
mount -t tmpfs -o size=4k none /tmp/full
dd if=/dev/zero of=/tmp/full/all bs=4096 count=1 2>/dev/null
sed 's|^clockbound = .*|clockbound = { pages = ["shm1"], directory = "/tmp/full" }|' /run/page.toml >/tmp/full.toml
truechimer run --config /tmp/full.toml >/tmp/full.log 2>&1
is "a full disk ends the start" $? 2
ok "and is named" grep -q "cannot make the ClockBound page /tmp/full/shm1: No space left" /tmp/full.log
is "nothing is left there" "$(ls /tmp/full)" all
[ "$tap_failed" = 0 ] || { logs; sed 's/^/# /' /tmp/full.log; }
stop_all
finish
