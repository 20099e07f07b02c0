//! The limit: a clock that is told what no clock can know of a path-day.
//!
//! Of each packet it is told the law of the delay: the floors, the loads, how wide jitter is just
//! then and when the radio woke up; of the oscillator how far its rate walks, and its course but for
//! that (or, if it is to learn it, only its kind). What is left is each packet's own luck. From the
//! stamps that all clocks get it works out the posterior of offset and rate, a Gaussian that takes
//! on the exact mean and variance after each exchange. A clock that keeps the whole posterior could
//! do better; the tests compare it with one of particles.

#![allow(clippy::indexing_slicing)] // All indices run over lists that are as long as each other.

use std::collections::VecDeque;
use std::sync::Arc;

use truechimer_estimators::stated;
use truechimer_feedforward::number::{seconds, span};
use truechimer_feedforward::{Accepted, Estimate, Estimator, Exchange, Refusal, Settings};
use truechimer_time::{Count, Instant, Rate};

use super::law::{Common, Density, Told};
use super::{BEGIN, Day, Foretold, Realised, Technology};
use crate::OscillatorSpec;
use crate::direct::Packets;
use crate::host::BEGUN;
use crate::oscillator::{Oscillator, Ramp, Sine};

/// Technologies whose laws are written down.
const TOLD: [Technology; 5] = [
    Technology::Ethernet,
    Technology::Wifi,
    Technology::Leo,
    Technology::Jitter,
    Technology::Quantised,
];
/// Standard deviation of the offset before the first exchange, s.
const OFFSET: f64 = 1.0;
/// Standard deviation of the part of the rate that is not told, before the first exchange.
const RATE: f64 = 1e-8;
/// Number of points at which a posterior is worked out.
const POINTS: usize = 301;
/// Reach of these points either way, standard deviations.
const REACH: f64 = 7.0;
/// Number of laws that are looked through for one alike.
const KEPT: usize = 32;
/// Time by which the noise of stamps may make a delay shorter than its floor, s.
const SLACK: f64 = 5e-7;
/// Number of steps in which a coarse stamp's true time is looked for.
const FINE: usize = 2000;
/// Length of a stamp's cell from which on that is done, s.
const COARSE: f64 = 1e-8;

/// A clock that is told what no clock can know: see the module's text.
#[derive(Debug)]
pub struct Limit {
    settings: Settings,
    told: Arc<[Law]>,
    /// Number of the next exchange.
    next: usize,
    /// Variance that the walk adds to the rate each second, 1/s.
    walk: f64,
    /// Course of the oscillator as far as it is told.
    course: Oscillator,
    /// Course that one unit of each unknown number adds.
    unknown: Vec<Oscillator>,
    /// Offset, counter − truth but for the told course, s; rate of the walk; unknown numbers.
    mean: Vec<f64>,
    covariance: Vec<Vec<f64>>,
    /// Time of these by the counter, s since the start of the day.
    at: f64,
    /// Count of the last exchange.
    heard: Count,
}

/// Times of an exchange by the counter, but for the told course and the rate, s since the start of
/// the day: if the offset is x, the request left at `sent` − x and the reply came at
/// `received` − x.
struct Seen {
    sent: f64,
    received: f64,
}

/// Laws of an exchange, and the densities there and back.
#[derive(Debug)]
struct Law {
    told: Foretold,
    ways: [Way; 2],
}

/// Law of one direction.
#[derive(Debug)]
struct Way {
    density: Arc<Density>,
    /// Factor by which its delays are longer than the density's.
    stretch: f64,
}

impl Way {
    /// Density of a delay above the floor, 1/s.
    fn at(&self, delay: f64) -> f64 {
        self.density.at(delay / self.stretch) / self.stretch
    }

    /// Probability of at most this delay above the floor.
    fn below(&self, delay: f64) -> f64 {
        self.density.below(delay / self.stretch)
    }
}

/// Laws of a day's exchanges; with `all` even what nobody could learn of them.
fn laws(day: &Day, all: bool) -> Arc<[Law]> {
    let mut last: VecDeque<Arc<Density>> = VecDeque::new();
    let mut density = |way: &Told| {
        if let Some(found) = last.iter().find(|density| density.is_of(&way.pieces)) {
            return Arc::clone(found);
        }
        let new = Arc::new(Density::of(&way.pieces));
        last.push_front(Arc::clone(&new));
        last.truncate(KEPT);
        new
    };
    let mut way = |told: &Told| {
        let density = density(told);
        Way { stretch: density.stretch(&told.pieces), density }
    };
    let law = |told: Foretold| Law { ways: told.ways.each_ref().map(&mut way), told };
    day.tell(all).into_iter().map(law).collect()
}

impl Realised {
    /// Limits of this day: one that is told all, and one that learns what can be learnt. None if
    /// the laws of its technology are not written down.
    #[must_use]
    pub fn limits(&self, packets: &Packets) -> Vec<Limit> {
        if !TOLD.contains(&self.day.technology) {
            return Vec::new();
        }
        [false, true].map(|learns| self.limit(packets, learns)).into()
    }

    fn limit(&self, packets: &Packets, learns: bool) -> Limit {
        let (settings, _) = packets.known();
        let spec = &self.oscillator;
        let none = OscillatorSpec::default();
        let sine = |sine: &Sine, phase_deg| OscillatorSpec {
            sines: vec![Sine { amplitude_ppm: 1.0, phase_deg, ..*sine }],
            ..none.clone()
        };
        let ramp = |ramp: &Ramp| OscillatorSpec {
            ramps: vec![Ramp { ppm: 1.0, ..*ramp }],
            ..none.clone()
        };
        // Variance and course of each number.
        let mut unknown: Vec<(f64, OscillatorSpec)> = Vec::new();
        if learns {
            for s in &spec.sines {
                let size = s.amplitude_ppm * s.amplitude_ppm / 2.0;
                unknown.extend([(size, sine(s, 0.0)), (size, sine(s, 90.0))]);
            }
            // Evenly from −0.1 to 0.1 ppm.
            unknown.extend(spec.ramps.iter().map(|r| (0.01 / 3.0, ramp(r))));
        }
        let variances: Vec<f64> =
            [OFFSET * OFFSET, RATE * RATE].into_iter().chain(unknown.iter().map(|u| u.0)).collect();
        let row = |i: usize| {
            (0..variances.len()).map(|j| if i == j { variances[i] } else { 0.0 }).collect()
        };
        let skew = OscillatorSpec { skew_ppm: spec.skew_ppm, ..none.clone() };
        let course = if learns { &skew } else { spec };
        Limit {
            settings,
            told: laws(&self.day, !learns),
            next: 0,
            walk: spec.walk_per_root_s * spec.walk_per_root_s,
            course: Oscillator::new(course, 0),
            unknown: unknown.iter().map(|u| Oscillator::new(&u.1, 0)).collect(),
            mean: vec![0.0; variances.len()],
            covariance: (0..variances.len()).map(row).collect(),
            at: 0.0,
            heard: BEGUN,
        }
    }
}

impl Limit {
    /// Time that the counter shows, s since the start of the day.
    fn shown(&self, count: Count) -> f64 {
        seconds(self.settings.nominal.span(count - BEGUN))
    }

    /// By how much each number moves the offset from one time to another.
    fn moves(&self, from: f64, to: f64) -> Vec<f64> {
        let unknown = self.unknown.iter().map(|u| u.course(to) - u.course(from));
        [1.0, to - from].into_iter().chain(unknown).collect()
    }

    /// Mean of the offset at a time.
    fn mean_at(&self, to: f64) -> f64 {
        self.moves(self.at, to).iter().zip(&self.mean).map(|(a, b)| a * b).sum()
    }

    /// Carries mean and covariance on to a later time.
    fn predict(&mut self, to: f64) {
        let dt = to - self.at;
        let moves = self.moves(self.at, to);
        self.mean[0] = self.mean_at(to);
        let p = &mut self.covariance;
        let column: Vec<f64> =
            p.iter().map(|row| row.iter().zip(&moves).map(|(a, b)| a * b).sum()).collect();
        let offset = column.iter().zip(&moves).map(|(a, b)| a * b).sum::<f64>();
        for (i, value) in column.into_iter().enumerate().skip(1) {
            p[0][i] = value;
            p[i][0] = value;
        }
        let q = self.walk * dt;
        p[0][0] = offset + q * dt * dt / 3.0;
        p[0][1] += q * dt / 2.0;
        p[1][0] += q * dt / 2.0;
        p[1][1] += q;
        self.at = to;
    }

    /// Takes on a new mean and variance of the offset.
    fn absorb(&mut self, mean: f64, variance: f64) {
        let before = self.covariance[0][0];
        let gains: Vec<f64> = self.covariance.iter().map(|row| row[0] / before).collect();
        let by = mean - self.mean[0];
        for (i, gain) in gains.iter().enumerate() {
            self.mean[i] += gain * by;
            for (j, other) in gains.iter().enumerate() {
                self.covariance[i][j] -= gain * other * (before - variance);
            }
        }
    }

    /// Mean and variance of the offset after an exchange; `None` if nothing is left of it.
    fn posterior(&self, law: &Law, seen: &Seen) -> Option<(f64, f64)> {
        let told = &law.told;
        let likelihood = likelihood(law, seen);
        let (centre, deviation) = (self.mean[0], self.covariance[0][0].sqrt());
        // Packets go forward in time.
        let [arrived, left] = told.cells;
        let [there, back] = told.ways.each_ref().map(|way| way.floor - SLACK);
        let mut low = (centre - REACH * deviation).max(seen.sent - arrived.1 + there);
        let mut high = (centre + REACH * deviation).min(seen.received - left.0 - back);
        if low >= high {
            return None;
        }
        // Closer and closer, until the posterior is some points wide.
        for _ in 0..16 {
            let step = (high - low) / (POINTS - 1) as f64;
            let place = |i: usize| low + i as f64 * step;
            let weight = |i: usize| {
                let z = (place(i) - centre) / deviation;
                libm::exp(-0.5 * z * z) * likelihood(place(i))
            };
            let weights: Vec<f64> = (0..POINTS).map(weight).collect();
            let sum: f64 = weights.iter().sum();
            if sum <= 0.0 {
                return None;
            }
            let moment = |of: &dyn Fn(f64) -> f64| {
                weights.iter().enumerate().map(|(i, w)| w * of(place(i))).sum::<f64>() / sum
            };
            let mean = moment(&|x| x);
            let variance = moment(&|x| (x - mean) * (x - mean));
            let found = variance.sqrt();
            if found > 5.0 * step {
                return Some((mean, variance));
            }
            let reach = REACH * found.max(step);
            (low, high) = (low.max(mean - reach), high.min(mean + reach));
        }
        None
    }
}

/// Likelihood of an offset, s, up to a factor.
fn likelihood<'a>(law: &'a Law, seen: &'a Seen) -> Box<dyn Fn(f64) -> f64 + 'a> {
    let Law { told, ways: [there, back] } = law;
    let [way, back_way] = &told.ways;
    let [arrived, left] = told.cells;
    if arrived.1 - arrived.0 > COARSE {
        // The request came at one time or another that both stamps allow; the round trip tells
        // when the reply would have left.
        let from = arrived.0.max(left.0 - told.residence);
        let to = arrived.1.min(left.1 - told.residence);
        let queues = seen.received - seen.sent - told.residence - way.floor - back_way.floor;
        // Queues there, dense where one of the two is short.
        let half = queues.max(0.0) / 2.0 + SLACK;
        let edge = |i: usize| {
            let u = 2.0 * i as f64 / FINE as f64;
            let short = libm::pow(u.min(2.0 - u), 4.0) * half;
            if u < 1.0 { short - SLACK } else { 2.0 * half - short - SLACK }
        };
        let edges: Vec<f64> = (0..=FINE).map(edge).collect();
        let mut sum = 0.0;
        let mut sums = vec![0.0];
        for pair in edges.windows(2) {
            let middle = 0.5 * (pair[0] + pair[1]);
            sum += there.at(middle) * back.at(queues - middle) * (pair[1] - pair[0]);
            sums.push(sum);
        }
        return Box::new(move |x| {
            let below = |at: f64| {
                let queue = at - (seen.sent - x) - way.floor;
                let i = edges.partition_point(|edge| *edge <= queue).clamp(1, FINE) - 1;
                let share = (queue - edges[i]) / (edges[i + 1] - edges[i]);
                sums[i] + share.clamp(0.0, 1.0) * (sums[i + 1] - sums[i])
            };
            below(to) - below(from) + 1e-12 * sum
        });
    }
    let prior = way.common.map(Common::prior).unwrap_or_default();
    Box::new(move |x| {
        let (sent, received) = (seen.sent - x, seen.received - x);
        let begun = back_way.released.unwrap_or(left.0);
        let (request, reply) = (arrived.0 - sent - way.floor, received - begun - back_way.floor);
        if !prior.is_empty() {
            let both = |(e, p): &(f64, f64)| p * there.at(request - e) * back.at(reply - e);
            return prior.iter().map(both).sum();
        }
        let forward = match (way.slot, way.released.is_some()) {
            (Some((slot, period)), _) => {
                there.below(slot - sent) - there.below(slot - period - sent) + 1e-9
            }
            (_, true) => 1.0,
            _ => there.at(request),
        };
        forward * if back_way.lost { 1.0 } else { back.at(reply) }
    })
}

impl Estimator for Limit {
    fn exchange(&mut self, x: &Exchange) -> Result<Accepted, Refusal> {
        let told = Arc::clone(&self.told);
        let Some(law) = told.get(self.next) else { return Ok(Accepted::Refined) };
        self.next += 1;
        let (sent, received) = (self.shown(x.sent.count), self.shown(x.received.count));
        self.predict(received);
        let course = self.course.course(received) - self.course.course(sent);
        let moved = self.mean_at(received) - self.mean_at(sent) + course;
        let known = received - self.course.course(received);
        let seen = Seen { received: known, sent: known - (received - sent) + moved };
        if let Some((mean, variance)) = self.posterior(law, &seen) {
            self.absorb(mean, variance);
        }
        self.heard = x.received.count;
        Ok(Accepted::Refined)
    }

    fn estimate(&self, at: Count) -> Option<Estimate> {
        if self.heard == BEGUN {
            return None;
        }
        let shown = self.shown(at);
        let time = shown - self.course.course(shown) - self.mean_at(shown);
        let period = self.settings.nominal;
        let deviation = span(self.covariance[0][0].max(0.0).sqrt());
        let time = Instant::new(BEGIN, 0) + span(time);
        Some(stated(at, time, period, deviation, self.heard))
    }

    fn new_epoch(&mut self) {}

    fn set_max_wander(&mut self, _: Rate) {}
}

#[cfg(test)]
mod tests;
