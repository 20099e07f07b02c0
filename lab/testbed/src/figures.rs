//! Errors of a watched clock, in figures.

use serde_json::{Value, json};

use crate::watch::Sample;

/// Figures of a set of samples. Errors are best − truth; all in ns.
#[must_use]
pub fn figures(samples: &[Sample]) -> Value {
    let held: Vec<&Sample> = samples.iter().filter(|s| s.status.bound_holds()).collect();
    let sorted = |of: &dyn Fn(&Sample) -> i64| {
        let mut values: Vec<i64> = held.iter().map(|s| of(s)).collect();
        values.sort_unstable();
        values
    };
    let errors = sorted(&Sample::error_ns);
    let sizes = sorted(&|s| s.error_ns().abs());
    // Of an error, half of the time that the reading took may be the looking's own.
    let certain = sorted(&|s| (s.error_ns().abs() - s.width_ns() / 2).max(0));
    let median = quantile(&errors, 0.5);
    let around = sorted(&|s| (s.error_ns() - median).abs());
    let moves = held.windows(2).map(|two| match two {
        [before, after] => (after.error_ns() - before.error_ns()).abs(),
        _ => 0,
    });
    json!({
        "samples": samples.len(),
        "with_bound": held.len(),
        "median_ns": median,
        "iqr_ns": quantile(&errors, 0.75) - quantile(&errors, 0.25),
        "p99_ns": quantile(&sizes, 0.99),
        "max_ns": quantile(&sizes, 1.0),
        "max_from_median_ns": quantile(&around, 1.0),
        "max_certain_ns": quantile(&certain, 1.0),
        "largest_move_ns": moves.max().unwrap_or(0),
        "median_bound_ns": quantile(&sorted(&Sample::bound_ns), 0.5),
        "median_sandwich_ns": quantile(&sorted(&Sample::width_ns), 0.5),
    })
}

/// The value below which this share of the sorted values lies, by the nearest rank; 0 of none.
fn quantile(sorted: &[i64], share: f64) -> i64 {
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use truechimer::Status;

    use super::*;

    #[test]
    fn figures_of_known_errors() {
        let sample = |n: i64, status| Sample {
            at: Duration::ZERO,
            status,
            truth: (1_000, 1_010),
            said: (905 + n, 1_005 + n, 1_105 + n),
        };
        let mut samples: Vec<Sample> = (1..=100).map(|n| sample(n, Status::Synchronised)).collect();
        samples.push(sample(9_999, Status::Unknown));
        let got = figures(&samples);
        for (name, wanted) in [
            ("samples", 101),
            ("with_bound", 100),
            ("median_ns", 50),
            ("iqr_ns", 50),
            ("p99_ns", 99),
            ("max_ns", 100),
            ("max_from_median_ns", 50),
            ("max_certain_ns", 95),
            ("largest_move_ns", 1),
            ("median_bound_ns", 100),
            ("median_sandwich_ns", 10),
        ] {
            assert_eq!(got[name], wanted, "{name}");
        }
        assert_eq!(figures(&[])["max_ns"], 0);
    }
}
