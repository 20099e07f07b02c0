//! How one direction's packets queue, learnt as they come.
//!
//! The delay above the floor is taken for a mixture of exponential laws whose means are fixed and
//! four times apart. Which of them is in force is a hidden state that lasts from packet to packet
//! with some probability and else is drawn anew from the long run: so a burst is recognised by its
//! second packet, and one late packet says little about the next.

#![allow(clippy::indexing_slicing)] // All indices run over arrays of a fixed length.

use crate::tail::Cut;

/// How many exponential laws there are.
const SCALES: usize = 11;
/// Their means, s: 0.25 µs (below what stamps resolve) to 0.26 s, four times apart: no delay is
/// farther than a factor of two from one of them, which costs next to nothing in accuracy.
const SCALE: Weights = {
    let mut scale = [0.25e-6; SCALES];
    let mut k = 1;
    while k < SCALES {
        scale[k] = scale[k - 1] * 4.0;
        k += 1;
    }
    scale
};
/// ln 4.
const LN_STEP: f64 = 1.386_294_361_119_890_6;
/// Probability that the next packet's law is drawn anew. Smaller is better in long bursts and
/// worse in short ones; between 0.05 and 0.5 little changes.
const CHANGE: f64 = 0.2;
/// Memory of the long run, exchanges: an hour at 16 s, so that bursts belong to it.
const LONG_RUN: f64 = 256.0;
/// No law is ever ruled out.
const LEAST_WEIGHT: f64 = 1e-4;
/// A law of less weight is not looked at.
const NEGLIGIBLE: f64 = 1e-6;
/// Stamps are never thought better than this, s².
const LEAST_NOISE: f64 = 1e-16;
/// The typical delay of an idle path is this quantile of the laws' means, by weight: it stays what
/// it is while a path is busy for up to two thirds of the time.
const IDLE: f64 = 0.3;

/// A weight for each of the laws.
pub(crate) type Weights = [f64; SCALES];

/// What is known of one direction's delays.
#[derive(Clone, Debug)]
pub(crate) struct Law {
    now: Weights,
    long_run: Weights,
    /// How many exchanges they rest on.
    count: f64,
    /// Variance of what is not queueing and has either sign: stamps, the floor's own blur, s².
    pub(crate) noise: f64,
}

/// What a delay says about the quantity under it, see [`Cut`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    pub(crate) log_density: f64,
    pub(crate) excess: f64,
    pub(crate) variance: f64,
    /// Which law it was.
    pub(crate) weights: Weights,
}

impl Law {
    /// A law with these weights that rest on `count` exchanges, and this noise, s.
    pub(crate) fn new(weights: Weights, count: usize, noise: f64) -> Law {
        Law { now: weights, long_run: weights, count: count as f64, noise: noise * noise }
    }

    /// The weights for the next packet.
    pub(crate) fn predicted(&self) -> Weights {
        core::array::from_fn(|k| (1.0 - CHANGE) * self.now[k] + CHANGE * self.long_run[k])
    }

    /// The weights in the long run.
    pub(crate) fn long_run(&self) -> Weights {
        self.long_run
    }

    /// What was said of the path just now is void.
    pub(crate) fn forget_now(&mut self) {
        self.now = self.long_run;
    }

    /// Typical delay of the idle path above its floor, s.
    pub(crate) fn idle(&self) -> f64 {
        idle(&self.long_run)
    }

    /// Density of a delay of `excess` seconds above the floor in the long run, 1/s.
    pub(crate) fn density(&self, excess: f64) -> f64 {
        density(&self.long_run, excess)
    }

    /// Learns from a packet which law it followed, and what its noise was, s².
    pub(crate) fn learn(&mut self, weights: &Weights, noise: f64) {
        self.count += 1.0;
        let gain = (1.0 / (self.count + 1.0)).max(1.0 / LONG_RUN);
        self.now = *weights;
        for (long_run, new) in self.long_run.iter_mut().zip(weights) {
            *long_run = (*long_run + gain * (new - *long_run)).max(LEAST_WEIGHT);
        }
        let gain = (1.0 / (self.count + 16.0)).max(1.0 / LONG_RUN);
        self.noise = (self.noise + gain * (noise - self.noise)).max(LEAST_NOISE);
    }
}

/// What it says that z lies `distance` deviations above the mean of y, under these weights.
pub(crate) fn read(weights: &Weights, distance: f64, deviation: f64) -> Reading {
    let mut logs = [f64::NEG_INFINITY; SCALES];
    let mut cuts = [(0.0, 0.0); SCALES];
    for k in 0..SCALES {
        if weights[k] >= NEGLIGIBLE {
            let cut = Cut::new(distance, deviation, SCALE[k]);
            logs[k] = libm::log(weights[k]) + cut.log_density;
            cuts[k] = (cut.excess, cut.variance);
        }
    }
    let top = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let shares = logs.map(|log| libm::exp(log - top));
    let sum: f64 = shares.iter().sum();
    let weights = shares.map(|share| share / sum);
    let (mut mean, mut square) = (0.0, 0.0);
    for (weight, (excess, variance)) in weights.iter().zip(cuts) {
        mean += weight * excess;
        square += weight * (variance + excess * excess);
    }
    let variance = (square - mean * mean).max(1e-9);
    Reading { log_density: top + libm::log(sum), excess: mean, variance, weights }
}

fn idle(weights: &Weights) -> f64 {
    let wanted = IDLE * weights.iter().sum::<f64>();
    let mut below = 0.0;
    for (weight, scale) in weights.iter().zip(SCALE) {
        if below + weight >= wanted {
            return scale * libm::exp(((wanted - below) / weight - 1.0) * LN_STEP);
        }
        below += weight;
    }
    SCALE[SCALES - 1]
}

fn density(weights: &Weights, excess: f64) -> f64 {
    weights.iter().zip(SCALE).map(|(w, scale)| w / scale * libm::exp(-excess / scale)).sum()
}

/// The mixture that fits some delays above their floor, found by expectation and maximisation.
/// Beforehand, all scales from a 300th of the round trip to the whole are as likely.
pub(crate) fn fitted(delays: &[f64], rtt: f64) -> Weights {
    const ROUNDS: usize = 8;
    let likely = SCALE.map(|s| if s > rtt / 300.0 && s < rtt { 1.0 } else { 0.01 });
    let sum: f64 = likely.iter().sum();
    // What was likely beforehand counts as much as one delay that was seen.
    let prior = likely.map(|p| p / sum);
    let mut weights = prior;
    for _ in 0..ROUNDS {
        let mut counts = prior;
        for &delay in delays {
            let shares: Weights =
                core::array::from_fn(|k| weights[k] / SCALE[k] * libm::exp(-delay / SCALE[k]));
            let sum = shares.iter().sum::<f64>().max(f64::MIN_POSITIVE);
            for (count, share) in counts.iter_mut().zip(shares) {
                *count += share / sum;
            }
        }
        weights = counts.map(|count| count / (delays.len() as f64 + 1.0));
    }
    weights
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn delays_show_their_scale() {
        // Quantiles of an exponential law of 100 µs.
        let delays: Vec<f64> =
            (0..40).map(|k| -100e-6 * libm::log((f64::from(k) + 0.5) / 40.0)).collect();
        let weights = fitted(&delays, 1e-3);
        let mean: f64 = weights.iter().zip(SCALE).map(|(w, s)| w * s).sum();
        assert!((80e-6..160e-6).contains(&mean), "{mean}");
        let found = idle(&weights);
        assert!((20e-6..200e-6).contains(&found), "{found}");
        assert!(density(&weights, 0.0) > density(&weights, 100e-6));
    }

    #[test]
    fn a_burst_is_recognised() {
        let calm = fitted(&[5e-6, 10e-6, 15e-6, 3e-6, 8e-6, 20e-6], 200e-6);
        let mut law = Law::new(calm, 6, 1e-7);
        let late = |law: &Law| read(&law.predicted(), 1000.0, 1e-6);
        let first = late(&law);
        law.learn(&first.weights, law.noise);
        let second = late(&law);
        assert!(second.log_density > first.log_density + 1.0, "{first:?} {second:?}");
        assert!(second.excess > 900.0 && second.variance > 0.9, "{second:?}");
        law.forget_now();
        assert!(late(&law).log_density < second.log_density);
    }
}
