//! Configuration files that the project ships must be right.

use truechimer_daemon::config::parse;
use truechimer_engine::{Config, PpsConfig, PtpConfig, SourceConfig};
use truechimer_time::Span;

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
    let pps = vec![PpsConfig { name: "gps".into(), ..PpsConfig::new("/dev/pps0") }];
    let asymmetry = full.engine.sources.first().and_then(|source| source.asymmetry);
    let asymmetry = asymmetry.expect("the first server's is spelt out");
    assert!(asymmetry.by > Span::ZERO && asymmetry.error > Span::ZERO);
    let mut sources = settings.engine.sources.clone();
    sources[0].asymmetry = Some(asymmetry);
    let ptp = PtpConfig { error: Some(Span::from_micros(1)), ..PtpConfig::default() };
    sources.push(SourceConfig { ptp: Some(ptp), ..SourceConfig::ptp("eth0") });
    let min_sources = Some(2);
    assert_eq!(full.engine, Config { pps, sources, min_sources, ..settings.engine });
    assert_eq!(full.counter, settings.counter);
    assert!(full.replay_log.is_some());
    assert!(settings.metrics.is_none() && full.metrics.is_some());
    assert!(settings.audit.is_none() && full.audit.is_some());
}
