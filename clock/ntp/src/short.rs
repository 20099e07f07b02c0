//! The small formats: 32-bit spans of time and powers of two.

use truechimer_time::Span;

/// The NTP short format (RFC 5905 §6): an unsigned span in units of 2⁻¹⁶ s (15 µs).
///
/// NTPv3 had a signed root delay; a negative one comes out here as more than nine hours, and is
/// refused like any other claim of that size.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Short(pub u32);

impl Short {
    /// The span, exactly.
    #[must_use]
    pub const fn span(self) -> Span {
        Span((self.0 as i128) << 48)
    }

    /// The smallest value that is not below `span`; 0 for negative spans, the largest value for
    /// those that do not fit (18 hours). Rounding up keeps a bound a bound.
    #[must_use]
    pub const fn at_least(span: Span) -> Short {
        let units = span.0.saturating_add((1 << 48) - 1) >> 48;
        Short(if units < 0 {
            0
        } else if units > u32::MAX as i128 {
            u32::MAX
        } else {
            units as u32
        })
    }
}

/// A span of time as a power of two: 2^`n` s. Poll intervals and precisions have this format.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Log2(pub i8);

impl Log2 {
    /// The span, with the exponent brought into −32..=62: below is finer than any timestamp, above
    /// is more than [`Span`] holds.
    #[must_use]
    pub const fn span(self) -> Span {
        let n = if self.0 < -32 {
            -32
        } else if self.0 > 62 {
            62
        } else {
            self.0
        };
        Span(1 << (64 + n as i32))
    }

    /// The smallest power of two that is not below `span`, from 2⁻³² s to 2⁶² s.
    #[must_use]
    pub fn at_least(span: Span) -> Log2 {
        // As many bits as `span` − 1 has, less the 64 of the fraction.
        let bits = i128::BITS - (span.0.max(1) - 1).leading_zeros();
        Log2((bits as i32 - 64).clamp(-32, 62) as i8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_values() {
        assert_eq!(Short(0x0001_8000).span(), Span::from_millis(1500));
        assert_eq!(Log2(0).span(), Span::from_secs(1));
        assert_eq!(Log2(10).span(), Span::from_secs(1024));
        assert_eq!(Log2(-1).span(), Span::from_millis(500));
        assert_eq!(Log2::at_least(Span::from_nanos(10)), Log2(-26));
        assert_eq!(Log2::at_least(Span::from_secs(1)), Log2(0));
        assert_eq!(Log2::at_least(Span::ZERO), Log2(-32));
        assert_eq!(Log2::at_least(Span(i128::MIN)), Log2(-32));
        assert_eq!(Log2::at_least(Span::MAX), Log2(62));
        assert_eq!(Log2(i8::MIN).span(), Log2(-32).span());
        assert_eq!(Log2(i8::MAX).span(), Log2(62).span());
        assert_eq!(Short::at_least(Span::MAX), Short(u32::MAX));
        assert_eq!(Short::at_least(Span(i128::MIN)), Short(0));
    }

    proptest! {
        #[test]
        fn short_round_trips(bits: u32) {
            prop_assert_eq!(Short::at_least(Short(bits).span()), Short(bits));
        }

        #[test]
        fn short_rounds_up(span in 0i128..1 << 79) {
            let short = Short::at_least(Span(span)).span();
            prop_assert!(short.0 >= span && short.0 - span < 1 << 48);
        }

        #[test]
        fn powers_round_up(exponent in 33u32..126, rest: i128) {
            let span = Span((1 << exponent) | (rest & ((1 << exponent) - 1)));
            let power = Log2::at_least(span).span();
            prop_assert!(power >= span && power.half() < span);
        }
    }
}
