//! Conversion of a narrow counter's reading into a wide count.

use truechimer_time::{Count, CountSpan, Period, Span};

use crate::error::CounterError;

/// Continuation of a counter of so many bits from where it was.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Width {
    bits: u32,
    period: Period,
    /// Half a roll-over in ns, rounded down.
    limit_ns: i64,
}

impl Width {
    /// Counters of more bits are taken to be 64 bits wide or not at all: at 10 GHz, 48 bits last
    /// for eight hours.
    pub(crate) const MOST_BITS: u32 = 48;

    /// For a counter of `bits` bits, 2 to [`Width::MOST_BITS`], whose counts last `period`.
    pub(crate) fn new(bits: u32, period: Period) -> Option<Width> {
        if !(2..=Self::MOST_BITS).contains(&bits) {
            return None;
        }
        let half = period.span(CountSpan(1 << (bits - 1)));
        Some(Width { bits, period, limit_ns: half.as_nanos_i64().saturating_sub(1) })
    }

    /// Width of the lowest `bits` bits alone, if it has more.
    pub(crate) fn narrowed(self, bits: u32) -> Option<Width> {
        if bits < self.bits { Width::new(bits, self.period) } else { Some(self) }
    }

    /// Number of bits of the counter.
    pub(crate) fn bits(self) -> u32 {
        self.bits
    }

    /// Where counting begins with a first reading, with room below it.
    pub(crate) fn first(self, raw: u64) -> Count {
        let roll_over = 1 << self.bits;
        Count(roll_over | (raw & (roll_over - 1)))
    }

    /// The count of `raw` if the counter was at `kept` less than half a roll-over before, give or
    /// take a quarter: it lies from a quarter before `kept` to three quarters after it.
    fn continued(self, kept: Count, raw: u64) -> Count {
        let roll_over = 1u64 << self.bits;
        let ahead = raw.wrapping_sub(kept.0) & (roll_over - 1);
        let back = if ahead >= roll_over / 4 * 3 { roll_over } else { 0 };
        Count(kept.0.wrapping_add(ahead).wrapping_sub(back))
    }

    /// The likeliest count of `raw`, read `age_ns` after the counter was at `kept`, when that is
    /// too long to be sure.
    pub(crate) fn guessed(self, kept: Count, raw: u64, age_ns: i64) -> Count {
        let way = self.period.counts(Span::from_nanos(age_ns.max(0)));
        self.continued(kept + way - CountSpan(1 << (self.bits - 2)), raw)
    }

    /// The count of a reading that was taken at most `age_ns` after the counter was at `kept`.
    ///
    /// # Errors
    /// If that is half a roll-over or more; or negative, as nothing that this boot kept is.
    pub(crate) fn checked(self, kept: Count, raw: u64, age_ns: i64) -> Result<Count, CounterError> {
        if !(0..self.limit_ns).contains(&age_ns) {
            let (age, limit) = (Span::from_nanos(age_ns), Span::from_nanos(self.limit_ns));
            return Err(CounterError::Stale { age, limit });
        }
        Ok(self.continued(kept, raw))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn width() -> impl Strategy<Value = (u32, Width)> {
        (prop_oneof![Just(24u32), Just(32), 2u32..=Width::MOST_BITS], 1_000u64..10_000_000_000)
            .prop_map(|(bits, hz)| (bits, Width::new(bits, Period::from_hz(hz)).unwrap()))
    }

    proptest! {
        #[test]
        fn what_lies_in_the_window_is_found(
            (bits, width) in width(), kept: u64, share in -0.25f64..0.75, above: u64,
        ) {
            let step = (share * (1u64 << bits) as f64) as i64;
            let truth = Count(kept) + CountSpan(step);
            let raw = truth.0 & ((1 << bits) - 1) | above << bits;
            prop_assert_eq!(width.continued(Count(kept), raw), truth);
            prop_assert_eq!(width.first(raw).0 >> bits, 1);
            prop_assert_eq!((width.first(raw).0 ^ raw) << (64 - bits), 0);
        }

        #[test]
        fn a_guess_is_right_while_the_clock_is_within_half_a_roll_over(
            bits in 16u32..=Width::MOST_BITS, hz in 1_000u64..1 << 28,
            kept in 0u64..1 << 50, way in 0u64..1 << 50, off in -0.49f64..0.49,
        ) {
            let width = Width::new(bits, Period::from_hz(hz)).unwrap();
            let off = (off * (1u64 << bits) as f64) as i64;
            let age_ns = width.period.span(CountSpan(way as i64 + off)).as_nanos_i64();
            prop_assume!((0..i64::MAX).contains(&age_ns));
            prop_assert_eq!(width.guessed(Count(kept), kept + way, age_ns), Count(kept + way));
        }

        #[test]
        fn half_a_roll_over_is_the_limit((bits, width) in width(), kept: u64, more in 0i64..1 << 50) {
            let half = width.period.span(CountSpan(1 << (bits - 1))).as_nanos_i64();
            for age in [half + more, -1 - more] {
                let stale = matches!(
                    width.checked(Count(kept), kept, age), Err(CounterError::Stale { .. })
                );
                prop_assert!(stale, "{}", age);
            }
            if half > 3 {
                prop_assert_eq!(width.checked(Count(kept), kept, half - 3), Ok(Count(kept)));
            }
        }
    }

    #[test]
    fn an_acpi_timer_may_go_unread_for_two_seconds() {
        let width = Width::new(24, Period::from_hz(3_579_545)).unwrap();
        let kept = Count(0x7_00ff_ffff);
        assert_eq!(width.checked(kept, 4, 2_300_000_000), Ok(Count(0x7_0100_0004)));
        let error = width.checked(kept, 4, 2_400_000_000).unwrap_err().to_string();
        assert!(error.contains("2.4") && error.contains("2.343"), "{error}");
        assert_eq!(width.checked(kept, 0xff_fffe, 0), Ok(Count(0x7_00ff_fffe)), "one step back");
    }

    #[test]
    fn other_widths_are_no_narrow_counters() {
        for bits in [0, 1, 49, 64, u32::MAX] {
            assert_eq!(Width::new(bits, Period::NANOSECOND), None);
        }
    }
}
