//! The difference clock's rate: from pairs of good exchanges that lie far apart.
//!
//! It never sees the offset estimate. Each slot of time keeps the exchange with the smallest round
//! trip; the rate is that of the pair, a new slot and an older one, whose error bound is smallest.
//! The bound of a pair follows the floor of the round trip: when the floor turns out to be lower
//! than it was believed, old pairs are worth less.

use std::collections::VecDeque;

use truechimer_time::Count;

/// How long a slot lasts at least, s.
const SLOT_SECONDS: f64 = 64.0;
/// How many slots are kept: 34 minutes at least, about the time scale up to which a quartz
/// oscillator averages (the Allan deviation's minimum lies near 1000 s).
const SLOTS: usize = 32;
/// How many of the newest slots a pair may end in, so that no rate is older than ten minutes.
const NEAR: usize = 8;

/// An exchange as the rate sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Point {
    pub(crate) at: Count,
    /// θ at `at`, up to a constant (the asymmetry of the path), s.
    pub(crate) theta: f64,
    /// Round trip, s: half of what it exceeds the floor by bounds the error of `theta`.
    pub(crate) rtt: f64,
    /// What stamping may have added, s.
    pub(crate) noise: f64,
}

/// The round trip's floor, and by how much it may still be too high, s.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FloorKnown {
    pub(crate) rtt: f64,
    pub(crate) error: f64,
}

/// A rate and the bound of its error.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct SlowRate {
    pub(crate) rate: f64,
    pub(crate) error: f64,
}

#[derive(Clone, Copy, Debug)]
struct Pair {
    far: Point,
    near: Point,
    baseline: f64,
}

#[derive(Clone, Debug)]
pub(crate) struct Slow {
    prior: SlowRate,
    slots: VecDeque<Point>,
    /// When the slot in hand began, and its best so far.
    current: Option<(Count, Point)>,
    best: Option<Pair>,
}

impl Pair {
    fn rate(&self, floor: FloorKnown) -> SlowRate {
        let error = |p: &Point| ((p.rtt - floor.rtt).max(0.0) + floor.error) / 2.0 + p.noise;
        SlowRate {
            rate: (self.near.theta - self.far.theta) / self.baseline,
            error: (error(&self.far) + error(&self.near)) / self.baseline,
        }
    }
}

impl Slow {
    pub(crate) fn new(prior: SlowRate) -> Slow {
        let slots = VecDeque::with_capacity(SLOTS + 1);
        Slow { prior, slots, current: None, best: None }
    }

    /// Forgets the exchanges and keeps the rate.
    pub(crate) fn clear(&mut self, floor: FloorKnown) {
        *self = Slow::new(self.rate(floor));
    }

    pub(crate) fn rate(&self, floor: FloorKnown) -> SlowRate {
        match self.best.map(|pair| pair.rate(floor)) {
            Some(measured) if measured.error < self.prior.error => measured,
            _ => self.prior,
        }
    }

    /// Takes in an exchange; `seconds` measures the span of two counts at the nominal period.
    pub(crate) fn push(
        &mut self,
        point: Point,
        floor: FloorKnown,
        seconds: impl Fn(Count, Count) -> f64,
    ) {
        match &mut self.current {
            Some((start, best)) if seconds(*start, point.at) < SLOT_SECONDS => {
                if point.rtt < best.rtt {
                    *best = point;
                }
                // Until two slots are full, every exchange counts: a start-up burst should give a
                // rate at once.
                if self.slots.len() < 3 {
                    self.choose(point, floor, &seconds);
                }
            }
            Some((start, best)) => {
                let full = *best;
                (*start, *best) = (point.at, point);
                self.slots.push_back(full);
                if self.slots.len() > SLOTS {
                    self.slots.pop_front();
                }
                // What was known before is worth less and less.
                self.prior.error *= 2.0;
                self.best = None;
                self.choose(full, floor, &seconds);
            }
            None => {
                self.current = Some((point.at, point));
                self.slots.push_back(point);
            }
        }
    }

    /// Takes the best pair that ends in `newest` or one of the newest slots, if it beats the one in
    /// force.
    fn choose(&mut self, newest: Point, floor: FloorKnown, seconds: &impl Fn(Count, Count) -> f64) {
        let error = |pair: &Pair| pair.rate(floor).error;
        let near = self.slots.iter().rev().take(NEAR).copied().chain([newest]);
        let candidate = near
            .flat_map(|near| self.slots.iter().map(move |far| (*far, near)))
            .map(|(far, near)| Pair { far, near, baseline: seconds(far.at, near.at) })
            .filter(|pair| pair.baseline > 0.0)
            .min_by(|a, b| error(a).total_cmp(&error(b)));
        let in_force = self.best.as_ref().map_or(f64::INFINITY, error);
        if let Some(pair) = candidate.filter(|pair| error(pair) < in_force) {
            self.best = Some(pair);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_comes_from_far_apart_points() {
        let mut slow = Slow::new(SlowRate { rate: 0.0, error: 500e-6 });
        let seconds = |a: Count, b: Count| (b - a).0 as f64;
        let floor = FloorKnown { rtt: 1e-4, error: 0.0 };
        for k in 0..200u64 {
            // Every tenth exchange is good; the rest are late by up to 1 ms.
            let late = if k % 10 == 0 { 1e-7 } else { 1e-3 * (k % 7 + 1) as f64 / 7.0 };
            let (at, rtt) = (Count(k * 16), 1e-4 + late);
            let theta = 5e-6 * (k * 16) as f64 + late / 2.0;
            slow.push(Point { at, theta, rtt, noise: 0.0 }, floor, seconds);
        }
        let found = slow.rate(floor);
        assert!((found.rate - 5e-6).abs() <= found.error);
        assert!(found.error < 1e-9, "{found:?}");
        let lower = slow.rate(FloorKnown { rtt: 0.0, error: 0.0 });
        assert!(lower.error > 1e-4 / 3200.0, "a lower floor makes old pairs worse: {lower:?}");
    }
}
