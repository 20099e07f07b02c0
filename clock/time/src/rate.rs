//! Length of a count, and rates at which errors grow.

use core::fmt;
use core::str::FromStr;

use crate::decimal::{self, ParseError};
use crate::{CountSpan, Span};

/// Length of one count: `mantissa` · 2^−`shift` in units of 2⁻⁶⁴ s.
///
/// The mantissa always has its top bit set, so that the relative resolution is 2⁻⁶³ or better:
/// the exact product with a 64-bit count loses less than 0.1 ns in ten years.
/// Periods from 2⁻⁶⁴ s to just under 1 s can be held.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(try_from = "Parts"))]
pub struct Period {
    mantissa: u64,
    shift: u8,
}

/// A period as it is written, before it is checked.
#[cfg(feature = "serde")]
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Parts {
    mantissa: u64,
    shift: u8,
}

#[cfg(feature = "serde")]
impl TryFrom<Parts> for Period {
    type Error = &'static str;

    fn try_from(parts: Parts) -> Result<Period, &'static str> {
        Period::from_parts(parts.mantissa, parts.shift)
            .ok_or("a period's mantissa must have its top bit set, and its shift be at most 63")
    }
}

impl Period {
    /// One nanosecond per count.
    pub const NANOSECOND: Period = Period::from_hz(1_000_000_000);

    /// A period from its parts, if they are in normal form: top bit of the mantissa set and
    /// `shift` ≤ 63.
    #[must_use]
    pub const fn from_parts(mantissa: u64, shift: u8) -> Option<Period> {
        if mantissa >> 63 == 1 && shift <= 63 { Some(Period { mantissa, shift }) } else { None }
    }

    /// The period of a counter of `hz` counts per second (2 or more; less is taken as 2).
    #[must_use]
    pub const fn from_hz(hz: u64) -> Period {
        let hz = if hz < 2 { 2 } else { hz };
        // 2⁶⁴/hz lies in (1, 2⁶³]: scale the quotient up until it fills 64 bits.
        let shift = 63 - (u64::MAX / hz).ilog2();
        let (whole, rest) = ((1u128 << 64) / hz as u128, (1u128 << 64) % hz as u128);
        let scaled = (whole << shift) + (rest << shift) / hz as u128;
        let (scaled, shift) =
            if scaled >> 64 != 0 { (scaled >> 1, shift - 1) } else { (scaled, shift) };
        Period { mantissa: scaled as u64, shift: shift as u8 }
    }

    /// The period that makes `counts` last `span`; `None` unless both are positive and the result
    /// can be held.
    #[must_use]
    pub fn from_ratio(span: Span, counts: CountSpan) -> Option<Period> {
        if span.0 <= 0 || counts.0 <= 0 {
            return None;
        }
        let divisor = counts.0 as u128;
        let mut quotient = span.0 as u128 / divisor;
        let mut remainder = span.0 as u128 % divisor;
        if quotient >> 64 != 0 {
            return None;
        }
        let mut shift = 0u8;
        while quotient >> 63 == 0 {
            if shift == 63 {
                return None;
            }
            remainder <<= 1;
            quotient = (quotient << 1) | u128::from(remainder >= divisor);
            if remainder >= divisor {
                remainder -= divisor;
            }
            shift += 1;
        }
        Period::from_parts(quotient as u64, shift)
    }

    /// The mantissa, top bit set.
    #[must_use]
    pub const fn mantissa(self) -> u64 {
        self.mantissa
    }

    /// The binary shift, 0..=63.
    #[must_use]
    pub const fn shift(self) -> u8 {
        self.shift
    }

    /// Length of `counts`: exact but for one rounding towards −∞ at 2⁻⁶⁴ s.
    #[must_use]
    #[inline]
    pub const fn span(self, counts: CountSpan) -> Span {
        // |counts| ≤ 2⁶³ and mantissa < 2⁶⁴: the product always fits.
        Span((counts.0 as i128 * self.mantissa as i128) >> (self.shift & 63))
    }

    /// Number of counts that `span` takes, rounded towards zero, saturating.
    #[must_use]
    pub const fn counts(self, span: Span) -> CountSpan {
        let magnitude = span.0.unsigned_abs();
        // magnitude · 2^shift / mantissa, by way of the quotient so that nothing overflows.
        let (quotient, rest) =
            (magnitude / self.mantissa as u128, magnitude % self.mantissa as u128);
        let rest = (rest << (self.shift & 63)) / self.mantissa as u128;
        let limit = i64::MAX as u128;
        let counts = if quotient > limit >> (self.shift & 63) {
            limit
        } else {
            let sum = (quotient << (self.shift & 63)) + rest;
            if sum > limit { limit } else { sum }
        };
        CountSpan(if span.0 < 0 { -(counts as i64) } else { counts as i64 })
    }

    /// This period made longer by `rate` (shorter if negative).
    #[must_use]
    pub fn scaled(self, rate: Rate) -> Period {
        let change = (i128::from(self.mantissa) * i128::from(rate.0)) >> 64;
        // |rate| < ½, so the result lies in (½, 1½) · mantissa.
        let mantissa = (i128::from(self.mantissa) + change) as u128;
        let (mantissa, shift) = if mantissa >> 64 != 0 {
            (mantissa >> 1, self.shift.saturating_sub(1))
        } else if mantissa >> 63 == 0 {
            (mantissa << 1, self.shift + 1)
        } else {
            (mantissa, self.shift)
        };
        Period { mantissa: mantissa as u64, shift: shift.min(63) }
    }

    /// Rate by which `self` is longer than `reference`; saturates at ±½.
    #[must_use]
    pub fn relative_to(self, reference: Period) -> Rate {
        // Bring both mantissas to the same scale, 2⁻⁶⁴ relative to `reference`.
        let (a, b) = (u128::from(self.mantissa), u128::from(reference.mantissa));
        let difference = if self.shift == reference.shift {
            (a as i128) - (b as i128)
        } else if self.shift + 1 == reference.shift {
            (a << 1) as i128 - b as i128
        } else if self.shift == reference.shift + 1 {
            (a as i128 - (b << 1) as i128) / 2
        } else if self.shift < reference.shift {
            return Rate(i64::MAX);
        } else {
            return Rate(i64::MIN);
        };
        let negative = difference < 0;
        let magnitude = difference.unsigned_abs();
        if magnitude >= b / 2 {
            return Rate(if negative { i64::MIN } else { i64::MAX });
        }
        // magnitude < 2⁶³, so the shifted value fits in 128 bits.
        let rate = ((magnitude << 64) / b) as i64;
        Rate(if negative { -rate } else { rate })
    }

    /// Counts per second, rounded to the nearest.
    #[must_use]
    pub fn hz(self) -> u64 {
        let numerator = 1u128 << (64 + u32::from(self.shift & 63)).min(127);
        let half = u128::from(self.mantissa) / 2;
        u64::try_from((numerator + half) / u128::from(self.mantissa)).unwrap_or(u64::MAX)
    }
}

/// A dimensionless rate (seconds per second) in units of 2⁻⁶⁴, within ±½: a skew, or the growth
/// of an error bound.
///
/// As a skew its sign is that of the offset it makes: positive means the clock in question gains
/// on the reference.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(transparent))]
pub struct Rate(pub i64);

impl Rate {
    /// No change.
    pub const ZERO: Rate = Rate(0);

    /// Parts per 10⁹, to the nearest, within ±5 · 10⁸ (saturating).
    #[must_use]
    pub const fn from_ppb(ppb: i64) -> Rate {
        let rate = (((ppb as i128) << 64) + 500_000_000).div_euclid(1_000_000_000);
        if rate > i64::MAX as i128 {
            Rate(i64::MAX)
        } else if rate < i64::MIN as i128 {
            Rate(i64::MIN)
        } else {
            Rate(rate as i64)
        }
    }

    /// Parts per 10¹², rounded to the nearest.
    #[must_use]
    pub const fn as_ppt(self) -> i64 {
        ((self.0 as i128 * 1_000_000_000_000 + (1 << 63)) >> 64) as i64
    }

    /// Growth of `span` at this rate, saturating.
    #[must_use]
    #[inline]
    pub const fn over(self, span: Span) -> Span {
        match (span.0 >> 32).checked_mul(self.0 as i128) {
            Some(product) => Span(product >> 32),
            None if (span.0 < 0) == (self.0 < 0) => Span::MAX,
            None => Span(i128::MIN),
        }
    }
}

/// In ppm with four decimals: `+37.0000 ppm` with `{:+}`.
impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use core::fmt::Write;
        let mut text = crate::span::Text::default();
        let ppt = self.as_ppt();
        let sign = if ppt < 0 {
            "-"
        } else if f.sign_plus() && ppt > 0 {
            "+"
        } else {
            ""
        };
        let tenth_ppb = (ppt.unsigned_abs() + 50) / 100;
        write!(text, "{sign}{}.{:04} ppm", tenth_ppb / 10_000, tenth_ppb % 10_000)?;
        f.pad(text.as_str())
    }
}

/// A decimal number of ppm, with or without the unit: `37`, `-0.5 ppm`.
impl FromStr for Rate {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Rate, ParseError> {
        let number = text.trim().trim_end_matches("ppm").trim();
        let scaled = decimal::parse(number)?.scaled(64, 1_000_000)?;
        i64::try_from(scaled).map(Rate).map_err(|_| ParseError::Range)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::format;

    #[test]
    fn a_week_of_tsc_is_exact() {
        let period = Period::from_hz(2_596_000_000);
        let week = CountSpan(2_596_000_000 * 604_800);
        let error = period.span(week) - Span::from_secs(604_800);
        assert!(error.abs() < Span::from_nanos(1) / 1000, "{error}");
        assert_eq!(period.hz(), 2_596_000_000);
    }

    #[test]
    fn rates_read_and_print() {
        let rate: Rate = "37".parse().unwrap();
        assert_eq!(format!("{rate:+}"), "+37.0000 ppm");
        assert_eq!(format!("{}", "-0.5 ppm".parse::<Rate>().unwrap()), "-0.5000 ppm");
        assert_eq!(rate.over(Span::from_secs(1000)).as_nanos(), 37_000_000);
        assert!("600000".parse::<Rate>().is_err());
        assert!("fast".parse::<Rate>().is_err());
    }

    #[test]
    fn extremes_do_not_panic() {
        for hz in [0, 1, 2, 3, 1_000_000_000, u64::MAX] {
            let p = Period::from_hz(hz);
            assert_eq!(Period::from_parts(p.mantissa(), p.shift()), Some(p));
            for c in [i64::MIN, -1, 0, 1, i64::MAX] {
                let _ = p.counts(p.span(CountSpan(c)));
            }
            for r in [i64::MIN, -1, 0, 1, i64::MAX] {
                let _ = p.scaled(Rate(r)).relative_to(p);
                for span in [Span::MAX, Span(i128::MIN), Span(1 << 96)] {
                    let grown = Rate(r).over(span);
                    assert_eq!(grown.0.signum(), (span.0.signum() * i128::from(r.signum())));
                }
            }
            let _ = p.counts(Span::MAX);
            let _ = p.hz();
        }
    }

    proptest! {
        #[test]
        fn counts_invert_span(hz in 1_000u64..20_000_000_000, counts in -(1i64 << 60)..(1i64 << 60)) {
            let p = Period::from_hz(hz);
            let back = p.counts(p.span(CountSpan(counts)));
            prop_assert!((back.0 - counts).abs() <= 1, "{} {}", back.0, counts);
        }

        #[test]
        fn ratio_gives_back_the_period(hz in 1_000u64..20_000_000_000, secs in 1i64..1_000_000) {
            let counts = CountSpan((hz as i128 * secs as i128).min(i64::MAX as i128) as i64);
            let p = Period::from_ratio(Period::from_hz(hz).span(counts), counts).unwrap();
            let rate = p.relative_to(Period::from_hz(hz));
            prop_assert!(rate.as_ppt().abs() <= 1, "{rate:?}");
        }

        #[test]
        fn scaling_is_undone_by_comparison(hz in 1_000u64..20_000_000_000, ppb in -400_000_000i64..400_000_000) {
            let p = Period::from_hz(hz);
            let rate = p.scaled(Rate::from_ppb(ppb)).relative_to(p);
            prop_assert!((rate.as_ppt() - ppb * 1000).abs() <= 1);
        }
    }
}
