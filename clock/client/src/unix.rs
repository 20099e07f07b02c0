//! Waits for Unix times in whole nanoseconds, as other languages have them.

use std::time::Duration;

use truechimer_time::{Instant, Leaps, Span};

use crate::clock::Clock;
use crate::reading::Reading;
use crate::wait::{Side, Timer, WaitError};

const NANOS: u32 = 1_000_000_000;

/// Unix time in whole nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct UnixNanos {
    /// Seconds since 1970.
    pub seconds: i64,
    /// Nanoseconds after that second's beginning, 0 to 999 999 999.
    pub nanos: u32,
}

impl UnixNanos {
    /// The first moment of the scale.
    pub const FIRST: UnixNanos = UnixNanos { seconds: i64::MIN, nanos: 0 };
    /// The last moment of the scale.
    pub const LAST: UnixNanos = UnixNanos { seconds: i64::MAX, nanos: NANOS - 1 };

    /// Time that many nanoseconds after 1970; before it if negative.
    #[must_use]
    pub fn from_nanos(ns: i64) -> UnixNanos {
        UnixNanos::from_nanos_wide(ns.into())
    }

    /// Nanoseconds since 1970; negative before.
    #[must_use]
    pub fn as_nanos(self) -> i128 {
        i128::from(self.seconds) * i128::from(NANOS) + i128::from(self.nanos)
    }

    fn from_nanos_wide(ns: i128) -> UnixNanos {
        let nanos = i128::from(NANOS);
        match i64::try_from(ns.div_euclid(nanos)) {
            Ok(seconds) => UnixNanos { seconds, nanos: ns.rem_euclid(nanos) as u32 },
            Err(_) if ns < 0 => UnixNanos::FIRST,
            Err(_) => UnixNanos::LAST,
        }
    }

    /// `at` − `offset` s, rounded down.
    #[inline(always)]
    pub(crate) fn down(at: Instant, offset: i32) -> UnixNanos {
        let nanos = (u128::from(at.frac()) * u128::from(NANOS)) >> 64;
        UnixNanos { seconds: at.secs().wrapping_sub(offset.into()), nanos: nanos as u32 }
    }

    /// `at` − `offset` s, rounded up.
    #[inline(always)]
    pub(crate) fn up(at: Instant, offset: i32) -> UnixNanos {
        let product = u128::from(at.frac()) * u128::from(NANOS);
        let nanos = ((product >> 64) as u32).wrapping_add(u32::from(product as u64 != 0));
        let carry = nanos == NANOS;
        let seconds = at.secs().wrapping_sub(offset.into()).wrapping_add(carry.into());
        UnixNanos { seconds, nanos: if carry { 0 } else { nanos } }
    }

    /// Fraction of the second to wait for, 2⁻⁶⁴ s: so that what ends the wait is true of the reading
    /// in whole nanoseconds too, where `earliest` and `best` are rounded down and `latest` up.
    fn fraction(self, side: Side) -> u64 {
        let fraction = |nanos: u32| (u128::from(nanos) << 64).div_ceil(NANOS.into());
        let nanos = self.nanos.min(NANOS - 1);
        match side {
            // The last of the instants that are rounded down to it.
            Side::After => (fraction(nanos + 1) - 1) as u64,
            Side::Before | Side::Best => fraction(nanos) as u64,
        }
    }
}

impl Clock {
    /// Waits as [`Clock::wait_for_utc`] for a time in whole nanoseconds. The reading's ends, rounded
    /// outwards to nanoseconds of Unix time, are then on that side of it too.
    ///
    /// # Errors
    /// Those of [`Clock::wait_after`].
    pub fn wait_for_unix(
        &self,
        time: UnixNanos,
        side: Side,
        timeout: Option<Duration>,
    ) -> Result<Reading, WaitError> {
        let fraction = time.fraction(side);
        self.wait_until(|leaps| leaps.last_instant(time.seconds, fraction), side, timeout)
    }
}

/// A [`Timer`] for Unix times in whole nanoseconds, exact however long it runs: a value, which
/// borrows no clock. Its times keep their distance through a leap second.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnixTimer {
    /// The next time, on the scale without leap seconds.
    pub next: UnixNanos,
    /// From one time to the next, ns; below 1000 it counts as that.
    pub period_ns: u64,
    /// Side of each time on which its wait ends.
    pub side: Side,
}

/// A time of a [`UnixTimer`] that has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnixTick {
    /// The time.
    pub time: UnixNanos,
    /// The reading that ended the wait.
    pub reading: Reading,
    /// Number of earlier times that had come already when it was asked for, and were left out.
    pub missed: u64,
}

impl UnixTimer {
    /// A timer for `first` and every `period_ns` nanoseconds after it, on that side of each. The leap
    /// seconds are those of a reading of the clock.
    #[must_use]
    pub fn new(leaps: &Leaps, first: UnixNanos, period_ns: u64, side: Side) -> UnixTimer {
        let seconds = leaps.last_instant(first.seconds, 0).secs();
        UnixTimer { next: UnixNanos { seconds, ..first }, period_ns, side }
    }

    /// Waits for the next time, as [`Timer::tick`].
    ///
    /// # Errors
    /// Those of [`Timer::tick`].
    pub fn tick(
        &mut self,
        clock: &Clock,
        timeout: Option<Duration>,
    ) -> Result<UnixTick, WaitError> {
        let next = Instant::new(self.next.seconds, self.next.fraction(self.side));
        let period_ns = i128::from(self.period_ns.max(1000));
        // Rounded up: no time is said to have come that has not.
        let period = Span::from_nanos_wide(period_ns) + Span(1);
        let tick = Timer::new(clock, next, period, self.side).tick(timeout)?;
        let time = self.next.as_nanos() + period_ns.saturating_mul(i128::from(tick.missed));
        self.next = UnixNanos::from_nanos_wide(time.saturating_add(period_ns));
        let time = UnixNanos::from_nanos_wide(time);
        let utc = tick.reading.leaps().utc(Instant::new(time.seconds, 0));
        let time = UnixNanos { seconds: utc.unix, ..time };
        Ok(UnixTick { time, reading: tick.reading, missed: tick.missed })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use truechimer_time::Leap;

    #[test]
    fn what_is_waited_for_holds_in_whole_nanoseconds() {
        let down = |fraction: u64| (u128::from(fraction) * u128::from(NANOS)) >> 64;
        for nanos in [0, 1, 2, 3, 499_999_999, 500_000_000, 999_999_998, 999_999_999] {
            let time = UnixNanos { seconds: 7, nanos };
            let [best, after] = [Side::Best, Side::After].map(|side| time.fraction(side));
            assert_eq!(best, time.fraction(Side::Before));
            // The first and the last instants that are rounded down to it.
            assert_eq!([down(best), down(after)], [u128::from(nanos); 2]);
            assert!(best == 0 || down(best - 1) < u128::from(nanos));
            assert!(after.checked_add(1).is_none_or(|next| down(next) > u128::from(nanos)));
        }
    }

    #[test]
    fn nanoseconds_are_parted_and_held_at_the_ends() {
        for ns in [i64::MIN, -1_000_000_001, -1, 0, 1, 1_000_000_000, i64::MAX] {
            let time = UnixNanos::from_nanos(ns);
            assert!(time.nanos < NANOS);
            assert_eq!(time.as_nanos(), ns.into());
        }
        let [low, high] = [i128::MIN, i128::MAX].map(UnixNanos::from_nanos_wide);
        assert_eq!((low.seconds, high.seconds), (i64::MIN, i64::MAX));
    }

    #[test]
    fn of_a_second_that_is_shown_twice_the_later_one_is_meant() {
        let leap = Leap { at: 1000, step: 1 };
        for leaps in [
            Leaps { tai_offset: 36, known: true, last: None, next: Some(leap) },
            Leaps { tai_offset: 37, known: true, last: Some(leap), next: None },
        ] {
            for (seconds, at) in [(961, 997), (962, 999), (963, 1000), (964, 1001)] {
                let timer = UnixTimer::new(&leaps, UnixNanos { seconds, nanos: 5 }, 1, Side::Best);
                assert_eq!(timer.next, UnixNanos { seconds: at, nanos: 5 });
                assert_eq!(leaps.utc(Instant::new(at, 0)).unix, seconds);
            }
        }
    }
}
