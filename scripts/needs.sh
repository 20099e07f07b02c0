# shellcheck shell=bash
# What tests need from the system, installed or unpacked where that can be done without asking.
# Sourced by scripts/test, scripts/bench, scripts/compare, scripts/ring and scripts/vm; expects
# $target, the folder that Cargo builds into.

# Daemons live in the system's folders, which an ordinary user's path may lack.
: "${target:?}"
export PATH=$PATH:/usr/sbin:/sbin:$target/test/chrony/usr/sbin:$target/test/chrony/usr/bin
export PATH=$PATH:$target/test/linuxptp/usr/sbin:$target/test/ptpd/usr/sbin:$target/test/ntpsec/usr/sbin:$target/test/prometheus/usr/bin
export PATH=$PATH:$target/test/corosync/usr/sbin:$target/test/redis/usr/bin:$target/test/stamp-suite/bin
export PATH=$PATH:$target/test/cbindgen/bin:$target/test/nginx/usr/sbin:$target/test/etcd/usr/bin:$target/test/chrony-siv:$target/test/gpsd/usr/sbin
export PATH=$PATH:/usr/lib/postgresql/15/bin:$target/test/postgresql/usr/lib/postgresql/15/bin

# As root, if that can be had without asking.
root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@" 2>/dev/null; fi
}

have_apt() { command -v apt-get >/dev/null; }

# One at a time, as parts of the tests run side by side.
alone() {
    mkdir -p "$target/test"
    (flock 8 && "$@") 8>"$target/test/apt.lock"
}

apt_update() {
    [ -n "${updated:-}" ] && return
    updated=yes
    alone root apt-get update -q >/dev/null 2>&1
}

# Installs Debian packages, or does nothing: who asks looks whether it helped.
apt_install() {
    have_apt || return
    local package lacking=()
    for package in "$@"; do
        [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] ||
            lacking+=("$package")
    done
    [ ${#lacking[@]} -gt 0 ] || return 0
    echo "installing ${lacking[*]}"
    apt_update
    alone root env DEBIAN_FRONTEND=noninteractive \
        apt-get install -qy --no-install-recommends "${lacking[@]}" >/dev/null 2>&1
}

# What these functions would install one by one, installed at once: each call by itself goes through all of the system's
# packages. Each NEED is called here once more than elsewhere, and must be one that may be.
apt_install_for() {
    local packages
    mapfile -t packages < <(
        apt_install() { printf '%s\n' "$@" >&3; }
        apt_fetch() { false; }
        for need; do "$need"; done 3>&1 >/dev/null 2>&1
    )
    apt_install "${packages[@]}"
}

# Downloads Debian packages into the current folder without installing them.
apt_fetch() {
    have_apt || return
    alone apt-get download -q "$@" >/dev/null 2>&1 && return
    apt_update
    alone apt-get download -q "$@" >/dev/null 2>&1
}

need_ip() {
    ip -V >/dev/null 2>&1 && return
    apt_install iproute2
    ip -V >/dev/null 2>&1 || echo "no ip (package iproute2): what needs it will be skipped"
}

# It makes certificates for servers of the tests' own.
need_openssl() {
    command -v openssl >/dev/null && return
    apt_install openssl
    command -v openssl >/dev/null || echo "no openssl (package openssl): what needs it will be skipped"
}

need_ethtool() {
    command -v ethtool >/dev/null && return
    apt_install ethtool
    command -v ethtool >/dev/null || echo "no ethtool (package ethtool): what needs it will be skipped"
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

# chronyd-siv is a chronyd that has AES-128-GCM-SIV with the keys of RFC 8915 (4.6.1 and later): the system's,
# or that of Debian 13 with its libraries and its loader, from wherever the system's packages come.
need_chronyd_siv() {
    local folder=$target/test/chrony-siv its least=4.6.1 loader
    chronyd-siv --version >/dev/null 2>&1 && return
    mkdir -p "$folder/apt/lists/partial" "$folder/apt/cache/archives/partial"
    its=$(chronyd --version 2>/dev/null | sed -n 's/.*version \([0-9.]*\).*/\1/p')
    if [ -n "$its" ] && printf '%s\n' $least "$its" | sort -CV; then
        ln -sf "$(command -v chronyd)" "$folder/chronyd-siv"
    elif have_apt; then
        echo "unpacking chrony and libraries of Debian 13 into $folder"
        (
            set -- -q -o "Dir::Etc::SourceList=$folder/apt/sources.list" -o Dir::Etc::SourceParts=/dev/null \
                -o "Dir::State::Lists=$folder/apt/lists" -o "Dir::Cache=$folder/apt/cache" \
                -o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false
            # shellcheck disable=SC2016  # apt's own words
            apt-get indextargets --format '$(REPO_URI)' "Created-By: Packages" "Origin: Debian" "Component: main" |
                grep -v security | sort -u | sed 's,.*,deb & trixie main,' >"$folder/apt/sources.list" &&
                cd "$folder" && apt-get "$@" update && apt-get "$@" download chrony libc6 libcap2 libffi8 libgmp10 \
                libgnutls30t64 libhogweed6t64 libidn2-0 libnettle8t64 libp11-kit0 libseccomp2 libtasn1-6 libunistring5 &&
                for package in *.deb; do dpkg-deb -x "$package" .; done
        ) >/dev/null 2>&1
        rm -rf "$folder/apt" "$folder"/*.deb
        loader=$(echo "$folder"/usr/lib/*/ld-linux*.so.*)
        [ ! -e "$loader" ] || printf '#!/bin/sh\nexec "%s" --library-path "%s" "%s" "$@"\n' \
            "$loader" "${loader%/*}" "$folder/usr/sbin/chronyd" >"$folder/chronyd-siv"
        chmod +x "$folder/chronyd-siv" 2>/dev/null || :
    fi
    chronyd-siv --version >/dev/null 2>&1 || echo "no chronyd $least or later: what needs it will be skipped"
}

# gpsd likewise: the package would have systemd listen for its clients.
need_gpsd() {
    complete gpsd && return
    echo "unpacking gpsd into $target/test/gpsd"
    apt_install libusb-1.0-0 libbluetooth3 libdbus-1-3
    unpack "$target/test/gpsd" gpsd
    complete gpsd || echo "no gpsd (package gpsd): what needs it will be skipped"
}

# Cargo, for programs that are others' and used for a moment: without unwinding and checks of arithmetic, a twelfth of the work.
built_soon() {
    CARGO_PROFILE_DEV_PANIC=abort CARGO_PROFILE_DEV_OVERFLOW_CHECKS=false CARGO_PROFILE_DEV_DEBUG_ASSERTIONS=false \
        "${CARGO:-cargo}" "$@"
}

# Another implementation of STAMP, built from its sources: some minutes.
need_stamp_suite() {
    command -v stamp-suite >/dev/null && return
    echo "building stamp-suite into $target/test/stamp-suite"
    built_soon install --quiet --debug --locked \
        stamp-suite --version 1.0.0 --root "$target/test/stamp-suite" --target-dir "$target/test/stamp-suite/build"
    command -v stamp-suite >/dev/null || echo "no stamp-suite (cargo install stamp-suite): what needs it will be skipped"
}

# Prometheus and its tools likewise: the package would start it.
need_prometheus() {
    complete prometheus promtool && return
    echo "unpacking prometheus into $target/test/prometheus"
    unpack "$target/test/prometheus" prometheus
    complete prometheus promtool || echo "no prometheus: what needs it will be skipped"
}

# So is ntpd, for the same reasons.
need_ntpd() {
    complete ntpd && return
    echo "unpacking ntpsec into $target/test/ntpsec"
    unpack "$target/test/ntpsec" ntpsec
    complete ntpd || echo "no ntpd (package ntpsec): what needs it will be skipped"
}

# And ptp4l.
need_ptp4l() {
    complete ptp4l && return
    echo "unpacking linuxptp into $target/test/linuxptp"
    unpack "$target/test/linuxptp" linuxptp
    complete ptp4l || echo "no ptp4l (package linuxptp): what needs it will be skipped"
}

# And ptpd.
need_ptpd() {
    complete ptpd && return
    echo "unpacking ptpd into $target/test/ptpd"
    apt_install libpcap0.8
    unpack "$target/test/ptpd" ptpd
    complete ptpd || echo "no ptpd: what needs it will be skipped"
}

# Whether these programs are there with all their libraries.
complete() {
    local program
    for program in "$@"; do
        program=$(command -v "$program") || return
        ! ldd "$program" 2>/dev/null | grep -q "not found" || return
    done
}

# Fetches Debian packages and unpacks them into a folder: FOLDER PACKAGE...
unpack() (
    mkdir -p "$1/fetched" && cd "$1" && shift || return
    (cd fetched && apt_fetch "$@") && for package in fetched/*.deb; do dpkg-deb -x "$package" .; done
    rm -r fetched
)

# Programs that their own package would start as a daemon: they are unpacked into FOLDER, and their
# libraries installed, or where that may not be done unpacked as well.
need_unpacked() { # FOLDER PACKAGE PROGRAM LIBRARY...
    local folder=$1 package=$2 program=$3
    shift 3
    complete "$program" && return
    apt_install "$@"
    complete "$program" && return
    echo "unpacking $package into $folder"
    unpack "$folder" "$package"
    complete "$program" && return
    unpack "$folder" "$@"
    mkdir -p "$folder/lib"
    find "$folder/usr/lib" -name 'lib*.so*' -exec cp -P {} "$folder/lib" \; 2>/dev/null
    unpacked_libraries
    complete "$program"
}

unpacked_libraries() {
    local name folder
    for name in corosync redis postgresql nginx; do
        folder=$target/test/$name/lib
        case ":${LD_LIBRARY_PATH:-}:" in
        *":$folder:"*) ;;
        *) [ ! -d "$folder" ] || export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$folder ;;
        esac
    done
}
unpacked_libraries

# The group's ring; with the libraries that its members load at run time.
need_corosync() {
    need_unpacked "$target/test/corosync" corosync corosync libcpg4 libquorum5 libcmap4 libcfg7 \
        libvotequorum8 libcorosync-common4 libqb100 libknet1 libnozzle1 libstatgrab10 ||
        echo "no corosync: what needs it will be skipped"
}

# The server is a link to one of the tools, which come without a daemon.
need_redis() {
    complete redis-server redis-cli && return
    need_unpacked "$target/test/redis" redis-tools redis-check-rdb libjemalloc2 liblzf1 libatomic1
    mkdir -p "$target/test/redis/usr/bin"
    ln -sf "$(command -v redis-check-rdb)" "$target/test/redis/usr/bin/redis-server"
    complete redis-server redis-cli || echo "no redis: what needs it will be skipped"
}

# Another time oracle, to compare with. Its package would start it.
need_etcd() {
    complete etcd && return
    echo "unpacking etcd into $target/test/etcd"
    unpack "$target/test/etcd" etcd-server
    complete etcd || echo "no etcd (package etcd-server): what needs it will be skipped"
}

# Its own package would start it.
need_nginx() {
    need_unpacked "$target/test/nginx" nginx nginx libpcre2-8-0 libssl3 zlib1g ||
        echo "no nginx: what needs it will be skipped"
}

# The server finds its files by where it is itself.
need_postgresql() {
    need_unpacked "$target/test/postgresql" postgresql-15 postgres libpq5 libldap-2.5-0 libxml2 \
        libgssapi-krb5-2 libpam0g libssl3 libicu72 liblz4-1 libzstd1 && complete initdb && return
    echo "no postgresql (package postgresql-15): what needs it will be skipped"
}

# The tester of resource agents, with what they are written with. Its package would bring much of a cluster.
need_ocf_tester() {
    local folder=$target/test/resource-agents
    export TRUECHIMER_OCF=$folder
    [ -x "$folder/ocf-tester" ] && return
    echo "unpacking resource-agents into $folder"
    apt_install libxml2-utils
    unpack "$folder" resource-agents
    # Where it looks for the grammar of meta-data.
    [ ! -f "$folder/usr/sbin/ocf-tester" ] ||
        sed "s,^DATADIR=.*,DATADIR=$folder/usr/share," "$folder/usr/sbin/ocf-tester" >"$folder/ocf-tester"
    [ ! -f "$folder/ocf-tester" ] || chmod +x "$folder/ocf-tester"
    [ -x "$folder/ocf-tester" ] || echo "no ocf-tester (package resource-agents): what needs it will be skipped"
}

# What other people capture with, and what reads captures: the tests compare with it. Debian asks
# who may use dumpcap; nobody but root, is the answer that it takes without asking.
need_capture_tools() {
    local name lacking=()
    for name in tcpdump tshark dumpcap zstd; do
        command -v "$name" >/dev/null || lacking+=("$name")
    done
    [ ${#lacking[@]} = 0 ] && return
    # dumpcap comes with tshark, and libpcap (for filters) with either.
    apt_install tcpdump tshark zstd
    for name in "${lacking[@]}"; do
        command -v "$name" >/dev/null || echo "no $name: what needs it will be skipped"
    done
}

# Beside which rates are measured; those who do without are told.
need_netsniff() {
    command -v netsniff-ng >/dev/null && return
    apt_install netsniff-ng
    command -v netsniff-ng >/dev/null || echo "no netsniff-ng (package netsniff-ng): it will be left out"
}

# Not to boot with: its units are started in namespaces (scripts/units). The package starts nothing
# where it is not the first process already.
need_systemd() {
    [ -x /lib/systemd/systemd ] && return
    apt_install systemd
    [ -x /lib/systemd/systemd ] || echo "no systemd: what needs it will be skipped"
}

# What makes packages, and what finds fault with them.
need_packagers() {
    apt_install dpkg-dev rpm lintian rpmlint
}

# Bash is there: the others whose completions are tried.
need_shells() {
    apt_install zsh fish
}

# It builds the image of the daemon, and runs in it.
need_buildah() {
    command -v buildah >/dev/null || apt_install buildah
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

# Compilers for the library of C and C++, and what shows what is in it.
need_compilers() {
    command -v gcc >/dev/null && command -v g++ >/dev/null && command -v readelf >/dev/null &&
        command -v pkg-config >/dev/null || apt_install gcc g++ binutils pkg-config
}

# It makes the header; built without optimisation, which takes a minute of a processor.
need_cbindgen() {
    command -v cbindgen >/dev/null && return
    echo "building cbindgen in $target/test/cbindgen"
    built_soon install --quiet --debug cbindgen --version 0.29.4 --locked --root "$target/test/cbindgen" \
        --target-dir "$target/test/cbindgen/build" || echo "no cbindgen: what needs it will be skipped"
    rm -rf "$target/test/cbindgen/build"
}

# For the readers in other languages.
need_go() {
    command -v go >/dev/null && return
    apt_install golang-go
    command -v go >/dev/null || echo "no go (package golang-go): what needs it will be skipped"
}

need_java() {
    command -v javac >/dev/null && return
    apt_install default-jdk-headless
    command -v javac >/dev/null || echo "no javac (package default-jdk-headless): what needs it will be skipped"
}

need_node() {
    command -v npm >/dev/null && return
    apt_install nodejs npm
    command -v npm >/dev/null || echo "no npm (packages nodejs and npm): what needs it will be skipped"
}

need_venv() {
    python3 -c "import ensurepip, venv" 2>/dev/null && return
    apt_install python3-venv
    python3 -c "import ensurepip, venv" 2>/dev/null || echo "no venv (package python3-venv): what needs it will be skipped"
}
