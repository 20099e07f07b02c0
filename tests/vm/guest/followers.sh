# What follows a PTP master and what follows an NTP server, the same clock's, by software stamps: WHO steers the system clock, beside it
# two daemons keep clocks of their own, one by either protocol. In each of ROWS every clock is read beside the truth at one moment, by
# cross stamps of hardware. The oscillator wanders, and interrupts are late by up to LATE ns. tests/vm/followers makes tables of it.
# needs: modules ptp af_packet
# needs: programs ip tc ptp4l ptpd chronyd ntpd
# needs: built vm_ptp
# shellcheck shell=dash
. /guest/lib.sh
. /guest/net.sh

: "${WHO:=pi}" "${ROWS:=quiet shifted}" "${FIRST:=60}" "${SETTLE:=60}" "${LENGTH:=60}" "${SEED:=1}" "${LATE:=15000}"
# The master's clock shows TAI, loses 4 ppm, and its rate walks by 10^-9 a root second.
tai=1782863437
# What makes the two ways even but for interrupts that come late, by up to 15 us: a frame waits in the client's card for as long
# as its bytes and the kernel's timers take on the way back, ns. A reply of NTP leaves after its time was read by as much.
wait=12000 lead=5500
printf '%s\n' '#$ 3944678400' '#@ 4007750400' '3692217600 37' >/tmp/leaps

# master N: a clock of number N serves the truth, by PTP and by NTP.
master() {
    printf '%s\n' "[global]" "time_stamping hardware" "free_running 1" "clockClass 6" "clockAccuracy 0x20" "utc_offset 37" \
        "logAnnounceInterval 0" "logSyncInterval 0" "tx_timestamp_timeout 100" "uds_address /tmp/master$1" \
        "clockIdentity 00000$1.0000.000000" >"/tmp/master$1.conf"
    on server ptp4l -f "/tmp/master$1.conf" -i card1 -m
    master_ptp=${pids##* }
    on server truechimer-testbed serve "192.0.2.$1:123" "clock:/dev/ptp0:37:$lead"
    master_ntp=${pids##* }
}

lose_master() { kill "$master_ptp" "$master_ntp"; }

# Whoever steers the system clock.
follower() {
    case $WHO in
    pi | linreg)
        printf '%s\n' "[global]" "time_stamping software" "slaveOnly 1" "clock_servo $WHO" "tx_timestamp_timeout 100" \
            "uds_address /tmp/follower" "summary_interval 6" >/tmp/follower.conf
        on client ptp4l -f /tmp/follower.conf -i card0 -m ;;
    ptpd)
        on client ptpd -i card0 -s -C --global:ignore_lock=1 \
            --ptpengine:delay_mechanism=E2E --ptpengine:always_respect_utc_offset=Y ;;
    chronyd)
        mkdir -p /var/lib/chrony /run/chrony
        printf '%s\n' "server 192.0.2.1 minpoll 0 maxpoll 0" "server 192.0.2.3 minpoll 0 maxpoll 0" "makestep 0.001 3" \
            "cmdport 0" "bindcmdaddress /" "user root" "pidfile /run/chronyd.pid" >/tmp/follower.conf
        on client chronyd -d -f /tmp/follower.conf ;;
    ntpd)
        printf '%s\n' "server 192.0.2.1 minpoll 0 maxpoll 0 iburst" "server 192.0.2.3 minpoll 0 maxpoll 0 iburst" \
            "disable monitor" "driftfile /tmp/drift" >/tmp/follower.conf
        # It takes a quarter of an hour to find its rate, and keeps it from one start to the next.
        echo -4.000 >/tmp/drift
        on client ntpd -n -g -c /tmp/follower.conf ;;
    esac
}

# ours NAME LINE...: a daemon of ours with these sources.
ours() {
    ours_page=/run/$1
    shift
    printf '%s\n' "page = \"$ours_page\"" 'state = "none"' 'counter = "raw"' 'max-step = "none"' 'leap-file = "/tmp/leaps"' \
        "$@" >"$ours_page.toml"
    on client truechimer run --config "$ours_page.toml"
}

# A fifth of the time computing, and a tenth packets on the client as fast as they go.
stress() {
    while :; do
        usleep 400000
        timeout -s KILL 0.2 sh -c 'while :; do :; done'
        usleep 300000
        timeout -s KILL 0.1 /usr/local/bin/ip netns exec client ping -q -A 127.0.0.1
    done >/dev/null 2>&1
}

# set_card NAME VALUE: a parameter of the cards.
set_card() { echo "$2" >"/sys/module/vm_ptp/parameters/$1"; }

# Says whether each reading of each of ours was within its bound.
# shellcheck disable=SC2016  # awk's
judge='{ for (i = 3; i <= 4; i++) { n++; if (split($i, p, ":") == 2 && p[2] != "-" && p[1] * p[1] <= p[2] * p[2]) inside++ } }
END { exit (n == 0 || inside != n) }'

# happens ROW, undone ROW: what it is about, from its tenth second to its end.
happens() {
    case $1 in
    loaded) stress & load=$! ;;
    queues) set_card busy 200000 ;;
    shifted) set_card wire 205000 ;;
    changed) lose_master; master 3 ;;
    lost) lose_master ;;
    esac
}
undone() {
    case $1 in
    loaded) kill "$load"; wait "$load" 2>/dev/null ;;
    queues) set_card busy 0 ;;
    shifted) set_card wire 5000 ;;
    changed) lose_master; master 1 ;;
    lost) master 1 ;;
    esac
}

wait_for_tsc
ok "the module" insmod /modules/vm_ptp.ko cards=1 "base=$tai" ppb=4000 walk=1732000 "seed=$SEED" \
    queue=$wait "late=$LATE"
ok "the wire" cards
ip -n server address add 192.0.2.3/24 dev card1
date -s "@$((tai - 37))" >/dev/null
master 1
follower
ours ptp '[[source]]' 'ptp = "card0"' 'error = "100ns"'
ours ntp '[[source]]' 'host = "192.0.2.1"' 'poll = 1' '[[source]]' 'host = "192.0.2.3"' 'poll = 1'
for page in ptp ntp; do ok "$page: synchronises" synchronised $page 60s; done
sleep "$FIRST"
for row in $ROWS; do
    sleep "$SETTLE"
    truechimer-testbed errors /dev/ptp0 37 "$LENGTH" 1000 /run/ptp /run/ntp >/tmp/errors &
    reader=$!
    sleep 10
    happens "$row"
    wait $reader
    undone "$row"
    sed "s/^/= $WHO $SEED $row /" /tmp/errors
    ok "$row: every reading of ours is inside its bound" awk "$judge" /tmp/errors
done
[ "${LOGS:-}" = "" ] || logs
[ "$tap_failed" = 0 ] || logs
stop_all
finish
