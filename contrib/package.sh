# What the packages do beyond laying files; scripts/package cuts this into scripts for either manager. Nothing is
# enabled or started at the installation: there is no server in the configuration yet.
# shellcheck shell=sh disable=SC2148

# == postinst
if [ "$1" = configure ]; then
    systemd-sysusers truechimer.conf
    if [ -d /run/systemd/system ]; then
        systemd-tmpfiles --create truechimer.conf || true
        systemctl daemon-reload || true
        # After an upgrade what ran goes on as the new version. Not the agents of groups: when a member leaves its group
        # for a moment is for who runs the group to say.
        if [ -n "$2" ]; then
            systemctl try-restart truechimer.service truechimer-serve.service truechimer-probe.service || true
        fi
    fi
fi

# == prerm
if [ "$1" = remove ]; then
    units='truechimer-wait.service truechimer-serve.service truechimer-probe.service truechimer.service'
    if [ -d /run/systemd/system ]; then
        systemctl stop 'truechimer-front@*.service' 'truechimer-replica@*.service' 'truechimer-group@*.service' $units || true
    fi
    if command -v systemctl >/dev/null; then
        systemctl --quiet --no-reload disable truechimer-group@.service truechimer-front@.service truechimer-replica@.service $units || true
    fi
fi

# == postrm
if [ "$1" = remove ] || [ "$1" = purge ]; then
    rm -rf /run/truechimer
    [ ! -d /var/lib/truechimer ] || rmdir --ignore-fail-on-non-empty /var/lib/truechimer
    if [ -d /run/systemd/system ]; then
        systemctl daemon-reload || true
    fi
fi
if [ "$1" = purge ]; then
    # What was learnt, and the user that nothing else belongs to.
    rm -rf /var/lib/truechimer
    if getent passwd truechimer >/dev/null; then
        userdel truechimer
    fi
fi

# ==
