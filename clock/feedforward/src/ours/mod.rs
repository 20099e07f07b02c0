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
//! Notation: θ = true time − (anchor + nominal period · counts since the anchor), in seconds. At
//! the departure F = θ + forward delay, at the arrival B = θ − backward delay.

mod agreement;
mod contradiction;
mod elsewhere;
mod inference;
mod likely;
mod measured;
mod past;
mod promise;
mod rates;
mod state;

use alloc::boxed::Box;

use truechimer_model::{Constants, INTERVAL, Known};
use truechimer_time::{Count, Instant, Period, Rate, Span};

use self::agreement::Carried;
use self::likely::Waits;
pub(crate) use self::measured::Measured;
pub(crate) use self::past::Memory;
use self::past::Past;
use self::promise::Promise;
use self::rates::WANDER_SECONDS;
use self::state::State;
use crate::causal_rate::{BoundedRate, CausalRate, Point};
use crate::corridor::Corridor;
use crate::declared::Declared;
use crate::number::{fraction, rate, seconds, span};
use crate::quarantine::{Quarantine, Rates};
use crate::{
    Accepted, Asymmetry, Disputed, Doubt, Estimate, Estimator, Exchange, RatePrior, Refusal,
    Settings, TimePrior,
};

/// Standard deviations that count as a bound.
const SIGMAS: f64 = 4.0;
/// Noise of a measurement that nothing else explains: clock reads, interrupt entry, s.
const FLOOR_NOISE: f64 = 0.5e-6;
/// The model's rate may stray by so many times what the oscillator is promised to stray by at
/// most: the bound rests on the promise, but the estimate need not fail with it.
const WANDER_ROOM: f64 = 4.0;
/// Before the first exchange the rate is thought to be known to this, however wide its bound:
/// crystals and the kernel's calibration are seldom off by more than twice as much.
const FIRST_RATE: f64 = 25e-6;
/// Bound of the rate error of a counter of which only the nominal rate is known.
const UNKNOWN_RATE: Rate = Rate::from_ppb(500_000);

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
        seconds(self.settings.nominal.span(to - from))
    }

    /// Asymmetry of the path as the user declares it.
    fn declared(&self) -> Option<Declared> {
        let Asymmetry { by, error } = self.settings.asymmetry?;
        Some(Declared::new(seconds(by), seconds(error)))
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
            beyond: self.declared().map_or((0.0, 0.0), |declared| declared.beyond()),
            pulse: self.settings.pulse,
        }
    }

    /// The first exchange: time is known to half the round trip at once. If it contradicts the time
    /// that was known before, that stands, and the exchange begins a quarantine.
    fn first(&self, x: &Exchange) -> (Box<State>, Result<Accepted, Refusal>) {
        // θ is counted from what is held, so that it stays small if the server is far off.
        let held = |prior: &TimePrior| {
            prior.time + self.settings.nominal.span(x.received.count - prior.count)
        };
        let anchor = (x.received.count, self.time_prior.as_ref().map_or(x.server_sent, held));
        let m = self.measure(anchor, x);
        let BoundedRate { rate, error } = prior_rate(self.prior, self.settings.nominal);
        let slack = error + fraction(self.settings.max_wander);
        let own = m.corridor(rate, slack);
        let rtt = m.round_trip(rate).max(0.0);
        let known = self.time_prior.map(|prior| {
            let bound = seconds(prior.bound);
            let dt = self.seconds(prior.count, m.received);
            Corridor { low: -bound, high: bound }.later(dt, rate, slack)
        });
        let middle = m.middle(rate);
        // What was in doubt before stays so, even if what is known has become as vague meanwhile.
        let again = |known: &Corridor, prior: &TimePrior| {
            let centre = known.middle();
            let step = own.clamp(middle) - centre;
            match prior.doubted {
                Some(Disputed::Step(_, before)) => (step - seconds(before)).abs() < step.abs(),
                // Nearer to the end of what was covered then than to that of what was known.
                Some(Disputed::Beyond(by)) => {
                    own.clamp(centre) != centre
                        && step.abs() > seconds(prior.bound) + seconds(by) / 2.0
                }
                None => false,
            }
        };
        let contradicted = known
            .zip(self.time_prior)
            .filter(|(known, prior)| known.intersection(&own).is_none() || again(known, prior));
        let corridor = match (contradicted, known) {
            (Some((known, _)), _) => known,
            (None, known) => known.and_then(|known| known.intersection(&own)).unwrap_or(own),
        };
        let (theta, deviation) = match contradicted {
            Some(_) => (corridor.middle(), corridor.width() / 2.0),
            None => (corridor.clamp(middle), rtt / 2.0 + m.stamp_errors() + FLOOR_NOISE),
        };
        let mut state = Box::new(State {
            anchor,
            model: m.model(
                Known { mean: theta, deviation: deviation / 2.0 },
                Known { mean: rate, deviation: (error / SIGMAS).min(FIRST_RATE) },
                self.constants,
            ),
            at: m.received,
            corridor,
            promise: Promise::new(m.received, corridor),
            quarantine: None,
            suspected: contradicted.is_none(),
            unproven: contradicted.is_some(),
            before: self.time_prior.and_then(|prior| prior.known),
            strayed: 0.0,
            excess: rtt / 2.0,
            waits: Waits::new(),
            root_distance: m.root_distance,
            declared: self.declared(),
            past: Past::default(),
            begun: self.time_prior.and_then(|p| p.known).map_or(m.received, |(since, _)| since),
            last_used: m.received,
        });
        if let Some((_, prior)) = contradicted {
            state.last_used = prior.count;
            let step = own.clamp(middle) - theta;
            let mut quarantine = Quarantine::begin(m, own, corridor, theta, step);
            if let Some(Disputed::Step(since, before)) = prior.doubted
                && (step - seconds(before)).abs()
                    <= own.width()
                        + fraction(UNKNOWN_RATE) * self.seconds(prior.count, m.received).abs()
            {
                quarantine.goes_on(since);
            }
            state.quarantine = Some(quarantine);
            return (state, Err(Refusal::ServerStep));
        }
        if let Some(declared) = &mut state.declared {
            declared.take(rtt, state.excess, &state.corridor, |known| *known);
        }
        state.model.take(m.sample(), slack, false);
        state.clamp(slack);
        (state, Ok(Accepted::Refined))
    }

    /// Does what is left to do after an exchange was used.
    fn used(&mut self, state: &mut State, m: &Measured, slack: f64) {
        if let Some(broken) = state.promise.broken() {
            let known = self.seconds(state.begun, broken.since);
            let wanted = seconds(self.settings.accept_step_after).max(0.0).min(known);
            if state.promise.is_given_up(wanted, |since| self.seconds(since, m.received)) {
                state.promise = Promise::new(m.received, state.corridor);
                state.past.forget();
            }
        }
        let dt = self.seconds(state.last_used, m.received);
        state.waits.take(m, &state.model.now);
        state.root_distance = m.root_distance;
        state.last_used = m.received;
        self.learn_rate(state, m, slack);
        let now = state.model.now;
        let apart = now.rate - now.mean_rate;
        state.strayed += (apart * apart - state.strayed) * (dt / INTERVAL).clamp(0.0, 1.0);
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
            if m.impossible(state.model.now.rate) {
                return Err(Refusal::ImpossibleRoundTrip);
            }
            if result.is_ok() {
                let slack = self.rate_slack(&state.model.now, 0.0);
                self.learn_rate(&state, &m, slack);
            }
            self.state = Some(state);
            return result;
        };
        let result = self.next(&mut state, x);
        self.state = Some(state);
        result
    }

    fn estimate(&self, at: Count) -> Option<Estimate> {
        let state = self.state.as_ref()?;
        let dt = self.seconds(state.at, at);
        let now = state.model.later(dt);
        let stale = self.seconds(state.last_used, at);
        let slack = self.rate_slack(&now, stale);
        let corridor = state.corridor.later(dt, state.model.now.rate, slack);
        let known = state.declared.as_ref().and_then(Declared::known);
        let known = known.map(|known| known.later(dt, state.model.now.rate, slack));
        let corridor = known.and_then(|known| known.intersection(&corridor)).unwrap_or(corridor);
        let theta = corridor.clamp(now.offset);
        // Newcomers whose rate is another one may be anywhere that a counter may take them.
        let newcomers = state.quarantine.filter(Quarantine::restless);
        let growth = newcomers.map_or(slack, |_| slack.max(fraction(UNKNOWN_RATE)));
        let rates = Rates { slack, ..self.rates(state, at) };
        let newest = |q: Quarantine| q.corridor(self.seconds(q.newest.received, at), rates);
        // Where the exchanges left what the oscillator promises, that may still be where time is.
        let promised = state.promise.broken().map(|broken| {
            let parting = (broken.rate.rate - now.rate).abs() + broken.rate.error;
            (self.promised(state, at), parting + self.promised_wander(state, at))
        });
        // And where they contradict it, it may have gone wrong before.
        let earlier = self.earlier(state, &now, at);
        let wide = [promised, earlier];
        let growth = wide.iter().flatten().fold(growth, |all, (_, parting)| all.max(*parting));
        let wide = wide.into_iter().flatten().map(|(open, _)| open);
        let all =
            wide.chain(state.quarantine.map(newest)).fold(corridor, |all, open| all.hull(&open));
        let mut sides = [theta - all.low, all.high - theta]
            .map(|side| side + seconds(self.settings.nominal.span(self.settings.resolution)))
            // What is no number bounds nothing.
            .map(|side| if side.is_nan() { f64::INFINITY } else { side });
        if known.is_some() {
            // A declaration is no proof: the nearer end is not better than the farther one.
            sides = [sides[0].max(sides[1]); 2];
        }
        let [before, after] = sides;
        let bound = before.max(after);
        let BoundedRate { rate: difference, error } = self.difference(state, &now, at);
        // Where it is in doubt what keeps its promise, the rate may be either's.
        let doubted = newcomers.is_some() || state.promise.broken().is_some();
        let either = if doubted { (difference - now.rate).abs() + growth } else { 0.0 };
        let difference_error = error.max(either);
        // The rate of the moment may be near that mean by chance: it moves between exchanges, and
        // walks away from the mean of an interval by a third of what it gains in that.
        let strayed = (now.rate - difference) * (now.rate - difference);
        let strayed = strayed.max(now.walk * INTERVAL / 3.0);
        let difference_deviation = libm::sqrt(strayed.max(state.strayed) + now.rate_variance);
        let nominal: Period = self.settings.nominal;
        Some(Estimate {
            base: at,
            time: state.anchor.1 + nominal.span(at - state.anchor.0) + span(theta),
            period: nominal.scaled(rate(now.rate)),
            difference: nominal.scaled(rate(difference)),
            difference_error: rate(difference_error),
            difference_deviation: rate(difference_deviation.min(difference_error)),
            bound: span(bound),
            imbalance: span(after - before),
            path_bound: span(bound.min(state.path() + state.root_distance)),
            growth: rate(growth),
            deviation: span(libm::sqrt(now.offset_variance)),
            rtt_floor: span(2.0 * state.one_way()),
            spread: self.spread(state, &now, &all, at),
            last_used: state.last_used,
            heard: state.newest(),
        })
    }

    fn knows(&self, _: Count) -> bool {
        self.state.is_some()
    }

    fn new_epoch(&mut self) {
        self.elsewhere = false;
        if let Some(state) = self.state.take() {
            self.prior.period = self.settings.nominal.scaled(rate(state.model.now.rate));
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
        let declared = self.declared();
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
            if let Some(q) = &mut state.quarantine {
                q.shift(by);
                q.newest.beyond = declared.map_or((0.0, 0.0), |declared| declared.beyond());
            }
        }
    }

    fn contradicts_asymmetry(&self) -> bool {
        self.state.as_ref().and_then(|state| state.declared.as_ref()).is_some_and(Declared::broken)
    }

    fn strays(&self) -> bool {
        self.state.as_ref().is_some_and(|state| state.promise.broken().is_some())
    }

    fn doubt(&self, at: Count) -> Option<Doubt> {
        self.in_doubt(at)
    }

    fn known(&self) -> Option<(Count, Count)> {
        match &self.state {
            Some(state) if !state.unproven => Some((state.begun, state.last_used)),
            Some(state) => state.before,
            None => self.time_prior.and_then(|prior| prior.known),
        }
    }

    fn believe(&mut self) -> Option<Accepted> {
        self.believe_newcomers()
    }
}

impl Ours {
    fn next(&mut self, state: &mut State, x: &Exchange) -> Result<Accepted, Refusal> {
        let mut m = self.measure(state.anchor, x);
        if !x.received.count.at_or_after(state.at) {
            return Err(Refusal::CounterBackwards);
        }
        if m.impossible(state.model.now.rate) {
            return Err(Refusal::ImpossibleRoundTrip);
        }
        let carried = self.carried(state, &m);
        let Carried { before, own, slack, .. } = carried;
        let accepted = match before.intersection(&own).filter(|_| !self.doubted(state, &m, own)) {
            Some(both) => match self.agree(state, &mut m, &carried, both)? {
                Some(accepted) => accepted,
                None => return Ok(Accepted::Refined),
            },
            None => {
                state.suspected = false;
                if let Some((broken, both)) = self.promised_again(state, &m, &before) {
                    Accepted::Stepped(self.go_back(state, &m, both, broken))
                } else {
                    Accepted::Stepped(self.quarantine(state, &mut m, own, before)?)
                }
            }
        };
        self.used(state, &m, slack);
        Ok(accepted)
    }

    /// Shows an exchange to the rate by causality.
    fn learn_rate(&mut self, state: &State, m: &Measured, slack: f64) {
        let own = m.corridor(state.model.now.rate, slack);
        let point = Point { at: m.received, own };
        let nominal = self.settings.nominal;
        let worst = fraction(UNKNOWN_RATE);
        let drift = fraction(self.settings.max_wander) / WANDER_SECONDS;
        self.causal.push(point, worst, drift, |a, b| seconds(nominal.span(b - a)));
    }
}
