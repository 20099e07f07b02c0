//! Estimators on packets that were simulated before, without an engine around them.
//!
//! A run of the engine leaves the stamps of its exchanges. They go to any [`Estimator`] here, even
//! to one that no daemon has: one that lacks a part, or one that is told what nobody can know. It
//! is read once a second at the very counts at which the engine's clock was read.

use truechimer_engine::Beginning;
use truechimer_feedforward::{
    ACCEPT_STEP_AFTER, Accepted, Estimate, Estimator, Exchange, LIKELY_DOUBT, RatePrior, Refusal,
    Settings,
};
use truechimer_time::{Count, CountSpan, Instant, Rate, Span, Stamp, StampMethod};
use truechimer_timehands::Status;

use crate::coverage::Coverage;
use crate::host::Host;
use crate::scenario::Scenario;
use crate::stamps::{Declared, Stamped};
use crate::world::{NOMINAL_ERROR, Run};
use truechimer_feedforward::number::{seconds, span};
use truechimer_trace::{Interval, Sample, Trace};

/// Requests at each of the first intervals, s: as the engine begins.
const START: [(u64, u32); 3] = [(7, 2), (3, 4), (13, 8)];

/// The interval after this request, s, counted from 0 and while the engine begins; after that, how
/// many requests ago the beginning was over.
pub(crate) fn first_interval(request: u64) -> Result<u32, u64> {
    let mut left = request;
    for (requests, interval) in START {
        if left < requests {
            return Ok(interval);
        }
        left -= requests;
    }
    Err(left)
}

/// Facts known of stamps beside themselves.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    pub(crate) title: String,
    /// Time that the clock is given to settle, s.
    pub(crate) warm_up: f64,
    /// The time 0 of the run, on the server's scale.
    pub(crate) origin: Instant,
    /// Length of the run, s.
    pub(crate) seconds: f64,
    pub(crate) max_wander_ppm: f64,
}

/// The packets of one run, as its only server's estimator saw them, and the truth.
#[derive(Clone, Debug)]
pub struct Packets {
    title: String,
    warm_up: f64,
    /// True time of each arrival, s since the start of the run.
    exchanges: Vec<(f64, Exchange)>,
    /// True time and count of each reading.
    readings: Vec<(f64, Count)>,
    origin: Instant,
    settings: Settings,
    prior: RatePrior,
}

impl Packets {
    /// The packets of a run of this scenario under this seed. `None` if it had none, or several
    /// sources, or if its counter did not go on all the time.
    #[must_use]
    pub fn of(scenario: &Scenario, seed: u64, run: &Run) -> Option<Packets> {
        let ([stamps], [declared]) = (run.stamps.as_slice(), run.declared.as_slice()) else {
            return None;
        };
        let host = &scenario.host;
        if !host.suspends.is_empty() || !host.jumps.is_empty() || !scenario.pulses.is_empty() {
            return None;
        }
        // Stamps are Unix seconds, without leaps: UTC as of the start goes on.
        let offset = Span::from_secs(scenario.leaps().tai_offset.into());
        let known = Known {
            title: scenario.name.clone(),
            warm_up: scenario.warm_up_hours * 3600.0,
            origin: Instant::new(scenario.origin(), 0) - offset,
            seconds: scenario.hours * 3600.0,
            max_wander_ppm: scenario.max_wander_ppm,
        };
        let mut host = Host::new(host, &scenario.oscillator, seed);
        Packets::from_stamps(&known, stamps, declared, &mut host)
    }

    /// The packets of stamps with a reference, and the readings of their host's counter. `None` if
    /// there are no stamps.
    pub(crate) fn from_stamps(
        known: &Known,
        stamps: &[Stamped],
        declared: &Declared,
        host: &mut Host,
    ) -> Option<Packets> {
        let nominal = host.nominal();
        let origin = known.origin;
        let since = |at: Instant| seconds(at - origin);
        let error = nominal.counts(declared.stamp_error.unwrap_or_default());
        let stamp = |count| Stamp { count, error, method: StampMethod::Kernel };
        let root_distance = declared.root_distance.unwrap_or_default();
        let precision = declared.precision.unwrap_or_default();
        let exchange = |x: &Stamped| {
            let exchange = Exchange {
                sent: stamp(x.sent),
                server_received: x.server_received,
                server_sent: x.server_sent,
                received: stamp(x.received),
                root_distance,
                precision,
            };
            Some((since(x.reference?.received), exchange))
        };
        let exchanges = stamps.iter().map(exchange).collect::<Option<Vec<_>>>()?;
        let begun = since(stamps.first()?.reference?.sent);
        let last = known.seconds as u64;
        let readings = (0..last).map(|second| second as f64 + 0.5).filter(|t| *t >= begun);
        Some(Packets {
            title: known.title.clone(),
            warm_up: known.warm_up,
            exchanges,
            readings: readings.map(|t| (t, host.count(t))).collect(),
            origin,
            settings: Settings {
                nominal,
                resolution: CountSpan(1),
                max_wander: Rate::from_ppb(libm::rint(known.max_wander_ppm * 1000.0) as i64),
                accept_step_after: ACCEPT_STEP_AFTER,
                asymmetry: None,
                pulse: false,
            },
            prior: RatePrior { period: nominal, error: NOMINAL_ERROR },
        })
    }

    /// Settings and rate prior that an estimator of this host is told.
    #[must_use]
    pub fn known(&self) -> (Settings, RatePrior) {
        (self.settings, self.prior)
    }

    /// Beginning of a new estimator of this host, at a poll interval of so many seconds.
    #[must_use]
    pub fn beginning(&self, poll: u32) -> Beginning {
        Beginning { settings: self.settings, rate: self.prior, time: None, poll }
    }

    /// The exchanges, in the order of their arrival.
    pub fn exchanges(&self) -> impl Iterator<Item = &Exchange> {
        self.exchanges.iter().map(|(_, exchange)| exchange)
    }

    /// True time of the first reading, from which a trace counts, s since the start of the run.
    pub(crate) fn begun(&self) -> f64 {
        self.readings.first().map_or(0.0, |(t, _)| *t)
    }

    /// Runs it over the packets.
    pub fn run(&self, estimator: &mut dyn Estimator) -> Trace {
        self.run_heard(estimator, |_, _| {})
    }

    /// Runs it over the packets and reads it once a second: `read` gets the how manyth reading it
    /// is, the error in s and the estimate, and `heard` the true time of each arrival and what became
    /// of the exchange.
    pub fn read(
        &self,
        estimator: &mut dyn Estimator,
        mut heard: impl FnMut(f64, Result<Accepted, Refusal>),
        mut read: impl FnMut(usize, f64, &Estimate),
    ) {
        let mut exchanges = self.exchanges.iter().peekable();
        for (k, (t, count)) in self.readings.iter().enumerate() {
            while let Some((arrival, exchange)) = exchanges.next_if(|(arrival, _)| arrival <= t) {
                heard(*arrival, estimator.exchange(exchange));
            }
            if let Some(estimate) = estimator.estimate(*count) {
                read(k, seconds(estimate.time - (self.origin + span(*t))), &estimate);
            }
        }
    }

    /// Coverage of the truth by its likely intervals.
    pub fn coverage(&self, estimator: &mut dyn Estimator) -> Coverage {
        let mut coverage = Coverage::default();
        self.read(estimator, |_, _| {}, |_, error, estimate| coverage.read(error, estimate));
        coverage
    }

    /// Runs like [`Packets::run`]; `heard` gets each arrival's true time and the exchange's fate.
    pub fn run_heard(
        &self,
        estimator: &mut dyn Estimator,
        mut heard: impl FnMut(f64, Result<Accepted, Refusal>),
    ) -> Trace {
        let begun = self.begun();
        let mut samples = Vec::with_capacity(self.readings.len());
        self.read(estimator, &mut heard, |k, error, estimate| {
            let Some((t, count)) = self.readings.get(k).copied() else { return };
            let bound = seconds(estimate.bound);
            let elapsed = |readings: usize| {
                let (before, then) = self.readings.get(k.checked_sub(readings)?)?;
                let measured = estimate.difference.span(count - *then);
                let bound = estimate.difference_error.over(measured);
                Some(Interval {
                    error: seconds(measured - span(t - before)),
                    bound: seconds(bound),
                    deviation: seconds(estimate.difference_deviation.over(measured)),
                })
            };
            samples.push(Sample {
                at: t - begun,
                error,
                bound,
                imbalance: seconds(estimate.imbalance),
                likely: likely(estimate),
                statistical: bound - seconds(estimate.path_bound),
                status: Status::Synchronised,
                rate_error: f64::NAN,
                skew: f64::NAN,
                second: elapsed(1),
                thousand: elapsed(1000),
            });
        });
        Trace { title: self.title.clone(), warm_up: self.warm_up, samples, ..Trace::default() }
    }
}

/// Half the width of the likely interval at the confidence in use, s.
fn likely(estimate: &Estimate) -> Option<f64> {
    let half = estimate.spread.within(LIKELY_DOUBT).map(|(half, _)| half.min(estimate.bound));
    half.map(seconds)
}
