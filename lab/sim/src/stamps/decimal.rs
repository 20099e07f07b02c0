//! Unix seconds: decimal text to and from multiples of 2⁻⁶⁴ s, exactly.

use core::fmt;

use truechimer_time::Instant;

/// Number of decimals that fit into 128 bits; more take the long way.
const SHORT: usize = 38;
/// Number of decimals that tell any two multiples of 2⁻⁶⁴ s apart, even cut.
const ENOUGH: u32 = 20;

/// Digits with at most one point among them as seconds, to the nearest multiple of 2⁻⁶⁴ s. `None`
/// if it is anything else, or more than 2⁶³ s.
#[must_use]
pub fn unix_seconds(text: &[u8]) -> Option<Instant> {
    let point = text.iter().position(|&byte| byte == b'.');
    let whole = text.get(..point.unwrap_or(text.len()))?;
    let decimals = point.map_or(Some(&[][..]), |at| text.get(at + 1..))?;
    let digits = |part: &[u8]| part.iter().all(u8::is_ascii_digit);
    if (whole.is_empty() && decimals.is_empty()) || !digits(whole) || !digits(decimals) {
        return None;
    }
    let secs = whole
        .iter()
        .try_fold(0i64, |sum, digit| sum.checked_mul(10)?.checked_add(i64::from(digit - b'0')))?;
    let (carry, frac) = if decimals.len() <= SHORT { short(decimals) } else { long(decimals) };
    Some(Instant::new(secs.checked_add(i64::from(carry))?, frac))
}

/// Decimals as a fraction in 2⁻⁶⁴, rounded to the nearest; whether that made it a whole.
fn short(decimals: &[u8]) -> (bool, u64) {
    let (mut rest, mut one) = (0u128, 1u128);
    for digit in decimals {
        // At most 10³⁸ < 2¹²⁷.
        rest = rest * 10 + u128::from(digit - b'0');
        one *= 10;
    }
    let mut frac = 0u64;
    for _ in 0..64 {
        rest *= 2;
        let bit = rest >= one;
        rest -= if bit { one } else { 0 };
        frac = frac << 1 | u64::from(bit);
    }
    round(frac, rest * 2 >= one)
}

/// Does as [`short`] with any number of decimals: doubled digit by digit, each carry the next bit.
fn long(decimals: &[u8]) -> (bool, u64) {
    let mut rest: Vec<u8> = decimals.iter().map(|digit| digit - b'0').collect();
    let mut bit = || {
        let mut carry = 0;
        for digit in rest.iter_mut().rev() {
            let doubled = *digit * 2 + carry;
            (carry, *digit) = (doubled / 10, doubled % 10);
        }
        carry == 1
    };
    let frac = (0..64).fold(0u64, |frac, _| frac << 1 | u64::from(bit()));
    let up = bit();
    round(frac, up)
}

fn round(frac: u64, up: bool) -> (bool, u64) {
    let (frac, whole) = frac.overflowing_add(u64::from(up));
    (whole, frac)
}

/// Shows a time as Unix seconds with as many decimals as it takes to read it back to the last bit:
/// 0, 3, 6, 9 or 12 where that is enough, else 20. Times before 1970 are shown as 0. A precision
/// (`{:.12}`) asks for so many decimals, cut.
#[derive(Clone, Copy, Debug)]
pub struct Digits(pub Instant);

impl fmt::Display for Digits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = self.0.max(Instant::default());
        if let Some(decimals) = f.precision() {
            write!(f, "{}", at.secs())?;
            return write_decimals(f, at.frac(), decimals);
        }
        for decimals in [0, 3, 6, 9, 12] {
            let one = 10u128.pow(decimals);
            let units = (u128::from(at.frac()) * one + (1 << 63)) >> 64;
            // What rounds up to a whole second would need a carry; the 20 decimals show it.
            if units < one && back(units, one) == at.frac() {
                write!(f, "{}", at.secs())?;
                let width = decimals as usize;
                return if decimals == 0 { Ok(()) } else { write!(f, ".{units:0width$}") };
            }
        }
        write!(f, "{}", at.secs())?;
        write_decimals(f, at.frac(), ENOUGH as usize)
    }
}

/// `units` / `one` in 2⁻⁶⁴, to the nearest, for `units` < `one` ≤ 10¹².
fn back(units: u128, one: u128) -> u64 {
    (((units << 64) + one / 2) / one) as u64
}

fn write_decimals(f: &mut fmt::Formatter<'_>, frac: u64, decimals: usize) -> fmt::Result {
    if decimals > 0 {
        f.write_str(".")?;
    }
    let mut rest = u128::from(frac);
    for _ in 0..decimals {
        rest *= 10;
        write!(f, "{}", rest >> 64)?;
        rest &= u128::from(u64::MAX);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str) -> Option<Instant> {
        unix_seconds(text.as_bytes())
    }

    #[test]
    fn decimals_are_exact() {
        for (text, secs, frac) in [
            ("0", 0, 0),
            ("1700000000", 1_700_000_000, 0),
            ("1700000000.", 1_700_000_000, 0),
            (".5", 0, 1 << 63),
            ("1.25", 1, 1 << 62),
            // One unit of 2⁻⁶⁴ s, and half of it: to the nearest, up if it is a tie.
            ("0.0000000000000000000542101086242752217", 0, 1),
            ("0.000000000000000000027105054312137610850186320021748542785644531250", 0, 1),
            ("0.000000000000000000027105054312137610850186320021748542785644531249", 0, 0),
            ("0.9999999999999999999999999999999999999999999", 1, 0),
            // ⅓ and ⅔, by 30 and by 60 decimals.
            ("0.333333333333333333333333333333", 0, u64::MAX / 3),
            ("0.666666666666666666666666666667", 0, u64::MAX / 3 * 2 + 1),
            (
                "0.666666666666666666666666666666666666666666666666666666666667",
                0,
                u64::MAX / 3 * 2 + 1,
            ),
        ] {
            assert_eq!(read(text), Some(Instant::new(secs, frac)), "{text}");
        }
    }

    #[test]
    fn anything_else_is_no_time() {
        for text in ["", ".", "-1", "+1", "1e9", "1.5.2", "1,5", "0x1", "nan", "９", " 1", "1 "] {
            assert_eq!(read(text), None, "{text}");
        }
        assert_eq!(read("9223372036854775808"), None);
        assert_eq!(read("9223372036854775807.99999999999999999999999"), None);
    }

    #[test]
    fn few_decimals_where_they_are_enough() {
        for text in ["1700000000", "1700000000.500", "3.000001", "3.123456789", "3.123456789012"] {
            assert_eq!(Digits(read(text).unwrap()).to_string(), text);
        }
        assert_eq!(Digits(Instant(1)).to_string(), "0.00000000000000000005");
        assert_eq!(format!("{:.12}", Digits(Instant::new(7, u64::MAX))), "7.999999999999");
        assert_eq!(format!("{:.0}", Digits(Instant::new(7, u64::MAX))), "7");
        assert_eq!(Digits(Instant(-1)).to_string(), "0");
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn what_is_shown_reads_back(secs in 0i64..8_000_000_000, frac: u64) {
            for frac in [frac, frac & 0xff, u64::MAX - (frac & 0xff), frac << 40] {
                let at = Instant::new(secs, frac);
                prop_assert_eq!(read(&Digits(at).to_string()), Some(at));
            }
        }

        #[test]
        fn both_ways_agree(decimals in "[0-9]{1,38}") {
            prop_assert_eq!(short(decimals.as_bytes()), long(decimals.as_bytes()));
        }

        #[test]
        fn zeros_at_the_end_change_nothing(decimals in "[0-9]{1,60}", zeros in 0usize..40) {
            let longer = format!("1.{decimals}{}", "0".repeat(zeros));
            prop_assert_eq!(read(&longer), read(&format!("1.{decimals}")));
        }
    }
}
