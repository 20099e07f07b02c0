//! Estimators on drawn paths: what has to hold on any of them, and the same packets for all.

use truechimer_estimators::{Kind, OURS, PUBLISHED, TABLE};
use truechimer_feedforward::number::{seconds, span};
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

/// A server that says how coarse its stamps are has neither stepped nor been taken to have, from the first exchange on.
#[test]
fn coarse_stamps_of_a_server_that_says_so_are_no_steps() {
    for number in [263, 287, 635, 911] {
        let day = Day::new(1, number, 16, 0.75);
        assert_eq!(day.technology, Technology::Quantised);
        let ours = judged(&day, OURS);
        assert_eq!((ours.held, ours.stepped, ours.outside_s), (0, 0, 0), "day {number}: {ours:?}");
    }
}

/// Change of the error from the 24th exchange, where a start is over, to the 86th, a quarter of an hour later, by the
/// deviation that the start foretells for it. `None` if fewer came.
fn strayed(number: u64) -> Option<f64> {
    let realised = Day::new(1, number, 16, 0.5).realise();
    let packets = realised.packets()?;
    let mut ours = realised.estimator(OURS, &packets);
    let (first, last) = (23, 85);
    packets.exchanges().take(first + 1).for_each(|exchange| {
        let _ = ours.exchange(exchange);
    });
    let foretold = |k: usize| {
        let (exchange, passed) = (packets.exchanges().nth(k)?, realised.exchanges.get(k)?);
        let estimate = ours.estimate(exchange.received.count)?;
        let truth = exchange.server_sent + span(passed.delays[1]);
        Some((seconds(estimate.time - truth), seconds(estimate.deviation)))
    };
    let ((now, _), (then, deviation)) = (foretold(first)?, foretold(last)?);
    Some((then - now).abs() / deviation)
}

/// Starts that had come to rest on a line through a few stamps were off by 8.5 to 123 deviations.
#[test]
fn no_start_is_far_surer_of_its_rate_than_it_is_right() {
    for number in [121, 1150, 1183, 1412, 1585, 1635, 1906] {
        let strayed = strayed(number).unwrap();
        assert!(strayed < 7.0, "day {number}: {strayed} deviations");
    }
}

/// The long version.
#[test]
#[ignore = "takes minutes"]
fn starts_foretell_as_well_as_they_say() {
    let all: Vec<f64> = (0..2040).filter_map(strayed).collect();
    let beyond = |deviations| all.iter().filter(|strayed| **strayed > deviations).count();
    let counts = [2.0, 3.0, 4.0, 6.0].map(beyond);
    println!("{} starts; beyond 2, 3, 4, 6 deviations: {counts:?}", all.len());
    assert!(all.len() > 2000 && counts[2] < all.len() / 50, "{counts:?}");
    assert!(all.iter().all(|strayed| *strayed < 12.0), "{counts:?}");
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
