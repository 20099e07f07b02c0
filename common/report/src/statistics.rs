//! Means, medians and quantiles, for all crates.

use std::borrow::Borrow;

/// The finite ones of these values, ascending.
#[must_use]
pub fn sorted(values: impl IntoIterator<Item = impl Borrow<f64>>) -> Vec<f64> {
    let finite = values.into_iter().map(|v| *v.borrow()).filter(|v| v.is_finite());
    let mut values: Vec<f64> = finite.collect();
    values.sort_by(f64::total_cmp);
    values
}

/// The value below which the share `q` of ascending values lies, between two of them by their
/// distances; of none: not a number.
#[must_use]
pub fn quantile(sorted: &[f64], q: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else { return f64::NAN };
    let place = q.clamp(0.0, 1.0) * last as f64;
    let below = place.floor();
    let at = |i: f64| sorted.get(i as usize).copied().unwrap_or(f64::NAN);
    let (low, high) = (at(below), at((below + 1.0).min(last as f64)));
    if low == high { low } else { low + (high - low) * (place - below) }
}

/// The median of the finite ones, between the two in the middle if they are even in number; of none:
/// not a number.
#[must_use]
pub fn median(values: impl IntoIterator<Item = impl Borrow<f64>>) -> f64 {
    quantile(&sorted(values), 0.5)
}

/// The value of ascending ones that `percent` (0 to 100) of a hundred of them lie below: always one
/// of them, of the two in the middle the upper one. For what is counted in whole numbers.
#[must_use]
pub fn percentile<T: Copy>(sorted: &[T], percent: usize) -> Option<T> {
    let last = sorted.len().checked_sub(1)?;
    sorted.get((sorted.len() * percent / 100).min(last)).copied()
}

/// The mean; of none: not a number.
#[must_use]
pub fn mean(values: impl IntoIterator<Item = impl Borrow<f64>>) -> f64 {
    let mut count = 0_u64;
    let sum: f64 = values.into_iter().inspect(|_| count += 1).map(|v| *v.borrow()).sum();
    sum / count as f64
}

/// The root of the mean square; of none: not a number.
#[must_use]
pub fn rms(values: impl IntoIterator<Item = impl Borrow<f64>>) -> f64 {
    mean(values.into_iter().map(|v| v.borrow() * v.borrow())).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: [f64; 0] = [];

    #[test]
    fn quantiles_lie_between_the_values() {
        assert_eq!(quantile(&[1.0, 2.0, 3.0, 4.0], 0.5), 2.5);
        assert_eq!(quantile(&[1.0, 2.0, 3.0], 0.0), 1.0);
        assert_eq!(quantile(&[1.0, 2.0, 3.0], 1.0), 3.0);
        assert_eq!(quantile(&[7.0], 0.3), 7.0);
        assert!(quantile(&[], 0.5).is_nan());
    }

    #[test]
    fn what_is_no_number_is_left_out() {
        assert_eq!(median([3.0, f64::NAN, 1.0, 2.0]), 2.0);
        assert_eq!(median([1.0, 2.0]), 1.5);
        assert!(median(NONE).is_nan() && median([f64::NAN]).is_nan());
    }

    #[test]
    fn percentiles_are_values() {
        let values: Vec<u64> = (1..=1000).collect();
        assert_eq!([0, 50, 99, 100].map(|p| percentile(&values, p)), [1, 501, 991, 1000].map(Some));
        assert_eq!(percentile::<u64>(&[], 50), None);
    }

    #[test]
    fn means() {
        assert_eq!((mean([1.0, 2.0, 6.0]), rms([3.0, -4.0, 0.0, 0.0])), (3.0, 2.5));
        assert!(mean(NONE).is_nan() && rms(NONE).is_nan());
    }
}
