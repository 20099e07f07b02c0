//! Treatment of exchanges that agree with what is known.

use truechimer_model::{Change, Known, States};
use truechimer_time::Span;

use super::likely::Waits;
use super::measured::Measured;
use super::past::Memory;
use super::state::State;
use super::{Ours, WANDER_ROOM};
use crate::corridor::{BoundedRate, Corridor};
use crate::number::{fraction, span};
use crate::{Accepted, Refusal};

/// Share of the newest exchange in the running mean of the excess delay.
const EXCESS_GAIN: f64 = 1.0 / 16.0;

/// After so long without an exchange, s, an oscillator may be anywhere: at the longest poll, if two
/// in a row are lost.
const SILENCE: f64 = 3100.0;

/// Arrival of an exchange, and knowledge carried forward to it.
pub(super) struct Arrival {
    pub(super) m: Measured,
    /// For how long it was, and since when none has been used, s.
    since: f64,
    stale: f64,
    /// The rate of θ.
    pub(super) rate: BoundedRate,
    pub(super) now: States,
    /// Where θ is by what is known, and by the exchange alone.
    pub(super) before: Corridor,
    pub(super) own: Corridor,
}

impl Ours {
    pub(super) fn arrival(&self, state: &State, m: Measured) -> Arrival {
        let stale = self.seconds(state.last_used, m.received);
        let since = self.seconds(state.at, m.received);
        let now = state.model.now().later(since);
        let rate = self.bounded_rate(&now, stale);
        let before = state.corridor.later(since, rate);
        Arrival { m, since, stale, rate, now, before, own: m.corridor(rate) }
    }

    /// An exchange that leaves `both` of what was known open. It may still be the server that has
    /// moved: nothing is learnt of it then, and the bound covers both; but it is held off only when
    /// that is beyond doubt.
    pub(super) fn agree(
        &mut self,
        state: &mut State,
        a: &mut Arrival,
        both: Corridor,
    ) -> Result<Option<Accepted>, Refusal> {
        let (was_ahead, changed) = self.learn(state, a, &both);
        let is_ahead = state.model.ahead().is_some();
        let Arrival { m, since, rate, before, own, .. } = *a;
        let promised = self.promised(state, m.received);
        (state.at, a.now) = (m.received, *state.model.now());
        state.corridor = match (was_ahead, is_ahead) {
            (_, true) => before,
            // The server is back, or it was the oscillator: its word is right in either case.
            (true, false) => own,
            (false, false) => both,
        };
        if let Some(declared) = &mut state.declared {
            let rtt = m.round_trip(rate.rate);
            declared.take(rtt, state.excess, &state.corridor, since, rate);
        }
        if is_ahead {
            let held = state.model.has_moved();
            return match self.quarantine(state, a, held) {
                Err(Refusal::ServerStep) if state.is_suspected() => Ok(None),
                stepped => stepped.map(|by| Some(Accepted::Stepped(by))),
            };
        }
        // Else what contradicts what is known stays in doubt: this one agrees with both.
        if was_ahead {
            state.quarantine = None;
        }
        let confined = self.confined_rate(m.received);
        self.keep_promise(state, m.received, promised, confined, rate.rate);
        state.past.remember(Memory {
            at: m.received,
            corridor: state.promise.corridor,
            rate: confined,
            clock: *state.model.now(),
        });
        state.clamp(rate.error);
        self.confine(state, &m, rate.error);
        let Some(Change { by, is_route }) = changed else { return Ok(Some(Accepted::Refined)) };
        // What is known of queues is of another path.
        state.waits = Waits::new();
        let told = if is_route { Accepted::Shifted } else { Accepted::FloorMoved };
        Ok(Some(told(span(by))))
    }

    /// Shows the model an exchange that leaves `both` open. What comes back is whether the server
    /// seemed to be ahead before, and the change of the round trip's floor, if one is certain.
    fn learn(&mut self, state: &mut State, a: &Arrival, both: &Corridor) -> (bool, Option<Change>) {
        let Arrival { m, since, stale, rate, now, .. } = a;
        if core::mem::take(&mut state.unproven) {
            // The model has yet to see an exchange: its first is this one.
            let known = |mean, variance| Known { mean, deviation: libm::sqrt(variance) };
            state.model = m.model(
                known(now.offset, now.offset_variance),
                known(now.rate, now.rate_variance),
                self.constants,
            );
        } else {
            state.model.predict(*since);
        }
        let was_ahead = state.model.ahead().is_some();
        if core::mem::take(&mut self.elsewhere) {
            self.begin_path(state, a, both);
        }
        let late = (m.round_trip(rate.rate) / 2.0 - state.one_way()).max(0.0);
        state.excess += EXCESS_GAIN * (late - state.excess);
        let strays = self.likely_slack(now) + self.wander(*stale) - self.wander(0.0);
        let holds_out = self.settings.accept_step_after > Span::ZERO && *since < SILENCE;
        let strays = if holds_out { strays.min(rate.error) } else { rate.error };
        let changed = state.model.take(m.sample(), strays, holds_out);
        let is_calm = !was_ahead && state.model.ahead().is_none() && changed.is_none();
        if is_calm && state.quarantine.is_none() {
            let of = state.further.replies(m.received, both, *rate, self.settings.nominal);
            state.model.between(of);
        }
        (was_ahead, changed)
    }

    /// Keeps the model's rate where causality allows it, and starts again if it is lost.
    fn confine(&self, state: &mut State, m: &Measured, slack: f64) {
        let causal = self.causal.rate();
        let open = causal.error + WANDER_ROOM * fraction(self.settings.max_wander);
        state.model.confine(causal.rate - open, causal.rate + open);
        if state.model.now().are_finite() {
            return;
        }
        state.model = m.model(
            Known { mean: state.corridor.middle(), deviation: state.corridor.width() / 4.0 },
            Known { mean: causal.rate, deviation: open / 2.0 },
            self.constants,
        );
        state.model.take(m.sample(), slack, false);
        state.clamp(slack);
    }
}
