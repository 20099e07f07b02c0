//! The fixed-point path against exact arithmetic in 256 bits, over all counters that there are,
//! and the order of what it tells, within a hand and from one to the next.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod common;

use common::derived;
use ethnum::I256;
use proptest::prelude::*;
use truechimer_time::{Count, CountSpan, Instant, Period, Rate, Span};
use truechimer_timehands::{Cell, Glance, Hand, HandRing, Made, WORDS, Word, pack};

/// Limit at a week, in 2⁻¹²⁸ s: 0.1 ns.
fn tenth_of_a_nanosecond() -> I256 {
    (I256::ONE << 128) / I256::new(10_000_000_000)
}

const WEEK: i64 = 7 * 86_400;
const YEAR: i64 = 366 * 86_400;

/// A counter, and how far from the base in counts: of up to so many seconds, either way, as many
/// near as far.
fn counter_and_age(seconds: i64) -> impl Strategy<Value = (u64, i64)> {
    let hz = prop_oneof![1_000u64..10_000_000_000, Just(1_000), Just(10_000_000_000)];
    (hz, -1.0..1.0f64, 0..50u32, any::<bool>()).prop_map(move |(hz, part, nearer, whole)| {
        let most = i128::from(hz) * i128::from(seconds);
        let part = if whole { part.signum() } else { part };
        let counts = ((most as f64 * part) as i128).clamp(-most, most) as i64;
        (hz, counts >> if whole { 0 } else { nearer })
    })
}

/// The words of a hand as they lie in a ring.
fn cells(hand: &Hand, made: &Made) -> [Word; WORDS] {
    pack(hand, made).map(Cell::new)
}

/// A hand of this period and time, and how it was made.
fn hand(period: Period, time: Instant, base: u64) -> (Hand, Made) {
    let (hand, made) = derived(8);
    (Hand { period, difference: period, time, base: Count(base), ..hand }, made)
}

/// Times that this clock may show: 1970 to 2600, to the last bit.
fn times() -> impl Strategy<Value = Instant> {
    (0i64..20_000_000_000, any::<u64>()).prop_map(|(secs, frac)| Instant::new(secs, frac))
}

/// By how much `told` is off `time` + `numerator`/`denominator` s, in 2⁻¹²⁸ s, to one unit.
fn off(told: Instant, time: Instant, numerator: I256, denominator: I256) -> I256 {
    let exact = numerator * (I256::ONE << 128) / denominator;
    (I256::new(told.0) - I256::new(time.0)) * (I256::ONE << 64) - exact
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    /// Against counts / hertz.
    #[test]
    fn a_week_on_the_time_is_within_a_tenth_of_a_nanosecond(
        (hz, counts) in counter_and_age(WEEK),
        time in times(),
        base: u64,
    ) {
        let (hand, made) = hand(Period::from_hz(hz), time, base);
        let count = hand.base + CountSpan(counts);
        let packed = Glance(&cells(&hand, &made), None).at(count).0;
        for told in [hand.time_at(count), packed] {
            let off = off(told, time, I256::from(counts), I256::from(hz));
            prop_assert!(off.abs() < tenth_of_a_nanosecond(), "{off} · 2⁻¹²⁸ s");
        }
        prop_assert_eq!(packed, hand.time_at(count));
    }

    /// Against counts · span / counts, where the period is what an estimator makes of two stamps.
    #[test]
    fn so_it_is_with_an_estimated_period(
        (hz, counts) in counter_and_age(WEEK),
        baseline in 1i64..1_000_000,
        apart: i32,
        time in times(),
        base: u64,
    ) {
        let between = CountSpan((i128::from(hz) * i128::from(baseline)).min(1 << 62) as i64);
        let span = Period::from_hz(hz).span(between) + Span(i128::from(apart) << 24);
        let period = Period::from_ratio(span, between);
        prop_assume!(period.is_some());
        let (hand, made) = hand(period.unwrap(), time, base);
        let count = hand.base + CountSpan(counts);
        let packed = Glance(&cells(&hand, &made), None).at(count).0;
        for told in [hand.time_at(count), packed] {
            // The span is in 2⁻⁶⁴ s, which is taken off the dividend's scale.
            let exact = I256::from(counts) * I256::new(span.0) * (I256::ONE << 64)
                / I256::from(between.0);
            let off: I256 =
                (I256::new(told.0) - I256::new(time.0)) * (I256::ONE << 64) - exact;
            prop_assert!(off.abs() < tenth_of_a_nanosecond(), "{off} · 2⁻¹²⁸ s");
        }
    }

    /// Any counter from 1 kHz to 10 GHz, any age up to a year, either way: no panic, no overflow
    /// (these tests check for it), and still within what 63 bits of the period come to.
    #[test]
    fn nothing_overflows_in_a_year(
        (hz, counts) in counter_and_age(YEAR),
        time in times(),
        base: u64,
        growth in 0..i64::MAX,
    ) {
        let (mut hand, made) = hand(Period::from_hz(hz), time, base);
        (hand.growth, hand.difference_error) = (Rate(growth), Rate(growth));
        let count = hand.base + CountSpan(counts);
        let cells = cells(&hand, &made);
        let (packed, bound) = Glance(&cells, None).at(count);
        prop_assert_eq!((packed, bound), (hand.time_at(count), hand.bound_at(count)));
        let elapsed = Glance(&cells, None).elapsed(CountSpan(counts));
        prop_assert_eq!(elapsed, hand.elapsed(CountSpan(counts)));
        let off = off(packed, time, I256::from(counts), I256::from(hz));
        // A year · 2⁻⁶³ and one rounding: 3.5 ps.
        let limit = I256::from(YEAR) * (I256::ONE << 65) + (I256::ONE << 64);
        prop_assert!(off.abs() <= limit, "{off} · 2⁻¹²⁸ s");
        // And on the way from base to there it passed every second it should have.
        let seconds = (counts.unsigned_abs() / hz) as i64;
        prop_assert!((packed - time).abs() >= Span::from_secs(seconds) - Span::from_nanos(1));
        prop_assert!(bound >= hand.bound() && bound - hand.bound() <= (packed - time).abs());
    }

    /// Within a hand, later counts have later or equal times.
    #[test]
    fn a_hand_is_monotone(
        (hz, counts) in counter_and_age(YEAR),
        further in 0i64..1000,
        time in times(),
        base: u64,
    ) {
        let (hand, made) = hand(Period::from_hz(hz), time, base);
        let cells = cells(&hand, &made);
        let at = |counts: i64| {
            let count = hand.base + CountSpan(counts);
            (hand.time_at(count), Glance(&cells, None).at(count).0)
        };
        let (first, second) = (at(counts), at(counts + further));
        prop_assert!(first.0 <= second.0 && first.1 <= second.1);
        // Strictly so a count on: no counter is as fast as the scale is fine.
        prop_assert!(at(counts).0 < at(counts + 1).0);
    }

    /// A hand that begins where the one before it stands takes over without a step, whatever
    /// becomes of the rate, and however often: through the ring, at every count around the change.
    #[test]
    fn hands_that_join_are_monotone(
        hz in 1_000u64..10_000_000_000,
        hands in prop::collection::vec((-500_000i64..500_000, 1u64..1 << 40), 1..20),
        time in times(),
        base: u64,
    ) {
        let mut ring = HandRing::new();
        let (mut writer, ring) = ring.split();
        let (mut current, made) = hand(Period::from_hz(hz), time, base);
        writer.publish(&pack(&current, &made));
        let now = |count: Count| {
            let look = ring.look().unwrap();
            let time = Glance(look.words(), look.beside()).at(count).0;
            assert!(look.held());
            time
        };
        for (ppb, later) in hands {
            let count = current.base + CountSpan(later as i64);
            let before = [count - CountSpan(1), count].map(now);
            let period = current.period.scaled(Rate::from_ppb(ppb));
            current = Hand { base: count, time: current.time_at(count), period, ..current };
            writer.publish(&pack(&current, &made));
            let after = [count, count + CountSpan(1)].map(now);
            prop_assert!(before[0] <= before[1] && before[1] == after[0] && after[0] < after[1]);
        }
    }

    /// Where the next hand does not begin where the last one stands, the step is what the two say
    /// and nothing else: it is for whoever publishes to keep it within the bounds.
    #[test]
    fn a_step_is_the_one_that_was_published(
        (hz, counts) in counter_and_age(WEEK),
        step in -1i128 << 64..1 << 64,
        time in times(),
        base: u64,
    ) {
        let (one, made) = hand(Period::from_hz(hz), time, base);
        let count = one.base + CountSpan(counts);
        let other = Hand { base: count, time: one.time_at(count) + Span(step), ..one };
        let [before, after] = [one, other].map(|hand| Glance(&cells(&hand, &made), None).at(count).0);
        prop_assert_eq!(after - before, Span(step));
    }
}
