# The life of the .deb, as root in a copy of the system's files; tests/install/check starts it.
# shellcheck shell=bash
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
check "the .deb is installed" dpkg --force-unsafe-io -i /truechimer.deb
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
check "it can be enabled" systemctl enable truechimer truechimer-wait truechimer-serve truechimer-group@daemon
check "its directories can be made" systemd-tmpfiles --create truechimer.conf
touch /var/lib/truechimer/rate.json
check "it can be installed again" dpkg --force-unsafe-io -i /truechimer.deb
check "over which the configuration stays" grep -qx 'pool = "pool.ntp.org"' /etc/truechimer.toml
check "it is removed" dpkg -r truechimer
everything | comm -13 /tmp/before - >/tmp/left
check "what is left are configuration and what was learnt" diff /tmp/left - <<END
/etc/truechimer-group.toml
/etc/truechimer.toml
/var/lib/truechimer
/var/lib/truechimer/rate.json
END
check "nothing else has gone" diff /dev/null <(everything | comm -23 /tmp/before -)
check "it is purged" dpkg -P truechimer
check "and nothing is left" same
check "nor its user" refused getent passwd truechimer
echo END
