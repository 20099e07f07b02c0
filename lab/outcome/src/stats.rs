//! Medians, quantiles, and how figures are written.

pub use truechimer_report::median;
use truechimer_report::sorted;

/// Points of a line that shows a distribution.
const TAIL_POINTS: i32 = 160;

/// The value below which the share `q` of `values` lies; not a number of none.
#[must_use]
pub fn quantile(values: &[f64], q: f64) -> f64 {
    truechimer_report::quantile(&sorted(values), q)
}

/// Least and greatest; not numbers of none.
#[must_use]
pub fn range(values: &[f64]) -> (f64, f64) {
    (quantile(values, 0.0), quantile(values, 1.0))
}

/// Size of deviations: quantiles of their magnitudes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Spread {
    /// Half are at most this.
    pub p50: f64,
    /// 99 % are.
    pub p99: f64,
    /// 99.9 % are.
    pub p999: f64,
    /// All are.
    pub most: f64,
}

impl Spread {
    /// Of these deviations, whose signs are of no matter.
    #[must_use]
    pub fn of(deviations: impl IntoIterator<Item = f64>) -> Spread {
        let sizes = sorted(deviations.into_iter().map(f64::abs));
        let at = |q| truechimer_report::quantile(&sizes, q);
        Spread { p50: at(0.5), p99: at(0.99), p999: at(0.999), most: at(1.0) }
    }

    /// The median of each figure over several of them.
    #[must_use]
    pub fn median(all: &[Spread]) -> Spread {
        let of = |part: fn(&Spread) -> f64| median(all.iter().map(part));
        Spread {
            p50: of(|s| s.p50),
            p99: of(|s| s.p99),
            p999: of(|s| s.p999),
            most: of(|s| s.most),
        }
    }
}

/// Which share of the values is not below `x`, for places that show the tail: points of a line with
/// both axes logarithmic.
#[must_use]
pub fn tail(values: impl IntoIterator<Item = f64>) -> Vec<(f64, f64)> {
    let values = sorted(values);
    let count = values.len() as f64;
    let least = (1.0 / count).ln();
    let mut points: Vec<(f64, f64)> = (0..=TAIL_POINTS)
        .map(|n| (least * f64::from(n) / f64::from(TAIL_POINTS)).exp())
        .filter_map(|share| {
            let place = (count - share * count).round() as usize;
            Some((*values.get(place)?, (count - place as f64) / count))
        })
        .collect();
    points.dedup_by(|a, b| a.0 == b.0);
    points
}

/// Ns as people write them: `12 ns`, `3.4 µs`, `1.2 ms`.
#[must_use]
pub fn show_ns(ns: f64) -> String {
    let text = truechimer_report::Unit::Seconds.show(ns * 1e-9, 3);
    // Tables of text count characters, not what a browser makes of them.
    text.replace('\u{a0}', " ")
}

/// A share as people write it: `0`, `0.002 %`, `43 %`.
#[must_use]
pub fn show_share(share: f64) -> String {
    match share * 100.0 {
        percent if !percent.is_finite() => "–".to_owned(),
        0.0 => "0".to_owned(),
        percent if percent < 0.001 => "< 0.001 %".to_owned(),
        percent if percent < 0.1 => format!("{percent:.3} %"),
        percent if percent < 10.0 => format!("{percent:.1} %"),
        percent => format!("{percent:.0} %"),
    }
}

/// Packets a second as people write them: `1.70 Mpps`, `20.0 kpps`.
#[must_use]
pub fn show_rate(rate: f64) -> String {
    match rate {
        _ if !rate.is_finite() => "–".to_owned(),
        1e6.. => format!("{:.2} Mpps", rate / 1e6),
        _ => format!("{:.1} kpps", rate / 1e3),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_leave_out_what_is_no_number() {
        let values = [3.0, f64::NAN, 1.0, 2.0];
        assert_eq!(range(&values), (1.0, 3.0));
        assert!(range(&[f64::NAN]).0.is_nan());
    }

    #[test]
    fn spreads_are_of_magnitudes() {
        let spread =
            Spread::of((0..=1000).map(|n| if n % 2 == 0 { n as f64 } else { -(n as f64) }));
        assert_eq!(spread, Spread { p50: 500.0, p99: 990.0, p999: 999.0, most: 1000.0 });
        let twice = Spread::of([0.0]);
        assert_eq!(Spread::median(&[spread, twice, spread]), spread);
    }

    #[test]
    fn tails_fall_to_the_last_value() {
        let tail = tail((1..=1000).map(f64::from));
        assert_eq!(tail.first(), Some(&(1.0, 1.0)));
        let last = tail.last().copied().unwrap_or_default();
        assert!(last.0 == 1000.0 && (last.1 - 0.001).abs() < 1e-9, "{last:?}");
        assert!(tail.is_sorted_by(|a, b| a.0 < b.0 && a.1 > b.1));
        assert!(super::tail([]).is_empty());
    }

    #[test]
    fn figures_for_people() {
        assert_eq!(show_share(0.0), "0");
        assert_eq!(show_share(1e-7), "< 0.001 %");
        assert_eq!(show_share(0.43), "43 %");
        assert_eq!(show_rate(1.7e6), "1.70 Mpps");
        assert_eq!(show_rate(2e4), "20.0 kpps");
        assert_eq!(show_rate(f64::NAN), "–");
        assert_eq!(show_ns(3400.0), "3.40 µs");
    }
}
