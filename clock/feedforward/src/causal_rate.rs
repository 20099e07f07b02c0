//! Mean rate of the past, by causality alone.
//!
//! θ lies in the interval that an exchange allows by itself, whatever the path did, so that the mean
//! rate between two exchanges is confined too. Each slot of time keeps the exchange with the
//! narrowest interval, and the pairs of them that say most are in force. None of them ever sees the
//! estimate. They bound how wrong the model's rate can be, and so how fast the error bound must
//! grow.

use alloc::collections::VecDeque;

use arrayvec::ArrayVec;
use truechimer_time::{Count, Period, Rate};

use crate::corridor::{BoundedRate, Corridor};
use crate::number::{between, fraction};

/// Bound of the rate error of a counter of which only the nominal rate is known.
pub(crate) const UNKNOWN_RATE: Rate = Rate::from_ppb(500_000);

/// Least length of a slot, s.
pub(crate) const SLOT_SECONDS: f64 = 64.0;
/// Number of slots that are kept: 34 minutes at least, about the time scale up to which a quartz
/// oscillator averages (the Allan deviation's minimum lies near 1000 s).
const SLOTS: usize = 32;
/// Number of the newest slots that a pair may end in, so that no rate is older than ten minutes.
const NEAR: usize = SLOTS / 4;
const NEAR_SECONDS: f64 = NEAR as f64 * SLOT_SECONDS;
/// Older exchanges, for long baselines only: slots of [`NEAR_SECONDS`] each, and how far back they
/// reach, s (2.3 hours).
const OLD_SLOTS: usize = SLOTS / 2;
pub(crate) const OLD_SECONDS: f64 = OLD_SLOTS as f64 * NEAR_SECONDS;

/// The recent past of which the oscillator promises that its rate stays near the mean, s: 2.8 hours.
/// Of a mean over more (nobody was heard meanwhile) it may be off by as much more.
pub(crate) const PAST_SECONDS: f64 = 10_080.0;

/// An exchange as the rate sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Point {
    pub(crate) at: Count,
    /// Interval that the exchange by itself allows for θ, s.
    pub(crate) own: Corridor,
}

/// See the module's text.
#[derive(Clone, Debug)]
pub(crate) struct CausalRate {
    /// Rate known before the first exchange that is kept.
    prior: BoundedRate,
    slots: VecDeque<Point>,
    old: VecDeque<Point>,
    old_begun: Option<Count>,
    /// When the slot in hand began, and its best so far.
    current: Option<(Count, Point)>,
    /// Mean rate between the two exchanges that say most of it.
    best: Option<BoundedRate>,
    /// Where the mean rates of all pairs meet: the lowest that the rate can be and the highest, each
    /// with the nearer end of the pair that says so.
    confined: [Option<(f64, Count)>; 2],
}

impl CausalRate {
    pub(crate) fn new(prior: BoundedRate) -> CausalRate {
        CausalRate {
            prior,
            slots: VecDeque::with_capacity(SLOTS + 1),
            old: VecDeque::with_capacity(OLD_SLOTS + 1),
            old_begun: None,
            current: None,
            best: None,
            confined: [None; 2],
        }
    }

    /// All that is kept is `by` higher on the scale of the points to come, s.
    pub(crate) fn shift(&mut self, by: f64) {
        let kept = self.slots.iter_mut().chain(&mut self.old);
        let all = kept.chain(self.current.as_mut().map(|(_, point)| point));
        all.for_each(|point| point.own = point.own.shifted(by));
    }

    /// The mean rate of the recent past, by the best pair.
    pub(crate) fn rate(&self) -> BoundedRate {
        self.best.filter(|rate| rate.error < self.prior.error).unwrap_or(self.prior)
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
    pub(crate) fn confined_rate(&self, aged: impl Fn(Count) -> f64) -> BoundedRate {
        let best = self.rate();
        let prior = self.prior;
        let [Some((low, lows)), Some((high, highs))] = self.confined else { return best };
        let low = (low - aged(lows)).max(prior.rate - prior.error);
        let high = (high + aged(highs)).min(prior.rate + prior.error);
        if low > high {
            return best;
        }
        BoundedRate { rate: (low + high) / 2.0, error: (high - low) / 2.0 }
    }

    /// Takes in an exchange; a count lasts `nominal`. A rate is worth less by `drift` with each
    /// second since its pair.
    pub(crate) fn push(&mut self, point: Point, drift: f64, nominal: Period) {
        let age = |at: Count| between(nominal, at, point.at);
        let Some((start, best)) = &mut self.current else {
            self.current = Some((point.at, point));
            self.slots.push_back(point);
            return;
        };
        if age(*start) < SLOT_SECONDS {
            if point.own.width() < best.own.width() {
                *best = point;
            }
            // Until a few slots are full, every exchange counts: a start-up burst should give a
            // rate at once.
            if self.slots.len() < 3 {
                self.choose(point, drift, nominal);
            }
            return;
        }
        let full = *best;
        (*start, *best) = (point.at, point);
        self.slots.push_back(full);
        if self.slots.len() > SLOTS
            && let Some(oldest) = self.slots.pop_front()
        {
            self.retire(oldest, nominal);
        }
        // What was known before is worth less and less.
        let error = self.prior.error;
        self.prior.error = (error * 2.0).min(fraction(UNKNOWN_RATE).max(error));
        self.best = None;
        // The best exchanges of the slots say less than all did, at first.
        self.confined = self.confined.map(|end| end.filter(|(_, near)| age(*near) < NEAR_SECONDS));
        self.choose(full, drift, nominal);
    }

    /// Keeps the best of each longer slot of the old.
    fn retire(&mut self, point: Point, nominal: Period) {
        match (self.old_begun, self.old.back_mut()) {
            (Some(begun), Some(best)) if between(nominal, begun, point.at) < NEAR_SECONDS => {
                if point.own.width() < best.own.width() {
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

    /// Takes the pairs that end in `newest` or one of the newest slots, if they say more than those
    /// in force.
    fn choose(&mut self, newest: Point, drift: f64, nominal: Period) {
        let age = |at: Count| between(nominal, at, newest.at);
        let far: ArrayVec<_, { SLOTS + OLD_SLOTS }> =
            self.slots.iter().chain(&self.old).map(|far| (age(far.at), far.own)).collect();
        let mut ends = self.confined.map(|end| end.map(|(rate, at)| (rate, at, drift * age(at))));
        for near in self.slots.iter().rev().take(NEAR).chain([&newest]) {
            let near_age = age(near.at);
            let aged = drift * near_age;
            for (far_age, far) in &far {
                let baseline = far_age - near_age;
                if baseline <= 0.0 {
                    continue;
                }
                let rate = (near.own.middle() - far.middle()) / baseline;
                let error = (near.own.width() + far.width()) / 2.0 / baseline;
                if self.best.is_none_or(|best| error < best.error) {
                    self.best = Some(BoundedRate { rate, error });
                }
                let error = error + drift * (baseline - PAST_SECONDS).max(0.0) / 2.0;
                let (least, most) = (rate - error, rate + error);
                // Each as far as it has aged.
                let [low, high] = &mut ends;
                if low.is_none_or(|(low, _, since)| least - aged >= low - since) {
                    *low = Some((least, near.at, aged));
                }
                if high.is_none_or(|(high, _, since)| most + aged <= high + since) {
                    *high = Some((most, near.at, aged));
                }
            }
        }
        self.confined = ends.map(|end| end.map(|(rate, at, _)| (rate, at)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HZ: u64 = 1_000_000;

    #[test]
    fn the_rate_comes_from_far_apart_points() {
        let mut causal = CausalRate::new(BoundedRate { rate: 0.0, error: 500e-6 });
        for k in 0..200u64 {
            // Every tenth exchange is good; the rest are late by up to 1 ms.
            let late = if k % 10 == 0 { 1e-7 } else { 1e-3 * (k % 7 + 1) as f64 / 7.0 };
            let at = Count(k * 16 * HZ);
            let theta = 5e-6 * (k * 16) as f64;
            let own = Corridor { low: theta - 5e-5, high: theta + 5e-5 + late };
            causal.push(Point { at, own }, 1e-10, Period::from_hz(HZ));
        }
        let found = causal.rate();
        assert!((found.rate - 5e-6).abs() <= found.error);
        assert!(found.error < 1e-4 / 1800.0, "{found:?}");
    }
}
