# A card stamps the messages of a PTP port: ptp4l, whose card stamps too, is the master at the other end of a wire, by UDP and by
# Ethernet, end to end and peer to peer. The masters' time is their card's clock; frames wait within the daemon's host as in
# hardware-stamps.sh.
# needs: modules ptp af_packet
# needs: programs ip tc ptp4l
# needs: built vm_ptp
# shellcheck shell=dash
. /guest/lib.sh
. /guest/net.sh

: "${PPB:=4000}"
# The card shows TAI.
tai=1782863437
line=$((tai - 37))-$PPB
# The list of leap seconds, in seconds since 1900: made, good until, TAI - UTC.
printf '%s\n' '#$ 3944678400' '#@ 4007750400' '3692217600 37' >/tmp/leaps

# master TRANSPORT DELAY: ptp4l by its card, whose clock it leaves alone.
master() {
    printf '%s\n' "[global]" "time_stamping hardware" "network_transport $1" "delay_mechanism $2" "free_running 1" \
        "clockClass 6" "clockAccuracy 0x20" "utc_offset 37" "logAnnounceInterval 0" "logSyncInterval 0" \
        "tx_timestamp_timeout 100" "uds_address /tmp/ptp4l.socket" >/tmp/ptp4l.conf
    on server ptp4l -f /tmp/ptp4l.conf -i card1 -m
}

# follow NAME TRANSPORT DELAY LINE...: a daemon with a port there.
follow() {
    follow_page=/run/$1 follow_transport=$2 follow_delay=$3
    shift 3
    printf '%s\n' "$@" "page = \"$follow_page\"" 'state = "none"' 'counter = "tsc"' 'max-step = "none"' \
        'leap-file = "/tmp/leaps"' '[[source]]' 'ptp = "card0"' "transport = \"$follow_transport\"" \
        "delay = \"$follow_delay\"" 'error = "100ns"' >"$follow_page.toml"
    on client truechimer run --config "$follow_page.toml"
}

# source_of PAGE FIELD: of the port in `sources`.
source_of() { on_client sources "$1" | json "kind=ptp/$2"; }
wait_for_tsc
ok "the module" insmod /modules/vm_ptp.ko cards=1 "base=$tai" "ppb=$PPB" queue=20000 interrupt=120000
ok "the wire" cards
while read -r transport theirs delay; do
    what="$transport, $delay"
    master "$theirs" "$(echo "$delay" | tr a-z A-Z)"
    follow card "$transport" "$delay" 'hardware-stamps = ["card0"]'
    ok "$what: it synchronises" synchronised card 60s
    sleep 60
    truechimer-testbed watch /run/card "line:$line" 60 200 >/tmp/card.json
    note "$what: median $(json median_ns </tmp/card.json) ns, bound $(json median_bound_ns </tmp/card.json) ns," \
        "round trip $(source_of card rtt_ns) ns, stamps $(source_of card sent_stamp_error_ns) and" \
        "$(source_of card received_stamp_error_ns) ns; $(card card sent) $(card card received)"
    is "$what: no bound broken" "$(json broken </tmp/card.json)" 0
    is "$what: questions by the card" "$(source_of card sent_stamp)" hardware
    is "$what: messages by the card" "$(source_of card received_stamp)" hardware
    holds "$what: it is right" "$(figure card median_ns) < 1500"
    [ "$tap_failed" = 0 ] || logs
    stop_all
    rm -f /tmp/log.*
done <<END
udp4 UDPv4 e2e
ethernet L2 p2p
END

# By the kernel's stamps, for comparison.
master UDPv4 E2E
follow kernel udp4 e2e
ok "by the kernel: it synchronises" synchronised kernel 60s
sleep 60
truechimer-testbed watch /run/kernel "line:$line" 60 200 >/tmp/kernel.json
note "by the kernel: median $(json median_ns </tmp/kernel.json) ns, bound $(json median_bound_ns </tmp/kernel.json) ns"
is "by the kernel: no bound broken" "$(json broken </tmp/kernel.json)" 0
holds "by the kernel: it is off by what waits" "$(figure kernel median_ns) > 40000"
[ "$tap_failed" = 0 ] || logs
stop_all
ok "the module goes" rmmod vm_ptp
finish
