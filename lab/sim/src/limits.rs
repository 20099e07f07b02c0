//! Ranges of what a scenario may ask for.

use core::fmt;

/// The most entries that any list in a scenario may have.
pub(crate) const LIST: usize = 1000;
/// The longest time that a scenario may name, s: ten years.
pub(crate) const TIME: f64 = 316e6;
/// The longest delay, s.
pub(crate) const DELAY: f64 = 1000.0;

/// Refuses what is not within `low..=high`, not-a-number included.
pub(crate) fn within(field: &str, value: f64, low: f64, high: f64) -> Result<(), String> {
    if value >= low && value <= high {
        return Ok(());
    }
    Err(format!("{field} = {}: {}", Short(value), must_be(low, high)))
}

/// Message about a value out of range.
pub(crate) fn must_be(low: f64, high: f64) -> String {
    format!("must be between {} and {}", Short(low), Short(high))
}

/// A number as people write it: with an exponent where there would be rows of digits.
#[derive(Clone, Copy)]
pub(crate) struct Short(pub(crate) f64);

impl fmt::Display for Short {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = self.0.abs();
        if size == 0.0 || (1e-4..1e15).contains(&size) || !size.is_finite() {
            write!(f, "{}", self.0)
        } else {
            write!(f, "{:e}", self.0)
        }
    }
}

/// Refuses an interval that ends before it begins, and times out of range.
pub(crate) fn interval(from: f64, to: f64) -> Result<(), String> {
    within("from-s", from, 0.0, TIME)?;
    within("to-s", to, 0.0, TIME)?;
    if from < to {
        return Ok(());
    }
    Err(format!("to-s = {to}: must be after from-s = {from}"))
}

/// Checks each entry of a list, and names the one at fault, counted from 1.
pub(crate) fn each<T>(
    list: &str,
    entries: &[T],
    check: impl Fn(&T) -> Result<(), String>,
) -> Result<(), String> {
    if entries.len() > LIST {
        return Err(format!("{list}: {} entries; at most {LIST} are taken", entries.len()));
    }
    for (i, entry) in entries.iter().enumerate() {
        check(entry).map_err(|e| format!("{list} {}: {e}", i + 1))?;
    }
    Ok(())
}
