//! The system clock, where the daemon steers it: it follows ours closely, comes there without
//! overshoot, is stepped as configured, and the kernel's word about it is true.

use truechimer_sim::{Options, SystemSample, Trace, find, simulate};

const US: f64 = 1e-6;
/// A disciplined clock is this close to ours, s, (a kernel's ticks, which are not simulated, come
/// on top),
const CLOSE: f64 = 1.0 * US;
/// so long after the last exchange moved ours, s.
const LATER: f64 = 6.0;
/// The kernel's limit.
const MOST: f64 = 500.0 * US;

fn run(name: &str, seed: u64) -> Trace {
    let scenario = find(name).unwrap();
    let run = simulate(&scenario, &Options { seed, ..Options::default() }).unwrap();
    let sets = scenario.system_clock.unwrap().sets;
    // What somebody else has just done nobody knows before the next reading.
    let just_set = |at: f64| sets.iter().any(|set| (set.at_s..set.at_s + 2.0).contains(&at));
    let system = &run.trace.system;
    assert!(system.len() > 9000, "{name}: {} samples", system.len());
    for sample in system {
        assert!(sample.frequency.abs() <= MOST * 1.000_001, "{name}: {sample:?}");
        // The kernel's word about it is true whenever it has given it.
        let inside = sample.bound.is_none_or(|bound| sample.error.abs() <= bound);
        assert!(inside || just_set(sample.at), "{name}: {sample:?}");
    }
    let told = system.iter().filter(|s| s.bound.is_some()).count();
    assert!(told * 100 > system.len() * 99, "{name}: {told} of {}", system.len());
    run.trace
}

fn steps(trace: &Trace) -> u32 {
    trace.system.last().unwrap().steps
}

/// The samples within these times that know ours.
fn within(trace: &Trace, from: f64, to: f64) -> impl Iterator<Item = (&SystemSample, f64)> {
    let system = trace.system.iter().filter(move |s| s.at >= from && s.at < to);
    system.filter_map(|s| Some((s, s.against_ours?)))
}

/// Largest distance from ours within these times, s.
fn apart(trace: &Trace, from: f64, to: f64) -> f64 {
    let most = within(trace, from, to).map(|(_, apart)| apart.abs()).fold(0.0, f64::max);
    assert!(most > 0.0, "no sample between {from} and {to} s");
    most
}

/// Asserts that it follows ours in these times: always on average, closely once ours stands still.
fn follows(trace: &Trace, from: f64, to: f64) {
    let moved = |at: f64| trace.exchanges.iter().any(|e| e.at <= at && e.at > at - LATER);
    let (mut squares, mut count, mut still) = (0.0, 0usize, 0usize);
    for (sample, apart) in within(trace, from, to) {
        squares += apart * apart;
        count += 1;
        if !moved(sample.at) {
            still += 1;
            assert!(apart.abs() <= CLOSE, "{}: {sample:?}", trace.title);
        }
    }
    let rms = (squares / count as f64).sqrt();
    println!("{}: {from} to {to} s: {:.3} us RMS", trace.title, rms / US);
    assert!(rms <= CLOSE, "{}: {} us RMS from {from} to {to} s", trace.title, rms / US);
    assert!(still * 3 > count, "{}: {still} of {count}", trace.title);
}

#[test]
fn a_clock_far_off_is_stepped_once_and_then_follows() {
    for seed in 1..=3 {
        let trace = run("system-clock", seed);
        assert_eq!(steps(&trace), 1);
        follows(&trace, 120.0, 1e9);
        // The step leaves nothing, and the unknown 80 ppm are found within seconds.
        let start = apart(&trace, 1.0, 120.0);
        assert!(start < 250.0 * US, "{} us", start / US);
    }
}

#[test]
fn a_clock_that_may_not_be_stepped_is_slewed_without_overshoot() {
    let trace = run("system-clock-slewed", 1);
    assert_eq!(steps(&trace), 0);
    // 20 ms at 500 − 60 ppm take 45 s, the rest some time constants.
    follows(&trace, 240.0, 1e9);
    let ahead = within(&trace, 0.0, 240.0).map(|(_, apart)| apart).fold(f64::MIN, f64::max);
    // Ours itself is corrected by some microseconds meanwhile.
    assert!(ahead <= 5.0 * US, "overshot by {} us", ahead / US);
}

#[test]
fn what_somebody_else_sets_is_mended_as_configured() {
    let trace = run("system-clock-set", 1);
    assert_eq!(steps(&trace), 2, "−5 and 800 ms; 0.2 ms are slewed away");
    for (at, within) in [(3000.0, 60.0), (5000.0, 15.0), (8000.0, 15.0)] {
        follows(&trace, at - 1000.0, at - 2.0);
        follows(&trace, at + within, at + 1000.0);
    }
}

#[test]
fn a_restart_of_the_daemon_hardly_shows() {
    let trace = run("system-clock-restart", 1);
    follows(&trace, 120.0, 3590.0);
    // Ten seconds without anybody, at the frequency that was found.
    let without = apart(&trace, 3590.0, 3640.0);
    assert!(without < 10.0 * US, "{} us", without / US);
    follows(&trace, 3640.0, 1e9);
}

#[test]
fn while_no_server_answers_ours_is_followed() {
    let trace = run("system-clock-outage", 1);
    follows(&trace, 120.0, 7200.0);
    // When the server is back, ours moves by as much as the oscillator has strayed.
    follows(&trace, 7260.0, 1e9);
}

#[test]
fn leap_seconds_are_the_kernels_to_carry_out_when_told() {
    for name in ["system-clock-leap", "system-clock-leap-deleted"] {
        let trace = run(name, 1);
        assert_eq!(steps(&trace), 0, "{name}");
        follows(&trace, 120.0, 1e9);
    }
}
