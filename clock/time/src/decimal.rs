//! Decimal text to fixed point, exactly: never by way of a float.

use core::fmt;

/// Reasons why a number or a span could not be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ParseError {
    /// Not a decimal number.
    Number,
    /// The unit is unknown.
    Unit,
    /// The unit is missing.
    NoUnit,
    /// Too large for the type.
    Range,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ParseError::Number => "not a decimal number",
            ParseError::Unit => "the unit must be s, ms, us or ns, as in 1.5s",
            ParseError::NoUnit => "its unit is missing: s, ms, us or ns, as in 10ms",
            ParseError::Range => "too large",
        })
    }
}

impl core::error::Error for ParseError {}

/// A decimal number: ± whole + frac / 10^digits.
#[derive(Clone, Copy)]
pub(crate) struct Decimal {
    negative: bool,
    whole: u64,
    frac: u128,
    digits: u32,
}

/// Reads `[+-]digits[.digits]`. Beyond 24 decimals the rest is cut: 20 tell multiples of 2⁻⁶⁴ apart.
pub(crate) fn parse(text: &str) -> Result<Decimal, ParseError> {
    let (negative, text) = match text.as_bytes().first() {
        Some(b'-') => (true, text.get(1..).unwrap_or("")),
        Some(b'+') => (false, text.get(1..).unwrap_or("")),
        _ => (false, text),
    };
    let (whole, frac) = text.split_once('.').unwrap_or((text, ""));
    if whole.is_empty() && frac.is_empty() {
        return Err(ParseError::Number);
    }
    let all_digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    if !all_digits(whole) || !all_digits(frac) {
        return Err(ParseError::Number);
    }
    let digits = |s: &str| {
        s.bytes().try_fold(0u128, |n, b| n.checked_mul(10)?.checked_add(u128::from(b - b'0')))
    };
    let frac = frac.get(..frac.len().min(24)).unwrap_or("");
    Ok(Decimal {
        negative,
        whole: digits(whole).and_then(|n| n.try_into().ok()).ok_or(ParseError::Range)?,
        frac: digits(frac).ok_or(ParseError::Range)?,
        digits: frac.len() as u32,
    })
}

impl Decimal {
    pub(crate) fn is_zero(&self) -> bool {
        self.whole == 0 && self.frac == 0
    }

    /// The value · 2^`bits` / `per`, rounded to the nearest, for `bits` ≤ 64.
    pub(crate) fn scaled(&self, bits: u32, per: u64) -> Result<i128, ParseError> {
        // In two steps, so that the products fit: whole/per, then (remainder + fraction)/per.
        let per = u128::from(per);
        let (quotient, rest) = (u128::from(self.whole) / per, u128::from(self.whole) % per);
        let ten = 10u128.pow(self.digits);
        // rest < 10⁹ and frac < 10²⁴: numerator < 10³³; scale it to 2^bits by long division.
        let (mut remainder, divisor) = (rest * ten + self.frac, ten * per);
        let mut fraction = 0u128;
        for _ in 0..bits {
            remainder *= 2;
            fraction = fraction * 2 + u128::from(remainder >= divisor);
            if remainder >= divisor {
                remainder -= divisor;
            }
        }
        fraction += u128::from(remainder * 2 >= divisor);
        let value = quotient
            .checked_mul(1 << bits)
            .and_then(|q| q.checked_add(fraction))
            .and_then(|v| i128::try_from(v).ok())
            .ok_or(ParseError::Range)?;
        Ok(if self.negative { -value } else { value })
    }
}
