//! Configuration files that the project ships must be right.

use truechimer_daemon::Options;
use truechimer_daemon::config::parse;
use truechimer_engine::{
    Authentication, Config, Family, PtpConfig, RefClockConfig, RefClockKind, SourceConfig,
};
use truechimer_time::Span;

/// NetworkManager calls it with what DHCP has told, which anybody on the link may have.
#[test]
fn the_dispatcher_writes_what_the_daemon_reads() {
    let folder = std::env::temp_dir().join(format!("truechimer-dispatch-{}", std::process::id()));
    let directory = folder.join("sources");
    std::fs::create_dir(&folder).expect("a folder");
    let config = folder.join("truechimer.toml");
    let text = format!("source-dir = {directory:?}\n[[source]]\nhost = \"a\"\n");
    std::fs::write(&config, text).expect("a file");
    let options = Options { config: Some(config), ..Options::default() };
    let on = |interface: &str, servers: &str, action: &str| {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../contrib/truechimer-dispatcher");
        let mut command = std::process::Command::new("sh");
        command.args([script, interface, action]).env("TRUECHIMER_SOURCE_DIR", &directory);
        let status = command.env("DHCP4_NTP_SERVERS", servers).status().expect("it runs");
        assert!(status.success());
        let settings = options.settings().expect("a good configuration");
        assert!(settings.left_out.is_empty(), "{:?}", settings.left_out);
        settings.engine.sources.iter().map(SourceConfig::name).collect::<Vec<_>>()
    };
    let names = |servers: &str, action: &str| on("eth0", servers, action);
    // A file of the version before, which wrote one for each link, goes.
    std::fs::create_dir(&directory).expect("a directory");
    std::fs::write(directory.join("eth0.toml"), "[[source]]\nhost = \"old\"\n").expect("a file");
    let two = ["a:123", "192.0.2.7:123", "[2001:db8::7]:123"];
    assert_eq!(names("192.0.2.7 2001:db8::7 192.0.2.7", "up"), two);
    let hostile = "x\" $(touch${IFS}/tmp/x) -x ../y b\\c * ok.example";
    assert_eq!(names(hostile, "dhcp4-change"), ["a:123", "ok.example:123"]);
    assert_eq!(names("192.0.2.7", "pre-up"), ["a:123", "ok.example:123"]);
    assert_eq!(names("192.0.2.7", "down"), ["a:123"]);
    // Two in all, whatever the number of links, which name them again or others; those of a link that is left count.
    assert_eq!(names("192.0.2.7 192.0.2.8", "up"), ["a:123", "192.0.2.7:123", "192.0.2.8:123"]);
    let both = on("wlan0", "192.0.2.8 192.0.2.9 198.51.100.1", "up");
    assert_eq!(both, ["a:123", "192.0.2.7:123", "192.0.2.8:123"]);
    assert_eq!(on("eth0", "", "down"), ["a:123", "192.0.2.8:123", "192.0.2.9:123"]);
    assert_eq!(on("wlan0", "", "down"), ["a:123"]);
    let left = std::fs::read_dir(&directory).expect("it is there").count();
    std::fs::remove_dir_all(&folder).expect("it goes");
    assert_eq!(left, 0);
}

/// The lines that the page on ClockBound proposes are those that the virtual machine tries.
#[test]
fn pages_of_clockbound_are_tried_as_documented() {
    let page = include_str!("../../../docs/use/clockbound.md");
    let block = page.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next());
    let text = format!("{}\n[[source]]\nhost = \"a\"\n", block.expect("a configuration"));
    let settings = parse(&text, "docs/use/clockbound.md").expect("as it stands");
    assert_eq!(settings.clockbound.expect("pages are wanted").pages.len(), 3);
    let engine = settings.engine;
    assert!(engine.discipline && engine.step == truechimer_engine::StepPolicy::Always);
    let tried = include_str!("../../../tests/vm/guest/clockbound.sh");
    assert!(tried.contains("'system-clock = { discipline = true, step = \"always\" }'"));
}

/// The page that takes no root: the lines that the shell writes are good where they are tried, and that
/// makes what is documented.
#[test]
fn the_page_without_root_is_as_documented() {
    let page = include_str!("../../../docs/use/clockbound.md");
    let mut blocks = page.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
    let block = blocks.find(|block| block.contains("<<END"));
    let (script, started) =
        block.and_then(|block| block.split_once("END\ntruechimer")).expect("a script");
    assert_eq!(started.trim(), "run --config clock.toml");
    let folder = std::env::temp_dir().join(format!("truechimer-rootless-{}", std::process::id()));
    std::fs::create_dir(&folder).expect("a folder");
    let mut command = std::process::Command::new("sh");
    command.current_dir(&folder).args(["-c", &format!("{script}END\n")]);
    assert!(command.env("XDG_RUNTIME_DIR", &folder).status().expect("it runs").success());
    // Whichever counter this machine has.
    let text = std::fs::read_to_string(folder.join("clock.toml")).expect("it is written");
    let settings = parse(&text, "clock.toml").expect("as it stands");
    let wanted = settings.clockbound.expect("pages are wanted");
    assert_eq!((wanted.pages.len(), wanted.directory), (1, folder.join("clockbound")));
    std::fs::remove_dir_all(&folder).expect("it goes");
}

#[test]
fn the_documented_file_is_right_and_complete() {
    let text = include_str!("../../../docs/reference/truechimer.toml");
    let settings = parse(text, "docs/reference/truechimer.toml").expect("as it stands");
    assert_eq!(settings.engine.sources.len(), 3);
    // Every key in a comment is a key, with a value that is allowed.
    let uncommented: String = text
        .lines()
        .map(|line| match line.strip_prefix("# ") {
            Some(rest) if rest.contains(" = ") || rest.starts_with("[[") => format!("{rest}\n"),
            _ => format!("{line}\n"),
        })
        .collect();
    assert!(uncommented.matches("\nmax-wander-ppm").count() == 1);
    let full =
        parse(&uncommented, "docs/reference/truechimer.toml").expect("with its defaults spelt out");
    let of = |kind, path: &str, error| RefClockConfig::new(kind, path, error);
    let refclocks = vec![
        RefClockConfig {
            name: "gps".into(),
            pulse_error: Span::from_nanos(50),
            ..RefClockConfig::pulse("/dev/pps0")
        },
        RefClockConfig {
            error: Span::from_nanos(100),
            ..RefClockConfig::pulse("/dev/ptp1:channel=0:pin=1")
        },
        of(RefClockKind::Phc, "/dev/ptp0", Span::from_micros(1)),
        RefClockConfig {
            name: "shm0".into(),
            ..of(RefClockKind::Shm, "0", Span::from_millis(100))
        },
        of(RefClockKind::Sock, "/run/truechimer/gps.sock", Span::from_micros(10)),
        of(RefClockKind::Vmclock, "/dev/vmclock0", Span::ZERO),
    ];
    let asymmetry = full.engine.sources.first().and_then(|source| source.asymmetry);
    let asymmetry = asymmetry.expect("the first server's is spelt out");
    assert!(asymmetry.by > Span::ZERO && asymmetry.error > Span::ZERO);
    let mut sources = settings.engine.sources.clone();
    sources[0].asymmetry = Some(asymmetry);
    (sources[0].max_poll, sources[0].family) = (Some(16), Some(Family::Ipv4));
    sources[0].interface = Some("eth0".into());
    sources[0].authentication = Authentication::Key(5);
    sources.push(SourceConfig::pool("pool.ntp.org"));
    let ptp = PtpConfig {
        masters: vec![[192, 0, 2, 1].into()],
        error: Some(Span::from_micros(1)),
        ..PtpConfig::default()
    };
    sources.push(SourceConfig { ptp: Some(ptp), ..SourceConfig::ptp("eth0") });
    let min_sources = Some(2);
    assert_eq!(full.engine, Config { refclocks, sources, min_sources, ..settings.engine });
    assert_eq!(full.counter, settings.counter);
    assert!(settings.source_dir.is_none() && full.source_dir.is_some());
    assert!(settings.key_file.is_none() && full.key_file.is_some());
    assert!(full.replay_log.is_some());
    assert!(settings.metrics.is_none() && full.metrics.is_some());
    assert!(settings.audit.is_none() && full.audit.is_some());
}
