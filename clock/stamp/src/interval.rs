//! When, between two pairs, did `CLOCK_REALTIME` show a given time?
//!
//! Pure arithmetic on integers. Positions are counts since an origin, as `i128` so that no stamp
//! and no step, however absurd, can overflow.
//!
//! # What is assumed
//! Between two pairs the clock did any of these:
//!
//! 1. It ran within [`ORDINARY`] of the nominal rate, however that changed meanwhile. Then the
//!    stamp lies in the cone of each pair: at a distance `a` of clock time from a pair, within
//!    `a · ORDINARY` of where the nominal rate puts it. Both cones hold, so it lies in both.
//! 2. It was slewed harder than that, in one direction. The pairs then disagree with the nominal
//!    rate by more than `ORDINARY` allows, and the stamp lies between the places where the two
//!    pairs put it.
//! 3. As 1 or 2, and it was stepped once. The step's size shows, but for the time that reading a
//!    pair takes: `CLOCK_MONOTONIC` is slewed alike and never stepped. Either the stamp is from
//!    before the step or from after it; both are tried.
//!
//! What looks like a step no larger than the pairs are wide (0.2 µs as a rule) passes for none,
//! unless they are so wide that it might be one; as much of it as shows is added to the bound.

use truechimer_counter::HostPair;
use truechimer_time::{Count, Period, Rate, Span};

/// Most that the rate of `CLOCK_REALTIME` against the counter may differ from nominal without
/// anybody going out of their way: the kernel's NTP code corrects the frequency by up to 500 ppm,
/// adjtime slews at up to 500 ppm more; 100 ppm for the error of the nominal period against the
/// kernel's clock, and for second-order terms.
pub const ORDINARY: Rate = Rate::from_ppb(1_100_000);

/// The kernel cuts its clocks down to whole nanoseconds, at the pair and at the stamp.
const ROUNDING: Span = Span::from_nanos(1);

/// Pairs that know a step this well are believed that there was none. Nobody steps a clock by so
/// little: what is so near is slewed there. So it is also the most that a stretch without a step
/// reaches beyond its pairs.
pub const UNSEEN: Span = Span::from_micros(10);

/// Most that ordinary slewing moves the clock in `span`, for any span that two stamps can be apart.
fn slewed(span: Span) -> Span {
    const LIMIT: Span = Span::from_secs(1 << 40);
    ORDINARY.over(span.abs().min(LIMIT))
}

/// A range of positions, `lo ≤ hi`, with the most likely one in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Region {
    /// Lower end: it is not before this.
    pub lo: i128,
    /// Likeliest position.
    pub best: i128,
    /// Upper end: it is not after this.
    pub hi: i128,
}

impl Region {
    /// Part of `self` that lies within `lo..=hi`, if any.
    #[must_use]
    pub fn within(self, lo: i128, hi: i128) -> Option<Region> {
        let (lo, hi) = (self.lo.max(lo), self.hi.min(hi));
        (lo <= hi).then(|| Region { lo, best: self.best.clamp(lo, hi), hi })
    }

    /// The least range that holds both. Nothing says which of the two it is: the middle is the
    /// best guess, as its error is the least.
    #[must_use]
    pub fn hull(self, other: Region) -> Region {
        let (lo, hi) = (self.lo.min(other.lo), self.hi.max(other.hi));
        Region { lo, best: lo + (hi - lo) / 2, hi }
    }
}

/// The stretch between two pairs that follow each other, and what the clock did on it.
///
/// [`PairLog`](crate::PairLog) asks this of a few packets; whoever has many more works out from it
/// what holds for all of a stretch.
#[derive(Clone, Copy, Debug)]
pub struct Interval<'a> {
    origin: Count,
    period: Period,
    left: &'a HostPair,
    right: &'a HostPair,
    /// Step of the clock between the pairs; positive: forward.
    step: Span,
    /// Error bound of `step`; `None` if it passes for none.
    step_error: Option<Span>,
    /// Step that the clock may have made without showing.
    slack: Span,
    /// True if nobody knows what it did.
    torn: bool,
}

impl<'a> Interval<'a> {
    /// The stretch from `left` to `right` of `CLOCK_REALTIME`; positions are relative to `origin`.
    #[must_use]
    pub fn new(origin: Count, period: Period, left: &'a HostPair, right: &'a HostPair) -> Self {
        let ahead = |pair: &HostPair| {
            Span::from_nanos_wide(i128::from(pair.unix_ns) - i128::from(pair.monotonic_ns))
        };
        let reading = |pair: &HostPair| period.span(pair.end - pair.before).abs();
        let step = ahead(right) - ahead(left);
        let error = reading(left) + reading(right) + ROUNDING + ROUNDING;
        let stepped = step.abs() > error || error > UNSEEN;
        Interval {
            step,
            step_error: stepped.then_some(error),
            slack: if stepped { Span::ZERO } else { step.abs() },
            ..Interval::steady(origin, period, left, right)
        }
    }

    /// Stretch of a clock that is never stepped, as `CLOCK_MONOTONIC` is not. It is the one that is
    /// in the pairs' `unix_ns`; nothing is made of `monotonic_ns` and `end`.
    #[must_use]
    pub fn steady(origin: Count, period: Period, left: &'a HostPair, right: &'a HostPair) -> Self {
        let (step, step_error, slack, torn) = (Span::ZERO, None, Span::ZERO, false);
        Interval { origin, period, left, right, step, step_error, slack, torn }
    }

    /// Stretch of a clock that may be stepped while nothing tells by how much, as that of a network
    /// card: in the pairs' `unix_ns`, too. All by which it differs from the nominal rate may be a
    /// step or a slew; where that is more than ordinary slewing explains, nothing is
    /// [placed](Interval::places). What is not seen is a step together with a slew that undoes it
    /// before the next pair.
    #[must_use]
    pub fn unwatched(
        origin: Count,
        period: Period,
        left: &'a HostPair,
        right: &'a HostPair,
    ) -> Self {
        let steady = Interval::steady(origin, period, left, right);
        let reading = |pair: &HostPair| period.span(pair.width()).abs();
        let widths = reading(left) + reading(right) + ROUNDING + ROUNDING;
        let (shown, counted) = steady.passed();
        let gained = shown - counted;
        // By as much as the readings take, nothing shows at all.
        if gained.abs() <= slewed(counted) + widths {
            return Interval { slack: gained.abs() + widths, ..steady };
        }
        let error = slewed(counted) + widths;
        Interval { step: gained, step_error: Some(error), torn: true, ..steady }
    }

    /// Stretch of an unwatched clock whose rate is known to ± `rate`. As much of a step as an error of the rate
    /// makes up for does not show: a step is in the rate itself where that was measured across it, with half of the
    /// step at most if the stretch is half of what it was measured over.
    #[must_use]
    pub(crate) fn doubting(self, rate: Rate) -> Self {
        let (shown, counted) = self.passed();
        let unseen = (shown - counted).abs() + rate.over(counted.abs());
        if self.torn { self } else { Interval { slack: self.slack + unseen, ..self } }
    }

    /// True if nothing can be told of this stretch.
    #[must_use]
    pub fn is_torn(&self) -> bool {
        self.torn
    }

    /// True if the clock was stepped as far as the pairs show, or may have been by more than passes
    /// for none.
    #[must_use]
    pub fn is_stepped(&self) -> bool {
        self.step_error.is_some()
    }

    /// True if it was: the pairs show a step that reading them does not explain.
    #[must_use]
    pub fn is_surely_stepped(&self) -> bool {
        self.step_error.is_some_and(|error| self.step.abs() > error)
    }

    /// Step that the clock may have made without [`Interval::is_stepped`]: a reading may be this
    /// far beyond those of the pairs and yet be from between them.
    #[must_use]
    pub fn slack(&self) -> Span {
        self.slack
    }

    /// The readings, in ns, that the clock can have shown between the pairs: all that
    /// [`Interval::places`] places is in one of these ranges, both ends included. The second is
    /// there only if the clock was stepped.
    #[must_use]
    pub fn reach(&self) -> [Option<(i64, i64)>; 2] {
        let range = |lo: i128, hi: i128| {
            let clamp = |ns: i128| ns.clamp(i64::MIN.into(), i64::MAX.into()) as i64;
            Some((clamp(lo), clamp(hi)))
        };
        let up = |span: Span| span.as_nanos() + 2;
        let (left, right) = (i128::from(self.left.unix_ns), i128::from(self.right.unix_ns));
        let Some(error) = self.step_error else {
            return [range(left - up(self.slack), right + up(self.slack)), None];
        };
        let (step, error) = (self.step.as_nanos(), up(error));
        [range(left - 2, right - step + error), range(left + step - error, right + 2)]
    }

    /// From the first count of the left pair to the last of the right one: all that this interval
    /// answers for.
    #[must_use]
    pub fn extent(&self) -> (i128, i128) {
        (self.position(self.left.before), self.position(self.right.after))
    }

    /// Where within its extent the clock can have shown `unix_ns`: nowhere, in one place, or (a
    /// backward step) in two.
    #[must_use]
    pub fn places(&self, unix_ns: i64) -> [Option<Region>; 2] {
        let apart = |later: i64, earlier: i64| {
            Span::from_nanos_wide(i128::from(later) - i128::from(earlier))
        };
        if self.torn {
            return [None, None];
        }
        let since = apart(unix_ns, self.left.unix_ns);
        let until = apart(self.right.unix_ns, unix_ns);
        let Some(error) = self.step_error else {
            return [self.place((since, self.slack), (until, self.slack)), None];
        };
        let step = self.step;
        [
            // From before the step: the right pair is by a clock that the stamp did not see.
            self.place((since, Span::ZERO), (until - step, error)),
            // From after it: the left pair is.
            self.place((since - step, error), (until, Span::ZERO)),
        ]
    }

    /// Where a clock without steps can have been `since` on from the left pair and `until` short
    /// of the right one, each known to ± the span beside it.
    fn place(&self, since: (Span, Span), until: (Span, Span)) -> Option<Region> {
        // Such a clock only ever goes forward.
        if [since, until].iter().any(|(span, slack)| *span + *slack + ROUNDING < Span::ZERO) {
            return None;
        }
        let left = self.cone(self.left, since.0, since.1);
        let right = self.cone(self.right, -until.0, until.1);
        let (lo, hi) = if self.is_ordinary() {
            (left.0.max(right.0), left.1.min(right.1))
        } else {
            (left.0.min(right.0), left.1.max(right.1))
        };
        if lo > hi {
            return None;
        }
        let best = self.interpolate(since.0, until.0).clamp(lo, hi);
        let (first, last) = self.extent();
        Region { lo, best, hi }.within(first, last)
    }

    /// The counts at which the clock can have been `since` on (or short, if negative) from what
    /// it was at `pair`, which is known to ± `slack`.
    fn cone(&self, pair: &HostPair, since: Span, slack: Span) -> (i128, i128) {
        let spread = slewed(since) + slack + ROUNDING;
        let counts = |span: Span| i128::from(self.period.counts(span).0);
        // `counts` rounds towards zero: one more on either side.
        (
            self.position(pair.before) + counts(since - spread) - 1,
            self.position(pair.after) + counts(since + spread) + 1,
        )
    }

    /// On the straight line between the pairs.
    fn interpolate(&self, since: Span, until: Span) -> i128 {
        let (left, right) = (self.position(self.left.mid()), self.position(self.right.mid()));
        // In units of 2⁻³² s, so that the product fits.
        let whole = (since + until).0 >> 32;
        let part = (since.0 >> 32).clamp(0, whole.max(0));
        (right - left)
            .checked_mul(part)
            .and_then(|product| product.checked_div(whole))
            .map_or(right, |counts| left + counts)
    }

    /// True if ordinary slewing explains how far the clock went between the pairs.
    ///
    /// No allowance is made for the pairs' own widths: taking an ordinary stretch for a strange
    /// one only makes the bound a little wider, the opposite would make it wrong.
    #[must_use]
    pub fn is_ordinary(&self) -> bool {
        let (shown, counted) = self.passed();
        (shown - counted).abs() <= slewed(counted)
    }

    /// Length of the stretch by the clock, less its step, and by the counter at its nominal rate.
    #[must_use]
    pub fn passed(&self) -> (Span, Span) {
        let shown =
            Span::from_nanos_wide(i128::from(self.right.unix_ns) - i128::from(self.left.unix_ns));
        (shown - self.step, self.period.span(self.right.mid() - self.left.mid()))
    }

    fn position(&self, count: Count) -> i128 {
        i128::from((count - self.origin).0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pair of no width by a counter of nanoseconds.
    fn pair(count: u64, unix_ns: i64, monotonic_ns: i64) -> HostPair {
        let count = Count(count);
        HostPair { before: count, unix_ns, after: count, monotonic_ns, end: count }
    }

    fn places(left: &HostPair, right: &HostPair, unix_ns: i64) -> [Option<(i128, i128)>; 2] {
        Interval::new(Count(0), Period::NANOSECOND, left, right)
            .places(unix_ns)
            .map(|place| place.map(|region| (region.lo, region.hi)))
    }

    #[test]
    fn the_cones_of_both_pairs_hold() {
        // 10 ms apart: at most 1.1 µs a millisecond from the nearer pair, and 3 ns of rounding.
        let (left, right) = (pair(0, 50_000_000, 0), pair(10_000_000, 60_000_000, 10_000_000));
        for (at, spread) in [(1_000_000, 1_100), (9_000_000, 1_100), (5_000_000, 5_500), (0, 0)] {
            let [Some((lo, hi)), None] = places(&left, &right, 50_000_000 + at as i64) else {
                panic!("one place")
            };
            assert!((at - lo).max(hi - at) <= spread + 3, "{at}: {lo} to {hi}");
            assert!(lo == 0 || at - lo >= spread && hi - at >= spread, "{at}: {lo} to {hi}");
        }
    }

    #[test]
    fn a_mean_rate_is_followed() {
        // +400 ppm throughout: the straight line is right though neither cone is centred on it.
        let (left, right) = (pair(0, 0, 0), pair(10_000_000, 10_004_000, 10_004_000));
        let interval = Interval::new(Count(0), Period::NANOSECOND, &left, &right);
        let [Some(region), None] = interval.places(2_000_800) else { panic!("one place") };
        assert!((region.best - 2_000_000).abs() <= 1, "{region:?}");
    }

    #[test]
    fn what_lies_outside_is_nowhere() {
        for ppm in [0, 400, -400, 80_000, -80_000] {
            let shown = 10_000_000 + 10 * ppm;
            let (left, right) = (pair(0, 0, 0), pair(10_000_000, shown, shown));
            for unix_ns in [i64::MIN, -1_000_000, -10, shown + 10, shown + 1_000_000, i64::MAX] {
                assert_eq!(places(&left, &right, unix_ns), [None, None], "{ppm} ppm, {unix_ns}");
            }
        }
    }

    #[test]
    fn a_hard_slew_leaves_all_between_the_two_extrapolations() {
        // 8 % fast on the whole: the first half may have been at the nominal rate and the second
        // at twice as much, or the other way round.
        let (left, right) = (pair(0, 0, 0), pair(10_000_000, 10_800_000, 10_800_000));
        let [Some((lo, hi)), None] = places(&left, &right, 5_400_000) else { panic!("one place") };
        assert!((4_594_000..4_600_000).contains(&lo) && (5_400_000..5_406_000).contains(&hi));
    }

    #[test]
    fn a_step_makes_two_clocks() {
        // Back by 2 ms somewhere between: what showed 55 ms before it showed 55 ms again after it.
        let (left, right) = (pair(0, 50_000_000, 0), pair(10_000_000, 58_000_000, 10_000_000));
        let [Some(before), Some(after)] = places(&left, &right, 55_000_000) else {
            panic!("two places")
        };
        assert!(before.0 < 5_000_000 && before.1 > 5_000_000 && before.1 - before.0 < 12_000);
        assert!(after.0 < 7_000_000 && after.1 > 7_000_000 && after.1 - after.0 < 12_000);
        // Forward by 2 ms: some times were never shown, which is seen near either pair.
        let right = pair(10_000_000, 62_000_000, 10_000_000);
        let [before, after] = places(&left, &right, 50_500_000);
        assert!(before.is_some() && after.is_none());
        let [before, after] = places(&left, &right, 61_500_000);
        assert!(before.is_none() && after.is_some());
    }

    #[test]
    fn a_step_is_no_better_known_than_the_pairs_are() {
        // Reading CLOCK_MONOTONIC was held up by 3 µs: the step of 2 ms looks 3 µs smaller, by
        // which the left pair puts the stamp, from after it, too late.
        let mut left = pair(0, 50_000_000, 0);
        let mut right = pair(1_000_000, 53_000_000, 1_003_000);
        right.end = Count(1_003_000);
        let [None, Some((lo, hi))] = places(&left, &right, 52_999_000) else { panic!("after") };
        assert!(lo <= 999_000 && hi >= 999_000, "{lo} {hi}");
        // The same at the other end, where it looks larger.
        left.monotonic_ns = 3_000;
        left.end = Count(3_000);
        let right = pair(1_000_000, 53_000_000, 1_000_000);
        let [Some((lo, hi)), None] = places(&left, &right, 50_001_000) else { panic!("before") };
        assert!(lo <= 1_000 && hi >= 1_000, "{lo} {hi}");
    }

    #[test]
    fn what_may_be_a_tiny_step_is_in_the_bound() {
        let left = pair(0, 50_000_000, 0);
        let mut right = pair(10_000_000, 60_000_100, 10_000_000);
        right.end = Count(10_000_200);
        let [Some((lo, hi)), None] = places(&left, &right, 50_000_000) else { panic!("one place") };
        assert_eq!((lo, hi), (0, 102));
    }

    #[test]
    fn what_is_placed_is_within_reach() {
        for (shown, stepped) in [
            (10_000_000, 0),
            (10_004_000, 0),
            (10_800_000, 0),
            (9_200_000, 0),
            (10_000_000, 200),
            (12_000_000, 2_000_000),
            (8_000_000, -2_000_000),
            (-90_000_000, -100_000_000),
        ] {
            let left = pair(0, 50_000_000, 0);
            let mut right = pair(10_000_000, 50_000_000 + shown, shown - stepped);
            right.end = Count(10_000_200);
            let make = [Interval::new, Interval::steady, Interval::unwatched];
            for (index, make) in make.into_iter().enumerate() {
                let interval = make(Count(0), Period::NANOSECOND, &left, &right);
                let reach = interval.reach();
                for at in -200..200 {
                    let near = [0, shown, shown - stepped, stepped].map(|ns| 50_000_000 + ns + at);
                    for ns in near {
                        let placed = interval.places(ns).iter().any(Option::is_some);
                        let reached =
                            reach.iter().flatten().any(|(lo, hi)| (*lo..=*hi).contains(&ns));
                        assert!(reached || !placed, "{index}, {shown}, {stepped}: {ns}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_clock_that_nobody_watches_may_have_been_stepped() {
        let left = pair(0, 0, 0);
        // 3 µs in 10 ms: at the nominal rate with one step, or 300 ppm fast.
        let right = pair(10_000_000, 10_003_000, 0);
        let interval = Interval::unwatched(Count(0), Period::NANOSECOND, &left, &right);
        for (unix_ns, at) in
            [(10, 10), (3_010, 10), (9_999_990, 9_999_990), (10_002_990, 9_999_990)]
        {
            let [Some(place), None] = interval.places(unix_ns) else { panic!("one place") };
            assert!((place.lo..=place.hi).contains(&at), "{unix_ns}: {place:?}");
        }
        // More than any slewing: nothing is said, of all that it can have shown.
        let right = pair(10_000_000, 11_000_000, 0);
        let interval = Interval::unwatched(Count(0), Period::NANOSECOND, &left, &right);
        assert!(interval.is_torn() && interval.is_stepped());
        assert_eq!(interval.places(5_000_000), [None, None]);
        assert!(interval.reach()[0].is_some_and(|(lo, hi)| lo <= 0 && hi >= 10_000_000));
        assert!(interval.reach()[1].is_some_and(|(lo, hi)| lo <= 1_000_000 && hi >= 11_000_000));
    }

    #[test]
    fn a_clock_that_is_never_stepped_is_never_taken_to_be() {
        // However long it took to read the pairs.
        let (mut left, mut right) = (pair(0, 0, 0), pair(10_000_000, 10_000_000, 7));
        (left.after, left.end) = (Count(40_000), Count(90_000));
        (right.after, right.end) = (Count(10_040_000), Count(10_900_000));
        let interval = Interval::steady(Count(0), Period::NANOSECOND, &left, &right);
        assert!(!interval.is_stepped() && interval.slack() == Span::ZERO);
        let [Some(place), None] = interval.places(5_000_000) else { panic!("one place") };
        assert!(place.lo <= 5_000_000 && place.hi >= 5_040_000);
    }
}
