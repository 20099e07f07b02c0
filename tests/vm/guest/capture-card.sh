# A card's own stamps in captures, of a card and a wire whose times are known: `capture check` finds what it stamps and
# what lies between, `capture --method hw` gives its stamps the time of the clock page.
# needs: modules ptp veth
# needs: programs ip tc chronyd
# needs: built vm_ptp
# shellcheck shell=dash
. /guest/lib.sh
. /guest/net.sh

# On TAI, 37 s ahead, as ptp4l has cards; slower than the counter by 40 ppm.
base=1782863437
# What a frame waits in card0 before the wire, and after it, ns. It waits nowhere in card1.
queue=20000 interrupt=120000
page=/run/clock

# captured FILE METHOD INTERFACE HOST: in the background, until it is ended.
captured() {
    on "$4" truechimer capture -q -i "$3" --method "$2" -w "/tmp/$1.pcapng" --page $page
}
# between FILE FIELD: of what went from the server to the client, whose capture FILE is, as compared() found it.
between() { json "ways/way=forward/$2" <"/tmp/$1.qos"; }
compared() { truechimer qos --json /tmp/server.pcapng "/tmp/$1.pcapng" >"/tmp/$1.qos" 2>/tmp/qos.err || cat /tmp/qos.err >&2; }

# A third host behind the client, which passes on what comes by the card: both of its interfaces see the same packets.
behind() {
    ip netns add inner && ip -n client link add near type veth peer name far netns inner &&
        ip -n client address add 203.0.113.1/24 dev near && ip -n inner address add 203.0.113.2/24 dev far &&
        ip -n client link set near up && ip -n inner link set far up &&
        ip netns exec client sysctl -q -w net.ipv4.ip_forward=1 &&
        ip -n inner route add default via 203.0.113.1 && ip -n server route add 203.0.113.0/24 via 192.0.2.2
}
# scale FIELD: of what went from the card to the other interface of one capture.
scale() { json "ways/way=forward/$1" </tmp/both.qos; }

wait_for_tsc
for way in ${WAYS:-0 1 2}; do
    ok "the module, way $way" insmod /modules/vm_ptp.ko cards=1 "base=$base" ppb=40000 "way=$way" queue=$queue interrupt=$interrupt
    ok "way $way: the wire" cards
    ok "way $way: chronyd answers" start_chronyd "hwtimestamp card1"
    printf '%s\n' 'hardware-stamps = ["card0"]' "page = \"$page\"" 'state = "none"' 'counter = "tsc"' 'max-step = "none"' \
        'leap-file = "none"' '[[source]]' "host = \"$server\"" 'poll = 1' 'interleaved = true' >$page.toml
    on client truechimer run --config $page.toml
    ok "way $way: it synchronises" synchronised clock 60s
    sleep 30

    # Both cards stamp what is sent as well: the daemon has asked one, chronyd the other.
    (exec /usr/local/bin/ip netns exec server truechimer capture check card1 --page $page --duration 8s >/tmp/check1 2>&1) &
    other=$!
    ok "way $way: what the card claims came" ip netns exec client truechimer capture check card0 --page $page --duration 8s --json
    cp /tmp/ok.out /tmp/check.json
    wait $other
    sed 's/^/# /' /tmp/check1 | head -n 30
    # sent or received: how far the card's stamp is ahead of the driver's, or of the kernel's: half a year, and what a frame waits.
    ahead() { json "comparisons/to=card, $1/offset_ns" </tmp/check.json; }
    for which in sent received; do
        is "way $way: every frame $which by the card" "$(json "stamps/stamp=card, $which/came" </tmp/check.json)" \
            "$(json "stamps/stamp=card, $which/of" </tmp/check.json)"
    done
    # comparison FIELD: of the driver's stamps and the card's, of what was sent.
    comparison() { json "comparisons/to=card, sent/$1" </tmp/check.json; }
    off="($(comparison rate_ppm) + 40)" error="($(comparison rate_error_ppm) + 0.01)"
    holds "way $way: by how much the card's clock is slow" "$off <= 2 * $error && -$off <= 2 * $error"
    # Both by the card against the system clock at the middle of the eight seconds: what is between them is what a frame
    # waited before the wire and after it, but for the frames' different moments by a clock that is slow.
    note "way $way: driver to card $(ahead sent) ns, kernel to card $(ahead received) ns"
    holds "way $way: what frames wait in the card shows" \
        "$(ahead sent) - $(ahead received) > 0.8 * ($queue + $interrupt) && $(ahead sent) - $(ahead received) < 2 * ($queue + $interrupt)"

    # While something arrives: the card stamps it, and is listed so.
    (exec /usr/local/bin/ip netns exec client truechimer-testbed query $server:123 200 20) >/dev/null &
    other=$!
    ip netns exec client truechimer capture -D --measure --json >/tmp/list.json 2>/dev/null
    wait $other
    came() { json "name=card0/came/stamp=card, received/$1" </tmp/list.json; }
    note "way $way: the list: the card stamped $(came came) of $(came of)"
    holds "way $way: the list has what the card stamped" "$(came of) > 0 && $(came came) == $(came of)"

    captured server packet card1 server
    captured card hw card0 client
    captured kernel packet card0 client
    sleep 3
    ip netns exec client truechimer-testbed query $server:123 100 20 >/dev/null
    sleep 3
    # A card in TAI and a wire in the host's time in one file: the same packets, within what they wait in the card.
    ok "way $way: a host behind" behind
    on client truechimer capture -q -i card0=hw -i near=packet -w /tmp/both.pcapng --page $page
    sleep 3
    ip netns exec inner truechimer-testbed query $server:123 100 20 >/dev/null
    sleep 3
    stop_all
    for file in card kernel; do
        compared $file
        note "way $way: $file: $(between $file delay/n) delays, least $(between $file delay/min_ns), median $(between $file delay/median_ns)," \
            "most $(between $file delay/max_ns) ns, bound $(between $file bound_max_ns) ns"
        is "way $way: $file: none below nothing" "$(between $file negative)" 0
        is "way $way: $file: each has a bound" "$(between $file unbounded)" 0
    done
    # The wire takes 5 µs and 10 for the bytes; the server's stamp is some instructions before it.
    for file in card kernel; do
        holds "way $way: $file: replies" "$(between $file delay/n) >= 100"
    done
    holds "way $way: by the card what waits in the host is no part of it" "$(between card delay/median_ns) > 5000 && $(between card delay/median_ns) < 20000"
    holds "way $way: but for the bound" "$(between card delay/min_ns) > 5000 - $(between card bound_max_ns)"
    holds "way $way: by the kernel it is" "$(between kernel delay/median_ns) > $(between card delay/median_ns) + $interrupt"

    truechimer qos --json --between card0,near /tmp/both.pcapng >/tmp/both.qos 2>/tmp/qos.err || sed 's/^/# /' /tmp/qos.err
    note "way $way: card0 to near: $(scale delay/n) delays, least $(scale delay/min_ns), median $(scale delay/median_ns) ns, bound $(scale bound_max_ns) ns"
    holds "way $way: both interfaces have the replies" "$(scale delay/n) >= 100"
    is "way $way: one scale: none below nothing" "$(scale negative)" 0
    is "way $way: one scale: each has a bound" "$(scale unbounded)" 0
    holds "way $way: one scale: what waits in the card, and no 37 s" \
        "$(scale delay/median_ns) > $interrupt - $(scale bound_max_ns) && $(scale delay/median_ns) < 2 * $interrupt + $(scale bound_max_ns) + 1000000"
    [ "$tap_failed" = 0 ] || logs
    rm -f /tmp/log.* /tmp/*.pcapng
    ip -n client link set card0 netns 1 && ip -n server link set card1 netns 1
    ip netns delete inner
    ip netns delete client
    ip netns delete server
    ok "way $way: the module goes" rmmod vm_ptp
done
finish
