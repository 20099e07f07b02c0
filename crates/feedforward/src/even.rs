//! A filter for queues that are alike in both directions.
//!
//! Where requests and replies wait in the same queue, or in two that fill together, half of the
//! difference of both measurements has nothing of it, however long the queue: no floor is needed.
//! How alike they are is learnt from how far that middle strays, beside how much the round trip
//! exceeds its floor.

#![allow(clippy::indexing_slicing)] // All indices run over arrays of a fixed length.

use core::f64::consts::TAU;

use crate::bank::{Belief, Seen};
use crate::delay::{Law, fitted, read};
use crate::filter::{Filter, Known, RATE, THETA};

/// Random walks of the oscillator's rate, per √s, and the logarithms of how likely each is
/// beforehand; as in the other banks, but coarser.
const WALKS: [f64; MEMBERS] = [1e-9, 6.4e-9, 2.56e-8, 1.024e-7];
const PRIOR: [f64; MEMBERS] = [0.0, -1.0, -2.0, -4.0];
const MEMBERS: usize = 4;
/// Memory of how well each foretold, exchanges.
const MEMORY: f64 = 64.0;
/// However badly one foretold, it is soon believed again if it does better.
const LEAST_LOG: f64 = -12.0;
/// If nothing is known of how the directions share the excess, half of its difference is spread
/// evenly over half of it to either side: 1/√12 of the excess is its deviation.
const SHARE: f64 = 0.289;
/// The shares are never thought more alike than this.
const LEAST_SHARE: f64 = 2e-3;
/// Share of the newest exchange in what is known of the noise.
const GAIN: f64 = 1.0 / 16.0;
/// Stamps are never thought better than this, s.
const LEAST_NOISE: f64 = 0.3e-6;
/// From so many variances on, what is far off is doubted.
const DOUBTED: f64 = 9.0;
/// One exchange says no more of the noise than so many times what it was.
const MOST_STRAYED: f64 = 25.0;
/// Probabilities below this are taken for it.
const LEAST_DENSITY: f64 = 1e-300;

/// See the module's text.
#[derive(Clone, Debug)]
pub(crate) struct Even {
    members: [Filter; MEMBERS],
    logs: [f64; MEMBERS],
    law: Law,
    /// Variance of the middle: a constant part, s², and one that goes with the square of the
    /// excess of the round trip.
    constant: f64,
    share: f64,
    evidence: f64,
    /// By how much the middle is ahead of θ, s, on a path that is known not to be symmetric.
    askew: Option<f64>,
}

impl Even {
    /// Knows so much before the first exchange; `noise` is that of either direction's stamps, s.
    pub(crate) fn new(theta: Known, rate: Known, floor: Known, noise: [f64; 2]) -> Even {
        let member = |walk| Filter::new(theta, rate, floor, walk);
        let noise = (noise[0] + noise[1]) / 2.0;
        Even {
            members: WALKS.map(member),
            logs: PRIOR,
            law: Law::new(fitted(&[], 2.0 * floor.mean), 0, noise),
            constant: noise * noise,
            share: SHARE * SHARE,
            evidence: 0.0,
            askew: None,
        }
    }

    /// The path is another one from now on, whose round trip takes so long, s. θ is `theta` by its
    /// standard, or none if it stays what it was: then its directions may differ.
    pub(crate) fn begin_path(&mut self, rtt: f64, theta: Option<Known>, noise: [f64; 2]) {
        for filter in &mut self.members {
            if let Some(theta) = theta {
                let by = theta.mean - filter.x[THETA];
                filter.correct(&[1.0, 0.0, 0.0, 0.0], by, theta.deviation * theta.deviation);
            }
        }
        let noise = (noise[0] + noise[1]) / 2.0;
        self.law = Law::new(fitted(&[], rtt), 0, noise);
        (self.constant, self.share) = (noise * noise, SHARE * SHARE);
        self.askew = theta.is_none().then_some(0.0);
    }

    /// Logarithm of how likely the newest exchange was.
    pub(crate) fn evidence(&self) -> f64 {
        self.evidence
    }

    /// What is known now, but for the floors.
    pub(crate) fn now(&self) -> Belief {
        let weights = self.weights();
        Belief::mixed(self.members.iter().zip(weights).map(|(f, w)| (w, Belief::of(f))))
    }

    /// Moves on by `dt` seconds.
    pub(crate) fn predict(&mut self, dt: f64) {
        for filter in &mut self.members {
            filter.predict(dt, 0.0);
        }
    }

    /// Takes in an exchange whose round trip exceeds its floor by `excess` seconds. If it is
    /// negative, the floor so far was none, and what it taught was off by a share of that.
    pub(crate) fn take(&mut self, seen: Seen, excess: f64) {
        let (below, excess) = (excess.min(0.0), excess.max(0.0));
        if below < 0.0 {
            for filter in &mut self.members {
                filter.correct(&[SHARE * below, 0.0, 0.0, 0.0], 0.0, 1.0);
            }
        }
        let sum = [1.0, -seen.duration / 2.0, 0.0, 0.0];
        let middle = (seen.late[0] - seen.late[1]) / 2.0 - self.askew.unwrap_or(0.0);
        let noise = self.constant + self.share * excess * excess;
        let weights = self.weights();
        let (mut likely, mut strayed) = (0.0, 0.0);
        for ((filter, log), w) in self.members.iter_mut().zip(&mut self.logs).zip(weights) {
            let known = filter.project(&sum);
            let total = known.variance + noise;
            let by = middle - known.mean;
            let far = by * by / total;
            // Heavier tails than a normal law: what is far off is doubted.
            let doubt = (far / DOUBTED).max(1.0);
            let density = libm::exp(-far / (2.0 * doubt)) / libm::sqrt(TAU * total * doubt);
            filter.absorb(&known, total * doubt, by, total * doubt);
            *log += libm::log(density.max(LEAST_DENSITY));
            likely += w * density;
            strayed += w * (by * by - known.variance).min(MOST_STRAYED * noise);
        }
        let step = |old: f64, new: f64, least: f64| (old + GAIN * (new - old)).max(least * least);
        if self.share * excess * excess > self.constant {
            self.share = step(self.share, strayed / (excess * excess), LEAST_SHARE).min(1.0);
        } else {
            self.constant = step(self.constant, strayed, LEAST_NOISE);
        }
        let top = self.logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        for (log, prior) in self.logs.iter_mut().zip(PRIOR) {
            *log = (*log - top + (prior - *log) / MEMORY).max(LEAST_LOG);
        }
        let deviation = libm::sqrt(self.law.noise);
        let reading = read(&self.law.predicted(), excess / deviation, deviation);
        self.law.learn(&reading.weights, self.law.noise);
        self.evidence = libm::log(likely.max(LEAST_DENSITY)) + reading.log_density;
    }

    /// Goes on from what is known better.
    pub(crate) fn follow(&mut self, belief: &Belief) {
        self.askew = self.askew.map(|_| (belief.floors[0] - belief.floors[1]) / 2.0);
        for filter in &mut self.members {
            filter.forget_past();
            filter.x[THETA] = belief.theta;
            filter.x[RATE] = belief.rate;
            filter.p[THETA][THETA] = belief.theta_var;
            filter.p[THETA][RATE] = belief.covariance;
            filter.p[RATE][THETA] = belief.covariance;
            filter.p[RATE][RATE] = belief.rate_var;
        }
    }

    /// See [`Bank::refute`](crate::bank::Bank::refute).
    pub(crate) fn refute(&mut self, by: f64, slack: f64) {
        for filter in &mut self.members {
            filter.correct(&[by, 0.0, 0.0, 0.0], -1.0, 1.0);
            filter.inflate(&[0.0, slack, 0.0, 0.0], 1.0);
        }
    }

    /// See [`Panel::go_ahead`](crate::panel::Panel::go_ahead).
    pub(crate) fn go_ahead(&mut self, by: f64, variance: f64) {
        for filter in &mut self.members {
            filter.correct(&[1.0, 0.0, 0.0, 0.0], by, variance);
        }
    }

    /// See [`Panel::turn`](crate::panel::Panel::turn).
    pub(crate) fn turn(&mut self, by: f64) {
        for filter in &mut self.members {
            filter.correct(&[-by, 0.0, 0.0, 0.0], 1.0, 0.0);
        }
    }

    /// See [`Bank::confine`](crate::bank::Bank::confine).
    pub(crate) fn confine(&mut self, low: f64, high: f64) {
        for filter in &mut self.members {
            filter.confine(low, high);
        }
    }

    fn weights(&self) -> [f64; MEMBERS] {
        let weights = self.logs.map(libm::exp);
        let sum: f64 = weights.iter().sum();
        weights.map(|w| w / sum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_that_is_alike_both_ways_does_not_show() {
        let known = |mean, deviation| Known { mean, deviation };
        let floor = known(100e-6, 50e-6);
        let mut even = Even::new(known(0.0, 50e-6), known(0.0, 1e-6), floor, [0.3e-6; 2]);
        for k in 0..200u32 {
            even.predict(16.0);
            let queue = 50e-6 * f64::from(k);
            let late = [100e-6 + queue + 3e-6, 100e-6 + queue - 3e-6];
            even.take(Seen { late, duration: 1e-3 }, 2.0 * queue);
        }
        assert!((even.now().theta - 3e-6).abs() < 1e-6, "{:?}", even.now());
    }

    #[test]
    fn a_lower_floor_opens_what_the_higher_one_taught() {
        let known = |mean, deviation| Known { mean, deviation };
        let middle = |excess| {
            let floor = known(10e-3, 5e-3);
            let mut even = Even::new(known(0.0, 1e-3), known(0.0, 1e-7), floor, [0.3e-6; 2]);
            for _ in 0..50 {
                even.predict(16.0);
                even.take(Seen { late: [10e-3, 10e-3], duration: 1e-3 }, 0.0);
            }
            even.predict(16.0);
            even.take(Seen { late: [8e-3, 10e-3], duration: 1e-3 }, excess);
            even.now().theta
        };
        assert!(middle(0.0).abs() < 0.1e-3, "it is doubted: {}", middle(0.0));
        assert!((middle(-2e-3) + 1e-3).abs() < 0.2e-3, "it is believed: {}", middle(-2e-3));
    }
}
