//! Results of the path against what was asked for.

use proptest::prelude::*;

use super::*;
use crate::random::tests::{checksum, distance};
use crate::scenario::parse;

const DAY: f64 = 86_400.0;

fn path(spec: &PathSpec) -> Path {
    spec.check().unwrap();
    Path::new(spec, 1, "there")
}

fn queue(law: Law, when: When) -> PathSpec {
    PathSpec { queues: vec![Queue { law, when }], ..PathSpec::default() }
}

/// The delays of `n` packets sent `interval` apart, from time 0 on: nothing for the lost ones.
fn send(spec: &PathSpec, n: u32, interval: f64) -> Vec<Option<f64>> {
    let mut path = path(spec);
    let sent = (0..n).map(|i| f64::from(i) * interval);
    sent.map(|t| path.pass(t).arrival.map(|arrival| arrival - t)).collect()
}

#[track_caller]
fn assert_law(law: Law, distribution: impl Fn(f64) -> f64) {
    // All at time 0, so that rounding does not show.
    let mut path = path(&queue(law, When::Always));
    let delays = (0..20_000).map(|_| path.pass(0.0).arrival.unwrap()).collect();
    let distance = distance(delays, distribution);
    assert!(distance < 2.2, "{distance}");
}

#[test]
fn laws_are_in_milliseconds() {
    assert_law(Law::Exponential { mean_ms: 2.0 }, |x| 1.0 - libm::exp(-x / 0.002));
    assert_law(Law::Gamma { shape: 2.0, scale_ms: 1.0 }, |x| {
        1.0 - libm::exp(-x / 0.001) * (1.0 + x / 0.001)
    });
    assert_law(Law::Lomax { shape: 1.5, scale_ms: 1.0, cap_ms: None }, |x| {
        1.0 - libm::pow(1.0 + x / 0.001, -1.5)
    });
    let constant = queue(Law::Constant { ms: 3.0 }, When::Always);
    assert_eq!(path(&constant).pass(0.0).arrival, Some(0.003));
}

#[test]
fn tails_are_cut() {
    let lomax = |cap_ms| queue(Law::Lomax { shape: 0.1, scale_ms: 1000.0, cap_ms }, When::Always);
    for (cap, limit) in [(Some(50.0), 0.05), (None, 1000.0)] {
        let delays = send(&lomax(cap), 1000, 0.0);
        assert!(delays.iter().flatten().all(|delay| *delay <= limit));
        assert!(delays.contains(&Some(limit)), "heavy enough to reach it");
    }
}

#[test]
fn bursts_only_when_they_are() {
    let when = When::Bursts { first_s: 600.0, length_s: 420.0, period_s: 1020.0 };
    let spec = PathSpec { floor_ms: 0.1, ..queue(Law::Exponential { mean_ms: 1.0 }, when) };
    let mut path = path(&spec);
    for t in 0..5000 {
        let delay = path.pass(f64::from(t)).arrival.unwrap() - f64::from(t);
        let inside = t >= 600 && (t - 600) % 1020 < 420;
        assert_eq!((delay - 1e-4).abs() > 1e-11, inside, "{t}: {delay}");
    }
}

/// Factor of a constant of 1 s at `t`.
fn factor(when: When, t: f64) -> f64 {
    path(&queue(Law::Constant { ms: 1000.0 }, when)).pass(t).arrival.unwrap() - t
}

#[test]
fn load_by_the_time_of_day() {
    let daily = When::Daily { peak_s: 0.25 * DAY, low: 0.2, period_s: DAY };
    for (t, expected) in [(0.25, 1.0), (0.5, 0.6), (0.75, 0.2), (1.0, 0.6), (1.25, 1.0)] {
        let factor = factor(daily, t * DAY);
        assert!((factor - expected).abs() < 1e-9, "{t}: {factor}");
    }
}

#[test]
fn load_that_comes_and_goes() {
    let between = When::Between { from_s: 10.0, to_s: 20.0 };
    let ramp = When::Ramp { from_s: 10.0, to_s: 20.0, until_s: None };
    for (t, expected, ramped) in
        [(9.0, 0.0, 0.0), (10.0, 1.0, 0.0), (15.0, 1.0, 0.5), (20.0, 0.0, 1.0), (99.0, 0.0, 1.0)]
    {
        assert_eq!(factor(between, t), expected, "{t}");
        assert_eq!(factor(ramp, t), ramped, "{t}");
    }
}

#[test]
fn shifts_are_exact() {
    let spec = PathSpec {
        floor_ms: 1.0,
        shifts: vec![
            Shift { at_s: 100.0, by_ms: 0.9, until_s: None },
            Shift { at_s: 150.0, by_ms: -1.5, until_s: Some(200.0) },
        ],
        ..PathSpec::default()
    };
    let mut path = path(&spec);
    for (t, ms) in [(0.0, 1.0), (99.0, 1.0), (100.0, 1.9), (150.0, 0.4), (199.0, 0.4), (200.0, 1.9)]
    {
        assert!((path.floor_at(t) - 1e-3 * ms).abs() < 1e-15, "{t}");
        assert_eq!(path.pass(t).arrival, Some(t + path.floor_at(t)));
    }
}

#[test]
fn loss_is_as_frequent_as_it_says() {
    let spec = PathSpec { loss: 0.2, ..PathSpec::exponential(0.1, 0.01) };
    let lost = send(&spec, 20_000, 16.0).iter().filter(|delay| delay.is_none()).count();
    // Four standard deviations: √(20000 · 0.2 · 0.8) = 57.
    assert!(lost.abs_diff(4000) < 4 * 57, "{lost}");
    let all = PathSpec { loss: 1.0, ..PathSpec::default() };
    assert!(send(&all, 100, 1.0).iter().all(Option::is_none));
}

#[test]
fn nothing_passes_in_an_outage() {
    let outages = vec![Outage { from_s: 10.0, to_s: 20.0 }, Outage { from_s: 30.0, to_s: 31.0 }];
    let delays = send(&PathSpec { outages, ..PathSpec::exponential(0.1, 0.01) }, 40, 1.0);
    for (t, delay) in delays.iter().enumerate() {
        assert_eq!(delay.is_none(), (10..20).contains(&t) || t == 30, "{t}");
    }
}

#[test]
fn copies_queue_by_themselves() {
    let spec = PathSpec { duplication: 0.1, ..PathSpec::exponential(0.1, 0.01) };
    let mut path = path(&spec);
    let (mut copies, mut first) = (0, 0);
    for i in 0..20_000 {
        let passage = path.pass(f64::from(i));
        let (arrival, copy) = (passage.arrival.unwrap(), passage.copy);
        assert_eq!(passage.arrivals().count(), 1 + usize::from(copy.is_some()));
        copies += u32::from(copy.is_some());
        first += u32::from(copy.is_some_and(|copy| copy < arrival));
    }
    assert!(copies.abs_diff(2000) < 4 * 43, "{copies}");
    assert!(first.abs_diff(copies / 2) < 4 * 23, "{first} of {copies}");
}

#[test]
fn packets_that_are_held_back_are_overtaken() {
    let spec =
        PathSpec { floor_ms: 1.0, reordering: 0.3, held_back_ms: 2.0, ..PathSpec::default() };
    let mut path = path(&spec);
    let arrivals: Vec<f64> =
        (0..2000).map(|i| path.pass(0.001 * f64::from(i)).arrival.unwrap()).collect();
    let overtaken = arrivals.windows(2).filter(|pair| pair[1] < pair[0]).count();
    // One that is held back, before one that is not: 0.3 · 0.7.
    assert!(overtaken.abs_diff(420) < 80, "{overtaken}");
}

#[test]
fn one_chance_does_not_disturb_another() {
    let when = When::Bursts { first_s: 0.0, length_s: 100.0, period_s: 1000.0 };
    let plain = PathSpec::exponential(0.1, 0.01);
    let mut busy = plain.clone();
    busy.loss = 0.3;
    busy.duplication = 0.3;
    busy.reordering = 0.3;
    busy.queues.push(Queue { law: Law::Gamma { shape: 0.5, scale_ms: 1.0 }, when });
    busy.outages.push(Outage { from_s: 500.0, to_s: 600.0 });
    let (plain, busy) = (send(&plain, 2000, 1.0), send(&busy, 2000, 1.0));
    let mut compared = 0;
    for (t, (plain, busy)) in plain.iter().zip(busy).enumerate() {
        if let (Some(busy), false) = (busy, t % 1000 < 100) {
            assert_eq!(*plain, Some(busy), "{t}");
            compared += 1;
        }
    }
    assert!(compared > 1000, "{compared}");
}

#[test]
fn paths_and_seeds_differ() {
    let spec = PathSpec::exponential(0.0, 1.0);
    let first = |seed, name| Path::new(&spec, seed, name).pass(0.0);
    assert_eq!(first(1, "there"), first(1, "there"));
    assert_ne!(first(1, "there"), first(1, "back"));
    assert_ne!(first(1, "there"), first(2, "there"));
}

/// One of each kind.
const EVERYTHING: &str = r#"
floor-ms = 0.1
loss = 0.1
duplication = 0.05
reordering = 0.05
held-back-ms = 3
[[queue]]
law = { exponential = { mean-ms = 0.01 } }
[[queue]]
law = { lomax = { shape = 1.5, scale-ms = 0.02, cap-ms = 10 } }
when = { bursts = { first-s = 600, length-s = 420, period-s = 1020 } }
[[queue]]
law = { lomax = { shape = 1.5, scale-ms = 0.02 } }
when = "always"
[[queue]]
law = { gamma = { shape = 0.5, scale-ms = 0.1 } }
when = { daily = { peak-s = 50000 } }
[[queue]]
law = { constant = { ms = 0.5 } }
when = { ramp = { from-s = 100, to-s = 5000 } }
[[queue]]
law = { recorded = { file = "delays.txt" } }
when = { between = { from-s = 100, to-s = 200 } }
[[shift]]
at-s = 300
by-ms = 0.9
[[shift]]
at-s = 400
by-ms = -0.2
until-s = 450
[[outage]]
from-s = 1000
to-s = 1100
"#;

fn everything() -> PathSpec {
    let mut spec: PathSpec = parse(EVERYTHING).unwrap();
    spec.resolve(|file| {
        assert_eq!(file, "delays.txt");
        parse_delays("0.001\n0.002\n")
    })
    .unwrap();
    spec
}

#[test]
fn the_same_to_the_last_bit_everywhere() {
    let mut path = path(&everything());
    let numbers = (0..5000).flat_map(|i| path.pass(1.7 * f64::from(i)).arrivals());
    assert_eq!(checksum(numbers), 16_444_884_750_526_361_964);
}

#[test]
fn toml_there_and_back() {
    let spec: PathSpec = parse(EVERYTHING).unwrap();
    let text = toml::to_string(&spec).unwrap();
    assert_eq!(parse::<PathSpec>(&text).unwrap(), spec, "{text}");
    let mut nothing = path(&parse("").unwrap());
    assert_eq!(nothing.pass(5.0), Passage { arrival: Some(5.0), copy: None });
}

#[test]
fn what_cannot_be_is_refused() {
    let queue = |law: &str| format!("[[queue]]\nlaw = {{ {law} }}");
    let when =
        |when: &str| format!("[[queue]]\nlaw = {{ constant = {{ ms = 1 }} }}\nwhen = {{ {when} }}");
    for (text, expected) in [
        ("floor-ms = -1".to_owned(), "floor-ms = -1: must be between 0 and"),
        ("floor-ms = nan".to_owned(), "floor-ms = NaN: must be between 0 and"),
        ("loss = 1.1".to_owned(), "loss = 1.1: must be between 0 and 1"),
        ("duplication = -0.1".to_owned(), "duplication = -0.1: must be between 0 and 1"),
        ("reordering = inf".to_owned(), "reordering = inf: must be between 0 and 1"),
        ("held-back-ms = -1".to_owned(), "held-back-ms = -1: must be"),
        (queue("constant = { ms = -1 }"), "queue 1: ms = -1: must be"),
        (queue("exponential = { mean-ms = nan }"), "queue 1: mean-ms = NaN: must be"),
        (queue("gamma = { shape = 0, scale-ms = 1 }"), "queue 1: shape = 0: must be"),
        (queue("gamma = { shape = 1, scale-ms = -1 }"), "queue 1: scale-ms = -1: must be"),
        (queue("lomax = { shape = -1, scale-ms = 1 }"), "queue 1: shape = -1: must be"),
        (queue("lomax = { shape = 2, scale-ms = inf }"), "queue 1: scale-ms = inf: must be"),
        (
            queue("lomax = { shape = 2, scale-ms = 1, cap-ms = -1 }"),
            "queue 1: cap-ms = -1: must be",
        ),
        (
            queue("recorded = { file = \"x\" }"),
            "queue 1: recorded: the file \"x\" has not been read",
        ),
        (
            when("bursts = { first-s = 1, length-s = 3, period-s = 2 }"),
            "queue 1: length-s = 3: must be between 0 and 2",
        ),
        (
            when("bursts = { first-s = 1, length-s = 0, period-s = 0 }"),
            "queue 1: period-s = 0: must be",
        ),
        (when("daily = { peak-s = nan }"), "queue 1: peak-s = NaN: must be"),
        (when("daily = { peak-s = 1, low = 2 }"), "queue 1: low = 2: must be between 0 and 1"),
        (when("daily = { peak-s = 1, period-s = 0 }"), "queue 1: period-s = 0: must be"),
        (when("between = { from-s = 2, to-s = 1 }"), "queue 1: to-s = 1: must be after"),
        (when("ramp = { from-s = 2, to-s = 2 }"), "queue 1: to-s = 2: must be after"),
        ("[[shift]]\nat-s = -1\nby-ms = 1".to_owned(), "shift 1: at-s = -1: must be"),
        ("[[shift]]\nat-s = 1\nby-ms = nan".to_owned(), "shift 1: by-ms = NaN: must be"),
        (
            "[[shift]]\nat-s = 1\nby-ms = 1\nuntil-s = 1".to_owned(),
            "shift 1: until-s = 1: must be after at-s = 1",
        ),
        (
            "floor-ms = 1\n[[shift]]\nat-s = 9\nby-ms = -2".to_owned(),
            "shift 1: by-ms = -2: the floor would be -1 ms at 9 s; it must be between 0 and",
        ),
        ("[[outage]]\nfrom-s = 1\nto-s = 0".to_owned(), "outage 1: to-s = 0: must be after"),
    ] {
        let spec: PathSpec = parse(&text).unwrap();
        let error = spec.check().unwrap_err();
        assert!(error.starts_with(expected), "{text}: {error}");
    }
    for unknown in [
        "floor = 1",
        "[[shift]]\nat-s = 1\nby-ms = 1\nfor-s = 1",
        &queue("pareto = { shape = 1 }"),
        &queue("exponential = { mean-ms = 1, shape = 2 }"),
        &when("daily = { peak-s = 1, peak = 2 }"),
    ] {
        assert!(parse::<PathSpec>(unknown).is_err(), "{unknown}");
    }
    let outages = vec![Outage { from_s: 1.0, to_s: 2.0 }; 1001];
    let many = PathSpec { outages, ..PathSpec::default() };
    assert_eq!(many.check().unwrap_err(), "outage: 1001 entries; at most 1000 are taken");
}

fn recorded(text: &str) -> PathSpec {
    let delays = Some(parse_delays(text).unwrap());
    queue(Law::Recorded { file: "delays.txt".to_owned(), delays }, When::Always)
}

#[test]
fn recorded_delays_one_for_each_packet() {
    let spec = recorded("# measured at home\n0.001\n\n 0.002 % a slow one\n5e-1\n");
    let mut path = path(&spec);
    let arrivals: Vec<f64> = (0..5).map(|_| path.pass(0.0).arrival.unwrap()).collect();
    assert_eq!(arrivals, [0.001, 0.002, 0.5, 0.001, 0.002]);
}

#[test]
fn a_lost_packet_takes_its_recorded_delay_along() {
    let outages = vec![Outage { from_s: 0.0, to_s: 1.0 }];
    let mut path = path(&PathSpec { outages, ..recorded("0.001\n0.002\n") });
    assert_eq!(path.pass(0.0).arrival, None);
    assert_eq!(path.pass(2.0).arrival, Some(2.002));
}

#[test]
fn recorded_delays_by_time() {
    // Entries 10 s and 20 s apart: the last one lasts 15 s, and a cycle 45 s.
    let mut path =
        path(&recorded("1700000000 0\n1700000010\t0.25 # blank or tab\n1700000030 0.5\n"));
    for (t, delay) in [
        (0.0, 0.0),
        (9.0, 0.0),
        (10.0, 0.25),
        (29.0, 0.25),
        (30.0, 0.5),
        (44.0, 0.5),
        (46.0, 0.0),
        (56.0, 0.25),
        (45_000_011.0, 0.25),
    ] {
        assert_eq!(path.pass(t).arrival, Some(t + delay), "{t}");
    }
    let mut single = Path::new(&recorded("5 0.5"), 1, "single");
    assert_eq!(single.pass(1.0).arrival, Some(1.5));
}

#[test]
fn malformed_recordings() {
    let long = "9".repeat(5000);
    for (text, line, expected) in [
        ("", 0, "no delay at all"),
        ("# nothing\n\n%\n", 0, "no delay at all"),
        ("0.1\nfast\n", 2, "column 1: the delay \"fast\" is not a number"),
        ("0.1\n-0.1\n", 2, "column 1: the delay \"-0.1\" must be between 0 and 1000 s"),
        ("nan", 1, "column 1: the delay \"nan\" must be between"),
        ("inf", 1, "column 1: the delay \"inf\" must be between"),
        ("# ms?\n1001", 2, "column 1: the delay \"1001\" must be between"),
        ("1 0.1\n2 0.1 5\n", 2, "more than two columns"),
        ("1 0.1\n0.1\n", 2, "1 column(s), where the lines before have 2"),
        ("0.1\n1 0.1\n", 2, "2 column(s), where the lines before have 1"),
        ("1 0.1\n1 0.2\n", 2, "column 1: the time 1 is not after 1"),
        ("2 0.1\n1 0.2\n", 2, "column 1: the time 1 is not after 2"),
        ("nan 0.1\n", 1, "column 1: the time \"nan\" must be between"),
        ("1 0,1\n", 1, "column 2: the delay \"0,1\" is not a number"),
        (&long, 1, "column 1: the delay \"9999999999999999999999999999999999999999\" must"),
    ] {
        let error = parse_delays(text).unwrap_err();
        assert_eq!(error.line, line, "{text:?}: {error}");
        assert!(error.what.starts_with(expected), "{text:?}: {error}");
    }
    let error = parse_delays("0.1\n\u{1b}[31m\n").unwrap_err().to_string();
    assert_eq!(error, "line 2: column 1: the delay \"\\u{1b}[31m\" is not a number");
}

proptest! {
    #[test]
    fn no_recording_is_too_wild(text in "[-+0-9.e \\t\\n#%naif]{0,60}", t in -1e6..1e9) {
        if let Ok(recording) = parse_delays(&text) {
            prop_assert!(recording.delays().iter().all(|delay| (0.0..=1000.0).contains(delay)));
            let delays = Some(recording);
            let law = Law::Recorded { file: String::new(), delays };
            let mut path = path(&queue(law, When::Always));
            let arrival = path.pass(t).arrival.unwrap();
            prop_assert!((t..=t + 1000.0).contains(&arrival), "{}", arrival);
        }
    }
}
