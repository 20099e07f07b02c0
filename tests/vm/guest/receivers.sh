# Programs that hand the time on by shared memory or a socket, as chrony and ntpd take it. A real gpsd has the second by a
# receiver's sentences and its beginning by the kernel's pulses: both and the server keep the raw clock's time, slow by a
# known part. A real ptp4l follows another one that serves the system clock.
# needs: modules pps_core veth af_packet
# needs: programs ip tc gpsd ptp4l
# needs: built vm_pps
# shellcheck shell=dash
. /guest/lib.sh
. /guest/net.sh

: "${PPB:=250}"
base=1782863400
line=$base-$PPB

# follow NAME LINE...: a daemon with these sources.
follow() {
    follow_page=/run/$1
    shift
    printf '%s\n' "page = \"$follow_page\"" 'state = "none"' 'counter = "tsc"' 'max-step = "none"' 'leap-file = "none"' \
        "$@" >"$follow_page.toml"
    on client truechimer run --config "$follow_page.toml"
}

# source_of PAGE NAME FIELD: of that source in `sources`.
source_of() { on_client sources "$1" | json "name=$2/$3"; }

# watches PAGE WHAT [REFERENCE]: the page against the truth, into /tmp/PAGE.json.
watches() {
    truechimer-testbed watch "/run/$1" "${3:-line:$line}" 60 200 >"/tmp/$1.json"
    note "$1, $2: median $(json median_ns <"/tmp/$1.json") ns, at most $(json max_ns <"/tmp/$1.json") ns, bound" \
        "$(json median_bound_ns <"/tmp/$1.json") ns"
    is "$1, $2: no bound broken" "$(json broken <"/tmp/$1.json")" 0
}

wait_for_tsc
ok "the module" insmod /modules/vm_pps.ko "ppb=$PPB"
ok "network" network
on server truechimer-testbed serve 0.0.0.0:123 "$line"
ok "the server answers" answers "$server:123"
# gpsd stamps by the system clock, and takes sentences of long ago or ahead for a fault.
date -s "@$base" >/dev/null

# The socket has to be there when gpsd starts, and that goes by the device's name, as docs/use/references.md has it.
follow sock '[[source]]' "host = \"$server\"" 'poll = 16' \
    '[[source]]' 'sock = "/run/gps.sock"' 'error = "5us"' 'name = "gps"'
ok "beside a server: it synchronises" synchronised sock 60s
ln -s /run/gps.sock /run/chrony.pps0.sock
on client truechimer-testbed receiver 127.0.0.1:4000 "$line"
receiver_pid=${pids##* }
sleep 1
on client gpsd -N -n -D "${DEBUG:-1}" tcp://127.0.0.1:4000 /dev/pps0
sleep 60
is "the pulses by the socket are selected" "$(source_of sock gps status)" selected
is "their kind" "$(source_of sock gps kind)" sock
watches sock "beside a server"
holds "by the socket: the pulses are followed" "$(json max_ns </tmp/sock.json) < 3000"
with_pulses=$(json median_bound_ns </tmp/sock.json)

# Nothing but shared memory: segment 0 has the sentences, 1 the pulses.
follow pulses '[[source]]' 'shm = 1' 'error = "5us"' 'name = "gps"' 'trust = true'
follow sentences '[[source]]' 'shm = 0' 'error = "50ms"' 'offset = "50ms"' 'name = "gps"' 'trust = true'
for page in pulses sentences; do
    ok "$page by shared memory: it synchronises" synchronised $page 60s
done
sleep 60
for page in pulses sentences; do
    is "$page by shared memory: selected" "$(source_of $page gps status)" selected
    watches $page "alone"
done
holds "by shared memory: the pulses are followed" "$(json max_ns </tmp/pulses.json) < 3000"

# The receiver is taken away, and pulses alone say nothing to gpsd: who has a server goes on by it.
kill "$receiver_pid"
wait "$receiver_pid"
sleep 60
watches sock "the receiver is gone"
holds "the pulses made the bound smaller" "2 * $with_pulses < $(json median_bound_ns </tmp/sock.json)"
is "the receiver is gone: that is said" "$(source_of sock gps trouble)" \
    "no samples: nobody sends any, or the receiver has no fix"
is "the receiver is gone: who had nothing else is in holdover" "$(on_client status pulses | json status)" holdover
watches pulses "the receiver is gone"
[ "$tap_failed" = 0 ] || logs
stop_all
ok "the module goes" rmmod vm_pps

# ptp4l by its servo that steers nothing and writes into a segment.
ok "a wire" ip -n server link add ptp0 type veth peer name ptp1 netns client
ip -n server link set ptp0 up
ip -n client link set ptp1 up
for end in server client; do
    printf '%s\n' "[global]" "time_stamping software" "network_transport L2" "logAnnounceInterval 0" "logSyncInterval 0" \
        "uds_address /tmp/ptp4l-$end.socket" >/tmp/ptp4l-$end.conf
done
printf '%s\n' "free_running 1" "priority1 1" >>/tmp/ptp4l-server.conf
printf '%s\n' "slaveOnly 1" "clock_servo ntpshm" "ntpshm_segment 3" >>/tmp/ptp4l-client.conf
on server ptp4l -f /tmp/ptp4l-server.conf -i ptp0 -m
on client ptp4l -f /tmp/ptp4l-client.conf -i ptp1 -m
follow handed '[[source]]' 'shm = 3' 'error = "100us"' 'name = "ptp4l"' 'trust = true'
ok "ptp4l by shared memory: it synchronises" synchronised handed 60s
sleep 60
is "ptp4l by shared memory: selected" "$(source_of handed ptp4l status)" selected
watches handed "by ptp4l" system
holds "ptp4l by shared memory: it is followed" "$(json max_ns </tmp/handed.json) < 10000"
[ "$tap_failed" = 0 ] || logs
stop_all
finish
