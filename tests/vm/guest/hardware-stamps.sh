# A card stamps the daemon's packets: chronyd, whose card stamps too, at the other end of a wire. What frames wait
# within the daemon's host is not the same both ways, which stamps by software cannot tell from the wire. The card's
# clock is read in each of the three ways; it runs slow, somebody steps it, and it falls silent.
# needs: modules ptp
# needs: programs ip tc chronyd
# needs: built vm_ptp
# shellcheck shell=dash
. /guest/lib.sh
. /guest/net.sh

: "${PPB:=40000}"
# On TAI, 37 s ahead, as ptp4l has cards.
base=1782863437
parameters=/sys/module/vm_ptp/parameters

# follow NAME LINE...: a daemon on the client in interleaved mode, in which chronyd says when its replies left by
# its card, with more lines at the top of its configuration.
follow() {
    follow_page=/run/$1
    shift
    printf '%s\n' "$@" "page = \"$follow_page\"" 'state = "none"' 'counter = "tsc"' 'max-step = "none"' \
        'leap-file = "none"' '[[source]]' "host = \"$server\"" 'poll = 1' 'interleaved = true' >"$follow_page.toml"
    on client truechimer run --config "$follow_page.toml"
}

# source_of PAGE FIELD: of the server in `sources`.
source_of() { on_client sources "$1" | json "name=$server:123/$2"; }

# watches PAGE SECONDS: the page against the system clock, which chronyd serves, into /tmp/PAGE.json.
watches() { truechimer-testbed watch "/run/$1" system "$2" 200 >"/tmp/$1.json"; }

wait_for_tsc
for way in 0 1 2; do
    ok "the module, way $way" insmod /modules/vm_ptp.ko cards=1 "base=$base" "ppb=$PPB" "way=$way" \
        queue=20000 interrupt=120000
    ok "way $way: the wire" cards
    ok "way $way: chronyd answers" start_chronyd "hwtimestamp card1"
    chronyd_pid=${pids##* }
    follow card$way 'hardware-stamps = ["card0"]'
    daemon_pid=${pids##* }
    follow kernel$way
    ok "way $way: it synchronises" synchronised card$way 60s
    ok "way $way: and so does that by the kernel" synchronised kernel$way 60s
    sleep 60
    watches kernel$way 60 &
    watcher=$!
    watches card$way 60
    wait $watcher
    for page in card$way kernel$way; do
        note "$page: median $(json median_ns <"/tmp/$page.json") ns, bound" \
            "$(json median_bound_ns <"/tmp/$page.json") ns, round trip $(source_of $page rtt_ns) ns, stamps" \
            "$(source_of $page sent_stamp_error_ns) and $(source_of $page received_stamp_error_ns) ns"
        is "$page: no bound broken" "$(json broken <"/tmp/$page.json")" 0
    done
    is "way $way: requests by the card" "$(source_of card$way sent_stamp)" hardware
    is "way $way: replies by the card" "$(source_of card$way received_stamp)" hardware
    is "way $way: by the kernel without" "$(source_of kernel$way received_stamp)" kernel
    # What waits in the host, 20 µs before and 120 µs and more after the wire, is half of it in the error by the
    # kernel's stamps, and none of it by the card's.
    holds "way $way: by the kernel it is off by that" "$(figure kernel$way median_ns) > 40000"
    holds "way $way: by the card it is right" "$(figure card$way median_ns) < 1500"
    holds "way $way: the bound is a part of what it is by the kernel" \
        "3 * $(figure card$way median_bound_ns) < $(figure kernel$way median_bound_ns)"
    holds "way $way: few were missed" \
        "$(card card$way sent/hardware) > 20 * ($(card card$way sent/missing) + $(card card$way sent/unfit) + $(card card$way sent/stepped))"

    if [ $way = 0 ]; then
        # Somebody steps it now and then: the next exchange is right again. The other end goes without its card,
        # which has the same clock.
        kill $chronyd_pid
        wait $chronyd_pid
        ok "chronyd answers by the kernel's stamps" start_chronyd
        sleep 5
        watches card0 20 &
        watcher=$!
        for step in 37 -5 1000 0 1 2 3 4 5 6 7 8 9 10 11 12; do
            echo $((step * 1000000000)) >$parameters/ahead
            usleep 900000
        done
        wait $watcher
        is "stepped now and then: no bound broken" "$(json broken </tmp/card0.json)" 0
        is "stepped now and then: the card is used" "$(source_of card0 received_stamp)" hardware

        # In each exchange: no stamp is believed.
        stepped=$(card card0 received/stepped)
        echo 5000000 >$parameters/jump
        watches card0 20
        is "stepped in exchanges: no bound broken" "$(json broken </tmp/card0.json)" 0
        is "stepped in exchanges: the replies are the kernel's" "$(source_of card0 received_stamp)" kernel
        is "stepped in exchanges: so are the requests" "$(source_of card0 sent_stamp)" kernel
        holds "stepped in exchanges: they are counted" "$(card card0 received/stepped) > $stepped + 15"
        ok "stepped in exchanges: the log has it" grep -q "card0: no sound stamp of the card 4 times in a row" /tmp/log.*

        # By so little that reading the clock does not tell it from nothing: it is in the error.
        echo 0 >$parameters/jump
        sleep 5
        error=$(source_of card0 received_stamp_error_ns)
        echo 400 >$parameters/jump
        sleep 5
        watches card0 20
        is "stepped by 400 ns: no bound broken" "$(json broken </tmp/card0.json)" 0
        is "stepped by 400 ns: the stamps are the card's" "$(source_of card0 received_stamp)" hardware
        # Twice, as the card's rate is measured across steps: half of that is room for what reading takes now and then.
        holds "stepped by 400 ns: it is in the error" \
            "$(source_of card0 received_stamp_error_ns) > $error + 400"
        echo 0 >$parameters/jump
        sleep 5
        ok "stepped no more: the log has it" grep -q "card0: the card stamps packets again" /tmp/log.*

        # It falls silent: the kernel's stamps are used, and that is said.
        silent="card0: no sound stamp of the card 4 times in a row"
        before=$(card card0 received/missing) told=$(cat /tmp/log.* | grep -c "$silent")
        echo 1 >$parameters/mute
        sleep 10
        is "silent: replies by the kernel" "$(source_of card0 received_stamp)" kernel
        is "silent: requests by the kernel" "$(source_of card0 sent_stamp)" kernel
        holds "silent: they are counted" "$(card card0 received/missing) > $before + 4"
        holds "silent: the log has it once more" "$(cat /tmp/log.* | grep -c "$silent") == $told + 1"
        watches card0 10
        is "silent: no bound broken" "$(json broken </tmp/card0.json)" 0
        echo 0 >$parameters/mute
        sleep 5
        is "it speaks: replies by the card" "$(source_of card0 received_stamp)" hardware
    fi

    # The setting goes back to what it was.
    ok "way $way: the card stamps" ip netns exec client sh -c 'truechimer-testbed stamping card0 | grep -qx "1 1"'
    kill $daemon_pid
    wait $daemon_pid
    ok "way $way: it does not after the end" \
        ip netns exec client sh -c 'truechimer-testbed stamping card0 | grep -qx "0 0"'
    [ "$tap_failed" = 0 ] || logs
    stop_all
    rm -f /tmp/log.*
    ip -n client link set card0 netns 1 && ip -n server link set card1 netns 1
    ip netns delete client
    ip netns delete server
    ok "way $way: the module goes" rmmod vm_ptp
done
finish
