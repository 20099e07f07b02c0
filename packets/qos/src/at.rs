//! When a packet passed a point, and spans between two such moments with their bounds.

use truechimer_time::{Count, CountSpan, Epoch, Period, Rate};

/// A packet's count, with which spans on one host can be had more exactly than from its time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Counted {
    /// The count.
    pub count: Count,
    /// Bound of |`count` − true count|, ≥ 0.
    pub error: CountSpan,
    /// In which unbroken stretch of the counter.
    pub epoch: Epoch,
}

/// When a packet passed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct At {
    /// Unix ns, as POSIX counts them.
    pub unix_ns: i64,
    /// ns on a scale without leap seconds, if known: preferred for spans.
    pub leap_free_ns: Option<i64>,
    /// True time is within this of it, ns; `None` if nothing is promised.
    pub bound_ns: Option<u64>,
}

/// A counter that spans on one host are measured by: the difference clock.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct DifferenceClock {
    /// Length of a count.
    pub period: Period,
    /// Bound of the relative error of `period`, ≥ 0.
    pub error: Rate,
}

/// A span of time with its sign, and what it may be wrong by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Measured {
    /// ns.
    pub ns: i64,
    /// The true span is within this of it, ns; `None` if nothing is promised.
    pub bound_ns: Option<u64>,
}

impl At {
    /// A time on both scales alike, with a bound.
    #[must_use]
    pub fn exact(ns: i64, bound_ns: Option<u64>) -> At {
        At { unix_ns: ns, leap_free_ns: Some(ns), bound_ns }
    }

    /// From `earlier` to this: bounded by the sum of both bounds.
    #[must_use]
    pub fn since(&self, earlier: &At) -> Measured {
        let ns = match (self.leap_free_ns, earlier.leap_free_ns) {
            (Some(to), Some(from)) => to.saturating_sub(from),
            _ => self.unix_ns.saturating_sub(earlier.unix_ns),
        };
        let bound_ns = self.bound_ns.zip(earlier.bound_ns).map(|(a, b)| a.saturating_add(b));
        Measured { ns, bound_ns }
    }
}

impl Measured {
    /// Turns it the other way round.
    #[must_use]
    pub fn reversed(self) -> Measured {
        Measured { ns: self.ns.saturating_neg(), ..self }
    }

    /// True if the true span is certainly below zero; without a bound, if it looks so.
    #[must_use]
    pub fn is_negative(&self) -> bool {
        let slack = i64::try_from(self.bound_ns.unwrap_or(0)).unwrap_or(i64::MAX);
        self.ns < slack.saturating_neg()
    }
}

impl DifferenceClock {
    /// From one count to a later one; `None` if the counter did not run on between them.
    #[must_use]
    pub fn span(&self, from: &Counted, to: &Counted) -> Option<Measured> {
        if from.epoch != to.epoch {
            return None;
        }
        let counts = to.count - from.count;
        let span = self.period.span(counts);
        let ends = CountSpan(from.error.0.saturating_add(to.error.0));
        let ends = self.period.span(ends).as_nanos();
        let share = self.error.0.unsigned_abs();
        // Rate is in units of 2⁻⁶⁴.
        let drift = (span.as_nanos().unsigned_abs().saturating_mul(u128::from(share))) >> 64;
        // Two roundings to whole nanoseconds.
        let bound = ends.unsigned_abs().saturating_add(drift).saturating_add(2);
        Some(Measured {
            ns: span.as_nanos_i64(),
            bound_ns: Some(u64::try_from(bound).unwrap_or(u64::MAX)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(count: u64, error: i64, epoch: u32) -> Counted {
        Counted { count: Count(count), error: CountSpan(error), epoch: Epoch(epoch) }
    }

    #[test]
    fn the_difference_clock_bounds_ends_and_drift() {
        let clock = DifferenceClock {
            period: Period::from_hz(1_000_000_000),
            error: "1 ppm".parse().expect("a rate"),
        };
        let span = clock.span(&counted(u64::MAX - 9, 30, 1), &counted(999_999_990, 20, 1));
        // Counts roll over; 1 s at 1 ppm is 1 µs; the ends add 50 ns.
        let span = span.expect("one epoch");
        assert_eq!(span.ns, 1_000_000_000);
        let bound = span.bound_ns.expect("bounded");
        assert!((1049..=1053).contains(&bound), "{bound}");
        assert_eq!(clock.span(&counted(1, 0, 1), &counted(2, 0, 2)), None);
    }

    #[test]
    fn negative_means_beyond_the_bound() {
        let measured = |ns, bound_ns| Measured { ns, bound_ns };
        assert!(!measured(-5, Some(5)).is_negative());
        assert!(measured(-6, Some(5)).is_negative());
        assert!(measured(-1, None).is_negative());
        assert!(!measured(i64::MIN + 1, Some(u64::MAX)).is_negative());
    }

    #[test]
    fn a_leap_second_is_no_delay() {
        let before = At { unix_ns: 2_000_000_000, leap_free_ns: Some(0), bound_ns: None };
        let after = At { unix_ns: 1_000_000_100, leap_free_ns: Some(100), bound_ns: None };
        assert_eq!(after.since(&before).ns, 100);
        let system = At { leap_free_ns: None, ..after };
        assert_eq!(system.since(&before).ns, -999_999_900);
    }
}
