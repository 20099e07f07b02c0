//! The difference clock beside a filter that is told everything, on the same stamps. Fixed seeds.

use truechimer_estimators::OURS;
use truechimer_sim::{Statistics, find, simulate_alike, told};

const SEEDS: u64 = 2;

/// RMS error of 1 s and of 1000 s, µs: ours and that of the filter that is told.
fn compared(name: &str) -> [[f64; 2]; 2] {
    let scenario = find(name).unwrap();
    let ours = |seed| simulate_alike(&scenario, OURS, seed).unwrap().trace;
    let runs = (1..=SEEDS).map(|seed| (ours(seed), told(&scenario, seed).unwrap().unwrap()));
    let (ours, told): (Vec<_>, Vec<_>) = runs.unzip();
    [ours, told].map(|traces| {
        let s = Statistics::of(&traces.iter().collect::<Vec<_>>());
        [s.one_second.error.rms_us, s.thousand_seconds.error.rms_us]
    })
}

#[test]
fn it_is_near_the_best_that_the_stamps_allow() {
    // What the rate does within 1000 s makes 18 µs: 1.2 times that is the goal, where it can be
    // had.
    for (name, most) in
        [("lan", 2.0), ("lan-poll-1024", 22.0), ("wan", 22.0), ("wan-poll-64", 36.0)]
    {
        let [[second, thousand], told] = compared(name);
        assert!(second < 0.05, "{name}: {second} for 1 s");
        assert!(thousand < most, "{name}: {thousand} for 1000 s");
        assert!(thousand < 1.2 * told[1], "{name}: {thousand} beside {told:?}");
        assert!(told[1] < 1.1 * thousand, "{name}: {told:?} is no measure for {thousand}");
    }
}

#[test]
fn there_is_no_telling_more_than_it_can_be_told() {
    for name in ["temperature", "lan-bursts-both", "five-servers", "shift-up-both"] {
        assert!(told(&find(name).unwrap(), 1).unwrap().is_none(), "{name}");
    }
}
