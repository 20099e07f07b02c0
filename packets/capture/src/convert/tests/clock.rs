//! Counts to time: by the hand of the moment, with its bound; else by the system clock.

use proptest::prelude::*;
use truechimer_counter::{Choice, Counter, HostPair, realtime_pair};
use truechimer_time::{
    Count, CountSpan, CounterId, Epoch, Instant, Leap, Leaps, Period, Rate, Span,
};
use truechimer_timehands::{Hand, Made, Status};

use super::world::{Dice, HZ, MS, START, World, counts};
use crate::convert::core::{Core, Seen};
use crate::convert::{Change, Continuity, Converter, Used};
use crate::restamp::{Recorded, Restamper};
use crate::{Counted, KernelClock, Quality, RawStamp, Stamped};

/// The leap-free second at which the worlds begin: TAI.
const BEGAN: i64 = START / 1_000_000_000 + 37;

/// True time of a world, `at` counts after it began.
fn truth(at: i64) -> Instant {
    // 2.6 GHz is 13 counts in 5 ns.
    Instant::new(BEGAN, 0) + Span(i128::from(at) * (5i128 << 64) / 13 / 1_000_000_000)
}

/// A hand that is off by up to its bound, made at `at`.
fn hand(world: &World, at: i64, off: Span, epoch: u32) -> Hand {
    let identity = World::identity();
    let period = Period::from_hz(HZ as u64).scaled(Rate::from_ppb(200));
    Hand {
        difference_error: Rate::from_ppb(1_000),
        path_bound: off.abs(),
        statistical_bound: Span::from_nanos(2),
        growth: Rate::from_ppb(500),
        leaps: Leaps { tai_offset: 37, known: true, last: None, next: None },
        ..Hand::exact(
            CounterId { kind: identity.kind, boot: identity.boot, epoch: Epoch(epoch) },
            world.truth(at),
            truth(at) + off,
            period,
            world.truth(at) + CountSpan(1000 * HZ),
        )
    }
}

fn seen(world: &World, at: i64, generation: u64, hand: Hand) -> Seen {
    let made = Made {
        count: world.truth(at),
        monotonic_ns: world.monotonic(at),
        raw_ns: at * 10 / 26,
        suspended_ns: 0,
        device: None,
    };
    Seen { count: world.truth(at), generation, hand, made, status: hand.status }
}

fn core() -> Core {
    Core::new(World::identity(), CountSpan(counts(50)))
}

/// One with two pairs around the first millisecond, and a clock.
fn synchronised(world: &World) -> Core {
    let mut core = core();
    pairs(&mut core, world, [0, MS]);
    core.see(Some(seen(world, MS, 7, hand(world, 0, Span::from_micros(3), 4))));
    core
}

fn pairs(core: &mut Core, world: &World, at: impl IntoIterator<Item = i64>) {
    at.into_iter().for_each(|at| core.pair(world.pair(&mut Dice(at as u64), at).0));
}

fn real(world: &World, at: i64) -> RawStamp {
    RawStamp::Clock(KernelClock::Realtime, world.realtime(at))
}

#[test]
fn a_time_with_its_bound() {
    let world = World { bends: vec![(0, 60)], ..World::steady(1 << 50) };
    let mut core = synchronised(&world);
    let at = MS / 2;
    for stamp in [
        real(&world, at),
        RawStamp::Clock(KernelClock::Monotonic, world.monotonic(at)),
        RawStamp::Count(world.count(at)),
    ] {
        let stamped = core.convert(stamp);
        let counted = stamped.counted.unwrap();
        assert!((counted.count - world.truth(at)).abs() <= counted.error);
        assert_eq!((counted.epoch, stamped.generation), (Epoch(4), 7));
        assert_eq!(stamped.quality, Quality::Bounded);
        let (instant, bound) = (stamped.instant.unwrap(), stamped.bound.unwrap());
        assert!((instant - truth(at)).abs() <= bound && bound < Span::from_micros(5));
        let unix = Instant::from_nanos(i128::from(stamped.unix_ns) + 37_000_000_000);
        assert!((unix - truth(at)).abs() <= bound);
    }
}

#[test]
fn no_promise_no_bound() {
    let world = World::steady(5);
    let at = MS / 2;
    let with = |change: &dyn Fn(&mut Seen)| {
        let mut core = synchronised(&world);
        let mut seen = seen(&world, MS, 8, hand(&world, 0, Span::ZERO, 4));
        change(&mut seen);
        core.see(Some(seen));
        let stamped = core.convert(real(&world, at));
        if stamped.quality != Quality::Bounded {
            // What the kernel said, and nothing else.
            assert_eq!((stamped.unix_ns, stamped.bound), (world.realtime(at), None));
            assert_eq!((stamped.instant, stamped.generation), (None, 0));
        }
        (stamped.quality, stamped.counted.unwrap().epoch)
    };
    let as_hand = |status: Status| {
        move |seen: &mut Seen| {
            (seen.hand.status, seen.status) = (status, status);
        }
    };
    assert_eq!(with(&|_| ()), (Quality::Bounded, Epoch(4)));
    assert_eq!(with(&as_hand(Status::Holdover)), (Quality::Bounded, Epoch(4)));
    assert_eq!(with(&as_hand(Status::Unknown)), (Quality::Unsynchronised, Epoch(4)));
    assert_eq!(with(&as_hand(Status::Disrupted)), (Quality::Unsynchronised, Epoch(4)));
    // A page that nobody tends any more.
    assert_eq!(with(&|seen| seen.status = Status::Holdover), (Quality::Bounded, Epoch(4)));
    // Void by now, but not for the time of the packet; and void for that, too.
    let void = |after: i64| {
        move |seen: &mut Seen| {
            seen.status = Status::Unknown;
            seen.hand.void_after = World::steady(5).truth(after);
        }
    };
    assert_eq!(with(&void(MS * 3 / 4)), (Quality::Bounded, Epoch(4)));
    assert_eq!(with(&void(MS / 4)), (Quality::Unsynchronised, Epoch(4)));
    // The reader found a break that the hand does not know of: its epoch is over.
    assert_eq!(
        with(&|seen| seen.status = Status::Disrupted),
        (Quality::Unsynchronised, Counted::NO_EPOCH)
    );
    // No page at all.
    let mut core = synchronised(&world);
    core.see(None);
    let stamped = core.convert(real(&world, at));
    assert_eq!(stamped.quality, Quality::Unsynchronised);
    assert_eq!(stamped.counted.unwrap().epoch, Counted::NO_EPOCH);
}

#[test]
fn without_a_clock_the_time_is_the_system_clocks() {
    // Steered by 300 ppm, and not by the nominal rate.
    let world = World { bends: vec![(0, 300)], ..World::steady(5) };
    let mut core = core();
    for stamp in [RawStamp::Missing, RawStamp::Count(world.count(5))] {
        assert_eq!(core.convert(stamp).unix_ns, 0, "nothing is known yet");
    }
    pairs(&mut core, &world, [0, MS, 2 * MS]);
    let at = 3 * MS / 2;
    for stamp in [
        real(&world, at),
        RawStamp::Clock(KernelClock::Monotonic, world.monotonic(at)),
        RawStamp::Count(world.count(at)),
    ] {
        let stamped = core.convert(stamp);
        assert_eq!(stamped.quality, Quality::Unsynchronised);
        assert!((stamped.unix_ns - world.realtime(at)).abs() < 100, "{stamp:?}");
    }
    let missing = core.convert(RawStamp::Missing);
    assert_eq!((missing.quality, missing.counted), (Quality::Uncounted, None));
    assert!((missing.unix_ns - world.realtime(2 * MS)).abs() < 200);
    // A stamp that no pair explains.
    let lost = core.convert(real(&world, 500 * MS));
    assert_eq!((lost.quality, lost.unix_ns), (Quality::Uncounted, world.realtime(500 * MS)));
    // The card's own clock, which nobody has read yet.
    let card = core.convert(RawStamp::Clock(KernelClock::Device, 1_234));
    assert_eq!(card.quality, Quality::Uncounted);
}

#[test]
fn an_epoch_is_not_stretched_across_its_end() {
    let world = World::steady(5);
    let mut core = synchronised(&world);
    // The daemon begins another one, though the pairs showed nothing.
    core.see(Some(seen(&world, 3 * MS, 9, hand(&world, 3 * MS, Span::ZERO, 5))));
    let before = core.convert(RawStamp::Count(world.count(2 * MS)));
    assert_eq!(before.quality, Quality::Unsynchronised);
    assert_eq!(before.counted.unwrap().epoch, Counted::NO_EPOCH);
    // What was read after the last pair may as well be from before the break.
    pairs(&mut core, &world, [5 * MS]);
    let after = core.convert(RawStamp::Count(world.count(4 * MS)));
    assert_eq!((after.quality, after.counted.unwrap().epoch), (Quality::Bounded, Epoch(5)));
    // Stamps between pairs of before: nobody knows.
    assert_eq!(core.convert(real(&world, MS / 2)).quality, Quality::Uncounted);
    pairs(&mut core, &world, [6 * MS]);
    assert_eq!(core.convert(real(&world, 11 * MS / 2)).quality, Quality::Bounded);
    assert_eq!(core.breaks, 1);
}

#[test]
fn a_count_from_before_a_jump_back_is_not_of_the_epoch_after() {
    let world = World::steady(1 << 60);
    for back in [MS, 5 * MS, 1 << 40] {
        let mut core = synchronised(&world);
        // Fetched, then the counter went back, then the daemon saw that, and then came the pair.
        let stamp = RawStamp::Count(world.count(2 * MS));
        core.pair(jumped(world.pair(&mut Dice(3), 2 * MS + counts(10_000)).0, -back));
        let mut next = hand(&world, 0, Span::ZERO, 5);
        next.base = next.base - CountSpan(back);
        next.void_after = next.void_after - CountSpan(back);
        let seen = seen(&world, 2 * MS, 9, next);
        core.see(Some(Seen { count: seen.count - CountSpan(back), ..seen }));
        let stamped = core.convert(stamp);
        assert_eq!(stamped.quality, Quality::Unsynchronised, "{back}");
        assert_eq!(stamped.counted.unwrap().epoch, Counted::NO_EPOCH);
        // What came after it is.
        let later = world.pair(&mut Dice(4), 3 * MS).0;
        core.pair(jumped(later, -back));
        let stamped = core.convert(RawStamp::Count(later.before - CountSpan(back + MS / 2)));
        assert_eq!((stamped.quality, stamped.counted.unwrap().epoch), (Quality::Bounded, Epoch(5)));
    }
}

#[test]
fn a_second_that_is_repeated_is_told_apart_by_the_order_of_packets() {
    // The kernel inserts a leap second: it steps back, and shows a second again.
    let world = World { steps: vec![(500 * MS, -1_000_000_000)], ..World::steady(1 << 50) };
    let mut core = core();
    let mut dice = Dice(11);
    core.pair(world.pair(&mut dice, 0).0);
    for ms in 1..2_000 {
        core.pair(world.pair(&mut dice, ms * MS).0);
        // Every 100 ms a packet is enough.
        let at = ms * MS - dice.between(1, MS / 2);
        if ms % 100 != 50 {
            continue;
        }
        let counted = core.convert(real(&world, at)).counted.unwrap();
        assert!((counted.count - world.truth(at)).abs() <= counted.error);
        assert!(counted.error.0 < counts(2_000), "{ms} ms: {:?}", counted.error);
    }
}

#[test]
fn what_was_over_before_a_jump_back_says_nothing_of_after_it() {
    let world = World { steps: vec![(7 * MS / 2, -1_000)], ..World::steady(1 << 60) };
    let mut core = synchronised(&world);
    let back = 1 << 40;
    (2..6).for_each(|ms| core.pair(jumped(world.pair(&mut Dice(ms as u64), ms * MS).0, -back)));
    // The tap was empty then.
    core.not_before(world.count(MS));
    assert!(core.convert(real(&world, 9 * MS / 2)).counted.is_some());
    assert!(core.convert(real(&world, 5 * MS / 2)).counted.is_some());
}

/// One of this machine.
fn converter() -> (Converter, Counter) {
    let counter = Counter::open(Choice::Auto).unwrap();
    let mut converter = Converter::new(counter, None).unwrap();
    converter.pair(realtime_pair(counter, 8));
    converter.refresh();
    (converter, counter)
}

/// Makes the machine have slept for 5 s since it was watched, some time ago.
fn slept(converter: &mut Converter, ago: Span) {
    let counts = converter.identity().period.counts(ago);
    let watched = converter.watched.as_mut().unwrap();
    watched.suspended_ns -= 5_000_000_000;
    watched.raw_ns -= ago.as_nanos_i64();
    watched.count = watched.count - counts;
}

#[test]
fn a_break_is_counted_once() {
    let (mut converter, counter) = converter();
    slept(&mut converter, Span::from_secs(2));
    // The pairs show it, too.
    let mut before = realtime_pair(counter, 8);
    before.monotonic_ns -= 5_000_000_000;
    converter.pair(before);
    let first = converter.breaks();
    converter.pair(realtime_pair(counter, 8));
    assert_eq!(converter.breaks(), first + 1);
    converter.refresh();
    assert_eq!(converter.breaks(), first + 1);
}

#[test]
fn a_suspend_is_looked_for_at_every_large_step() {
    let (mut converter, counter) = converter();
    slept(&mut converter, Span::ZERO);
    // Where nothing shows it there is a look each second.
    converter.pair(realtime_pair(counter, 8));
    converter.refresh();
    assert_eq!(converter.breaks(), 0);
    // When the machine wakes up CLOCK_REALTIME goes forward by as long as it slept.
    let mut pair = realtime_pair(counter, 8);
    pair.unix_ns += 5_000_000_000;
    converter.pair(pair);
    let change = converter.refresh().unwrap();
    assert_eq!(converter.breaks(), 1);
    assert!(change.reason.is_some());
}

/// The pair as a counter shows it that has jumped.
fn jumped(pair: HostPair, by: i64) -> HostPair {
    let [before, after, end] =
        [pair.before, pair.after, pair.end].map(|count| count + CountSpan(by));
    HostPair { before, after, end, ..pair }
}

#[test]
fn a_jump_of_the_counter_ends_what_is_promised() {
    let world = World::steady(1 << 60);
    for by in [-(1 << 50), -MS, -counts(1_000), counts(1_000_000), 1 << 40, 1 << 62] {
        let mut core = synchronised(&world);
        let late = |ms: i64| jumped(world.pair(&mut Dice(3), ms * MS).0, by);
        core.pair(late(2));
        if by == -counts(1_000) {
            // Too small to be told from a slew, in a millisecond: that is for the daemon to see.
            assert_eq!(core.breaks, 0);
            continue;
        }
        assert_eq!(core.breaks, 1, "{by}");
        core.pair(late(3));
        let at = 5 * MS / 2;
        let stamped = core.convert(real(&world, at));
        // The counts are those of now, and of nobody knows which epoch.
        let counted = stamped.counted.unwrap();
        let off = counted.count - (world.truth(at) + CountSpan(by));
        assert!(off.abs() <= counted.error);
        assert_eq!((stamped.quality, counted.epoch), (Quality::Unsynchronised, Counted::NO_EPOCH));
        // A newer hand of the same epoch may have been made before the daemon looked.
        core.see(Some(seen(&world, 3 * MS, 8, hand(&world, 0, Span::ZERO, 4))));
        assert!(core.is_broken());
        assert_eq!(core.convert(real(&world, at)).quality, Quality::Unsynchronised);
        // One of another epoch was not; nor was one that was made long after.
        let shifted = |seen: Seen| Seen {
            count: seen.count + CountSpan(by),
            hand: Hand {
                base: seen.hand.base + CountSpan(by),
                void_after: seen.hand.void_after + CountSpan(by),
                ..seen.hand
            },
            ..seen
        };
        let next = seen(&world, 2_100 * MS, 9, hand(&world, 2_100 * MS, Span::ZERO, 4));
        core.see(Some(shifted(next)));
        let stamped = core.convert(real(&world, at));
        assert_eq!((stamped.quality, stamped.generation), (Quality::Bounded, 9));
    }
}

#[test]
fn a_leap_second_is_written_as_posix_has_it() {
    let world = World::steady(5);
    let mut core = synchronised(&world);
    let mut hand = hand(&world, 0, Span::ZERO, 4);
    hand.leaps.next = Some(Leap { at: BEGAN + 2, step: 1 });
    core.see(Some(seen(&world, MS, 8, hand)));
    let unix = |core: &mut Core, ms: i64| {
        core.convert(RawStamp::Count(world.truth(ms * MS))).unix_ns - START
    };
    let near = |ns: i64, ms: i64| (ns - ms * 1_000_000).abs() < 1_000;
    assert!(near(unix(&mut core, 900), 900));
    // 23:59:60: the last second once more.
    assert!(near(unix(&mut core, 1_100), 100));
    assert!(near(unix(&mut core, 2_100), 1_100));
}

/// Captures for a while, with clocks that change, and keeps what a file would.
fn capture(seed: u64) -> (Vec<Result<Change, Recorded>>, Vec<Stamped>) {
    let mut dice = Dice(seed);
    let world = World {
        bends: vec![(0, dice.between(-400, 400))],
        steps: vec![(dice.between(0, 80 * MS), dice.log_between(30_000, 1 << 40) * dice.sign())],
        origin: dice.next(),
        held_up: 0,
    };
    let mut core = core();
    let (mut file, mut all) = (vec![], vec![]);
    let (mut generation, mut epoch) = (0, 0);
    core.pair(world.pair(&mut dice, 0).0);
    for ms in 1..80 {
        core.pair(world.pair(&mut dice, ms * MS).0);
        let old = core.used().map(|used| used.generation);
        let now = match dice.between(0, 19) {
            // The page goes, a hand without a promise, a new epoch, a new hand.
            0 => None,
            kind => {
                epoch += u32::from(kind == 1);
                generation += 1;
                let off = Span::from_nanos(dice.between(-50_000, 50_000));
                let mut hand = hand(&world, (ms - dice.between(0, 5)) * MS, off, epoch);
                if kind == 2 {
                    hand.status = Status::Disrupted;
                }
                Some(seen(&world, ms * MS, generation, hand))
            }
        };
        if dice.one_in(4) || ms == 1 {
            core.see(now);
        }
        let used = core.used().filter(|used| Some(used.generation) != old);
        if used.is_some() {
            file.push(Ok(change(&core, used)));
        }
        for _ in 0..dice.between(0, 6) {
            let at = dice.between((ms - 1) * MS + 400, ms * MS);
            let stamp = match dice.between(0, 9) {
                0 => RawStamp::Missing,
                1 => RawStamp::Count(world.count(at)),
                2 | 3 => RawStamp::Clock(KernelClock::Monotonic, world.monotonic(at)),
                _ => real(&world, at),
            };
            let stamped = core.convert(stamp);
            if let (Some(instant), Some(bound)) = (stamped.instant, stamped.bound) {
                assert!((instant - truth(at)).abs() <= bound);
            }
            if let Some(counted) = stamped.counted {
                assert!((counted.count - world.truth(at)).abs() <= counted.error);
            }
            file.push(Err(Recorded::from(&stamped)));
            all.push(stamped);
        }
    }
    (file, all)
}

fn change(core: &Core, hand: Option<Used>) -> Change {
    let (count, width) = (Count(0), CountSpan(0));
    Change {
        at: Count(0),
        counter: *core.identity(),
        epoch: core.epoch(),
        status: None,
        reason: None,
        hand,
        continuity: Continuity { count, raw_ns: 0, monotonic_ns: 0, suspended_ns: 0, width },
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn restamping_with_what_was_recorded_is_identity(seed: u64) {
        let (file, all) = capture(seed);
        let mut restamper = Restamper::recorded();
        let mut again = vec![];
        for entry in file {
            match entry {
                Ok(change) => {
                    // As it comes back from a file.
                    let text = serde_json::to_string(&change).unwrap();
                    let read: Change = serde_json::from_str(&text).unwrap();
                    prop_assert_eq!(&read, &change);
                    restamper.change(&read);
                }
                Err(recorded) => again.push(restamper.stamp(&recorded)),
            }
        }
        prop_assert_eq!(again, all);
        prop_assert_eq!(restamper.report().differing, 0);
    }
}

#[test]
fn captures_of_this_test_have_all_there_is() {
    let all: Vec<Stamped> = (0..40).flat_map(|seed| capture(seed).1).collect();
    let share = |quality| all.iter().filter(|one| one.quality == quality).count() * 100 / all.len();
    assert!(share(Quality::Bounded) > 30, "{}", share(Quality::Bounded));
    assert!(share(Quality::Unsynchronised) > 5, "{}", share(Quality::Unsynchronised));
    assert!(share(Quality::Uncounted) > 3, "{}", share(Quality::Uncounted));
}
