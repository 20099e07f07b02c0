//! Timings of one way under one load, and what is said of them.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use truechimer_time::{CountSpan, Period, Span};

/// Significant digits that are kept of each timing.
const DIGITS: u8 = 3;
/// Longer timings, in counts, are taken as this long: some minutes.
const LONGEST: u64 = 1 << 40;
/// Bins of a distribution per power of ten.
const BINS: f64 = 40.0;
/// An outlier takes longer than so many medians.
const OUTLIER: u64 = 10;

/// Counts of the ruler as time.
pub(super) struct Ruler(Period);

impl Ruler {
    pub(super) fn new(period: Period) -> Ruler {
        Ruler(period)
    }

    /// Counts in ns.
    pub(super) fn nanos(&self, counts: i64) -> f64 {
        let Span(span) = self.0.span(CountSpan(counts));
        span as f64 / 18_446_744_073_709_551_616.0 * 1e9
    }

    fn of(&self, counts: u64) -> f64 {
        self.nanos(i64::try_from(counts).unwrap_or(i64::MAX))
    }
}

/// The timings of one way.
pub(super) struct Timings {
    counts: Histogram<u64>,
    backwards: u64,
}

/// Times of readings of one way under one load; all spans in ns, the timing itself included.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Distribution {
    /// Which way.
    pub way: String,
    /// Readings.
    pub readings: u64,
    /// Those during which the ruler went back; they are in no other figure.
    pub backwards: u64,
    /// The shortest.
    pub min_ns: f64,
    /// 1 % of the readings took no longer.
    pub p1_ns: f64,
    /// A quarter of them took no longer.
    pub p25_ns: f64,
    /// Half of them took no longer.
    pub median_ns: f64,
    /// Three quarters.
    pub p75_ns: f64,
    /// The interquartile range: from a quarter to three quarters.
    pub iqr_ns: f64,
    /// 95 %.
    pub p95_ns: f64,
    /// 99 %.
    pub p99_ns: f64,
    /// 99.9 %.
    pub p999_ns: f64,
    /// The longest.
    pub max_ns: f64,
    /// The mean, outliers and all.
    pub mean_ns: f64,
    /// Number of readings that took more than 10 medians.
    pub outliers: u64,
    /// Histogram of the times, 40 bins to a power of ten.
    pub bins: Vec<Bin>,
}

/// A bin of a distribution.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Bin {
    /// From this time on, ns; the next bin begins at 10^(1/40) times as much.
    pub from_ns: f64,
    /// Number of readings.
    pub count: u64,
}

impl Bin {
    /// Where the next one begins, ns.
    #[must_use]
    pub fn to_ns(&self) -> f64 {
        self.from_ns * 10_f64.powf(1.0 / BINS)
    }
}

impl Timings {
    pub(super) fn new() -> Timings {
        let counts = Histogram::new_with_max(LONGEST, DIGITS);
        Timings { counts: counts.expect("it takes up to 5 digits, and any maximum"), backwards: 0 }
    }

    #[inline]
    pub(super) fn record(&mut self, counts: i64) {
        match u64::try_from(counts) {
            Ok(counts) => self.counts.saturating_record(counts),
            Err(_) => self.backwards = self.backwards.saturating_add(1),
        }
    }

    /// Number of readings, those that went back among them.
    #[inline]
    pub(super) fn recorded(&self) -> u64 {
        self.counts.len().saturating_add(self.backwards)
    }

    pub(super) fn distribution(&self, way: &str, ruler: &Ruler) -> Distribution {
        let counts = &self.counts;
        let at = |q| ruler.of(counts.value_at_quantile(q).min(counts.max()));
        let median = counts.value_at_quantile(0.5);
        let beyond = median.saturating_mul(OUTLIER).saturating_add(1);
        Distribution {
            way: way.to_owned(),
            readings: counts.len(),
            backwards: self.backwards,
            min_ns: ruler.of(counts.min()),
            p1_ns: at(0.01),
            p25_ns: at(0.25),
            median_ns: at(0.5),
            p75_ns: at(0.75),
            iqr_ns: at(0.75) - at(0.25),
            p95_ns: at(0.95),
            p99_ns: at(0.99),
            p999_ns: at(0.999),
            max_ns: ruler.of(counts.max()),
            mean_ns: ruler.nanos(1_000_000) * counts.mean() / 1e6,
            outliers: match counts.max() {
                max if max < beyond => 0,
                max => counts.count_between(beyond, max),
            },
            bins: self.bins(ruler),
        }
    }

    /// In logarithmic bins; what took no time at all is in the one that begins at 1 ns.
    fn bins(&self, ruler: &Ruler) -> Vec<Bin> {
        let mut bins: Vec<(i32, u64)> = Vec::new();
        for value in self.counts.iter_recorded() {
            let nanos = ruler.of(value.value_iterated_to()).max(1.0);
            let bin = (nanos.log10() * BINS).floor() as i32;
            match bins.last_mut() {
                Some((last, count)) if *last == bin => *count += value.count_since_last_iteration(),
                _ => bins.push((bin, value.count_since_last_iteration())),
            }
        }
        let from = |bin: i32| 10_f64.powf(f64::from(bin) / BINS);
        bins.into_iter().map(|(bin, count)| Bin { from_ns: from(bin), count }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A counter of 1 GHz.
    fn ns(timings: &Timings) -> Distribution {
        timings.distribution("way", &Ruler::new(Period::NANOSECOND))
    }

    fn of(values: impl IntoIterator<Item = i64>) -> Distribution {
        let mut timings = Timings::new();
        values.into_iter().for_each(|value| timings.record(value));
        ns(&timings)
    }

    #[test]
    fn the_figures_are_those_of_the_values() {
        let found = of((1..=1000).rev());
        let near = |a: f64, b: f64| (a - b).abs() < 1e-6;
        assert_eq!((found.readings, found.backwards, found.outliers), (1000, 0, 0));
        for (figure, value) in [
            (found.min_ns, 1.0),
            (found.p25_ns, 250.0),
            (found.median_ns, 500.0),
            (found.iqr_ns, 500.0),
            (found.p95_ns, 950.0),
            (found.p99_ns, 990.0),
            (found.p999_ns, 999.0),
            (found.max_ns, 1000.0),
            (found.mean_ns, 500.5),
        ] {
            assert!(near(figure, value), "{figure} is not {value}: {found:?}");
        }
    }

    #[test]
    fn outliers_take_more_than_ten_medians() {
        let found = of(std::iter::repeat_n(20, 97).chain([200, 201, 5_000_000]));
        assert_eq!((found.outliers, found.readings), (2, 100));
        assert!((found.max_ns - 5e6).abs() < 5e3);
    }

    #[test]
    fn what_cannot_be_is_counted_apart() {
        let found = of([-5, 7, i64::MIN, i64::MAX]);
        assert_eq!((found.readings, found.backwards), (2, 2));
        assert!((found.min_ns - 7.0).abs() < 1e-9 && found.max_ns < 2e12);
        let none = of([]);
        assert_eq!((none.readings, none.bins.len(), none.outliers), (0, 0, 0));
        assert!([none.min_ns, none.median_ns, none.max_ns, none.mean_ns] == [0.0; 4], "{none:?}");
    }

    proptest! {
        #[test]
        fn every_reading_is_in_one_bin_and_the_quantiles_ascend(
            values in proptest::collection::vec(-3..2_000_000_000_i64, 0..200),
        ) {
            let found = of(values.iter().copied());
            let positive = values.iter().filter(|v| **v >= 0).count() as u64;
            prop_assert_eq!(found.readings, positive);
            prop_assert_eq!(found.bins.iter().map(|bin| bin.count).sum::<u64>(), positive);
            prop_assert!(found.bins.is_sorted_by(|a, b| a.to_ns() <= b.from_ns * 1.000_001));
            let quantiles = [
                found.min_ns, found.p25_ns, found.median_ns, found.p75_ns, found.p95_ns,
                found.p99_ns, found.p999_ns, found.max_ns,
            ];
            prop_assert!(quantiles.is_sorted(), "{:?}", quantiles);
            prop_assert!(found.outliers <= found.readings);
        }
    }
}
