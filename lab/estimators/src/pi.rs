//! A textbook PI servo, for comparison: feedback, as in daemons like ptpd.
//!
//! A system clock is steered, and its stamps are taken from that same clock. Each exchange gives
//! its offset, (ta − Tb + tf − Te) / 2, where ta and tf are what the steered clock showed. The mean
//! of the last two offsets goes into a proportional and an integral term, whose sum is the clock's
//! frequency until the next exchange. Gains are per poll interval τ:
//!
//! > I ← I − Kᵢ offset / τ,  frequency = I − Kₚ offset / τ
//!
//! This is the textbook and not any program. Its bound is what can be said of such a clock: half of
//! the mean round trip, the server's root distance and the newest offset. It is no promise.

use truechimer_feedforward::number::{fraction, rate, seconds, span};
use truechimer_feedforward::{
    Accepted, Estimate, Estimator, Exchange, RatePrior, Refusal, Settings, TimePrior,
};
use truechimer_time::{Count, Instant, Rate};

use crate::steered::Steered;
use crate::{Compared, stated};

/// Gain of the proportional term: this share of an offset is worked off per poll interval.
const PROPORTIONAL: f64 = 0.1;
/// Gain of the integral term.
const INTEGRAL: f64 = 0.001;
/// An offset beyond this is stepped away, s.
const STEP: f64 = 1.0;
/// The frequency is steered within this.
const FREQUENCY_LIMIT: f64 = 512e-6;
/// Stiffness of the mean round trip: an exponential mean over so many.
const STIFFNESS: f64 = 6.0;

/// A textbook PI servo. See the module's text.
#[derive(Clone, Debug)]
pub struct Pi {
    settings: Settings,
    /// Frequency to begin with, and the last integral.
    integral: f64,
    error: f64,
    time: Option<TimePrior>,
    poll: u32,
    state: Option<State>,
}

#[derive(Clone, Debug)]
struct State {
    clock: Steered,
    last: Count,
    /// The newest offset, s; `None` after a step.
    offset: Option<f64>,
    /// Mean and smallest round trip, s, and of how many.
    delay: f64,
    least_delay: f64,
    count: f64,
    root_distance: f64,
}

impl Pi {
    /// A servo that has seen nothing. Its clock runs at `prior`'s rate and shows `time`, if that is
    /// known; otherwise the first exchange sets it. `poll` is the poll interval in seconds.
    #[must_use]
    pub fn new(settings: Settings, prior: RatePrior, time: Option<TimePrior>, poll: u32) -> Pi {
        let integral = fraction(prior.period.relative_to(settings.nominal));
        Pi { settings, integral, error: fraction(prior.error), time, poll, state: None }
    }

    fn begin(&self, x: &Exchange) -> State {
        let (count, time): (Count, Instant) = match self.time {
            Some(prior) => (prior.count, prior.time),
            None => (x.received.count, x.server_sent),
        };
        State {
            clock: Steered::new(self.settings.nominal, count, time, self.integral),
            last: x.sent.count,
            offset: None,
            delay: 0.0,
            least_delay: f64::INFINITY,
            count: 0.0,
            root_distance: 0.0,
        }
    }

    fn update(&mut self, state: &mut State, x: &Exchange) -> Result<Accepted, Refusal> {
        let first = state.count == 0.0;
        if !first && !x.received.count.at_or_after(state.last) {
            return Err(Refusal::CounterBackwards);
        }
        let late = seconds(state.clock.reading(x.sent.count) - x.server_received);
        let early = seconds(state.clock.reading(x.received.count) - x.server_sent);
        let offset = (late + early) / 2.0;
        let delay = early - late;
        if delay < 0.0 {
            return Err(Refusal::ImpossibleRoundTrip);
        }
        state.count = (state.count + 1.0).min(STIFFNESS);
        state.delay += (delay - state.delay) / state.count;
        state.least_delay = state.least_delay.min(delay);
        state.root_distance = seconds(x.root_distance).max(0.0);
        let elapsed = seconds(self.settings.nominal.span(x.received.count - state.last));
        state.last = x.received.count;
        if (first && self.time.is_none()) || offset.abs() > STEP {
            let by = span(-offset);
            state.clock.step(x.received.count, by);
            state.clock.steer(x.received.count, self.integral, 0.0, 0.0);
            state.offset = None;
            return Ok(if first { Accepted::Refined } else { Accepted::Stepped(by) });
        }
        let filtered = (offset + state.offset.unwrap_or(offset)) / 2.0;
        state.offset = Some(offset);
        let interval = elapsed.max(1.0).min(f64::from(self.poll.max(1)));
        let limited = |f: f64| f.clamp(-FREQUENCY_LIMIT, FREQUENCY_LIMIT);
        self.integral = limited(self.integral - INTEGRAL * filtered / interval);
        let frequency = limited(self.integral - PROPORTIONAL * filtered / interval);
        state.clock.steer(x.received.count, frequency, 0.0, 0.0);
        Ok(Accepted::Refined)
    }
}

impl Estimator for Pi {
    fn exchange(&mut self, x: &Exchange) -> Result<Accepted, Refusal> {
        if (x.received.count - x.sent.count).0 <= 0 {
            return Err(Refusal::CounterBackwards);
        }
        if x.server_sent < x.server_received {
            return Err(Refusal::ImpossibleRoundTrip);
        }
        let mut state = self.state.take().unwrap_or_else(|| self.begin(x));
        let result = self.update(&mut state, x);
        if state.count > 0.0 {
            self.state = Some(state);
        }
        result
    }

    fn estimate(&self, at: Count) -> Option<Estimate> {
        let state = self.state.as_ref()?;
        let period = state.clock.period(at);
        let age = seconds(self.settings.nominal.span(at - state.last)).abs();
        let growth = fraction(self.settings.max_wander);
        let path = state.delay / 2.0 + state.root_distance;
        let offset = state.offset.unwrap_or(0.0).abs();
        let bound = path + offset + growth * age;
        // There is no other rate than this: intervals are measured by the steered clock.
        Some(Estimate {
            difference_error: rate(self.error.abs()),
            difference_deviation: rate(self.error.abs()),
            path_bound: span(path.min(bound)),
            growth: self.settings.max_wander,
            deviation: span(offset),
            rtt_floor: span(state.least_delay),
            ..stated(at, state.clock.reading(at), period, span(bound), state.last)
        })
    }

    /// The clock is set anew; its frequency is kept, as a machine's daemon would.
    fn new_epoch(&mut self) {
        self.state = None;
        self.time = None;
    }

    fn set_max_wander(&mut self, max_wander: Rate) {
        self.settings.max_wander = Rate(max_wander.0.max(0));
    }
}

impl Compared for Pi {
    fn set_poll(&mut self, seconds: u32) {
        self.poll = seconds;
    }
}
