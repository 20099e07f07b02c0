# The installed units at work under a systemd that may set the clock: the daemon with both drop-ins of docs/use/clockbound.md
# steers the system clock, the gate holds time-sync.target until that is set, YugabyteDB starts behind them as that page has
# it, and clients of ClockBound are told the truth while the daemon is killed and somebody else sets the clock. What keeps
# a unit's control group from devices (DevicePolicy) is in force. The truth is a line over the raw clock.
# needs: system
# needs: modules veth sch_netem
# needs: programs ip tc clockbound-clients
# shellcheck shell=dash
. /guest/lib.sh
. /guest/net.sh

line=1795700000+30000
pages=/run/clockbound
documents=/usr/local/share/doc/truechimer/docs/use
drop_ins=/usr/local/share/truechimer
units=/etc/systemd/system
groups=/sys/fs/cgroup/system.slice
ln -s /run /var/run

# Little more than what orders the units: the system's own would set up a whole machine.
mkdir -p $units/service.d /run/log
printf '[Service]\nStandardOutput=append:/run/log/%%p\nStandardError=inherit\n' >$units/service.d/log.conf
for name in sysinit basic network time-sync multi-user shutdown; do
    printf '[Unit]\nDescription=%s\nDefaultDependencies=no\n' $name >$units/$name.target
done
export SYSTEMD_UNIT_PATH=$units:/usr/local/lib/systemd/system
# systemd on the client, as the first process of its own. A root file system that cannot be left cannot be changed for a
# unit either: another one, of the same files, lies over it.
cat >/tmp/begin <<'BEGIN'
mkdir /tmp/root
mount --make-rprivate /
mount --rbind / /tmp/root
cd /tmp/root
mount --move . /
exec chroot . sh -c '
    mount -t proc proc /proc
    mount -t cgroup2 cgroup2 /sys/fs/cgroup
    : >/run/systemd.log
    mount --bind /run/systemd.log /dev/console
    exec env container=truechimer-vm systemd --unit=basic.target --log-target=console --show-status=0'
BEGIN
# Seen from outside as well.
mount -t cgroup2 cgroup2 /sys/fs/cgroup

# It answers who is in its process namespace.
systemctl() { nsenter -t "$(pidof systemd)" -m -p /usr/local/bin/systemctl --no-ask-password "$@"; }
soon() {
    soon_i=0
    until "$@" >/dev/null 2>&1; do
        soon_i=$((soon_i + 1))
        [ $soon_i -lt 400 ] || return 1
        usleep 100000
    done
}
refused() { ! "$@"; }
has() { [ "$(systemctl show -p "$2" --value "$1")" = "$3" ]; }
# of UNIT: its process, by this namespace's numbers.
of() { head -n 1 "$groups/$1.service/cgroup.procs"; }
field() { sed -n "s/^$1:[[:space:]]*//p" "/proc/$(of "$2")/status"; }
# within UNIT COMMAND...: in its control group, with all of root's rights.
within() {
    within_unit=$1
    shift
    sh -c 'echo 0 >"$0" && exec "$@"' "$groups/$within_unit.service/cgroup.procs" "$@"
}
# documented MARK FILE: the lines of a unit in that page, from the one with the mark on, for this installation.
documented() {
    awk -v mark="$1" '$0 == "      " mark { seen = 1 } seen && /^      / { print substr($0, 7); next } seen { exit }' "$2" |
        sed 's|/usr/bin/truechimer|/usr/local/bin/truechimer|'
}
# off: what the system clock is ahead of the line, ns, to some thousands of instructions of 2 ns.
off() {
    # shellcheck disable=SC2046  # three words
    set -- $(truechimer-testbed clock)
    off_raw=$((($1 + $3) / 2))
    echo $(($2 - ${line%%+*} * 1000000000 - off_raw - off_raw / 100000 * 3))
}
# reads CLIENT PAGE SECONDS READINGS: in the background, into /tmp/CLIENT.json.
readers=
reads() {
    (exec clockbound-clients "$1" $pages/"$2" "$3" "$4" $line) >"/tmp/$1.json" 2>&1 &
    readers="$readers $!"
}
all_read() {
    readers=
    reads 1 shm "$1" 40000
    reads 2 shm0 "$1" 40000
    reads 3 shm1 "$1" 40000
}
await() {
    # shellcheck disable=SC2086  # one word for each
    wait $readers
}
j() { tail -n 1 "/tmp/$1.json" | json "$2"; }
changes() { tail -n 1 "/tmp/$1.json" | sed 's/.*"changes":\[//; s/[^A-Za-z,]//g; s/,,*/ /g; s/^ //; s/ $//'; }

wait_for_tsc
ok "network" network
on server truechimer-testbed serve 0.0.0.0:123 "$line"
ok "the server answers" answers "$server:123"
# The machine's own clock is right, the system's an hour fast.
date -s "@${line%%+*}" >/dev/null
hwclock -u -w
date -s "@$((${line%%+*} + 3600))" >/dev/null
# None of the distribution's choices for a first boot.
echo 5f5c0b6e2f0f4b4f9d5f1c1f6d3c2b1a >/etc/machine-id
ip netns exec client unshare -p -f -m sh /tmp/begin >/run/begin 2>&1 &
ok "systemd starts" soon has basic.target ActiveState active

# As the pages say: the configuration, two drop-ins, the gate for those who read the system clock, and a database.
{
    sed -n '/^\[clockbound\]/,/^```/{/^```/q;p}' $documents/clockbound.md
    printf '[[source]]\nhost = "%s"\npoll = 1\n' "$server"
} >/etc/truechimer.toml
mkdir $units/truechimer.service.d $units/truechimer-wait.service.d
cp $drop_ins/truechimer-discipline.conf $units/truechimer.service.d/discipline.conf
cp $drop_ins/truechimer-clockbound.conf $units/truechimer.service.d/clockbound.conf
documented '[Service]' $documents/service.md >$units/truechimer-wait.service.d/override.conf
{
    documented '[Unit]' $documents/clockbound.md
    printf 'Type=oneshot\nRemainAfterExit=yes\nExecStart=/usr/local/bin/clockbound-clients yugabyte-start %s/shm 120\n' $pages
} >$units/database.service
# Whoever reads the system clock behind the gate.
printf '[Unit]\nAfter=time-sync.target\n[Service]\nType=oneshot\nExecStart=/usr/local/bin/truechimer-testbed clock\n' \
    >$units/reader.service
systemctl daemon-reload
ok "the services are enabled" systemctl enable truechimer truechimer-wait
is "before: the kernel's clock is not synchronised" "$(adjtimex | grep -c UNSYNC)" 1
ok "all of it starts" systemctl start multi-user.target reader database
ok "the reader had its turn behind the gate" soon test -s /run/log/reader
# shellcheck disable=SC2046  # three words
set -- $(tail -n 1 /run/log/reader)
raw=$((($1 + $3) / 2))
is "and found the system clock set" "$((($2 - ${line%%+*} * 1000000000 - raw - raw / 100000 * 3) / 10000000))" 0
is "YugabyteDB starts" "$(tail -n 1 /run/log/database)" started
is "the daemon has the right to set the clock and no other, and cannot get more" \
    "$(field CapEff truechimer) $(field CapPrm truechimer) $(field CapBnd truechimer) $(field NoNewPrivs truechimer)" \
    "0000000002000000 0000000002000000 0000000002000000 1"
is "it is filtered, and not root" "$(field Seccomp truechimer) $(field Uid truechimer | grep -c '^0')" "2 0"
is "the kernel takes its clock for synchronised" "$(adjtimex | grep -c UNSYNC)" 0
note "the system clock is $(off) ns off"
ok "status has the pages" sh -c 'truechimer status | grep "^clockbound *shm synchronized, shm0 synchronized, shm1 synchronized"'

# Killed, and started anew by systemd.
sleep 30
all_read 20
sleep 5
kill -KILL "$(of truechimer)"
ok "a daemon that is killed is started anew" soon has truechimer NRestarts 1
await
for client in 1 2 3; do
    note "killed: client $client: $(tail -n 1 /tmp/$client.json)"
    is "killed: client $client: no bound broken, no error" "$(j $client broken) $(j $client errors)" "0 0"
    is "killed: client $client hears nothing" "$(changes $client)" Synchronized
done
is "it has the same right" "$(field CapEff truechimer)" 0000000002000000

# Somebody else sets the system clock.
sleep 30
all_read 20
sleep 5
date -s "@$(($(date +%s) + 10))" >/dev/null
await
for client in 1 2 3; do note "set: client $client: $(tail -n 1 /tmp/$client.json)"; done
for client in 1 2; do
    is "set: client $client hears of it, and that it is right again" "$(changes $client)" "Synchronized Unknown Synchronized"
    holds "set: client $client was wrong for an instant at most" "$(j $client broken) <= 100"
done
is "set: client 3 has nothing to do with it" "$(changes 3) $(j 3 broken)" "Synchronized 0"
note "the system clock is $(off) ns off"
holds "the system clock is right again" "$(off | tr -d -) < 1000000"

# Devices are refused to the control group, so to root in it as well.
logged="dd if=/dev/kmsg of=/dev/null bs=8k count=1"
# shellcheck disable=SC2086  # its words
ok "outside, root reads the kernel's log" $logged
ok "in the daemon's group root reads what is allowed" within truechimer dd if=/dev/null of=/dev/null count=1
# shellcheck disable=SC2086
ok "and not that, not even root" sh -c "within_said=\$(\"\$@\" 2>&1); echo \"\$within_said\"; echo \"\$within_said\" | grep 'Operation not permitted'" sh \
    sh -c 'echo 0 >"$0" && exec "$@"' "$groups/truechimer.service/cgroup.procs" $logged
ok "the server starts" systemctl start truechimer-serve

for unit in truechimer-serve truechimer-wait truechimer; do
    ok "$unit stops" systemctl stop $unit
    is "and leaves no failure" "$(systemctl show -p Result --value $unit)" success
done
is "nothing in its log was forbidden" "$(grep -ciE 'not permitted|denied|panic' /run/log/truechimer)" 0
[ "$tap_failed" = 0 ] || { logs; for file in /run/begin /run/systemd.log /run/log/*; do sed "s|^|# ${file##*/}: |" "$file"; done; }
stop_all
finish
