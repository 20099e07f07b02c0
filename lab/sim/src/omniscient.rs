//! A clock that is told the truth about its oscillator and its path.
//!
//! A Kalman filter with two states, θ (true time − what the counter shows at its nominal period)
//! and its rate. It is told what no clock can know: how far the oscillator's rate walks, and each
//! direction's mean delay and its variance. So every stamp is an unbiased measurement of θ, with
//! known noise, and the filter is the best linear estimator there is. It is a measure for the
//! others, not a clock: it believes every server.

use truechimer_feedforward::{
    Accepted, Estimate, Estimator, Exchange, RatePrior, Refusal, Settings,
};
use truechimer_time::{Count, Instant, Rate};

use crate::path::{Law, PathSpec, When};
use crate::scenario::Scenario;
use truechimer_estimators::stated;
use truechimer_feedforward::number::{fraction, seconds, span};

/// Offset before the first exchange, s, which it does not know.
const OFFSET: f64 = 1.0;

/// See the module's text.
#[derive(Clone, Debug)]
pub struct Omniscient {
    settings: Settings,
    /// Mean delay of either direction, s, and its variance.
    delays: [(f64, f64); 2],
    /// Variance that the rate gains per second.
    walk: f64,
    prior: f64,
    anchor: Option<(Count, Instant)>,
    at: Count,
    theta: f64,
    rate: f64,
    /// Variances and covariance of the two.
    p: [f64; 3],
}

/// Mean and variance of a direction's delay, s and s².
fn moments(path: &PathSpec) -> Result<(f64, f64), String> {
    let (mut mean, mut variance) = (path.floor_ms * 1e-3, 0.0);
    if !path.shifts.is_empty() {
        return Err("its path changes".into());
    }
    for queue in &path.queues {
        if queue.when != When::Always {
            return Err("its queues come and go".into());
        }
        match queue.law {
            Law::Constant { ms } => mean += ms * 1e-3,
            Law::Exponential { mean_ms } => {
                mean += mean_ms * 1e-3;
                variance += mean_ms * mean_ms * 1e-6;
            }
            Law::Gamma { shape, scale_ms } => {
                mean += shape * scale_ms * 1e-3;
                variance += shape * scale_ms * scale_ms * 1e-6;
            }
            _ => return Err("its delays have no variance to be told".into()),
        }
    }
    Ok((mean, variance))
}

impl Omniscient {
    /// One for the only server of a scenario, on a host of which this is known.
    ///
    /// # Errors
    /// If there is something that a mean, a variance and a random walk do not say: why.
    pub fn new(
        scenario: &Scenario,
        (settings, prior): (Settings, RatePrior),
    ) -> Result<Omniscient, String> {
        let oscillator = &scenario.oscillator;
        if !(oscillator.sines.is_empty()
            && oscillator.ramps.is_empty()
            && oscillator.steps.is_empty())
        {
            return Err("its oscillator does more than walk".into());
        }
        let [server] = scenario.servers.as_slice() else {
            return Err("it has several servers".into());
        };
        if !server.addresses.is_empty() {
            return Err("its server has several addresses".into());
        }
        let delays = [moments(&server.forward)?, moments(&server.backward)?];
        let stamps = scenario.host.stamps.noise_ns * 1e-9;
        let prior = fraction(prior.error);
        Ok(Omniscient {
            settings,
            delays: delays.map(|(mean, variance)| (mean, variance + stamps * stamps)),
            walk: oscillator.walk_per_root_s * oscillator.walk_per_root_s,
            prior: prior * prior,
            anchor: None,
            at: Count::default(),
            theta: 0.0,
            rate: 0.0,
            p: [0.0; 3],
        })
    }

    fn seconds(&self, from: Count, to: Count) -> f64 {
        seconds(self.settings.nominal.span(to - from))
    }

    fn predict(&mut self, at: Count) {
        let dt = self.seconds(self.at, at);
        let [theta, both, rate] = self.p;
        let q = self.walk * dt.abs();
        self.theta += self.rate * dt;
        self.p = [
            theta + dt * (2.0 * both + dt * rate) + q * dt * dt / 3.0,
            both + dt * rate + q * dt / 2.0,
            rate + q,
        ];
        self.at = at;
    }

    /// θ was measured, with this variance.
    fn absorb(&mut self, measured: f64, variance: f64) {
        let [theta, both, rate] = self.p;
        let total = theta + variance;
        let by = measured - self.theta;
        self.theta += theta / total * by;
        self.rate += both / total * by;
        let left = variance / total;
        self.p = [theta * left, both * left, rate - both * both / total];
    }
}

impl Estimator for Omniscient {
    fn exchange(&mut self, x: &Exchange) -> Result<Accepted, Refusal> {
        if (x.received.count - x.sent.count).0 <= 0 {
            return Err(Refusal::CounterBackwards);
        }
        let anchor = *self.anchor.get_or_insert_with(|| {
            self.at = x.received.count;
            self.p = [OFFSET * OFFSET, 0.0, self.prior];
            (x.received.count, x.server_sent)
        });
        let shown = |count: Count| anchor.1 + self.settings.nominal.span(count - anchor.0);
        let [forward, backward] = self.delays;
        let duration = self.seconds(x.sent.count, x.received.count);
        let before = seconds(x.server_received - shown(x.sent.count)) - forward.0;
        let after = seconds(x.server_sent - shown(x.received.count)) + backward.0;
        self.predict(x.received.count);
        self.absorb(before + self.rate * duration, forward.1);
        self.absorb(after, backward.1);
        Ok(Accepted::Refined)
    }

    fn estimate(&self, at: Count) -> Option<Estimate> {
        let (count, time) = self.anchor?;
        let mut then = self.clone();
        then.predict(at);
        let nominal = self.settings.nominal;
        let period = nominal.scaled(Rate::from_ppb(0));
        let deviation = span(libm::sqrt(then.p[0].max(0.0)));
        let time = time + nominal.span(at - count) + span(then.theta);
        Some(Estimate {
            rtt_floor: span(self.delays[0].0 + self.delays[1].0),
            ..stated(at, time, period, deviation, self.at)
        })
    }

    fn new_epoch(&mut self) {
        self.anchor = None;
    }

    fn set_max_wander(&mut self, _: Rate) {}
}
