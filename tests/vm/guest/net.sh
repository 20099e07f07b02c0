# Two hosts with a third between them, as network namespaces, and what runs on them.
# shellcheck shell=dash
server=192.0.2.1
pids=

# The namespaces server, middle and client. What netem does is done in the middle, because a
# transmit stamp is taken after netem on the sender's own wire.
network() {
    for net_name in server middle client; do
        ip netns add $net_name && ip -n $net_name link set lo up || return 1
    done
    ip -n middle link add south type veth peer name wire netns server &&
        ip -n middle link add north type veth peer name wire netns client &&
        ip -n server address add $server/24 dev wire &&
        ip -n middle address add 192.0.2.2/24 dev south &&
        ip -n middle address add 198.51.100.1/24 dev north &&
        ip -n client address add 198.51.100.2/24 dev wire || return 1
    for net_wire in server/wire middle/south middle/north client/wire; do
        ip -n ${net_wire%/*} link set ${net_wire#*/} up || return 1
    done
    ip netns exec middle sysctl -q -w net.ipv4.ip_forward=1 &&
        ip -n server route add default via 192.0.2.2 &&
        ip -n client route add default via 198.51.100.1
}

# The namespaces server and client in the place of those, with a card of vm_ptp's in each and a wire between them.
cards() {
    for net_name in server client; do
        ip netns add $net_name && ip -n $net_name link set lo up || return 1
    done
    ip link set card1 netns server && ip link set card0 netns client &&
        ip -n server address add $server/24 dev card1 &&
        ip -n client address add 192.0.2.2/24 dev card0 &&
        ip -n server link set card1 up && ip -n client link set card0 up
}

# on_client COMMAND PAGE: what `truechimer COMMAND` says there as JSON.
on_client() {
    ip netns exec client truechimer "$1" --json --page "/run/$2" --control "/run/$2".control 2>/dev/null
}

# card PAGE FIELD: of the client's card in `status`.
card() { on_client status "$1" | json "daemon/cards/interface=card0/$2"; }

# figure PAGE NAME: of /tmp/PAGE.json, without its sign.
figure() { json "$2" <"/tmp/$1.json" | tr -d -; }

# path NETEM...: what happens to packets each way, as `delay 2ms 500us loss 10%`.
path() {
    tc -n middle qdisc replace dev south root netem "$@" &&
        tc -n middle qdisc replace dev north root netem "$@"
}

# on HOST COMMAND...: runs it there in the background; its output goes to /tmp/log.N.
started=0
on() {
    on_host=$1
    shift
    started=$((started + 1))
    echo "$*" >/tmp/log.$started
    (exec /usr/local/bin/ip netns exec "$on_host" "$@") >>/tmp/log.$started 2>&1 &
    pids="$pids $!"
}

# What all that on() started had to say.
logs() { sed 's/^/# /' /tmp/log.*; }

# Ends all that on() started.
stop_all() {
    # shellcheck disable=SC2086  # one word for each
    kill $pids 2>/dev/null
    # shellcheck disable=SC2086
    wait $pids 2>/dev/null
    pids=
}

# start_chronyd [LINE...]: chronyd as the server, with more lines of configuration: it serves the system clock and
# leaves it alone.
start_chronyd() {
    mkdir -p /var/lib/chrony /run/chrony
    printf '%s\n' "local stratum 2" "allow all" "cmdport 0" "bindcmdaddress /" "user root" \
        "pidfile /run/chronyd.pid" "$@" >/tmp/chronyd.conf
    on server chronyd -d -x -f /tmp/chronyd.conf
    answers "$server:123"
}

# answers SERVER:PORT: waits until it does, as the client sees it.
answers() {
    answers_i=0
    until ip netns exec client truechimer-testbed query "$1" >/dev/null 2>&1; do
        answers_i=$((answers_i + 1))
        [ $answers_i -lt 100 ] || return 1
        usleep 100000
    done
}

# daemon NAME COUNTER POLL [LINE...]: a daemon on the client, with more lines at the top of its
# configuration; its page is /run/NAME. 'max-step = "none"' is for servers whose time is made up,
# half a year off this machine's real-time clock.
daemon() {
    daemon_page=/run/$1 daemon_counter=$2 daemon_poll=$3
    shift 3
    {
        for daemon_line; do echo "$daemon_line"; done
        printf '%s\n' "page = \"$daemon_page\"" 'state = "none"' "counter = \"$daemon_counter\"" \
            '[[source]]' "host = \"$server\"" "poll = $daemon_poll"
    } >"$daemon_page.toml"
    on client truechimer run --config "$daemon_page.toml"
}

# synchronised NAME SPAN: waits until it is, however far the server.
synchronised() {
    ip netns exec client truechimer waitsync --page "/run/$1" --max-bound 1s --timeout "$2" &&
        return
    logs
    return 1
}

# watch_during WHAT PAGES SECONDS EVERY_MS COMMAND...: watches the pages /run/PAGE against the system
# clock, and does the command after five seconds. For each page there is then /tmp/PAGE.json and, as
# `synchronised disrupted synchronised` and a number, /tmp/PAGE.statuses and /tmp/PAGE.epochs.
watch_during() {
    what=$1 pages=$2 seconds=$3 every=$4 watches=
    shift 4
    for page in $pages; do
        (exec /usr/local/bin/ip netns exec client \
            truechimer-testbed watch "/run/$page" system "$seconds" "$every") >"/tmp/$page.json" 2>&1 &
        watches="$watches $!"
    done
    sleep 5
    ok "$what" "$@"
    # shellcheck disable=SC2086  # one word for each
    wait $watches
    for page in $pages; do
        tr -d ' {}"\n' <"/tmp/$page.json" | sed 's/.*changes:\[//; s/\].*//' >/tmp/changes
        note "$what: $page: $(cat /tmp/changes)"
        tr ',' '\n' </tmp/changes | sed -n 's/^status://p' | uniq | tr '\n' ' ' |
            sed 's/ $//' >"/tmp/$page.statuses"
        tr ',' '\n' </tmp/changes | grep '^epoch:[0-9]' | sort -u | wc -l >"/tmp/$page.epochs"
    done
}

# is_disrupted WHAT PAGE: as a page has to show it when its counter breaks.
is_disrupted() {
    is "$1: $2 begins a new epoch" "$(cat "/tmp/$2.epochs")" 2
    is "$1: $2 is disrupted, then good" "$(cat "/tmp/$2.statuses")" "synchronised disrupted synchronised"
}

# waits PAGE REFERENCE SECONDS EVERY_MS: waits by the clock /run/PAGE in the background: for a time in UTC
# that many seconds away and, unless EVERY_MS is 0, for a timer's ticks on each side; waited() judges them. It
# takes `chrt`: of the one CPU it has as much as it wants, so that when it is woken is no matter of what other
# programs do just then, and with that of the build.
waits() {
    (exec chrt -f 1 truechimer-testbed waits "/run/$1" "$2" "$3" "$4") >"/tmp/$1.waits" 2>&1 &
    eval "waits_$1=$!"
}

# waits_in LANGUAGE SHIFT_MS PAGE REFERENCE SECONDS EVERY_MS: likewise by answer-LANGUAGE, with ticks that much later: it is
# not to want the one CPU at the same time. `waited` judges them as those of the page LANGUAGE.
waits_in() {
    (exec chrt -f 1 truechimer-testbed waits "/run/$3" "$4" "$5" "$6" "$2" "answer-$1") >"/tmp/$1.waits" 2>&1 &
    eval "waits_$1=$!"
}

# How late who is before all others is woken in a machine of one CPU that counts its instructions: as long as the kernel
# works at a stretch for another program, half a millisecond, and a margin.
turn_ns=5000000

# w NAME: a figure of the waits that are judged.
w() { json "$waited_kind/$1" <"$waited_in"; }

# waited WHAT PAGE KINDS SLACK_NS: when the waits have ended: of these kinds none ended before its time by
# the truth, nor later than the bound and the slack ask for.
waited() {
    eval "wait \$waits_$2"
    for waited_kind in $3; do
        waited_in=/tmp/$2.waits
        waited_what="$1: $2: waits ($waited_kind)"
        note "$waited_what: $(w waits), $(w missed) missed, ended $(w first_ns) to $(w last_ns) ns after the time, bound $(w bound_ns) ns"
        case $waited_kind in
        # The bound is passed twice: the reading may be that far off on either side.
        before) waited_most=0 waited_least="-2 * $(w bound_ns) - $4" ;;
        best) waited_most=$(w bound_ns) waited_least=-$(w bound_ns) ;;
        *) waited_most="2 * $(w bound_ns)" waited_least=0 ;;
        esac
        holds "$waited_what: none too early" "$(w waits) > 0 && $(w first_ns) > $waited_least"
        holds "$waited_what: none too late" "$(w last_ns) < $waited_most + $4"
    done
}
