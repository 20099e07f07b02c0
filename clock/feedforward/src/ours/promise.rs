//! Limits on θ by the promise about the oscillator.
//!
//! The corridor of the estimate follows the model's rate wherever that goes, so that an oscillator
//! which breaks its promise (`max-wander`) does not cost the clock. But then a server whose time
//! drifts carries that corridor along, by more than the promise allows. So what causality and the
//! promise together leave open is kept beside it. Where the two no longer meet, either the promise
//! is broken or the server is wrong, and one server's stamps cannot tell which: the bound covers
//! both until it has lasted, and a server that comes back is believed at once.

use truechimer_time::Count;

use super::Ours;
use super::agreement::Arrival;
use super::past::SHARE;
use super::state::State;
use crate::corridor::{BoundedRate, Corridor};

/// By how much sooner than it seems the server may have begun to drift.
const SOONER: f64 = 2.0;

/// When the exchanges left what is promised, and the mean rate of the past as it was known then.
#[derive(Clone, Copy, Debug)]
pub(super) struct Broken {
    pub(super) since: Count,
    /// Number of exchanges since.
    pub(super) count: u32,
    pub(super) rate: BoundedRate,
}

/// See the module's text.
#[derive(Clone, Debug)]
pub(super) struct Promise {
    /// Where θ is if the promise is kept, s, at a count.
    pub(super) corridor: Corridor,
    pub(super) at: Count,
    pub(super) broken: Option<Broken>,
}

impl Promise {
    /// A promise that is kept.
    pub(super) fn new(at: Count, corridor: Corridor) -> Promise {
        Promise { corridor, at, broken: None }
    }
}

impl Ours {
    /// Distance by which the rate may stray from its mean by the promise.
    pub(super) fn promised_wander(&self, state: &State, at: Count) -> f64 {
        let since = state.promise.broken.map_or(state.last_used, |broken| broken.since);
        self.wander(self.seconds(since, at))
    }

    /// Where θ is at a count if the oscillator has kept its promise.
    pub(super) fn promised(&self, state: &State, at: Count) -> Corridor {
        let Promise { corridor, at: then, broken } = &state.promise;
        let rate = broken.map_or_else(|| self.confined_rate(at), |broken| broken.rate);
        let rate = rate.wider(self.promised_wander(state, at));
        corridor.later(self.seconds(*then, at), rate)
    }

    /// Carries the promise on to `at`, where causality leaves `state.corridor` open. By the promise
    /// θ is in `promised`, and the rate near `confined`; the model's was `rate`.
    pub(super) fn keep_promise(
        &self,
        state: &mut State,
        at: Count,
        promised: Corridor,
        confined: BoundedRate,
        rate: f64,
    ) {
        let State { promise, past, corridor: seen, .. } = state;
        promise.at = at;
        if let Some(broken) = &mut promise.broken {
            // What is promised grows until it meets anything: that is no proof that it was kept.
            broken.count = broken.count.saturating_add(1);
            promise.corridor = promised;
            return;
        }
        if let Some(corridor) = promised.intersection(seen) {
            promise.corridor = corridor;
            return;
        }
        // It is out since the two do not meet any more, and false since it began to drift.
        let apart = promised.width() + seen.width();
        let faster = (rate - confined.rate).abs() - confined.error - self.wander(0.0);
        // Where the model does not show how fast it is: if it has been so for longer than not,
        // nothing tells which of the two is the drift.
        let half = past.oldest().map_or(0.0, |first| self.seconds(first.at, at) / 2.0);
        let lasted = (SOONER * apart / faster.max(f64::MIN_POSITIVE)).min(half);
        let long_ago = past.before_drift(lasted, at);
        // What has come of the rate since then is the drift's as well.
        let rate = long_ago.map_or(confined, |memory| memory.rate);
        promise.broken = Some(Broken { since: at, count: 1, rate });
        promise.corridor = long_ago.map_or(promised, |memory| self.recalled(memory, at).0);
    }

    /// An exchange contradicts those before it, which contradict the oscillator's promise. Perhaps
    /// it keeps that: by which rate, and where θ is by both then. Where that has become wide it meets
    /// anything; what comes back is much nearer to it than to `before`, where it had gone.
    pub(super) fn promised_again(
        &self,
        state: &State,
        Arrival { m, before, .. }: &Arrival,
    ) -> Option<(BoundedRate, Corridor)> {
        let Broken { rate, .. } = state.promise.broken?;
        let promised = self.promised(state, m.received);
        let own = m.corridor(rate.wider(self.promised_wander(state, m.received)));
        let from = |there: &Corridor| (own.middle() - there.middle()).abs();
        let comes_back = from(&promised) < SHARE * from(before);
        let both = promised.intersection(&own).filter(|_| comes_back)?;
        Some((rate, both))
    }
}
