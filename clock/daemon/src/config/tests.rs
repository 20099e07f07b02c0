//! Configurations that are good, and every mistake by its message.

use super::*;
use proptest::prelude::*;
use truechimer_clockbound::Layout;
use truechimer_config::Problem;
use truechimer_confine::Unlisted;
use truechimer_engine::{
    Asymmetry, Authentication, AuthenticationMode, RefClockConfig, RefClockKind, Scale,
    SourceConfig, StepPolicy,
};
use truechimer_time::{Rate, Span};

fn ppm(text: &str) -> Rate {
    text.parse().unwrap()
}

#[test]
fn a_server_that_proves_itself_has_another_port_unless_it_is_given() {
    let text = "source = [{ host = \"a\", nts = true }, { host = \"a:9\", nts = true }, { host = \"a\" }]\n\
                [nts]\nca = \"/ca.pem\"";
    let settings = parse(text, "t").unwrap();
    let nts = Authentication::Nts;
    let ports: Vec<_> =
        settings.engine.sources.iter().map(|s| (s.authentication == nts, s.port)).collect();
    assert_eq!(ports, [(true, 4460), (true, 9), (false, 123)]);
    assert_eq!(settings.nts_ca, Some(PathBuf::from("/ca.pem")));
}

#[test]
fn a_symmetric_key_leaves_the_port_as_it_is() {
    let text = "key-file = \"/k\"\nsource = [{ host = \"a\", key = 5 }, { host = \"b:9\", key = 4294967295 }]";
    let settings = parse(text, "t").unwrap();
    let sources = settings.engine.sources.iter();
    let found: Vec<_> = sources.map(|s| (s.authentication.key(), s.port)).collect();
    assert_eq!(found, [(Some(5), 123), (Some(u32::MAX), 9)]);
    assert_eq!(settings.key_file, Some(PathBuf::from("/k")));
}

#[test]
fn the_example_in_the_documentation_is_good() {
    let text: String = include_str!("../config.rs")
        .lines()
        .skip_while(|line| *line != "//! ```toml")
        .skip(1)
        .take_while(|line| *line != "//! ```")
        .map(|line| line.trim_start_matches("//!").to_owned() + "\n")
        .collect();
    let settings = parse(&text, "example").unwrap();
    assert_eq!(settings.counter, Choice::Auto);
    assert_eq!(settings.page, Some("/run/truechimer/clock".into()));
    let sources = vec![SourceConfig::new("ntp.example.org")];
    let refclocks =
        vec![RefClockConfig { name: "gps".into(), ..RefClockConfig::pulse("/dev/pps0") }];
    let engine = Config { sources, refclocks, max_wander: ppm("0.5"), ..Config::default() };
    assert_eq!(settings.engine, engine);
    assert_eq!(settings.leap_file, Place::At("/usr/share/zoneinfo/leap-seconds.list".into()));
}

#[test]
fn everything_can_be_set() {
    let text = r#"
            counter = "tsc-fenced"
            control = "none"
            state = "/s"
            leap-file = "none"
            source-dir = "/d"
            vmclock = "/v"
            max-wander-ppm = "0.25 ppm"
            accept-step-after = "90min"
            lock-memory = true
            hardware-stamps = ["eth1", "eth0", "eth1"]
            max-step = "2h"
            min-sources = 1
            authentication = "ignore"
            source = [
                { host = "[::1]:11", poll = 0x10, burst = false, asymmetry = "-120us",
                  asymmetry-error = "20us" },
                { host = "::1", interleaved = true, asymmetry = "learn" },
                { pool = "p:99", max-sources = 2, poll = 64, max-poll = 1024, family = "ipv6", prefer = true, offline = true, interface = "eth0" },
                { host = "b", noselect = true, trust = true, prefer = true, require = true },
            ]
            clockbound = { directory = "/c", pages = ["shm", "shm1"], vmclock = true }
            metrics = { listen = "[::1]:9924" }
            audit = { directory = "/a", interval = "16s", max-mb = 1 }
            system-clock = { discipline = true, step = "always", step-above = "250us" }
        "#;
    let settings = parse(text, "t").unwrap();
    let asymmetry = Some(Asymmetry { by: Span::from_micros(-120), error: Span::from_micros(20) });
    let first = SourceConfig { port: 11, burst: false, asymmetry, ..SourceConfig::new("::1") };
    let watched = SourceConfig {
        no_select: true,
        trust: true,
        prefer: true,
        require: true,
        ..SourceConfig::new("b")
    };
    let pool = SourceConfig { prefer: true, port: 99, poll: 64, ..SourceConfig::pool("p") };
    let xleave =
        SourceConfig { interleaved: true, learn_asymmetry: true, ..SourceConfig::new("::1") };
    let family = Some(truechimer_engine::Family::Ipv6);
    let pool = SourceConfig { pool: Some(2), max_poll: Some(1024), family, ..pool };
    let pool = SourceConfig { offline: true, interface: Some("eth0".into()), ..pool };
    assert_eq!(
        settings,
        Settings {
            file: None,
            lines: settings.lines.clone(),
            source_dir: Some("/d".into()),
            left_out: Vec::new(),
            nts_ca: None,
            nts_unset_clock: false,
            key_file: None,
            sandbox: true,
            seccomp: Unlisted::Pass,
            lock_memory: true,
            hardware_stamps: HardwareStamps::Of(vec!["eth1".into(), "eth0".into()]),
            engine: Config {
                sources: vec![first, xleave, pool, watched],
                max_wander: ppm("0.25"),
                accept_step_after: Span::from_secs(5400),
                max_step: Some(Span::from_secs(7200)),
                min_sources: Some(1),
                authentication: AuthenticationMode::Ignore,
                discipline: true,
                step: StepPolicy::Always,
                step_above: Span::from_micros(250),
                ..Config::default()
            },
            counter: Choice::Tsc { fenced: true },
            page: None,
            control: Place::None,
            replay_log: None,
            state: Place::At("/s".into()),
            sock_out: None,
            leap_file: Place::None,
            clockbound: Some(Wanted {
                pages: vec![Layout::One, Layout::Three],
                directory: "/c".into(),
                vmclock: true,
            }),
            metrics: Some(Listen::At("[::1]:9924".parse().unwrap())),
            audit: Some(audit::Wanted {
                directory: "/a".into(),
                interval: Span::from_secs(16),
                max_mb: 1,
            }),
            vmclock: Place::At("/v".into()),
            fresh: false,
        }
    );
    let line = |key: &str| settings.lines.get(key).copied();
    assert_eq!(
        (line("counter"), line("clockbound.pages"), line("host")),
        (Some(2), Some(22), None)
    );
    assert_eq!(parse("", "empty").unwrap(), Settings::default());
    let empty = parse("[metrics]\n[audit]", "t").unwrap();
    assert_eq!(Settings { lines: BTreeMap::new(), ..empty }, Settings::default());
    let record = parse("[audit]\ndirectory = \"/a\"", "t").unwrap().audit.unwrap();
    assert_eq!((record.interval, record.max_mb), (Span::from_secs(60), 256));
    for (text, place) in [("auto", Place::Default), ("none", Place::None)] {
        assert_eq!(parse(&format!("vmclock = \"{text}\""), "t").unwrap().vmclock, place);
    }
    assert!(parse("vmclock = true", "t").is_err() && parse("vmclock = \"\"", "t").is_err());
    let path = parse("[metrics]\nlisten = \"/run/m\"", "t").unwrap().metrics;
    assert_eq!(path, Some(Listen::Socket("/run/m".into())));
    for limit in ["0.001", "100"] {
        let settings = parse(&format!("max-wander-ppm = {limit}"), "t").unwrap();
        assert_eq!(settings.engine.max_wander, ppm(limit));
    }
}

#[test]
fn a_confidence_leaves_a_doubt() {
    for (text, doubt) in [("0.99", 1e-2), ("0.5", 0.5), ("0.999999999", 1e-9)] {
        let settings = parse(&format!("likely-confidence = {text}"), "t").unwrap();
        let found = truechimer_feedforward::number::fraction(settings.engine.likely_doubt);
        assert!((found - doubt).abs() < 1e-15, "{found}");
    }
    assert_eq!(parse("", "t").unwrap().engine.likely_doubt, Config::default().likely_doubt);
}

#[test]
fn a_pulse_may_be_at_a_card() {
    let path = |more: &str| {
        let text = format!("[[source]]\nhost = \"a\"\n[[source]]\npps = \"/dev/ptp0\"\n{more}");
        parse(&text, "t").unwrap().engine.refclocks[0].path.clone()
    };
    assert_eq!(path(""), "/dev/ptp0");
    assert_eq!(path("channel = 1"), "/dev/ptp0:channel=1");
    assert_eq!(path("pin = 3"), "/dev/ptp0:channel=0:pin=3");
    for (source, told) in [
        ("pps = \"/dev/pps0\"\npin = 1", "`channel` and `pin` are of a card"),
        ("pps = \"/dev/ptp0\"\npin = 128", "`pin` = 128: must be 0 to 127"),
        ("pps = \"/dev/ptp0\"\nchannel = \"a\"", "`channel` must be a whole number"),
        ("phc = \"/dev/ptp0\"\npin = 1", "`pin` is for a pulse at a card"),
    ] {
        let text = format!("[[source]]\nhost = \"a\"\n[[source]]\n{source}");
        let error = parse(&text, "t").unwrap_err().to_string();
        assert!(error.contains(told), "{error}");
    }
}

#[test]
fn pulses_stand_among_the_sources() {
    let text = r#"
            [[source]]
            pps = "/sys/class/pps/pps1/assert"
            latency = "2.5 µs"
            error = "50 ns"
            offset = "-120ns"
            [[source]]
            host = "a"
            [[source]]
            pps = "/dev/pps0"
            name = "roof"
        "#;
    let engine = parse(text, "t").unwrap().engine;
    assert_eq!(engine.sources, [SourceConfig::new("a")]);
    let first = RefClockConfig {
        error: Span::from_nanos(2_500),
        pulse_error: Span::from_nanos(50),
        offset: Span::from_nanos(-120),
        ..RefClockConfig::pulse("/sys/class/pps/pps1/assert")
    };
    assert_eq!(first.name, "/sys/class/pps/pps1/assert");
    let second = RefClockConfig { name: "roof".into(), ..RefClockConfig::pulse("/dev/pps0") };
    assert_eq!(engine.refclocks, [first, second]);
}

#[test]
fn reference_clocks_stand_among_the_sources() {
    let text = r#"
            [[source]]
            phc = "eth0"
            [[source]]
            phc = "/dev/ptp1"
            error = "1us"
            scale = "tai"
            poll = 64
            trust = true
            [[source]]
            shm = 0
            error = "100ms"
            offset = "-250ms"
            [[source]]
            sock = "/run/gps.sock"
            error = "5us"
            name = "gps"
        "#;
    let engine = parse(text, "t").unwrap().engine;
    let new = |kind, path: &str, ns| RefClockConfig::new(kind, path, Span::from_nanos(ns));
    let trusted = RefClockConfig {
        scale: Scale::Tai,
        poll: 64,
        trust: true,
        ..new(RefClockKind::Phc, "/dev/ptp1", 1_000)
    };
    let shm = RefClockConfig {
        name: "shm0".into(),
        offset: -Span::from_millis(250),
        ..new(RefClockKind::Shm, "0", 100_000_000)
    };
    let sock =
        RefClockConfig { name: "gps".into(), ..new(RefClockKind::Sock, "/run/gps.sock", 5_000) };
    let by_driver = new(RefClockKind::Phc, "eth0", 0);
    assert_eq!((by_driver.scale, sock.scale), (Scale::Auto, Scale::Utc));
    assert_eq!(engine.refclocks, [by_driver, trusted, shm, sock]);
}

#[test]
fn every_mistake_is_named_with_its_line_and_its_mend() {
    for (text, message) in [
        ("\n[[source]]\npol = 16\nhost = \"a\"", "t:3: unknown key `pol`; did you mean `poll`?"),
        ("poll = 16", "t:1: unknown key `poll`; it belongs into [[source]]"),
        ("[system-clock]\nstate = \"/x\"", "t:2: unknown key `state`; it belongs into the top"),
        ("server = \"a\"", "t:1: unknown key `server`; a server is [[source]] with host = \"…\""),
        (
            "# Debian's\npool a iburst\nrtcsync",
            "t: a configuration of chrony's: `truechimer import-chrony",
        ),
        (
            "driftfile /var/lib/ntp/drift",
            "t: a configuration of chrony's: `truechimer import-chrony",
        ),
        (
            "# Of a machine that serves.\nlocal stratum 8\nallow",
            "t: a configuration of chrony's: `truechimer import-chrony",
        ),
        ("[[source]]\npool a", "t:2: "),
        (
            "[system-clock]\nstep = true",
            "t:2: `step` must be \"start\", \"never\" or \"always\", not boolean",
        ),
        (
            "authentication = 1",
            "t:1: `authentication` must be \"mix\", \"require\" or \"ignore\", not integer",
        ),
        (
            "[[source]]\nhost = \"a\"\nfamily = 4",
            "t:3: `family` must be \"ipv4\" or \"ipv6\", not integer",
        ),
        ("[[source]]\nhost = [\"a\", \"b\"]", "t:2: `host` names one: write a [[source]] for each"),
        (
            "[[source]]\nhost = \"ntp://a.example\"",
            "t:2: `host` = \"ntp://a.example\": without `ntp://`: write \"a.example\"",
        ),
        ("[[source]]\nhost = \"a\"\nnts = 1", "t:3: `nts` must be true or false, not integer"),
        (
            "[[source]]\nhost = \"a\"\nntsport = 4461",
            "t:3: unknown key `ntsport`; with nts = true the port of the key exchange stands behind",
        ),
        (
            "[[source]]\nhost = \"a\"\n[nts]\nca = \"own.pem\"",
            "t:4: `ca` = \"own.pem\": must begin with /",
        ),
        (
            "[[source]]\nhost = \"a\"\nkey = 5",
            "t:1: `key` takes a file of keys: add key-file = \"/etc/truechimer.keys\" at the top",
        ),
        (
            "key-file = \"/k\"\n[[source]]\nhost = \"a\"\nkey = 5\nnts = true",
            "t:4: `nts` and `key` are two proofs: remove one of them",
        ),
        (
            "[[source]]\nhost = \"a\"\nkey = 0",
            "t:3: `key` = 0: must be the number of a key, 1 to 4294967295",
        ),
        (
            "[[source]]\nhost = \"a\"\nkey = \"x\"",
            "t:3: `key` = \"x\": must be the number of a key",
        ),
        ("key-file = \"k\"", "t:1: `key-file` = \"k\": must begin with /"),
        (
            "keyfile = \"/k\"",
            "t:1: unknown key `keyfile`; the file of symmetric keys is `key-file`",
        ),
        (
            "[[source]]\nhost = \"a\"\nport = 1123",
            "t:3: unknown key `port`; it stands behind the host: host = \"ntp.example.org:123\"",
        ),
        (
            "[[source]]\nhost = \"a\"\nminpoll = 4",
            "that is `poll` in [[source]], in seconds, not a power of 2: 16 for",
        ),
        ("[[source]]\nhost = \"a\"\ntrue = true", "t:3: unknown key `true`; that is `trust`"),
        ("[[source]]\nhost = \"a\"\nrequire = 2", "t:3: `require` must be true or false"),
        ("prefer = true", "t:1: unknown key `prefer`; it belongs into [[source]]"),
        ("[[source]]\nhost = \"a\"\nxleave = true", "`xleave`; that is `interleaved`"),
        ("[synchronization]\nminimum-agreeing-sources = 3", "`synchronization`; what is set there"),
        ("minimum-agreeing-sources = 3", "that is `min-sources`, at the top"),
        ("single-step-panic-threshold = 10", "that is `max-step`, at the top"),
        ("[source-defaults]\npoll-interval-limits = 4", "each [[source]] has its own keys"),
        ("[[source]]\nmode = \"server\"\naddress = \"a\"", "t:2: unknown key `mode`; a pool is"),
        ("[observability]\nlog-level = \"info\"", "[metrics] is for Prometheus"),
        ("[[nts-ke-server]]\nlisten = \"[::]:4460\"", "is a program of its own"),
        ("key = 1", "t:1: unknown key `key`; the file of symmetric keys is `key-file`, at the top"),
        ("[[source]]\nhost = \"a\"\nversion = 4", "`version`; the version is always 4"),
        (
            "[[source]]\nmode = \"pool\"",
            "t:2: unknown key `mode`; a pool is [[source]] with pool =",
        ),
        (
            "[[source]]\npool = \"a\"\nhost = \"b\"",
            "t:3: `host` and `pool` are two sources: write a [[source]] for each",
        ),
        (
            "[[source]]\npool = \"a\"\nnts = true",
            "t:3: `nts` is not for a pool: each of its servers",
        ),
        (
            "[[source]]\npool = \"a\"\nasymmetry = \"1ms\"\nasymmetry-error = \"1ms\"",
            "t:3: `asymmetry` is not for a pool: each of its servers has a path of its own",
        ),
        (
            "[[source]]\npool = \"a\"\nmax-sources = 17",
            "t:3: `max-sources` = 17: must be a whole number from 1 to 16",
        ),
        (
            "[[source]]\nhost = \"a\"\nmax-sources = 2",
            "t:3: `max-sources` is for a pool: write pool, not host",
        ),
        (
            "[[source]]\nhost = \"a\"\n[[source]]\npool = \"a\"",
            "t:3: `a:123` is a source already (line 1)",
        ),
        (
            "[[source]]\nhost = \"a\"\nmaxsources = 2",
            "unknown key `maxsources`; that is `max-sources`",
        ),
        ("pool = \"a\"", "t:1: unknown key `pool`; it belongs into [[source]]"),
        ("sourcedir = \"/s\"", "t:1: unknown key `sourcedir`; that is `source-dir`"),
        ("source-dir = \"s\"", "t:1: `source-dir` = \"s\": must begin with /"),
        ("[Time]\nNTP = \"a\"", "t:1: unknown key `Time`; a server is [[source]]"),
        ("NTP = \"a\"", "t:1: unknown key `NTP`; a server is [[source]]"),
        ("authselectmode = \"mix\"", "t:1: unknown key `authselectmode`; that is `authentication`"),
        (
            "authentication = \"prefer\"",
            "t:1: `authentication` = \"prefer\": must be \"mix\", \"require\" or \"ignore\"",
        ),
        ("rtcsync = true", "t:1: unknown key `rtcsync`; the kernel does it where"),
        ("leapsectz = \"right/UTC\"", "t:1: unknown key `leapsectz`; that is `leap-file`"),
        ("[audit]\ndirectory = \"a\"", "t:2: `directory` = \"a\": must begin with /"),
        ("[audit]\nmax-mb = 9", "t:1: [audit] has no `directory`: add directory = \"/var/lib/"),
        (
            "[audit]\ndirectory = \"/a\"\ninterval = \"0s\"",
            "t:3: `interval` = \"0s\": must be 1s to 1h",
        ),
        (
            "[audit]\ndirectory = \"/a\"\nmax-mb = 0",
            "t:3: `max-mb` = 0: must be a whole number from 1 to 1000000",
        ),
        ("audit = 1", "t:1: `audit` must be a table: write [audit]"),
        ("[system-clock]\nmakestep = 1", "t:2: unknown key `makestep`; that is `step` and"),
        ("stratum = 1", "t:1: unknown key `stratum`; known in the top of the file: counter, page,"),
        ("[[source]]\nhost = \"a\"\npoll = 0", "t:3: `poll` = 0: must be 1 to 1024 seconds"),
        ("[[source]]\nhost = \"a\"\npoll = 99999999999999999999", "must be 1 to 1024 seconds"),
        (
            "[[source]]\nhost = \"a\"\npoll = 1.5",
            "t:3: `poll` must be a whole number of seconds, as in 16, not float",
        ),
        ("[[source]]\nhost = \"a\"\nmax-poll = 8", "t:3: `max-poll` = 8 is less than `poll`, 16"),
        ("[[source]]\nhost = \"a\"\nmax-poll = 2048", "t:3: `max-poll` = 2048: must be 1 to 1024"),
        (
            "[[source]]\nhost = \"a\"\ninterface = \"two words\"",
            "t:3: `interface` = \"two words\": must be a network interface, as \"eth0\" (see 'ip link')",
        ),
        (
            "[[source]]\nhost = \"a\"\nfamily = \"v4\"",
            "t:3: `family` = \"v4\": must be \"ipv4\" or \"ipv6\"",
        ),
        ("[[source]]\nhost = \"a\"\nmaxpoll = 9", "t:3: unknown key `maxpoll`; that is `max-poll`"),
        ("[[source]]\nhost = \"a\"\nburst = 1", "t:3: `burst` must be true or false, not integer"),
        (
            "[[source]]\nhost = \"a\"\nnoselect = \"yes\"",
            "t:3: `noselect` must be true or false, not string",
        ),
        (
            "[[source]]\nhost = \"a\"\nnoselect = true\n[[source]]\npps = \"/dev/pps0\"",
            "t:1: every server is `noselect`, so that there is none to follow: remove it from one",
        ),
        (
            "[[source]]\npps = \"/dev/pps0\"\nnoselect = true",
            "t:3: `noselect` is for a server, and this source is a pulse: remove it",
        ),
        (
            "[[source]]\nhost = \"a\"\nasymmetry = \"1ms\"",
            "t:3: `asymmetry` needs `asymmetry-error`: how well is it known?",
        ),
        // A space before the unit is no fault.
        (
            "[[source]]\nhost = \"a\"\nasymmetry = \"1 ms\"",
            "t:3: `asymmetry` needs `asymmetry-error`: how well is it known?",
        ),
        (
            "[[source]]\nhost = \"a\"\nasymmetry-error = \"1ms\"",
            "t:3: `asymmetry-error` is nothing without `asymmetry`",
        ),
        (
            "[[source]]\nhost = \"a\"\nasymmetry = \"1s\"\nasymmetry-error = \"-1us\"",
            "t:3: `asymmetry` = \"1s\": must be -500ms to 500ms",
        ),
        (
            "[[source]]\nhost = \"a\"\nasymmetry = \"1s\"\nasymmetry-error = \"-1us\"",
            "t:4: `asymmetry-error` = \"-1us\": must be above 0s, and 500ms at most",
        ),
        (
            "[[source]]\nhost = \"a\"\nasymmetry = \"1us\"\nasymmetry-error = \"0s\"",
            "t:4: `asymmetry-error` = \"0s\": must be above 0s, and 500ms at most: nobody knows \
                 a path exactly",
        ),
        (
            "[[source]]\nhost = \"a\"\nasymmetry = \"learn\"\nasymmetry-error = \"1us\"",
            "t:4: `asymmetry-error` is for a declared asymmetry, and this one is learnt: remove it",
        ),
        ("[[source]]\npps = \"/p\"\nasymmetry = \"1us\"", "t:3: `asymmetry` is for a server"),
        ("[[source]]\nserver = \"a\"", "t:2: unknown key `server`; a server is [[source]]"),
        ("[audit]\ndir = \"/a\"", "t:2: unknown key `dir`; did you mean `directory`?"),
        ("[[source]]\nhost = \"a\"\nnts-port = 1", "t:3: unknown key `nts-port`; "),
        ("[[source]]\npoll = 4", "t:1: this source has no `host`: add host ="),
        ("[[source]]\nhost = 7", "t:2: `host` must be a string in quotes, not integer"),
        ("[[source]]\nhost = \"a:0\"", "t:2: `host` = \"a:0\": port `0` must be 1 to 65535"),
        (
            "[[source]]\nhost = \"a\"\n[[source]]\nhost = \"a:123\"",
            "t:3: `a:123` is a source already (line 1)",
        ),
        (
            "[[source]]\npps = \"/p\"\nhost = \"a\"",
            "t:3: `host` is for a server, and this source is a pulse: remove it",
        ),
        ("[[source]]\npps = \"/p\"\npoll = 4", "t:3: `poll` is for a server"),
        (
            "[[source]]\nhost = \"a\"\nlatency = \"1us\"",
            "t:3: `latency` is for a reference clock: add `pps`, `phc`",
        ),
        ("[[source]]\nlatency = \"1us\"", "t:1: this source has no `host`"),
        ("[[source]]\npps = 0", "t:2: `pps` must be a string in quotes, not integer"),
        ("[[source]]\npps = \"\"", "t:2: `pps` = \"\": must be a path, as \"/dev/pps0\""),
        (
            "[[source]]\npps = \"/p\"\nlatency = 10",
            "t:3: `latency` must be a time with its unit in quotes, as in \"10us\", not integer",
        ),
        ("[[source]]\npps = \"/p\"\nlatency = \"10\"", "t:3: `latency` = \"10\": "),
        ("[[source]]\npps = \"/p\"\nlatency = \"0\"", "must be 100ns to 100ms"),
        ("[[source]]\npps = \"/p\"\nlatency = \"-1us\"", "must be 100ns to 100ms"),
        ("[[source]]\npps = \"/p\"\nlatency = \"1s\"", "must be 100ns to 100ms"),
        ("[[source]]\npps = \"/p\"\noffset = \"0.5s\"", "t:3: `offset` = \"0.5s\": must be less"),
        ("[[source]]\npps = \"/p\"\nname = \"a b\"", "t:3: `name` = \"a b\": must be one word"),
        (
            "[[source]]\npps = \"/p\"\nofset = \"1us\"",
            "t:3: unknown key `ofset`; did you mean `offset`?",
        ),
        (
            "[[source]]\npps = \"/p\"\n[[source]]\npps = \"/p\"",
            "t:3: `/p` is a source already (line 1)",
        ),
        (
            "[[source]]\npps = \"/p\"\nname = \"x\"\n[[source]]\npps = \"/q\"\nname = \"x\"",
            "t:4: `x` is a source already (line 1)",
        ),
        ("[[source]]\nshm = 0", "t:1: this source has no `error`: add error = \"10us\""),
        ("[[source]]\nsock = \"/s\"", "t:1: this source has no `error`"),
        ("[[source]]\nshm = 16\nerror = \"1ms\"", "t:2: `shm` = 16: must be 0 to 15"),
        (
            "[[source]]\nshm = \"0\"\nerror = \"1ms\"",
            "t:2: `shm` must be the number of a segment, as in 0, not string",
        ),
        ("[[source]]\nsock = \"s\"\nerror = \"1ms\"", "must be a path from / on of up to 107"),
        (
            "[[source]]\nphc = \"/dev/ptp0\"\nshm = 0",
            "t:3: `shm` and `phc` are two sources: write a [[source]] for each",
        ),
        (
            "[[source]]\nphc = \"/dev/ptp0\"\nlatency = \"1us\"",
            "t:3: `latency` is for a pulse, and this source is a card's clock: that is `error`",
        ),
        ("[[source]]\npps = \"/p\"\nerror = \"2s\"", "must be 1ns to 1s: the most by which it"),
        ("[[source]]\npps = \"/p\"\ntrust = true", "t:3: `trust` is not for a pulse, which"),
        ("[[source]]\nphc = \"/p\"\nburst = true", "t:3: `burst` is for a server, and this"),
        ("[[source]]\nphc = \"/p\"\npoll = 65", "t:3: `poll` = 65: must be 1 to 64 seconds"),
        ("[[source]]\nphc = \"/p\"\nerror = \"2s\"", "t:3: `error` = \"2s\": must be 1ns to 1s"),
        ("[[source]]\nphc = \"/p\"\nscale = \"gps\"", "must be \"auto\", \"utc\" or \"tai\", not"),
        ("[[source]]\nphc = \"/p\"\ntrust = true", "t:1: `trust` needs `scale`: add scale"),
        ("[[source]]\nphc = \" \"", "must be a device, a clock's name or an interface"),
        ("[[source]]\nhost = \"a\"\ntrust = 1", "t:3: `trust` must be true or false"),
        (
            "refclock = \"SHM 0\"",
            "that is [[source]] with `pps`, `phc`, `shm`, `sock` or `vmclock`",
        ),
        ("[source]\nhost = \"a\"", "t:1: `source` must be a list of tables: write [[source]]"),
        ("source = [1]", "t:1: each `source` must be a table"),
        ("source = [1, 2,\n3]", "table: write [[source]]\nt:2: each"),
        ("system-clock = true", "t:1: `system-clock` must be a table: write [system-clock]"),
        (
            "[system-clock]\ndiscipline = \"yes\"",
            "t:2: `discipline` must be true or false, not string",
        ),
        (
            "[system-clock]\nstep = \"sometimes\"",
            "t:2: `step` = \"sometimes\": must be \"start\", \"never\" or \"always\"",
        ),
        (
            "[system-clock]\nstep-above = \"1us\"",
            "t:2: `step-above` = \"1us\": must be 10us to 86400s",
        ),
        ("counter = \"quartz\"", "t:1: `counter` = \"quartz\": "),
        ("clockbound = true", "t:1: `clockbound` must be a table: write [clockbound]"),
        (
            "[clockbound]\ndirectory = \"/c\"",
            "t:1: [clockbound] has no `pages`: add pages = [\"shm1\"]",
        ),
        ("[clockbound]\npages = []", "t:2: `pages` = []: must name at least one of "),
        (
            "[clockbound]\npages = \"shm1\"",
            "t:2: `pages` must be a list, as in [\"shm1\"], not string",
        ),
        (
            "[clockbound]\npages = [\"shm2\"]",
            "t:2: `pages` = \"shm2\": must be \"shm\" (clients 1.x), \"shm0\" (2.x) or \"shm1\"",
        ),
        ("[clockbound]\npages = [\"shm1\", \"shm1\"]", "t:2: `pages` = \"shm1\": is there twice"),
        (
            "[clockbound]\npages = [\"shm1\",\n\"shm0\"]",
            "t:3: `pages` = \"shm0\": bounds the error of the system clock, which nobody keeps: \
                 add discipline = true to [system-clock], or leave this page out",
        ),
        (
            "[clockbound]\npages = [\"shm1\"]\ndirectory = \"run\"",
            "t:3: `directory` = \"run\": must begin with /",
        ),
        (
            "[clockbound]\npage = \"shm1\"",
            "t:2: unknown key `page`; did you mean `pages`? (`page` belongs into the top",
        ),
        ("metrics = true", "t:1: `metrics` must be a table: write [metrics]"),
        ("[metrics]\nlisten = 9924", "t:2: `listen` must be a string in quotes, not integer"),
        (
            "[metrics]\nlisten = \"localhost:9924\"",
            "t:2: `listen` = \"localhost:9924\": must be an address with a port, as in \
                 \"127.0.0.1:9924\" or \"[::1]:9924\", or a path from / on",
        ),
        ("[metrics]\nlisten = \"run/m\"", "or a path from / on"),
        (
            "[metrics]\nport = 9924",
            "t:2: unknown key `port`; it stands behind the address: listen = \"127.0.0.1:9924\"",
        ),
        (
            "accept-step-after = 3600",
            "t:1: `accept-step-after` must be a time with its unit in quotes, as in \"1h\"",
        ),
        ("max-step = \"0s\"", "= \"0s\": must be 1s to 7d, or \"none\" for no limit"),
        ("max-step = 1000", "must be a time with its unit in quotes, as in \"1000s\""),
        ("min-sources = 0", "t:1: `min-sources` = 0: must be a whole number from 1 on, as in 2"),
        ("accept-step-after = \"-1s\"", "= \"-1s\": must not be negative, and at most 7d (168h)"),
        ("max-wander-ppm = 0", "t:1: `max-wander-ppm` = 0: must be 0.001 to 100"),
        ("max-wander-ppm = -1", "must be 0.001 to 100"),
        ("likely-confidence = 1.0", "t:1: `likely-confidence` = 1.0: must be 0.5 to 0.999999999"),
        ("likely-confidence = 0.4", "must be 0.5 to 0.999999999"),
        ("likely-confidence = nan", "must be 0.5 to 0.999999999"),
        ("likely-confidence = 99", "`likely-confidence` must be a probability, as in 0.999999"),
        ("likely-confidence = \"1e-6\"", "must be a probability, as in 0.999999, not string"),
        ("max-wander-ppm = nan", "t:1: `max-wander-ppm` = nan: not a decimal number"),
        (
            "max-wander-ppm = true",
            "t:1: `max-wander-ppm` must be a number of ppm, as in 0.5, not boolean",
        ),
        ("page = \"\"", "t:1: `page` = \"\": must be a path"),
        ("control = \"a\\u0000b\"", "must be a path"),
        ("page = \"/a\"\npage = \"/b\"", "t:2: duplicate key"),
        ("\n\npage = ", "t:3: "),
        ("[[source]]\nhost = \"a", "t:2: "),
        ("\u{1b}[31m", "t:1: "),
    ] {
        let found = parse(text, "t").unwrap_err().to_string();
        assert!(found.contains(message), "{text:?}:\n  {found}\n  {message}");
        assert!(!found.contains('\u{1b}'), "{found}");
    }
}

#[test]
fn all_mistakes_are_named_at_once_in_order() {
    let text = "zeal = 1\n[[source]]\npoll = 0\nhost = \"\"\n[system-clock]\nx = 1\n";
    let error = parse(text, "t").unwrap_err();
    let lines: Vec<_> = error.problems().iter().map(Problem::line).collect();
    assert_eq!(lines, [Some(1), Some(3), Some(4), Some(6)], "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2000) })]
    #[test]
    fn no_text_panics(text in "([a-z]{1,3}|[\\[\\]{}=\"'.,#\n -]|[0-9_xe]|source|host|poll|.){0,60}") {
        let _ = parse(&text, "t");
    }

    #[test]
    fn no_value_panics(
        key in "(counter|page|control|max-wander-ppm|source|system-clock|host|poll|burst|pps|phc|shm|sock|latency|error|scale|trust|prefer|require|authentication|offset|name|discipline|.{0,8})",
        value in "(-?[0-9]{0,40}(\\.[0-9]{0,40})?(e[0-9]{0,5})?|\"[^\"]{0,20}\"|\\[.{0,20}\\]|\\{.{0,20}\\}|true|inf|.{0,10})",
    ) {
        let _ = parse(&format!("{key} = {value}\n[[source]]\n{key} = {value}"), "t");
    }
}

#[test]
fn one_mistake_is_told_once() {
    for text in [
        "[[source]]\nserver = \"a\"",
        "[audit]\ndir = \"/a\"",
        "source = [1, 2]",
        "[[source]]\nhost = \"a\"\npoll = 2000\nmax-poll = 5",
        "[[source]]\nhost = \"a\"\npoll = \"16s\"\nmax-poll = 5",
    ] {
        let told = parse(text, "t").unwrap_err().to_string();
        assert_eq!(told.lines().count(), 1, "{told}");
    }
}
