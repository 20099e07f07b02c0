//! A few runs with limits: fixed seeds, so each is the same every time.

use std::collections::BTreeMap;
use std::sync::{Mutex, OnceLock};

use truechimer_estimators::{Kind, OURS, PUBLISHED};
use truechimer_sim::{Options, Run, Scenario, Statistics, find, simulate};

fn run(scenario: &Scenario, seed: u64) -> Run {
    simulate(scenario, &Options { seed, ..Options::default() }).unwrap()
}

fn two_runs(estimator: Kind, name: &str, hours: f64) -> Statistics {
    let scenario = find(name).unwrap().with_hours(hours).unwrap();
    let runs: Vec<Run> = (1..=2)
        .map(|seed| {
            simulate(&scenario, &Options { estimator, seed, ..Options::default() }).unwrap()
        })
        .collect();
    Statistics::of(&runs.iter().map(|run| &run.trace).collect::<Vec<_>>())
}

/// Statistics of two runs of ours, made once: several tests look at the same runs.
fn statistics(name: &'static str, hours: f64) -> &'static Statistics {
    static MADE: Mutex<BTreeMap<(&str, u64), &OnceLock<Statistics>>> = Mutex::new(BTreeMap::new());
    let mut made = MADE.lock().unwrap();
    let cell = *made.entry((name, hours.to_bits())).or_insert_with(|| Box::leak(Box::default()));
    drop(made);
    cell.get_or_init(|| two_runs(OURS, name, hours))
}

#[test]
fn accuracy_stays_what_it_was() {
    // Limits of the RMS and of the largest error, µs.
    for (name, hours, rms, max) in [
        ("lan", 9.0, 1.5, 12.0),
        ("lan-bursts-down", 9.0, 2.0, 20.0),
        ("lan-bursts-up", 9.0, 2.0, 20.0),
        ("lan-bursts-both", 9.0, 4.5, 40.0),
        ("wan", 9.0, 26.0, 120.0),
        ("temperature", 9.0, 3.6, 25.0),
        ("loss-20", 9.0, 2.0, 20.0),
        ("shift-up-both", 19.0, 1.6, 15.0),
        ("liar-of-three", 19.0, 1.6, 15.0),
        ("leap-second", 17.0, 1.6, 15.0),
        ("leap-second-announced", 17.0, 1.6, 15.0),
        ("suspend", 19.0, 1.8, 60.0),
        ("warm-start", 17.0, 1.6, 15.0),
        ("noisy-host", 19.0, 3.5, 40.0),
        ("pps-and-lan", 5.0, 2.2, 4.5),
        ("pps-stops", 19.0, 20.0, 200.0),
        ("pps-alone", 19.0, 2.2, 4.5),
        ("pps-off-by-300ms", 9.0, 1.5, 12.0),
        ("pps-late-edges", 5.0, 95.0, 120.0),
    ] {
        let s = statistics(name, hours);
        assert!(s.error.rms_us <= rms, "{name}: rms {} µs", s.error.rms_us);
        assert!(s.error.max_us <= max, "{name}: max {} µs", s.error.max_us);
        assert!(s.error.rms_us > 0.1, "{name}: too good to be true");
        assert_eq!(s.inside_bound.outside, 0, "{name}");
        assert_eq!(s.one_second.inside_bound.outside, 0, "{name}");
        assert_eq!(s.thousand_seconds.inside_bound.outside, 0, "{name}");
    }
}

/// Known exceptions are load of hours in one direction, half of which nobody can tell
/// (`tide-forward`, `tide-backward`), and a tie where half of a shift shows in no clock.
#[test]
fn ours_is_no_worse_than_the_published_algorithm() {
    for (name, hours) in [
        ("lan", 9.0),
        ("lan-bursts-down", 9.0),
        ("lan-bursts-both", 9.0),
        ("wan", 9.0),
        ("temperature", 9.0),
        ("outage", 19.0),
        ("loss-20", 9.0),
        ("lan-poll-1024", 28.0),
        ("city-256", 28.0),
        ("shift-up-forward", 19.0),
        ("shift-up-both", 19.0),
        ("asymmetric-congestion", 24.0),
        ("tide-both", 16.0),
        ("growing-queue-both", 2.0),
        ("draining-queue-both", 2.0),
        ("hidden-asymmetry", 12.0),
        ("server-wrong-150ms", 19.0),
        ("server-ramp", 19.0),
        ("user-stamps", 6.0),
        ("noisy-host", 19.0),
        ("wifi", 9.0),
    ] {
        let ours = statistics(name, hours).error.rms_us;
        let published = two_runs(PUBLISHED, name, hours).error.rms_us;
        // Where both directions change places no clock is at fault, and no estimator can know that.
        let most = if name == "hidden-asymmetry" { 1.2 * published } else { published };
        assert!(ours <= most, "{name}: {ours} µs against {published}");
    }
}

#[test]
fn bounds_are_tight_and_convergence_is_fast() {
    let s = statistics("lan", 9.0);
    assert!(s.statistical_median_us < 20.0, "{}", s.statistical_median_us);
    assert!(s.bound_median_us < 150.0, "{}", s.bound_median_us);
    let took = |us: f64| {
        let found = s.converged_s.iter().find(|c| (c.threshold_us - us).abs() < 1e-6).unwrap();
        (found.runs, found.worst_s.unwrap())
    };
    assert!(took(100.0).1 < 2.0, "{:?}", took(100.0));
    assert!(took(20.0).1 < 120.0, "{:?}", took(20.0));
    assert_eq!(took(10.0).0, 2);
    assert!(s.one_second.error.max_us < 2.0);
}

#[test]
fn a_pulse_makes_the_bound_small() {
    // µs: half of its latency, and what stamps and drift add.
    for (name, hours, most) in
        [("pps-and-lan", 5.0, 5.0), ("pps-alone", 19.0, 5.0), ("pps-late-edges", 5.0, 120.0)]
    {
        let s = statistics(name, hours);
        assert!(s.bound_median_us < most, "{name}: {} µs", s.bound_median_us);
        assert!(s.bound_median_us > 2.0, "{name}: {} µs", s.bound_median_us);
    }
}

#[test]
fn a_wrong_server_is_held_off_for_a_while() {
    let s = statistics("server-hiccup-150ms", 17.0);
    assert!(s.error.max_us < 30.0, "a minute is no lasting evidence: {}", s.error.max_us);
    let s = statistics("server-step-150ms", 16.9);
    assert!(s.error.max_us < 300.0, "nor is most of an hour: {}", s.error.max_us);
    assert_eq!(s.inside_bound.outside, 0, "the bound covers both");
    let s = statistics("server-step-150ms", 17.2);
    assert!(s.error.max_us > 149_000.0, "more than one is");
    assert!(s.inside_bound.outside > 0, "and it was no honest server");
}

#[test]
fn what_the_clock_said_is_kept() {
    let scenario = find("suspend").unwrap().with_hours(17.5).unwrap();
    let run = run(&scenario, 3);
    let notes: Vec<&str> = run.trace.notes.iter().map(|note| note.text.as_str()).collect();
    assert!(notes.iter().any(|n| n.contains("the machine was suspended")), "{notes:#?}");
    assert!(run.trace.notes.windows(2).all(|pair| pair[0].at <= pair[1].at));
    // Nobody reads the clock of a machine that sleeps.
    let asleep = |at: f64| (57_600.0..61_200.0).contains(&at);
    assert!(run.trace.samples.iter().all(|sample| !asleep(sample.at + 1e-3)));
    assert_eq!(run.trace.begun, 1_800_000_037);
}
