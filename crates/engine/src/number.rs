//! Between fixed point and floating point, for differences of times and rates only.

use truechimer_time::{Rate, Span};

/// 2⁶⁴.
const SCALE: f64 = 18_446_744_073_709_551_616.0;

/// A span in seconds.
pub(crate) fn seconds(span: Span) -> f64 {
    span.0 as f64 / SCALE
}

/// Seconds as a span; saturates, and takes NaN for zero.
pub(crate) fn span(seconds: f64) -> Span {
    Span((seconds * SCALE) as i128)
}

/// A rate as a plain number.
pub(crate) fn fraction(rate: Rate) -> f64 {
    rate.0 as f64 / SCALE
}

/// A plain number as a rate; saturates at ±½, and takes NaN for zero.
pub(crate) fn rate(fraction: f64) -> Rate {
    Rate((fraction * SCALE) as i64)
}
