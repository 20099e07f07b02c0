//! Scenario files: what is wrong with them is said, with the line and how to mend it.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use proptest::prelude::*;
use truechimer_sim::{Scenario, ScenarioError, find};

const GOOD: &str = r#"
name = "mine"
hours = 2
warm-up-hours = 0.5
poll = 64

[oscillator]
skew-ppm = -3

[[server]]
name = "a"
[server.forward]
floor-ms = 1
[[server.forward.queue]]
law.exponential.mean-ms = 0.2

[[server]]
name = "b"
offset-ms = 0.5
"#;

fn error(text: &str) -> ScenarioError {
    Scenario::from_toml(text).expect_err(text)
}

#[test]
fn a_file_by_hand_is_read() {
    let scenario = Scenario::from_toml(GOOD).unwrap();
    assert_eq!((scenario.name.as_str(), scenario.hours, scenario.poll), ("mine", 2.0, 64));
    assert_eq!(scenario.servers.len(), 2);
    assert_eq!(scenario.honest(), [true, false]);
    assert!(!scenario.must_hold());
}

#[test]
fn what_is_wrong_is_named_with_its_line() {
    for (from, to, line, says) in [
        ("poll = 64", "pol = 64", 5, "unknown field `pol`; did you mean `poll`?"),
        ("poll = 64", "poll = 0", 5, "poll = 0: must be between 1 and 1024"),
        ("poll = 64", "poll = 1025", 5, "must be between 1 and 1024"),
        ("poll = 64", "poll = \"fast\"", 5, "invalid type"),
        ("hours = 2", "hours = 20000", 3, "hours = 20000: must be between 0.001 and 10000"),
        ("hours = 2", "hours = nan", 3, "hours = NaN"),
        ("hours = 2", "hours = -1", 3, "hours = -1"),
        ("warm-up-hours = 0.5", "warm-up-hours = 3", 4, "less than hours = 2"),
        ("skew-ppm = -3", "skew-pmm = -3", 8, "did you mean `skew-ppm`?"),
        ("skew-ppm = -3", "skew-ppm = 1e9", 8, "oscillator: skew-ppm = 1000000000"),
        ("floor-ms = 1", "floor-ms = -1", 13, "server 1: forward: floor-ms = -1"),
        ("mean-ms = 0.2", "mean-ms = 1e7", 15, "server 1: forward: queue 1: mean-ms"),
        ("law.exponential", "law.exponental", 15, "did you mean `exponential`?"),
        ("offset-ms = 0.5", "offset-ms = 1e300", 19, "server 2: offset-ms"),
        ("name = \"b\"", "name = \"a\"", 18, "server 2: name = \"a\": twice"),
        ("name = \"b\"", "name = \"a b\"", 18, "must be one word"),
        ("name = \"mine\"", "name = ", 2, ""),
        ("poll = 64", "poll = 64\nbegin = 5", 6, "begin = 5"),
        ("poll = 64", "adaptive = [64, 16]", 5, "the smaller one comes first"),
        ("poll = 64", "[leap]\nmidnight = 1814400001", 6, "not a midnight"),
        ("poll = 64", "[host]\ntick-ms = 0", 6, "host: tick-ms = 0"),
        ("poll = 64", "[[restart]]\nat-s = -1", 6, "restart 1: at-s = -1"),
        ("poll = 64", "[[host.suspend]]\nfrom-s = 9\nto-s = 3", 7, "must be after from-s = 9"),
    ] {
        let text = GOOD.replacen(from, to, 1);
        assert_ne!(text, GOOD, "{from}");
        let found = error(&text);
        assert_eq!(found.line, Some(line), "{to}: {found}");
        assert!(found.what.contains(says), "{to}: {found}");
        assert!(found.to_string().starts_with(&format!("line {line}: ")));
    }
}

#[test]
fn what_has_no_line_is_named_all_the_same() {
    assert!(error("").what.contains("missing field `name`"), "{}", error(""));
    assert!(error("name = \"x\"\nserver = []").what.contains("there must be 1 to 64"));
    let lan = find("lan").unwrap();
    assert!(lan.clone().with_poll(0).is_err() && lan.clone().with_poll(1025).is_err());
    for hours in [0.0, -1.0, f64::NAN, f64::INFINITY, 10_001.0] {
        assert!(lan.clone().with_hours(hours).is_err(), "{hours}");
    }
    assert_eq!(lan.with_hours(7.0).unwrap().warm_up_hours, 1.0);
}

#[test]
fn recorded_delays_are_asked_for() {
    let text = GOOD.replacen("exponential.mean-ms = 0.2", "recorded.file = \"delays\"", 1);
    assert!(error(&text).what.contains("delays"), "{}", error(&text));
    let read = |file: &str| {
        assert_eq!(file, "delays");
        truechimer_sim::parse_delays("0.001\n0.002\n").map_err(|e| e.to_string())
    };
    let scenario = Scenario::from_toml_with(&text, read).unwrap();
    assert_eq!(scenario.check(), Ok(()));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]
    #[test]
    fn no_text_panics(at in 0..GOOD.len(), by in "[a-z0-9=\\[\\]\".\n-]{0,6}", cut in 0..12usize) {
        let end = (at + cut).min(GOOD.len());
        let text = format!("{}{by}{}", &GOOD[..at], &GOOD[end..]);
        let _ = Scenario::from_toml(&text);
    }
}
