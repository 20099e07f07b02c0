//! Oscillator and path floors: an interacting-multiple-model Kalman filter.
//!
//! Each mode is one idea of how much the rate and the floors walk. Modes change into one another
//! with a small probability per exchange (Blom and Bar-Shalom 1988), so that none is ever lost.

#![allow(clippy::indexing_slicing)] // All indices run over arrays of a fixed length.

use crate::constants::Constants;
use crate::gaussian::{Gaussian, Walks};

/// Number of modes: random walks of the rate, and queues that grow slowly.
pub const MODES: usize = RATES + 2;
const RATES: usize = 7;
/// Random walks of the rate, 1/√s, four times apart: from an oven to a fan that stops (4·10⁻⁷ is
/// 1 ppm within seconds).
const RATE: [f64; RATES] = [1e-10, 4e-10, 1.6e-9, 6.4e-9, 2.56e-8, 1.024e-7, 4.096e-7];
/// Logarithms of how likely each is beforehand: most hosts have quartz in still air.
const PRIOR: [f64; RATES] = [-1.0, 0.0, 0.0, 0.0, -1.0, -3.0, -9.0];

/// Filter bank of one hypothesis.
#[derive(Clone, Copy, Debug)]
pub struct Oscillator {
    /// One law of the states for each mode.
    pub modes: [Gaussian; MODES],
    /// Probability of each mode.
    pub weights: [f64; MODES],
    /// Time between the newest two exchanges, s.
    pub gap: f64,
}

fn prior(c: &Constants) -> [f64; MODES] {
    let odds = core::array::from_fn(|m| {
        let tide = [c.tide_alike_prior, c.tide_each_prior];
        libm::exp(if m == RATES - 1 { c.restless_prior } else if m < RATES { PRIOR[m] } else { tide[m - RATES] })
    });
    let sum: f64 = odds.iter().sum();
    odds.map(|o| o / sum)
}

fn rate(m: usize, c: &Constants) -> f64 {
    if m < RATES { RATE[m] } else { c.tide_rate }
}

/// Random walks of a mode; `idle` is the typical delay, s.
fn walks(m: usize, idle: f64, c: &Constants) -> Walks {
    let square = |walk: f64| walk * walk;
    let (alike, each) = match m {
        RATES => (c.tide_alike, 0.0),
        m if m > RATES => (c.tide_slow, c.tide_each),
        _ => (c.floor_walk, 0.0),
    };
    Walks { rate: square(rate(m, c)), alike: square(alike * idle), each: square(each * idle) }
}

impl Oscillator {
    /// All modes begin with the same law.
    #[must_use]
    pub fn new(law: Gaussian, c: &Constants) -> Oscillator {
        Oscillator { modes: [law; MODES], weights: prior(c), gap: 0.0 }
    }

    /// Moves on by `dt` seconds; `idle` is the typical delay, s.
    pub fn predict(&mut self, dt: f64, idle: f64, c: &Constants) {
        let all = self.now();
        let prior = prior(c);
        for m in 0..MODES {
            let kept = (1.0 - c.mode_change) * self.weights[m];
            self.weights[m] = kept + c.mode_change * prior[m];
            let own = kept / self.weights[m];
            if own < c.mix {
                self.modes[m] = self.modes[m].mixed(own, &all);
            }
        }
        for (m, law) in self.modes.iter_mut().enumerate() {
            law.predict(dt, &walks(m, idle, c));
        }
        self.gap = dt;
    }

    /// The states, all modes together.
    #[must_use]
    pub fn now(&self) -> Gaussian {
        Gaussian::mixture(self.weights.iter().copied().zip(&self.modes))
    }

    /// Probability that queues are growing or draining slowly.
    #[must_use]
    pub fn tide(&self) -> f64 {
        self.weights[RATES..].iter().sum()
    }

    /// Variance that the rate gains per second.
    #[must_use]
    pub fn walk(&self, c: &Constants) -> f64 {
        self.weights.iter().enumerate().map(|(m, w)| w * rate(m, c) * rate(m, c)).sum()
    }

    /// Does the same to every mode.
    pub fn each(&mut self, f: impl FnMut(&mut Gaussian)) {
        self.modes.iter_mut().for_each(f);
    }

    /// Weighs the modes by the logarithms of how likely each made an exchange, which comes back for
    /// all together.
    pub fn weigh(&mut self, logs: &[f64; MODES]) -> f64 {
        let top = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let mut sum = 0.0;
        for (w, log) in self.weights.iter_mut().zip(logs) {
            *w *= libm::exp(log - top);
            sum += *w;
        }
        self.weights = self.weights.map(|w| w / sum);
        top + libm::log(sum)
    }
}
