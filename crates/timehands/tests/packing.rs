//! Hands survive being packed; anything else is refused; telling the time from packed words is
//! the same as from the hand.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod common;

use proptest::prelude::*;
use truechimer_time::{
    BootId, Count, CountSpan, CounterId, CounterKind, Epoch, Instant, Leap, Leaps, Period, Rate,
    Span,
};
use truechimer_timehands::{
    Cell, Glance, Hand, Made, PackedLeaps, Status, WORDS, Word, pack, unpack,
};

/// Up to 30 000 years either way, in 2⁻⁶⁴ s.
const FAR: i128 = 1_000_000_000_000 << 64;

prop_compose! {
    fn leap()(at: i64, up: bool) -> Leap {
        Leap { at, step: if up { 1 } else { -1 } }
    }
}

prop_compose! {
    fn leaps()(
        tai_offset: i32,
        known: bool,
        last in proptest::option::of(leap()),
        next in proptest::option::of(leap()),
    ) -> Leaps {
        Leaps { tai_offset, known, last, next }
    }
}

prop_compose! {
    fn counter()(
        kind in prop::sample::select(vec![
            CounterKind::Tsc,
            CounterKind::ArmGeneric,
            CounterKind::Raw,
            CounterKind::Simulated,
        ]),
        boot: [u8; 16],
        epoch: u32,
    ) -> CounterId {
        CounterId { kind, boot: BootId(boot), epoch: Epoch(epoch) }
    }
}

prop_compose! {
    /// Any hand that an engine may publish.
    fn hand()(
        counter in counter(),
        base: u64,
        time in -FAR..FAR,
        hz in 1_000u64..20_000_000_000,
        apart in -9_000_000i64..9_000_000,
        (difference_error, growth) in (0..i64::MAX, 0..i64::MAX),
        (path, statistical) in (0..FAR, 0..1_000_000_000i128 << 64),
        status in 0u8..4,
        leaps in leaps(),
        void_after: u64,
    ) -> Hand {
        let period = Period::from_hz(hz);
        Hand {
            counter,
            base: Count(base),
            time: Instant(time),
            period,
            difference: period.scaled(Rate::from_ppb(apart)),
            difference_error: Rate(difference_error),
            path_bound: Span(path),
            statistical_bound: Span(statistical),
            growth: Rate(growth),
            status: Status::from_u8(status).unwrap(),
            leaps,
            void_after: Count(void_after),
        }
    }
}

prop_compose! {
    fn made()(count: u64, monotonic_ns: i64, raw_ns: i64, suspended_ns: i64) -> Made {
        Made { count: Count(count), monotonic_ns, raw_ns, suspended_ns }
    }
}

/// The words as they lie in a ring.
fn cells(words: &[u64; WORDS]) -> [Word; WORDS] {
    words.map(Cell::new)
}

proptest! {
    #[test]
    fn a_hand_survives(hand in hand(), made in made()) {
        prop_assert_eq!(unpack(&pack(&hand, &made)), Ok((hand, made)));
    }

    #[test]
    fn whatever_is_let_in_can_be_held_to(words: [u64; WORDS]) {
        // Random words are practically never a hand; if they are, a sane one.
        if let Ok((hand, made)) = unpack(&words) {
            prop_assert!(sane(&hand));
            prop_assert_eq!(unpack(&pack(&hand, &made)), Ok((hand, made)));
        }
    }

    #[test]
    fn one_damaged_word_makes_no_insane_hand(
        hand in hand(),
        made in made(),
        at in 0..WORDS,
        damage: u64,
    ) {
        let mut words = pack(&hand, &made);
        words[at] = damage;
        if let Ok((hand, _)) = unpack(&words) {
            prop_assert!(sane(&hand));
        }
    }

    #[test]
    fn one_flipped_bit_makes_no_insane_hand(
        hand in hand(),
        made in made(),
        at in 0..WORDS,
        bit in 0..64,
    ) {
        let mut words = pack(&hand, &made);
        words[at] ^= 1u64 << bit;
        if let Ok((hand, _)) = unpack(&words) {
            prop_assert!(sane(&hand));
        }
    }

    #[test]
    fn the_time_at_a_glance_is_the_hands(hand in hand(), made in made(), distance: i64, fraction in 0..64) {
        // All distances, but as many short ones as long ones; times that can be held.
        let count = hand.base + CountSpan(distance >> fraction);
        prop_assume!(hand.period.span(count - hand.base).abs() < Span(FAR));
        let cells = cells(&pack(&hand, &made));
        let (time, bound) = Glance(&cells).at(count);
        prop_assert_eq!((time, bound), (hand.time_at(count), hand.bound_at(count)));
        prop_assert_eq!(Glance(&cells).epoch(), hand.counter.epoch);
        prop_assert_eq!(Leaps::from(Glance(&cells).leaps()), hand.leaps);
        if hand.status.bound_holds() {
            prop_assert_eq!(Glance(&cells).status(), hand.status);
        }
    }

    #[test]
    fn elapsed_at_a_glance_is_the_hands(hand in hand(), made in made(), counts: i64) {
        let cells = cells(&pack(&hand, &made));
        prop_assert_eq!(Glance(&cells).elapsed(CountSpan(counts)), hand.elapsed(CountSpan(counts)));
    }

    #[test]
    fn bounds_grow_as_rates_say(hand in hand(), counts in -1i64 << 40..1 << 40) {
        // `Rate::over` drops what lies below 2⁻³² s before it multiplies.
        let span = hand.period.span(CountSpan(counts)).abs();
        let grown = hand.bound_at(hand.base + CountSpan(counts)) - hand.bound();
        let more = grown - hand.growth.over(span);
        prop_assert!((0..=1 << 32).contains(&more.0), "{more:?}");
    }

    #[test]
    fn no_words_make_a_glance_panic(words: [u64; WORDS], count: u64, heartbeat: u64) {
        let cells = cells(&words);
        let glance = Glance(&cells);
        let _ = glance.at(Count(count));
        let _ = glance.elapsed(CountSpan(count as i64));
        let _ = (glance.stands_at(Count(count), heartbeat), glance.status(), glance.epoch());
        let _ = Leaps::from(glance.leaps()).utc(Instant(i128::from(count)));
    }

    #[test]
    fn leaps_survive(leaps in leaps()) {
        prop_assert_eq!(Leaps::from(PackedLeaps::from(leaps)), leaps);
    }
}

/// What a reader relies on.
fn sane(hand: &Hand) -> bool {
    let finite = hand.bound() < Span(i128::MAX / 4);
    !hand.path_bound.is_negative()
        && !hand.statistical_bound.is_negative()
        && hand.growth >= Rate::ZERO
        && hand.difference_error >= Rate::ZERO
        && Span(hand.time.0).abs() < Span(2 * FAR)
        && (finite || !hand.status.bound_holds())
}

#[test]
fn a_hand_stands_while_it_is_tended_and_not_void() {
    let (mut hand, made) = common::derived(8);
    let second = hand.period.counts(Span::from_secs(1)).0;
    let beat = 1_000_000_000_000_u64;
    hand.void_after = Count(beat) + CountSpan(2 * second);
    let stands = |hand: &Hand, seconds: i64| {
        let cells = cells(&pack(hand, &made));
        let count = Count(beat) + CountSpan(seconds * second);
        Glance(&cells).stands_at(count, beat)
    };
    // Until it is void …
    assert!(stands(&hand, 0) && stands(&hand, 2) && !stands(&hand, 3));
    // … or the writer is silent for three seconds, or seems to be from the future.
    hand.void_after = Count(beat) + CountSpan(100 * second);
    assert!(stands(&hand, 3) && !stands(&hand, 4) && !stands(&hand, 50));
    assert!(stands(&hand, -3) && !stands(&hand, -4) && !stands(&hand, -900));
}

#[test]
fn no_bound_at_all_can_be_said_of_a_clock_that_promises_none() {
    let (mut hand, made) = common::derived(8);
    hand.status = Status::Unknown;
    hand.statistical_bound = Span::MAX;
    hand.path_bound = Span::ZERO;
    assert_eq!(unpack(&pack(&hand, &made)), Ok((hand, made)));
    hand.status = Status::Synchronised;
    assert!(unpack(&pack(&hand, &made)).is_err());
}

#[test]
fn what_cannot_be_is_named() {
    let (good, made) = common::derived(8);
    let refused = |change: &dyn Fn(&mut Hand)| {
        let mut hand = good;
        change(&mut hand);
        unpack(&pack(&hand, &made)).unwrap_err().field
    };
    assert_eq!(refused(&|h| h.growth = Rate(-1)), "growth of the bound");
    assert_eq!(refused(&|h| h.path_bound = Span(-1)), "bound");
    assert_eq!(refused(&|h| h.statistical_bound = Span(-1)), "bound");
    assert_eq!(refused(&|h| h.difference_error = Rate(-1)), "error of the difference period");
    assert_eq!(refused(&|h| h.difference = Period::from_hz(1)), "difference period");
    assert_eq!(refused(&|h| h.time = Instant(i128::MIN)), "time");
    let two = Leaps { last: Some(Leap { at: 0, step: 2 }), ..Leaps::default() };
    assert_eq!(refused(&|h| h.leaps = two), "leap second");
    assert_eq!(unpack(&[0; WORDS]).unwrap_err().field, "counter");
}
