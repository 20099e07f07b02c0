//! Scenario files: what is wrong with them is said, with the line and how to mend it; and their
//! reference, docs/reference/scenarios.md, is true.

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
        ("poll = 64", "pol = 64", 5, "unknown key `pol`; did you mean `poll`? Known are: name,"),
        ("poll = 64", "poll = 0", 5, "poll = 0: must be between 1 and 1024"),
        ("poll = 64", "poll = 1025", 5, "must be between 1 and 1024"),
        ("poll = 64", "poll = \"fast\"", 5, "poll = \"fast\": must be a whole number, found text"),
        ("hours = 2", "hours = 20000", 3, "hours = 20000: must be between 0.001 and 10000"),
        ("hours = 2", "hours = nan", 3, "hours = NaN"),
        ("hours = 2", "hours = -1", 3, "hours = -1"),
        ("warm-up-hours = 0.5", "warm-up-hours = 3", 4, "less than hours = 2"),
        ("skew-ppm = -3", "skew-pmm = -3", 8, "did you mean `skew-ppm`?"),
        ("skew-ppm = -3", "skew-ppm = 1e9", 8, "oscillator: skew-ppm = 1000000000"),
        ("floor-ms = 1", "floor-ms = -1", 13, "server 1: forward: floor-ms = -1"),
        ("mean-ms = 0.2", "mean-ms = 1e7", 15, "server 1: forward: queue 1: mean-ms = 10000000:"),
        ("law.exponential", "law.exponental", 15, "did you mean `exponential`?"),
        ("offset-ms = 0.5", "offset-ms = 1e300", 19, "server 2: offset-ms = 1e300: must be"),
        ("name = \"b\"", "name = \"a\"", 18, "server 2: name = \"a\": twice"),
        ("name = \"b\"", "name = \"a b\"", 18, "must be one word"),
        ("name = \"mine\"", "name = ", 2, ""),
        ("poll = 64", "poll = 64\nbegin = 5", 6, "begin = 5"),
        ("poll = 64", "adaptive = [64, 16]", 5, "the smaller one comes first"),
        ("poll = 64", "[leap]\nmidnight = 1814400001", 6, "not a midnight"),
        ("poll = 64", "[leap]\nmidnight = 1814313600", 6, "the midnight before day 30 of a month"),
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
    assert!(error("").what.contains("`name` is missing"), "{}", error(""));
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
    let nowhere = |file: &str| Err(format!("here/{file}: there is no such file"));
    let error = Scenario::from_toml_with(&text, nowhere).unwrap_err();
    let says = "server 1: forward: queue 1: file = \"delays\": here/delays: there is no such file";
    assert_eq!((error.line, error.what.as_str()), (Some(15), says));
    let read = |file: &str| {
        assert_eq!(file, "delays");
        truechimer_sim::parse_delays("0.001\n0.002\n").map_err(|e| e.to_string())
    };
    let scenario = Scenario::from_toml_with(&text, read).unwrap();
    assert_eq!(scenario.check(), Ok(()));
}

/// Messages about types are in the words of the file.
#[test]
fn wrong_types_are_named_in_plain_words() {
    let top = |line: &str| format!("{line}\n{GOOD}");
    let end = |lines: &str| format!("{GOOD}{lines}");
    let queue = |line: &str| end(&format!("[[server.forward.queue]]\n{line}\n"));
    let mend = "; leave out the quotation marks";
    for (text, line, says) in [
        (top("burst = 1"), 1, "burst = 1: must be true or false, found a whole number".to_owned()),
        (
            top("burst = \"true\""),
            1,
            format!("burst = \"true\": must be true or false, found text{mend}"),
        ),
        (
            top("about = 5"),
            1,
            "about = 5: must be text in quotation marks, found a whole number".into(),
        ),
        (
            top("begin = \"5\""),
            1,
            format!("begin = \"5\": must be a whole number, found text{mend}"),
        ),
        (
            top("begin = 1.8e9"),
            1,
            "must be a whole number without point or exponent: 1800000000".into(),
        ),
        (top("begin = 1e300"), 1, "begin = 1e300: must be a whole number".into()),
        (top("begin = 2027-01-01"), 1, "must be a whole number, found a date or a time".into()),
        (
            top("max-wander-ppm = [1]"),
            1,
            "max-wander-ppm = [1]: must be a number, found a list".into(),
        ),
        (top("max-wander-ppm = true"), 1, "must be a number, found a truth value".into()),
        (top("max-wander-ppm = 1e300"), 1, "max-wander-ppm = 1e300: must be between".into()),
        (
            top("adaptive = 16"),
            1,
            "adaptive = 16: must be a list of 2, found a whole number".into(),
        ),
        (top("adaptive = [16]"), 1, "adaptive = [16]: must be a list of 2".into()),
        (
            top("adaptive = [16, 64, 256]"),
            1,
            "adaptive = [16, 64, 256]: must be a list of 2".into(),
        ),
        (top("adaptive = [16, \"64\"]"), 1, "adaptive 2 = \"64\": must be a whole number".into()),
        (
            top("host = 5"),
            1,
            "host = 5: must be a table (write [host], its keys below), found a whole number".into(),
        ),
        (
            top("host = [1000000000]"),
            1,
            "host = [1000000000]: must be a table (write [host], its keys below), found a list"
                .into(),
        ),
        (top("leap.inserted = true"), 1, "leap: `midnight` is missing".into()),
        (top("leap = \"\\u001b[31m\""), 1, "must be a table".into()),
        (
            end("[change]\nat-s = 5"),
            20,
            "change: must be a list: write [[change]], in two pairs".into(),
        ),
        (
            end("[[host]]\ntick-ms = 5"),
            20,
            "host 1: must be a single table: write [host], in one".into(),
        ),
        (
            end("[host]\npoll = 5"),
            21,
            "Keys of the scenario itself stand above its first table".into(),
        ),
        (
            end("[[server.step]]\nat-s = \"5\""),
            21,
            "server 2: step 1: at-s = \"5\": must be".into(),
        ),
        (end("[[server.step]]\nat-s = 5"), 20, "server 2: step 1: `by-ms` is missing".into()),
        (end("poll = 16\npoll = 16"), 21, "`poll` is there twice".into()),
        (
            end("poll = 16s"),
            20,
            "`16s` where a value has to be: a number, true or false, text".into(),
        ),
        (end("poll ="), 20, "nothing where a value has to be".into()),
        (
            queue("law = \"exponential\""),
            21,
            "law = \"exponential\": has keys of its own: write".into(),
        ),
        (
            queue("law = 5"),
            21,
            "law = 5: must be one of: constant, exponential, gamma, lomax".into(),
        ),
        (queue("law = {}"), 21, "law: must be one of: constant".into()),
        (
            queue("law = { constant.ms = 1, gamma.shape = 1 }"),
            21,
            "must be a single one of: const".into(),
        ),
        (
            queue("law = \"pareto\""),
            21,
            "unknown kind `pareto`. Known are: constant, exponential,".into(),
        ),
        (queue("law.constant = {}"), 21, "queue 1: law: constant: `ms` is missing".into()),
        (queue("law.constant.ms = 1\nwhen.always = 1"), 22, "always = 1: has no keys".into()),
        (
            queue("law.constant.ms = 1\nwhen = 1"),
            22,
            "must be one of: always, bursts, daily".into(),
        ),
        (
            end("[host.stamps]\nlaw = 1"),
            21,
            "host: stamps: law = 1: must be one of: kernel, user".into(),
        ),
    ] {
        let found = error(&text);
        assert_eq!(found.line, Some(line), "{found}\n{text}");
        assert!(found.what.contains(&says), "{says}: {found}");
        assert!(found.to_string().len() < 400 && !found.what.contains(char::is_control), "{found}");
    }
    assert!(error("name = \"x\"").what.contains("at least one [[server]]"));
}

/// Values that do not fit into the type are out of range in the same words as those that do.
#[test]
fn out_of_range_is_out_of_range() {
    for (key, low, high) in [
        ("poll", "1", "1024"),
        ("stratum", "1", "15"),
        ("precision", "-32", "0"),
        ("host.counter-hz", "1000000", "10000000000"),
    ] {
        for value in ["-33", "-1000", "100000000000", "99999999999999999999999999999"] {
            let line = format!("{key} = {value}\n");
            let text =
                if key.contains('.') { format!("{line}{GOOD}") } else { format!("{GOOD}{line}") };
            let found = error(&text);
            assert!(found.what.ends_with(&format!("must be between {low} and {high}")), "{found}");
        }
    }
}

/// The kinds that a message lists are those that there are.
#[test]
fn kinds_are_all_listed() {
    for (key, kinds) in [("law", "recorded"), ("when", "ramp")] {
        let text = |value: &str| {
            let law = if key == "when" { "law.constant.ms = 1\n" } else { "" };
            format!("{GOOD}[[server.forward.queue]]\n{law}{key} = {value}\n")
        };
        let [wrong, unknown] = [text("5"), text("\"x-y-z\"")].map(|text| error(&text).what);
        let list = |what: &str| what.rsplit_once(": ").unwrap().1.to_owned();
        assert_eq!(list(&wrong), list(&unknown));
        assert!(list(&wrong).ends_with(kinds));
    }
    let law = |value: &str| error(&format!("{GOOD}[host.stamps]\nlaw = {value}")).what;
    assert!(law("5").ends_with(": kernel, user") && law("\"x\"").ends_with(": kernel, user"));
}

#[test]
fn recorded_delays_are_in_seconds() {
    use truechimer_sim::parse_delays;
    let ms = "18.2\n18.9\n17.1\n";
    let error = |text: &str| parse_delays(text).unwrap_err();
    assert_eq!(
        error(ms).to_string(),
        "the median delay is 18.2: delays are in seconds; divide milliseconds by 1000"
    );
    assert!(error("1 2\n3 4\n").what.contains("delays are in seconds"));
    // Two directions side by side are not a time and a delay.
    let sides = error("0.2 0.3\n0.1 0.3\n");
    assert_eq!(sides.line, 2);
    assert!(
        sides
            .what
            .contains("the first one is the time and the second one the delay, both in seconds")
    );
    // A single one on its way for long, where the others are quick: or else not.
    assert!(parse_delays("0.02\n0.03\n12\n").is_ok());
    let mixed = error("0.3\n0.2\n12\n0.4\n");
    assert_eq!((mixed.line, mixed.what.contains("the delay 12 is far above")), (3, true));
    assert!(error("0,002\n").what.contains("write a decimal point"));
    assert!(parse_delays("\u{feff}0.001\r\n0.002\r\n").is_ok());
}

#[test]
fn printed_scenarios_say_where_their_keys_are_explained() {
    let text = find("wifi").unwrap().to_toml();
    assert!(
        text.starts_with("# ")
            && text.lines().next().unwrap().contains("docs/reference/scenarios.md")
    );
    assert_eq!(Scenario::from_toml(&text).unwrap(), find("wifi").unwrap());
}

#[test]
fn what_a_scenario_is_stands_by_itself() {
    for scenario in truechimer_sim::catalogue() {
        let about = &scenario.about;
        assert!(about.chars().count() <= 110, "{about}");
        // Not in the terms of the one above it in the list, nor longer by less than nothing.
        assert!(!about.starts_with("the same"), "{about}");
        assert!(!about.contains(" -") && !about.contains(" +"), "{about}");
    }
}

mod reference;

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]
    #[test]
    fn no_text_panics(at in 0..GOOD.len(), by in "[a-z0-9=\\[\\]\".\n-]{0,6}", cut in 0..12usize) {
        let end = (at + cut).min(GOOD.len());
        let text = format!("{}{by}{}", &GOOD[..at], &GOOD[end..]);
        let _ = Scenario::from_toml(&text);
    }
}
