//! What the promise about the oscillator allows.
//!
//! The corridor of the estimate follows the filter's rate wherever that goes, so that an oscillator
//! which breaks its promise (`max-wander`) does not cost the clock. But then a server whose time
//! drifts carries that corridor along, by more than the promise allows. So what causality and the promise
//! together leave open is kept beside it. Where the two no longer meet, either the promise is broken
//! or the server is wrong, and one server's stamps cannot tell which: the bound covers both until it
//! has lasted, and a server that comes back is believed at once.

use std::collections::VecDeque;

use truechimer_time::Count;

use crate::corridor::Corridor;
use crate::slow::SlowRate;

/// So often what is promised is remembered, s, ...
const EVERY: f64 = 128.0;
/// ... and so many times: 2.3 hours.
const MOST: usize = 64;
/// By how much sooner than it seems the server may have begun to drift.
const SOONER: f64 = 2.0;

/// When the exchanges left what is promised, and the mean rate of the past as it was known then.
#[derive(Clone, Copy, Debug)]
pub(super) struct Broken {
    pub(super) since: Count,
    pub(super) rate: SlowRate,
}

/// See the module's text.
#[derive(Clone, Debug)]
pub(super) struct Promise {
    /// Where θ is if the promise is kept, s, at a count.
    corridor: Corridor,
    at: Count,
    broken: Option<Broken>,
    /// The same as it was.
    past: VecDeque<(Count, Corridor)>,
}

/// The mean rate of the past, how far the filter's has strayed from it, and how long ago counts were.
pub(super) struct Course<Seconds, Wander> {
    pub(super) rate: SlowRate,
    pub(super) strayed: f64,
    pub(super) seconds: Seconds,
    /// How far the rate may stray from its mean in so many seconds.
    pub(super) wander: Wander,
}

impl Promise {
    pub(super) fn new(at: Count, corridor: Corridor) -> Promise {
        Promise { corridor, at, broken: None, past: VecDeque::new() }
    }

    pub(super) fn at(&self) -> Count {
        self.at
    }

    pub(super) fn broken(&self) -> Option<Broken> {
        self.broken
    }

    /// Where θ is `dt` seconds later, if the mean rate is known so well and may have strayed by `wander`
    /// since.
    pub(super) fn later(&self, dt: f64, rate: SlowRate, wander: f64) -> Corridor {
        self.corridor.later(dt, rate.rate, rate.error + wander)
    }

    /// Goes on to `at`, where θ is `promised`, and by the exchanges `seen`.
    pub(super) fn go_on(
        &mut self,
        at: Count,
        promised: Corridor,
        seen: &Corridor,
        course: &Course<impl Fn(Count, Count) -> f64, impl Fn(f64) -> f64>,
    ) {
        self.at = at;
        if let Some(both) = promised.intersection(seen) {
            (self.corridor, self.broken) = (both, None);
            let due = |(then, _): &(Count, Corridor)| (course.seconds)(*then, at) >= EVERY;
            if self.past.back().is_none_or(due) {
                self.past.push_back((at, both));
            }
            if self.past.len() > MOST {
                self.past.pop_front();
            }
            return;
        }
        self.corridor = promised;
        if self.broken.is_some() {
            return;
        }
        self.broken = Some(Broken { since: at, rate: course.rate });
        // It is out since the two do not meet any more, and false since it began to drift.
        let apart = (promised.high - promised.low) + (seen.high - seen.low);
        let faster = course.strayed.abs() - course.rate.error - (course.wander)(0.0);
        let lasted = SOONER * apart / faster.max(f64::MIN_POSITIVE);
        let age = |then: Count| (course.seconds)(then, at);
        let before = |(then, _): &&(Count, Corridor)| age(*then) >= lasted;
        if let Some((then, past)) = self.past.iter().rev().find(before).or(self.past.front()) {
            let slack = course.rate.error + (course.wander)(age(*then));
            self.corridor = past.later(age(*then), course.rate.rate, slack);
        }
    }

    /// What is known is `by` higher on the scale of θ, s.
    pub(super) fn shift(&mut self, by: f64) {
        let past = self.past.iter_mut().map(|(_, corridor)| corridor);
        for corridor in past.chain([&mut self.corridor]) {
            (corridor.low, corridor.high) = (corridor.low + by, corridor.high + by);
        }
    }
}
