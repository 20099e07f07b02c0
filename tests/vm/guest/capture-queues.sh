# Captures of a card with several receive queues, each served by a processor of its own: by every method each flow is there
# whole and in its order, with stamps in order, or the capture says how much it lost.
# needs: modules virtio_pci virtio_net
# needs: programs ip ethtool tcpdump
# needs: queues 4
# needs: time real
# shellcheck shell=dash
. /guest/lib.sh
flows=16 each=${EACH:-400}

# Frames in hexadecimal: UDP of each flow in turn, which has its own source port; the number is IP's identification.
frames() {
    awk -v flows=$flows -v each="$each" 'BEGIN {
        for (n = 0; n < each; n++) for (flow = 0; flow < flows; flow++) {
            printf "0200000048020200000048010800"
            # What all the rest of the header adds up to, and its complement.
            sum = 39234 + n; if (sum > 65535) sum -= 65535
            printf "4500002e%04x00004011%04x0a0000010a000002", n, 65535 - sum
            printf "%04x0009001a0000000000000000000000000000000000000000\n", 1000 + flow
        }
    }'
}

# Packets of each queue of the capturing card so far.
queues() { ethtool -S eth1 | sed -n 's/^ *rx_queue_[0-9]*_packets: //p'; }

# judged FILE: number of our frames, of those out of their flow's order or missing before one, and of stamps that go back in
# a flow. tcpdump prints time and identification in one line, addresses in the next.
judged() {
    tcpdump -Z root -n -tt -v --time-stamp-precision=nano -r "$1" udp and dst port 9 2>/tmp/tcpdump.err | awk '
        / id / { time = $1; sub(/.* id /, ""); sub(/,.*/, ""); id = $0 + 0; next }
        / > / {
            flow = $1
            all++
            if (id != next_id[flow] + 0) gaps++
            next_id[flow] = id + 1
            if (time "" < last[flow] "") back++
            last[flow] = time
        }
        END { print all + 0, gaps + 0, back + 0 }'
}

for name in all default; do echo 1 >/proc/sys/net/ipv6/conf/$name/disable_ipv6; done 2>/dev/null
for card in eth0 eth1; do
    ok "$card has four queues" ethtool -L $card combined 4
    ok "$card comes up" ip link set $card up
done
note "$(nproc) processors"
frames >/tmp/frames
sent=$((flows * each))
is "frames to send" "$(wc -l </tmp/frames)" "$sent"
sleep 2

while read -r name options; do
    queues >/tmp/before
    # shellcheck disable=SC2086  # one word for each
    truechimer capture -i eth1 $options -w "/tmp/$name.pcapng" >/tmp/said 2>&1 &
    pid=$!
    wait_i=0
    until grep -q 'capturing on' /tmp/said || [ $wait_i -gt 200 ]; do
        usleep 100000
        wait_i=$((wait_i + 1))
    done
    sleep 1
    # By one processor: each has its own way out, and one overtakes another.
    ok "$name: frames are sent" taskset 1 truechimer-testbed inject eth0 </tmp/frames
    # Until nothing more comes.
    wait_i=0 size=-1
    while [ $wait_i -lt 60 ] && [ "$size" != "$(wc -c <"/tmp/$name.pcapng")" ]; do
        size=$(wc -c <"/tmp/$name.pcapng")
        sleep 2
        wait_i=$((wait_i + 1))
    done
    kill $pid
    wait $pid
    is "$name: it ends well" $? 0
    # Sums up: received 9, lost 0 interface, 1 kernel, 2 ring, 3 writer.
    told=$(sed -n 's/^received .*lost //p' /tmp/said | tail -n 1 | tr ',' '\n' | awk '$2 ~ /^(interface|kernel|ring|writer)/ { n += $1 } END { print n + 0 }')
    # shellcheck disable=SC2046  # one word for each
    set -- $(judged "/tmp/$name.pcapng")
    shares=$(queues | paste -d ' ' /tmp/before - | awk '{ printf "%s%d", (NR > 1 ? " " : ""), $2 - $1 }')
    note "$name: $(grep 'capturing on' /tmp/said | head -n 1)"
    note "$name: $1 of $sent frames, told lost: $told; by queue: $shares"
    holds "$name: more than one queue has a share" "$(echo "$shares" | tr ' ' '\n' | awk '$1 > 0 { n++ } END { print n + 0 }') > 1"
    is "$name: not one silent loss" $(($1 + told)) "$sent"
    holds "$name: in a flow nothing is out of order, or missing in silence" "$2 <= $told"
    is "$name: stamps of a flow are in order" "$3" 0
    [ "$tap_failed" = 0 ] || {
        ip -s link | sed 's/^/# /'
        ethtool -S eth1 | sed 's/^/# /'
    }
    [ "$tap_failed" = 0 ] || sed 's/^/# /' /tmp/said /tmp/tcpdump.err
    rm -f "/tmp/$name.pcapng"
done <<'END'
packet --method packet
xdp --method xdp --take
xdp-dequeue --method xdp --take --stamp dequeue
xdp-copy --method xdp-copy
END
finish
