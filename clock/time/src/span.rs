//! Signed spans of time.

use core::fmt;
use core::ops::{Add, AddAssign, Div, Mul, Neg, Sub, SubAssign};
use core::str::FromStr;

use crate::decimal::{self, ParseError};

/// A signed span of time in units of 2⁻⁶⁴ s (5.4 × 10⁻²⁰ s), within ±2⁶³ s.
///
/// Sums saturate. As an offset its sign is always *the clock in question − the reference*:
/// positive means the clock is ahead.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(transparent))]
pub struct Span(pub i128);

/// One second in units of 2⁻⁶⁴ s.
const SECOND: i128 = 1 << 64;

impl Span {
    /// No time at all.
    pub const ZERO: Span = Span(0);
    /// The longest span; stands for "no bound known".
    pub const MAX: Span = Span(i128::MAX);

    /// Whole seconds.
    #[must_use]
    pub const fn from_secs(s: i64) -> Span {
        Span((s as i128) << 64)
    }

    /// Milliseconds.
    #[must_use]
    pub const fn from_millis(ms: i64) -> Span {
        Span((((ms as i128) << 64) + 500) / 1_000)
    }

    /// Microseconds.
    #[must_use]
    pub const fn from_micros(us: i64) -> Span {
        Span::from_nanos_wide(us as i128 * 1_000)
    }

    /// Nanoseconds.
    #[must_use]
    pub const fn from_nanos(ns: i64) -> Span {
        Span::from_nanos_wide(ns as i128)
    }

    /// Nanoseconds, saturating beyond ±2⁶³ s.
    #[must_use]
    pub const fn from_nanos_wide(ns: i128) -> Span {
        let (s, rest) = (ns.div_euclid(1_000_000_000), ns.rem_euclid(1_000_000_000));
        if s > i64::MAX as i128 {
            return Span::MAX;
        }
        if s < i64::MIN as i128 {
            return Span(i128::MIN);
        }
        Span((s << 64) + ((rest << 64) + 500_000_000) / 1_000_000_000)
    }

    /// The span in nanoseconds, rounded to the nearest.
    #[must_use]
    pub const fn as_nanos(self) -> i128 {
        let (s, frac) = (self.0 >> 64, (self.0 & (SECOND - 1)) as u128);
        s * 1_000_000_000 + mul_shift(frac, 1_000_000_000) as i128
    }

    /// The span in nanoseconds as `i64`, saturating (±292 years).
    #[must_use]
    pub const fn as_nanos_i64(self) -> i64 {
        let ns = self.as_nanos();
        if ns > i64::MAX as i128 {
            i64::MAX
        } else if ns < i64::MIN as i128 {
            i64::MIN
        } else {
            ns as i64
        }
    }

    /// The span in nanoseconds, rounded up: for bounds, which must not become smaller.
    #[must_use]
    pub const fn as_nanos_up(self) -> i64 {
        let ns = self.as_nanos_i64();
        if ns < i64::MAX && self.0 > Span::from_nanos(ns).0 { ns + 1 } else { ns }
    }

    /// The next span from here upwards that is shown as it is, with three decimals: for bounds,
    /// which must not become smaller by being shown.
    #[must_use]
    pub const fn rounded_up(self) -> Span {
        let ps = self.as_picos() + if self.0 > Span::from_picos(self.as_picos()).0 { 1 } else { 0 };
        let step: i128 = match ps {
            1_000_000_000_000.. => 1_000_000_000,
            1_000_000_000.. => 1_000_000,
            1_000_000.. => 1_000,
            _ => 1,
        };
        let shown = ps.div_euclid(step) + if ps.rem_euclid(step) == 0 { 0 } else { 1 };
        let up = Span::from_picos(shown.saturating_mul(step));
        // A span that is too long for that is shown as the longest.
        if up.0 < self.0 { self } else { up }
    }

    /// Picoseconds, to the nearest unit, saturating beyond ±2⁶³ s.
    const fn from_picos(ps: i128) -> Span {
        let (s, rest) = (ps.div_euclid(1_000_000_000_000), ps.rem_euclid(1_000_000_000_000));
        if s > i64::MAX as i128 {
            return Span::MAX;
        }
        if s < i64::MIN as i128 {
            return Span(i128::MIN);
        }
        Span((s << 64) + ((rest << 64) + 500_000_000_000) / 1_000_000_000_000)
    }

    /// The span in picoseconds, rounded to the nearest.
    #[must_use]
    pub const fn as_picos(self) -> i128 {
        let (s, frac) = (self.0 >> 64, (self.0 & (SECOND - 1)) as u128);
        s * 1_000_000_000_000 + mul_shift(frac, 1_000_000_000_000) as i128
    }

    /// The magnitude.
    #[must_use]
    pub const fn abs(self) -> Span {
        Span(self.0.saturating_abs())
    }

    /// Half of it, rounded towards −∞.
    #[must_use]
    pub const fn half(self) -> Span {
        Span(self.0 >> 1)
    }

    /// True if it is below zero.
    #[must_use]
    pub const fn is_negative(self) -> bool {
        self.0 < 0
    }
}

/// (`frac` · `m`) / 2⁶⁴, rounded to the nearest, for `frac` < 2⁶⁴ and `m` < 2⁶³.
const fn mul_shift(frac: u128, m: u128) -> u128 {
    (frac * m + (1 << 63)) >> 64
}

impl Add for Span {
    type Output = Span;
    #[inline]
    fn add(self, rhs: Span) -> Span {
        Span(self.0.saturating_add(rhs.0))
    }
}

impl Sub for Span {
    type Output = Span;
    #[inline]
    fn sub(self, rhs: Span) -> Span {
        Span(self.0.saturating_sub(rhs.0))
    }
}

impl AddAssign for Span {
    fn add_assign(&mut self, rhs: Span) {
        *self = *self + rhs;
    }
}

impl SubAssign for Span {
    fn sub_assign(&mut self, rhs: Span) {
        *self = *self - rhs;
    }
}

impl Neg for Span {
    type Output = Span;
    fn neg(self) -> Span {
        Span(self.0.saturating_neg())
    }
}

impl Mul<i64> for Span {
    type Output = Span;
    fn mul(self, rhs: i64) -> Span {
        Span(self.0.saturating_mul(rhs as i128))
    }
}

impl Div<i64> for Span {
    type Output = Span;
    /// Division by zero gives the longest span of the dividend's sign.
    fn div(self, rhs: i64) -> Span {
        Span(self.0.checked_div(rhs as i128).unwrap_or(if self.0 < 0 {
            i128::MIN
        } else {
            i128::MAX
        }))
    }
}

/// Scaled to the unit that fits: `0 s`, `850 ns`, `12.345 µs`, `-1.500 ms`, `3.250 s`.
impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use core::fmt::Write;
        let mut text = Text::default();
        let ps = self.as_picos();
        let sign = if ps < 0 {
            "-"
        } else if f.sign_plus() && ps > 0 {
            "+"
        } else {
            ""
        };
        let ps = ps.unsigned_abs();
        const UNITS: [(u128, &str); 4] =
            [(1_000_000_000_000, "s"), (1_000_000_000, "ms"), (1_000_000, "µs"), (1_000, "ns")];
        if ps == 0 {
            text.write_str("0 s")?;
        } else if let Some((unit, name)) = UNITS.iter().find(|(unit, _)| ps >= *unit) {
            // `ps / unit` loses nothing that three decimals could show.
            let milli = (ps + unit / 2_000) / (unit / 1_000);
            write!(text, "{sign}{}.{:03} {name}", milli / 1000, milli % 1000)?;
        } else {
            write!(text, "{sign}{ps} ps")?;
        }
        f.pad(text.as_str())
    }
}

/// A line of text without an allocator; long enough for any span.
#[derive(Default)]
pub(crate) struct Text {
    bytes: [u8; 32],
    len: usize,
}

impl Text {
    pub(crate) fn as_str(&self) -> &str {
        self.bytes.get(..self.len).and_then(|b| core::str::from_utf8(b).ok()).unwrap_or("?")
    }
}

impl fmt::Write for Text {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        let end = self.len + s.len();
        self.bytes.get_mut(self.len..end).ok_or(fmt::Error)?.copy_from_slice(s.as_bytes());
        self.len = end;
        Ok(())
    }
}

/// `1.5s`, `-20ms`, `250us`, `250µs`, `10ns`, `0`; a unit is required unless the value is zero.
impl FromStr for Span {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Span, ParseError> {
        let text = text.trim();
        let end = text
            .find(|c: char| !(c.is_ascii_digit() || matches!(c, '+' | '-' | '.')))
            .unwrap_or(text.len());
        let (number, unit) = text.split_at(end);
        let per_second = match unit.trim() {
            "s" => 1,
            "ms" => 1_000,
            "us" | "µs" | "μs" => 1_000_000,
            "ns" => 1_000_000_000,
            "" => {
                let value = decimal::parse(number)?;
                return if value.is_zero() { Ok(Span::ZERO) } else { Err(ParseError::NoUnit) };
            }
            _ => return Err(ParseError::Unit),
        };
        decimal::parse(number)?.scaled(64, per_second).map(Span)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::string::ToString;

    #[test]
    fn parses_and_prints() {
        for (text, ns, shown) in [
            ("1.5s", 1_500_000_000, "1.500 s"),
            ("-20ms", -20_000_000, "-20.000 ms"),
            ("250us", 250_000, "250.000 µs"),
            ("12.345 µs", 12_345, "12.345 µs"),
            ("0", 0, "0 s"),
            ("7ns", 7, "7.000 ns"),
        ] {
            let span: Span = text.parse().unwrap();
            assert_eq!(span.as_nanos(), ns, "{text}");
            assert_eq!(span.to_string(), shown);
        }
        for bad in ["", "1", "s", "1.5.s", "1 h", "--1s", "99999999999999999999s"] {
            assert!(bad.parse::<Span>().is_err(), "{bad}");
        }
        // Of a bare number nothing is wrong but that.
        assert_eq!("10".parse::<Span>(), Err(ParseError::NoUnit));
        assert_eq!("10 days".parse::<Span>(), Err(ParseError::Unit));
        assert_eq!(std::format!("{:+}", Span::from_millis(2)), "+2.000 ms");
        assert_eq!(std::format!("{:>12}|", Span::from_secs(2)), "     2.000 s|");
    }

    #[test]
    fn twenty_decimals_are_exact() {
        assert_eq!("0.00000000000000000005s".parse(), Ok(Span(1)));
        assert_eq!("-0.00000608087567894321s".parse(), Ok(Span(-112_172_357_393_510)));
    }

    #[test]
    fn extremes_saturate_and_print() {
        assert_eq!(Span::MAX + Span::from_secs(1), Span::MAX);
        assert_eq!(Span(i128::MIN).abs(), Span::MAX);
        assert!(!Span::MAX.to_string().is_empty());
        assert!(!Span(i128::MIN).to_string().is_empty());
        assert_eq!(Span::MAX.as_nanos_i64(), i64::MAX);
    }

    #[test]
    fn what_is_shown_of_a_bound_is_not_less() {
        for (text, shown) in [
            ("50.1ms", "50.100 ms"),
            ("50.1000001ms", "50.101 ms"),
            ("999.9996us", "1.000 ms"),
            ("1.0000001s", "1.001 s"),
            ("7ns", "7.000 ns"),
            ("0", "0 s"),
        ] {
            assert_eq!(text.parse::<Span>().unwrap().rounded_up().to_string(), shown, "{text}");
        }
        assert_eq!(Span(1).rounded_up().to_string(), "1 ps");
        assert_eq!((Span(1).as_nanos_up(), Span::from_nanos(7).as_nanos_up()), (1, 7));
        assert_eq!((Span::MAX.rounded_up(), Span::MAX.as_nanos_up()), (Span::MAX, i64::MAX));
    }

    proptest! {
        #[test]
        fn a_bound_is_rounded_up_once(units in 0i128..(1 << 90)) {
            let (exact, up) = (Span(units), Span(units).rounded_up());
            prop_assert!(up >= exact && up.rounded_up() == up, "{exact:?} {up:?}");
            // By no more than the last digit shown, and it shows.
            prop_assert!((up - exact).0 <= exact.0 / 1000 + Span::from_nanos(1).0 / 1000 + 1);
            prop_assert!(Span::from_nanos(exact.as_nanos_up()) >= exact);
        }

        #[test]
        fn nanoseconds_round_trip(ns: i64) {
            prop_assert_eq!(Span::from_nanos(ns).as_nanos(), ns as i128);
            prop_assert_eq!(Span::from_nanos(ns).as_nanos_i64(), ns);
        }
    }
}
