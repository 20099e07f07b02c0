# shellcheck shell=bash
# What tests need from the system, installed or unpacked where that can be done without asking.
# Sourced by scripts/test and scripts/vm; expects $target, the folder that Cargo builds into.

# Daemons live in the system's folders, which an ordinary user's path may lack.
: "${target:?}"
export PATH=$PATH:/usr/sbin:/sbin:$target/test/chrony/usr/sbin

# As root, if that can be had without asking.
root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@" 2>/dev/null; fi
}

have_apt() { command -v apt-get >/dev/null; }

apt_update() {
    [ -n "${updated:-}" ] && return
    updated=yes
    root apt-get update -q >/dev/null 2>&1
}

# Installs Debian packages, or does nothing: who asks looks whether it helped.
apt_install() {
    have_apt || return
    echo "installing $*"
    apt_update
    root env DEBIAN_FRONTEND=noninteractive \
        apt-get install -qy --no-install-recommends "$@" >/dev/null 2>&1
}

# Downloads Debian packages into the current folder without installing them.
apt_fetch() {
    have_apt || return
    apt-get download -q "$@" >/dev/null 2>&1 && return
    apt_update
    apt-get download -q "$@" >/dev/null 2>&1
}

need_ip() {
    ip -V >/dev/null 2>&1 && return
    apt_install iproute2
    ip -V >/dev/null 2>&1 || echo "no ip (package iproute2): what needs it will be skipped"
}

# chronyd is unpacked, not installed: the package would start a daemon that steers the system
# clock, and remove the one that does so now.
need_chronyd() {
    chronyd --version >/dev/null 2>&1 && return
    echo "unpacking chrony into $target/test/chrony"
    mkdir -p "$target/test/chrony"
    (cd "$target/test/chrony" && apt_fetch chrony && dpkg-deb -x chrony_*.deb .)
    chronyd --version >/dev/null 2>&1 || echo "no chronyd (package chrony): what needs it will be skipped"
}

# What other people capture with, and what reads captures: the tests compare with it. Debian asks
# who may use dumpcap; nobody but root, is the answer that it takes without asking.
need_capture_tools() {
    local name lacking=()
    for name in tcpdump tshark dumpcap; do
        command -v "$name" >/dev/null || lacking+=("$name")
    done
    [ ${#lacking[@]} = 0 ] && return
    # dumpcap comes with tshark, and libpcap (for filters) with either.
    apt_install tcpdump tshark
    for name in "${lacking[@]}"; do
        command -v "$name" >/dev/null || echo "no $name: what needs it will be skipped"
    done
}

# For the reports, which are looked at in a real browser.
need_browser() {
    local name
    for name in chromium chromium-browser google-chrome; do
        command -v "$name" >/dev/null && return
    done
    apt_install chromium fonts-dejavu-core
    command -v chromium >/dev/null || echo "no chromium (package chromium): what needs it will be skipped"
}
