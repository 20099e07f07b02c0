//! What happens to exchanges that agree with what is known.

use truechimer_time::Span;

use super::likely::Waits;
use super::measured::Measured;
use super::promise::Course;
use super::state::State;
use super::{Ours, WANDER_ROOM};
use crate::bank::Belief;
use crate::corridor::Corridor;
use crate::filter::Known;
use crate::floor::Floor;
use crate::number::{fraction, span};
use crate::{Accepted, Refusal};

/// Share of the newest exchange in the running mean of the excess delay.
const EXCESS_GAIN: f64 = 1.0 / 16.0;

/// After so long without an exchange, s, an oscillator may be anywhere: at the longest poll, if two
/// in a row are lost.
const SILENCE: f64 = 3100.0;

/// What was known, carried forward to the arrival of an exchange, and what that says itself.
pub(super) struct Carried {
    /// For how long it was, and since when none has been used, s.
    since: f64,
    stale: f64,
    /// The rate of θ, and how far it may be off.
    pub(super) rate: f64,
    pub(super) slack: f64,
    predicted: Belief,
    pub(super) before: Corridor,
    pub(super) own: Corridor,
}

impl Ours {
    pub(super) fn carried(&self, state: &State, m: &Measured) -> Carried {
        let stale = self.seconds(state.last_used, m.received);
        let since = self.seconds(state.at, m.received);
        let (rate, predicted) = (state.filter.now().rate, state.filter.now().later(since));
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
            // The filter has yet to see an exchange: its first is this one.
            let deviation = [predicted.theta_var, predicted.rate_var].map(libm::sqrt);
            state.filter = m.filter(
                Known { mean: predicted.theta, deviation: deviation[0] },
                Known { mean: predicted.rate, deviation: deviation[1] },
            );
        } else {
            state.filter.predict(*since);
        }
        let was_ahead = state.filter.ahead().is_some();
        if core::mem::take(&mut self.elsewhere) {
            self.begin_path(state, m, carried, &both);
        }
        let below = m.excess(state).min(0.0);
        state.rtt.push(m.round_trip(*rate), *since);
        let likely_slack = self.likely_slack(predicted, state.floor_known());
        let likely = state.likely.later(*since, *rate, likely_slack);
        let late = (m.round_trip(*rate) / 2.0 - state.one_way()).max(0.0);
        state.excess += EXCESS_GAIN * (late - state.excess);
        let excess = if below < 0.0 { below } else { m.excess(state).max(0.0) };
        let strays = likely_slack + self.wander(*stale) - self.wander(0.0);
        let holds_out = self.settings.accept_step_after > Span::ZERO && *since < SILENCE;
        state.filter.hold_out(holds_out.then_some(strays.min(*slack)));
        let shifted = state.filter.take(m.seen(), *slack, excess);
        let is_ahead = state.filter.ahead().is_some();
        let promised = self.promised(state, m.received);
        state.at = m.received;
        state.corridor = if is_ahead { *before } else { both };
        if let Some(declared) = &mut state.declared {
            let carry = |known: &Corridor| known.later(*since, *rate, *slack);
            declared.take(m.round_trip(*rate), state.excess, &state.corridor, carry);
        }
        if is_ahead {
            state.likely = likely;
            state.suspected &= !state.filter.has_moved();
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
        let mean = self.slow.causal_rate();
        let confined = self.confined_rate(m.received);
        let course = Course {
            rate: confined,
            strayed: rate - confined.rate,
            seconds: |from, to| self.seconds(from, to),
            wander: |stale| self.wander(stale),
        };
        state.promise.go_on(m.received, promised, &both, &course);
        let seconds = |from, to| self.seconds(from, to);
        state.hindsight.remember(m.received, state.filter.now(), mean, seconds);
        state.likely = likely.intersection(&both).unwrap_or_else(|| {
            // It was not likely after all, and neither is the floor that came of it.
            state.directions = Floor::new();
            both
        });
        state.clamp(*slack);
        self.confine(state, m, *slack);
        let Some(rise) = shifted else { return Ok(Some(Accepted::Refined)) };
        // The old floors are of another path.
        state.rtt = Floor::new();
        state.rtt.push(m.round_trip(*rate), 0.0);
        state.directions = Floor::new();
        state.waits = Waits::new();
        state.outdated = true;
        Ok(Some(Accepted::Shifted(span(rise))))
    }

    /// Keeps the filter's rate where causality allows it, and starts again if it is lost.
    fn confine(&self, state: &mut State, m: &Measured, slack: f64) {
        let causal = self.slow.causal_rate();
        let open = causal.error + WANDER_ROOM * fraction(self.settings.max_wander);
        state.filter.confine(causal.rate - open, causal.rate + open);
        if !state.filter.lost() {
            return;
        }
        let Corridor { low, high } = state.corridor;
        state.filter = m.filter(
            Known { mean: (low + high) / 2.0, deviation: (high - low) / 4.0 },
            Known { mean: causal.rate, deviation: open / 2.0 },
        );
        let excess = m.excess(state);
        let _ = state.filter.take(m.seen(), slack, excess);
        state.clamp(slack);
    }
}
