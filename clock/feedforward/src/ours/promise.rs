//! Limits on θ by the promise about the oscillator.
//!
//! The corridor of the estimate follows the model's rate wherever that goes, so that an oscillator
//! which breaks its promise (`max-wander`) does not cost the clock. But then a server whose time
//! drifts carries that corridor along, by more than the promise allows. So what causality and the
//! promise together leave open is kept beside it. Where the two no longer meet, either the promise
//! is broken or the server is wrong, and one server's stamps cannot tell which: the bound covers
//! both until it has lasted, and a server that comes back is believed at once.

use truechimer_time::Count;

use super::past::Past;
use crate::causal_rate::BoundedRate;
use crate::corridor::Corridor;
use crate::quarantine::enough;

/// By how much sooner than it seems the server may have begun to drift.
const SOONER: f64 = 2.0;

/// When the exchanges left what is promised, and the mean rate of the past as it was known then.
#[derive(Clone, Copy, Debug)]
pub(super) struct Broken {
    pub(super) since: Count,
    /// How many exchanges have come since.
    count: u32,
    pub(super) rate: BoundedRate,
}

impl Broken {
    /// Break that turned out to be the server's, since then.
    pub(super) fn recalled(since: Count, rate: BoundedRate) -> Broken {
        Broken { since, count: 0, rate }
    }
}

/// See the module's text.
#[derive(Clone, Debug)]
pub(super) struct Promise {
    /// Where θ is if the promise is kept, s, at a count.
    pub(super) corridor: Corridor,
    pub(super) at: Count,
    broken: Option<Broken>,
}

/// The mean rate of the past, how far the model's has strayed from it, and how long ago counts
/// were.
pub(super) struct Course<Seconds, Wander> {
    pub(super) rate: BoundedRate,
    pub(super) strayed: f64,
    pub(super) seconds: Seconds,
    /// How far the rate may stray from its mean in so many seconds.
    pub(super) wander: Wander,
}

impl Promise {
    pub(super) fn new(at: Count, corridor: Corridor) -> Promise {
        Promise { corridor, at, broken: None }
    }

    /// A clock that is left at a count, and may have been right: it stays open as what is promised
    /// does where the exchanges have left that.
    pub(super) fn left(at: Count, corridor: Corridor, rate: BoundedRate) -> Promise {
        let broken = Some(Broken { since: at, count: 0, rate });
        Promise { corridor, at, broken }
    }

    pub(super) fn broken(&self) -> Option<Broken> {
        self.broken
    }

    /// Goes on to `at`, where θ is `promised`, and by the exchanges `seen`.
    pub(super) fn go_on(
        &mut self,
        at: Count,
        promised: Corridor,
        seen: &Corridor,
        past: &Past,
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
            return;
        }
        // It is out since the two do not meet any more, and false since it began to drift.
        let apart = promised.width() + seen.width();
        let faster = course.strayed.abs() - course.rate.error - (course.wander)(0.0);
        let age = |then: Count| (course.seconds)(then, at);
        // Where the model does not show how fast it is: if it has been so for longer than not,
        // nothing tells which of the two is the drift.
        let half = past.oldest().map_or(0.0, |first| age(first.at) / 2.0);
        let lasted = (SOONER * apart / faster.max(f64::MIN_POSITIVE)).min(half);
        let long_ago = past.before_drift(lasted, age);
        // What has come of the rate since then is the drift's as well.
        let rate = long_ago.map_or(course.rate, |past| past.rate);
        self.broken = Some(Broken { since: at, count: 1, rate });
        self.corridor = long_ago.map_or(promised, |past| {
            let slack = rate.error + (course.wander)(age(past.at));
            past.corridor.later(age(past.at), rate.rate, slack)
        });
    }

    /// Whether the exchanges have left it for so long that it counts as broken for good: for
    /// `wanted` seconds, `lasted` until now, and by enough of them.
    pub(super) fn is_given_up(&self, wanted: f64, lasted: impl Fn(Count) -> f64) -> bool {
        self.broken.is_some_and(|broken| enough(broken.count, lasted(broken.since), wanted))
    }
}
