//! Treatment of exchanges that contradict what is known.

use truechimer_model::{Known, States};
use truechimer_time::{Count, Span};

use super::measured::Measured;
use super::past::{Memory, SHARE};
use super::promise::{Broken, Promise};
use super::state::State;
use super::{FLOOR_NOISE, Ours, SIGMAS, UNKNOWN_RATE};
use crate::causal_rate::{BoundedRate, CausalRate};
use crate::corridor::Corridor;
use crate::number::{fraction, seconds, span};
use crate::quarantine::{Evidence, Quarantine, Rates, Whose};
use crate::{Accepted, Doubt, Refusal};

/// Of a θ far from 0 so much may be lost to rounding, as a share of it: a few units in the last
/// place.
const ROUNDED: f64 = 8.0 * f64::EPSILON;
/// Exchanges in a row that show that a server is back where it was left.
const RETURNS: u32 = 2;

impl Ours {
    /// The rates by which newcomers may agree, `at` a count.
    pub(super) fn rates(&self, state: &State, at: Count) -> Rates {
        let now = &state.model.now;
        let slack = self.rate_slack(now, self.seconds(state.last_used, at));
        Rates { rate: now.rate, slack, unknown: fraction(UNKNOWN_RATE) }
    }

    /// An exchange that does not fit: believe it only when it lasts.
    pub(super) fn quarantine(
        &mut self,
        state: &mut State,
        m: &mut Measured,
        own: Corridor,
        before: Corridor,
    ) -> Result<Span, Refusal> {
        let old = state.model.later(self.seconds(state.at, m.received));
        let middle = m.middle(old.rate);
        let step = own.clamp(middle) - old.offset;
        let rates = self.rates(state, m.received);
        match &mut state.quarantine {
            Some(q) => {
                let dt = self.seconds(q.newest.received, m.received);
                q.take(*m, own, dt, rates, step);
            }
            none => {
                let age = |then| self.seconds(then, m.received);
                let earlier = state.past.before_drift(0.0, age).copied();
                let begun = none.insert(Quarantine::begin(*m, own, before, old.offset, step));
                begun.earlier = earlier;
                // What was followed of it since may be theirs.
                if let Some(Memory { clock, .. }) = earlier {
                    let open = fraction(self.settings.max_wander);
                    let (low, high) = (clock.rate - open, clock.rate + open);
                    state.model.change(|model| model.confine(low, high));
                }
            }
        }
        let Some(q) = state.quarantine else { return Err(Refusal::ServerStep) };
        if let Some(step) = self.comes_back(state, m, &own, &q) {
            return Ok(step);
        }
        let evidence = q.evidence(self.wanted(state), |from| self.seconds(from, m.received));
        if evidence == Evidence::Wanting {
            return Err(Refusal::ServerStep);
        }
        let (step, newest) = self.give_in(state, &q, evidence);
        *m = newest;
        Ok(step)
    }

    /// The newcomers are believed, which the model has held off: it knows how far ahead they are
    /// better than any packet of theirs, and the path is what it was. What comes back is the step.
    fn go_ahead(&mut self, state: &mut State, q: &Quarantine, by: f64) -> Span {
        let rates = self.rates(state, q.newest.received);
        state.model.change(|model| model.go_ahead(by));
        state.corridor = q.corridor(self.seconds(q.newest.received, state.at), rates);
        self.begin_again(state);
        span(by)
    }

    /// Begins again with the time that is believed now, as with another server.
    fn begin_again(&mut self, state: &mut State) {
        state.begun = state.at;
        state.forget_time();
        self.causal = CausalRate::new(self.causal.rate());
    }

    /// The model begins anew with this exchange: θ is `theta`, as far as a round trip says.
    fn restart(&self, state: &mut State, m: &Measured, theta: f64, rate: Known, slack: f64) {
        let deviation = m.round_trip(rate.mean).max(0.0) / 2.0 + FLOOR_NOISE;
        let theta = Known { mean: theta, deviation: deviation / 2.0 };
        state.model = m.model(theta, rate, self.constants);
        state.model.take(m.sample(), slack, false);
        state.at = m.received;
    }

    /// Whether an exchange that agrees with what is known is rather one of the newcomers'. If not,
    /// that is the end of them, unless it could be theirs. Where it is the model that holds them
    /// off, it tells.
    pub(super) fn doubted(&self, state: &mut State, m: &Measured, own: Corridor) -> bool {
        let rates = self.rates(state, m.received);
        let told = state.model.ahead().is_some();
        let queued = m.excess(state).max(0.0) / 2.0 + state.excess;
        let Some(q) = state.quarantine.as_mut().filter(|_| !told) else { return false };
        let now = state.model.later(self.seconds(state.at, m.received));
        let likely = Known { mean: now.offset, deviation: libm::sqrt(now.offset_variance) };
        let middle = m.middle(now.rate);
        let dt = self.seconds(q.newest.received, m.received);
        let whose = q.whose(&own, middle, queued, dt, rates, likely);
        if whose == Whose::Known {
            (state.quarantine, state.suspected) = (None, true);
        }
        whose == Whose::Newcomers
    }

    /// For how long newcomers must agree, s. What was known for minutes does not outvote hours; a
    /// clock known from an earlier run has the credit that it had there, or all if nobody has kept
    /// that.
    pub(super) fn wanted(&self, state: &State) -> f64 {
        let configured = seconds(self.settings.accept_step_after).max(0.0);
        let known =
            if state.unproven { state.before } else { Some((state.begun, state.last_used)) };
        known.map_or(configured, |(since, until)| configured.min(self.seconds(since, until)))
    }

    /// The newcomers are believed from their newest exchange on. What comes back is the step, and
    /// that exchange. From now on θ is counted from there: far from 0 it would be rounded too
    /// roughly.
    pub(super) fn give_in(
        &mut self,
        state: &mut State,
        q: &Quarantine,
        evidence: Evidence,
    ) -> (Span, Measured) {
        let mut m = q.newest;
        if let (Some(by), Evidence::Step) = (state.model.ahead(), evidence) {
            return (self.go_ahead(state, q, by), m);
        }
        let rates = self.rates(state, m.received);
        let old = state.model.later(self.seconds(state.at, m.received));
        let middle = m.middle(old.rate);
        let corridor = q.corridor(0.0, rates);
        let far = corridor.clamp(middle);
        let step = span(far) - span(old.offset);
        state.anchor.1 += span(far);
        (m.forward, m.backward) = (m.forward - far, m.backward - far);
        let rounded = ROUNDED * far.abs();
        let corridor =
            Corridor { low: corridor.low - far - rounded, high: corridor.high - far + rounded };
        let theta = corridor.clamp(m.middle(old.rate));
        // The rate was learnt of a server whose time was wrong: it may have drifted there.
        let deviation = libm::sqrt(old.rate_variance).max(fraction(self.settings.max_wander));
        let mut known = Known { mean: old.rate, deviation };
        state.corridor = corridor;
        if evidence == Evidence::OtherRate {
            // It is the rate that is not what it was: nothing of it is known any more.
            known.deviation = rates.unknown / SIGMAS;
            let error = rates.unknown + old.rate.abs();
            self.causal = CausalRate::new(BoundedRate { rate: old.rate, error });
            state.corridor = m.corridor(old.rate, rates.unknown);
        }
        self.restart(state, &m, theta, known, rates.slack);
        self.begin_again(state);
        (step, m)
    }

    /// How far the rate may stray from its mean by the promise.
    pub(super) fn promised_wander(&self, state: &State, at: Count) -> f64 {
        let since = state.promise.broken().map_or(state.last_used, |broken| broken.since);
        self.wander(self.seconds(since, at))
    }

    /// Where θ is at a count if the oscillator has kept its promise.
    pub(super) fn promised(&self, state: &State, at: Count) -> Corridor {
        let rate =
            state.promise.broken().map_or_else(|| self.confined_rate(at), |broken| broken.rate);
        let slack = rate.error + self.promised_wander(state, at);
        state.promise.corridor.later(self.seconds(state.promise.at, at), rate.rate, slack)
    }

    /// Where θ is at a count if what the quarantine contradicts had gone wrong long before, and how
    /// fast that may part from a clock that knows `now`.
    pub(super) fn earlier(
        &self,
        state: &State,
        now: &States,
        at: Count,
    ) -> Option<(Corridor, f64)> {
        let Memory { at: then, corridor, rate, .. } = state.quarantine?.earlier?;
        let age = self.seconds(then, at);
        let slack = rate.error + self.wander(age);
        Some((corridor.later(age, rate.rate, slack), (rate.rate - now.rate).abs() + slack))
    }

    /// An exchange contradicts those before it, which contradict the oscillator's promise. Perhaps
    /// it keeps that: where θ is by both then. Where that has become wide it meets anything; what
    /// comes back is much nearer to it than to `before`, where it had gone.
    pub(super) fn promised_again(
        &self,
        state: &State,
        m: &Measured,
        before: &Corridor,
    ) -> Option<(Broken, Corridor)> {
        let broken = state.promise.broken()?;
        let promised = self.promised(state, m.received);
        let wander = self.promised_wander(state, m.received);
        let own = m.corridor(broken.rate.rate, broken.rate.error + wander);
        let from = |there: &Corridor| (own.middle() - there.middle()).abs();
        let comes_back = from(&promised) < SHARE * from(before);
        let both = promised.intersection(&own).filter(|_| comes_back)?;
        Some((broken, both))
    }

    /// Whether newcomers are where an earlier clock would be now: then it was the server that
    /// drifted, and we with it. What comes back is the step.
    fn comes_back(
        &mut self,
        state: &mut State,
        m: &Measured,
        own: &Corridor,
        q: &Quarantine,
    ) -> Option<Span> {
        if q.count() < RETURNS || q.restless() {
            return None;
        }
        let now = state.model.later(self.seconds(state.at, m.received));
        let queued = m.excess(state).max(0.0) / 2.0 + state.excess + m.stamp_errors();
        let seconds = |from, to| self.seconds(from, to);
        let theta = now.offset + q.step;
        let recalled = state.past.explains(m.received, theta, q.step, queued, seconds)?;
        let Memory { at, rate: mean, clock, .. } = *recalled;
        let strayed = self.wander(self.seconds(at, m.received)) - self.wander(0.0);
        let error = mean.error + (clock.rate - mean.rate).abs() + strayed;
        let known = BoundedRate { rate: clock.rate, error };
        // It may be chance after all, and the server lie from now on: the clock that is left stays
        // open.
        let slack = self.rates(state, m.received).slack;
        let left = state.corridor.later(self.seconds(state.at, m.received), now.rate, slack);
        let left = Promise::left(m.received, left, BoundedRate { rate: now.rate, error: slack });
        let step = self.go_back(state, m, *own, Broken::recalled(at, known));
        state.promise = left;
        Some(step)
    }

    /// Goes back, as the server was what drifted: the clock goes on from `both` and by the rate
    /// from before. Returns the step.
    pub(super) fn go_back(
        &mut self,
        state: &mut State,
        m: &Measured,
        both: Corridor,
        broken: Broken,
    ) -> Span {
        let Broken { rate, .. } = broken;
        let error = rate.error + self.promised_wander(state, m.received);
        let old = state.model.later(self.seconds(state.at, m.received));
        let theta = both.clamp(m.middle(rate.rate));
        let known = Known { mean: rate.rate, deviation: error / SIGMAS };
        self.restart(state, m, theta, known, error);
        self.causal = CausalRate::new(BoundedRate { rate: rate.rate, error });
        state.corridor = both;
        state.forget_time();
        span(theta - old.offset)
    }

    /// See [`Estimator::doubt`](crate::Estimator::doubt).
    pub(super) fn in_doubt(&self, at: Count) -> Option<Doubt> {
        let state = self.state.as_ref().filter(|state| !state.suspected)?;
        let q = state.quarantine?;
        let nominal = self.settings.nominal;
        let dt = self.seconds(q.newest.received, at);
        let rates = self.rates(state, at);
        let newcomers = q.corridor(dt, rates);
        let mut held = state.corridor.later(self.seconds(state.at, at), rates.rate, rates.slack);
        if state.promise.broken().is_some() {
            held = held.hull(&self.promised(state, at));
        }
        let earlier = self.earlier(state, &state.model.now, at);
        let open = earlier.map_or(held, |(earlier, _)| held.hull(&earlier));
        let time = |theta: f64| state.anchor.1 + nominal.span(at - state.anchor.0) + span(theta);
        let ends = |corridor: Corridor| (time(corridor.low), time(corridor.high));
        let left = self.wanted(state) - self.seconds(q.counts_from(), at);
        Some(Doubt {
            since: q.since(),
            exchanges: q.count(),
            step: span(q.step),
            steady: !q.restless(),
            left: span(left.max(0.0)),
            newcomers: ends(newcomers),
            held: ends(held),
            open: ends(open),
        })
    }

    /// See [`Estimator::believe`](crate::Estimator::believe).
    pub(super) fn believe_newcomers(&mut self) -> Option<Accepted> {
        let mut state = self.state.take()?;
        let stepped = state.quarantine.map(|q| {
            let slack = self.rates(&state, q.newest.received).slack;
            let evidence = if q.restless() { Evidence::OtherRate } else { Evidence::Step };
            let (step, newest) = self.give_in(&mut state, &q, evidence);
            self.used(&mut state, &newest, slack);
            Accepted::Stepped(step)
        });
        self.state = Some(state);
        stepped
    }
}
