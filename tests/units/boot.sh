# Makes a root file system, and becomes systemd in it: of the host's /usr and little else, or, where a package is to be
# tried, a copy of the host's in which the package manager may write. Run by scripts/units as the first process of
# namespaces of its own.
# shellcheck shell=bash
set -eu
# From `env -i`: where to write, the repository, our programs, Corosync, a package or nothing, a server for that.
: "${WORK:?}" "${REPO:?}" "${PROGRAMS:?}" "${COROSYNC?}" "${LIBRARIES:?}" "${PACKAGE?}" "${CHRONYD?}"
root=$WORK/root

ip link set lo up
mount --make-rprivate /
mount -t tmpfs -o mode=755 tmpfs "$root"
if [ -n "$PACKAGE" ]; then
    # What is installed, and nothing of what runs there.
    mkdir "$root"/{upper,work,over}
    mount -t overlay overlay -o "lowerdir=/,upperdir=$root/upper,workdir=$root/work" "$root/over"
    root=$root/over
    rm -rf "$root"/etc/systemd/system/* "$root"/usr/lib/systemd/system/*.wants "$root"/etc/truechimer* \
        "$root"/var/lib/truechimer "$root"/opt
    mkdir -p "$root"/{old,opt/work,opt/bin}
    cp "$PACKAGE" "$root/opt"
    mount -t tmpfs tmpfs "$root/tmp"
else
    mkdir -p "$root"/{usr,etc/systemd/system,proc,sys,dev,run,tmp,old,root,home,srv,opt/work,opt/bin} \
        "$root"/var/{lib/corosync,log/corosync,tmp,cache}
    chmod 1777 "$root/var/tmp"
    ln -s ../run "$root/var/run"
    mount --rbind -o ro /usr "$root/usr"
    for folder in bin sbin lib lib32 lib64; do
        [ ! -e "/$folder" ] || ln -s "usr/$folder" "$root/$folder"
    done
    mount -t tmpfs -o mode=755 tmpfs "$root/usr/local"
    # As users get it: program, units, users, configuration.
    DESTDIR=$root "$REPO/scripts/install" "$PROGRAMS"
    cp "$PROGRAMS/truechimer-testbed" "$root/usr/local/bin"
fi
chmod 1777 "$root/tmp"
mount --bind "$WORK" "$root/opt/work"
# The kernel is the host's: its settings are not for anybody in here, but for those of the network.
mount -t proc proc "$root/proc"
mount -t proc proc "$root/old"
mount --bind "$root/proc/sys" "$root/proc/sys"
mount -o remount,bind,ro "$root/proc/sys"
mount --bind "$root/old/sys/net" "$root/proc/sys/net"
umount -l "$root/old"
mount -t sysfs -o ro sysfs "$root/sys"
mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
mkdir "$root/dev/pts" "$root/dev/shm"
chmod 1777 "$root/dev/shm"
touch "$root/dev/console"
mount --bind "$WORK/systemd" "$root/dev/console"
for device in null zero full random urandom tty; do
    touch "$root/dev/$device"
    mount --bind "/dev/$device" "$root/dev/$device"
done
mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts"
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"
mount -t tmpfs -o mode=755 tmpfs "$root/run"

# The machine's users, the one whose programs the agent serves, one whom `link` admits, and the daemon's.
users() {
    for user in root:0 alice:991 bob:992 nobody:65534; do
        echo "${user%:*}:x:${user#*:}:${user#*:}::/:/usr/sbin/nologin" >>"$root/etc/passwd"
        echo "${user%:*}:x:${user#*:}:" >>"$root/etc/group"
    done
    systemd-sysusers --root="$root" "$root/usr/local/lib/sysusers.d/truechimer.conf"
    echo "passwd: files systemd
group: files systemd
hosts: files" >"$root/etc/nsswitch.conf"
}
[ -n "$PACKAGE" ] || users
echo "127.0.0.1 localhost" >"$root/etc/hosts"
echo 5f5c0b6e2f0f4b4f9d5f1c1f6d3c2b1a >"$root/etc/machine-id"
units=$root/etc/systemd/system
cp "$REPO"/tests/vm/guest/lib.sh "$root/opt/bin"
cp "$REPO/docs/use/clockbound.md" "$root/opt/bin"
# The first lines of that page, which an administrator types.
awk '/^    / { print substr($0, 5); seen = 1; next } seen { exit }' "$REPO/docs/use/install.md" >"$root/opt/bin/commands"
cp "$REPO/tests/units/${PACKAGE:+package-}check.sh" "$root/opt/bin/check.sh"

# What a unit prints is kept outside.
mkdir "$units/service.d"
printf '[Service]\nStandardOutput=append:/opt/work/log/%%p\nStandardError=inherit\n' \
    >"$units/service.d/log.conf"
# The system's own units are left out: they would set up a whole machine, this one.
for name in sysinit basic network time-sync multi-user shutdown; do
    printf '[Unit]\nDescription=%s\nDefaultDependencies=no\n' $name >"$units/$name.target"
done
printf 'Wants=checks.service\n' >>"$units/multi-user.target"
cat >"$units/checks.service" <<'UNIT'
[Unit]
DefaultDependencies=no
[Service]
Type=oneshot
TimeoutStartSec=infinity
ExecStart=/bin/sh -c '/bin/sh /opt/bin/check.sh; echo VM-END rc=$$?'
UNIT
# A server to follow, on this machine; and configurations that have it, and groups.
if [ -n "$PACKAGE" ]; then
    # Not of the package, which is not there yet.
    cp "$CHRONYD" "$root/opt/bin/chronyd"
    printf '%s\n' 'local stratum 1' 'allow' 'cmdport 0' 'bindcmdaddress /run/upstream/socket' \
        'pidfile /run/upstream/pid' >"$root/opt/bin/chrony.conf"
    upstream='/opt/bin/chronyd -d -x -u root -f /opt/bin/chrony.conf'
else
    upstream='/usr/local/bin/truechimer serve --clock system --listen 127.0.0.1:11123'
fi
cat >"$units/upstream.service" <<UNIT
[Unit]
DefaultDependencies=no
[Service]
RuntimeDirectory=upstream
ExecStart=$upstream
UNIT
cat >"$root/opt/bin/truechimer.toml" <<'CONFIG'
[[source]]
host = "localhost:11123"
CONFIG
cat >"$root/opt/bin/truechimer-group.toml" <<'CONFIG'
[[group]]
name = "demo"
local = 3

[[group]]
name = "shop"
local = 1
link = { group = "bob" }

[[group]]
name = "open"
local = 1
link = { mode = "0666" }
CONFIG
if [ -n "$COROSYNC" ] && [ -z "$PACKAGE" ]; then
    cp "$COROSYNC" "$root/opt/bin/corosync"
    if [ -d "$LIBRARIES" ]; then
        cp -rL "$LIBRARIES" "$root/opt/lib"
        printf '[Service]\nEnvironment=LD_LIBRARY_PATH=/opt/lib\n' >"$units/service.d/libraries.conf"
    fi
    mkdir -p "$root/etc/corosync/uidgid.d"
    printf 'uidgid {\n    uid: 991\n}\n' >"$root/etc/corosync/uidgid.d/truechimer"
    # Of one node, so that nothing has to leave this network.
    cat >"$root/etc/corosync/corosync.conf" <<'CONFIG'
totem {
    version: 2
    cluster_name: clocks
    transport: udpu
}
nodelist {
    node {
        nodeid: 1
        ring0_addr: 127.0.0.1
    }
}
quorum {
    provider: corosync_votequorum
}
logging {
    to_syslog: no
    to_stderr: yes
}
CONFIG
    cat >"$units/corosync.service" <<'UNIT'
[Unit]
DefaultDependencies=no
[Service]
ExecStart=/opt/bin/corosync -f
UNIT
    printf '[[group]]\nname = "ledger"\n' >>"$root/opt/bin/truechimer-group.toml"
fi

laid=/usr/local/lib/systemd/system
[ -z "$PACKAGE" ] || laid=/usr/lib/systemd/system
cd "$root"
pivot_root . old
umount -l /old
# What the units are tried with: the right to set the clock, which one of them must get and nobody
# uses. What could load modules, boot or reach devices is given up here.
exec env -i container=truechimer-units PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    "SYSTEMD_UNIT_PATH=/etc/systemd/system:$laid" SYSTEMD_GENERATOR_PATH=/nonexistent \
    setpriv --bounding-set -sys_module,-sys_boot,-sys_rawio,-syslog,-wake_alarm,-mac_admin \
    /lib/systemd/systemd --unit=multi-user.target --log-target=console --show-status=0
