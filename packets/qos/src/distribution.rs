//! Distributions in bounded memory.

use std::collections::BTreeMap;

/// Largest number of different values that one distribution remembers.
const BUCKETS: usize = 1024;

/// Values, ns, as a histogram whose buckets all have the same width: 1 ns (so that quantiles are
/// exact) until there are more than 1024 different buckets, then twice as wide, and so on. Unlike
/// those of logarithmic histograms the buckets do not get wider with the distance from zero: of
/// delays around 50 ms that vary by some µs, the µs are seen. At most about 40 KiB each.
///
/// Number, least, greatest, sum and so the mean are exact always; quantiles to ± half a bucket.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Distribution {
    n: u64,
    sum: i128,
    /// The first value: squares are of differences from it, so that those of values far from zero
    /// do not swallow them.
    origin: i128,
    squares: f64,
    least: i64,
    greatest: i64,
    shift: u32,
    buckets: BTreeMap<i64, u64>,
}

impl Distribution {
    /// Adds a value.
    pub fn add(&mut self, value: i64) {
        self.add_times(value, 1);
    }

    /// Adds the same value `times`.
    pub fn add_times(&mut self, value: i64, times: u64) {
        if times == 0 {
            return;
        }
        if self.n == 0 {
            (self.least, self.greatest, self.origin) = (value, value, value.into());
        }
        (self.least, self.greatest) = (self.least.min(value), self.greatest.max(value));
        self.n += times;
        self.sum += i128::from(value) * i128::from(times);
        self.squares += ((i128::from(value) - self.origin) as f64).powi(2) * times as f64;
        *self.buckets.entry(value >> self.shift).or_default() += times;
        while self.buckets.len() > BUCKETS {
            self.widen();
        }
    }

    fn widen(&mut self) {
        self.shift += 1;
        let mut wide = BTreeMap::new();
        for (bucket, n) in &self.buckets {
            *wide.entry(bucket >> 1).or_default() += n;
        }
        self.buckets = wide;
    }

    /// Adds all the values of another.
    pub fn merge(&mut self, other: &Distribution) {
        if other.n == 0 {
            return;
        }
        if self.n == 0 {
            (self.least, self.greatest, self.origin) = (other.least, other.greatest, other.origin);
        }
        (self.least, self.greatest) =
            (self.least.min(other.least), self.greatest.max(other.greatest));
        self.n += other.n;
        self.sum += other.sum;
        let apart = (other.origin - self.origin) as f64;
        self.squares +=
            other.squares + apart * (2.0 * other.sum_from_origin() + apart * other.n as f64);
        while self.shift < other.shift {
            self.widen();
        }
        let narrower = self.shift - other.shift;
        for (bucket, n) in &other.buckets {
            *self.buckets.entry(bucket >> narrower).or_default() += n;
        }
        while self.buckets.len() > BUCKETS {
            self.widen();
        }
    }

    /// Adds all the values of another less `by`: as exactly as that one still has them.
    pub fn merge_less(&mut self, other: &Distribution, by: i64) {
        if other.n == 0 {
            return;
        }
        let mut moved = Distribution {
            n: other.n,
            sum: other.sum - i128::from(by) * i128::from(other.n),
            origin: other.origin - i128::from(by),
            squares: other.squares,
            least: other.least.saturating_sub(by),
            greatest: other.greatest.saturating_sub(by),
            shift: other.shift,
            buckets: BTreeMap::new(),
        };
        for (bucket, n) in &other.buckets {
            let value = other.middle(*bucket).saturating_sub(by);
            *moved.buckets.entry(value >> other.shift).or_default() += n;
        }
        self.merge(&moved);
    }

    /// Number of values.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.n
    }

    /// True if there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.n == 0
    }

    /// The least.
    #[must_use]
    pub fn min(&self) -> Option<i64> {
        (self.n > 0).then_some(self.least)
    }

    /// The greatest.
    #[must_use]
    pub fn max(&self) -> Option<i64> {
        (self.n > 0).then_some(self.greatest)
    }

    /// The mean.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        (self.n > 0).then(|| self.sum as f64 / self.n as f64)
    }

    /// The standard deviation of the values (divided by their number).
    #[must_use]
    pub fn deviation(&self) -> Option<f64> {
        let n = (self.n > 0).then_some(self.n as f64)?;
        let mean = self.sum_from_origin() / n;
        Some((self.squares / n - mean * mean).max(0.0).sqrt())
    }

    /// Sum of the differences from the origin.
    fn sum_from_origin(&self) -> f64 {
        (self.sum - self.origin * i128::from(self.n)) as f64
    }

    /// The least value that at least the share `q` (0 to 1) of the values does not exceed (RFC 2330
    /// section 11.3), to ± half of [`resolution`](Self::resolution).
    #[must_use]
    pub fn quantile(&self, q: f64) -> Option<i64> {
        if self.n == 0 {
            return None;
        }
        let rank = ((q.clamp(0.0, 1.0) * self.n as f64).ceil() as u64).clamp(1, self.n);
        Some(self.at_rank(rank).unwrap_or(self.greatest))
    }

    /// Values between which the quantile `q` of what these values are drawn from lies, at this confidence (0 to 1):
    /// order statistics by the binomial distribution, for values that are independent of each other, whatever their
    /// distribution (RFC 2330 section 11.3 has the quantile itself). `None` if there are too few values to say.
    #[must_use]
    pub fn quantile_interval(&self, q: f64, confidence: f64) -> Option<[i64; 2]> {
        let [low, high] = ranks(self.n, q.clamp(0.0, 1.0), (1.0 - confidence).clamp(0.0, 1.0))?;
        let half = i64::try_from(self.resolution() / 2).unwrap_or(i64::MAX);
        let low = self.at_rank(low)?.saturating_sub(half).max(self.least);
        Some([low, self.at_rank(high)?.saturating_add(half).min(self.greatest)])
    }

    /// Value of this rank, from 1 on.
    fn at_rank(&self, rank: u64) -> Option<i64> {
        let mut seen = 0;
        let found = self.buckets.iter().find(|(_, n)| {
            seen += **n;
            seen >= rank
        });
        found.map(|(bucket, _)| self.middle(*bucket))
    }

    fn middle(&self, bucket: i64) -> i64 {
        let low = bucket << self.shift;
        (low + ((1i64 << self.shift) - 1) / 2).clamp(self.least, self.greatest)
    }

    /// The width of a bucket, ns; 1: quantiles are exact.
    #[must_use]
    pub fn resolution(&self) -> u64 {
        1 << self.shift
    }

    /// The buckets that hold values: middle and number, ascending.
    pub fn buckets(&self) -> impl Iterator<Item = (i64, u64)> {
        self.buckets.iter().map(|(bucket, n)| (self.middle(*bucket), *n))
    }

    /// A histogram of about so many bins of equal width over all but the outermost thousandth on
    /// either side: where each bin begins, and the share of all values in it.
    #[must_use]
    pub fn histogram(&self, bins: u32) -> Vec<(i64, f64)> {
        let (Some(low), Some(high)) = (self.quantile(0.001), self.quantile(0.999)) else {
            return Vec::new();
        };
        let range = high.abs_diff(low);
        let width = i64::try_from(range / u64::from(bins.max(1)) + 1).unwrap_or(i64::MAX);
        // Bins that hold whole buckets alike.
        let step = 1i64 << self.shift.min(62);
        let width = width.checked_add(step - 1).map_or(i64::MAX, |wide| wide / step * step);
        let mut counts = BTreeMap::new();
        for (value, n) in self.buckets().filter(|(value, _)| (low..=high).contains(value)) {
            *counts.entry(value.div_euclid(width)).or_insert(0u64) += n;
        }
        let (Some((first, _)), Some((last, _))) =
            (counts.first_key_value(), counts.last_key_value())
        else {
            return Vec::new();
        };
        // One more, at which the last ends.
        (*first..=last.saturating_add(1))
            .map(|bin| {
                let n = counts.get(&bin).copied().unwrap_or(0);
                (bin.saturating_mul(width), n as f64 / self.n as f64)
            })
            .collect()
    }
}

/// Ranks, from 1 on, of `n` ordered values between which the quantile `q` lies but for the chance `alpha`, half of it on
/// either side; `None` if no two of them do.
fn ranks(n: u64, q: f64, alpha: f64) -> Option<[u64; 2]> {
    // How many values are not above the quantile is a number of the binomial distribution, summed up here.
    let (mut log, mut below) = (n as f64 * (1.0 - q).ln(), 0.0);
    let mut low = None;
    for k in 0..n {
        // `below`: at most k - 1 are not above.
        if below <= alpha / 2.0 && k > 0 {
            low = Some(k);
        }
        if below >= 1.0 - alpha / 2.0 {
            return low.map(|low| [low, k]);
        }
        below += log.exp();
        log += ((n - k) as f64 / (k + 1) as f64).ln() + (q / (1.0 - q)).ln();
    }
    (below >= 1.0 - alpha / 2.0).then_some(low.map(|low| [low, n]))?
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rank(values: &[i64], q: f64) -> i64 {
        let at = ((q * values.len() as f64).ceil() as usize).clamp(1, values.len());
        values[at - 1]
    }

    fn of(values: &[i64]) -> Distribution {
        let mut made = Distribution::default();
        values.iter().for_each(|v| made.add(*v));
        made
    }

    proptest! {
        #[test]
        fn quantiles_are_within_half_a_bucket(
            values in prop::collection::vec(-5_000_000i64..90_000_000, 1..3000), q in 0.0..=1.0f64
        ) {
            let made = of(&values);
            let mut sorted = values.clone();
            sorted.sort_unstable();
            let found = made.quantile(q).unwrap();
            let off = (found - rank(&sorted, q)).unsigned_abs();
            prop_assert!(off <= made.resolution() / 2, "{off} of {}", made.resolution());
            prop_assert_eq!(made.min(), sorted.first().copied());
            prop_assert_eq!(made.max(), sorted.last().copied());
            prop_assert_eq!(made.len(), values.len() as u64);
            let sum: i128 = values.iter().map(|v| i128::from(*v)).sum();
            prop_assert!((made.mean().unwrap() - sum as f64 / values.len() as f64).abs() < 1e-6);
            prop_assert!(made.buckets().count() <= BUCKETS);
        }

        #[test]
        fn few_values_are_exact(values in prop::collection::vec(any::<i64>(), 1..=1024), q in 0.0..=1.0f64) {
            let made = of(&values);
            let mut sorted = values.clone();
            sorted.sort_unstable();
            prop_assert_eq!(made.resolution(), 1);
            prop_assert_eq!(made.quantile(q).unwrap(), rank(&sorted, q));
        }

        #[test]
        fn the_deviation_is_the_same_wherever_they_are(
            a in prop::collection::vec(-9_999i64..9_999, 1..500),
            b in prop::collection::vec(-9_999i64..9_999, 0..500),
        ) {
            // An hour, a year, 37 s: clocks that are apart.
            let all = of(&a.iter().chain(&b).copied().collect::<Vec<_>>()).deviation().unwrap();
            for far in [0, 37_000_000_000, 3_600_000_000_000, 10_000_000_000_000_000] {
                let there = |values: &[i64]| of(&values.iter().map(|v| v + far).collect::<Vec<_>>());
                let mut merged = there(&a);
                merged.merge(&there(&b));
                let mut back = Distribution::default();
                back.merge_less(&merged, far);
                for found in [&merged, &back].map(|one| one.deviation().unwrap()) {
                    prop_assert!((found - all).abs() < 1e-6 * (1.0 + all), "{found} {all} {far}");
                }
            }
        }

        #[test]
        fn merged_is_as_if_added(
            a in prop::collection::vec(-9_999i64..9_999, 0..2000),
            b in prop::collection::vec(-9_999i64..9_999, 0..2000),
        ) {
            let mut merged = of(&a);
            merged.merge(&of(&b));
            let together: Vec<i64> = a.iter().chain(&b).copied().collect();
            let all = of(&together);
            prop_assert_eq!((merged.len(), merged.min(), merged.max()), (all.len(), all.min(), all.max()));
            prop_assert_eq!(merged.resolution(), all.resolution());
            prop_assert!(merged.buckets().eq(all.buckets()));
        }
    }

    #[test]
    fn intervals_of_quantiles_are_those_of_tables() {
        // David and Nagaraja, Order Statistics, section 7.1: of ten values the second and the ninth hold the median at
        // 97.9 %, of six the first and the last at 96.9 %, of five no two at 95 %.
        let of_first = |n: i64| of(&(1..=n).collect::<Vec<_>>());
        assert_eq!(of_first(10).quantile_interval(0.5, 0.95), Some([2, 9]));
        assert_eq!(of_first(6).quantile_interval(0.5, 0.95), Some([1, 6]));
        assert_eq!(of_first(5).quantile_interval(0.5, 0.95), None);
        // Of the 99th percentile 368 values are the fewest that have an upper end (0.99^n < 0.025).
        assert_eq!(of_first(300).quantile_interval(0.99, 0.95), None);
        let [low, high] = of_first(1000).quantile_interval(0.99, 0.95).unwrap();
        assert!((983..=985).contains(&low) && (996..=998).contains(&high), "{low} {high}");
        assert_eq!(of(&[]).quantile_interval(0.5, 0.95), None);
        for q in [0.0, 1.0, f64::NAN] {
            assert_eq!(of_first(100).quantile_interval(q, 0.95), None, "{q}");
        }
    }

    #[test]
    fn intervals_hold_the_quantile_as_often_as_they_say() {
        use rand_core::{Rng, SeedableRng};
        let mut random = rand_chacha::ChaCha8Rng::seed_from_u64(7);
        let (mut held, runs) = (0, 500);
        for _ in 0..runs {
            let mut made = Distribution::default();
            (0..200).for_each(|_| made.add((random.next_u32() % 1000).into()));
            let [low, high] = made.quantile_interval(0.95, 0.95).unwrap();
            held += u32::from((low..=high).contains(&949));
        }
        // No less than 95 % but for chance; not much more either.
        assert!((465..=495).contains(&held), "{held} of {runs}");
    }

    #[test]
    fn moved_values() {
        let mut made = of(&[7]);
        made.merge_less(&of(&[100, 102, 105]), 100);
        assert!(made.buckets().eq(of(&[0, 2, 5, 7]).buckets()));
        assert_eq!((made.min(), made.max(), made.mean()), (Some(0), Some(7), Some(3.5)));
        assert_eq!(made.deviation(), of(&[0, 2, 5, 7]).deviation());
    }

    #[test]
    fn histograms_leave_the_outermost_out() {
        let mut made = Distribution::default();
        (0..10_000).for_each(|n| made.add(5_000_000 + n % 100));
        made.add(i64::MAX);
        let histogram = made.histogram(50);
        assert!((40..=60).contains(&histogram.len()), "{}", histogram.len());
        assert!((histogram.iter().map(|(_, share)| share).sum::<f64>() - 1.0).abs() < 0.002);
        assert_eq!(of(&[7]).histogram(80), [(7, 1.0), (8, 0.0)]);
        assert!(of(&[i64::MIN, i64::MAX]).histogram(80).len() <= 90);
        assert!(of(&[]).histogram(80).is_empty());
    }

    #[test]
    fn extremes_are_no_problem() {
        let mut made = of(&[i64::MIN, i64::MAX, 0]);
        made.add_times(7, u64::from(u32::MAX));
        assert_eq!(made.quantile(0.5), Some(7));
        assert!(made.deviation().is_some());
        assert_eq!(of(&[]).quantile(0.5), None);
    }
}
