//! The served time, and how anyone on the same machine can know it.

use truechimer_counter::{Choice, Counter, CounterError, host_reading, realtime_pair};
use truechimer_time::{Count, CountSpan, Rate, Span};

/// Number of pairs that are taken to find one that nothing came between.
const TRIES: u32 = 8;

/// A made-up time: `CLOCK_REALTIME` + offset + skew · (`CLOCK_MONOTONIC_RAW` − origin).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ServedClock {
    /// Served time − system clock at the origin.
    pub offset: Span,
    /// Rate at which the served time gains on the system clock.
    pub skew: Rate,
    /// Where the skew begins to count, `CLOCK_MONOTONIC_RAW` in ns.
    pub origin_raw_ns: i64,
}

impl ServedClock {
    /// A served time whose origin is now.
    ///
    /// # Errors
    /// If `CLOCK_MONOTONIC_RAW` cannot be read.
    pub fn starting_now(offset: Span, skew: Rate) -> Result<ServedClock, CounterError> {
        let raw = Counter::open(Choice::Raw)?;
        Ok(ServedClock { offset, skew, origin_raw_ns: raw.read().0 as i64 })
    }

    /// The served Unix time in ns when `CLOCK_MONOTONIC_RAW` and `CLOCK_REALTIME` show these, in
    /// ns. Saturates.
    #[must_use]
    pub fn unix_ns(&self, raw_ns: i64, realtime_ns: i64) -> i64 {
        // To the nearest nanosecond, for which the product has room.
        let since = i128::from(raw_ns.saturating_sub(self.origin_raw_ns));
        let gained = ((since * i128::from(self.skew.0) + (1 << 63)) >> 64) as i64;
        realtime_ns.saturating_add(self.offset.as_nanos_i64()).saturating_add(gained)
    }

    /// The served time now, between two readings of `counter`.
    #[must_use]
    pub fn sandwich(&self, counter: Counter) -> Sandwich {
        let pair = realtime_pair(counter, TRIES);
        // The raw clock only says how much the skew has made: read a moment later it is as good.
        let raw_ns = host_reading(counter).raw_ns;
        Sandwich {
            before: pair.before,
            unix_ns: self.unix_ns(raw_ns, pair.unix_ns),
            system_ns: pair.unix_ns,
            after: pair.after,
        }
    }
}

/// The truth at a moment between two readings of a counter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sandwich {
    /// Read before.
    pub before: Count,
    /// The served Unix time, ns.
    pub unix_ns: i64,
    /// The system clock (`CLOCK_REALTIME`) at the same moment: Unix time, ns.
    pub system_ns: i64,
    /// Read after.
    pub after: Count,
}

impl Sandwich {
    /// The count half-way: the served time was that within ± half the width.
    #[must_use]
    pub fn count(&self) -> Count {
        self.before.midpoint(self.after)
    }

    /// Number of counts between the readings.
    #[must_use]
    pub fn width(&self) -> CountSpan {
        self.after - self.before
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn it_is_ahead_by_its_offset_and_gains_by_its_skew() {
        let clock = ServedClock {
            offset: Span::from_millis(1500),
            skew: Rate::from_ppb(37_000),
            origin_raw_ns: 1_000,
        };
        let realtime = 1_800_000_000_000_000_000;
        assert_eq!(clock.unix_ns(1_000, realtime), realtime + 1_500_000_000);
        let later = 1_000 + 1_000_000_000_000;
        assert_eq!(clock.unix_ns(later, realtime), realtime + 1_500_000_000 + 37_000_000);
    }

    #[test]
    fn the_sandwich_agrees_with_itself() {
        let clock =
            ServedClock::starting_now(Span::from_secs(-2), Rate::from_ppb(-100_000)).unwrap();
        let raw = Counter::open(Choice::Raw).unwrap();
        let first = clock.sandwich(raw);
        let second = clock.sandwich(raw);
        assert!(first.width().0 >= 0 && second.before.at_or_after(first.after));
        let ahead = second.unix_ns - second.system_ns;
        assert!((ahead + 2_000_000_000).abs() < 1_000_000, "{ahead}");
    }

    proptest! {
        #[test]
        fn extremes_saturate(offset: i128, skew: i64, origin: i64, raw: i64, realtime: i64) {
            let clock =
                ServedClock { offset: Span(offset), skew: Rate(skew), origin_raw_ns: origin };
            let _ = clock.unix_ns(raw, realtime);
        }
    }
}
