//! The filter: offset and rate of a free-running oscillator, and the delay floors of both
//! directions.

#![allow(clippy::indexing_slicing)] // All indices run over arrays of a fixed length.

use crate::past::{MeanRate, Now, Past};

/// How many states there are.
pub(crate) const STATES: usize = 4;
/// θ: true time − what the counter shows at its nominal period, s.
pub(crate) const THETA: usize = 0;
/// How fast θ grows.
pub(crate) const RATE: usize = 1;
/// The floors under the delays, s: request and reply.
pub(crate) const FLOORS: [usize; 2] = [2, 3];

/// Random walk of the phase, s per √s: counter reads and short-term noise of the oscillator.
const PHASE_WALK: f64 = 2e-9;
/// Rounding may not make a variance vanish.
const LEAST_VARIANCE: f64 = 1e-26;

/// One number for each state.
pub(crate) type Vector = [f64; STATES];

/// The states and their covariance.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Filter {
    pub(crate) x: Vector,
    pub(crate) p: [Vector; STATES],
    /// Random walk of the rate, per √s.
    pub(crate) walk: f64,
    /// Where θ was.
    pub(crate) past: Past,
    /// How long it was between the newest two exchanges, s.
    pub(crate) gap: f64,
}

/// A sum of states: its mean and variance, and its covariance with each of the states.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Projection {
    pub(crate) mean: f64,
    pub(crate) variance: f64,
    sum: Vector,
    covariance: Vector,
}

/// The sums of states that an exchange of some duration (s) measures, each from above: what the
/// request's stamps say, and the reply's, negated. Both are for θ at the reply's arrival.
pub(crate) fn sums(duration: f64) -> [Vector; 2] {
    [[1.0, -duration, 1.0, 0.0], [-1.0, 0.0, 0.0, 1.0]]
}

/// The sum of both floors.
pub(crate) const BOTH_FLOORS: Vector = [0.0, 0.0, 1.0, 1.0];

impl Filter {
    /// The floors are the same at first, and in this only they are known: a difference of them is
    /// an offset that no measurement shows.
    pub(crate) fn new(theta: Known, rate: Known, floor: Known, walk: f64) -> Filter {
        let x = [theta.mean, rate.mean, floor.mean, floor.mean];
        let (p, past) = ([[0.0; STATES]; STATES], Past::default());
        let mut filter = Filter { x, p, walk, past, gap: 0.0 };
        filter.inflate(&[theta.deviation, 0.0, 0.0, 0.0], 1.0);
        filter.inflate(&[0.0, rate.deviation, 0.0, 0.0], 1.0);
        filter.inflate(&[0.0, 0.0, floor.deviation, floor.deviation], 1.0);
        filter
    }

    /// Moves on by `dt` seconds. Meanwhile both floors may have changed by the same `floor_walk`.
    pub(crate) fn predict(&mut self, dt: f64, floor_walk: f64) {
        let walk = self.walk * self.walk;
        self.past.predict(&Now { x: &self.x, p: &self.p, walk }, dt);
        self.gap = dt;
        self.x[THETA] += self.x[RATE] * dt;
        for j in 0..STATES {
            self.p[THETA][j] += dt * self.p[RATE][j];
        }
        for row in &mut self.p {
            row[THETA] += dt * row[RATE];
        }
        self.p[THETA][THETA] += PHASE_WALK * PHASE_WALK * dt + walk * dt * dt * dt / 3.0;
        self.p[THETA][RATE] += walk * dt * dt / 2.0;
        self.p[RATE][THETA] += walk * dt * dt / 2.0;
        self.p[RATE][RATE] += walk * dt;
        self.inflate(&BOTH_FLOORS, floor_walk * floor_walk);
    }

    /// Adds `by` times a direction.
    pub(crate) fn shift(&mut self, direction: &Vector, by: f64) {
        for (x, d) in self.x.iter_mut().zip(direction) {
            *x += d * by;
        }
    }

    /// Adds uncertainty along a direction.
    pub(crate) fn inflate(&mut self, direction: &Vector, variance: f64) {
        for (row, a) in self.p.iter_mut().zip(direction) {
            for (p, b) in row.iter_mut().zip(direction) {
                *p += variance * a * b;
            }
        }
    }

    /// What was known was off by so much along a direction all the time, and is less certain.
    pub(crate) fn correct(&mut self, direction: &Vector, by: f64, variance: f64) {
        self.past.correct(direction, by, variance);
        self.shift(direction, by);
        self.inflate(direction, variance);
    }

    /// The path is another one from now on, whose floors are these: each to its deviation by
    /// itself, or both to the same, if they are `alike`.
    pub(crate) fn begin_path(&mut self, floors: [Known; 2], alike: bool) {
        for (i, floor) in FLOORS.into_iter().zip(floors) {
            self.x[i] = floor.mean;
            for j in 0..STATES {
                (self.p[i][j], self.p[j][i]) = (0.0, 0.0);
            }
            self.past.forget(i);
        }
        let [first, second] = floors.map(|floor| floor.deviation);
        if alike {
            self.inflate(&[0.0, 0.0, first, second], 1.0);
        } else {
            self.inflate(&[0.0, 0.0, first, 0.0], 1.0);
            self.inflate(&[0.0, 0.0, 0.0, second], 1.0);
        }
    }

    /// Nothing is known of where it was.
    pub(crate) fn forget_past(&mut self) {
        self.past = Past::default();
    }

    /// How far ahead of the newest exchange its mean rate is aimed, s: halfway to the next.
    pub(crate) fn ahead(&self) -> f64 {
        self.gap / 2.0
    }

    /// The mean rate of the last 1000 s.
    pub(crate) fn mean_rate(&self) -> MeanRate {
        let walk = self.walk * self.walk;
        self.past.mean_rate(&Now { x: &self.x, p: &self.p, walk }, self.ahead())
    }

    /// What is known of a sum of states.
    pub(crate) fn project(&self, sum: &Vector) -> Projection {
        let dot = |v: &Vector| v.iter().zip(sum).map(|(a, b)| a * b).sum::<f64>();
        let covariance: Vector = core::array::from_fn(|i| dot(&self.p[i]));
        Projection {
            mean: dot(&self.x),
            variance: dot(&covariance).max(0.0),
            sum: *sum,
            covariance,
        }
    }

    /// A sum of states, plus noise, of the variance `total` together, has turned out to be `by`
    /// more than its mean, and its variance to be smaller by `less`.
    pub(crate) fn absorb(&mut self, known: &Projection, total: f64, by: f64, less: f64) {
        self.past.absorb(&known.sum, &known.covariance, total, by, less);
        let gain = known.covariance.map(|c| c / total);
        self.shift(&gain, by);
        self.inflate(&gain, -less);
        for i in 0..STATES {
            self.p[i][i] = self.p[i][i].max(LEAST_VARIANCE);
        }
    }

    /// The rate is proven to lie in `low..=high`.
    pub(crate) fn confine(&mut self, low: f64, high: f64) {
        let rate = self.x[RATE].max(low).min(high);
        let by = self.x[RATE] - rate;
        if by != 0.0 {
            self.x[RATE] = rate;
            self.p[RATE][RATE] += by * by;
        }
        let most = (high - low) * (high - low);
        if self.p[RATE][RATE] > most {
            let factor = libm::sqrt(most / self.p[RATE][RATE]);
            self.past.scale_rate(factor);
            for i in 0..STATES {
                self.p[i][RATE] *= factor;
                self.p[RATE][i] *= factor;
            }
        }
    }
}

/// A mean and a standard deviation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    pub(crate) mean: f64,
    pub(crate) deviation: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_finds_offset_and_rate_of_a_line() {
        let known = |deviation| Known { mean: 0.0, deviation };
        let mut filter = Filter::new(known(1.0), known(1e-3), known(0.0), 1e-9);
        for k in 1..=100u64 {
            filter.predict(16.0, 0.0);
            let theta = filter.project(&[1.0, 0.0, 0.0, 0.0]);
            let total = theta.variance + 1e-12;
            let by = 0.5 + 3e-6 * 16.0 * k as f64 - theta.mean;
            filter.absorb(&theta, total, by, total);
        }
        assert!((filter.x[THETA] - 0.5 - 3e-6 * 1600.0).abs() < 1e-7);
        assert!((filter.x[RATE] - 3e-6).abs() < 1e-8);
        assert!(filter.p[RATE][RATE] > 0.0 && filter.p[RATE][RATE] < 1e-14);
        filter.confine(0.0, 1e-6);
        assert_eq!(filter.x[RATE], 1e-6);
        assert!(filter.p[RATE][RATE] > 0.9e-12, "and it is as open as that leaves it");
    }

    #[test]
    fn a_difference_of_the_floors_is_never_learnt() {
        let known = |mean, deviation| Known { mean, deviation };
        let mut filter = Filter::new(known(0.0, 1e-3), known(0.0, 1e-4), known(1e-3, 1e-3), 1e-9);
        for k in 0..50 {
            filter.predict(16.0, 1e-7);
            for sum in sums(1e-3) {
                let y = filter.project(&sum);
                let total = y.variance + 1e-14;
                filter.absorb(&y, total, 1e-4 * f64::from(k % 3) - y.mean, total / 2.0);
            }
        }
        let [forward, backward] = FLOORS.map(|i| filter.x[i]);
        assert!((forward - backward).abs() < 1e-12, "{forward} {backward}");
    }
}
