# The life of a .deb under systemd: the three commands of docs/use/install.md, an upgrade and the end. Runs as root in a
# copy of the host's system, under the systemd that tests/units/boot.sh has started.
# shellcheck shell=dash
# shellcheck source=tests/vm/guest/lib.sh
. /opt/bin/lib.sh
export DEBIAN_FRONTEND=noninteractive
package=$(echo /opt/*.deb)
nobody() { setpriv --reuid nobody --regid nogroup --clear-groups --inh-caps=-all "$@"; }
pid() { systemctl show -p MainPID --value truechimer; }
state() { systemctl is-active truechimer; }
refused() { ! "$@"; }
now_ms() { date +%s%3N; }
# typed N: the command of the page, as root types it.
typed() { sed -n "$1{s/sudo //g;s/ *#.*//;p}" /opt/bin/commands; }

is "the page has three commands" "$(wc -l </opt/bin/commands)" 3
is "the second one is an editor's" "$(typed 2)" "sudoedit /etc/truechimer.toml"
ok "a server runs" systemctl start upstream
began=$(now_ms)
ok "the first one installs the package" sh -c "cd /opt && yes | $(typed 1)"
is "nothing runs" "$(state)" inactive
is "and nothing will" "$(systemctl is-enabled truechimer)" disabled
ok "without a server it does not start" refused systemctl start truechimer
ok "and its log says what to do" \
    grep -F '/etc/truechimer.toml: no server to follow: add a [[source]]' /opt/work/log/truechimer
printf '\n[[source]]\nhost = "127.0.0.1"\n' >>/etc/truechimer.toml
ok "with one the third command starts it, and returns when it knows the time" sh -c "$(typed 3)"
took=$(($(now_ms) - began))
note "from the beginning of the installation to that: $((took / 1000)).$((took / 100 % 10)) s"
ok "status says so" sh -c 'truechimer status | grep -i synchronised'
is "it will run after the next boot" "$(systemctl is-enabled truechimer)" enabled
is "as its own user" "$(ps -o user= -p "$(pid)")" truechimer
ok "anybody reads the clock" nobody truechimer now
ok "and another program, by the library" python3 -c 'import ctypes
library, clock = ctypes.CDLL("libtruechimer.so.0"), ctypes.c_void_p()
raise SystemExit(library.truechimer_open(ctypes.byref(clock)) or library.truechimer_status(clock) != 1)'

before=$(pid)
ok "the same version once more, as an upgrade does it" apt install -y --reinstall "$package"
is "it runs" "$(state)" active
ok "as another process" [ "$(pid)" != "$before" ]
ok "the configuration stayed" grep -F 'host = "127.0.0.1"' /etc/truechimer.toml
ok "it knows the time" truechimer waitsync --max-bound 50ms --timeout 60s

before=$(pid)
ok "it is removed" apt remove -y truechimer
ok "the daemon has ended" refused kill -0 "$before"
ok "no unit is left" refused systemctl cat truechimer
ok "nor is a link to one" refused sh -c 'find /etc/systemd/system -name "truechimer*" | grep .'
ok "the page is gone" refused test -e /run/truechimer
ok "the configuration is left" test -f /etc/truechimer.toml
ok "it is purged" apt purge -y truechimer
ok "and that has gone as well" refused sh -c 'ls -d /etc/truechimer* /var/lib/truechimer'
finish
