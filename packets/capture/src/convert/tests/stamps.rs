//! Stamps to counts: whatever happens to the kernel's clocks, the true count lies within the error,
//! and the quick way says what the mathematics says.

use proptest::prelude::*;
use truechimer_counter::HostPair;
use truechimer_stamp::{NoStamp, PairLog, Window};
use truechimer_time::{Count, CountSpan, Period};

use super::world::{Dice, HZ, MS, RESOLUTION, START, World, counts};
use crate::convert::track::{Nature, Track};

/// A capture: pairs, and what was stamped between them.
struct Trace {
    /// The pairs with the moments at which they are done.
    pairs: Vec<(HostPair, i64)>,
    /// When packets were stamped.
    stamps: Vec<i64>,
}

impl Trace {
    /// A pair every so often, and some packets between two.
    fn roll(dice: &mut Dice, world: &World, until: i64, every: (i64, i64)) -> Trace {
        let (mut at, mut pairs, mut stamps) = (0, vec![], vec![]);
        while at < until {
            let (pair, done) = world.pair(dice, at);
            pairs.push((pair, done));
            let next = done + counts(dice.log_between(every.0, every.1));
            for _ in 0..8 {
                stamps.push(dice.between(done, next));
            }
            // Right beside the pairs, too.
            stamps.extend([done, done + 1, next - 1]);
            at = next;
        }
        pairs.push(world.pair(dice, at));
        stamps.sort_unstable();
        // Another processor stamped a little earlier and was a little later.
        for index in 1..stamps.len() {
            if dice.one_in(5) {
                stamps.swap(index - 1, index);
            }
        }
        Trace { pairs, stamps }
    }
}

#[derive(Default, Debug)]
struct Tally {
    stamps: u32,
    refused: u32,
    /// Farther off than the counter's step and 5 ns.
    off: u32,
    within_microsecond: u32,
}

fn track(nature: Nature) -> Track {
    let identity = World::identity();
    Track::new(nature, identity.period, identity.resolution)
}

fn as_monotonic(pair: HostPair) -> HostPair {
    HostPair { before: pair.after, unix_ns: pair.monotonic_ns, after: pair.end, ..pair }
}

/// Pushes pairs as a capture does, the one after a packet before the packet, `late` more of them.
fn run(world: &World, trace: &Trace, nature: Nature, late: usize) -> Tally {
    let mut track = track(nature);
    let (mut tally, mut pushed) = (Tally::default(), 0);
    for at in &trace.stamps {
        let needed = trace.pairs.iter().position(|(_, done)| done > at).unwrap() + 1 + late;
        while pushed < needed.min(trace.pairs.len()) {
            let pair = trace.pairs[pushed].0;
            track.push(if nature == Nature::Steady { as_monotonic(pair) } else { pair });
            pushed += 1;
        }
        let ns = if nature == Nature::Steady { world.monotonic(*at) } else { world.realtime(*at) };
        let Some((count, error)) = track.count(ns) else {
            tally.refused += 1;
            continue;
        };
        let off = (count - world.truth(*at)).0;
        assert!(
            off.abs() <= error.0,
            "at {at}: off by {off}, bound {}; {:?}; line {:?}",
            error.0,
            world,
            track.place(ns)
        );
        tally.stamps += 1;
        tally.off += u32::from(off.abs() > RESOLUTION + counts(5));
        tally.within_microsecond += u32::from(error.0 <= counts(1000));
        // The quick way and the long way agree.
        let (exact, bound) = track.place(ns).unwrap();
        assert!((count - exact).abs().0 <= 2 + counts(1), "{count:?} {exact:?}");
        assert!(error.0 >= bound.0 - 2, "{error:?} < {bound:?}");
        let slack = 10 + bound.0 / 10_000;
        assert!(error.0 <= bound.0 + slack, "{error:?} and {bound:?} at {at}");
    }
    tally
}

fn toggled(dice: &mut Dice, until: i64, ppm: i64) -> Vec<(i64, i64)> {
    let mut at = counts(dice.between(1, 3_000_000));
    let mut bends = vec![(0, ppm * dice.sign())];
    while at < until {
        bends.push((at, -bends.last().unwrap().1));
        at += 3 * MS;
    }
    bends
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn a_steady_clock(seed: u64, ppm in -500i64..=500) {
        let mut dice = Dice(seed);
        let world = World { bends: vec![(0, ppm)], ..World::steady(dice.next()) };
        let trace = Trace::roll(&mut dice, &world, 40 * MS, (200_000, 3_000_000));
        for nature in [Nature::Stepped, Nature::Steady] {
            let tally = run(&world, &trace, nature, 0);
            prop_assert_eq!(tally.refused, 0);
            // Off by no more than what the pairs are wide and one step of the counter.
            prop_assert!(tally.off * 2 <= tally.stamps, "{:?}", tally);
        }
    }

    #[test]
    fn slewed_to_and_fro(seed: u64, ppm in 0i64..=1000, idle in any::<bool>()) {
        let mut dice = Dice(seed);
        let world = World { bends: toggled(&mut dice, 3000 * MS, ppm), ..World::steady(dice.next()) };
        let every = if idle { (200_000, 900_000_000) } else { (200_000, 3_000_000) };
        let trace = Trace::roll(&mut dice, &world, 60 * MS, every);
        for nature in [Nature::Stepped, Nature::Steady] {
            prop_assert_eq!(run(&world, &trace, nature, 2).refused, 0);
        }
    }

    #[test]
    fn slewed_hard_in_one_direction(seed: u64, up in any::<bool>()) {
        let mut dice = Dice(seed);
        let mut bends = vec![];
        let mut at = 0;
        while at < 60 * MS {
            bends.push((at, dice.log_between(1_200, 100_000) * if up { 1 } else { -1 }));
            at += counts(dice.log_between(100_000, 100_000_000));
        }
        let world = World { bends, ..World::steady(dice.next()) };
        let trace = Trace::roll(&mut dice, &world, 40 * MS, (200_000, 3_000_000));
        for nature in [Nature::Stepped, Nature::Steady] {
            prop_assert_eq!(run(&world, &trace, nature, 1).refused, 0);
        }
    }

    #[test]
    fn stepped(
        seed: u64,
        size in prop_oneof![500i64..1_000_000, 1_000_000i64..2_000_000_000, 1i64..i64::MAX / 8],
        forward in any::<bool>(),
        slewed in any::<bool>(),
        held_up in prop_oneof![Just(0i64), Just(8)],
    ) {
        let mut dice = Dice(seed);
        let bends = if slewed { toggled(&mut dice, 60 * MS, 500) } else { vec![(0, 0)] };
        let step = (dice.between(0, 40 * MS), if forward { size } else { -size });
        let world = World { bends, steps: vec![step], held_up, origin: dice.next() };
        let trace = Trace::roll(&mut dice, &world, 40 * MS, (200_000, 3_000_000));
        for late in [0, 3] {
            let tally = run(&world, &trace, Nature::Stepped, late);
            // A packet is only refused where the clock showed what no rule allows; a step is a
            // rule.
            prop_assert_eq!(tally.refused, 0, "{:?}", tally);
        }
        // `CLOCK_MONOTONIC` does not know of it.
        let tally = run(&world, &trace, Nature::Steady, 0);
        prop_assert_eq!(tally.refused, 0);
    }

    #[test]
    fn stepped_again_and_again(seed: u64, steps in 2usize..60) {
        let mut dice = Dice(seed);
        let mut at = 0;
        let world = World::steady(dice.next());
        // No more than one between two pairs.
        let pairs: Vec<i64> = std::iter::from_fn(|| {
            at += counts(dice.between(500_000, 1_500_000));
            Some(at)
        }).take(70).collect();
        let mut world = world;
        for _ in 0..steps {
            let index = dice.between(0, 67) as usize;
            let when = pairs[index] + counts(1_000) + dice.between(0, counts(400_000));
            let by = dice.log_between(25_000, 1_000_000_000) * dice.sign();
            if world.steps.iter().all(|(other, _)| (other - when).abs() > 2 * MS) {
                world.steps.push((when, by));
            }
        }
        world.steps.sort_unstable();
        let pairs: Vec<_> = pairs.iter().map(|at| world.pair(&mut dice, *at)).collect();
        let mut stamps: Vec<i64> =
            (0..500).map(|_| dice.between(pairs[0].1, pairs[69].1 - counts(200))).collect();
        stamps.sort_unstable();
        let tally = run(&world, &Trace { pairs, stamps }, Nature::Stepped, 1);
        prop_assert_eq!(tally.refused, 0);
    }

    #[test]
    fn a_card_that_is_stepped(seed: u64, ppm in -100i64..=100, size in 3_000i64..1 << 60, forward: bool) {
        let mut dice = Dice(seed);
        let step = (dice.between(0, 40 * MS), if forward { size } else { -size });
        let world = World { bends: vec![(0, ppm)], steps: vec![step], ..World::steady(dice.next()) };
        let trace = Trace::roll(&mut dice, &world, 40 * MS, (200_000, 3_000_000));
        let tally = run(&world, &trace, Nature::Unwatched, 1);
        // What was stamped on the stretch of the step cannot be told, and no more than that.
        prop_assert!(tally.refused <= 40, "{:?}", tally);
    }

    #[test]
    fn the_same_as_the_log_of_the_stamps(seed: u64, kind in 0u8..4) {
        let mut dice = Dice(seed);
        let mut world = World::steady(dice.next());
        match kind {
            0 => world.bends = vec![(0, dice.between(-500, 500))],
            1 => world.bends = toggled(&mut dice, 60 * MS, 500),
            2 => world.bends = vec![(0, dice.between(2_000, 90_000) * dice.sign())],
            _ => world.steps = vec![(
                dice.between(MS, 30 * MS), dice.log_between(25_000, 1 << 40) * dice.sign(),
            )],
        }
        let trace = Trace::roll(&mut dice, &world, 40 * MS, (400_000, 3_000_000));
        let identity = World::identity();
        let (mut log, mut track) =
            (PairLog::new(identity.period, identity.resolution), track(Nature::Stepped));
        // As many as the log keeps all of.
        for (pair, _) in trace.pairs.iter().take(64) {
            log.push(*pair);
            track.push(*pair);
        }
        let last = trace.pairs[trace.pairs.len().min(64) - 1];
        let window = Window { earliest: trace.pairs[0].0.before, latest: last.0.after };
        for at in trace.stamps.iter().filter(|at| **at < last.1) {
            let ns = world.realtime(*at);
            let stamp = log.invert(ns, window);
            let placed = track.place(ns);
            match (stamp, placed) {
                (Ok(stamp), Some(placed)) => {
                    prop_assert_eq!((stamp.count, stamp.error), placed);
                }
                (Err(NoStamp::NotCausal), None) => {}
                // The last few ns beyond the log.
                (Err(NoStamp::NotCausal), Some(_)) => prop_assert!(*at > last.1 - counts(300)),
                other => prop_assert!(false, "{:?}", other),
            }
        }
    }

    #[test]
    fn absurd_pairs_do_no_harm(seed: u64) {
        let mut dice = Dice(seed);
        for nature in [Nature::Stepped, Nature::Steady, Nature::Unwatched] {
            let hz = [2, 1_000, 24_000_000, 2_600_000_000, u64::MAX][dice.between(0, 4) as usize];
            let own = CountSpan(dice.next() as i64);
            let mut track = Track::new(nature, Period::from_hz(hz), CountSpan(own.0.saturating_abs()));
            let mut count = Count(dice.next());
            let any = |dice: &mut Dice| match dice.between(0, 9) {
                0 => i64::MIN,
                1 => i64::MAX,
                _ => dice.next() as i64 >> dice.between(0, 63),
            };
            let mut seen = vec![];
            for _ in 0..dice.between(1, 12) {
                let mut on = || {
                    count = count + CountSpan((dice.next() >> dice.between(2, 63)) as i64);
                    count
                };
                let (before, after, end) = (on(), on(), on());
                let (unix_ns, monotonic_ns) = (any(&mut dice), any(&mut dice));
                seen.push(unix_ns);
                track.push(HostPair { before, unix_ns, after, monotonic_ns, end });
                if dice.one_in(4) {
                    track.not_before(count);
                }
            }
            for _ in 0..20 {
                let near = seen[dice.between(0, seen.len() as i64 - 1) as usize];
                let ns = if dice.one_in(2) { any(&mut dice) } else { near };
                for ns in [ns, ns.saturating_add(1), ns.saturating_sub(1)] {
                    if let Some((_, error)) = track.count(ns) {
                        prop_assert!(error.0 >= 0);
                    }
                }
            }
        }
    }
}

#[test]
fn typical_stamps_are_off_by_no_more_than_a_step_of_the_counter() {
    let mut dice = Dice(5);
    let world = World { bends: vec![(0, 37)], ..World::steady(1 << 40) };
    let trace = Trace::roll(&mut dice, &world, 2000 * MS, (900_000, 1_100_000));
    let tally = run(&world, &trace, Nature::Stepped, 0);
    assert!(tally.stamps > 20_000 && tally.refused == 0, "{tally:?}");
    assert!(f64::from(tally.off) < 0.2 * f64::from(tally.stamps), "{tally:?}");
    // A millisecond at 1100 ppm, half-way.
    assert!(tally.within_microsecond == tally.stamps, "{tally:?}");
}

#[test]
fn nearly_all_stamps_take_the_quick_way() {
    let mut dice = Dice(6);
    let world = World { bends: vec![(0, -20)], ..World::steady(1 << 40) };
    let mut track = track(Nature::Stepped);
    let mut at = 0;
    let mut all = 0u64;
    for _ in 0..200 {
        let (pair, done) = world.pair(&mut dice, at);
        track.push(pair);
        if at > 0 {
            for stamp in (0..1000).map(|i| at - MS + i * MS / 1000) {
                assert!(track.count(world.realtime(stamp)).is_some());
                all += 1;
            }
        }
        at = done + MS;
    }
    assert!(track.slow * 100 < all, "{} of {all}", track.slow);
}

#[test]
fn beyond_the_pairs() {
    let mut dice = Dice(7);
    // As fast as a clock can be slewed.
    for ppm in [0, 100_000, -100_000] {
        let world = World { bends: vec![(0, ppm)], ..World::steady(99) };
        let (mut real, mut steady) = (track(Nature::Stepped), track(Nature::Steady));
        assert_eq!(real.count(START), None, "no pair");
        for at in [100 * MS, 101 * MS] {
            let pair = world.pair(&mut dice, at).0;
            real.push(pair);
            steady.push(as_monotonic(pair));
        }
        for at in [101 * MS + counts(2_000), 100 * MS - counts(5_000)] {
            let (count, error) = real.count(world.realtime(at)).unwrap();
            assert!((count - world.truth(at)).abs() <= error);
            assert!(error.0 < counts(1_500), "{error:?}");
        }
        for away in [1, 10, 90] {
            for at in [101 * MS + away * MS, 100 * MS - away * MS] {
                assert_eq!(real.count(world.realtime(at)), None, "it may have been stepped");
                let (count, error) = steady.count(world.monotonic(at)).unwrap();
                assert!((count - world.truth(at)).abs() <= error);
                assert!(error.0 < MS * away / 7 + counts(200), "{error:?}");
            }
        }
        let far = world.monotonic(101 * MS) + 1_200_000_000;
        assert_eq!(steady.count(far), None);
    }
}

#[test]
fn causality_tells_which_of_two_times_it_was() {
    // As at an inserted leap second: back by 1 s; what showed between is shown again.
    let mut dice = Dice(8);
    let world = World { steps: vec![(500 * MS, -1_000_000_000)], ..World::steady(1) };
    let mut track = track(Nature::Stepped);
    for ms in 0..2_000 {
        track.push(world.pair(&mut dice, ms * MS).0);
    }
    let at = 1_200 * MS + 7;
    let ns = world.realtime(at);
    let (count, error) = track.count(ns).unwrap();
    assert!((count - world.truth(at)).abs() <= error);
    assert!(error.0 > 400 * MS, "both times are in the bound: {error:?}");
    track.not_before(world.count(1_190 * MS));
    let (count, error) = track.count(ns).unwrap();
    assert!((count - world.truth(at)).abs() <= error && error.0 < counts(1_000), "{error:?}");
    // And quickly.
    let slow = track.slow;
    for step in 0..1_000 {
        assert!(track.count(world.realtime(at + step * 100)).is_some());
    }
    assert!(track.slow < slow + 1_001);
}

#[test]
fn a_long_log_forgets_its_beginning_only() {
    let mut dice = Dice(9);
    let world = World { steps: vec![(2_000 * MS, 5_000_000)], ..World::steady(HZ as u64) };
    let mut track = track(Nature::Stepped);
    for ms in 0..9_000 {
        track.push(world.pair(&mut dice, ms * MS).0);
    }
    for at in [5_000 * MS, 6_500 * MS + 3, 8_998 * MS + 1] {
        let (count, error) = track.count(world.realtime(at)).unwrap();
        assert!((count - world.truth(at)).abs() <= error && error.0 < counts(1_000));
    }
    assert_eq!(track.count(world.realtime(4_000 * MS)), None);
}

#[test]
fn a_clock_that_is_slow_to_read_is_not_taken_to_be_stepped() {
    // As HPET and ACPI PM are in a virtual machine: several microseconds a reading.
    let mut dice = Dice(10);
    let world = World { bends: vec![(0, -20)], ..World::steady(1 << 40) };
    let mut track = track(Nature::Stepped);
    let slow = |(pair, done): (HostPair, i64)| {
        let [after, end] = [12_000, 24_000].map(counts).map(CountSpan);
        (HostPair { after: pair.after + after, end: pair.end + end, ..pair }, done + end.0)
    };
    let mut at = 0;
    for _ in 0..2_000 {
        let (pair, done) = slow(world.pair(&mut dice, at));
        track.push(pair);
        at = done + MS;
    }
    assert_eq!(track.odd_ones(), 0);
    for _ in 0..2_000 {
        let stamp = dice.between(MS, at - 2 * MS);
        let (count, error) = track.count(world.realtime(stamp)).unwrap();
        assert!((count - world.truth(stamp)).abs() <= error && error.0 < counts(60_000));
    }
    // One pair that was held up for a fifth of a second.
    let (mut pair, done) = world.pair(&mut dice, at);
    pair.end = pair.end + CountSpan(200 * MS);
    track.push(pair);
    track.push(world.pair(&mut dice, done + 201 * MS).0);
    assert!(track.odd_ones() <= 2);
    for stamp in [done + 100 * MS, at - MS / 2, at - 50 * MS] {
        let (count, error) = track.count(world.realtime(stamp)).unwrap();
        assert!((count - world.truth(stamp)).abs() <= error, "{error:?}");
    }
}
