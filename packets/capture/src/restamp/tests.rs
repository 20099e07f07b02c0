//! Better times from what is known later: true time stays within the bound, and what does not
//! belong to the packets is refused.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may fail")]

use proptest::prelude::*;
use truechimer_engine::{Event, HostCheck};
use truechimer_time::{
    BootId, Count, CountSpan, CounterId, CounterKind, Epoch, Instant, Leaps, Period, Rate, Span,
};
use truechimer_timehands::{Hand, Made, Status};

use super::*;
use crate::convert::{Continuity, Identity};

/// A count is a nanosecond, but for 20 ppm: what the counter is called is not what it does.
const SKEW_PPM: i64 = 20;
const S: i64 = 1_000_000_000;
/// True time at count 0.
const BEGAN: i64 = 1_790_000_000;

fn identity() -> Identity {
    Identity {
        kind: CounterKind::Tsc,
        boot: BootId([7; 16]),
        period: Period::NANOSECOND,
        resolution: CountSpan(1),
    }
}

fn true_period() -> Period {
    Period::NANOSECOND.scaled(Rate::from_ppb(SKEW_PPM * 1000))
}

fn truth(count: i64) -> Instant {
    Instant::new(BEGAN, 0) + true_period().span(CountSpan(count))
}

/// A hand whose promise is kept: off by `off`, within `bound`.
fn hand(at: i64, off: Span, bound: Span, epoch: u32) -> Hand {
    Hand {
        difference: true_period(),
        difference_error: Rate::from_ppb(1_000),
        path_bound: bound,
        statistical_bound: Span::from_nanos(1),
        growth: Rate::from_ppb(500),
        leaps: Leaps { tai_offset: 37, known: true, last: None, next: None },
        ..Hand::exact(
            CounterId { kind: CounterKind::Tsc, boot: BootId([7; 16]), epoch: Epoch(epoch) },
            Count(0) + CountSpan(at),
            truth(at) + off,
            true_period().scaled(Rate::from_ppb(-300)),
            Count(0) + CountSpan(at + 3600 * S),
        )
    }
}

/// The host's clocks, by a raw clock that runs 3 ppm faster than the counter's nominal rate.
fn continuity(at: i64, suspended_ns: i64) -> Continuity {
    Continuity {
        count: Count(0) + CountSpan(at),
        raw_ns: at + at / S * 3_000,
        monotonic_ns: at,
        suspended_ns,
        width: CountSpan(300),
    }
}

fn change(at: i64, epoch: u32, hand: Option<Hand>) -> Change {
    Change {
        at: Count(0) + CountSpan(at),
        counter: identity(),
        epoch: Epoch(epoch),
        status: None,
        reason: None,
        hand: hand.map(|hand| Used { generation: 3, hand, made: made(at) }),
        continuity: continuity(at, 0),
    }
}

fn made(at: i64) -> Made {
    let Continuity { count, raw_ns, monotonic_ns, suspended_ns, .. } = continuity(at, 0);
    Made { count, raw_ns, monotonic_ns, suspended_ns, device: None }
}

fn packet(at: i64, error: i64, epoch: u32) -> Recorded {
    let (count, error) = (Count(0) + CountSpan(at), CountSpan(error));
    Recorded {
        counted: Some(Counted { count, error, epoch: Epoch(epoch) }),
        unix_ns: 5,
        quality: Quality::Unsynchronised,
        generation: 0,
    }
}

fn log(lines: &[String]) -> String {
    let mut text = String::from("{\"truechimer-replay\":8,\"version\":\"0.1.0\"}\n");
    text += "{\"start\":{\"at\":5},\"config\":{}}\n";
    for line in lines {
        text += line;
        text.push('\n');
    }
    text
}

fn hand_line(hand: &Hand) -> String {
    format!("{{\"hand\":{}}}", serde_json::to_string(hand).unwrap())
}

fn check_line(at: i64, suspended_ns: i64) -> String {
    let Continuity { count, raw_ns, suspended_ns, width, .. } = continuity(at, suspended_ns);
    let event = Event::Check(HostCheck { count, raw_ns, suspended_ns, width });
    format!("{{\"at\":{},\"event\":{}}}", count.0, serde_json::to_string(&event).unwrap())
}

fn hands(first: i64, last: i64) -> Hands {
    Hands::new(identity(), Count(0) + CountSpan(first), Count(0) + CountSpan(last))
}

proptest! {
    #[test]
    fn true_time_is_within_what_all_hands_promise(
        made in proptest::collection::vec((-500i64..500, -80_000i64..80_000, 0i64..100_000), 1..12),
        counts in proptest::collection::vec(-400 * S..400 * S, 1..20),
        error in 0i64..1000,
    ) {
        let lines: Vec<String> = made
            .iter()
            .map(|(s, off, more)| {
                let bound = Span::from_nanos(off.abs() + more);
                hand_line(&hand(s * S, Span::from_nanos(*off), bound, 2))
            })
            .collect();
        let mut counts = counts;
        counts.sort_unstable();
        let mut hands = hands(counts[0], *counts.last().unwrap());
        let found = hands.log(log(&lines).as_bytes(), "day.log").unwrap();
        prop_assert_eq!(found, made.len() as u64);
        let mut restamper = Restamper::best(hands);
        for at in counts {
            // The packet itself was up to `error` later.
            let stamped = restamper.stamp(&packet(at, error, 2));
            let (instant, bound) = (stamped.instant.unwrap(), stamped.bound.unwrap());
            for moment in [truth(at - error), truth(at), truth(at + error)] {
                prop_assert!((instant - moment).abs() <= bound, "{:?}", stamped);
            }
            let utc = Instant::from_nanos(i128::from(stamped.unix_ns) + 37 * i128::from(S));
            prop_assert!((utc - truth(at)).abs() <= bound);
            // No worse than by the neighbours alone.
            let count = Count(0) + CountSpan(at);
            type Made = (i64, i64, i64);
            let (before, after): (Vec<&Made>, Vec<&Made>) = made.iter().partition(|(s, ..)| s * S <= at);
            let alone = |(s, off, more): &(i64, i64, i64)| {
                let bound = Span::from_nanos(off.abs() + more);
                hand(s * S, Span::from_nanos(*off), bound, 2).bound_at(count)
            };
            // Two of the same second: either may be taken.
            let worst = [
                before.iter().map(|(s, ..)| *s).max(),
                after.iter().map(|(s, ..)| *s).min(),
            ].into_iter().flatten().map(|second| {
                let of = made.iter().filter(|(s, ..)| *s == second).map(alone);
                of.max().unwrap()
            });
            for worst in worst {
                // The range may be as wide as the narrower promise, the best at one end of it.
                prop_assert!(bound <= worst + worst + Span::from_nanos(error * 2 + 5));
            }
        }
        prop_assert_eq!(restamper.report().contradicted, 0);
    }

    #[test]
    fn random_logs_do_no_harm(text in "\\PC{0,200}", cut in 0usize..2000, flip in 0usize..2000) {
        let _ = hands(0, S).log(text.as_bytes(), "x").is_err();
        let mut good = log(&[hand_line(&hand(0, Span::ZERO, Span::ZERO, 1)), check_line(S, 0)]).into_bytes();
        good.truncate(cut.max(1));
        let at = flip % good.len();
        good[at] ^= 1 << (flip % 8);
        let mut hands = hands(0, S);
        if hands.log(good.as_slice(), "x").is_ok() {
            let mut restamper = Restamper::best(hands);
            for at in [i64::MIN, 0, 1, i64::MAX] {
                let _ = restamper.stamp(&packet(at, i64::MAX, 1));
                let _ = restamper.stamp(&packet(at, -1, 1));
            }
        }
    }
}

#[test]
fn promises_of_both_sides_are_joined() {
    // The first hand is 40 µs ahead, the second 40 µs behind, both within 50 µs.
    let (off, bound) = (Span::from_micros(40), Span::from_micros(50));
    let lines = [hand_line(&hand(0, off, bound, 1)), hand_line(&hand(10 * S, -off, bound, 1))];
    let mut hands = hands(0, 10 * S);
    hands.log(log(&lines).as_bytes(), "day.log").unwrap();
    let mut restamper = Restamper::best(hands);
    let stamped = restamper.stamp(&packet(5 * S, 0, 1));
    assert!(stamped.bound.unwrap() < Span::from_micros(20), "{:?}", stamped.bound);
    assert!((stamped.instant.unwrap() - truth(5 * S)).abs() < Span::from_micros(2));
    // No step where one hand gives way to the next, as long as either promises both times.
    let off = Span::from_micros(10);
    let lines = [hand_line(&hand(0, off, bound, 1)), hand_line(&hand(10 * S, -off, bound, 1))];
    let mut hands = self::hands(0, 11 * S);
    hands.log(log(&lines).as_bytes(), "day.log").unwrap();
    let mut restamper = Restamper::best(hands);
    let times = [-1, 0, 1].map(|ns| restamper.stamp(&packet(10 * S + ns, 0, 1)).instant.unwrap());
    assert!((times[2] - times[0]).abs() < Span::from_micros(1), "{times:?}");
}

#[test]
fn a_broken_promise_is_counted_and_the_bound_covers_both() {
    let mut wrong = hand(10 * S, Span::ZERO, Span::from_micros(5), 1);
    wrong.time += Span::from_millis(1);
    let right = hand(0, Span::ZERO, Span::from_micros(5), 1);
    let mut hands = hands(0, 10 * S);
    hands.log(log(&[hand_line(&right), hand_line(&wrong)]).as_bytes(), "day.log").unwrap();
    let mut restamper = Restamper::best(hands);
    let stamped = restamper.stamp(&packet(S, 0, 1));
    assert!((stamped.instant.unwrap() - truth(S)).abs() <= stamped.bound.unwrap());
    let stamped = restamper.stamp(&packet(9 * S, 0, 1));
    let off = (stamped.instant.unwrap() - truth(9 * S)).abs();
    assert!(off > Span::from_micros(900) && off <= stamped.bound.unwrap());
    assert_eq!(restamper.report().contradicted, 2);
}

#[test]
fn a_log_of_another_clock_moves_no_packet_in_silence() {
    let (right, bound) = (hand(0, Span::ZERO, Span::from_micros(5), 1), Span::from_micros(5));
    let other = |at| {
        let mut other = hand(at, Span::ZERO, bound, 1);
        other.time += Span::from_millis(1500);
        hand_line(&other)
    };
    let mut hands = hands(0, 10 * S);
    hands.log(log(&[hand_line(&right)]).as_bytes(), "day.log").unwrap();
    // Both before and after the packet the other clock's are the nearest.
    hands.log(log(&[other(S), other(9 * S)]).as_bytes(), "other.log").unwrap();
    let mut restamper = Restamper::best(hands);
    let stamped = restamper.stamp(&packet(5 * S, 0, 1));
    let off = (stamped.instant.unwrap() - truth(5 * S)).abs();
    assert!(off <= stamped.bound.unwrap(), "{off} {:?}", stamped.bound);
    assert_eq!(restamper.report().contradicted, 1);
}

#[test]
fn what_promises_nothing_is_no_use() {
    let mut unknown = hand(0, Span::ZERO, Span::ZERO, 1);
    unknown.status = Status::Unknown;
    let mut short = hand(0, Span::ZERO, Span::ZERO, 1);
    short.void_after = Count(0) + CountSpan(2 * S);
    let mut hands = hands(-10 * S, 10 * S);
    let lines = [hand_line(&unknown), hand_line(&short)];
    hands.log(log(&lines).as_bytes(), "day.log").unwrap();
    let mut restamper = Restamper::best(hands);
    let mut quality = |at: i64, epoch| restamper.stamp(&packet(at, 0, epoch)).quality;
    // No farther back than forward.
    for (at, expected) in [
        (-2 * S, Quality::Bounded),
        (-2 * S - 1, Quality::Unsynchronised),
        (2 * S, Quality::Bounded),
        (2 * S + 1, Quality::Unsynchronised),
    ] {
        assert_eq!(quality(at, 1), expected, "{at}");
    }
    // Another epoch, and a packet that keeps what it had.
    assert_eq!(quality(0, 2), Quality::Unsynchronised);
    let kept = restamper.stamp(&packet(0, 0, 2));
    assert_eq!((kept.unix_ns, kept.generation, kept.bound), (5, 0, None));
    let none = Recorded { counted: None, ..packet(0, 0, 1) };
    assert_eq!(restamper.stamp(&none).quality, Quality::Uncounted);
    assert_eq!(restamper.report().uncounted, 1);
}

#[test]
fn only_the_nearest_from_outside_are_kept() {
    let lines: Vec<String> =
        (-500..500).map(|s| hand_line(&hand(s * S, Span::ZERO, Span::ZERO, 1))).collect();
    let mut hands = hands(0, 2 * S);
    hands.log(log(&lines).as_bytes(), "day.log").unwrap();
    // At 0, 1 and 2 s, and one on either side.
    assert_eq!(hands.len(), 5);
    let mut restamper = Restamper::best(hands);
    for at in [2 * S, S / 2, S, 0] {
        let stamped = restamper.stamp(&packet(at, 0, 1));
        assert!(stamped.bound.unwrap() < Span::from_micros(1), "{at}: {stamped:?}");
    }
}

#[test]
fn logs_of_others_are_refused() {
    let good = hand(0, Span::ZERO, Span::ZERO, 1);
    let refused =
        |text: String| hands(0, S).log(text.as_bytes(), "day.log").unwrap_err().to_string();
    let mut boot = good;
    boot.counter.boot = BootId([0xab; 16]);
    let mut kind = good;
    kind.counter.kind = CounterKind::Raw;
    let mut negative = good;
    negative.growth = Rate(-1);
    for (text, parts) in [
        (log(&[hand_line(&boot)]), ["boot abababab-abab", "boot 07070707-0707"]),
        (log(&[hand_line(&kind)]), ["counter 'raw'", "'tsc'"]),
        (log(&[]), ["no hands", "day.log"]),
        (String::new(), ["empty", "day.log"]),
        ("hello\n".to_owned(), ["--replay-log", "day.log"]),
        ("{\"truechimer-replay\":15}\n".to_owned(), ["format 15", "3 to 14"]),
        (log(&["{\"hand\":{}}".to_owned()]), ["line 3", "missing field"]),
        (log(&["nonsense".to_owned()]), ["line 3", "column 2"]),
        (log(&[hand_line(&negative)]), ["line 3", "growth"]),
        (log(&["x".repeat(5 << 20)]), ["line 3", "4 MiB"]),
    ] {
        let why = refused(text);
        for part in parts {
            assert!(why.contains(part), "'{part}' is not in: {why}");
        }
    }
    // One of another counter among ours does no harm, nor does an end that is cut off.
    let mut text = log(&[hand_line(&boot), hand_line(&good)]);
    text += "{\"hand\":{\"coun";
    assert_eq!(hands(0, S).log(text.as_bytes(), "day.log").unwrap(), 1);
}

/// A capture without a clock, of 20 s from `at`, with the host's clocks at its ends, and a packet
/// in the middle; together with this log.
fn without_a_clock(at: i64, suspended: [i64; 2], lines: &[String]) -> Stamped {
    let changes = [(at, suspended[0]), (at + 20 * S, suspended[1])].map(|(at, suspended)| Change {
        continuity: continuity(at, suspended),
        ..change(at, u32::MAX, None)
    });
    let mut hands = hands(at, at + 20 * S);
    changes.iter().for_each(|change| hands.recorded(change));
    hands.log(log(lines).as_bytes(), "day.log").unwrap();
    let mut restamper = Restamper::best(hands);
    restamper.change(&changes[0]);
    restamper.stamp(&packet(at + 10 * S, 10, u32::MAX))
}

#[test]
fn a_capture_without_a_clock_is_joined_where_the_counter_ran_on() {
    // A daemon that began later, or ended before.
    for at in [-100 * S, 200 * S] {
        let lines = [
            hand_line(&hand(0, Span::ZERO, Span::from_micros(1), 6)),
            check_line(S, 0),
            check_line(2 * S, 0),
            hand_line(&hand(16 * S, Span::ZERO, Span::from_micros(1), 6)),
        ];
        let stamped = without_a_clock(at, [0, 0], &lines);
        assert_eq!(stamped.quality, Quality::Bounded, "{at}");
        let off = (stamped.instant.unwrap() - truth(at + 10 * S)).abs();
        assert!(off <= stamped.bound.unwrap() && off < Span::from_micros(500), "{off}");
    }
}

#[test]
fn a_capture_is_not_joined_across_a_break() {
    let begin = hand_line(&hand(0, Span::ZERO, Span::from_micros(1), 6));
    let joined = |at: i64, suspended: [i64; 2], lines: &[String]| {
        without_a_clock(at, suspended, lines).quality == Quality::Bounded
    };
    let lines = [begin.clone(), check_line(S, 0), check_line(2 * S, 0), check_line(3 * S, 0)];
    assert!(joined(100 * S, [0, 0], &lines));
    // The machine slept between the daemon and the capture, or during the capture.
    assert!(!joined(100 * S, [30_000_000, 30_000_000], &lines));
    assert!(!joined(100 * S, [0, 30_000_000], &lines));
    // Nothing in the log says how the host's clocks stood.
    assert!(!joined(100 * S, [0, 0], std::slice::from_ref(&begin)));
    // It slept while the daemon ran: the check that showed it is not of the epoch before.
    let slept = [
        begin,
        check_line(S, 0),
        check_line(50 * S, 30_000_000),
        hand_line(&Hand { status: Status::Disrupted, ..hand(50 * S, Span::ZERO, Span::ZERO, 7) }),
        check_line(51 * S, 30_000_000),
        check_line(52 * S, 30_000_000),
    ];
    assert!(!joined(100 * S, [30_000_000, 30_000_000], &slept));
    let mut again = slept.to_vec();
    again.push(hand_line(&hand(60 * S, Span::ZERO, Span::ZERO, 7)));
    assert!(joined(100 * S, [30_000_000, 30_000_000], &again));
}

#[test]
fn recorded_hands_give_recorded_times_only() {
    let mut restamper = Restamper::recorded();
    let bounded = Recorded { quality: Quality::Bounded, generation: 3, ..packet(S, 5, 1) };
    // The hand does not stand in the file.
    assert_eq!(restamper.stamp(&bounded).quality, Quality::Unsynchronised);
    restamper.change(&change(0, 1, Some(hand(0, Span::ZERO, Span::ZERO, 1))));
    let stamped = restamper.stamp(&bounded);
    assert_eq!((stamped.quality, stamped.generation), (Quality::Bounded, 3));
    let right = Recorded::from(&stamped);
    assert_eq!(restamper.report().differing, 2, "it was written with another time");
    assert_eq!(restamper.stamp(&right), stamped);
    let Report { packets, bounded, kept, differing, .. } = *restamper.report();
    assert_eq!((packets, bounded, kept, differing), (3, 2, 1, 2));
}

#[test]
fn epochs_of_another_daemon_are_not_taken_for_ours() {
    // Captured with a clock in its epoch 6. Another daemon, with a page of its own, was in its
    // epoch 6, too, before the machine slept.
    let changes = [(100 * S, 30_000_000), (120 * S, 30_000_000)].map(|(at, suspended)| Change {
        continuity: continuity(at, suspended),
        ..change(at, 6, None)
    });
    let log_of = |suspended| {
        log(&[
            hand_line(&hand(0, Span::ZERO, Span::from_micros(1), 6)),
            check_line(S, suspended),
            check_line(2 * S, suspended),
            check_line(3 * S, suspended),
        ])
    };
    for (suspended, quality) in [(30_000_000, Quality::Bounded), (0, Quality::Unsynchronised)] {
        let mut hands = hands(100 * S, 120 * S);
        changes.iter().for_each(|change| hands.recorded(change));
        hands.log(log_of(suspended).as_bytes(), "day.log").unwrap();
        let mut restamper = Restamper::best(hands);
        restamper.change(&changes[0]);
        assert_eq!(restamper.stamp(&packet(110 * S, 0, 6)).quality, quality);
        let told = restamper.report().notes.iter().any(|note| note.contains("another daemon"));
        assert_eq!(told, quality != Quality::Bounded, "{:?}", restamper.report());
        // The reason is given once for each epoch.
        for _ in 0..3 {
            restamper.stamp(&packet(110 * S, 0, 5));
        }
        let none = restamper.report().notes.iter().filter(|note| note.ends_with("is of (5)"));
        assert_eq!(none.count(), 1, "{:?}", restamper.report());
    }
}

#[test]
fn hands_of_several_sources_are_joined() {
    // The capture has one from before, a log one from after; of the same clock.
    let off = Span::from_micros(30);
    let mut first = change(0, 2, Some(hand(0, off, Span::from_micros(40), 2)));
    first.continuity = continuity(0, 0);
    let changes = [first, change(20 * S, 2, None)];
    let mut hands = hands(S, 9 * S);
    changes.iter().for_each(|change| hands.recorded(change));
    let lines = [hand_line(&hand(10 * S, -off, Span::from_micros(40), 2))];
    hands.log(log(&lines).as_bytes(), "day.log").unwrap();
    let mut restamper = Restamper::best(hands);
    restamper.change(&changes[0]);
    for at in [S, 5 * S, 9 * S] {
        let stamped = restamper.stamp(&packet(at, 0, 2));
        // Either alone is worth 40 µs.
        let worth = if at == 5 * S { 25 } else { 35 };
        assert!(stamped.bound.unwrap() < Span::from_micros(worth), "{stamped:?}");
        assert!((stamped.instant.unwrap() - truth(at)).abs() <= stamped.bound.unwrap());
    }
}

#[test]
fn a_daemon_that_begins_to_count_epochs_anew_is_another_one() {
    // The machine slept after 17 s, for a second in which the counter stood still. The page was
    // gone, too: epoch 2 once more.
    let bound = Span::from_micros(5);
    let slept = |mut change: Change| {
        change.continuity.suspended_ns += 1_000_000_000;
        if let Some(used) = &mut change.hand {
            used.hand.time += Span::from_secs(1);
            used.made.suspended_ns += 1_000_000_000;
        }
        change
    };
    let changes = [
        change(0, 2, Some(hand(0, Span::ZERO, bound, 2))),
        change(10 * S, 2, None),
        slept(change(20 * S, 2, Some(hand(20 * S, Span::ZERO, bound, 2)))),
        slept(change(30 * S, 2, None)),
    ];
    let mut hands = hands(S, 29 * S);
    changes.iter().for_each(|change| hands.recorded(change));
    let mut restamper = Restamper::best(hands);
    let packets = [[1, 9], [11, 16], [21, 29]].map(|seconds| seconds.map(|s| s * S));
    for (index, packets) in packets.into_iter().enumerate() {
        restamper.change(&changes[index]);
        for at in packets {
            let stamped = restamper.stamp(&packet(at, 0, 2));
            let late = Span::from_secs(i64::from(index == 2));
            let off = stamped.instant.unwrap() - (truth(at) + late);
            assert!(off.abs() <= stamped.bound.unwrap(), "{at}: {off}");
        }
    }
    assert_eq!(restamper.report().contradicted, 0);
}

#[test]
fn a_recorded_hand_that_no_daemon_makes_is_not_used() {
    let mut wrong = hand(0, Span::ZERO, Span::ZERO, 2);
    wrong.path_bound = Span::from_secs(-1);
    let mut restamper = Restamper::recorded();
    restamper.change(&change(0, 2, Some(wrong)));
    let recorded = Recorded { generation: 3, quality: Quality::Bounded, ..packet(S, 0, 2) };
    let stamped = restamper.stamp(&recorded);
    assert_eq!((stamped.bound, stamped.unix_ns), (None, recorded.unix_ns));
    assert_eq!(restamper.report().differing, 1);
}

#[test]
fn only_so_many_changes_are_taken_in() {
    let mut hands = hands(0, 3 << 20);
    let plain = change(0, 2, Some(hand(0, Span::ZERO, Span::ZERO, 2)));
    hands.recorded(&plain);
    for at in 1..=1 << 20 {
        hands.recorded(&Change { hand: None, continuity: continuity(at, 0), ..plain.clone() });
    }
    let mut restamper = Restamper::best(hands);
    assert!(restamper.report().notes.iter().any(|note| note.contains("in parts")));
    restamper.change(&plain);
    assert_eq!(restamper.stamp(&packet(5, 0, 2)).quality, Quality::Bounded);
}

#[test]
fn of_many_looks_at_the_clocks_the_nearest_counts() {
    // Some before the capture, more than are kept within it, some after; asked all along.
    let many = 20_000;
    let mut references = super::link::References::default();
    for at in -many..3 * many {
        let Continuity { count, raw_ns, suspended_ns, width, .. } = continuity(at * 1000, 0);
        let reference = super::link::Reference { count, raw_ns, suspended_ns, width };
        let count = |ms: i64| Count(0) + CountSpan(ms * 1000);
        references.add(reference, count(0), count(2 * many));
    }
    references.settle(Count(0));
    for (at, near) in [(-5_000_000, 1_000), (7, 3_000), (30_000_007, 3_000), (40_000_100, 3_000)] {
        let count = Count(0) + CountSpan(at);
        let nearest = references.nearest(count).unwrap();
        let apart = (nearest.count - count).abs().0;
        let outside = (-at - 1000).max(0);
        assert!(apart <= outside.max(near), "{at}: {apart}");
    }
}
