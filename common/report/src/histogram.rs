//! Histogram of values.

use crate::chart::{Chart, Marker};
use crate::number::{Unit, exponent, power_of_ten};
use crate::series::Series;
use crate::statistics::{quantile, sorted};

/// Bins aimed at.
const BINS: f64 = 80.0;
/// Bins at most, where most of the values lie close together.
const MOST_BINS: f64 = 400.0;

/// Values up to which each is shown by itself: shares of so few in bins say little.
const FEW: usize = 50;

/// Collects values and makes a [`Chart`] of them: the share of the values in each of some eighty
/// bins (up to 400 where most lie close together), several sets over the same bins. What lies far
/// outside is left out and counted. Fifty values or fewer are points, each beside the share of the
/// values that are not above it.
#[derive(Clone, PartialEq, Debug)]
pub struct Histogram {
    title: String,
    unit: Unit,
    sets: Vec<(String, Vec<f64>)>,
}

impl Histogram {
    /// An empty one.
    #[must_use]
    pub fn new(title: &str, unit: Unit) -> Histogram {
        Histogram { title: title.to_owned(), unit, sets: Vec::new() }
    }

    /// With these values too; what is no number is ignored.
    #[must_use]
    pub fn values(mut self, name: &str, values: impl IntoIterator<Item = f64>) -> Histogram {
        self.sets.push((name.to_owned(), sorted(values)));
        self
    }

    /// The chart. With one set, its percentiles 1, 25, 50, 75 and 99 are marked.
    #[must_use]
    pub fn chart(self) -> Chart {
        if self.sets.iter().all(|(_, values)| values.len() <= FEW) {
            return self.each();
        }
        let (low, width, bins) = self.grid();
        let mut outside = Vec::new();
        let mut chart =
            Chart::xy(&self.title).x("", self.unit.clone()).y("share of the values", Unit::Share);
        for (name, values) in &self.sets {
            let mut counts = vec![0_u64; bins];
            for &value in values {
                let bin = ((value - low) / width).floor();
                if bin >= 0.0
                    && let Some(count) = counts.get_mut(bin as usize)
                {
                    *count += 1;
                }
            }
            let inside: u64 = counts.iter().sum();
            let missing = values.len() as u64 - inside;
            if missing > 0 {
                outside.push(format!("{missing} of {} ({name})", values.len()));
            }
            let all = values.len().max(1) as f64;
            let edge = |i: usize| low + width * i as f64;
            let mut rows: Vec<_> =
                counts.iter().enumerate().map(|(i, &n)| (edge(i), n as f64 / all)).collect();
            rows.push((edge(bins), 0.0));
            if values.is_empty() {
                rows.clear();
            }
            chart = chart.with(Series::steps(name, rows));
        }
        if let [(_, values)] = self.sets.as_slice()
            && !values.is_empty()
        {
            for (q, name) in
                [(0.01, "1 %"), (0.25, "25 %"), (0.5, "median"), (0.75, "75 %"), (0.99, "99 %")]
            {
                chart = chart.marker(self.percentile(values, q, name));
            }
        }
        if !outside.is_empty() {
            chart = chart.about(&format!("Outside the range shown: {}.", outside.join(", ")));
        }
        chart
    }

    /// Marker at the quantile `q`.
    fn percentile(&self, values: &[f64], q: f64, name: &str) -> Marker {
        let at = quantile(values, q);
        Marker::new(at, &format!("{name}: {}", self.unit.show(at, 3))).label(name)
    }

    /// Chart with a point for each value.
    fn each(&self) -> Chart {
        let mut chart = Chart::xy(&self.title)
            .about("Each value, and the share of the values that are not above it.")
            .x("", self.unit.clone())
            .y("share of the values", Unit::Share);
        for (name, values) in &self.sets {
            let all = values.len() as f64;
            let rows = values.iter().enumerate().map(|(i, &value)| (value, (i + 1) as f64 / all));
            chart = chart.with(Series::points(name, rows));
        }
        if let [(_, values)] = self.sets.as_slice()
            && !values.is_empty()
        {
            chart = chart.marker(self.percentile(values, 0.5, "median"));
        }
        chart
    }

    /// The lowest edge, the width of a bin, and how many.
    fn grid(&self) -> (f64, f64, usize) {
        // One set is shown with its tails, several so that the narrow beside the wide can be seen.
        let tail = if self.sets.len() > 1 { 0.03 } else { 0.001 };
        let mut low = f64::INFINITY;
        let mut high = f64::NEG_INFINITY;
        let mut narrowest = f64::INFINITY;
        for (_, values) in &self.sets {
            let at = |q| quantile(values, q);
            let span = (at(1.0 - tail) - at(tail)).max(0.0);
            if let (Some(&least), Some(&greatest)) = (values.first(), values.last()) {
                low = low.min(least.max(at(tail) - span / 4.0));
                high = high.max(greatest.min(at(1.0 - tail) + span / 4.0));
                narrowest = narrowest.min(at(0.75) - at(0.25));
            }
        }
        if low > high {
            return (0.0, 1.0, 1);
        }
        let size = (high - low).max(low.abs().max(high.abs()) * 1e-6).max(1e-15);
        let raw = (narrowest / 8.0).clamp(size / MOST_BINS, size / BINS);
        let unit = power_of_ten(exponent(raw));
        let width = [1.0, 2.0, 5.0, 10.0].map(|n| n * unit).into_iter().find(|w| *w >= raw);
        let width = width.unwrap_or(raw);
        let first = (low / width).floor();
        let last = (high / width).floor();
        (first * width, width, ((last - first) as usize).min(1000) + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::Pool;

    #[test]
    fn few_values_are_points_and_many_are_bins() {
        let kind = |n: usize| {
            let values = (0..n).map(|i| i as f64 * 1e-6);
            let chart = Histogram::new("h", Unit::Seconds).values("v", values).chart();
            chart.to_json(0, None, 100, &mut Pool::default())["series"][0]["kind"].clone()
        };
        assert_eq!((kind(FEW), kind(FEW + 1)), ("points".into(), "steps".into()));
    }

    #[test]
    fn bins_cover_the_values_whatever_they_are() {
        for values in [
            vec![],
            vec![0.0],
            vec![5e-9; 10],
            vec![-1e300, 1e300],
            vec![f64::MIN, f64::MAX],
            vec![1e15, 1e15 + 1.0],
            vec![f64::NAN, f64::INFINITY, 3.0],
            (0..1000).map(|i| f64::from(i) * 1e-9).collect(),
        ] {
            let shown = values
                .iter()
                .copied()
                .filter(|v| v.is_finite())
                .fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| (l.min(v), h.max(v)));
            let histogram = Histogram::new("h", Unit::Seconds).values("v", values);
            let (low, width, bins) = histogram.grid();
            assert!(width > 0.0 && bins <= 1001, "{low} {width} {bins}");
            if shown.0 <= shown.1 && (shown.1 - shown.0).is_finite() {
                assert!(low <= shown.0 && low + width * bins as f64 >= shown.1, "{shown:?}");
            }
            let _ = histogram.chart();
        }
    }
}
