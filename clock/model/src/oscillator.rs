//! Oscillator and path floors: an interacting-multiple-model Kalman filter.
//!
//! Each mode is one idea of how much the rate and the floors walk. Modes change into one another
//! with a small probability per exchange (Blom and Bar-Shalom 1988), so that none is ever lost.

use crate::constants::Constants;
use crate::gaussian::{Gaussian, Walks};
use crate::hypothesis::QUIET;

/// Number of modes.
pub const MODES: usize = 15;

/// One idea of what walks, and of the floors.
#[derive(Clone, Copy, Debug)]
pub struct Mode {
    /// Random walk of the rate: so many steps more restless than usual. From an oven to a fan that
    /// stops (4·10⁻⁷ /√s is 1 ppm within seconds).
    steps: i32,
    /// Slow queues: none, slow, fast.
    pub tide: usize,
    /// Floors are blurred.
    pub blurred: bool,
    /// Odds beforehand, within its kind of floors.
    odds: f64,
}

const fn mode(steps: i32, tide: usize, blurred: bool, odds: f64) -> Mode {
    Mode { steps, tide, blurred, odds }
}

/// See [`Mode`].
pub const MODE: [Mode; MODES] = [
    mode(-2, 0, false, 0.4),
    mode(-1, 0, false, 1.0),
    mode(0, 0, false, 1.0),
    mode(1, 0, false, 1.0),
    mode(2, 0, false, 0.05),
    mode(3, 0, false, 3e-4),
    mode(4, 0, false, 1e-7),
    mode(0, 1, false, 0.007),
    mode(0, 2, false, 0.001),
    mode(-1, 0, true, 1.0),
    mode(0, 0, true, 1.0),
    mode(1, 0, true, 1.0),
    mode(2, 0, true, 0.05),
    mode(0, 1, true, 0.007),
    mode(0, 2, true, 0.001),
];

/// Modes of one hypothesis.
#[derive(Clone, Copy, Debug)]
pub struct Oscillator {
    /// One law of the states for each mode.
    pub modes: [Gaussian; MODES],
    /// Probability of each mode.
    pub weights: [f64; MODES],
    /// All modes together.
    now: Gaussian,
}

/// Probability of each mode within its kind of floors.
const PRIOR: [f64; MODES] = {
    let (mut sums, mut prior) = ([0.0; 2], [0.0; MODES]);
    let mut m = 0;
    while m < MODES {
        sums[MODE[m].blurred as usize] += MODE[m].odds;
        m += 1;
    }
    while m > 0 {
        m -= 1;
        prior[m] = MODE[m].odds / sums[MODE[m].blurred as usize];
    }
    prior
};

/// Random walk of the rate in a mode, 1/√s.
#[must_use]
pub fn walk(mode: &Mode, c: &Constants) -> f64 {
    let step = if mode.steps < 0 { 1.0 / c.step } else { c.step };
    (0..mode.steps.abs()).fold(c.walk, |walk, _| walk * step)
}

/// Random walks of a mode; `idle` is the typical delay, s.
fn walks(mode: &Mode, idle: f64, c: &Constants) -> Walks {
    let square = |walk: f64| walk * walk;
    let alike = [c.floor_walk, c.tide_slow, c.tide_fast][mode.tide];
    Walks { rate: square(walk(mode, c)), alike: square(alike * idle) }
}

impl Oscillator {
    /// All modes begin with the same law.
    #[must_use]
    pub fn new(law: Gaussian, c: &Constants) -> Oscillator {
        let kinds = [1.0 - c.blurred, c.blurred];
        let weights = core::array::from_fn(|m| PRIOR[m] * kinds[usize::from(MODE[m].blurred)]);
        Oscillator { modes: [law; MODES], weights, now: law }
    }

    /// Moves on by `dt` seconds; `idle` is the typical delay, s.
    pub fn predict(&mut self, dt: f64, idle: f64, c: &Constants) {
        let other_kind = c.rare();
        // A mode lasts as long as quiet has to last before nothing but the likeliest is left.
        let change = 1.0 / QUIET as f64;
        let blurred = self.share(|mode| mode.blurred);
        let kinds = [1.0 - blurred, blurred];
        let modes = self.modes.iter_mut().zip(&mut self.weights).zip(PRIOR).zip(&MODE);
        for (((law, weight), prior), mode) in modes {
            let (own, other) =
                (kinds[usize::from(mode.blurred)], kinds[usize::from(!mode.blurred)]);
            let kept = (1.0 - change - other_kind) * *weight;
            *weight = kept + prior * (change * own + other_kind * other);
            let own = kept / *weight;
            if own < 0.5 {
                *law = law.mixed(own, &self.now);
            }
            law.predict(dt, &walks(mode, idle, c));
        }
        self.sum_up();
    }

    /// The states, all modes together.
    #[must_use]
    pub fn now(&self) -> &Gaussian {
        &self.now
    }

    fn sum_up(&mut self) {
        self.now = Gaussian::mixture(self.weights.iter().copied().zip(&self.modes));
    }

    /// Probability of all modes that are such, together.
    #[must_use]
    pub fn share(&self, such: impl Fn(&Mode) -> bool) -> f64 {
        self.weights.iter().zip(&MODE).filter(|(_, mode)| such(mode)).map(|(w, _)| w).sum()
    }

    /// Variance that the rate gains per second.
    #[must_use]
    pub fn walk(&self, c: &Constants) -> f64 {
        let square = |mode| walk(mode, c) * walk(mode, c);
        self.weights.iter().zip(&MODE).map(|(w, mode)| w * square(mode)).sum()
    }

    /// Does the same to every mode.
    pub fn each(&mut self, f: impl FnMut(&mut Gaussian)) {
        self.modes.iter_mut().for_each(f);
        self.sum_up();
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
        self.sum_up();
        top + libm::log(sum)
    }
}
