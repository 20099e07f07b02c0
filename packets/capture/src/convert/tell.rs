//! A count as time. One place for it: what was recorded while capturing is worked out again later
//! to the very same bits.

use truechimer_time::{Count, CountSpan, Instant, Span};
use truechimer_timehands::Hand;

/// The time at `count` by this hand, the bound of its error for a count that is known to within
/// `error`, and the same as Unix ns.
#[inline(always)]
pub(crate) fn tell(hand: &Hand, count: Count, error: CountSpan) -> (Instant, Span, i64) {
    let instant = hand.time_at(count);
    let bound = hand.bound_at(count) + lasts(hand, error);
    (instant, bound, unix_ns(hand, instant))
}

/// Longest time that an error of so many counts lasts; 1 ns more, which is cut off where time
/// is written in whole ones.
#[inline(always)]
pub(crate) fn lasts(hand: &Hand, error: CountSpan) -> Span {
    const NANOSECOND: i128 = Span::from_nanos(1).0;
    // The hand's period and the true one differ by far less than a part in a thousand.
    let span = hand.period.span(error).0;
    Span(span.saturating_add(span >> 10).saturating_add(NANOSECOND))
}

/// Unix ns, rounded down.
#[inline(always)]
pub(crate) fn unix_ns(hand: &Hand, instant: Instant) -> i64 {
    let utc = hand.leaps.utc(instant);
    let within = (u128::from(utc.frac) * 1_000_000_000) >> 64;
    utc.unix.saturating_mul(1_000_000_000).saturating_add(within as i64)
}
