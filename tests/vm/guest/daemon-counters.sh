# The daemon on each counter that is a device, and its readers: root, who may read it, and a user, who
# may not and goes by the raw clock. A clocksource that is another device, a daemon that is stopped for ten
# seconds, and one that is started again.
# needs: modules veth sch_netem
# needs: programs ip tc chronyd
# shellcheck shell=dash
. /guest/lib.sh
. /guest/net.sh

mkdir -p /etc
echo 'root:x:0:0::/:/bin/sh
reader:x:1000:1000::/:/bin/sh' >/etc/passwd
echo 'root:x:0:
reader:x:1000:' >/etc/group

# as_root PAGE, as_user PAGE: one reading by each, as JSON or the error.
as_root() { truechimer now --json --page "/run/$1" 2>&1; }
as_user() { su reader -s /bin/sh -c "truechimer now --json --page /run/$1" 2>&1; }

watch_as_root() { truechimer-testbed watch "$@"; }
watch_as_user() { su reader -s /bin/sh -c "truechimer-testbed watch $*"; }

# read_by READER PAGE: how it read the counter, if that gave a promise; else what it said.
read_by() {
    "as_$1" "$2" >/tmp/said
    case $(json status </tmp/said) in
    synchronised | holdover) json counter_read_by </tmp/said ;;
    *) cat /tmp/said ;;
    esac
}

# says WHAT READER PAGE WORDS: the reader has no time, and says why, and what to do.
says() {
    "as_$2" "$3" >/tmp/said
    case $(tr '\n' ' ' </tmp/said) in
    *"$4"*) pass "$1: $2 hears '$4'" ;;
    *) fail "$1: $2 hears: $(cat /tmp/said)" ;;
    esac
}

# Stops the daemon that was started last, in the middle of whatever it does.
stop_daemon() { kill -STOP "${pids##* }"; }
go_on() { kill -CONT "${pids##* }"; }

# A daemon that is stopped for ten seconds, while others read.
stopped_for_long() {
    stop_daemon
    sleep 10
    go_on
}

wait_for_tsc
ok "network" network
ok "a path" path delay 2ms
ok "chronyd" start_chronyd

for pair in "hpet hpet" "acpi-pm acpi_pm" "acpi-pm-safe acpi_pm"; do
    counter=${pair% *} source=${pair#* }
    ok "clocksource $source" clocksource "$source"
    daemon "$counter" "$counter" 1
    ok "$counter synchronises" synchronised "$counter" 60s
    sleep 30
    is "$counter: root reads the device" "$(read_by root "$counter")" device
    is "$counter: a user goes by the raw clock" "$(read_by user "$counter")" raw-clock
    note "$counter: root's bound $(as_root "$counter" | json bound_ns) ns," \
        "the user's $(as_user "$counter" | json bound_ns) ns"

    # Long enough for many roll-overs of a timer that does so every 4.7 s.
    for reader in root user; do
        "watch_as_$reader" "/run/$counter" system 30 20 >/tmp/watch
        note "$counter, $reader: median error $(json median_ns </tmp/watch) ns," \
            "largest $(json max_ns </tmp/watch) ns, median bound $(json median_bound_ns </tmp/watch) ns"
        is "$counter: every reading of $reader inside its bound" "$(json broken </tmp/watch)" 0
        is "$counter: every reading of $reader has a bound" "$(json promised </tmp/watch)" \
            "$(json readings </tmp/watch)"
    done

    # Before the clocksource changes: that moves the system clock, which is the server's, by a microsecond or
    # so. On a path without noise that shows sooner or later, and the server is then rightly held off.
    watch_during "$counter: the daemon is stopped for ten seconds" "$counter" 30 2 stopped_for_long
    is "$counter, stopped: no bound broken" "$(json broken <"/tmp/$counter.json")" 0
    case $counter in
    acpi-pm*)
        is "$counter, stopped: a new epoch" "$(cat "/tmp/$counter.epochs")" 2
        is "$counter, stopped: what readers see" "$(cat "/tmp/$counter.statuses")" \
            "synchronised holdover disrupted synchronised"
        ;;
    *)
        is "$counter, stopped: the epoch goes on" "$(cat "/tmp/$counter.epochs")" 1
        is "$counter, stopped: what readers see" "$(cat "/tmp/$counter.statuses")" \
            "synchronised holdover synchronised"
        ;;
    esac

    # The kernel keeps time by something else: the raw clock no longer stands for the device.
    ok "clocksource tsc" clocksource tsc
    says "$counter, clocksource tsc" user "$counter" "select $source"
    is "$counter, clocksource tsc: root reads the device" "$(read_by root "$counter")" device
    sleep 5
    says "$counter, clocksource tsc for a while" user "$counter" "select $source"

    # Stopped while the raw clock is of no use: half a roll-over is all that there is.
    case $counter in
    acpi-pm*)
        stop_daemon
        sleep 1
        is "$counter: stopped for a second, root reads on" "$(read_by root "$counter")" device
        sleep 3
        says "$counter: stopped for four seconds" root "$counter" "half a roll-over"
        go_on
        sleep 20
        is "$counter: the daemon goes on, and so does root" "$(read_by root "$counter")" device
        ;;
    esac

    ok "clocksource $source again" clocksource "$source"
    sleep 30
    is "$counter: a user goes by the raw clock again" "$(read_by user "$counter")" raw-clock

    # Started again at once, it goes on in the same row; after five seconds it cannot.
    for wait in 0 5; do
        was=$(as_root "$counter" | json epoch)
        kill "${pids##* }"
        wait "${pids##* }" 2>/dev/null
        sleep $wait
        daemon "$counter" "$counter" 1
        usleep 500000
        ok "$counter synchronises again" synchronised "$counter" 60s
        now=$(as_root "$counter" | json epoch)
        case $counter,$wait in
        acpi-pm*,5) is "$counter: after $wait s a new epoch" "$now" $((was + 1)) ;;
        *) is "$counter: after $wait s the same epoch" "$now" "$was" ;;
        esac
    done
    kill "${pids##* }"
    wait "${pids##* }" 2>/dev/null
done

# The raw clock over each.
for source in tsc hpet acpi_pm; do
    ok "clocksource $source" clocksource "$source"
    daemon raw raw 1
    ok "raw over $source synchronises" synchronised raw 60s
    is "raw over $source: a user reads it" "$(read_by user raw)" counter
    truechimer-testbed watch /run/raw system 30 20 >/tmp/watch
    is "raw over $source: every reading inside its bound" "$(json broken </tmp/watch)" 0
    kill "${pids##* }"
    wait "${pids##* }" 2>/dev/null
done
[ "$tap_failed" = 0 ] || logs
stop_all
finish
