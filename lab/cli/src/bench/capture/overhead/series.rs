//! Figures of a series of measured times.

use truechimer_report::{mean, quantile, sorted};

/// Resamples for the intervals of confidence.
const RESAMPLES: usize = 400;
/// Of fewer rounds there is no interval.
const LEAST_ROUNDS: usize = 4;

/// Measured times of packets that followed each other.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Block {
    /// Time that each took, ns.
    pub cost: Vec<f64>,
    /// When it was over, ns on any scale.
    pub at: Vec<f64>,
}

/// Blocks of the same kind, one for each round; an empty one where a round gave none.
pub type Series = Vec<Block>;

/// Figures of one series.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Figures {
    /// Number of values.
    pub count: usize,
    /// Mean, ns.
    pub mean: f64,
    /// Variance, ns².
    pub variance: f64,
    /// Variance without the largest hundredth, ns².
    pub core: f64,
    /// Quantiles 0, 1 %, 50 %, 90 %, 99 %, 99.9 %, 100 %, ns.
    pub quantiles: [f64; 7],
}

/// Which quantiles [`Figures`] has.
pub const QUANTILES: [f64; 7] = [0.0, 0.01, 0.5, 0.9, 0.99, 0.999, 1.0];

/// Mean and variance; not numbers of fewer than two values.
#[must_use]
pub fn moments(values: &[f64]) -> (f64, f64) {
    let mean = mean(values);
    let squares: f64 = values.iter().map(|v| (v - mean) * (v - mean)).sum();
    (mean, if values.len() < 2 { f64::NAN } else { squares / (values.len() as f64 - 1.0) })
}

impl Figures {
    /// Of these blocks.
    #[must_use]
    pub fn of<'a>(blocks: impl IntoIterator<Item = &'a Block>) -> Figures {
        let values = sorted(blocks.into_iter().flat_map(|block| &block.cost));
        let (mean, variance) = moments(&values);
        let kept = values.len() - values.len().div_ceil(100);
        let (_, core) = moments(values.get(..kept).unwrap_or_default());
        let quantiles = QUANTILES.map(|q| quantile(&values, q));
        Figures { count: values.len(), mean, variance, core, quantiles }
    }

    /// The median, ns.
    #[must_use]
    pub fn median(&self) -> f64 {
        self.quantiles[2]
    }
}

/// A difference of two series' figures, with an interval that holds it in 95 of 100 cases.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Net {
    /// Value as measured.
    pub value: f64,
    /// From here
    pub low: f64,
    /// to here.
    pub high: f64,
}

/// `figure` of `series` less that of `ground`. Blocks of the same round were measured side by side:
/// the interval is by bootstrap over rounds, which keeps them together, so that what drifts slower
/// than a round does not widen it.
#[must_use]
pub fn net(series: &Series, ground: &Series, figure: impl Fn(&Figures) -> f64) -> Net {
    let rounds: Vec<(&Block, &Block)> = series
        .iter()
        .zip(ground)
        .filter(|(block, other)| !block.cost.is_empty() && !other.cost.is_empty())
        .collect();
    let of = |rounds: &[(&Block, &Block)]| {
        figure(&Figures::of(rounds.iter().map(|r| r.0)))
            - figure(&Figures::of(rounds.iter().map(|r| r.1)))
    };
    bootstrap(&rounds, of)
}

/// Numbers without a pattern, the same in every run (xorshift64*, Marsaglia 2003 and Vigna 2016).
#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    /// One of 0..`limit`.
    pub fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let high = self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 32;
        (high as usize) % limit.max(1)
    }
}

/// The autocorrelation at a lag, within blocks, by the ranks in the block: neither single giants
/// nor the machine's getting slower from block to block are what it shows. Not a number of too few
/// values.
#[must_use]
pub fn autocorrelation(series: &Series, lag: usize) -> f64 {
    correlation(&series.iter().flat_map(|block| neighbours(block, lag)).collect::<Vec<_>>())
}

/// The ranks in a block, about their middle, of each two values that are `lag` apart.
#[must_use]
pub fn neighbours(block: &Block, lag: usize) -> Vec<(f64, f64)> {
    let all = sorted(&block.cost);
    let middle = all.len() as f64 / 2.0;
    let ranks: Vec<f64> = block.cost.iter().map(|cost| rank(&all, *cost) - middle).collect();
    ranks.iter().copied().zip(ranks.iter().copied().skip(lag)).collect()
}

/// A figure of rounds that were measured side by side, and the interval that holds it in 95 of 100 cases, by bootstrap
/// over the rounds.
#[must_use]
pub fn bootstrap<T: Copy>(rounds: &[T], figure: impl Fn(&[T]) -> f64) -> Net {
    let value = figure(rounds);
    if rounds.len() < LEAST_ROUNDS {
        return Net { value, low: f64::NAN, high: f64::NAN };
    }
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    let draws = sorted((0..RESAMPLES).map(|_| {
        let drawn = (0..rounds.len()).filter_map(|_| rounds.get(random.below(rounds.len())));
        figure(&drawn.copied().collect::<Vec<_>>())
    }));
    let at = |q| quantile(&draws, q);
    Net { value, low: at(0.025), high: at(0.975) }
}

/// The middle place of a value among others.
fn rank(sorted: &[f64], value: f64) -> f64 {
    let below = sorted.partition_point(|other| *other < value);
    let not_above = sorted.partition_point(|other| *other <= value);
    (below + not_above) as f64 / 2.0
}

/// Pearson's correlation; not a number where one side does not vary.
#[must_use]
pub fn correlation(pairs: &[(f64, f64)]) -> f64 {
    let a: Vec<f64> = pairs.iter().map(|pair| pair.0).collect();
    let b: Vec<f64> = pairs.iter().map(|pair| pair.1).collect();
    let ((mean_a, var_a), (mean_b, var_b)) = (moments(&a), moments(&b));
    let both: f64 = pairs.iter().map(|(a, b)| (a - mean_a) * (b - mean_b)).sum();
    let scale = (var_a * var_b).sqrt() * (pairs.len() as f64 - 1.0);
    if scale > 0.0 { both / scale } else { f64::NAN }
}

/// Relation between overheads and inter-arrival times.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Together {
    /// Pearson's correlation of overhead and inter-arrival time.
    pub values: f64,
    /// Correlation of their ranks.
    pub ranks: f64,
    /// Of the hundredth with the largest overheads, the share whose inter-arrival times are among
    /// the largest hundredth: 0.01 by chance.
    pub large: f64,
    /// Number of values in the hundredth.
    pub few: usize,
}

/// Of the packets that follow another in their block.
#[must_use]
pub fn together(series: &Series) -> Together {
    let pairs: Vec<(f64, f64)> = series
        .iter()
        .flat_map(|block| {
            let gaps = block.at.iter().zip(block.at.iter().skip(1)).map(|(a, b)| b - a);
            block.cost.iter().skip(1).copied().zip(gaps)
        })
        .collect();
    let ascending = |part: fn(&(f64, f64)) -> f64| sorted(pairs.iter().map(part));
    let (costs, gaps) = (ascending(|p| p.0), ascending(|p| p.1));
    let ranks: Vec<_> = pairs.iter().map(|p| (rank(&costs, p.0), rank(&gaps, p.1))).collect();
    let few = pairs.len() / 100;
    let from = |values: &[f64]| values.get(values.len() - few).copied().unwrap_or(f64::INFINITY);
    let (cost, gap) = (from(&costs), from(&gaps));
    let large: Vec<_> = pairs.iter().filter(|pair| pair.0 >= cost).collect();
    let both = large.iter().filter(|pair| pair.1 >= gap).count();
    Together {
        values: correlation(&pairs),
        ranks: correlation(&ranks),
        large: both as f64 / large.len() as f64,
        few,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(cost: impl Fn(usize) -> f64) -> Series {
        let block = |b: usize| {
            let cost: Vec<f64> = (0..100).map(|n| cost(b * 100 + n)).collect();
            let mut at = 0.0;
            let at = cost.iter().map(|cost| {
                at += 1000.0 + cost;
                at
            });
            Block { at: at.collect(), cost }
        };
        (0..10).map(block).collect()
    }

    #[test]
    fn figures_of_known_values() {
        let figures = Figures::of(&series(|n| if n == 999 { 1e6 } else { (n % 2) as f64 }));
        assert_eq!(figures.count, 1000);
        assert_eq!(figures.quantiles[0], 0.0);
        assert_eq!(figures.quantiles[6], 1e6);
        assert!((figures.core - 0.25).abs() < 0.01, "{figures:?}");
        assert!(figures.variance > 1e8);
        assert!(Figures::of(&Vec::new()).mean.is_nan());
    }

    #[test]
    fn differences_come_with_an_interval_that_holds_them() {
        let noise = |n: usize| (n * 7919 % 101) as f64;
        let net = net(&series(|n| 40.0 + noise(n)), &series(noise), |f| f.mean);
        assert!((net.value - 40.0).abs() < 1e-9);
        assert!(net.low <= 40.0 && 40.0 <= net.high && net.high - net.low < 20.0, "{net:?}");
        let few = super::net(&series(noise)[..3].to_vec(), &series(noise), |f| f.mean);
        assert!(few.value.abs() < 1e-9 && few.low.is_nan());
    }

    #[test]
    fn what_drifts_from_round_to_round_does_not_widen_the_interval() {
        let drift = |n: usize| (n / 100 * 50) as f64;
        let net = net(&series(|n| 40.0 + drift(n)), &series(drift), |f| f.mean);
        assert_eq!((net.low, net.value, net.high), (40.0, 40.0, 40.0));
    }

    #[test]
    fn what_alternates_is_anticorrelated() {
        let alternating = series(|n| (n % 2) as f64);
        assert!(autocorrelation(&alternating, 1) < -0.99);
        assert!(autocorrelation(&alternating, 2) > 0.99);
        let mut random = Random(1);
        let values: Vec<f64> = (0..1000).map(|_| random.below(1000) as f64).collect();
        let noise = series(|n| values[n]);
        assert!(autocorrelation(&noise, 1).abs() < 0.15);
        assert!(autocorrelation(&series(|_| 1.0), 1).is_nan());
    }

    #[test]
    fn overheads_that_make_gaps_are_seen() {
        let mut random = Random(5);
        let values: Vec<f64> = (0..1000).map(|_| random.below(1000) as f64).collect();
        let found = together(&series(|n| values[n]));
        assert!(found.values > 0.99 && found.ranks > 0.99 && found.large > 0.99, "{found:?}");
        let mut apart = series(|n| values[n]);
        for block in &mut apart {
            block.at = (0..100).map(|n| f64::from(n) * 1000.0 + random.below(99) as f64).collect();
        }
        let found = together(&apart);
        assert!(found.values.abs() < 0.2 && found.large < 0.5, "{found:?}");
    }
}
