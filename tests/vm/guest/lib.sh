# What the guest's test scripts have in common: TAP, clocksources, waiting.
# shellcheck shell=dash
sources=/sys/devices/system/clocksource/clocksource0
tap_n=0
tap_failed=0

# busybox's shell prefers its own ip and tc to those in the path.
ip() { /usr/local/bin/ip "$@"; }
tc() { /usr/local/bin/tc "$@"; }

# pass DESCRIPTION, fail DESCRIPTION: one result.
pass() { tap_n=$((tap_n + 1)); echo "ok $tap_n - $*"; }
fail() { tap_n=$((tap_n + 1)); tap_failed=$((tap_failed + 1)); echo "not ok $tap_n - $*"; }
skip() { tap_n=$((tap_n + 1)); echo "ok $tap_n - $1 # SKIP $2"; }
note() { echo "# $*"; }

# ok DESCRIPTION COMMAND...: passes if the command succeeds; what it prints is a comment.
ok() {
    ok_what=$1
    shift
    if "$@" >/tmp/ok.out 2>&1; then pass "$ok_what"; else fail "$ok_what"; sed 's/^/# /' /tmp/ok.out; fi
}

# is DESCRIPTION GOT WANTED
is() { if [ -n "$2" ] && [ "$2" = "$3" ]; then pass "$1"; else fail "$1: got '$2', not '$3'"; fi; }

# holds DESCRIPTION EXPRESSION: passes if awk finds the expression true, as "3.2e-9 < 1e-6".
holds() {
    if awk "BEGIN { exit !($2) }"; then pass "$1 ($2)"; else fail "$1 ($2)"; fi
}

# The plan: last line of every script.
finish() { echo "1..$tap_n"; exit "$tap_failed"; }

# json PATH <JSON: a value of it; PATH as in `counters/name=hpet/bits`.
json() { truechimer-testbed json "$1"; }

# "tsc" takes the place of "tsc-early" a second or two after boot.
wait_for_tsc() {
    wait_i=0
    while [ $wait_i -lt 100 ]; do
        case " $(cat $sources/available_clocksource) " in *" tsc "*) return 0 ;; esac
        usleep 100000
        wait_i=$((wait_i + 1))
    done
    return 1
}

# clocksource NAME: makes it the current one; says whether it is.
clocksource() {
    echo "$1" >$sources/current_clocksource
    [ "$(cat $sources/current_clocksource)" = "$1" ]
}
