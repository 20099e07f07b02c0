# A pulse per second as a source of the daemon, beside a server that says which second it is. Server
# and pulses keep the same time: the raw clock's, slow by a known part.
# needs: modules pps_core veth
# needs: programs ip tc
# needs: built vm_pps
# shellcheck shell=dash
. /guest/lib.sh
. /guest/net.sh

: "${PPB:=250}"

wait_for_tsc
ok "the module" insmod /modules/vm_pps.ko "ppb=$PPB"
sleep 3
note "$(cat /sys/class/pps/pps0/assert)"

# The daemon: a server for the second's number, the pulse for the rest.
base=1782863400
line=$base-$PPB
ok "network" network
on server truechimer-testbed serve 0.0.0.0:123 "$line"
ok "the server answers" answers "$server:123"
daemon plain tsc 16 'max-step = "none"'
cat >/run/pulse.toml <<END
page = "/run/pulse"
state = "none"
counter = "tsc"
max-step = "none"
[[source]]
host = "$server"
poll = 16
[[source]]
pps = "/dev/pps0"
latency = "1us"
END
on client truechimer run --config /run/pulse.toml
ok "the daemon without synchronises" synchronised plain 60s
ok "the daemon with it synchronises" synchronised pulse 60s
sleep 300
for page in plain pulse; do
    ip netns exec client truechimer-testbed watch /run/$page "line:$line" 120 200 >/tmp/$page.json
    note "$page: median $(json median_ns </tmp/$page.json) ns, IQR $(json iqr_ns </tmp/$page.json) ns," \
        "bound $(json median_bound_ns </tmp/$page.json) ns"
    is "$page: no bound broken" "$(json broken </tmp/$page.json)" 0
done
holds "the pulse is followed to a microsecond" "$(json max_ns </tmp/pulse.json) < 1000"
holds "the pulse makes the bound smaller" \
    "$(json median_bound_ns </tmp/pulse.json) < $(json median_bound_ns </tmp/plain.json)"
[ "$tap_failed" = 0 ] || logs
stop_all
ok "the module goes" rmmod vm_pps
finish
