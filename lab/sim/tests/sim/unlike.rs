//! Several servers at unlike distances, of which the nearest lie: they have no part, move the time
//! by no more than the others need to tell, and by nothing when they are right again.

use truechimer_sim::{Options, Run, Statistics, find, simulate};

const HOUR: f64 = 3600.0;
/// When the lies end, s.
const END: f64 = 6.0 * HOUR;
/// The honest server in the same city puts the time into an interval of at least this to each side,
/// s.
const CITY: f64 = 610e-6;

/// Eight hours of a scenario, with these seeds; the bound has to hold in every second.
fn runs(name: &str, seeds: std::ops::RangeInclusive<u64>) -> Vec<Run> {
    let scenario = find(name).unwrap().with_hours(8.0).unwrap();
    let run = |seed| {
        let run = simulate(&scenario, &Options { seed, ..Options::default() }).unwrap();
        let inside = Statistics::of(&[&run.trace]).inside_bound;
        assert!(inside.seconds as f64 > 0.99 * 8.0 * HOUR, "{name} {seed}: {inside:?}");
        assert_eq!(inside.outside, 0, "{name} {seed}: {inside:?}");
        run
    };
    seeds.map(run).collect()
}

/// The largest error from `from` on until `to`, s.
fn worst(run: &Run, from: f64, to: f64) -> f64 {
    let within = run.trace.samples.iter().filter(|s| (from..to).contains(&s.at));
    within.map(|s| s.error.abs()).fold(0.0, f64::max)
}

/// The largest change of the error within a second, after the start, s.
fn largest_step(run: &Run) -> f64 {
    let pairs = run.trace.samples.windows(2).filter(|pair| pair[0].at > HOUR);
    pairs.map(|pair| (pair[1].error - pair[0].error).abs()).fold(0.0, f64::max)
}

/// A lie that stands still is told at once, within what the honest ones leave open as well as
/// beyond.
#[test]
fn near_liars_among_unlike_servers_move_nothing() {
    for name in
        ["unlike-liar-400us", "unlike-liar-1ms", "unlike-two-of-five", "unlike-two-of-five-200ppm"]
    {
        for (run, seed) in runs(name, 61..=64).iter().zip(61..) {
            let error = worst(run, HOUR, 8.0 * HOUR);
            assert!(error < 40e-6, "{name} {seed}: {error}");
            let step = largest_step(run);
            assert!(step < 25e-6, "{name} {seed}: {step}");
        }
    }
}

/// One that drifts carries the clock along until those that are farther away can tell; then the
/// clock glides back, and the end of it moves nothing.
#[test]
fn near_servers_that_drift_are_outvoted() {
    for name in ["unlike-drift", "unlike-drift-slow", "unlike-two-of-five-drift"] {
        for (run, seed) in runs(name, 61..=64).iter().zip(61..) {
            let error = worst(run, HOUR, END);
            assert!(error < CITY * 2.0 / 3.0, "{name} {seed}: {error}");
            let after = worst(run, END, 8.0 * HOUR);
            assert!(after < 60e-6, "{name} {seed}: {after}");
            let step = largest_step(run);
            assert!(step < 40e-6, "{name} {seed}: {step}");
        }
    }
}
