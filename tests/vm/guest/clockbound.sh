# The unmodified clients 1.x, 2.x and 3.x of ClockBound read the pages of a daemon that keeps the
# system clock, while it is followed, paused, set by somebody else, started again, without its servers, and left
# alone by a daemon that was killed, until its last word is void; over a leap second; and when the counter
# breaks. The truth is a line over the raw clock.
# needs: modules veth sch_netem
# needs: programs ip tc clockbound-clients clockbound-scylla
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
# scylla SECONDS [LEAP]: what ScyllaDB does, in the background, into /tmp/scylla.json.
scylla() {
    unix=${line%%+*}
    (exec clockbound-scylla $pages/shm1 "$1" 20000 "$unix" 30000 ${2:+"$2"}) >/tmp/scylla.json 2>&1 &
    readers="$readers $!"
}
await() {
    # shellcheck disable=SC2086  # one word for each
    wait $readers
}
j() { tail -n 1 "/tmp/$1.json" | json "$2"; }
# changes CLIENT: the statuses that it saw, in order.
changes() { tail -n 1 "/tmp/$1.json" | sed 's/.*"changes":\[//; s/[^A-Za-z,]//g; s/,,*/ /g; s/^ //; s/ $//'; }

# serve: a server of the line.
serve() {
    on server truechimer-testbed serve 0.0.0.0:123 "$line"
    server_pid=${pids##* }
    ok "the server answers" answers "$server:123"
}
# follow NAME COUNTER PAGES: a daemon that keeps the system clock and writes these pages.
follow() {
    daemon "$1" "$2" 1 'leap-file = "none"' 'max-step = "none"' \
        'system-clock = { discipline = true, step = "always" }' \
        "clockbound = { pages = [$3], directory = \"$pages\" }"
    daemon_pid=${pids##* }
    ok "the daemon synchronises ($1)" synchronised "$1" 60s
    sleep 30
}

# again SIGNAL: ends the daemon so, and starts it once more at once.
again() {
    kill -"$1" "$daemon_pid"
    wait "$daemon_pid"
    on client truechimer run --config /run/page.toml
    daemon_pid=${pids##* }
}
# sound WHAT: no client was told anything that is not so, or had an error.
sound() {
    for client in 1 2 3 yugabyte; do
        note "$1: $client: $(tail -n 1 /tmp/$client.json)"
        is "$1: $client: no bound broken" "$(j $client broken)" 0
        is "$1: $client: no error" "$(j $client errors)" 0
    done
}

# begins PAGE SECONDS: YugabyteDB's start, and what came of it.
begins() { clockbound-clients yugabyte-start "$1" "$2" 2>&1 | tail -n 1; }

wait_for_tsc
ok "network" network
is "without a page YugabyteDB does not start" "$(begins $pages/shm 120 | grep -c "No such file")" 1
serve
follow page tsc '"shm", "shm0", "shm1"'
is "YugabyteDB starts" "$(begins $pages/shm 120)" started

all_read 40 "${readings:-480000}"
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
readers=
reads 1 shm 20 40000
reads 2 shm0 20 40000
reads yugabyte shm 20 40000
# Nothing of this is about the system clock.
reads 3 shm1 20 "${readings:-480000}"
sleep 5
date -s "@$(($(date +%s) + 10))" >/dev/null
begins $pages/shm 120 >/tmp/begins &
begins=$!
await
wait $begins
is "set: YugabyteDB's start waits" "$(cat /tmp/begins)" waited
for client in 1 2 3 yugabyte; do note "set by somebody else: $client: $(tail -n 1 /tmp/$client.json)"; done
is "set: client 1 hears of it" "$(changes 1)" "Synchronized Unknown Synchronized"
is "set: client 2 hears of it" "$(changes 2)" "Synchronized Unknown Synchronized"
is "set: YugabyteDB stops and goes on" "$(changes yugabyte)" "served unavailable served"
is "set: client 3 has nothing to do with it" "$(changes 3) $(j 3 broken)" "Synchronized 0"
# The time from the step to the daemon's word: one burst of a hundred readings at most.
holds "set: client 1 was wrong for an instant at most" "$(j 1 broken) <= 100"
holds "set: client 2 was wrong for an instant at most" "$(j 2 broken) <= 100"

# A restart, in good order or not, is not seen. The daemon keeps what it knows, as it does unless told otherwise.
sed -i 's|^state = .*|state = "/run/rate"|' /run/page.toml
again TERM
ok "the daemon synchronises (with a state)" synchronised page 60s
sleep 30
for how in TERM KILL; do
    all_read 20 20000
    sleep 5
    again $how
    await
    sound "restarted by $how"
    for client in 1 2 3; do is "restarted by $how: client $client hears nothing" "$(changes $client)" Synchronized; done
    is "restarted by $how: YugabyteDB serves" "$(changes yugabyte)" served
done

# The servers are silent, and the daemon is started again as well.
kill "$server_pid"
all_read 60 20000
await
sound "silent"
for client in 1 2 3; do
    is "silent: client $client is told of free running" "$(changes $client)" "Synchronized FreeRunning"
done
is "silent: YugabyteDB warns" "$(changes yugabyte)" "served warned"
all_read 30 20000
sleep 5
again TERM
await
sound "silent, restarted"
for client in 1 2 3; do is "silent, restarted: client $client hears nothing" "$(changes $client)" FreeRunning; done
# A step by somebody else is seen as well as by a daemon that has servers.
all_read 20 20000
sleep 5
date -s "@$(($(date +%s) + 10))" >/dev/null
await
for client in 1 2 3 yugabyte; do note "silent, set: $client: $(tail -n 1 /tmp/$client.json)"; done
for client in 1 2; do
    is "silent, set: client $client hears of it" "$(changes $client)" "FreeRunning Unknown"
    holds "silent, set: client $client was wrong for an instant at most" "$(j $client broken) <= 100"
done
is "silent, set: YugabyteDB stops" "$(changes yugabyte)" "warned unavailable"
is "silent, set: client 3 has nothing to do with it" "$(changes 3) $(j 3 broken)" "FreeRunning 0"
serve
ok "the daemon synchronises (with its server again)" synchronised page 120s
sleep 30

# Nobody tends the pages any more.
all_read 75 "${readings:-480000}"
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

# Nor ever again: 1000 s after the last word nothing is promised.
all_read 960 20000
scylla 960
await
note "void: ScyllaDB: $(tail -n 1 /tmp/scylla.json)"
is "void: ScyllaDB goes without from the first to the last" \
    "$(j scylla trusted) $(j scylla changes) $(j scylla errors)" "0 0 0"
holds "void: ScyllaDB sees that it is no longer free running" "$(j scylla free_running) < 20000"
for client in 1 2 3 yugabyte; do
    note "void: $client: $(tail -n 1 /tmp/$client.json)"
    is "void: $client: no bound broken" "$(j $client broken)" 0
    is "void: $client: no error" "$(j $client errors)" 0
done
for client in 1 2 3; do is "void: client $client hears of it" "$(changes $client)" "FreeRunning Unknown"; done
is "void: YugabyteDB stops" "$(changes yugabyte)" "warned unavailable"

# A leap second, five minutes after the begin of another line.
kill "$server_pid"
midnight=1782864000
line=$((midnight - $(cut -d. -f1 /proc/uptime) - 300))+30000,leap=$midnight
serve
follow leap tsc '"shm", "shm0", "shm1"'
sleep $((midnight - 20 - $(date +%s)))
all_read 40 20000
scylla 40 $midnight
await
note "leap second: ScyllaDB: $(tail -n 1 /tmp/scylla.json)"
is "leap second: ScyllaDB goes without, and on" "$(j scylla changes) $(j scylla broken) $(j scylla errors)" "2 0 0"
for client in 1 2 3 yugabyte; do
    note "leap second: $client: $(tail -n 1 /tmp/$client.json)"
    is "leap second: $client: no bound broken" "$(j $client broken)" 0
    is "leap second: $client: no error" "$(j $client errors)" 0
done
for client in 1 2 3; do
    is "leap second: client $client goes without a bound" "$(changes $client)" "Synchronized Unknown Synchronized"
done
is "leap second: YugabyteDB stops and goes on" "$(changes yugabyte)" "served unavailable served"
is "leap second: nobody else is taken to have set the system clock" \
    "$(cat /tmp/log.* | grep -c "somebody else moves the system clock")" 2
kill "$daemon_pid"
wait "$daemon_pid"

# The raw clock breaks with another clocksource; the third layout's TSC does not. The next reply, and with
# it the end of the disruption, is some bursts of readings away.
ok "a path" path delay 150ms
follow raw raw '"shm", "shm0"'
is "so far from its server YugabyteDB ends at its start" "$(begins $pages/shm 10 | sed 's/[0-9]* ns/NS/')" "gave up: an error of NS"
readers=
reads 1 shm 20 20000
reads 2 shm0 20 20000
sleep 5
ok "another clocksource" clocksource hpet
await
for client in 1 2; do
    note "disrupted: $client: $(tail -n 1 /tmp/$client.json)"
    is "disrupted: $client: no error" "$(j $client errors)" 0
done
is "disrupted: client 1 hears of it" "$(changes 1)" "Synchronized Unknown Synchronized"
# Unknown may come after it, until the rate of the system clock is measured.
is "disrupted: client 2 hears of it" "$(changes 2 | sed 's/Disrupted Unknown/Disrupted/')" \
    "Synchronized Disrupted Synchronized"
ok "and the old one" clocksource tsc

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
