//! The two intervals: how narrow the one is that is promised, and that the likely one is true.

use truechimer_estimators::OURS;
use truechimer_feedforward::Ours;
use truechimer_sim::direct::Packets;
use truechimer_sim::drawn::{Day, Technology, coverage};
use truechimer_sim::width::widths;
use truechimer_sim::{Coverage, DOUBTS, Scenario, find, simulate_alike};

fn short(name: &str, hours: f64) -> Scenario {
    find(name).unwrap().with_hours(hours).unwrap()
}

/// Coverage of the truth by the likely intervals of the only server's estimator.
fn covered(scenario: &Scenario, seed: u64) -> Coverage {
    let run = simulate_alike(scenario, OURS, seed).unwrap();
    let packets = Packets::of(scenario, seed, &run).unwrap();
    let (settings, prior) = packets.known();
    packets.coverage(&mut Ours::new(settings, prior, None))
}

/// Within 1.05 of what causality makes necessary: over a far path, with short polls over a near
/// one, and again once one direction has become longer or both have.
#[test]
fn the_interval_is_as_narrow_as_causality_allows() {
    let quiet = |scenario: Scenario| widths(&scenario, 1).unwrap().quiet.unwrap();
    let (far, near) = (quiet(short("wan", 6.0)), quiet(short("lan", 2.0).with_poll(1).unwrap()));
    assert!(far.width < 1.03 && far.bound < 1.04, "{far:?}");
    assert!(near.width < 1.05, "{near:?}");
    let lan = quiet(short("lan", 6.0));
    assert!(lan.width < 1.12 && lan.bound < 1.15, "a poll costs half of it: {lan:?}");
    for name in ["shift-up-forward", "shift-up-backward", "shift-up-both"] {
        let changed = widths(&find(name).unwrap(), 1).unwrap().changed.unwrap();
        assert!(changed.width < 1.05 && changed.width_90 < 1.05, "{name}: {changed:?}");
        let lopsided = name != "shift-up-both";
        assert_eq!(changed.bound > 1.7, lopsided, "one side alone moved away: {name}: {changed:?}");
    }
}

#[test]
fn the_truth_is_where_it_is_likely_to_be() {
    for (name, narrower) in [("wan", 2.5), ("heavy-tail", 2.5), ("lan", 1.2)] {
        let likely = covered(&short(name, 6.0), 1);
        for which in 0..DOUBTS.len() {
            assert_eq!(likely.at[which].outside, 0, "{name}: {likely:?}");
        }
        assert!(likely.narrower(2) > narrower, "{name}: {} times", likely.narrower(2));
        assert!(likely.narrower(0) > likely.narrower(1));
        assert!(likely.silent > 600 && likely.silent < 1800, "64 exchanges: {}", likely.silent);
    }
}

/// On drawn paths, but for those on which the filter may be lost.
#[test]
fn the_truth_is_where_it_is_likely_to_be_on_drawn_paths() {
    let mut all = Coverage::default();
    for number in 0..Technology::ALL.len() as u64 {
        let day = Day::new(3, number, 16, 4.0);
        if !matches!(day.technology, Technology::Lte | Technology::Nr) {
            let one = coverage(&day, OURS).unwrap();
            assert_eq!(one.at[2].outside, 0, "{}: {one:?}", day.technology.name());
            all = all.plus(&one);
        }
    }
    // Each path has one asymmetry: ten of them are too few to say anything of a hundredth.
    assert!(all.outside(1) < DOUBTS[1], "{all:?}");
}

/// Where the published clock says what is likely it is true, also where a minority lies.
#[test]
fn what_several_say_is_likely_is_true_whoever_lies() {
    for name in ["five-servers", "unlike-liar-1ms", "liars-two-of-five"] {
        let scenario = short(name, 6.0);
        let run = simulate_alike(&scenario, OURS, 1).unwrap();
        let likely = Coverage::of_trace(&run.trace);
        assert_eq!(likely.at[2].outside, 0, "{name}: {likely:?}");
        assert!(likely.narrower(2) > 1.02, "{name}: {} times", likely.narrower(2));
        assert!(
            run.trace.samples.iter().all(|s| s.likely.is_none_or(|likely| likely <= s.bound)),
            "{name}"
        );
    }
}
