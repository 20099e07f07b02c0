//! Treatment of exchanges that contradict what is known.

use truechimer_model::{Known, States};
use truechimer_time::{Count, Span};

use super::agreement::Arrival;
use super::measured::Measured;
use super::past::Memory;
use super::promise::{Broken, Promise};
use super::state::State;
use super::{FLOOR_NOISE, Ours, SIGMAS};
use crate::causal_rate::{CausalRate, UNKNOWN_RATE};
use crate::corridor::{BoundedRate, Corridor};
use crate::number::{fraction, seconds, span};
use crate::quarantine::{Evidence, LEAST, LIKELY_SIGMAS, Quarantine};
use crate::{Accepted, Doubt, Refusal};

/// Of a θ far from 0 so much may be lost to rounding, as a share of it: a few units in the last
/// place.
const ROUNDED: f64 = 8.0 * f64::EPSILON;
/// Exchanges in a row that show that a server is back where it was left.
const RETURNS: u32 = 2;

impl Ours {
    /// An exchange that does not fit: believe it only when it lasts. It is no more than suspected
    /// unless it is to be `held` off.
    pub(super) fn quarantine(
        &mut self,
        state: &mut State,
        a: &mut Arrival,
        held: bool,
    ) -> Result<Span, Refusal> {
        let Arrival { m, own, before, now, .. } = *a;
        let step = own.clamp(m.middle(now.rate)) - now.offset;
        let rate = self.newest_rate(state, m.received);
        let mut q = Quarantine::new(m, own, before.shifted(-now.offset), step);
        if let Some(others) = state.quarantine {
            q = others.with(q, self.seconds(others.newest.received, m.received), rate);
        } else {
            q.earlier = state.past.before_drift(0.0, m.received).copied();
            // What was followed of it since may be theirs.
            if let Some(Memory { clock, .. }) = q.earlier {
                let open = fraction(self.settings.max_wander);
                state.model.confine(clock.rate - open, clock.rate + open);
            }
        }
        q.suspected &= !held;
        state.quarantine = Some(q);
        if let Some(step) = self.comes_back(state, a, &q) {
            return Ok(step);
        }
        let evidence = q.evidence(self.wanted(state), self.settings.nominal);
        let (step, newest) = self.give_in(state, &q, evidence.ok_or(Refusal::ServerStep)?);
        a.m = newest;
        Ok(step)
    }

    /// The newcomers are believed, which the model has held off: it knows how far ahead they are
    /// better than any packet of theirs, and the path is what it was. What comes back is the step.
    fn go_ahead(&mut self, state: &mut State, q: &Quarantine, by: f64) -> Span {
        let rate = self.newest_rate(state, q.newest.received);
        state.model.go_ahead(by);
        state.corridor = q.corridor(self.seconds(q.newest.received, state.at), rate);
        self.begin_again(state);
        span(by)
    }

    /// Begins again with the time that is believed now, as with another server.
    fn begin_again(&mut self, state: &mut State) {
        state.begun = state.at;
        state.further.clear();
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

    /// True if an exchange that agrees with what is known is rather one of the newcomers': that may
    /// have grown so vague meanwhile that it agrees with everything. If not, that is the end of them,
    /// unless it could be theirs. Where it is the model that holds them off, it tells.
    pub(super) fn doubted(&self, state: &mut State, a: &Arrival) -> bool {
        let Arrival { m, own, now, .. } = a;
        let rate = self.newest_rate(state, m.received);
        let told = state.model.ahead().is_some();
        let queued = m.excess(state).max(0.0) / 2.0 + state.excess;
        let Some(q) = state.quarantine.as_mut().filter(|_| !told) else { return false };
        let dt = self.seconds(q.newest.received, m.received);
        let theirs = q.steady.corridor.later(dt, rate);
        let middle = m.middle(now.rate);
        let from_theirs = (middle - theirs.middle()).abs();
        let room = LIKELY_SIGMAS * libm::sqrt(now.offset_variance);
        if theirs.intersection(own).is_none() || from_theirs > queued + room {
            state.quarantine = None;
            return false;
        }
        let known = q.known.shifted(now.offset).widened(room);
        if known.intersection(own).is_none() || from_theirs < (middle - now.offset).abs() {
            q.between = 0;
            return true;
        }
        // Late enough to agree with both, and rather with what is known.
        q.between += 1;
        if q.between >= LEAST {
            state.quarantine = None;
        }
        false
    }

    /// For how long newcomers must agree, s. What was known for minutes does not outvote hours; a
    /// clock known from an earlier run has the credit that it had there, or all if nobody has kept
    /// that.
    pub(super) fn wanted(&self, state: &State) -> f64 {
        let configured = seconds(self.settings.accept_step_after).max(0.0);
        state
            .known()
            .map_or(configured, |(since, until)| configured.min(self.seconds(since, until)))
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
        let rate = self.newest_rate(state, m.received);
        let old = state.model.now().later(self.seconds(state.at, m.received));
        let corridor = q.corridor(0.0, rate);
        let far = corridor.clamp(m.middle(old.rate));
        let step = span(far) - span(old.offset);
        state.anchor.1 += span(far);
        (m.forward, m.backward) = (m.forward - far, m.backward - far);
        let corridor = corridor.shifted(-far).widened(ROUNDED * far.abs());
        let theta = corridor.clamp(m.middle(old.rate));
        // The rate was learnt of a server whose time was wrong: it may have drifted there.
        let deviation = libm::sqrt(old.rate_variance).max(fraction(self.settings.max_wander));
        let mut known = Known { mean: old.rate, deviation };
        state.corridor = corridor;
        if evidence == Evidence::OtherRate {
            // It is the rate that is not what it was: nothing of it is known any more.
            let unknown = BoundedRate { rate: old.rate, error: fraction(UNKNOWN_RATE) };
            known.deviation = unknown.error / SIGMAS;
            self.causal = CausalRate::new(unknown.wider(old.rate.abs()));
            state.corridor = m.corridor(unknown);
        }
        self.restart(state, &m, theta, known, rate.error);
        self.begin_again(state);
        (step, m)
    }

    /// Where θ is at a count if what the quarantine contradicts had gone wrong long before, and how
    /// fast that may part from a clock that knows `now`.
    pub(super) fn earlier(
        &self,
        state: &State,
        now: &States,
        at: Count,
    ) -> Option<(Corridor, f64)> {
        let (corridor, rate) = self.recalled(&state.quarantine?.earlier?, at);
        Some((corridor, (rate.rate - now.rate).abs() + rate.error))
    }

    /// Goes back if newcomers are where an earlier clock would be now: then it was the server that
    /// drifted, and we with it. What comes back is the step.
    fn comes_back(&mut self, state: &mut State, a: &Arrival, q: &Quarantine) -> Option<Span> {
        if q.loose.count < RETURNS || q.restless() {
            return None;
        }
        let Arrival { m, own, now, .. } = a;
        let queued = m.excess(state).max(0.0) / 2.0 + state.excess + m.stamp_errors();
        let theta = now.offset + q.step;
        let recalled = state.past.explains(m.received, theta, q.step, queued)?;
        let Memory { at, rate: mean, clock, .. } = *recalled;
        let strayed = self.wander(self.seconds(at, m.received)) - self.wander(0.0);
        let error = mean.error + (clock.rate - mean.rate).abs() + strayed;
        let known = BoundedRate { rate: clock.rate, error };
        // It may be chance after all, and the server lie from now on: the clock that is left stays
        // open.
        let rate = self.newest_rate(state, m.received);
        let left = state.corridor.later(self.seconds(state.at, m.received), rate);
        let step = self.go_back(state, a, *own, known);
        let broken = Some(Broken { since: m.received, count: 0, rate });
        state.promise = Promise { corridor: left, at: m.received, broken };
        Some(step)
    }

    /// Goes back, as the server was what drifted: the clock goes on from `both` and by the `rate`
    /// from before. Returns the step.
    pub(super) fn go_back(
        &mut self,
        state: &mut State,
        Arrival { m, now, .. }: &Arrival,
        both: Corridor,
        rate: BoundedRate,
    ) -> Span {
        let rate = rate.wider(self.promised_wander(state, m.received));
        let theta = both.clamp(m.middle(rate.rate));
        let known = Known { mean: rate.rate, deviation: rate.error / SIGMAS };
        self.restart(state, m, theta, known, rate.error);
        self.causal = CausalRate::new(rate);
        state.corridor = both;
        state.forget_time();
        span(theta - now.offset)
    }

    /// See [`Estimator::doubt`](crate::Estimator::doubt).
    pub(super) fn in_doubt(&self, at: Count) -> Option<Doubt> {
        let state = self.state.as_ref()?;
        let q = state.quarantine.filter(|q| !q.suspected)?;
        let rate = self.newest_rate(state, at);
        let newcomers = q.corridor(self.seconds(q.newest.received, at), rate);
        let mut held = state.corridor.later(self.seconds(state.at, at), rate);
        if state.promise.broken.is_some() {
            held = held.hull(&self.promised(state, at));
        }
        let earlier = self.earlier(state, state.model.now(), at);
        let open = earlier.map_or(held, |(earlier, _)| held.hull(&earlier));
        let time = |theta| self.time(state, at, theta);
        let ends = |corridor: Corridor| (time(corridor.low), time(corridor.high));
        let left = self.wanted(state) - self.seconds(q.counts_from(), at);
        Some(Doubt {
            since: q.loose.since,
            exchanges: q.loose.count,
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
            let slack = self.newest_rate(&state, q.newest.received).error;
            let evidence = if q.restless() { Evidence::OtherRate } else { Evidence::Step };
            let (step, newest) = self.give_in(&mut state, &q, evidence);
            self.used(&mut state, &newest, slack);
            Accepted::Stepped(step)
        });
        self.state = Some(state);
        stepped
    }
}
