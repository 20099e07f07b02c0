//! Rates from pairs of exchanges that lie far apart. None of them ever sees the offset estimate.
//!
//! Each slot of time keeps the exchange with the smallest round trip. Three pairs of them matter:
//!
//! * the pair whose rate is likely to be nearest to the mean rate of the last 1000 s, all errors
//!   weighed, the oscillator's wander among them: its rate is the difference clock's
//!   where the model has not seen all of these;
//! * the pair whose rate is known best *if the delay floor is right*: it says how far
//!   the rate may stray at once, for the model;
//! * the pair whose rate is known best *by causality alone*: θ lies in either exchange's own
//!   interval, whatever the path did, so that the mean rate between them is confined too. It bounds
//!   how wrong the model's rate can be, and so how fast the error bound must grow.

use alloc::collections::VecDeque;

use truechimer_time::Count;

use crate::ours::INTERVAL;

/// How long a slot lasts at least, s.
const SLOT_SECONDS: f64 = 64.0;
/// How many slots are kept: 34 minutes at least, about the time scale up to which a quartz
/// oscillator averages (the Allan deviation's minimum lies near 1000 s).
const SLOTS: usize = 32;
/// How many of the newest slots a pair may end in, so that no rate is older than ten minutes.
const NEAR: usize = 8;
const NEAR_SECONDS: f64 = NEAR as f64 * SLOT_SECONDS;
/// Older exchanges, for long baselines only: how long a slot lasts, s, and how many are kept (2.3
/// hours).
const OLD_SECONDS: f64 = 512.0;
const OLD_SLOTS: usize = 16;
/// The oscillator's wander that its rate is chosen for, per √s: quartz in still air. Four times as
/// much or as little costs a few per cent.
const WANDER: f64 = 1e-9;
/// What stamps are off by is learnt from how far slots stray from the line between their
/// neighbours; so much of the newest counts, ...
const NOISE_GAIN: f64 = 1.0 / 16.0;
/// ... but no more than so many times what was to be expected.
const MOST_STRAYED: f64 = 25.0;
/// Where queueing may explain more than noise, and what strayed is less than so many of its
/// variances, nothing is learnt.
const UNEXPLAINED: f64 = 9.0;
/// Stamps are never thought better than this, s.
const LEAST_NOISE: f64 = 0.3e-6;
/// If nothing is known of how the directions share a round trip's excess, the middle is off by this
/// share of it (standard deviation): 1/√12.
const SHARE: f64 = 0.289;

/// The recent past of which the oscillator promises that its rate stays near the mean, s: 2.8 hours.
/// Of a mean over more (nobody was heard meanwhile) it may be off by as much more.
pub(crate) const PAST_SECONDS: f64 = 10_080.0;

/// An exchange as the rate sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Point {
    pub(crate) at: Count,
    /// The middle of what the exchange allows for θ, s. Off by a constant (the asymmetry of the
    /// path), and by queueing.
    pub(crate) theta: f64,
    /// Round trip, s: half of what it exceeds the floor by bounds what queueing did to `theta`.
    pub(crate) rtt: f64,
    /// Half the width of what causality allows for θ, s: no less than half of `rtt`.
    pub(crate) reach: f64,
    /// What stamping may have added, s.
    pub(crate) noise: f64,
    /// The round trip's floor when the path was another one, s.
    pub(crate) floor: Option<f64>,
    /// The how manyth server it came from.
    pub(crate) server: u32,
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
    /// What was known before, of the difference rate and by causality.
    prior: SlowRate,
    recent_prior: SlowRate,
    causal_prior: SlowRate,
    /// The floor as it was known last.
    floor: FloorKnown,
    /// The how manyth server this is.
    server: u32,
    /// Variance of what points are off by beside queueing, s².
    noise: f64,
    slots: VecDeque<Point>,
    old: VecDeque<Point>,
    old_begun: Option<Count>,
    /// When the slot in hand began, and its best so far.
    current: Option<(Count, Point)>,
    best: Option<Pair>,
    recent: Option<Pair>,
    causal: Option<Pair>,
    /// Where the mean rates of all pairs meet, by causality: the lowest that the rate can be and the
    /// highest, each with the nearer end of the pair that says so.
    confined: [Option<(f64, Count)>; 2],
}

impl Pair {
    fn with_error(&self, error: impl Fn(&Point) -> f64) -> SlowRate {
        SlowRate {
            rate: (self.near.theta - self.far.theta) / self.baseline,
            error: (error(&self.far) + error(&self.near)) / self.baseline,
        }
    }

    fn is_of_one_server(&self) -> bool {
        self.far.server == self.near.server
    }

    /// The rate if the floor is right. A round trip below it is of another path: no less strange
    /// than one above.
    fn rate(&self, floor: FloorKnown) -> SlowRate {
        self.with_error(|p| ((p.rtt - floor.rtt).abs() + floor.error) / 2.0 + p.noise)
    }

    /// The rate by causality alone.
    fn causal_rate(&self) -> SlowRate {
        self.with_error(|p| p.reach)
    }

    /// Variance of what the rate is off by as the mean rate of the last [`INTERVAL`], if the
    /// nearer end is so old, s, and beside queueing points are off by this `noise`, s². That one
    /// path was asymmetric by the other's standard costs half of what their floors differ by.
    fn variance(&self, floor: FloorKnown, noise: f64, age: f64) -> f64 {
        let apart = (self.far.below(floor) - self.near.below(floor)) / 2.0;
        let ends = self.far.queueing(floor) + self.near.queueing(floor) + 2.0 * noise;
        (ends + apart * apart) / (self.baseline * self.baseline)
            + WANDER * WANDER * apart_by_walk(age, age + self.baseline)
    }
}

impl Point {
    /// The floor of the path that it took.
    fn below(&self, floor: FloorKnown) -> f64 {
        self.floor.unwrap_or(floor.rtt)
    }

    /// Variance of what queueing did to θ, s².
    fn queueing(&self, floor: FloorKnown) -> f64 {
        let late = SHARE * ((self.rtt - self.below(floor)).abs() + floor.error / 2.0);
        late * late
    }
}

impl Slow {
    pub(crate) fn new(prior: SlowRate) -> Slow {
        Slow {
            prior,
            recent_prior: prior,
            causal_prior: prior,
            floor: FloorKnown { rtt: f64::INFINITY, error: 0.0 },
            server: 0,
            noise: LEAST_NOISE * LEAST_NOISE,
            slots: VecDeque::with_capacity(SLOTS + 1),
            old: VecDeque::with_capacity(OLD_SLOTS + 1),
            old_begun: None,
            current: None,
            best: None,
            recent: None,
            causal: None,
            confined: [None; 2],
        }
    }

    /// Forgets the exchanges and keeps the rates.
    pub(crate) fn clear(&mut self, floor: FloorKnown) {
        let (causal_prior, recent_prior) = (self.causal_rate(), self.difference(floor));
        let noise = self.noise;
        *self = Slow { causal_prior, recent_prior, noise, ..Slow::new(self.rate(floor)) };
    }

    /// The exchanges to come are with another server. Those before stay good for what causality
    /// says, which holds for either; but a rate between the two would have in it what their paths
    /// differ by.
    pub(crate) fn change_server(&mut self, floor: FloorKnown) {
        (self.prior, self.recent_prior) = (self.rate(floor), self.difference(floor));
        (self.best, self.recent) = (None, None);
        self.server += 1;
    }

    /// All that is kept is `by` higher on the scale of the points to come, s.
    pub(crate) fn shift(&mut self, by: f64) {
        let kept = self.slots.iter_mut().chain(&mut self.old);
        let kept = kept.chain(self.current.as_mut().map(|(_, point)| point));
        let pairs = [&mut self.best, &mut self.recent, &mut self.causal].into_iter().flatten();
        let ends = pairs.flat_map(|pair| [&mut pair.far, &mut pair.near]);
        kept.chain(ends).for_each(|point| point.theta += by);
    }

    /// The difference clock's rate.
    pub(crate) fn difference(&self, floor: FloorKnown) -> SlowRate {
        better(self.recent_prior, self.recent.map(|pair| pair.rate(floor)))
    }

    /// Variance of what it is off by as the mean rate of the last 1000 s, if its nearer end is so
    /// old, by that end.
    pub(crate) fn difference_variance(&self, floor: FloorKnown, age: impl Fn(Count) -> f64) -> f64 {
        let pair = self.recent.filter(|pair| pair.rate(floor).error < self.recent_prior.error);
        let variance = |pair: Pair| pair.variance(floor, self.noise, age(pair.near.at).max(0.0));
        pair.map_or(self.recent_prior.error * self.recent_prior.error, variance)
    }

    /// The rate that is known best if the floor is right.
    pub(crate) fn rate(&self, floor: FloorKnown) -> SlowRate {
        better(self.prior, self.best.map(|pair| pair.rate(floor)))
    }

    /// The mean rate of the recent past, as far as causality alone says.
    pub(crate) fn causal_rate(&self) -> SlowRate {
        better(self.causal_prior, self.causal.as_ref().map(Pair::causal_rate))
    }

    /// Where the rate of now is, but for what it may stray from its means: each pair of exchanges
    /// confines the mean rate between them, and where all of these meet is narrower than the best
    /// of them. They may not meet, as means of different times; then the best pair alone says.
    ///
    /// A server that begins to drift moves no end of this that lies against its drift: the pairs
    /// from before hold that. The best pair's rate goes along with it.
    ///
    /// `aged` is how far a rate may have strayed since the nearer end of its pair, beside what it
    /// may anyway.
    pub(crate) fn confined_rate(&self, aged: impl Fn(Count) -> f64) -> SlowRate {
        let causal = self.causal_rate();
        let prior = self.causal_prior;
        let [Some((low, lows)), Some((high, highs))] = self.confined else { return causal };
        let low = (low - aged(lows)).max(prior.rate - prior.error);
        let high = (high + aged(highs)).min(prior.rate + prior.error);
        if low > high {
            return causal;
        }
        SlowRate { rate: (low + high) / 2.0, error: (high - low) / 2.0 }
    }

    /// Takes in an exchange; `seconds` measures the span of two counts at the nominal period.
    /// Nothing is ever known worse than to `worst`. A rate is worth less by `drift` with each second
    /// since its pair.
    pub(crate) fn push(
        &mut self,
        point: Point,
        floor: FloorKnown,
        worst: f64,
        drift: f64,
        seconds: impl Fn(Count, Count) -> f64,
    ) {
        self.change_path(floor);
        let point = Point { server: self.server, ..point };
        match &mut self.current {
            Some((start, best)) if seconds(*start, point.at) < SLOT_SECONDS => {
                if point.rtt < best.rtt {
                    *best = point;
                }
                // Until a few slots are full, every exchange counts: a start-up burst should give
                // a rate at once.
                if self.slots.len() < 3 {
                    self.choose(point, floor, drift, &seconds);
                }
            }
            Some((start, best)) => {
                let full = *best;
                (*start, *best) = (point.at, point);
                self.slots.push_back(full);
                if self.slots.len() > SLOTS
                    && let Some(oldest) = self.slots.pop_front()
                {
                    self.retire(oldest, &seconds);
                }
                // What was known before is worth less and less.
                for prior in [&mut self.prior, &mut self.recent_prior, &mut self.causal_prior] {
                    prior.error = (prior.error * 2.0).min(worst.max(prior.error));
                }
                (self.best, self.recent, self.causal) = (None, None, None);
                // The best exchanges of the slots say less than all did, at first.
                let fresh = |(_, near): &(f64, Count)| seconds(*near, point.at) < NEAR_SECONDS;
                self.confined = self.confined.map(|end| end.filter(fresh));
                self.learn_noise(floor, &seconds);
                self.choose(full, floor, drift, &seconds);
            }
            None => {
                self.current = Some((point.at, point));
                self.slots.push_back(point);
            }
        }
    }

    /// If the floor has moved by more than it was uncertain, the path is another one: what came
    /// before is judged by the floor that it had then.
    fn change_path(&mut self, floor: FloorKnown) {
        let old = core::mem::replace(&mut self.floor, floor);
        if !old.rtt.is_finite() || (floor.rtt - old.rtt).abs() <= old.error + floor.error {
            return;
        }
        let current = self.current.as_mut().map(|(_, point)| point);
        for point in self.slots.iter_mut().chain(&mut self.old).chain(current) {
            point.floor.get_or_insert(old.rtt);
        }
    }

    /// Learns how far points are off, from the newest three: the middle one and the line between
    /// the others.
    fn learn_noise(&mut self, floor: FloorKnown, seconds: &impl Fn(Count, Count) -> f64) {
        let mut newest = self.slots.iter().rev();
        let (Some(c), Some(b), Some(a)) = (newest.next(), newest.next(), newest.next()) else {
            return;
        };
        if a.server != c.server {
            return;
        }
        let (before, after) = (seconds(a.at, b.at), seconds(b.at, c.at));
        if before <= 0.0 || after <= 0.0 {
            return;
        }
        let share = before / (before + after);
        let (first, last) = ((1.0 - share) * (1.0 - share), share * share);
        let strayed = b.theta - (1.0 - share) * a.theta - share * c.theta;
        let half = (before + after) / 2.0;
        let walk = WANDER * WANDER * half * half * half / 6.0;
        let known = b.queueing(floor) + first * a.queueing(floor) + last * c.queueing(floor) + walk;
        let noises = 1.0 + first + last;
        if known > noises * self.noise && strayed * strayed < UNEXPLAINED * known {
            return;
        }
        let most = MOST_STRAYED * (known + noises * self.noise);
        let found = ((strayed * strayed).min(most) - known) / noises;
        self.noise =
            (self.noise + NOISE_GAIN * (found - self.noise)).max(LEAST_NOISE * LEAST_NOISE);
    }

    /// Keeps the best of each longer slot of the old.
    fn retire(&mut self, point: Point, seconds: &impl Fn(Count, Count) -> f64) {
        match (self.old_begun, self.old.back_mut()) {
            (Some(begun), Some(best)) if seconds(begun, point.at) < OLD_SECONDS => {
                if point.reach < best.reach {
                    *best = point;
                }
            }
            _ => {
                self.old_begun = Some(point.at);
                self.old.push_back(point);
            }
        }
        if self.old.len() > OLD_SLOTS {
            self.old.pop_front();
        }
    }

    /// Takes the best pairs that end in `newest` or one of the newest slots, if they beat those in
    /// force.
    fn choose(
        &mut self,
        newest: Point,
        floor: FloorKnown,
        drift: f64,
        seconds: &impl Fn(Count, Count) -> f64,
    ) {
        let pair = |far: &Point, near: &Point| {
            let pair = Pair { far: *far, near: *near, baseline: seconds(far.at, near.at) };
            (pair.baseline > 0.0).then_some(pair)
        };
        let noise = self.noise;
        let aged = |near: Count| drift * seconds(near, newest.at);
        for near in self.slots.iter().rev().take(NEAR).chain([&newest]) {
            let age = seconds(near.at, newest.at).max(0.0);
            for far in &self.slots {
                let pair = pair(far, near);
                let same = pair.filter(Pair::is_of_one_server);
                least(&mut self.best, same, |pair| pair.rate(floor).error);
                least(&mut self.recent, same, |pair| pair.variance(floor, noise, age));
                least(&mut self.causal, pair, |pair| pair.causal_rate().error);
                confine(&mut self.confined, pair, drift, aged);
            }
            for far in &self.old {
                let pair = pair(far, near);
                let same = pair.filter(Pair::is_of_one_server);
                least(&mut self.recent, same, |pair| pair.variance(floor, noise, age));
                least(&mut self.causal, pair, |pair| pair.causal_rate().error);
                confine(&mut self.confined, pair, drift, aged);
            }
        }
    }
}

/// Keeps the one with the smaller error.
fn least(best: &mut Option<Pair>, candidate: Option<Pair>, error: impl Fn(&Pair) -> f64) {
    let Some(candidate) = candidate else { return };
    if best.as_ref().is_none_or(|best| error(&candidate) < error(best)) {
        *best = Some(candidate);
    }
}

/// Leaves of a range of rates what the pair allows too, each as far as it has `aged`.
fn confine(
    [low, high]: &mut [Option<(f64, Count)>; 2],
    pair: Option<Pair>,
    drift: f64,
    aged: impl Fn(Count) -> f64,
) {
    let Some(pair) = pair else { return };
    let (SlowRate { rate, error }, near) = (pair.causal_rate(), pair.near.at);
    let error = error + drift * (pair.baseline - PAST_SECONDS).max(0.0) / 2.0;
    let (least, most) = (rate - error, rate + error);
    if low.is_none_or(|(low, then)| least - aged(near) >= low - aged(then)) {
        *low = Some((least, near));
    }
    if high.is_none_or(|(high, then)| most + aged(near) <= high + aged(then)) {
        *high = Some((most, near));
    }
}

/// Variance of the difference of two means of a random walk that gains 1 per second: over the time
/// from `young` to `old` seconds ago, and over the last [`INTERVAL`].
fn apart_by_walk(young: f64, old: f64) -> f64 {
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

fn better(prior: SlowRate, measured: Option<SlowRate>) -> SlowRate {
    measured.filter(|m| m.error < prior.error).unwrap_or(prior)
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
            let point =
                Point { at, theta, rtt, reach: rtt / 2.0, noise: 0.0, floor: None, server: 0 };
            slow.push(point, floor, 500e-6, 1e-10, seconds);
        }
        let found = slow.rate(floor);
        assert!((found.rate - 5e-6).abs() <= found.error);
        assert!(found.error < 1e-9, "{found:?}");
        let lower = slow.rate(FloorKnown { rtt: 0.0, error: 0.0 });
        assert!(lower.error > 1e-4 / 3200.0, "a lower floor makes old pairs worse: {lower:?}");
    }
}
