# The life of the package, a .deb or an .rpm, as root in a copy of the system's files; tests/install/check starts it.
# shellcheck shell=bash
package=${1:?a .deb or an .rpm}
case $package in
*.deb)
    lay() { dpkg --force-unsafe-io -i "$package"; }
    again() { lay; }
    remove() { dpkg -r truechimer; }
    left=/etc/truechimer.toml
    named=()
    ;;
*.rpm)
    # A database of its own: this system's files belong to another manager, which has what is required as well.
    # What an rpm system's package `filesystem` has is made first.
    mkdir -p /tmp/rpm /usr/share/licenses /usr/share/fish/vendor_completions.d /usr/share/zsh/site-functions \
        /usr/lib64/pkgconfig
    # Debian's rpm wants to hear that this is meant; others do not know the word.
    meant=$(rpm --help | grep -o -- --force-debian)
    of_its_own() { rpm ${meant:+"$meant"} --dbpath /tmp/rpm --nodeps "$@"; }
    lay() { of_its_own -i "$package"; }
    again() { of_its_own -U --replacepkgs "$package"; }
    remove() { of_its_own -e truechimer; }
    left=/etc/truechimer.toml.rpmsave
    # Where the linkers and pkg-config of such a system look by themselves.
    named=(LD_LIBRARY_PATH=/usr/lib64 LIBRARY_PATH=/usr/lib64 PKG_CONFIG_PATH=/usr/lib64/pkgconfig)
    ;;
esac
check() { # DESCRIPTION COMMAND...
    local what=$1
    shift
    if "$@" >/tmp/out 2>&1; then echo "ok $what"; else echo "FAIL $what"; sed 's/^/# /' /tmp/out; fi
}
refused() { ! "$@"; }
# All that is not the package manager's own, or a cache.
everything() {
    find /etc /usr /var/lib /opt /srv -xdev -path /var/lib/dpkg -prune -o -print |
        grep -vE '^/etc/(\.pwd\.lock|(passwd|group|shadow|gshadow)-)$' | sort
}
same() { diff /tmp/before <(everything); }

# A daemon of tests may have left that on this machine.
rm -rf /var/lib/truechimer
everything >/tmp/before
began=$SECONDS
check "the package is installed" lay
check "it has a user" getent passwd truechimer
check "nothing is enabled" [ -z "$(find /etc/systemd -name 'truechimer*')" ]
check "the program runs" truechimer --version
truechimer run --check >/tmp/said 2>&1
check "it names the file in which no server is named yet" grep -F '/etc/truechimer.toml: no server to follow: add a [[source]]' /tmp/said
sed -i 's/^#\(\[\[source\|pool\)/\1/' /etc/truechimer.toml
check "the servers proposed there can be taken" grep -qx 'the configuration /etc/truechimer.toml is good: 1 pool' <(truechimer run --check)
truechimer group agent --check >/tmp/said 2>&1
check "likewise for groups" grep -F '/etc/truechimer-group.toml: no group: add a [[group]]' /tmp/said
check "group exec finds its library" refused grep -q 'is none of' <(truechimer group exec --group x --wait 1ms -- true 2>&1)
check "manual pages are there" man -w truechimer-run
check "by the name of each function" grep -q 'a clock that knows how wrong it may be' <(man truechimer_now)
# The page that C's example reads is that of the daemon below.
in_c() { env "${named[@]}" /tmp/example; }
check "a program in C is compiled by pkg-config" env "${named[@]}" bash -c \
    'gcc -std=c89 -Wall -Wextra -Wpedantic -Werror /example.c -o /tmp/example $(pkg-config --cflags --libs truechimer)'
check "and statically" env "${named[@]}" bash -c \
    'gcc -static /example.c -o /tmp/static $(pkg-config --static --cflags --libs truechimer)'
check "it says that there is no daemon" grep -q 'no clock page at' <(in_c 2>&1)
check "it can be enabled" systemctl enable truechimer truechimer-wait truechimer-serve truechimer-group@daemon
check "its directories can be made" systemd-tmpfiles --create truechimer.conf
# From the package to the time, by a server on this machine: the seconds are told and not judged.
if command -v chronyd >/dev/null; then
    ip link set lo up
    mkdir -p /run/chrony
    printf '%s\n' 'local stratum 1' 'allow' 'cmdport 0' 'bindcmdaddress /run/chrony/socket' 'pidfile /run/chrony/pid' >/tmp/chrony.conf
    chronyd -x -u root -f /tmp/chrony.conf
    cp /etc/truechimer.toml /tmp
    printf '[[source]]\nhost = "127.0.0.1"\n' >/etc/truechimer.toml
    setpriv --reuid truechimer --regid truechimer --clear-groups truechimer run >/tmp/log 2>&1 &
    daemon=$!
    check "it knows the time" truechimer waitsync --timeout 60s
    echo "# seconds from the beginning of the installation to that: $((SECONDS - began))"
    check "and within what bound" grep -q 'bound *± ' <(truechimer now)
    check "a program in C reads it" grep -E '^[0-9]+\.[0-9]{9}, synchronised, within [0-9]+ ns$' <(in_c)
    check "and the same, linked statically" grep -q ', synchronised, ' <(/tmp/static)
    check "and ctypes" grep -x 0 <(env "${named[@]}" python3 -c 'import ctypes
library, clock = ctypes.CDLL("libtruechimer.so.0"), ctypes.c_void_p()
print(library.truechimer_open(ctypes.byref(clock)) or library.truechimer_status(clock) - 1)')
    if [ -f /usr/share/java/truechimer.jar ]; then
        check "and a program in Java" grep ' SYNCHRONISED within ' <(java -cp /usr/share/java/truechimer.jar /Example.java)
    fi
    kill $daemon
    wait $daemon
    cp /tmp/truechimer.toml /etc
    rm -f /var/lib/truechimer/*
else
    echo "SKIPPED install: whether it comes to know the time: no chronyd"
fi
touch /var/lib/truechimer/rate.json
check "it can be installed again" again
check "over which the configuration stays" grep -qx 'pool = "pool.ntp.org"' /etc/truechimer.toml
check "it is removed" remove
everything | comm -13 /tmp/before - >/tmp/left
# dpkg keeps every configuration; rpm those that were changed, and has nothing beyond removing.
if [ "$left" = /etc/truechimer.toml ]; then other=/etc/truechimer-group.toml; else other=; fi
check "what is left are configuration and what was learnt" diff /tmp/left - <<END
${other:+$other
}$left
/var/lib/truechimer
/var/lib/truechimer/rate.json
END
check "nothing else has gone" diff /dev/null <(everything | comm -23 /tmp/before -)
if [[ $package = *.deb ]]; then
    check "it is purged" dpkg -P truechimer
    check "and nothing is left" same
    check "nor its user" refused getent passwd truechimer
fi
echo END
