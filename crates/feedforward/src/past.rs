//! Where the clock was up to 1000 s ago, by what is known now.
//!
//! A filter says where the clock is. What came since also says where it was: a copy of θ that is
//! kept in the filter, with its covariance with the states, goes on learning with them (a smoother
//! of fixed lag). Copies are made every two minutes, and between two of them the clock went
//! straight. From where it was and where it is follows the mean rate in between, which is what an
//! interval is measured by.

#![allow(clippy::indexing_slicing)] // All indices run over arrays of a fixed length.

use crate::filter::{RATE, STATES, THETA, Vector};

/// The intervals that the mean rate is for, s.
pub(crate) const INTERVAL: f64 = 1000.0;
/// Between two copies, s: the clock strays little from the line between them. A filter that
/// wanders by 10⁻⁹ /√s does by 0.2 µs.
const APART: f64 = 120.0;
/// How many are kept: the oldest is an interval old even just before a new one is made.
const COPIES: usize = 10;

/// A copy of θ.
#[derive(Clone, Copy, Default, Debug)]
struct Copied {
    age: f64,
    theta: f64,
    variance: f64,
    /// Covariance with the filter's states.
    with: Vector,
}

/// The copies of one filter, the newest first.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Past {
    copies: [Copied; COPIES],
    count: usize,
}

/// The filter's states, and their covariance, as far as they matter here.
pub(crate) struct Now<'a> {
    pub(crate) x: &'a Vector,
    pub(crate) p: &'a [Vector; STATES],
    /// Variance that the rate gains per second.
    pub(crate) walk: f64,
}

/// A rate and its variance.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MeanRate {
    pub(crate) rate: f64,
    pub(crate) variance: f64,
}

impl Past {
    /// Time goes on by `dt` seconds from `now`.
    pub(crate) fn predict(&mut self, now: &Now<'_>, dt: f64) {
        if self.copies().first().is_none_or(|newest| newest.age >= APART) {
            self.copies.rotate_right(1);
            self.count = (self.count + 1).min(COPIES);
            let with = core::array::from_fn(|i| now.p[i][THETA]);
            let (theta, variance) = (now.x[THETA], now.p[THETA][THETA]);
            self.copies[0] = Copied { age: 0.0, theta, variance, with };
        }
        for copy in self.copies_mut() {
            copy.age += dt;
            copy.with[THETA] += dt * copy.with[RATE];
        }
    }

    /// A sum of states has turned out to be `by` more than its mean, and its variance, `total` with
    /// noise, to be smaller by `less`; `covariance` is the states' with the sum.
    pub(crate) fn absorb(
        &mut self,
        sum: &Vector,
        covariance: &Vector,
        total: f64,
        by: f64,
        less: f64,
    ) {
        for copy in self.copies_mut() {
            let gain = copy.with.iter().zip(sum).map(|(a, b)| a * b).sum::<f64>() / total;
            copy.theta += gain * by;
            copy.variance = (copy.variance - gain * gain * less).max(0.0);
            for (with, c) in copy.with.iter_mut().zip(covariance) {
                *with -= gain * c / total * less;
            }
        }
    }

    /// θ has always been `by` more along a `direction` of the states, and is so much less certain.
    pub(crate) fn correct(&mut self, direction: &Vector, by: f64, variance: f64) {
        let theta = direction[THETA];
        for copy in self.copies_mut() {
            copy.theta += theta * by;
            copy.variance += theta * theta * variance;
            for (with, d) in copy.with.iter_mut().zip(direction) {
                *with += theta * d * variance;
            }
        }
    }

    /// One of the states is another one from now on: where θ was says nothing of it.
    pub(crate) fn forget(&mut self, state: usize) {
        for copy in self.copies_mut() {
            copy.with[state] = 0.0;
        }
    }

    /// The rate's covariances are less by a factor.
    pub(crate) fn scale_rate(&mut self, factor: f64) {
        for copy in self.copies_mut() {
            copy.with[RATE] *= factor;
        }
    }

    /// The mean rate over the [`INTERVAL`] that ends `ahead` seconds from `now`.
    pub(crate) fn mean_rate(&self, now: &Now<'_>, ahead: f64) -> MeanRate {
        let (x, p) = (now.x, now.p);
        let before = INTERVAL - ahead;
        let older = self.copies().iter().position(|copy| copy.age >= before);
        let Some(end) = older.map_or(self.copies().last(), |k| self.copies().get(k)) else {
            return MeanRate {
                rate: x[RATE],
                variance: p[RATE][RATE] + now.walk * apart_by_walk(0.0, 1.0),
            };
        };
        if before <= 0.0 {
            let variance = p[RATE][RATE] + now.walk * ahead;
            return MeanRate { rate: x[RATE], variance };
        }
        // On the line to the one after it, or to the present.
        let (age, theta) = match older {
            None => (end.age, end.theta),
            Some(k) => {
                let next = k.checked_sub(1).and_then(|k| self.copies().get(k));
                let (young, there) = next.map_or((0.0, x[THETA]), |next| (next.age, next.theta));
                let share = (before - young) / (end.age - young).max(f64::MIN_POSITIVE);
                (before, there + share * (end.theta - there))
            }
        };
        let baseline = (age + ahead).max(1.0);
        let rate = (x[THETA] + x[RATE] * ahead - theta) / baseline;
        let ends = p[THETA][THETA] + 2.0 * ahead * p[THETA][RATE] + ahead * ahead * p[RATE][RATE]
            - 2.0 * (end.with[THETA] + ahead * end.with[RATE])
            + end.variance
            + now.walk * ahead * ahead * ahead / 3.0;
        let short = if older.is_some() { 0.0 } else { apart_by_walk(0.0, baseline) };
        let variance = ends.max(0.0) / (baseline * baseline) + now.walk * short;
        MeanRate { rate, variance }
    }

    fn copies(&self) -> &[Copied] {
        &self.copies[..self.count]
    }

    fn copies_mut(&mut self) -> &mut [Copied] {
        &mut self.copies[..self.count]
    }
}

/// Variance of the difference of two means of a random walk that gains 1 per second: over the time
/// from `young` to `old` seconds ago, and over the last [`INTERVAL`].
pub(crate) fn apart_by_walk(young: f64, old: f64) -> f64 {
    // The integral over v up to `v` of what min(u, v) is on average for u in the interval.
    let shared = |v: f64| {
        if v < INTERVAL {
            v * v / 2.0 - v * v * v / (6.0 * INTERVAL)
        } else {
            INTERVAL * INTERVAL / 3.0 + (v - INTERVAL) * INTERVAL / 2.0
        }
    };
    let covariance = (shared(old) - shared(young)) / (old - young);
    (INTERVAL / 3.0 + young + (old - young) / 3.0 - 2.0 * covariance).max(0.0)
}

#[cfg(test)]
mod tests {
    use crate::filter::{Filter, Known, sums};

    /// A filter that was told θ every 16 s, to 1 µs.
    fn followed(theta: impl Fn(f64) -> f64, until: u32) -> Filter {
        let known = |deviation| Known { mean: 0.0, deviation };
        let mut filter = Filter::new(known(1e-3), known(1e-5), known(0.0), 1e-8);
        for k in 1..=until {
            filter.predict(16.0, 0.0);
            let sum = sums(0.0)[0];
            let now = filter.project(&sum);
            let total = now.variance + 1e-12;
            filter.absorb(&now, total, theta(16.0 * f64::from(k)) - now.mean, total);
        }
        filter
    }

    #[test]
    fn it_is_the_mean_rate_of_1000_s() {
        // 1 ppm until 4000 s, and 2 ppm from then on; the rate is that of the middle of the gap.
        let theta = |t: f64| 1e-6 * t + 1e-6 * (t - 4000.0).max(0.0);
        for (until, mean) in [(240u32, 1e-6), (280, 1.488e-6), (400, 2e-6)] {
            let found = followed(theta, until).mean_rate();
            assert!((found.rate - mean).abs() < 0.03e-6, "{until}: {found:?}");
            assert!(found.variance > 0.0 && found.variance < 1e-16, "{until}: {found:?}");
        }
    }

    #[test]
    fn what_is_known_better_now_was_so_then() {
        let mut filter = followed(|t| 1e-6 * t, 200);
        let before = filter.mean_rate().rate;
        filter.correct(&[1.0, 0.0, 0.0, 0.0], 1e-3, 0.0);
        assert!((filter.mean_rate().rate - before).abs() < 1e-12);
        filter.shift(&[1.0, 0.0, 0.0, 0.0], 1e-3);
        assert!((filter.mean_rate().rate - before - 1e-6).abs() < 0.02e-6);
        filter.forget_past();
        assert!((filter.mean_rate().rate - 1e-6).abs() < 1e-8, "that of now is left");
    }
}
