//! A stretch between two pairs as one straight line, with the bound of its error: what
//! [`Interval::places`] says of every reading on it, for a few multiplications each.
//!
//! A clock within its ordinary rate is, `d` after the left pair and `u` before the right one, in
//! the cones of both pairs. Along the line between the pairs the four sides of these cones are
//! straight lines, too, and the bound is the farthest of the nearer two: exact, not an estimate of
//! it. Of a clock that was slewed harder only the space between the cones is known: the farthest of
//! all four.

use truechimer_counter::HostPair;
use truechimer_stamp::{Interval, ORDINARY};
use truechimer_time::{Count, CountSpan, Period, Span};

/// Fractional bits of the sides.
const BITS: u32 = 24;
/// The longest stretch, ns: 8.6 s. Beyond it the sides might not fit.
const LONGEST: u64 = 1 << 33;
/// The steepest side, counts a nanosecond.
const STEEPEST: i128 = 8;
/// Fractional bits while the slopes are worked out.
const FINE: u32 = 60;

/// The line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment {
    /// The first reading that it is for.
    first: i64,
    /// Distance from there to the last reading that it is for, ns.
    more: u64,
    /// The left pair's reading, ns.
    from: i64,
    /// The count there.
    base: Count,
    /// Counts a nanosecond: `slope` · 2^−`shift`.
    slope: u64,
    shift: u32,
    /// Counts, with `BITS` fractional bits, that two of the sides get farther with each nanosecond
    /// from the left pair. The other two come as much nearer.
    low: i64,
    high: i64,
    /// Where the four are at the left pair: below by the left pair and by the right one, above
    /// likewise.
    below: [i64; 2],
    above: [i64; 2],
    /// Counts that the pairs themselves reach below and above the count at the left pair.
    room: [i64; 2],
    /// True if the clock was slewed harder than is ordinary.
    hard: bool,
    /// The counter's own part of the error.
    own: i64,
}

impl Segment {
    /// The line of this stretch for the readings `first..=last`, which must lie between those of
    /// its pairs. `None` if it is too long or too strange: then its [`Interval`] tells.
    pub(crate) fn new(
        interval: &Interval<'_>,
        (left, right): (&HostPair, &HostPair),
        period: Period,
        own: CountSpan,
        (first, last): (i64, i64),
    ) -> Option<Segment> {
        let shown = u64::try_from(right.unix_ns.checked_sub(left.unix_ns)?).ok()?;
        let inside = left.unix_ns <= first && first <= last && last <= right.unix_ns;
        if interval.is_stepped() || !(1..=LONGEST).contains(&shown) || !inside {
            return None;
        }
        let counts = u64::try_from((right.mid() - left.mid()).0).ok()?;
        if u128::from(counts) > STEEPEST as u128 * u128::from(shown) {
            return None;
        }
        let (slope, shift) = slope(counts, shown);

        // Slopes in counts a nanosecond, FINE bits: the line's, the nominal one, and what ordinary
        // slewing makes of that either way.
        let line = (i128::from(counts) << FINE) / i128::from(shown);
        let nominal = i128::from(period.counts(Span::from_nanos(1 << 40)).0) << (FINE - 40);
        if nominal > STEEPEST << FINE {
            return None;
        }
        let spread = (nominal * i128::from(ORDINARY.0)) >> 64;
        // Rounded up, and one more for what was cut off above.
        let up = |slope: i128| {
            let slope = (slope >> (FINE - BITS)) + 2;
            (slope.abs() <= STEEPEST << BITS).then_some(slope as i64)
        };
        let (low, high) = (up(line - nominal + spread)?, up(nominal + spread - line)?);

        // What a pair's own width, the slack and rounding make of it, at the pair.
        let slack = period.counts(interval.slack() + Span::from_nanos(1)).0.checked_add(3)?;
        let wide = |from: Count, to: Count| {
            let counts = (to - from).0.checked_add(slack)?;
            (0..1 << 36).contains(&counts).then_some(counts << BITS)
        };
        let passed = i64::try_from(shown).ok()?;
        let far = |side: i64, slope: i64| side.checked_add(slope.checked_mul(passed)?);
        Some(Segment {
            first,
            more: last.wrapping_sub(first) as u64,
            from: left.unix_ns,
            base: left.mid(),
            slope,
            shift,
            low,
            high,
            below: [wide(left.before, left.mid())?, far(wide(right.before, right.mid())?, high)?],
            above: [wide(left.mid(), left.after)?, far(wide(right.mid(), right.after)?, low)?],
            room: [(left.mid() - left.before).0, (right.after - left.mid()).0],
            hard: !interval.is_ordinary(),
            own: own.0,
        })
    }

    /// The count at this reading, with the bound of its error; `None` for readings that it is not
    /// for.
    #[inline(always)]
    pub(crate) fn count(&self, unix_ns: i64) -> Option<(Count, CountSpan)> {
        if (unix_ns.wrapping_sub(self.first) as u64) > self.more {
            return None;
        }
        // All below was found to fit when this was made.
        let passed = unix_ns.wrapping_sub(self.from) as u64;
        let on = ((u128::from(passed) * u128::from(self.slope)) >> self.shift) as i64;
        let low = self.low.wrapping_mul(passed as i64);
        let high = self.high.wrapping_mul(passed as i64);
        let [left, right] = self.below;
        let below = (left.wrapping_add(low), right.wrapping_sub(high));
        let [left, right] = self.above;
        let above = (left.wrapping_add(high), right.wrapping_sub(low));
        let (below, above) = if self.hard {
            (below.0.max(below.1), above.0.max(above.1))
        } else {
            (below.0.min(below.1), above.0.min(above.1))
        };
        // Whole counts, and no farther than the pairs themselves: it is between them.
        let [before, after] = self.room;
        let mut on = on;
        let mut below = (below >> BITS).wrapping_add(2).min(before.wrapping_add(on));
        let mut above = (above >> BITS).wrapping_add(2).min(after.wrapping_sub(on));
        if (below | above) < 0 {
            // One pair is so wide that the other one knows better than the line between them.
            let moved = if below < 0 { below.wrapping_neg() } else { above };
            on = on.wrapping_add(moved);
            (below, above) = (below.wrapping_add(moved), above.wrapping_sub(moved));
            if (below | above) < 0 {
                return None;
            }
        }
        let error = below.max(above).wrapping_add(self.own);
        Some((self.base + CountSpan(on), CountSpan(error)))
    }
}

/// `counts` / `ns` as a number and a shift ≤ 64; the number as large as it gets.
fn slope(counts: u64, ns: u64) -> (u64, u32) {
    let quotient = (u128::from(counts) << 64) / u128::from(ns.max(1));
    let beyond = 64 - ((quotient >> 64) as u64).leading_zeros();
    ((quotient >> beyond) as u64, 64 - beyond)
}
