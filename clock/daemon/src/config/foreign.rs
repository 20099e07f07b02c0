//! Keys that other daemons have.

use truechimer_config::{Reader, Table};

/// Keys that chronyd, ntpd, ntpd-rs and systemd-timesyncd have, and what stands for them here.
const FOREIGN: [(&[&str], &str); 36] = [
    (
        &["server", "servers", "pools", "peer", "NTP", "FallbackNTP", "Time"],
        "a server is [[source]] with host = \"…\", or with pool = \"…\"",
    ),
    (&["address", "hostname"], "that is `host` in [[source]]"),
    (&["mode"], "a pool is [[source]] with pool = \"…\", a server with host = \"…\": leave it out"),
    (&["count", "maxsources"], "that is `max-sources`, of [[source]] with pool = \"…\""),
    (&["sourcedir", "confdir"], "that is `source-dir`"),
    (
        &["ntsport", "nts-port", "ntstrustedcerts", "certset"],
        "with nts = true the port of the key exchange stands behind the host, and `ca` in [nts] names a \
         file of authorities",
    ),
    (
        &["key", "keys", "keyfile", "trustedkey", "autokey"],
        "the file of symmetric keys is `key-file`, at the top, and `key` in [[source]] has a key's number",
    ),
    (&["iburst"], "that is `burst` in [[source]], and on unless it is false"),
    (
        &["minpoll"],
        "that is `poll` in [[source]], in seconds, not a power of 2: 16 for minpoll 4, 64 for 6",
    ),
    (
        &[
            "poll-interval-limits",
            "initial-poll-interval",
            "PollIntervalMinSec",
            "PollIntervalMaxSec",
        ],
        "that is `poll` in [[source]], in seconds",
    ),
    (
        &["maxpoll"],
        "that is `max-poll` in [[source]], in seconds, not a power of 2: 64 for maxpoll 6, 1024 for 10",
    ),
    (&["ipv4", "ipv6"], "that is `family` in [[source]]"),
    (&["ntp-version", "ignore"], "there is nothing like it: leave it out"),
    (
        &["synchronization", "algorithm"],
        "what is set there has keys at the top here (`min-sources`, `max-step`) and in [system-clock] (`step`, `step-above`)",
    ),
    (&["minimum-agreeing-sources"], "that is `min-sources`, at the top"),
    (
        &["single-step-panic-threshold", "accumulated-step-panic-threshold"],
        "that is `max-step`, at the top: one span for either direction, for all moves added up",
    ),
    (
        &["startup-step-panic-threshold"],
        "a first time that is far from the real-time clock needs two servers that agree, or your word: leave it out",
    ),
    (
        &["nts-ke-server", "local-stratum", "rate-limiting-cache-size", "allowlist", "denylist"],
        "serving is a program of its own, 'truechimer serve', and that an option of it",
    ),
    (
        &["source-defaults"],
        "each [[source]] has its own keys, and what is left out is as it is without",
    ),
    (
        &["observability", "observation-path", "log-level"],
        "'truechimer status' and 'truechimer sources' ask the daemon by themselves; [metrics] is for Prometheus",
    ),
    (&["authselectmode"], "that is `authentication`"),
    (&["true"], "that is `trust` in [[source]]"),
    (&["xleave"], "that is `interleaved` in [[source]]"),
    (&["version", "extfield"], "the version is always 4: leave it out"),
    (
        &[
            "maxdelay",
            "maxdelayratio",
            "maxdelaydevratio",
            "maxdelayquant",
            "minsamples",
            "maxsamples",
            "filter",
            "polltarget",
            "presend",
            "RootDistanceMaxSec",
        ],
        "late packets are weighed by what their path does, not thrown away: leave it out",
    ),
    (&["refclock"], "that is [[source]] with `pps`, `phc`, `shm`, `sock` or `vmclock`"),
    (&["driftfile", "dumpdir"], "that is `state`, which is kept by itself"),
    (&["makestep"], "that is `step` and `step-above` in [system-clock]"),
    (&["maxchange"], "that is `max-step`"),
    (&["maxclockerror"], "that is `max-wander-ppm`"),
    (&["leapseclist", "leapsectz", "leapfile"], "that is `leap-file`"),
    (&["rtcsync"], "the kernel does it where [system-clock] has discipline = true"),
    (&["hwtimestamp"], "write hardware-stamps = [\"eth0\"], or \"auto\""),
    (&["bindacqdevice"], "that is `interface`, in each [[source]]"),
    (&["log", "logdir", "statsdir", "statistics"], "that is `replay-log`"),
    (
        &["allow", "deny", "restrict", "local", "broadcast", "ratelimit"],
        "who is served is an option of 'truechimer serve'",
    ),
];
/// Where the port stands that somebody wants to set by itself.
const PORTS: [(&str, &str); 2] = [
    ("[[source]]", "it stands behind the host: host = \"ntp.example.org:123\""),
    ("[metrics]", "it stands behind the address: listen = \"127.0.0.1:9924\""),
];

/// Complaint about a key that no table has here, with what stands for it.
pub(super) fn unknown(reader: &mut Reader<'_>, key: &str, offset: usize, table: Table<'_>) {
    let port = PORTS.iter().find(|(name, _)| key == "port" && *name == table.0);
    let foreign = || FOREIGN.iter().find(|(keys, _)| keys.contains(&key));
    let hint = port.map(|(_, hint)| *hint).or_else(|| foreign().map(|(_, hint)| *hint));
    match hint {
        Some(hint) => reader.problem(offset, format!("unknown key `{key}`; {hint}")),
        None => reader.unknown(key, offset, table),
    }
}

/// Directives of chrony.conf(5).
const DIRECTIVES: [&str; 95] = [
    "acquisitionport",
    "allow",
    "authselectmode",
    "bindacqaddress",
    "bindacqdevice",
    "bindaddress",
    "bindcmdaddress",
    "bindcmddevice",
    "binddevice",
    "broadcast",
    "clientloglimit",
    "clockprecision",
    "cmdallow",
    "cmddeny",
    "cmdport",
    "cmdratelimit",
    "combinelimit",
    "confdir",
    "corrtimeratio",
    "deny",
    "driftfile",
    "dscp",
    "dumpdir",
    "dumponexit",
    "fallbackdrift",
    "hwclockfile",
    "hwtimestamp",
    "hwtstimeout",
    "include",
    "initstepslew",
    "keyfile",
    "leapseclist",
    "leapsecmode",
    "leapsectz",
    "local",
    "lock_all",
    "log",
    "logbanner",
    "logchange",
    "logdir",
    "mailonchange",
    "makestep",
    "manual",
    "maxchange",
    "maxclockerror",
    "maxdistance",
    "maxdrift",
    "maxjitter",
    "maxlockage",
    "maxntsconnections",
    "maxsamples",
    "maxslewrate",
    "maxupdateskew",
    "minsamples",
    "minsources",
    "nocerttimecheck",
    "noclientlog",
    "nosystemcert",
    "ntpsigndsocket",
    "ntsaeads",
    "ntsca",
    "ntsdumpdir",
    "ntsntpserver",
    "ntsport",
    "ntsprocesses",
    "ntsratelimit",
    "ntsrefresh",
    "ntsrotate",
    "ntsservercert",
    "ntsserverkey",
    "ntstrustedcerts",
    "peer",
    "pidfile",
    "pool",
    "port",
    "ptpdomain",
    "ptpport",
    "ratelimit",
    "rawmeasurements",
    "refclock",
    "refresh",
    "reselectdist",
    "rtcautotrim",
    "rtcdevice",
    "rtcfile",
    "rtconutc",
    "rtcsync",
    "sched_priority",
    "server",
    "settime",
    "smoothtime",
    "sourcedir",
    "stratumweight",
    "tempcomp",
    "user",
];

/// True if chrony.conf(5) has a directive of this name, in whichever letters.
#[must_use]
pub fn is_directive_of_chrony(name: &str) -> bool {
    DIRECTIVES.iter().any(|known| name.eq_ignore_ascii_case(known))
}

/// True for chrony.conf(5), and ntp.conf, which has the same form: a line is a directive and its words, and no TOML,
/// which would have a table.
pub(super) fn is_of_chrony(text: &str) -> bool {
    !text.lines().any(|line| line.trim_start().starts_with('['))
        && text.lines().any(|line| {
            let mut words = line.split_whitespace();
            let first = words.next().unwrap_or_default();
            is_directive_of_chrony(first) && !words.next().is_some_and(|word| word.starts_with('='))
        })
}
