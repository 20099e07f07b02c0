# What the units have to do, and what they must not be able to. Runs beside them, as root, under
# the systemd that tests/units/boot.sh has started.
# shellcheck shell=dash
# shellcheck source=tests/vm/guest/lib.sh
. /opt/bin/lib.sh

# As somebody who is neither root nor a unit's user.
as() { who=$1; shift; setpriv --reuid "$who" --regid "$who" --clear-groups --inh-caps=-all "$@"; }
pid() { systemctl show -p MainPID --value "$1"; }
# FIELD UNIT: of the process's status.
field() { sed -n "s/^$1:[[:space:]]*//p" "/proc/$(pid "$2")/status"; }
# UNIT COMMAND...: a command as root that sees the files as that unit does.
within() { nsenter -t "$inside" -m "$@"; }
refused() { ! "$@"; }
soon() {
    soon_end=$(($(date +%s) + 40))
    until "$@" >/tmp/soon.out 2>&1; do
        [ "$(date +%s)" -lt $soon_end ] || { cat /tmp/soon.out; return 1; }
        sleep 0.1
    done
}
runs_ours() { [ "$(readlink "/proc/$(pid "$1")/exe")" = /usr/local/bin/truechimer ]; }
laid=/usr/local/lib/systemd/system
# UNIT [TENTHS]
exposure() { systemd-analyze security --offline=true --no-pager --threshold="${2:-15}" "$laid/$1"; }
# UNIT PROPERTY VALUE
has() { [ "$(systemctl show -p "$2" --value "$1")" = "$3" ]; }

# UNIT: hangs, is ended for it and started anew.
hangs() {
    mkdir "$drop_ins/$1.service.d"
    # Long enough for a busy machine, on which each turn of a daemon takes its time.
    printf '[Service]\nWatchdogSec=10\nLimitCORE=0\n' >"$drop_ins/$1.service.d/watchdog.conf"
    systemctl daemon-reload
    systemctl restart "$1"
    before=$(pid "$1")
    kill -STOP "$before"
    ok "$1 is started anew where it hangs" soon has "$1" NRestarts 1
    soon has "$1" ActiveState active
    ok "as another process" [ "$(pid "$1")" != "$before" ]
    rm -r "$drop_ins/$1.service.d"
    systemctl daemon-reload
}
drop_ins=/etc/systemd/system

# UNIT DROP-IN CURL'S-ARGUMENTS NAME: metrics as docs/use/service.md has them, among which is that name.
metered() {
    unit=$1 drop_in=$2 url=$3 name=$4
    command -v curl >/dev/null || { skip "$unit serves metrics" "no curl"; return; }
    mkdir -p "$drop_ins/$unit.service.d"
    printf '[Service]\nExecStart=\n%b\n' "$drop_in" >"$drop_ins/$unit.service.d/metrics.conf"
    systemctl daemon-reload
    systemctl restart "$unit"
    ok "$unit serves metrics, confined as it is" soon sh -c "curl -sf $url | grep $name"
    rm "$drop_ins/$unit.service.d/metrics.conf"
    rmdir "$drop_ins/$unit.service.d"
    systemctl daemon-reload
    systemctl restart "$unit"
}

# UNIT CAPABILITIES: how it is confined.
confined() {
    # systemd sets it up, and only then it becomes our program.
    soon runs_ours "$1" || systemctl status --no-pager "$1" | sed 's/^/# /'
    inside=$(pid "$1")
    ok "$1 runs" within true
    is "$1 has these rights and cannot get more" \
        "$(field CapEff "$1") $(field CapPrm "$1") $(field CapBnd "$1") $(field NoNewPrivs "$1")" "$2 $2 $2 1"
    is "$1 is filtered" "$(field Seccomp "$1")" 2
    for path in /etc/x /usr/x /usr/local/bin/x /var/lib/x /boot/x; do
        [ -d "${path%/*}" ] || continue
        ok "$1 cannot write in ${path%/*}" refused within touch "$path"
    done
    # Which root can, outside.
    forward=/proc/sys/net/ipv4/ip_forward
    ok "root can change the network's settings" \
        sh -c "cat $forward >/tmp/forward && cat /tmp/forward >$forward"
    ok "$1 cannot change the kernel's settings" refused within sh -c "echo 0 >$forward"
    ok "$1 sees no devices" refused within sh -c 'ls -d /dev/rtc* /dev/mem /dev/vd* /dev/sd* /dev/tty0'
}

for unit in truechimer.service truechimer-wait.service truechimer-serve.service truechimer-probe.service \
    truechimer-group@.service; do
    ok "$unit is understood" systemd-analyze verify --man=no "$laid/$unit"
    ok "$unit is exposed by 1.5 at most" exposure "$unit"
done
while read -r unit tenths; do
    ok "$unit is understood" systemd-analyze verify --man=no "$laid/$unit"
    ok "$unit is exposed by $tenths tenths at most" exposure "$unit" "$tenths"
    ok "and by no less than is said" refused exposure "$unit" $((tenths - 1))
done <<'EXPOSED'
truechimer-front@.service 73
truechimer-replica@.service 87
EXPOSED

# What more rights cost: DROP-IN TENTHS, as docs/use/service.md has them.
within_tenths() {
    SYSTEMD_UNIT_PATH=/tmp/exposed systemd-analyze security --offline=true --no-pager --threshold="$1" \
        /tmp/exposed/truechimer.service
}
while read -r name tenths; do
    mkdir -p /tmp/exposed/truechimer.service.d
    cp $laid/truechimer.service /tmp/exposed
    for one in $(echo "$name" | tr + ' '); do
        cp /usr/local/share/truechimer/truechimer-$one.conf /tmp/exposed/truechimer.service.d
    done
    ok "with truechimer-$name.conf the daemon is exposed by $tenths tenths at most" within_tenths "$tenths"
    ok "and by no less than is said" refused within_tenths $((tenths - 1))
    rm -r /tmp/exposed
done <<'EXPOSED'
devices 12
clockbound 12
ptp 16
hardware-stamps 18
discipline 19
discipline+clockbound 20
EXPOSED

ok "without a server in its configuration the daemon does not start" refused systemctl start truechimer
ok "and says what to do" grep -F '/etc/truechimer.toml: no server to follow: add a [[source]]' /opt/work/log/truechimer
: >/opt/work/log/truechimer
cp /opt/bin/truechimer.toml /opt/bin/truechimer-group.toml /etc
systemctl reset-failed truechimer

ok "the daemon starts" systemctl start truechimer
ok "and is ready then" test -e /run/truechimer/clock || { systemctl status --no-pager truechimer; echo "Bail out! no daemon"; exit 1; }
ok "the log says what configuration it read" grep -F "configuration /etc/truechimer.toml" /opt/work/log/truechimer
# Its server is not there yet.
systemctl start --no-block truechimer-wait
ok "time-sync.target waits" soon has truechimer-wait ActiveState activating
is "as it should" "$(systemctl show -p ActiveState --value time-sync.target)" inactive
systemctl start upstream
ok "until the clock is synchronised" soon systemctl is-active time-sync.target
ok "it synchronises, as anybody can see" as nobody truechimer waitsync --timeout 60s
is "the page is for all to read" "$(stat -c '%a %U' /run/truechimer/clock)" "644 truechimer"
is "the control socket is for all to ask" \
    "$(stat -c '%a %U %F' /run/truechimer/clock.control)" "666 truechimer socket"
ok "anybody may ask" as nobody truechimer status
confined truechimer 0000000000000000
ok "the rate is kept" grep -F "is kept in /var/lib/truechimer/rate.json" /opt/work/log/truechimer
ok "its folder can be written to" within touch /var/lib/truechimer/x
before=$(pid truechimer)
ok "it is told to read its configuration again" systemctl reload truechimer
ok "and does" soon grep -F "the configuration was read again" /opt/work/log/truechimer
is "without a restart" "$(pid truechimer)" "$before"
is "and is done with that" "$(systemctl show -p ActiveState --value truechimer)" active
page=$(stat -c %i /run/truechimer/clock)
# From here on with a filter of system calls of its own, within the unit's.
sed -i '1i seccomp = "kill"' /etc/truechimer.toml
ok "it is restarted" systemctl restart truechimer
ok "and synchronises" as nobody truechimer waitsync --timeout 60s
ok "under a filter of its own" grep -F "system calls (seccomp), any other ends the process" /opt/work/log/truechimer
is "readers keep the page" "$(stat -c %i /run/truechimer/clock)" "$page"
hangs truechimer
ok "and synchronises" as nobody truechimer waitsync --timeout 60s
is "readers keep the page" "$(stat -c %i /run/truechimer/clock)" "$page"
ok "it leaves no trouble in its log" refused grep -iE "not permitted|denied|panic" /opt/work/log/truechimer

# Not with `discipline = true`: this machine's clock is not ours to set. That its state can be read
# shows that the filter is open.
drop=$drop_ins/truechimer.service.d
mkdir $drop
cat >$drop/adjtimex.conf <<'UNIT'
[Service]
ExecStartPre=/usr/bin/python3 -c "import ctypes, sys; sys.exit(ctypes.CDLL(None).adjtimex((ctypes.c_char * 512)()) < 0)"
UNIT
systemctl daemon-reload
ok "without more rights the clock's state is not even read" refused systemctl restart truechimer
cp /usr/local/share/truechimer/truechimer-discipline.conf $drop/discipline.conf
systemctl daemon-reload
systemctl reset-failed truechimer
ok "it starts with the right to set the clock" systemctl restart truechimer
confined truechimer 0000000002000000
ok "and synchronises" as nobody truechimer waitsync --timeout 60s
rm -r $drop
mkdir $drop
# Ports of PTP, that nobody answers at.
printf '[[source]]\nptp = "lo"\n[[source]]\nptp = "lo"\ntransport = "ethernet"\n' >>/etc/truechimer.toml
systemctl daemon-reload
systemctl restart truechimer
ok "without more rights there is no port of PTP, and it says why" \
    soon sh -c '[ "$(truechimer sources --json | grep -o truechimer-ptp.conf | wc -l)" = 2 ]'
cp /usr/local/share/truechimer/truechimer-ptp.conf $drop/ptp.conf
systemctl daemon-reload
systemctl restart truechimer
ok "with them it listens by UDP and by Ethernet" \
    soon sh -c '[ "$(truechimer sources --json | grep -o "no PTP master announces itself" | wc -l)" = 2 ]'
confined truechimer 0000000000002400
rm -r $drop
# Receivers' programs, as docs/use/references.md has them: a socket by a link, and a segment of shared memory.
cp /opt/bin/truechimer.toml /etc
printf '[[source]]\nsock = "/run/truechimer/gps.sock"\nname = "gps"\nerror = "1s"\n[[source]]\nshm = 0\nerror = "1s"\n' >>/etc/truechimer.toml
echo 'L+ /run/chrony.ttyS0.sock - - - - /run/truechimer/gps.sock' >/tmp/gpsd.conf
ok "the link is made" systemd-tmpfiles --create /tmp/gpsd.conf
systemctl daemon-reload
systemctl restart truechimer
cat >/tmp/receiver.py <<'RECEIVER'
import ctypes, socket, struct, sys, time
libc = ctypes.CDLL(None, use_errno=True)
libc.shmat.restype = ctypes.c_void_p
# The daemon makes it.
while (segment := libc.shmget(0x4e545030, 96, 0o600)) < 0:
    time.sleep(0.2)
at = libc.shmat(segment, None, 0)
if at == ctypes.c_void_p(-1).value:
    sys.exit("not attached: %d" % ctypes.get_errno())
print("attached", flush=True)
out = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
while True:
    time.sleep(0.2)
    ns = time.time_ns()
    s, us, left = ns // 10**9, ns // 1000 % 10**6, ns % 1000
    # struct shmTime in mode 0.
    nanos = us * 1000 + left
    sample = struct.pack("@iiqiqiiiiiII", 0, 0, s, us, s, us, 0, -10, 0, 1, nanos, nanos)
    ctypes.memmove(at, sample, len(sample))
    try:
        out.sendto(struct.pack("=qqdiiii", s, us, 0.0, 0, 0, 0, 0x534f434b), "/run/chrony.ttyS0.sock")
    except OSError:
        pass
RECEIVER
# NAME: samples of that source that were used by the daemon as it runs now.
# shellcheck disable=SC2329  # by ok
used() { truechimer sources --json --control /run/truechimer/clock.control | json "name=$1/accepted" | grep -x '[1-9][0-9]*'; }
soon test -S /run/truechimer/gps.sock
python3 /tmp/receiver.py >/tmp/receiver.log 2>&1 &
receiver=$!
ok "the receiver writes where the daemon reads" soon grep attached /tmp/receiver.log
ok "samples come by the link" soon used gps
ok "samples come by shared memory" soon used shm0
ok "the daemon is restarted" systemctl restart truechimer
ok "samples still come by the link" soon used gps
ok "samples still come by shared memory, from who wrote it before" soon used shm0
ok "cards' clocks are among the devices that may be had" grep -x 'DeviceAllow=char-ptp r' /usr/local/share/truechimer/truechimer-devices.conf
kill $receiver
mkdir $drop
# Stamps by the card of an interface that has none: nothing is changed that would have to be put back.
cp /opt/bin/truechimer.toml /etc
sed -i '1i hardware-stamps = ["lo"]' /etc/truechimer.toml
cp /usr/local/share/truechimer/truechimer-hardware-stamps.conf $drop/hardware-stamps.conf
systemctl daemon-reload
systemctl restart truechimer
ok "who has no card hears so" soon grep -F "lo: no hardware stamps: " /opt/work/log/truechimer
ok "and synchronises" as nobody truechimer waitsync --timeout 60s
is "no right is left where no card was changed" "$(field CapEff truechimer) $(field CapPrm truechimer)" \
    "0000000000000000 0000000000000000"
rm -r $drop
mkdir $drop
# A page of ClockBound's that takes no right to set the clock.
cp /opt/bin/truechimer.toml /etc
printf '[clockbound]\npages = ["shm1"]\n' >>/etc/truechimer.toml
cp /usr/local/share/truechimer/truechimer-clockbound.conf $drop/clockbound.conf
systemctl daemon-reload
if systemctl restart truechimer || ! grep -F "clients of ClockBound's" /opt/work/log/truechimer; then
    ok "it starts with a page of ClockBound's" systemctl restart truechimer
    ok "and synchronises" as nobody truechimer waitsync --timeout 60s
    is "the page is for all to read" "$(stat -c '%a %U' /var/run/clockbound/shm1)" "644 truechimer"
    confined truechimer 0000000000000000
    # Whatever has its name, of another user.
    cp /bin/sleep /tmp/clockbound
    /tmp/clockbound 1000 &
    other=$!
    systemctl stop truechimer
    ok "it does not start beside a ClockBound" refused systemctl start truechimer
    ok "and says why" grep -F "a ClockBound runs (process $other)" /opt/work/log/truechimer
    kill $other
    systemctl reset-failed truechimer
else
    skip "a page of ClockBound's" "this machine's counter is none that its clients read"
fi
# Those that bound the system clock, by both drop-ins as docs/use/clockbound.md has it; but without the right to set
# this machine's clock, which is not ours.
rm /etc/truechimer.toml
sed -n '/^\[clockbound\]/,/^```/{/^```/q;s/, "shm1"//;p}' /opt/bin/clockbound.md >/etc/truechimer.toml
cat /opt/bin/truechimer.toml >>/etc/truechimer.toml
cp /usr/local/share/truechimer/truechimer-discipline.conf $drop/discipline.conf
printf '[Service]\nAmbientCapabilities=\nCapabilityBoundingSet=\n' >$drop/zz-not-here.conf
: >/opt/work/log/truechimer
systemctl daemon-reload
ok "it starts with pages that bound the system clock" systemctl restart truechimer
confined truechimer 0000000000000000
ok "and synchronises" as nobody truechimer waitsync --timeout 60s
for page in shm shm0; do
    is "the page $page is for all to read" "$(stat -c '%a %U' /var/run/clockbound/$page)" "644 truechimer"
done
ok "as it may not set the system clock, it says so" \
    soon grep -F "system clock: left alone: not permitted to steer it" /opt/work/log/truechimer
ok "and the pages promise nothing" soon sh -c 'truechimer status | grep -x "clockbound *shm unknown, shm0 unknown"'
rm -r $drop
: >/opt/work/log/truechimer
cp /opt/bin/truechimer.toml /etc
systemctl daemon-reload
systemctl restart truechimer

ok "the server starts" systemctl start truechimer-serve
confined truechimer-serve 0000000000000400
as nobody truechimer run --server 127.0.0.1 --page /tmp/second --control none >/opt/work/log/second 2>&1 &
second=$!
ok "who follows it synchronises" as nobody truechimer waitsync --page /tmp/second --timeout 60s
kill $second
# What the kernel can do for whoever is under no filter of system calls.
landlock=$(grep -o 'Landlock, ABI [0-9]*' /opt/work/log/second)
for unit in truechimer truechimer-serve; do
    ok "$unit confines itself as far as the kernel can" grep -F "${landlock:-files and programs are not limited}" /opt/work/log/$unit
done
[ -z "$landlock" ] || ok "to its own directories" \
    grep -F 'sandbox: writes only below /run/truechimer, /var/lib/truechimer, starts no program' /opt/work/log/truechimer
before=$(pid truechimer-serve)
ok "it is told to read certificate and keys again" systemctl reload truechimer-serve
ok "which ends nothing" refused sh -c "sleep 1; ! kill -0 $before"
hangs truechimer-serve
metered truechimer-serve \
    'ExecStart=/usr/local/bin/truechimer serve --clock page --seccomp --metrics 127.0.0.1:9925\nSocketBindAllow=tcp:9925' \
    http://127.0.0.1:9925/metrics truechimer_serve_received_total

(umask 027 && echo '1 SHA256 HEX:000102030405060708090A0B0C0D0E0F' >/etc/truechimer-probe.keys)
chgrp truechimer /etc/truechimer-probe.keys
ok "the reflector starts" systemctl start truechimer-probe
confined truechimer-probe 0000000000000400
ok "it confines itself as far as the kernel can" \
    grep -F "${landlock:-files and programs are not limited}" /opt/work/log/truechimer-probe
install -o nobody -m 600 /etc/truechimer-probe.keys /tmp/probe.keys
ok "who has its key measures by both clocks" \
    soon as nobody sh -c 'truechimer probe -c 3 --keys /tmp/probe.keys --json 127.0.0.1 | grep -F "\"forward\":{\"delay\":{"'
ok "nobody else does" refused as nobody truechimer probe -c 1 --wait 1s 127.0.0.1
hangs truechimer-probe

[ ! -x /opt/bin/corosync ] || { systemctl start corosync; soon sh -c 'ls /dev/shm/qb-corosync-*'; }
mkdir $drop_ins/truechimer-group@.service.d
printf '[Service]\nSupplementaryGroups=bob\n' >$drop_ins/truechimer-group@.service.d/link.conf
systemctl daemon-reload
ok "the agent starts" systemctl start truechimer-group@alice
confined truechimer-group@alice 0000000000000000
ok "a program of its user reads a group's clock" soon as alice truechimer group now --group demo --member 1
ok "nobody else does" refused as nobody truechimer group now --group demo --member 1 --wait 1s
ok "whom link admits does, of that group" soon as bob truechimer group now --group shop
ok "and not of another's" refused as bob truechimer group now --group demo --member 1 --wait 1s
ok "by its mode anybody does" soon as nobody truechimer group now --group open
ok "its floor is on the disk" test -s /var/lib/truechimer/group/demo/1.floor
if [ -x /opt/bin/corosync ]; then
    ok "so does one of a group on Corosync's ring" soon as alice truechimer group now --group ledger
else
    skip "so does one of a group on Corosync's ring" "no corosync"
fi
ok "it is restarted" systemctl restart truechimer-group@alice
ok "and goes on" soon as alice truechimer group now --group demo --member 1
hangs truechimer-group@alice
ok "and goes on" soon as alice truechimer group now --group demo --member 1
ok "the clock's restart leaves it alone" systemctl restart truechimer
ok "it still answers" soon as alice truechimer group now --group demo --member 1
agent='/usr/local/bin/truechimer group agent --config /etc/truechimer-group.toml --metrics'
metered truechimer-group@alice "ExecStart=$agent /run/truechimer/group/metrics" \
    '--unix-socket /run/truechimer/group/metrics http://localhost/metrics' truechimer_group_rounds_total

# A replica of its user, and a front before it.
printf '%s\n' 'FRONT=--group demo --member 2 --listen 127.0.0.1:7001 --connect 127.0.0.1:7002' \
    'REPLICA=--group demo --member 2 --reads delivery -- sleep 1000' >/etc/truechimer-replica-alice.env
# shellcheck disable=SC2329  # by ok
replicates() { grep -x sleep "/proc/$(pid truechimer-replica@alice)/comm" && grep -q libtruechimer_group "/proc/$(pid truechimer-replica@alice)/maps"; }
# shellcheck disable=SC2329  # by ok
anew() { now=$(pid "$1") && [ "$now" != 0 ] && [ "$now" != "$2" ]; }
ok "the front starts" systemctl start truechimer-front@alice
ok "and brings the program, by the group's clock" soon replicates
before=$(pid truechimer-replica@alice) front=$(pid truechimer-front@alice)
ok "the program is killed" kill -9 "$before"
ok "and is started anew" soon anew truechimer-replica@alice "$before"
ok "as a replica" soon replicates
ok "its front goes on" [ "$(pid truechimer-front@alice)" = "$front" ]
before=$(pid truechimer-replica@alice)
ok "the front is killed" kill -9 "$front"
ok "and is started anew" soon anew truechimer-front@alice "$front"
ok "with its program" soon anew truechimer-replica@alice "$before"
ok "as a replica" soon replicates
ok "the front stops" systemctl stop truechimer-front@alice
ok "and its program" soon has truechimer-replica@alice ActiveState inactive

# Those of another user, whom the same agent admits.
ok "without its options a front does not start" refused systemctl start truechimer-front@bob
is "and is not tried again" "$(systemctl show -p ActiveState --value truechimer-front@bob)" inactive
printf '%s\n' 'FRONT=--group shop --listen 127.0.0.1:7003 --connect 127.0.0.1:7004' \
    'REPLICA=--group shop --reads delivery -- sleep 1000' >/etc/truechimer-replica-bob.env
agent=$(pid truechimer-group@alice)
ok "the front of another user starts" systemctl start truechimer-front@bob
# shellcheck disable=SC2329  # by ok
replicates_bob() { grep -x sleep "/proc/$(pid truechimer-replica@bob)/comm" && grep -q libtruechimer_group "/proc/$(pid truechimer-replica@bob)/maps"; }
ok "and brings its program" soon replicates_bob
is "no agent of its own comes" "$(systemctl show -p ActiveState --value truechimer-group@bob)" inactive
is "the one that is there keeps its directories" "$(stat -c %U /run/truechimer/group /var/lib/truechimer/group | tr '\n' ' ')" "alice alice "
is "and goes on" "$(pid truechimer-group@alice)" "$agent"
front=$(pid truechimer-front@bob)
ok "the agent stops" systemctl stop truechimer-group@alice
ok "the front is tried anew until there is one" soon anew truechimer-front@bob "$front"
ok "the agent starts" systemctl start truechimer-group@alice
ok "its program is a replica again" soon replicates_bob
ok "the front stops" systemctl stop truechimer-front@bob
ok "and its program" soon has truechimer-replica@bob ActiveState inactive

for unit in truechimer-group@alice truechimer-probe truechimer-serve truechimer-wait truechimer; do
    ok "$unit stops" systemctl stop $unit
    is "and leaves no failure" "$(systemctl show -p Result --value $unit)" success
done
finish
