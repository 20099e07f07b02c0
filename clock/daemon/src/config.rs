//! The configuration file, `truechimer.toml`.
//!
//! ```toml
//! counter = "auto"              # tsc, tsc-fenced, arm-generic, raw, hpet, acpi-pm, acpi-pm-safe
//! page = "/run/truechimer/clock"
//! control = "/run/truechimer/clock.control"   # or "none"
//! replay-log = "/var/log/truechimer.jsonl"    # none unless set
//! state = "/var/lib/truechimer/rate.json"     # or "none"
//! leap-file = "/usr/share/zoneinfo/leap-seconds.list"   # or "none"
//! max-wander-ppm = 0.5          # how far the oscillator's rate may stray, 0.001 to 100
//! accept-step-after = "1h"      # how long to hold out against a server whose time has moved
//! max-step = "1000s"            # how far servers may move the time without the user's word, or "none"
//! # min-sources = 2             # how many must agree; 2 if three or more are configured, else 1
//! likely-confidence = 0.999999  # of the likely interval beside the bound, 0.5 to 0.999999999
//! sandbox = true                # whether to give up all rights that are not needed, once started
//!
//! [[source]]
//! host = "ntp.example.org"      # or "ntp.example.org:1123", "192.0.2.7", "[2001:db8::1]:1123"
//! poll = 16                     # seconds between requests, 1 to 1024
//! burst = true                  # begin with eight requests two seconds apart, then slow down
//! noselect = false              # true: ask and show it, but never believe it
//! # asymmetry = "120us"         # what the fastest request takes − what the fastest reply takes, if known
//! # asymmetry-error = "20us"    # and how well that is known
//!
//! [[source]]
//! pps = "/dev/pps0"             # a pulse per second: a device, or a file as /sys/class/pps/pps0/assert
//! latency = "10us"              # the most by which the kernel's stamp of an edge may be late
//! offset = "0ns"                # how long after the true second the edge comes; negative: before it
//! name = "gps"                  # what to call it; its path unless set
//!
//! [system-clock]
//! discipline = false            # whether to steer CLOCK_REALTIME
//! step = "start"                # when to step it: "start" (once, then), "never", "always"
//! step-above = "1ms"            # a smaller offset is slewed away
//!
//! # [clockbound]                # pages that clients of ClockBound read
//! # pages = ["shm1"]            # "shm1" for clients 3.x; "shm0" (2.x) and "shm" (1.x) need discipline = true
//! # directory = "/run/clockbound"   # where clients look, as /var/run/clockbound
//!
//! [metrics]
//! # listen = "127.0.0.1:9924"   # where OpenMetrics are served: an address with a port, or a path; not unless set
//!
//! [audit]
//! # directory = "/var/lib/truechimer/audit"   # where the record for `truechimer audit` is kept; not unless set
//! # interval = "1min"             # a line for each so long, with the worst bound in it; 1s to 1h
//! # max-mb = 256                  # all of it at most, in 10⁶ bytes: the oldest goes first; 1 to 1000000
//! ```
//!
//! Only `[[source]]` with a `host` is needed: a pulse says when a second begins, and not which. The
//! bound of a clock that follows a pulse is only as true as its `latency`. An unknown key is an
//! error, and so is a value out of its range: each problem is reported with its line and with how
//! to mend it.

mod duration;
mod host;
mod pps;
mod ptp;
mod reader;

use std::path::PathBuf;

pub use truechimer_config::{ConfigError, Place};
use truechimer_counter::Choice;
use truechimer_engine::Config;

use crate::audit;
use crate::clockbound::Wanted;
use truechimer_metrics::Listen;

pub(crate) use host::host_and_port;
pub(crate) use pps::path as pps_path;
pub(crate) use reader::check_poll;
pub use reader::parse;

/// Everything that the daemon needs to know, checked.
#[derive(Clone, PartialEq, Debug)]
pub struct Settings {
    /// The file that all this is read from again, if there is one.
    pub file: Option<PathBuf>,
    /// Configuration of the engine.
    pub engine: Config,
    /// The counter.
    pub counter: Choice,
    /// The clock page; `None`: where [`crate::run`] documents.
    pub page: Option<PathBuf>,
    /// The control socket.
    pub control: Place,
    /// The replay log, if one is wanted.
    pub replay_log: Option<PathBuf>,
    /// Where the rate is kept across boots.
    pub state: Place,
    /// The list of leap seconds.
    pub leap_file: Place,
    /// The pages for clients of ClockBound, if any are wanted.
    pub clockbound: Option<Wanted>,
    /// Where metrics are served, if they are wanted.
    pub metrics: Option<Listen>,
    /// The record for `truechimer audit`, if one is wanted.
    pub audit: Option<audit::Wanted>,
    /// Whether to give up all rights that are not needed, once everything is open.
    pub sandbox: bool,
    /// Whether to forget what the clock page and the state say: not in the file, for one start.
    pub fresh: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            file: None,
            engine: Config::default(),
            counter: Choice::Auto,
            page: None,
            control: Place::Default,
            replay_log: None,
            state: Place::Default,
            leap_file: Place::Default,
            clockbound: None,
            metrics: None,
            audit: None,
            sandbox: true,
            fresh: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use truechimer_clockbound::Layout;
    use truechimer_config::Problem;
    use truechimer_engine::{Asymmetry, PpsConfig, SourceConfig, StepPolicy};
    use truechimer_time::{Rate, Span};

    fn ppm(text: &str) -> Rate {
        text.parse().unwrap()
    }

    #[test]
    fn the_example_in_the_documentation_is_good() {
        let text: String = include_str!("config.rs")
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
        let pps = vec![PpsConfig { name: "gps".into(), ..PpsConfig::new("/dev/pps0") }];
        let engine = Config { sources, pps, max_wander: ppm("0.5"), ..Config::default() };
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
            max-wander-ppm = "0.25 ppm"
            accept-step-after = "90min"
            max-step = "2h"
            min-sources = 1
            source = [
                { host = "[::1]:11", poll = 0x10, burst = false, asymmetry = "-120us",
                  asymmetry-error = "20us" },
                { host = "::1" },
                { host = "b", noselect = true },
            ]
            clockbound = { directory = "/c", pages = ["shm", "shm1"] }
            metrics = { listen = "[::1]:9924" }
            audit = { directory = "/a", interval = "16s", max-mb = 1 }
            system-clock = { discipline = true, step = "always", step-above = "250us" }
        "#;
        let settings = parse(text, "t").unwrap();
        let asymmetry =
            Some(Asymmetry { by: Span::from_micros(-120), error: Span::from_micros(20) });
        let first = SourceConfig { port: 11, burst: false, asymmetry, ..SourceConfig::new("::1") };
        let watched = SourceConfig { no_select: true, ..SourceConfig::new("b") };
        assert_eq!(
            settings,
            Settings {
                file: None,
                sandbox: true,
                engine: Config {
                    sources: vec![first, SourceConfig::new("::1"), watched],
                    max_wander: ppm("0.25"),
                    accept_step_after: Span::from_secs(5400),
                    max_step: Some(Span::from_secs(7200)),
                    min_sources: Some(1),
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
                leap_file: Place::None,
                clockbound: Some(Wanted {
                    pages: vec![Layout::One, Layout::Three],
                    directory: "/c".into(),
                }),
                metrics: Some(Listen::At("[::1]:9924".parse().unwrap())),
                audit: Some(audit::Wanted {
                    directory: "/a".into(),
                    interval: Span::from_secs(16),
                    max_mb: 1,
                }),
                fresh: false,
            }
        );
        assert_eq!(parse("", "empty").unwrap(), Settings::default());
        assert_eq!(parse("[metrics]\n[audit]", "t").unwrap(), Settings::default());
        let record = parse("[audit]\ndirectory = \"/a\"", "t").unwrap().audit.unwrap();
        assert_eq!((record.interval, record.max_mb), (Span::from_secs(60), 256));
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
    fn pulses_stand_among_the_sources() {
        let text = r#"
            [[source]]
            pps = "/sys/class/pps/pps1/assert"
            latency = "2.5 µs"
            offset = "-120ns"
            [[source]]
            host = "a"
            [[source]]
            pps = "/dev/pps0"
            name = "roof"
        "#;
        let engine = parse(text, "t").unwrap().engine;
        assert_eq!(engine.sources, [SourceConfig::new("a")]);
        let first = PpsConfig {
            latency: Span::from_nanos(2_500),
            offset: Span::from_nanos(-120),
            ..PpsConfig::new("/sys/class/pps/pps1/assert")
        };
        assert_eq!(first.name, "/sys/class/pps/pps1/assert");
        let second = PpsConfig { name: "roof".into(), ..PpsConfig::new("/dev/pps0") };
        assert_eq!(engine.pps, [first, second]);
    }

    #[test]
    fn every_mistake_is_named_with_its_line_and_its_mend() {
        for (text, message) in [
            (
                "\n[[source]]\npol = 16\nhost = \"a\"",
                "t:3: unknown key `pol`; did you mean `poll`?",
            ),
            ("poll = 16", "t:1: unknown key `poll`; it belongs into [[source]]"),
            ("[system-clock]\nstate = \"/x\"", "t:2: unknown key `state`; it belongs into the top"),
            (
                "server = \"a\"",
                "t:1: unknown key `server`; a server is [[source]] with host = \"…\"",
            ),
            (
                "[[source]]\nhost = \"a\"\nnts = true",
                "t:3: unknown key `nts`; nothing is authenticated",
            ),
            (
                "[[source]]\nhost = \"a\"\nport = 1123",
                "t:3: unknown key `port`; it stands behind the host: host = \"ntp.example.org:123\"",
            ),
            ("[[source]]\nhost = \"a\"\nminpoll = 4", "t:3: unknown key `minpoll`; that is `poll`"),
            ("[[source]]\nhost = \"a\"\nprefer = true", "`prefer`; no source has more weight than"),
            ("[[source]]\nhost = \"a\"\nxleave = true", "`xleave`; servers are always asked in"),
            (
                "[[source]]\nhost = \"a\"\nkey = 1",
                "t:3: unknown key `key`; nothing is authenticated",
            ),
            ("[[source]]\nhost = \"a\"\nversion = 4", "`version`; the version is always 4"),
            (
                "[[source]]\nmode = \"pool\"",
                "t:2: unknown key `mode`; every [[source]] is one server",
            ),
            ("[Time]\nNTP = \"a\"", "t:1: unknown key `Time`; a server is [[source]]"),
            ("NTP = \"a\"", "t:1: unknown key `NTP`; a server is [[source]]"),
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
            (
                "stratum = 1",
                "t:1: unknown key `stratum`; known in the top of the file: counter, page,",
            ),
            ("[[source]]\nhost = \"a\"\npoll = 0", "t:3: `poll` = 0: must be 1 to 1024 seconds"),
            ("[[source]]\nhost = \"a\"\npoll = 99999999999999999999", "must be 1 to 1024 seconds"),
            (
                "[[source]]\nhost = \"a\"\npoll = 1.5",
                "t:3: `poll` must be a whole number of seconds, as in 16, not float",
            ),
            (
                "[[source]]\nhost = \"a\"\nburst = 1",
                "t:3: `burst` must be true or false, not integer",
            ),
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
                "t:1: `asymmetry` needs `asymmetry-error`: how well is it known?",
            ),
            (
                "[[source]]\nhost = \"a\"\nasymmetry-error = \"1ms\"",
                "t:1: `asymmetry-error` is nothing without `asymmetry`",
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
            ("[[source]]\npps = \"/p\"\nasymmetry = \"1us\"", "t:3: `asymmetry` is for a server"),
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
                "t:3: `latency` is for a pulse: add pps",
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
            (
                "[[source]]\npps = \"/p\"\noffset = \"0.5s\"",
                "t:3: `offset` = \"0.5s\": must be less",
            ),
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
            ("[source]\nhost = \"a\"", "t:1: `source` must be a list of tables: write [[source]]"),
            ("source = [1]", "t:1: each `source` must be a table"),
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
            (
                "[clockbound]\npages = [\"shm1\", \"shm1\"]",
                "t:2: `pages` = \"shm1\": is there twice",
            ),
            (
                "[clockbound]\npages = [\"shm1\",\n\"shm0\"]",
                "t:3: `pages` = \"shm0\": bounds the error of the system clock, which nobody keeps: \
                 add discipline = true to [system-clock], or leave it out",
            ),
            (
                "[clockbound]\npages = [\"shm1\"]\ndirectory = \"run\"",
                "t:3: `directory` = \"run\": must begin with /",
            ),
            ("[clockbound]\npage = \"shm1\"", "t:2: unknown key `page`; it belongs into the top"),
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
            (
                "min-sources = 0",
                "t:1: `min-sources` = 0: must be a whole number from 1 on, as in 2",
            ),
            (
                "accept-step-after = \"-1s\"",
                "= \"-1s\": must not be negative, and at most 7d (168h)",
            ),
            ("max-wander-ppm = 0", "t:1: `max-wander-ppm` = 0: must be 0.001 to 100"),
            ("max-wander-ppm = -1", "must be 0.001 to 100"),
            (
                "likely-confidence = 1.0",
                "t:1: `likely-confidence` = 1.0: must be 0.5 to 0.999999999",
            ),
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
            key in "(counter|page|control|max-wander-ppm|source|system-clock|host|poll|burst|pps|latency|offset|name|discipline|.{0,8})",
            value in "(-?[0-9]{0,40}(\\.[0-9]{0,40})?(e[0-9]{0,5})?|\"[^\"]{0,20}\"|\\[.{0,20}\\]|\\{.{0,20}\\}|true|inf|.{0,10})",
        ) {
            let _ = parse(&format!("{key} = {value}\n[[source]]\n{key} = {value}"), "t");
        }
    }
}
