//! Changes of route on the LAN: what follows them, and how fast. Fixed seeds.

use truechimer_estimators::OURS;
use truechimer_report::rms;
use truechimer_sim::path::Shift;
use truechimer_sim::{Sample, Scenario, Trace, find, simulate_alike};

/// When the route changes, s, and when the run ends, h.
const AT: f64 = 6000.0;
const HOURS: f64 = 2.5;
const SEEDS: u64 = 3;
/// Time by which it has to be followed, s after the change.
const FOLLOWED: f64 = 600.0;

/// The LAN with other floors, ms, that change by so much there and back.
fn route(floor: f64, forward: f64, backward: f64) -> Scenario {
    let mut scenario = find("lan").unwrap();
    (scenario.hours, scenario.warm_up_hours) = (HOURS, 1.0);
    let server = &mut scenario.servers[0];
    for (path, by_ms) in [(&mut server.forward, forward), (&mut server.backward, backward)] {
        path.floor_ms = floor;
        if by_ms != 0.0 {
            path.shifts = vec![Shift { at_s: AT, by_ms, until_s: None }];
        }
    }
    scenario
}

fn runs(scenario: &Scenario) -> Vec<Trace> {
    let run = |seed| simulate_alike(scenario, OURS, seed).unwrap().trace;
    (1..=SEEDS).map(run).collect()
}

/// The seconds from `from` to `to` after the change.
fn after(trace: &Trace, from: f64, to: f64) -> impl Iterator<Item = &Sample> {
    trace.samples.iter().filter(move |s| s.at >= AT + from && s.at < AT + to)
}

fn largest(samples: impl Iterator<Item = f64>) -> f64 {
    samples.map(f64::abs).fold(0.0, f64::max)
}

/// The largest statistical part of the bound changes by so much from hour to hour.
const USUAL: f64 = 15e-6;

fn check(floor: f64, forward: f64, backward: f64) {
    let rest = 3000.0;
    for (seed, trace) in (1..).zip(&runs(&route(floor, forward, backward))) {
        let what = format!("{forward:+} ms there, {backward:+} ms back, seed {seed}");
        let outside = trace.samples.iter().filter(|s| s.error.abs() > s.reach()).count();
        assert_eq!(outside, 0, "{what}: seconds outside the bound");
        let worst = largest(after(trace, 0.0, rest).map(|s| s.error));
        assert!(worst < 30e-6, "{what}: {worst}");
        let late = rms(after(trace, FOLLOWED, rest).map(|s| s.error));
        // A change of one direction that is hardly longer than its queue is taken for the clock's by
        // half, now and then.
        let small = forward.abs().max(backward.abs()) < 0.05 && forward != backward;
        assert!(late < if small { 15e-6 } else { 4e-6 }, "{what}: {late}");
        let before = largest(after(trace, -1200.0, 0.0).map(|s| s.statistical));
        let followed = largest(after(trace, FOLLOWED, rest).map(|s| s.statistical));
        assert!(followed < before + USUAL, "{what}: {before} became {followed}");
    }
}

#[test]
fn both_directions_are_followed() {
    check(0.1, 0.9, 0.9);
    check(0.1, 0.1, 0.1);
    check(0.1, 0.03, 0.03);
    check(1.0, -0.9, -0.9);
    check(0.3, -0.1, -0.1);
}

/// In the packets that come first, queues may hide that both directions became shorter: then one of
/// them seems to, or the clock to have moved. Seed 3 was off by 45 µs for that, for minutes.
#[test]
fn a_shorter_route_is_no_other_clock() {
    for by in [-0.03, -0.04, -0.06] {
        let scenario = route(0.1, by, by);
        for seed in [3, 9, 12] {
            let run = simulate_alike(&scenario, OURS, seed).unwrap();
            let worst = largest(after(&run.trace, 0.0, 3000.0).map(|s| s.error));
            assert!(worst < 20e-6, "{by} ms, seed {seed}: {worst}");
            let outside = run.trace.samples.iter().filter(|s| s.error.abs() > s.reach()).count();
            assert_eq!(outside, 0, "{by} ms, seed {seed}: seconds outside the bound");
        }
    }
}

/// By about as much as packets queue: the first that is early fits another rate of the oscillator
/// as well, and who took it for that was off by up to 50 µs, in a quarter of the runs at 10 µs. The
/// last seeds are of 250 those that were worst for long.
#[test]
fn a_slightly_shorter_route_is_no_other_clock() {
    let mut far = 0;
    for by in [-0.01, -0.015, -0.02, -0.025] {
        let scenario = route(0.1, by, by);
        for seed in (1..=12).chain([25, 72, 89]) {
            let run = simulate_alike(&scenario, OURS, seed).unwrap();
            let worst = largest(after(&run.trace, 0.0, 3000.0).map(|s| s.error));
            far += u32::from(worst > 20e-6);
            assert!(worst < 30e-6, "{by} ms, seed {seed}: {worst}");
            let outside = run.trace.samples.iter().filter(|s| s.error.abs() > s.reach()).count();
            assert_eq!(outside, 0, "{by} ms, seed {seed}: seconds outside the bound");
        }
    }
    assert!(far <= 2, "{far} of 60 above 20 µs");
}

#[test]
fn one_direction_moves_no_clock() {
    check(0.1, 0.9, 0.0);
    check(0.1, 0.0, 0.1);
    check(0.1, 0.03, 0.0);
    check(1.0, -0.9, 0.0);
    check(0.3, 0.0, -0.1);
}
