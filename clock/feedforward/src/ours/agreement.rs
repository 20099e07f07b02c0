//! Treatment of exchanges that agree with what is known.

use truechimer_model::{Known, States};
use truechimer_time::Span;

use super::likely::Waits;
use super::measured::Measured;
use super::past::Memory;
use super::promise::Course;
use super::state::State;
use super::{Ours, WANDER_ROOM};
use crate::corridor::Corridor;
use crate::number::{fraction, span};
use crate::{Accepted, Refusal};

/// Share of the newest exchange in the running mean of the excess delay.
const EXCESS_GAIN: f64 = 1.0 / 16.0;

/// After so long without an exchange, s, an oscillator may be anywhere: at the longest poll, if two
/// in a row are lost.
const SILENCE: f64 = 3100.0;

/// Knowledge carried forward to the arrival of an exchange, and what that says itself.
pub(super) struct Carried {
    /// For how long it was, and since when none has been used, s.
    since: f64,
    stale: f64,
    /// The rate of θ, and how far it may be off.
    pub(super) rate: f64,
    pub(super) slack: f64,
    predicted: States,
    pub(super) before: Corridor,
    pub(super) own: Corridor,
}

impl Ours {
    pub(super) fn carried(&self, state: &State, m: &Measured) -> Carried {
        let stale = self.seconds(state.last_used, m.received);
        let since = self.seconds(state.at, m.received);
        let (rate, predicted) = (state.model.now.rate, state.model.later(since));
        let slack = self.rate_slack(&predicted, stale);
        let before = state.corridor.later(since, rate, slack);
        let own = m.corridor(rate, slack);
        Carried { since, stale, rate, slack, predicted, before, own }
    }

    /// An exchange that leaves `both` of what was known open. It may still be the server that has
    /// moved: nothing is learnt of it then, and the bound covers both; but it is held off only when
    /// that is beyond doubt.
    pub(super) fn agree(
        &mut self,
        state: &mut State,
        m: &mut Measured,
        carried: &Carried,
        both: Corridor,
    ) -> Result<Option<Accepted>, Refusal> {
        let Carried { since, stale, rate, slack, predicted, before, own } = carried;
        if core::mem::take(&mut state.unproven) {
            // The model has yet to see an exchange: its first is this one.
            let deviation = [predicted.offset_variance, predicted.rate_variance].map(libm::sqrt);
            state.model = m.model(
                Known { mean: predicted.offset, deviation: deviation[0] },
                Known { mean: predicted.rate, deviation: deviation[1] },
                self.constants,
            );
        } else {
            state.model.change(|model| model.predict(*since));
        }
        let was_ahead = state.model.ahead().is_some();
        if core::mem::take(&mut self.elsewhere) {
            self.begin_path(state, m, carried, &both);
        }
        let likely_slack = self.likely_slack(predicted);
        let late = (m.round_trip(*rate) / 2.0 - state.one_way()).max(0.0);
        state.excess += EXCESS_GAIN * (late - state.excess);
        let strays = likely_slack + self.wander(*stale) - self.wander(0.0);
        let holds_out = self.settings.accept_step_after > Span::ZERO && *since < SILENCE;
        let strays = if holds_out { strays.min(*slack) } else { *slack };
        let shifted = state.model.take(m.sample(), strays, holds_out);
        let is_ahead = state.model.ahead().is_some();
        let promised = self.promised(state, m.received);
        state.at = m.received;
        state.corridor = match (was_ahead, is_ahead) {
            (_, true) => *before,
            // The server is back, or it was the oscillator: its word is right in either case.
            (true, false) => *own,
            (false, false) => both,
        };
        if let Some(declared) = &mut state.declared {
            let carry = |known: &Corridor| known.later(*since, *rate, *slack);
            declared.take(m.round_trip(*rate), state.excess, &state.corridor, carry);
        }
        if is_ahead {
            state.suspected &= !state.model.has_moved();
            return match self.quarantine(state, m, *own, *before) {
                Err(Refusal::ServerStep) if state.suspected => Ok(None),
                stepped => stepped.map(|by| Some(Accepted::Stepped(by))),
            };
        }
        if was_ahead {
            state.quarantine = None;
        }
        // What contradicts what is known stays in doubt where an exchange agrees with both.
        state.suspected |= state.quarantine.is_none();
        let confined = self.confined_rate(m.received);
        let course = Course {
            rate: confined,
            strayed: rate - confined.rate,
            seconds: |from, to| self.seconds(from, to),
            wander: |stale| self.wander(stale),
        };
        state.promise.go_on(m.received, promised, &state.corridor, &state.past, &course);
        let corridor = state.promise.corridor;
        let known = Memory { at: m.received, corridor, rate: confined, clock: state.model.now };
        state.past.remember(known, |from, to| self.seconds(from, to));
        state.clamp(*slack);
        self.confine(state, m, *slack);
        let Some(rise) = shifted else { return Ok(Some(Accepted::Refined)) };
        // What is known of queues is of another path.
        state.waits = Waits::new();
        Ok(Some(Accepted::Shifted(span(rise))))
    }

    /// Keeps the model's rate where causality allows it, and starts again if it is lost.
    fn confine(&self, state: &mut State, m: &Measured, slack: f64) {
        let causal = self.causal.rate();
        let open = causal.error + WANDER_ROOM * fraction(self.settings.max_wander);
        state.model.change(|model| model.confine(causal.rate - open, causal.rate + open));
        if !state.model.is_lost() {
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
