//! What the promise about the oscillator allows.
//!
//! The corridor of the estimate follows the model's rate wherever that goes, so that an oscillator
//! which breaks its promise (`max-wander`) does not cost the clock. But then a server whose time
//! drifts carries that corridor along, by more than the promise allows. So what causality and the
//! promise together leave open is kept beside it. Where the two no longer meet, either the promise
//! is broken or the server is wrong, and one server's stamps cannot tell which: the bound covers
//! both until it has lasted, and a server that comes back is believed at once.

use alloc::collections::VecDeque;

use truechimer_time::Count;

use crate::corridor::Corridor;
use crate::quarantine::enough;
use crate::slow::SlowRate;

/// So often what is promised is remembered, s, ...
const EVERY: f64 = 128.0;
/// ... or, while it is young, whenever it has grown older by this share: what is known of the rate
/// gets better as fast.
const OLDER: f64 = 0.125;
/// So many times it is remembered: 2.3 hours.
const MOST: usize = 64;
/// By how much sooner than it seems the server may have begun to drift.
const SOONER: f64 = 2.0;
/// While what is promised is narrower than so much of what it mostly is, it may have begun already.
const NARROWER: f64 = 0.75;

/// When the exchanges left what is promised, and the mean rate of the past as it was known then.
#[derive(Clone, Copy, Debug)]
pub(super) struct Broken {
    pub(super) since: Count,
    /// How many exchanges have come since.
    count: u32,
    pub(super) rate: SlowRate,
}

impl Broken {
    /// It turned out that it was the server, since then.
    pub(super) fn recalled(since: Count, rate: SlowRate) -> Broken {
        Broken { since, count: 0, rate }
    }
}

/// See the module's text.
#[derive(Clone, Debug)]
pub(super) struct Promise {
    /// Where θ is if the promise is kept, s, at a count.
    corridor: Corridor,
    at: Count,
    broken: Option<Broken>,
    /// The same as it was.
    past: VecDeque<Memory>,
}

/// What was promised at a count, and where the mean rate was known to be then.
#[derive(Clone, Copy, Debug)]
struct Memory {
    at: Count,
    corridor: Corridor,
    rate: SlowRate,
}

/// The mean rate of the past, how far the model's has strayed from it, and how long ago counts
/// were.
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

    /// A clock that is left at a count, and may have been right: it stays open as what is promised
    /// does where the exchanges have left that.
    pub(super) fn left(at: Count, corridor: Corridor, rate: SlowRate) -> Promise {
        let broken = Some(Broken { since: at, count: 0, rate });
        Promise { corridor, at, broken, past: VecDeque::new() }
    }

    pub(super) fn at(&self) -> Count {
        self.at
    }

    pub(super) fn broken(&self) -> Option<Broken> {
        self.broken
    }

    /// Where θ is `dt` seconds later, if the mean rate is known so well and may have strayed by
    /// `wander` since.
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
        if let Some(broken) = &mut self.broken {
            // What is promised grows until it meets anything: that is no proof that it was kept.
            broken.count = broken.count.saturating_add(1);
            self.corridor = promised;
            return;
        }
        if let Some(corridor) = promised.intersection(seen) {
            self.corridor = corridor;
            self.remember(Memory { at, corridor, rate: course.rate }, course);
            return;
        }
        // It is out since the two do not meet any more, and false since it began to drift.
        let apart = promised.width() + seen.width();
        let faster = course.strayed.abs() - course.rate.error - (course.wander)(0.0);
        let age = |then: Count| (course.seconds)(then, at);
        // Where the model does not show how fast it is: if it has been so for longer than not,
        // nothing tells which of the two is the drift.
        let half = self.past.front().map_or(0.0, |first| age(first.at) / 2.0);
        let lasted = (SOONER * apart / faster.max(f64::MIN_POSITIVE)).min(half);
        // A drift uses up what is promised: where that was still as wide as usual there was none.
        let usual = self.past.iter().map(|past| past.corridor.width()).sum::<f64>();
        let least = NARROWER * usual / self.past.len().max(1) as f64;
        let before = |past: &&Memory| age(past.at) >= lasted && past.corridor.width() >= least;
        let long_ago = self.past.iter().rev().find(before).or(self.past.front());
        // What has come of the rate since then is the drift's as well.
        let rate = long_ago.map_or(course.rate, |past| past.rate);
        self.broken = Some(Broken { since: at, count: 1, rate });
        self.corridor = long_ago.map_or(promised, |past| {
            let slack = rate.error + (course.wander)(age(past.at));
            past.corridor.later(age(past.at), rate.rate, slack)
        });
    }

    fn remember(
        &mut self,
        memory: Memory,
        course: &Course<impl Fn(Count, Count) -> f64, impl Fn(f64) -> f64>,
    ) {
        if let (Some(first), Some(last)) = (self.past.front(), self.past.back()) {
            let age = (course.seconds)(first.at, last.at);
            if (course.seconds)(last.at, memory.at) < EVERY.min(OLDER * age) {
                return;
            }
        }
        if self.past.len() >= MOST {
            self.past.pop_front();
        }
        self.past.push_back(memory);
    }

    /// Whether the exchanges have left it for so long that it counts as broken for good: for
    /// `wanted` seconds, `lasted` until now, and by enough of them.
    pub(super) fn is_given_up(&self, wanted: f64, lasted: impl Fn(Count) -> f64) -> bool {
        self.broken.is_some_and(|broken| enough(broken.count, lasted(broken.since), wanted))
    }

    /// What is known is `by` higher on the scale of θ, s.
    pub(super) fn shift(&mut self, by: f64) {
        let past = self.past.iter_mut().map(|past| &mut past.corridor);
        for corridor in past.chain([&mut self.corridor]) {
            (corridor.low, corridor.high) = (corridor.low + by, corridor.high + by);
        }
    }
}
