//! A filter that is told the truth about its oscillator and its path, as a measure for the others.
//!
//! It knows how far the oscillator's rate walks, both floors, and that what comes on top is
//! exponential, with which mean. What it makes of the stamps is, but for the moments that are all
//! it keeps of a belief, the best that can be made of them; no clock is told as much.
//!
//! A Kalman filter of θ (true time − what the counter shows at its nominal period) and its rate. A
//! request's stamps show θ from above by its floor and its queue, a reply's likewise from below. The
//! mean rate of the last 1000 s, by which intervals are measured, is from θ now to θ then by all
//! that is known now: a smoother of fixed lag.

#![allow(clippy::indexing_slicing)] // All indices run over arrays of a fixed length.

use core::f64::consts::FRAC_1_SQRT_2;

use truechimer_feedforward::number::{rate, seconds, span};
use truechimer_feedforward::{Accepted, Estimate, Estimator, Exchange, Refusal, Settings};
use truechimer_time::{Count, Instant, Rate};

use crate::stated;

/// Standard deviations of what it does not know before the first exchange: offset, s, and rate.
const OFFSET: f64 = 1.0;
const RATE: f64 = 1e-4;
/// Random walk of the phase, s per √s: counter reads and short-term noise of the oscillator.
const PHASE_WALK: f64 = 2e-9;
/// The least variance: rounding may not make one vanish.
const LEAST_VARIANCE: f64 = 1e-26;
/// The intervals that the mean rate is for, s.
const INTERVAL: f64 = 1000.0;
/// Between two of the past values of θ that are kept, s: it is nearly straight in between.
const APART: f64 = 120.0;
/// Number of those that are kept: the oldest is an interval old even just before a new one is kept.
const KEPT: usize = 10;
/// √(2/π).
const SQRT_2_OVER_PI: f64 = 0.797_884_560_802_865_4;
/// From here on, in deviations, a continued fraction is exact enough for the tail of the normal
/// law, and `erfc` soon underflows.
const FAR: f64 = 12.0;

/// Facts that it is told.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Truth {
    /// Random walk of the oscillator's rate, per √s.
    pub walk: f64,
    /// The least delay of a request and of a reply, s.
    pub floors: [f64; 2],
    /// The mean of what comes on top, exponentially, s.
    pub queues: [f64; 2],
    /// Noise of a stamp, s.
    pub noise: f64,
}

/// θ and its rate.
type Vector = [f64; 2];

/// θ at an earlier time.
#[derive(Clone, Copy, Debug)]
struct Then {
    /// Time since then, s.
    age: f64,
    theta: f64,
    /// Covariance with θ and rate now.
    with: Vector,
}

#[derive(Clone, Debug)]
struct Filter {
    /// Mean and covariance of θ and rate.
    x: Vector,
    p: [Vector; 2],
    /// Variance that the rate gains per second.
    walk: f64,
    /// Newest first.
    past: Vec<Then>,
    /// The last step, s.
    gap: f64,
}

/// See the module's text.
#[derive(Clone, Debug)]
pub struct Told {
    settings: Settings,
    truth: Truth,
    filter: Filter,
    anchor: Option<(Count, Instant)>,
    at: Count,
}

impl Filter {
    fn new(walk: f64) -> Filter {
        let p = [[OFFSET * OFFSET, 0.0], [0.0, RATE * RATE]];
        Filter { x: [0.0; 2], p, walk: walk * walk, past: Vec::new(), gap: 0.0 }
    }

    fn predict(&mut self, dt: f64) {
        if self.past.first().is_none_or(|newest| newest.age >= APART) {
            self.past.truncate(KEPT - 1);
            let with = [self.p[0][0], self.p[1][0]];
            self.past.insert(0, Then { age: 0.0, theta: self.x[0], with });
        }
        for then in &mut self.past {
            then.age += dt;
            then.with[0] += dt * then.with[1];
        }
        self.gap = dt;
        self.x[0] += self.x[1] * dt;
        let [[theta, both], [_, rate]] = self.p;
        let q = self.walk * dt;
        let both_then = both + dt * rate + q * dt / 2.0;
        self.p[0][0] = theta
            + dt * (2.0 * both + dt * rate)
            + PHASE_WALK * PHASE_WALK * dt
            + q * dt * dt / 3.0;
        self.p[0][1] = both_then;
        self.p[1][0] = both_then;
        self.p[1][1] = rate + q;
    }

    /// A sum of θ and rate was seen, with the noise `noise` and exponentially late by `queue` in the
    /// mean, s.
    fn absorb(&mut self, sum: Vector, seen: f64, noise: f64, queue: f64) {
        let dot = |a: &Vector| a[0] * sum[0] + a[1] * sum[1];
        let covariance = [dot(&self.p[0]), dot(&self.p[1])];
        let total = dot(&covariance) + noise * noise;
        let deviation = libm::sqrt(total);
        let over = seen - dot(&self.x);
        let (late, variance) = lateness(over / deviation, deviation / queue);
        let (by, less) = (over - deviation * late, total * (1.0 - variance));
        for then in &mut self.past {
            let gain = dot(&then.with) / total;
            then.theta += gain * by;
            for (with, c) in then.with.iter_mut().zip(covariance) {
                *with -= gain * c / total * less;
            }
        }
        let gain = covariance.map(|c| c / total);
        for i in 0..2 {
            self.x[i] += gain[i] * by;
            for j in 0..2 {
                self.p[i][j] -= less * gain[i] * gain[j];
            }
            self.p[i][i] = self.p[i][i].max(LEAST_VARIANCE);
        }
    }

    /// The mean rate of the [`INTERVAL`] that ends `dt` after the last step. Between two exchanges
    /// it is the one for the middle between them.
    fn mean_rate(&self, dt: f64) -> f64 {
        let ahead = self.gap / 2.0;
        let before = INTERVAL - ahead;
        let older = self.past.iter().position(|then| then.age >= before);
        let [theta, rate] = self.x;
        let mean = match older.map_or(self.past.last(), |k| self.past.get(k)) {
            Some(then) if before > 0.0 => {
                let (age, there) = match older {
                    None => (then.age, then.theta),
                    Some(k) => {
                        let next = k.checked_sub(1).and_then(|k| self.past.get(k));
                        let young = next.map_or((0.0, theta), |next| (next.age, next.theta));
                        let share = (before - young.0) / (then.age - young.0).max(1e-300);
                        (before, young.1 + share * (then.theta - young.1))
                    }
                };
                (theta + rate * ahead - there) / (age + ahead).max(1.0)
            }
            _ => rate,
        };
        // The newest of the interval is as now.
        let newer = ((dt - 2.0 * ahead) / INTERVAL).clamp(0.0, 1.0);
        mean + newer * (rate - mean)
    }

    /// Variance of θ `dt` seconds later.
    fn variance(&self, dt: f64) -> f64 {
        let [[theta, both], [_, rate]] = self.p;
        let walked = self.walk * dt.abs() * dt * dt / 3.0;
        (theta + 2.0 * dt * both + dt * dt * rate + walked).max(0.0)
    }
}

/// Conclusions from z = y + e, where y is normal and e exponential: the mean of e, in deviations of
/// y, and the variance of y, as a share of what it was. z lies `distance` deviations above the mean
/// of y, whose deviation is `tilt` times the mean of e.
///
/// Given z, y is normal about a mean that is lower by `tilt`, and cut off at z.
fn lateness(distance: f64, tilt: f64) -> (f64, f64) {
    // How far the cut lies below that mean, in deviations.
    let depth = tilt - distance;
    let (hazard, excess) = if depth < FAR {
        let tail = libm::erfc(depth * FRAC_1_SQRT_2);
        let hazard = SQRT_2_OVER_PI * libm::exp(-depth * depth / 2.0) / tail;
        (hazard, hazard - depth)
    } else {
        let t = depth;
        let excess = 1.0 / (t + 2.0 / (t + 3.0 / (t + 4.0 / (t + 5.0 / (t + 6.0 / t)))));
        (depth + excess, excess)
    };
    (excess, (1.0 - hazard * excess).clamp(1e-9, 1.0))
}

impl Told {
    /// One that is told this.
    #[must_use]
    pub fn new(settings: Settings, truth: Truth) -> Told {
        let filter = Filter::new(truth.walk);
        Told { settings, truth, filter, anchor: None, at: Count::default() }
    }

    fn seconds(&self, from: Count, to: Count) -> f64 {
        seconds(self.settings.nominal.span(to - from))
    }
}

impl Estimator for Told {
    fn exchange(&mut self, x: &Exchange) -> Result<Accepted, Refusal> {
        if (x.received.count - x.sent.count).0 <= 0 {
            return Err(Refusal::CounterBackwards);
        }
        let first = self.anchor.is_none();
        let anchor = *self.anchor.get_or_insert((x.received.count, x.server_sent));
        if !first {
            self.filter.predict(self.seconds(self.at, x.received.count));
        }
        self.at = x.received.count;
        let shown = |count: Count| anchor.1 + self.settings.nominal.span(count - anchor.0);
        let late = [
            seconds(x.server_received - shown(x.sent.count)),
            seconds(shown(x.received.count) - x.server_sent),
        ];
        let duration = self.seconds(x.sent.count, x.received.count);
        let Truth { floors, queues, noise, .. } = self.truth;
        for (d, sum) in [[1.0, -duration], [-1.0, 0.0]].into_iter().enumerate() {
            self.filter.absorb(sum, late[d] - floors[d], noise, queues[d]);
        }
        Ok(Accepted::Refined)
    }

    fn estimate(&self, at: Count) -> Option<Estimate> {
        let (count, time) = self.anchor?;
        let (dt, nominal) = (self.seconds(self.at, at), self.settings.nominal);
        let [theta, now] = self.filter.x;
        let deviation = span(libm::sqrt(self.filter.variance(dt)));
        let rate_error = rate(libm::sqrt(self.filter.p[1][1]));
        let time = time + nominal.span(at - count) + span(theta + now * dt);
        Some(Estimate {
            difference: nominal.scaled(rate(self.filter.mean_rate(dt))),
            difference_error: rate_error,
            difference_deviation: rate_error,
            rtt_floor: span(self.truth.floors.iter().sum()),
            ..stated(at, time, nominal.scaled(rate(now)), deviation, self.at)
        })
    }

    fn new_epoch(&mut self) {
        *self = Told::new(self.settings, self.truth);
    }

    fn set_max_wander(&mut self, _: Rate) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Conclusions by adding up: e in deviations of y.
    fn summed(distance: f64, tilt: f64) -> (f64, f64) {
        let (mut mass, mut first, mut second) = (0.0, 0.0, 0.0);
        for k in 0..400_000 {
            let e = (f64::from(k) + 0.5) * 1e-4;
            let y = distance - e;
            let weight = libm::exp(-y * y / 2.0 - e * tilt);
            (mass, first, second) = (mass + weight, first + weight * e, second + weight * e * e);
        }
        let mean = first / mass;
        (mean, second / mass - mean * mean)
    }

    #[test]
    fn lateness_agrees_with_the_integral() {
        for (distance, tilt) in [(0.0, 1.0), (-3.0, 0.5), (5.0, 0.1), (1.0, 11.5), (1.0, 13.5)] {
            let ((late, variance), (mean, by_sum)) =
                (lateness(distance, tilt), summed(distance, tilt));
            assert!((late / mean - 1.0).abs() < 1e-4, "{distance}: {late} {mean}");
            assert!((variance / by_sum - 1.0).abs() < 1e-3, "{distance}: {variance} {by_sum}");
        }
        for (distance, tilt) in [(-1e6, 1e6), (1e6, 1e-6), (0.0, 1e18)] {
            let (late, variance) = lateness(distance, tilt);
            assert!(late.is_finite() && late >= 0.0 && variance >= 1e-9, "{late} {variance}");
        }
    }

    #[test]
    fn the_mean_rate_is_that_of_the_last_1000_s() {
        // 1 ppm until 4000 s, and 2 ppm from then on; the rate is that of the middle of the gap.
        let theta = |t: f64| 1e-6 * t + 1e-6 * (t - 4000.0).max(0.0);
        for (until, mean) in [(240u32, 1e-6), (280, 1.488e-6), (400, 2e-6)] {
            let mut filter = Filter::new(1e-8);
            for k in 1..=until {
                filter.predict(16.0);
                // Next to no queue.
                filter.absorb([1.0, 0.0], theta(16.0 * f64::from(k)), 1e-6, 1e-9);
            }
            let found = filter.mean_rate(0.0);
            assert!((found - mean).abs() < 0.03e-6, "{until}: {found:e}");
            assert!(filter.past.len() <= KEPT);
        }
    }
}
