//! Estimators on drawn paths: what has to hold on any of them, and the same packets for all.

use truechimer_estimators::{Kind, OURS, PUBLISHED, TABLE};
use truechimer_sim::drawn::{Day, Judged, Technology};
use truechimer_sim::replay::{ReplayOptions, replay_stamps};
use truechimer_sim::stamps::write_header;
use truechimer_sim::write_stamps;

/// Result of the estimator on a path-day.
fn judged(day: &Day, kind: Kind) -> Judged {
    let realised = day.realise();
    realised.judge(kind, &realised.packets().unwrap()).0
}

/// Asserts that the truth is inside our bound on so many days of so many hours of each technology.
fn assert_bound(seed: u64, turns: u64, hours: f64) {
    for number in 0..turns * Technology::ALL.len() as u64 {
        let day = Day::new(seed, number, 16, hours);
        let ours = judged(&day, OURS);
        let name = day.technology.name();
        assert!(ours.promised_s as f64 > 0.9 * day.seconds, "{name}, day {number}: {ours:?}");
        assert_eq!(ours.outside_s, 0, "{name}, day {number}: {ours:?}");
        assert!(ours.bound_ratio > 0.5, "{name}, day {number}: {ours:?}");
    }
}

#[test]
fn the_truth_is_inside_the_bound() {
    assert_bound(1, 1, 3.0);
}

/// The long version.
#[test]
#[ignore = "takes minutes"]
fn the_truth_is_inside_the_bound_on_many_days() {
    assert_bound(2, 20, 24.0);
}

#[test]
fn the_same_day_gives_the_same_figures() {
    for number in [3, 7] {
        let day = Day::new(4, number, 16, 2.0);
        for kind in TABLE {
            assert_eq!(judged(&day, *kind), judged(&day, *kind), "{kind:?}");
        }
    }
}

/// A path-day's stamp file is all there is to know of it: its replay ends as the day did.
#[test]
fn a_day_can_be_replayed_from_its_stamps() {
    for (number, kind) in [(1, OURS), (4, PUBLISHED)] {
        let day = Day::new(6, number, 16, 3.0);
        let realised = day.realise();
        let mut text = String::new();
        write_header(&realised.declared, true, &mut text).unwrap();
        write_stamps(&realised.stamps(), &mut text).unwrap();
        let options = ReplayOptions { estimator: kind, ..ReplayOptions::default() };
        let mut last = None;
        let replayed = replay_stamps(text.as_bytes(), &options, &mut |row| {
            last = row.clock;
            Ok(())
        });
        let replayed = replayed.unwrap();
        assert_eq!(replayed.rows, realised.exchanges.len() as u64);
        assert_eq!(replayed.poll, 16);

        let packets = realised.packets().unwrap();
        let mut estimator = realised.estimator(kind, &packets);
        packets.run(estimator.as_mut());
        let end = realised.exchanges.last().unwrap().stamped.received;
        let (ours, theirs) = (estimator.estimate(end).unwrap(), last.unwrap());
        assert_eq!((ours.time, ours.bound), (theirs.time, theirs.bound), "{ours:?} {theirs:?}");
    }
}
