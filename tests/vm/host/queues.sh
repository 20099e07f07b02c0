#!/bin/sh
# queues.sh QUEUES EMULATOR...: runs the emulator with two cards of so many queues, whose taps a bridge joins, in a network
# namespace that is gone with it. A tap holds more frames than any test sends: none is lost outside the guest.
queues=$1
shift
vectors=$((2 * queues + 2))
ip link add name br0 type bridge mcast_snooping 0 && ip link set br0 up || exit 1
for n in 0 1; do
    ip tuntap add dev tap$n mode tap multi_queue &&
        ip link set tap$n txqueuelen 30000 master br0 up || exit 1
    # Without offloads, which XDP does not go with.
    set -- "$@" -netdev "tap,id=wire$n,ifname=tap$n,queues=$queues,vhost=off,script=no,downscript=no" \
        -device "virtio-net-pci,netdev=wire$n,mq=on,vectors=$vectors,mac=02:00:00:00:48:0$((n + 1)),csum=off,guest_csum=off,gso=off,guest_tso4=off,guest_tso6=off,guest_ecn=off,guest_ufo=off,host_tso4=off,host_tso6=off,host_ecn=off,host_ufo=off"
done
exec "$@"
