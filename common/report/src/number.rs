//! Numbers for people: prefixes, digits, signs.

/// Quantity that a number counts. Values are in the base unit, which the variants name.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Unit {
    /// A bare number.
    #[default]
    None,
    /// Seconds: ps, ns, µs, ms, s.
    Seconds,
    /// A small ratio: ppb, ppm.
    Rate,
    /// A ratio shown in per cent.
    Share,
    /// Hertz: mHz to GHz.
    Hertz,
    /// Bytes, with decimal prefixes.
    Bytes,
    /// Bits per second, with decimal prefixes.
    BitRate,
    /// Any other, never scaled.
    Named(String),
}

impl Unit {
    /// Factor and suffix of each step, smallest first.
    pub(crate) fn steps(&self) -> Vec<(f64, String)> {
        let fixed: &[(f64, &str)] = match self {
            Unit::None => &[(1.0, "")],
            Unit::Seconds => &[(1e-12, "ps"), (1e-9, "ns"), (1e-6, "µs"), (1e-3, "ms"), (1.0, "s")],
            Unit::Rate => &[(1e-9, "ppb"), (1e-6, "ppm")],
            Unit::Share => &[(1e-2, "%")],
            Unit::Hertz => &[(1e-3, "mHz"), (1.0, "Hz"), (1e3, "kHz"), (1e6, "MHz"), (1e9, "GHz")],
            Unit::Bytes => &[(1.0, "B"), (1e3, "kB"), (1e6, "MB"), (1e9, "GB")],
            Unit::BitRate => &[(1.0, "b/s"), (1e3, "kb/s"), (1e6, "Mb/s"), (1e9, "Gb/s")],
            Unit::Named(name) => return vec![(1.0, name.clone())],
        };
        fixed.iter().map(|(factor, suffix)| (*factor, (*suffix).to_owned())).collect()
    }

    /// The step in which `value` reads well: the largest that is not above it.
    pub(crate) fn step_for(&self, value: f64) -> (f64, String) {
        let steps = self.steps();
        let magnitude = value.abs();
        let base = steps.iter().rev().find(|(factor, _)| *factor == 1.0);
        if magnitude == 0.0 || !magnitude.is_finite() {
            return base.or(steps.first()).cloned().unwrap_or((1.0, String::new()));
        }
        let fitting = steps.iter().rev().find(|(factor, _)| magnitude >= *factor);
        fitting.or(steps.first()).cloned().unwrap_or((1.0, String::new()))
    }

    /// The value with `digits` significant digits and its unit: `1.23 µs`. A value that is no
    /// number gives a dash.
    #[must_use]
    pub fn show(&self, value: f64, digits: usize) -> String {
        self.show_in(value, digits, &self.step_for(rounded(value, digits)))
    }

    /// Shows like [`Unit::show`], in a step that was chosen before.
    pub(crate) fn show_in(&self, value: f64, digits: usize, step: &(f64, String)) -> String {
        if value.is_nan() {
            return "–".to_owned();
        }
        if value.is_infinite() {
            return if value > 0.0 { "∞".to_owned() } else { "−∞".to_owned() };
        }
        let (factor, suffix) = step;
        let mut text = significant(value / factor, digits);
        if !suffix.is_empty() {
            text.push('\u{A0}');
            text.push_str(suffix);
        }
        text
    }
}

/// The value as its `digits` significant digits have it.
fn rounded(value: f64, digits: usize) -> f64 {
    format!("{value:.*e}", digits.saturating_sub(1)).parse().unwrap_or(value)
}

/// `digits` significant digits (all of them before the point), thousands apart.
fn significant(value: f64, digits: usize) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let exponent = exponent(rounded(value, digits));
    let decimals = (i64::try_from(digits).unwrap_or(3) - 1 - i64::from(exponent)).clamp(0, 17);
    let plain = format!("{:.*}", usize::try_from(decimals).unwrap_or(0), value.abs());
    let (whole, rest) = plain.split_at(plain.find('.').unwrap_or(plain.len()));
    let mut out = String::new();
    if value < 0.0 {
        out.push('−');
    }
    // Groups from five digits on: 1024 stays as it is.
    for (i, c) in whole.chars().enumerate() {
        if whole.len() > 4 && i > 0 && (whole.len() - i).is_multiple_of(3) {
            out.push('\u{202F}');
        }
        out.push(c);
    }
    out + rest
}

/// The decimal exponent: 1.2e-6 has −6. Zero has 0.
pub(crate) fn exponent(value: f64) -> i32 {
    let text = format!("{value:e}");
    text.rsplit_once('e').and_then(|(_, e)| e.parse().ok()).unwrap_or(0)
}

/// A power of ten, correctly rounded.
pub(crate) fn power_of_ten(exponent: i32) -> f64 {
    format!("1e{exponent}").parse().unwrap_or(1.0)
}

/// Adds the shortest JSON for `value` × 10^−`scale` at `digits` significant digits; `null` for what
/// is no number.
pub(crate) fn push_compact(out: &mut String, value: f64, digits: usize, scale: i32) {
    if !value.is_finite() {
        return out.push_str("null");
    }
    let text = format!("{:.*e}", digits.saturating_sub(1), value.abs());
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let all: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    let figures = all.trim_end_matches('0');
    if figures.is_empty() {
        return out.push('0');
    }
    if value < 0.0 {
        out.push('-');
    }
    let exponent: i32 = exponent.parse().unwrap_or(0);
    // The value is `figures` × 10^shift.
    let length = i32::try_from(figures.len()).unwrap_or(i32::MAX);
    let shift = exponent.saturating_sub(scale) - (length - 1);
    if (0..=2).contains(&shift) {
        out.push_str(figures);
        (0..shift).for_each(|_| out.push('0'));
    } else if shift < 0 && -shift < length {
        let (whole, rest) = figures.split_at(figures.len() - shift.unsigned_abs() as usize);
        out.push_str(whole);
        out.push('.');
        out.push_str(rest);
    } else if shift < 0 && -shift <= length + 2 {
        out.push_str("0.");
        (0..-shift - length).for_each(|_| out.push('0'));
        out.push_str(figures);
    } else {
        out.push_str(figures);
        out.push('e');
        out.push_str(&shift.to_string());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_suit_the_value() {
        let show = |v| Unit::Seconds.show(v, 3).replace('\u{A0}', " ");
        assert_eq!(show(1.2345e-6), "1.23 µs");
        assert_eq!(show(-25e-9), "−25.0 ns");
        assert_eq!(show(999.96e-9), "1.00 µs");
        assert_eq!(show(0.0), "0 s");
        assert_eq!(show(86400.0), "86\u{202F}400 s");
        assert_eq!(show(f64::NAN), "–");
        assert_eq!(show(f64::INFINITY), "∞");
        assert_eq!(show(3e-15), "0.00300 ps");
        assert_eq!(Unit::Rate.show(-37e-6, 3), "−37.0\u{A0}ppm");
        assert_eq!(Unit::Share.show(1.0, 4), "100.0\u{A0}%");
        assert_eq!(Unit::None.show(1024.0, 3), "1024");
        assert_eq!(Unit::BitRate.show(1800.0, 3), "1.80\u{A0}kb/s");
        assert_eq!(Unit::Named("°C".into()).show(21.55, 3), "21.6\u{A0}°C");
    }

    #[test]
    fn compact_numbers_mean_what_they_were() {
        let text = |v, scale| {
            let mut out = String::new();
            push_compact(&mut out, v, 5, scale);
            out
        };
        assert_eq!(text(1.23456e-6, -10), "12346");
        assert_eq!(text(-1.5, 0), "-1.5");
        assert_eq!(text(0.05, 0), "0.05");
        assert_eq!(text(1200.0, 0), "1200");
        assert_eq!(text(5e6, 0), "5e6");
        assert_eq!(text(0.0, 0), "0");
        assert_eq!(text(-0.0, -3), "0");
        assert_eq!(text(f64::NAN, 0), "null");
        assert_eq!(text(f64::NEG_INFINITY, 0), "null");
        // Whatever the magnitude, five digits survive.
        let mut value = 1.23457e-18;
        while value < 1e18 {
            for scale in [-12, -4, 0, 3] {
                let back: f64 = text(value, scale).parse().unwrap();
                let want = value / power_of_ten(scale);
                assert!((back - want).abs() <= 5.1e-5 * want, "{value} {scale} {back}");
            }
            value *= 3.7;
        }
    }

    #[test]
    fn exponents_and_powers() {
        assert_eq!(exponent(9.99e-7), -7);
        assert_eq!(exponent(0.0), 0);
        assert_eq!(exponent(-1500.0), 3);
        assert_eq!(power_of_ten(-6), 1e-6);
    }
}
