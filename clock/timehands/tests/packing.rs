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
    BESIDE, ByRaw, Cell, Device, Glance, Hand, Likely, Made, PackedLeaps, Status, WORDS, Word,
    pack, pack_beside, unpack, unpack_beside,
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
        disputed in (0u32..=1 << 16, any::<bool>()),
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
            disputed: disputed_of(Span(statistical), disputed),
            growth: Rate(growth),
            imbalance: Span::ZERO,
            likely: None,
            status: Status::from_u8(status).unwrap(),
            leaps,
            void_after: Count(void_after),
        }
    }
}

/// A share of the statistical bound, in the page's unit, of 2¹⁶; or nothing.
fn disputed_of(statistical: Span, (share, any): (u32, bool)) -> Span {
    let part = (statistical.0 >> 16) * i128::from(share);
    Span(if any { part >> 32 << 32 } else { 0 })
}

/// A making of a hand.
fn made_at(hand: &Hand) -> Made {
    Made { count: hand.base, monotonic_ns: 0, raw_ns: 0, suspended_ns: 0, device: None }
}

prop_compose! {
    /// Means to read a counter of which a count lasts `period`.
    fn device(period: Period)(
        bits in 1u32..=64,
        by_raw: bool,
        apart in -9_000_000i64..9_000_000,
        error in 0i64..10_000_000,
        pair in 0..period.counts(Span::from_secs(1)).0,
    ) -> Device {
        let by_raw = by_raw.then(|| ByRaw {
            period: period.scaled(Rate::from_ppb(apart)),
            error: Rate::from_ppb(error),
            pair: CountSpan(pair),
        });
        Device { bits, by_raw }
    }
}

prop_compose! {
    /// When a hand was made of which a count lasts `period`.
    fn made_by(period: Period)(
        count: u64,
        monotonic_ns: i64,
        raw_ns: i64,
        suspended_ns: i64,
        device in proptest::option::of(device(period)),
    ) -> Made {
        Made { count: Count(count), monotonic_ns, raw_ns, suspended_ns, device }
    }
}

/// A hand and how it was made.
fn both() -> impl Strategy<Value = (Hand, Made)> {
    hand().prop_flat_map(|hand| (Just(hand), made_by(hand.period)))
}

/// The words as they lie in a ring.
fn cells(words: &[u64; WORDS]) -> [Word; WORDS] {
    words.map(Cell::new)
}

proptest! {
    #[test]
    fn a_hand_survives((hand, made) in both()) {
        prop_assert_eq!(unpack(&pack(&hand, &made)), Ok((hand, made)));
    }

    #[test]
    fn what_is_disputed_is_never_overstated(
        (mut hand, made) in both(),
        disputed in -1i128..1 << 100,
    ) {
        hand.disputed = Span(disputed.min(hand.statistical_bound.0));
        let (kept, _) = unpack(&pack(&hand, &made)).unwrap();
        let (told, less) = (hand.disputed.max(Span::ZERO), Span(1 << 32));
        let saturates = disputed >> 32 > u64::MAX.into();
        prop_assert!(kept.disputed <= told && (kept.disputed + less > told || saturates));
        prop_assert!(kept.undisputed_bound() >= hand.undisputed_bound());
        prop_assert_eq!((kept.bound(), kept.path_bound), (hand.bound(), hand.path_bound));
    }

    /// Packing beside makes an interval no narrower than it is, and nothing likelier.
    #[test]
    fn what_stands_beside_comes_back_no_narrower(
        hand in hand(),
        share in -65_536i128..=65_536,
        likely in proptest::option::of((1i128..FAR, 0..i64::MAX)),
    ) {
        let imbalance = Span(hand.bound().0 / 65_536 * share);
        let likely = likely
            .map(|(half, growth)| Likely { half: Span(half), growth: Rate(growth) });
        let full = Hand { imbalance, likely, ..hand };
        let kept = unpack_beside(hand, &pack_beside(&full)).unwrap();
        for count in [hand.base, Count(hand.base.0.wrapping_add(1 << 40))] {
            let [kept, full] = [kept, full].map(|hand| hand.reach_at(count));
            prop_assert!(kept[0] >= full[0] && kept[1] >= full[1]);
            prop_assert!(kept[0].max(kept[1]) == hand.bound_at(count));
        }
        if imbalance.abs() < Span::from_secs(1 << 30) {
            prop_assert!((kept.imbalance - imbalance).abs() < Span(1 << 32));
        }
        match (kept.likely, full.likely) {
            (Some(kept), Some(full)) => {
                prop_assert!(kept.half >= full.half && kept.half - full.half < Span(1 << 32));
                prop_assert!(kept.growth == full.growth);
            }
            (None, Some(full)) => prop_assert!(full.half > Span(i128::from(u64::MAX) << 31)),
            (kept, full) => prop_assert!(kept == full),
        }
        let cells = cells(&pack(&hand, &made_at(&hand)));
        let beside = pack_beside(&full).map(Word::new);
        let between = Glance(&cells, Some(&beside)).between(hand.base);
        prop_assert_eq!(between, (hand.time_at(hand.base), kept.reach_at(hand.base)));
    }

    #[test]
    fn whatever_stands_beside_can_be_held_to(hand in hand(), words: [u64; BESIDE]) {
        if let Ok(kept) = unpack_beside(hand, &words) {
            let [before, after] = kept.reach_at(hand.base);
            let holds = hand.status.bound_holds();
            prop_assert!(!holds || before >= Span::ZERO && after >= Span::ZERO);
            prop_assert!(kept.likely.is_none_or(|l| l.half > Span::ZERO && l.growth >= Rate::ZERO));
        }
    }

    #[test]
    fn whatever_is_let_in_can_be_held_to(words: [u64; WORDS]) {
        // Random words are practically never a hand; if they are, a sane one.
        if let Ok((hand, made)) = unpack(&words) {
            prop_assert!(sane(&hand) && readable(&hand, &made));
            prop_assert_eq!(unpack(&pack(&hand, &made)), Ok((hand, made)));
        }
    }

    #[test]
    fn one_damaged_word_makes_no_insane_hand(
        (hand, made) in both(),
        at in 0..WORDS,
        damage: u64,
    ) {
        let mut words = pack(&hand, &made);
        words[at] = damage;
        if let Ok((hand, made)) = unpack(&words) {
            prop_assert!(sane(&hand) && readable(&hand, &made));
        }
    }

    #[test]
    fn one_flipped_bit_makes_no_insane_hand(
        (hand, made) in both(),
        at in 0..WORDS,
        bit in 0..64,
    ) {
        let mut words = pack(&hand, &made);
        words[at] ^= 1u64 << bit;
        if let Ok((hand, made)) = unpack(&words) {
            prop_assert!(sane(&hand) && readable(&hand, &made));
        }
    }

    #[test]
    fn the_time_at_a_glance_is_the_hands((hand, made) in both(), distance: i64, fraction in 0..64) {
        // All distances, but as many short ones as long ones; times that can be held.
        let count = hand.base + CountSpan(distance >> fraction);
        prop_assume!(hand.period.span(count - hand.base).abs() < Span(FAR));
        let cells = cells(&pack(&hand, &made));
        let (time, bound) = Glance(&cells, None).at(count);
        prop_assert_eq!((time, bound), (hand.time_at(count), hand.bound_at(count)));
        prop_assert_eq!(Glance(&cells, None).epoch(), hand.counter.epoch);
        prop_assert_eq!(Leaps::from(Glance(&cells, None).leaps()), hand.leaps);
        if hand.status.bound_holds() {
            prop_assert_eq!(Glance(&cells, None).status(), hand.status);
        }
    }

    #[test]
    fn elapsed_at_a_glance_is_the_hands((hand, made) in both(), counts: i64) {
        let cells = cells(&pack(&hand, &made));
        prop_assert_eq!(Glance(&cells, None).elapsed(CountSpan(counts)), hand.elapsed(CountSpan(counts)));
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
        let glance = Glance(&cells, None);
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

/// True if all that a reader relies on is so.
fn sane(hand: &Hand) -> bool {
    let finite = hand.bound() < Span(i128::MAX / 4);
    !hand.path_bound.is_negative()
        && !hand.statistical_bound.is_negative()
        && !hand.disputed.is_negative()
        && hand.disputed <= hand.statistical_bound
        && hand.path_bound <= hand.undisputed_bound()
        && hand.growth >= Rate::ZERO
        && hand.difference_error >= Rate::ZERO
        && Span(hand.time.0).abs() < Span(2 * FAR)
        && (finite || !hand.status.bound_holds())
}

/// True if all that a reader of a device relies on is so.
fn readable(hand: &Hand, made: &Made) -> bool {
    let Some(Device { bits, by_raw }) = made.device else { return true };
    let close = |by_raw: ByRaw| {
        (0..=Rate::from_ppb(10_000_000).0).contains(&by_raw.error.0)
            && by_raw.period.relative_to(hand.period).as_ppt().abs() <= 10_000_000_000
            && by_raw.pair >= CountSpan::ZERO
            && hand.period.span(by_raw.pair) <= Span::from_secs(1)
    };
    (1..=64).contains(&bits) && by_raw.is_none_or(close)
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
        Glance(&cells, None).stands_at(count, beat)
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
    (hand.imbalance, hand.likely) = (Span::ZERO, None);
    assert_eq!(unpack(&pack(&hand, &made)), Ok((hand, made)));
    hand.status = Status::Synchronised;
    assert!(unpack(&pack(&hand, &made)).is_err());
}

#[test]
fn a_page_that_says_nothing_of_a_dispute_has_none() {
    let (hand, made) = common::derived(7);
    let mut words = pack(&hand, &made);
    assert!(hand.disputed > Span::ZERO);
    words[30] = 0;
    let (older, _) = unpack(&words).unwrap();
    assert_eq!((older.disputed, older.undisputed_bound()), (Span::ZERO, hand.bound()));
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
    let too_much = |h: &mut Hand| h.disputed = h.statistical_bound + Span(1 << 32);
    assert_eq!(refused(&too_much), "disputed part of the bound");
    assert_eq!(refused(&|h| h.disputed = Span::MAX), "disputed part of the bound");
    assert_eq!(refused(&|h| h.difference_error = Rate(-1)), "error of the difference period");
    assert_eq!(refused(&|h| h.difference = Period::from_hz(1)), "difference period");
    assert_eq!(refused(&|h| h.time = Instant(i128::MIN)), "time");
    let two = Leaps { last: Some(Leap { at: 0, step: 2 }), ..Leaps::default() };
    assert_eq!(refused(&|h| h.leaps = two), "leap second");
    assert_eq!(unpack(&[0; WORDS]).unwrap_err().field, "counter");
    let refused = |change: &dyn Fn(&mut ByRaw)| {
        let mut by_raw = ByRaw { period: good.period, error: Rate::ZERO, pair: CountSpan(5) };
        change(&mut by_raw);
        let device = Some(Device { bits: 24, by_raw: Some(by_raw) });
        unpack(&pack(&good, &Made { device, ..made })).map(|_| "").unwrap_or_else(|e| e.field)
    };
    assert_eq!(refused(&|_| ()), "");
    assert_eq!(refused(&|r| r.period = Period::from_hz(1_020_000_000)), "period by the raw clock");
    assert_eq!(refused(&|r| r.error = Rate(-1)), "error of the period by the raw clock");
    assert_eq!(
        refused(&|r| r.error = Rate::from_ppb(10_000_001)),
        "error of the period by the raw clock"
    );
    assert_eq!(refused(&|r| r.pair = CountSpan(-1)), "pair of count and raw clock");
    assert_eq!(refused(&|r| r.pair = CountSpan(i64::MAX)), "pair of count and raw clock");
    for bits in [65, 1 << 40] {
        let mut words = pack(&good, &made);
        words[25] = bits;
        assert_eq!(unpack(&words).unwrap_err().field, "width of the counter");
    }
    let mut words = pack(&good, &Made { device: None, ..made });
    words[29] = 1;
    assert_eq!(unpack(&words).unwrap_err().field, "width of the counter");
}

/// Counts by the raw clock hold within their bound, whatever the truth within what is said is.
#[test]
fn counts_by_the_raw_clock_are_within_their_bound() {
    let (_, made) = common::derived(8);
    for hz in [3_579_545u64, 14_318_180, 100_000_000] {
        let period = Period::from_hz(hz);
        for (ppb, pair, late_ns) in
            [(0, 0, 0), (700, 9, 1), (-700, 9, 64_000_000_000), (5, 0, 4_096_000_000_000i64)]
        {
            let error = Rate::from_ppb(i64::abs(ppb));
            let by_raw = ByRaw { period, error, pair: CountSpan(pair) };
            let (count, bound) = by_raw.count(&made, made.raw_ns + late_ns).unwrap();
            // The count that it really was: the pair off by all that it may be, the rate too.
            let true_period = period.scaled(Rate::from_ppb(ppb));
            let off = CountSpan(pair * i64::signum(-ppb));
            let truth = made.count + off + true_period.counts(Span::from_nanos(late_ns));
            assert!((count - truth).abs() <= bound, "{hz} Hz, {ppb} ppb: {count:?} {truth:?}");
            assert!(
                bound.0 <= 3 + pair + period.counts(Span::from_nanos(8 + late_ns / 1_000_000)).0
            );
        }
        let by_raw = ByRaw { period, error: Rate::ZERO, pair: CountSpan(0) };
        assert_eq!(by_raw.count(&made, made.raw_ns - 1), None, "before the pair");
        assert_eq!(by_raw.count(&Made { raw_ns: i64::MIN, ..made }, i64::MAX), None);
    }
}
