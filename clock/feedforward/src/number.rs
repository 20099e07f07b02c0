//! Between fixed point and floating point. Only differences are ever floats: seconds within a few
//! years of an anchor, where a double resolves picoseconds or better.

use truechimer_time::{Count, Period, Rate, Span};

/// 2⁶⁴.
const SCALE: f64 = 18_446_744_073_709_551_616.0;

/// A span in seconds.
#[must_use]
pub fn seconds(span: Span) -> f64 {
    span.0 as f64 / SCALE
}

/// Seconds from one count to another, where one lasts `nominal`; negative if that is earlier.
pub(crate) fn between(nominal: Period, from: Count, to: Count) -> f64 {
    seconds(nominal.span(to - from))
}

/// Seconds as a span; saturates, and takes NaN for zero.
#[must_use]
pub fn span(seconds: f64) -> Span {
    Span((seconds * SCALE) as i128)
}

/// A rate as a plain number.
#[must_use]
pub fn fraction(rate: Rate) -> f64 {
    rate.0 as f64 / SCALE
}

/// A plain number as a rate; saturates at ±½, and takes NaN for zero.
#[must_use]
pub fn rate(fraction: f64) -> Rate {
    Rate((fraction * SCALE) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conversions_keep_their_value_and_saturate() {
        assert_eq!(seconds(Span::from_millis(-1500)), -1.5);
        assert_eq!(span(0.25), Span::from_millis(250));
        assert_eq!(span(f64::INFINITY), Span::MAX);
        assert_eq!(rate(2.0), Rate(i64::MAX));
        assert!((fraction(Rate::from_ppb(37_000)) - 37e-6).abs() < 1e-18);
    }
}
