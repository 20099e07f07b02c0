//! Our estimator: a statistical model of oscillator and path, and a bound from causality.
//!
//! The steps for each exchange, each using only those before it:
//!
//! 1. **Corridor**: does the exchange agree with what causality allowed so far? If not, quarantine.
//! 2. **Model** (`truechimer_model`): each direction measures θ and its floor, too late by a delay
//!    whose law is learnt. Path, server and oscillator may change, by events that are weighed by
//!    their posterior odds.
//! 3. **Past**: what was known is kept, as a contradiction may have begun long before it shows.
//!
//! The files in the order of `docs/explanation/algorithm.md`: `rates` (how far the rate may be off),
//! `promise`, `estimate` (what is published); `contradiction` and `agreement` (hold-off), `past`;
//! `likely`, `further`. `first` and `elsewhere` begin with a clock, and with another server. One exchange is in
//! `measured`, all that is known in `state`.
//!
//! Notation: θ = true time − (anchor + nominal period · counts since the anchor), in seconds. At
//! the departure F = θ + forward delay, at the arrival B = θ − backward delay.

mod agreement;
mod contradiction;
mod elsewhere;
mod estimate;
mod first;
mod further;
mod likely;
mod measured;
mod past;
mod promise;
mod rates;
mod state;

use alloc::boxed::Box;

use truechimer_model::{Constants, INTERVAL};
use truechimer_time::{Count, Instant, Period, Rate, Span};

use self::agreement::Arrival;
pub(crate) use self::measured::Measured;
pub(crate) use self::past::Memory;
use self::promise::Promise;
use self::rates::WANDER_SECONDS;
use self::state::State;
use crate::causal_rate::{CausalRate, Point, UNKNOWN_RATE};
use crate::corridor::BoundedRate;
use crate::declared::Declared;
use crate::number::{between, fraction, rate, seconds};
use crate::quarantine::enough;
use crate::{
    Accepted, Asymmetry, Doubt, Estimate, Estimator, Exchange, RatePrior, Refusal, Settings,
    TimePrior,
};

/// Standard deviations that count as a bound.
const SIGMAS: f64 = 4.0;
/// Noise of a measurement that nothing else explains: clock reads, interrupt entry, s.
const FLOOR_NOISE: f64 = 0.5e-6;
/// The model's rate may stray by so many times what the oscillator is promised to stray by at
/// most: the bound rests on the promise, but the estimate need not fail with it.
const WANDER_ROOM: f64 = 4.0;

/// Our estimator. See the module's text.
#[derive(Clone, Debug)]
pub struct Ours {
    settings: Settings,
    prior: RatePrior,
    /// Box of what is known: it is large, and an exchange takes it out and puts it back.
    state: Option<Box<State>>,
    time_prior: Option<TimePrior>,
    causal: CausalRate,
    /// The exchange to come is with another server.
    elsewhere: bool,
    /// Of the model.
    constants: Constants,
}

/// The rate relative to the nominal period that is known before the first exchange.
fn prior_rate(prior: RatePrior, nominal: Period) -> BoundedRate {
    BoundedRate { rate: fraction(prior.period.relative_to(nominal)), error: fraction(prior.error) }
}

impl Ours {
    /// An estimator that has seen nothing yet but knows the rate roughly, and perhaps the time.
    #[must_use]
    pub fn new(settings: Settings, prior: RatePrior, time: Option<TimePrior>) -> Ours {
        Ours {
            settings,
            prior,
            state: None,
            time_prior: time,
            causal: CausalRate::new(prior_rate(prior, settings.nominal)),
            elsewhere: false,
            constants: Constants::DEFAULT,
        }
    }

    /// Replaces the model's constants: for the laboratory, as no daemon has a setting for them.
    #[must_use]
    pub fn with_constants(self, constants: Constants) -> Ours {
        Ours { constants, ..self }
    }

    /// The span between two counts at the nominal period, s.
    fn seconds(&self, from: Count, to: Count) -> f64 {
        between(self.settings.nominal, from, to)
    }

    /// Asymmetry of the path as the user declares it.
    fn declared(&self) -> Option<Declared> {
        let Asymmetry { by, error } = self.settings.asymmetry?;
        Some(Declared::new(seconds(by), seconds(error)))
    }

    /// Reach of causality beyond the stamps by that.
    fn beyond(&self) -> (f64, f64) {
        self.declared().map_or((0.0, 0.0), |declared| declared.beyond())
    }

    fn measure(&self, anchor: (Count, Instant), x: &Exchange) -> Measured {
        let shown = |count: Count| anchor.1 + self.settings.nominal.span(count - anchor.0);
        let error = |counts| seconds(self.settings.nominal.span(counts)).abs();
        Measured {
            received: x.received.count,
            duration: self.seconds(x.sent.count, x.received.count),
            forward: seconds(x.server_received - shown(x.sent.count)),
            backward: seconds(x.server_sent - shown(x.received.count)),
            forward_error: error(x.sent.error),
            backward_error: error(x.received.error),
            root_distance: seconds(x.root_distance).max(0.0),
            precision: seconds(x.precision).max(0.0),
            beyond: self.beyond(),
            pulse: self.settings.pulse,
        }
    }

    fn next(&mut self, state: &mut State, x: &Exchange) -> Result<Accepted, Refusal> {
        let m = self.measure(state.anchor, x);
        if !x.received.count.at_or_after(state.at) {
            return Err(Refusal::CounterBackwards);
        }
        if m.impossible(state.model.now().rate) {
            return Err(Refusal::ImpossibleRoundTrip);
        }
        let mut a = self.arrival(state, m);
        let Arrival { before, own, rate, .. } = a;
        let accepted = match before.intersection(&own).filter(|_| !self.doubted(state, &a)) {
            Some(both) => match self.agree(state, &mut a, both)? {
                Some(accepted) => accepted,
                None => return Ok(Accepted::Refined),
            },
            None => {
                let step = match self.promised_again(state, &a) {
                    Some((rate, both)) => self.go_back(state, &a, both, rate),
                    None => self.quarantine(state, &mut a, true)?,
                };
                Accepted::Stepped(step)
            }
        };
        self.used(state, &a.m, rate.error);
        Ok(accepted)
    }

    /// Does what is left to do after an exchange was used.
    fn used(&mut self, state: &mut State, m: &Measured, slack: f64) {
        if let Some(broken) = state.promise.broken {
            let known = self.seconds(state.begun, broken.since);
            let wanted = seconds(self.settings.accept_step_after).max(0.0).min(known);
            if enough(broken.count, self.seconds(broken.since, m.received), wanted) {
                state.promise = Promise::new(m.received, state.corridor);
                state.past.forget();
            }
        }
        let dt = self.seconds(state.last_used, m.received);
        state.waits.take(m, state.model.now());
        state.root_distance = m.root_distance;
        state.last_used = m.received;
        self.learn_rate(state, m, slack);
        let now = state.model.now();
        let apart = now.rate - now.mean_rate;
        state.strayed += (apart * apart - state.strayed) * (dt / INTERVAL).clamp(0.0, 1.0);
    }

    /// Shows an exchange to the rate by causality.
    fn learn_rate(&mut self, state: &State, m: &Measured, slack: f64) {
        let own = m.corridor(BoundedRate { rate: state.model.now().rate, error: slack });
        let drift = fraction(self.settings.max_wander) / WANDER_SECONDS;
        self.causal.push(Point { at: m.received, own }, drift, self.settings.nominal);
    }
}

impl Estimator for Ours {
    fn exchange(&mut self, x: &Exchange) -> Result<Accepted, Refusal> {
        if (x.received.count - x.sent.count).0 <= 0 {
            return Err(Refusal::CounterBackwards);
        }
        let Some(mut state) = self.state.take() else {
            let (state, result) = self.first(x);
            let m = self.measure(state.anchor, x);
            if m.impossible(state.model.now().rate) {
                return Err(Refusal::ImpossibleRoundTrip);
            }
            if result.is_ok() {
                let slack = self.bounded_rate(state.model.now(), 0.0).error;
                self.learn_rate(&state, &m, slack);
            }
            self.state = Some(state);
            return result;
        };
        let result = self.next(&mut state, x);
        state.further.clear();
        self.state = Some(state);
        result
    }

    fn further(&mut self, x: &Exchange) {
        self.keep(x);
    }

    fn estimate(&self, at: Count) -> Option<Estimate> {
        Some(self.estimated(self.state.as_ref()?, at))
    }

    fn knows(&self, _: Count) -> bool {
        self.state.is_some()
    }

    fn new_epoch(&mut self) {
        self.elsewhere = false;
        if let Some(state) = self.state.take() {
            self.prior.period = self.settings.nominal.scaled(rate(state.model.now().rate));
        }
        // The machine may be another one now: the old rate is a guess, no better than nominal.
        let guess = self.prior.period.relative_to(self.settings.nominal);
        let error = UNKNOWN_RATE.0.saturating_add(guess.0.saturating_abs());
        self.prior.error = self.prior.error.max(Rate(error));
        self.time_prior = None;
        self.causal = CausalRate::new(prior_rate(self.prior, self.settings.nominal));
    }

    fn change_server(&mut self, others: bool, asymmetry: Option<Asymmetry>) {
        // It is of another path: what is known of time has nothing to do with it.
        self.settings.asymmetry = asymmetry;
        self.leave_server(others);
    }

    fn set_max_wander(&mut self, max_wander: Rate) {
        self.settings.max_wander = max_wander;
    }

    fn set_accept_step_after(&mut self, span: Span) {
        self.settings.accept_step_after = span;
    }

    fn set_asymmetry(&mut self, asymmetry: Option<Asymmetry>) {
        let by = |asymmetry: Option<Asymmetry>| asymmetry.map_or(Span::ZERO, |a| a.by);
        let less = by(asymmetry) - by(self.settings.asymmetry);
        self.settings.asymmetry = asymmetry;
        let (declared, beyond) = (self.declared(), self.beyond());
        if let Some(state) = &mut self.state {
            // The stamps to come are less by half of that, and so is the time.
            state.anchor.1 = state.anchor.1 - less.half();
            // What causality allows is a matter of the stamps as they came: it stays where it is.
            let by = seconds(less.half());
            state.corridor = state.corridor.shifted(by);
            state.promise.corridor = state.promise.corridor.shifted(by);
            state.past.shift(by);
            self.causal.shift(by);
            state.declared = declared;
            state.further.clear();
            if let Some(q) = &mut state.quarantine {
                q.shift(by);
                q.newest.beyond = beyond;
            }
        }
    }

    fn contradicts_asymmetry(&self) -> bool {
        self.state.as_ref().and_then(|state| state.declared.as_ref()).is_some_and(Declared::broken)
    }

    fn strays(&self) -> bool {
        self.state.as_ref().is_some_and(|state| state.promise.broken.is_some())
    }

    fn doubt(&self, at: Count) -> Option<Doubt> {
        self.in_doubt(at)
    }

    fn known(&self) -> Option<(Count, Count)> {
        match &self.state {
            Some(state) => state.known(),
            None => self.time_prior.and_then(|prior| prior.known),
        }
    }

    fn believe(&mut self) -> Option<Accepted> {
        self.believe_newcomers()
    }
}
