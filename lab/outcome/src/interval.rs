//! The median of a figure over the rounds of a run, with an interval of confidence.

use serde::Serialize;

use crate::verdict::rounds;

/// Between two of the rounds' figures in their order, such that the median of the law that they are
/// from lies between them in at least 95 % of all runs (the sign test turned round). It rests on
/// nothing but that rounds do not depend on each other: neither a round that was disturbed nor
/// the form of the distribution is of matter. Fewer than six rounds bound nothing.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Interval {
    /// The median of the rounds.
    pub median: f64,
    /// Lower end: −∞ where there are too few rounds.
    pub low: f64,
    /// Upper end: ∞ where there are too few rounds.
    pub high: f64,
    /// Number of rounds.
    pub rounds: usize,
}

impl Interval {
    /// The share of runs in which the interval holds the true median is at least this.
    pub const CONFIDENCE: f64 = 0.95;
    /// Least number of rounds for an interval.
    pub const LEAST_ROUNDS: usize = 6;

    /// Of the rounds' figures; those that are no numbers count for nothing.
    #[must_use]
    pub fn of(values: &[f64]) -> Interval {
        let mut sorted: Vec<f64> = values.iter().copied().filter(|v| !v.is_nan()).collect();
        sorted.sort_by(f64::total_cmp);
        let median = truechimer_report::quantile(&sorted, 0.5);
        let ends = place(sorted.len()).and_then(|place| {
            Some((*sorted.get(place)?, *sorted.get(sorted.len().checked_sub(place + 1)?)?))
        });
        let (low, high) = ends.unwrap_or((f64::NEG_INFINITY, f64::INFINITY));
        Interval { median, low, high, rounds: sorted.len() }
    }

    /// Of a ratio of figures that all rounds make up together (a root mean square, say), paired by
    /// rounds: `without` are the ratios with each of the rounds left out (jackknife). It takes the
    /// logarithm to be normal, so two rounds bound it, if not by much; a ratio that is no positive
    /// number bounds nothing.
    #[must_use]
    pub fn jackknife(ratio: f64, without: &[f64]) -> Interval {
        let rounds = without.len();
        let n = rounds as f64;
        let logs = || without.iter().map(|ratio| ratio.ln());
        let mean = truechimer_report::mean(logs());
        let square = logs().map(|log| (log - mean) * (log - mean)).sum::<f64>() * (n - 1.0) / n;
        let factor = (student(rounds) * square.sqrt()).exp();
        let (low, high) = (ratio / factor, ratio * factor);
        if rounds < 2 || !low.is_finite() || !high.is_finite() {
            return Interval { median: ratio, low: f64::NEG_INFINITY, high: f64::INFINITY, rounds };
        }
        Interval { median: ratio, low, high, rounds }
    }

    /// Of ratios within rounds.
    #[must_use]
    pub fn of_ratios(ours: &[f64], theirs: &[f64]) -> Interval {
        let ratios: Vec<f64> = ours.iter().zip(theirs).map(|(a, b)| a / b).collect();
        Interval::of(&ratios)
    }

    /// Of a figure of the samples in `BLOCKS` parts of a run that took them in turn.
    #[must_use]
    pub fn of_blocks<const N: usize>(
        samples: [&[f64]; N],
        figure: impl Fn([&[f64]; N]) -> f64,
    ) -> Interval {
        let part = |all: &[f64], n: usize| (all.len() * n / BLOCKS, all.len() * (n + 1) / BLOCKS);
        let of = |n: usize| {
            let parts = samples.map(|all| {
                let (from, to) = part(all, n);
                all.get(from..to).unwrap_or_default()
            });
            if parts.iter().any(|part| part.is_empty()) { f64::NAN } else { figure(parts) }
        };
        Interval::of(&(0..BLOCKS).map(of).collect::<Vec<_>>())
    }

    /// True if there were enough rounds for an interval.
    #[must_use]
    pub fn is_known(&self) -> bool {
        self.low > f64::NEG_INFINITY || self.high < f64::INFINITY
    }

    /// For people, each figure as `show` has it: `0.99 × (0.97 × to 1.01 ×, 15 rounds)`.
    #[must_use]
    pub fn text(&self, show: impl Fn(f64) -> String) -> String {
        let count = rounds(self.rounds);
        match (self.rounds, self.is_known()) {
            (0, _) => "not measured".to_owned(),
            (_, false) => format!("{} ({count})", show(self.median)),
            _ => format!(
                "{} ({} to {}, {count})",
                show(self.median),
                show(self.low),
                show(self.high)
            ),
        }
    }
}

/// Parts of a long run that are judged as its rounds.
const BLOCKS: usize = 20;

/// Between minus and plus this lie 95 % of Student's distribution, for so many rounds.
fn student(rounds: usize) -> f64 {
    const SMALL: [f64; 9] = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262];
    let freedom = rounds.saturating_sub(1);
    let small = freedom.checked_sub(1).and_then(|place| SMALL.get(place));
    // From ten degrees of freedom on, to 0.3 %.
    small.copied().unwrap_or(1.96 + 2.5 / freedom as f64)
}

/// Number of figures to leave out at either end: the most that leave `CONFIDENCE` between; none
/// where even the first and the last do not hold the median that often.
fn place(count: usize) -> Option<usize> {
    let mut outside = 0.0;
    // The logarithm of the chance that just so many lie below the median.
    let mut chance = -(count as f64) * std::f64::consts::LN_2;
    for below in 0..=count {
        outside += 2.0 * chance.exp();
        if outside > 1.0 - Interval::CONFIDENCE {
            return below.checked_sub(1);
        }
        chance += ((count - below) as f64 / (below + 1) as f64).ln();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_those_of_the_tables() {
        // Tables of the sign test, 95 %.
        for (count, expected) in
            [(5, None), (6, Some(0)), (8, Some(0)), (9, Some(1)), (15, Some(3)), (40, Some(13))]
        {
            assert_eq!(place(count), expected, "{count}");
        }
        assert_eq!(place(0), None);
        // Where 2⁻ⁿ is no number any more, it is that of the normal distribution.
        let place = place(10_000).unwrap() as f64;
        assert!((place - (5000.0 - 1.96 * 50.0)).abs() < 2.0, "{place}");
        assert_eq!((1..40).find(|n| super::place(*n).is_some()), Some(Interval::LEAST_ROUNDS));
    }

    #[test]
    fn a_disturbed_round_in_many_moves_little() {
        let mut values = vec![1.0; 15];
        values[4] = 1e9;
        assert_eq!(
            Interval::of(&values),
            Interval { median: 1.0, low: 1.0, high: 1.0, rounds: 15 }
        );
        assert_eq!(Interval::of(&[f64::NAN]).rounds, 0);
        assert_eq!(Interval::of(&[2.0; 5]).high, f64::INFINITY);
        let text = Interval::of(&[0.9, 1.0, 1.1, 1.2, 1.3, 4.4]).text(|v| format!("{v:.2} ×"));
        assert_eq!(text, "1.15 × (0.90 × to 4.40 ×, 6 rounds)");
        assert_eq!(Interval::of(&[4.4]).text(|v| format!("{v}")), "4.4 (1 round)");
    }

    #[test]
    fn it_holds_the_median_as_often_as_it_says() {
        // A law with a long tail, by a fixed sequence of numbers: its median is 1.
        let mut state = 1_u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let unit = ((state >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
            (8.0 * (unit - 0.5)).sinh() + 1.0
        };
        for count in [6, 9, 15] {
            let holds = |_: &u32| {
                let values: Vec<f64> = (0..count).map(|_| next()).collect();
                let interval = Interval::of(&values);
                interval.low <= 1.0 && interval.high >= 1.0
            };
            let held = (0..4000).filter(holds).count();
            assert!(held >= 3780, "{count}: {held} of 4000");
        }
    }

    #[test]
    fn a_jackknife_knows_the_scatter_of_pairs() {
        let even = Interval::jackknife(1.2, &[1.2; 5]);
        assert_eq!((even.low, even.high, even.is_known()), (1.2, 1.2, true));
        // The mean of five ratios, the one left out being 1, 2, 3, 4, 5 % above: the logarithms' mean has
        // a standard error of 0.7 %, and 2.776 of these are 2 %.
        let ratios = [1.01_f64, 1.02, 1.03, 1.04, 1.05];
        let sum: f64 = ratios.iter().map(|r| r.ln()).sum();
        let without = ratios.map(|r| ((sum - r.ln()) / 4.0).exp());
        let found = Interval::jackknife((sum / 5.0).exp(), &without);
        assert!((found.high / found.median - 1.0192).abs() < 1e-4, "{found:?}");
        assert!((found.median / found.low - 1.0192).abs() < 1e-4, "{found:?}");
        for unknown in [&[1.0][..], &[], &[1.0, f64::NAN], &[0.0, 1.0]] {
            assert!(!Interval::jackknife(1.0, unknown).is_known(), "{unknown:?}");
        }
        assert!((student(31) - 2.042).abs() < 6e-3 && (student(100) - 1.984).abs() < 6e-3);
    }

    #[test]
    fn blocks_are_judged_like_rounds() {
        let ours: Vec<f64> = (0..200).map(|n| f64::from(n / 10)).collect();
        let interval = Interval::of_blocks([&ours, &ours], |[a, b]| (a[0] + b[0]) / 2.0);
        assert_eq!((interval.rounds, interval.median), (20, 9.5));
        assert_eq!(Interval::of_blocks([&ours, &[]], |_| 1.0).rounds, 0);
    }
}
