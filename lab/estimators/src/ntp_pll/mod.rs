//! A textbook RFC 5905 client, for comparison: clock filter, discipline loop, feedback.
//!
//! A system clock is steered, and its stamps are taken from that same clock. Of the last eight
//! samples the one with the least delay counts ([`filter`]); it drives a hybrid phase- and
//! frequency-lock loop ([`discipline`]) that works the offset off by a share each second.
//!
//! This is the RFC's algorithm for one server and not any program. The bound is the RFC's root
//! synchronisation distance. The panic threshold is ignored, as by a daemon that is told to.

mod discipline;
mod filter;

use truechimer_feedforward::number::{fraction, rate, seconds, span};
use truechimer_feedforward::{
    Accepted, Estimate, Estimator, Exchange, RatePrior, Refusal, Settings, TimePrior,
};
use truechimer_time::{Count, Instant, Rate, Span};

use discipline::{Discipline, State as Phase, Verdict};
use filter::{ClockFilter, MAX_DISTANCE, PHI, Sample};

use crate::steered::Steered;
use crate::{Compared, stated};

/// Least dispersion that an update adds, s (MINDISP).
const MIN_DISPERSION: f64 = 0.01;
/// A frequency known better than this is taken for one that a drift file kept.
const KNOWN_FREQUENCY: Rate = Rate::from_ppb(100_000);
/// The finest precision of a system clock, s.
const FINEST_PRECISION: f64 = 1e-9;

/// A textbook RFC 5905 client. See the module's text.
#[derive(Clone, Debug)]
pub struct NtpPll {
    settings: Settings,
    time: Option<TimePrior>,
    discipline: Discipline,
    state: Option<State>,
}

#[derive(Clone, Debug)]
struct State {
    clock: Steered,
    filter: ClockFilter,
    root_distance: f64,
    least_delay: f64,
    last: Count,
    last_used: Count,
}

impl NtpPll {
    /// A client that has seen nothing. Its clock runs at `prior`'s rate and shows `time`, if that
    /// is known; otherwise the first exchange sets it roughly, as a boot does. A rate known to
    /// 100 ppm is taken for one from a drift file. `poll` is the poll interval in seconds.
    #[must_use]
    pub fn new(settings: Settings, prior: RatePrior, time: Option<TimePrior>, poll: u32) -> NtpPll {
        let known = prior.error <= KNOWN_FREQUENCY;
        let phase = if known { Phase::FrequencySet } else { Phase::NeverSet };
        let frequency = fraction(prior.period.relative_to(settings.nominal));
        NtpPll { settings, time, discipline: Discipline::new(phase, frequency, poll), state: None }
    }

    fn precision(&self) -> f64 {
        seconds(self.settings.nominal.span(self.settings.resolution)).max(FINEST_PRECISION)
    }

    fn begin(&self, x: &Exchange) -> State {
        let (count, time): (Count, Instant) = match self.time {
            Some(prior) => (prior.count, prior.time),
            None => (x.received.count, x.server_sent),
        };
        State {
            clock: self.discipline.clock(self.settings.nominal, count, time),
            filter: ClockFilter::new(),
            root_distance: 0.0,
            least_delay: f64::INFINITY,
            last: x.received.count,
            last_used: x.received.count,
        }
    }

    fn update(&mut self, state: &mut State, x: &Exchange) -> Result<Accepted, Refusal> {
        let at = x.received.count;
        if !at.at_or_after(state.last) {
            return Err(Refusal::CounterBackwards);
        }
        let (sent, received) = (state.clock.reading(x.sent.count), state.clock.reading(at));
        let forward = seconds(x.server_received - sent);
        let backward = seconds(x.server_sent - received);
        let precision = self.precision();
        let delay = (forward - backward).max(precision);
        let sample = Sample {
            at,
            offset: (forward + backward) / 2.0,
            delay,
            dispersion: precision + PHI * seconds(received - sent).max(0.0),
        };
        let nominal = self.settings.nominal;
        let poll = self.discipline.poll();
        let seconds_of = |a: Count, b: Count| seconds(nominal.span(b - a));
        let set = self.discipline.is_set();
        let best = state.filter.push(sample, set, (precision, poll), seconds_of);
        state.root_distance = seconds(x.root_distance).max(0.0);
        state.least_delay = state.least_delay.min(delay);
        state.last = at;
        let fit = state.root_distance + state.filter.distance() < MAX_DISTANCE + PHI * poll;
        if let Some(sampled) = best.filter(|_| fit) {
            let (offset, clock) = (state.filter.offset, &mut state.clock);
            let verdict =
                self.discipline.update(clock, (at, sampled), offset, (precision, nominal));
            match verdict {
                Verdict::Outlier => return Err(Refusal::ServerStep),
                Verdict::Stepped(by) => {
                    state.filter.clear();
                    state.last_used = at;
                    return Ok(Accepted::Stepped(span(by)));
                }
                Verdict::Ignored | Verdict::Slewed => {}
            }
        }
        state.last_used = at;
        Ok(Accepted::Refined)
    }
}

impl Estimator for NtpPll {
    fn exchange(&mut self, x: &Exchange) -> Result<Accepted, Refusal> {
        if (x.received.count - x.sent.count).0 <= 0 {
            return Err(Refusal::CounterBackwards);
        }
        if x.server_sent < x.server_received {
            return Err(Refusal::ImpossibleRoundTrip);
        }
        let mut state = self.state.take().unwrap_or_else(|| self.begin(x));
        let result = self.update(&mut state, x);
        self.state = Some(state);
        result
    }

    fn estimate(&self, at: Count) -> Option<Estimate> {
        let state = self.state.as_ref()?;
        let (filter, period) = (&state.filter, state.clock.period(at));
        let age = seconds(self.settings.nominal.span(at - state.last)).abs();
        let path = filter.delay / 2.0 + state.root_distance;
        let added = (filter.dispersion + filter.offset.abs()).max(MIN_DISPERSION);
        let bound = path + added + filter.jitter + PHI * age;
        // There is no other rate than this: intervals are measured by the steered clock.
        Some(Estimate {
            difference_error: rate(PHI),
            difference_deviation: rate(PHI),
            path_bound: span(path.min(bound)),
            growth: rate(PHI),
            deviation: span(libm::sqrt(
                filter.jitter * filter.jitter + self.discipline.jitter * self.discipline.jitter,
            )),
            rtt_floor: span(state.least_delay),
            ..stated(at, state.clock.reading(at), period, span(bound), state.last_used)
        })
    }

    /// The clock is set anew; its frequency is kept, as by a drift file.
    fn new_epoch(&mut self) {
        if self.discipline.state != Phase::NeverSet && self.discipline.state != Phase::Frequency {
            self.discipline.state = Phase::FrequencySet;
        } else {
            self.discipline.state = Phase::NeverSet;
        }
        self.state = None;
        self.time = None;
    }

    /// The RFC has a tolerance of its own, 15 ppm.
    fn set_max_wander(&mut self, _max_wander: Rate) {}
}

impl Compared for NtpPll {
    fn set_poll(&mut self, seconds: u32) {
        self.discipline.set_poll(seconds);
    }

    /// The share of the offset that is worked off changes each second.
    fn renew_after(&self) -> Span {
        Span::from_secs(1)
    }

    fn poll_advice(&self) -> Option<u32> {
        Some(self.discipline.advice())
    }
}
