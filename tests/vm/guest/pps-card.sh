# A pulse per second that a card stamps by its own clock, beside a server that says which second it is, and beside the daemon without
# it. The card's clock is not right, runs otherwise than the counter, and is stepped: the pulses are right.
# needs: modules ptp veth
# needs: programs ip tc
# needs: built vm_ptp
# shellcheck shell=dash
. /guest/lib.sh
. /guest/net.sh

: "${PPB:=250}"
base=1782863400
line=$base-$PPB

# A field of the pulse's row in `sources`.
pulse() { truechimer sources --json --control /run/pulse.control 2>/dev/null | json "name=card/$1"; }

wait_for_tsc
ok "network" network
on server truechimer-testbed serve 0.0.0.0:123 "$line"
ok "the server answers" answers "$server:123"
for way in 0 1 2; do
    # Some minutes off, as a card is that nobody keeps.
    ok "the module, way $way" insmod /modules/vm_ptp.ko "base=$base" "ppb=$PPB" "way=$way" ahead=123456789012
    daemon plain tsc 16 'max-step = "none"'
    plain=${pids##* }
    sed 's|/run/plain|/run/pulse|' /run/plain.toml >/run/pulse.toml
    printf '%s\n' '[[source]]' 'pps = "/dev/ptp0"' 'channel = 1' 'latency = "1us"' 'name = "card"' >>/run/pulse.toml
    on client truechimer run --config /run/pulse.toml
    with=${pids##* }
    ok "way $way: the daemon without synchronises" synchronised plain 60s
    ok "way $way: the daemon with it synchronises" synchronised pulse 60s
    sleep 200
    is "way $way: the pulse is selected" "$(pulse status)" selected
    for page in plain pulse; do
        ip netns exec client truechimer-testbed watch /run/$page "line:$line" 60 200 >/tmp/$page.json
        note "way $way, $page: median $(json median_ns </tmp/$page.json) ns, most $(json max_ns </tmp/$page.json) ns," \
            "bound $(json median_bound_ns </tmp/$page.json) ns"
        is "way $way, $page: no bound broken" "$(json broken </tmp/$page.json)" 0
    done
    holds "way $way: the pulse is followed" "$(json max_ns </tmp/pulse.json) < 1500"
    holds "way $way: the pulse makes the bound smaller" \
        "$(json median_bound_ns </tmp/pulse.json) < $(json median_bound_ns </tmp/plain.json)"
    # Somebody steps the card by a little, three times, and by an hour.
    for ahead in 123456784012 123456839012 123756839012 3600123456789; do
        sleep 7
        echo $ahead >/sys/module/vm_ptp/parameters/ahead
    done &
    truechimer-testbed watch /run/pulse "line:$line" 60 200 >/tmp/pulse.json
    is "way $way, stepped: no bound broken" "$(json broken </tmp/pulse.json)" 0
    holds "way $way, stepped: it goes on" "$(json max_ns </tmp/pulse.json) < 1500"
    is "way $way, stepped: the pulse is selected again" "$(pulse status)" selected
    kill "$plain" "$with"
    wait "$plain" "$with" 2>/dev/null
    ok "the module goes" rmmod vm_ptp
done
# No such channel, and no such card.
for wrong in 'pps = "/dev/ptp0"' 'pps = "/dev/ptp7"'; do
    printf '%s\n' "page = \"/run/wrong\"" 'state = "none"' '[[source]]' "host = \"$server\"" '[[source]]' "$wrong" \
        >/run/wrong.toml
    is "$wrong: what the check says" "$(truechimer run --config /run/wrong.toml --check 2>&1 | grep -c "the daemon would wait for the")" 1
done
[ "$tap_failed" = 0 ] || logs
stop_all
finish
