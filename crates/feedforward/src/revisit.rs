//! What each of the first stamps says, in the light of all the others.
//!
//! A filter understands a stamp by what the earlier ones said, and never comes back to it. At the
//! start that costs dearly: nothing is known yet, and whether a packet was late only the later ones
//! tell. So each of the first stamps is held as a normal law of its own (a *site*) about the sum of
//! states that it measures, and is worked out again from what all the others say: expectation
//! propagation (Minka 2001). Two rounds for each new exchange come near the exact posterior; the
//! test below shows how near, and how far the filter alone is from it.

use crate::delay::{Law, read};
use crate::filter::{Filter, Vector};

/// Rounds for each new exchange: the sites are nearly right from the exchanges before.
const ROUNDS: usize = 2;
/// So much of the way is gone at once: mixtures of laws could swing.
const STEP: f64 = 0.7;
/// A site is left alone if without it so little of the precision is left.
const LEAST: f64 = 1e-6;

/// What a stamp says of the sum of states that it measures: a precision, and precision × mean.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Site {
    precision: f64,
    information: f64,
}

/// A stamp of one direction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stamped {
    /// Which sum of the states, as they are at the end, it measures from above.
    pub(crate) sum: Vector,
    pub(crate) late: f64,
    /// 0 for requests, 1 for replies.
    pub(crate) direction: usize,
    pub(crate) site: Site,
}

impl Filter {
    /// Takes in what a site says. What makes no sense of what is known is left out.
    pub(crate) fn tell(&mut self, sum: &Vector, site: Site) {
        let known = self.project(sum);
        let left = 1.0 + site.precision * known.variance;
        if left > LEAST && known.variance > 0.0 {
            let by = known.variance * (site.information - site.precision * known.mean) / left;
            let less = known.variance * (1.0 - 1.0 / left);
            self.absorb(&known, known.variance, by, less);
        }
    }
}

/// Works the stamps out again, from what `filter` knew before all of them.
#[allow(clippy::indexing_slicing)] // Directions are 0 and 1.
pub(crate) fn revisit(stamps: &mut [Stamped], mut filter: Filter, laws: &[Law; 2]) {
    let weights = [laws[0].predicted(), laws[1].predicted()];
    for stamp in stamps.iter() {
        filter.tell(&stamp.sum, stamp.site);
    }
    for _ in 0..ROUNDS {
        for stamp in stamps.iter_mut() {
            let known = filter.project(&stamp.sum);
            let old = stamp.site;
            let left = 1.0 - old.precision * known.variance;
            if left < LEAST || known.variance <= 0.0 {
                continue;
            }
            // What the others say.
            let variance = known.variance / left;
            let mean = (known.mean - old.information * known.variance) / left;
            let total = variance + laws[stamp.direction].noise;
            let deviation = libm::sqrt(total);
            let reading =
                read(&weights[stamp.direction], (stamp.late - mean) / deviation, deviation);
            let by = stamp.late - mean - deviation * reading.excess;
            let gain = variance / total;
            let less = gain * variance * (1.0 - reading.variance).max(0.0);
            let after = (variance - less).max(LEAST * variance);
            let precision = 1.0 / after - 1.0 / variance;
            let information = (mean + gain * by) / after - mean / variance;
            let step = Site {
                precision: STEP * (precision - old.precision),
                information: STEP * (information - old.information),
            };
            filter.tell(&stamp.sum, step);
            stamp.site = Site {
                precision: old.precision + step.precision,
                information: old.information + step.information,
            };
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::filter::{Known, RATE, THETA};
    use std::println;
    use std::vec::Vec;

    /// The mean of the delays, s: that of one of the laws.
    const SCALE: f64 = 0.25e-6 * 4096.0;
    const COUNT: usize = 12;
    const RATE_PRIOR: f64 = 25e-6;

    /// Delays of requests and replies, s.
    fn delays(seed: u64) -> Vec<[f64; 2]> {
        let mut state = seed;
        let mut next = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            -SCALE * libm::log(((state >> 11) as f64 + 0.5) / (1u64 << 53) as f64)
        };
        (0..COUNT + 8).map(|_| [next(), next()]).skip(8).collect()
    }

    /// When they were, s before the last.
    fn age(k: usize) -> f64 {
        4.0 * (COUNT - 1 - k) as f64
    }

    /// Mean and deviation of θ at the end by adding up: the sum of all delays depends on the floor
    /// alone, which is at most what the fastest packet took.
    fn exact(delays: &[[f64; 2]]) -> (f64, f64) {
        let (mut mass, mut first, mut second) = (0.0, 0.0, 0.0);
        for a in -200..=200 {
            for b in -200..=200 {
                let (theta, rate) = (f64::from(a) * SCALE / 100.0, f64::from(b) * 1e-6);
                let room = |(k, [there, back]): (usize, &[f64; 2])| {
                    let y = theta - rate * age(k);
                    (there - y).min(back + y)
                };
                let floor = delays.iter().enumerate().map(room).fold(f64::INFINITY, f64::min);
                let prior = rate * rate / (2.0 * RATE_PRIOR * RATE_PRIOR);
                let weight = libm::exp(2.0 * COUNT as f64 * floor / SCALE - prior);
                mass += weight;
                first += weight * theta;
                second += weight * theta * theta;
            }
        }
        let mean = first / mass;
        (mean, libm::sqrt(second / mass - mean * mean))
    }

    /// The same by sites, and by what the filter makes of it going along.
    fn found(delays: &[[f64; 2]]) -> [(f64, f64); 2] {
        let mut weights = [0.0; 11];
        weights[6] = 1.0;
        let laws = [Law::new(weights, COUNT, 1e-8), Law::new(weights, COUNT, 1e-8)];
        let known = |deviation| Known { mean: 0.0, deviation };
        let filter = Filter::new(known(20e-3), known(RATE_PRIOR), known(20e-3), 0.0);
        let mut stamps = Vec::new();
        for (k, [there, back]) in delays.iter().enumerate() {
            let sums = [[1.0, -age(k), 1.0, 0.0], [-1.0, age(k), 0.0, 1.0]];
            for (direction, sum) in sums.into_iter().enumerate() {
                let late = if direction == 0 { *there } else { *back };
                stamps.push(Stamped { sum, late, direction, site: Site::default() });
            }
        }
        let mut along = filter;
        for stamp in &stamps {
            let y = along.project(&stamp.sum);
            let total = y.variance + laws[0].noise;
            let deviation = libm::sqrt(total);
            let reading = read(&weights, (stamp.late - y.mean) / deviation, deviation);
            let by = stamp.late - y.mean - deviation * reading.excess;
            along.absorb(&y, total, by, total * (1.0 - reading.variance));
        }
        for n in 1..=COUNT {
            revisit(&mut stamps[..2 * n], filter, &laws);
        }
        let mut all = filter;
        for stamp in &stamps {
            all.tell(&stamp.sum, stamp.site);
        }
        assert!(all.p[RATE][RATE] > 0.0);
        [all, along].map(|f| (f.x[THETA], libm::sqrt(f.p[THETA][THETA])))
    }

    #[test]
    fn it_comes_near_the_exact_posterior() {
        let (mut apart, mut along_apart) = (0.0, 0.0);
        for seed in 1..=20 {
            let delays = delays(seed);
            let (mean, deviation) = exact(&delays);
            let [all, along] = found(&delays);
            println!("{mean:e} ± {deviation:e}: {all:?}, {along:?}");
            let ratio = all.1 / deviation;
            assert!((0.8..1.25).contains(&ratio), "seed {seed}: {ratio}");
            let off = |mean_found: f64| ((mean_found - mean) / deviation).powi(2) / 20.0;
            apart += off(all.0);
            along_apart += off(along.0);
        }
        println!("squares: {apart} against {along_apart}");
        assert!(apart < 0.03 && along_apart > 10.0 * apart, "{apart} {along_apart}");
    }
}
