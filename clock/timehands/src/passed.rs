//! Judgement of whether a counter ran on without a break, by the host's own clocks.

use truechimer_time::{CountSpan, Period, Rate, Span};

/// Time that passed between two looks at a counter and at the host's clocks.
///
/// A jump that counter and kernel clock share does not show: where `CLOCK_MONOTONIC_RAW` is made
/// of the counter itself and both are moved (a virtual machine restored from a snapshot, say).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Passed {
    /// By the counter.
    pub counted: Span,
    /// By `CLOCK_MONOTONIC_RAW`.
    pub raw: Span,
    /// Of it (and beyond it) in suspend: `CLOCK_BOOTTIME` − `CLOCK_MONOTONIC`.
    pub suspended: Span,
}

/// Limits of what is no break yet. All are ≥ 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Allowed {
    /// Time in suspend: what the reading of two clocks may look like.
    pub suspended: Span,
    /// Span that the counter may go back: the counters of two processors differ by a little.
    pub back: Span,
    /// Span that counter and raw clock may be apart to begin with.
    pub apart: Span,
    /// By what part of the raw clock's time more.
    pub rate: Rate,
}

/// Ways in which a counter lost its continuity.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Break {
    /// The machine was suspended for this long.
    Suspended(Span),
    /// The counter went back by this much, > 0.
    Back(Span),
    /// The counter gained this on the raw clock.
    Apart(Span),
}

impl Passed {
    /// Time that passed while the counter made `counts` of `period`, and the clocks (ns) went from
    /// the first of each pair to the second.
    #[must_use]
    pub fn new(
        period: Period,
        counts: CountSpan,
        raw_ns: [i64; 2],
        suspended_ns: [i64; 2],
    ) -> Passed {
        let between =
            |[from, to]: [i64; 2]| Span::from_nanos_wide(i128::from(to) - i128::from(from));
        Passed {
            counted: period.span(counts),
            raw: between(raw_ns),
            suspended: between(suspended_ns),
        }
    }

    /// Break of the counter's continuity, if there is one.
    #[must_use]
    pub fn broken(&self, allowed: &Allowed) -> Option<Break> {
        let apart = self.counted - self.raw;
        if self.suspended.abs() > allowed.suspended {
            Some(Break::Suspended(self.suspended))
        } else if self.counted < -allowed.back {
            Some(Break::Back(-self.counted))
        } else if apart.abs() > allowed.apart + allowed.rate.over(self.raw.abs()) {
            Some(Break::Apart(apart))
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALLOWED: Allowed = Allowed {
        suspended: Span::from_millis(10),
        back: Span::from_micros(3),
        apart: Span::from_micros(20),
        rate: Rate::from_ppb(50_000),
    };

    fn broken(counts: i64, raw_ns: i64, suspended_ns: i64) -> Option<Break> {
        let counts = CountSpan(counts);
        Passed::new(Period::NANOSECOND, counts, [-5, raw_ns - 5], [7, suspended_ns + 7])
            .broken(&ALLOWED)
    }

    #[test]
    fn each_kind_of_break_from_where_it_begins() {
        let second = 1_000_000_000;
        assert_eq!(broken(second, second, 9_999_999), None);
        assert_eq!(broken(second + 69_000, second, 0), None);
        assert_eq!(broken(second - 69_000, second, 0), None);
        assert!(
            matches!(broken(second + 71_000, second, 0), Some(Break::Apart(a)) if !a.is_negative())
        );
        assert!(
            matches!(broken(second - 71_000, second, 0), Some(Break::Apart(a)) if a.is_negative())
        );
        assert!(matches!(broken(second, second, 10_000_001), Some(Break::Suspended(_))));
        assert!(matches!(broken(second, second, -10_000_001), Some(Break::Suspended(_))));
        assert_eq!(broken(-2_000, 0, 0), None);
        assert!(matches!(broken(-4_000, 0, 0), Some(Break::Back(by)) if !by.is_negative()));
    }

    #[test]
    fn extremes_do_not_panic() {
        for n in [i64::MIN, -1, 0, i64::MAX] {
            let passed = Passed::new(Period::from_hz(2), CountSpan(n), [n, !n], [!n, n]);
            let _ = passed.broken(&ALLOWED);
        }
    }
}
