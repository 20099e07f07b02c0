//! Statistical model of oscillator and path, and what it knows now.

use alloc::boxed::Box;

use truechimer_model::{Constants, INTERVAL, Known, Model, Sample, States};

/// See the module's text.
#[derive(Clone, Debug)]
pub(super) struct Inference {
    model: Box<Model>,
    pub(super) now: States,
    /// Steps of the server are to be told from what our clock does.
    holds_out: bool,
}

impl Inference {
    /// Knows so much before the first exchange; `noise` is that of either direction's stamps, s.
    pub(super) fn new(
        theta: Known,
        rate: Known,
        floor: Known,
        noise: [f64; 2],
        constants: Constants,
    ) -> Inference {
        let model = Box::new(Model::new(theta, rate, floor, noise, constants));
        Inference { now: model.now(), model, holds_out: false }
    }

    /// States `dt` seconds later (or earlier).
    pub(super) fn later(&self, dt: f64) -> States {
        later(&self.now, dt)
    }

    /// Changes the model.
    pub(super) fn change(&mut self, how: impl FnOnce(&mut Model)) {
        how(&mut self.model);
        self.now = self.model.now();
    }

    /// Takes in an exchange that has just arrived. The rate may change by `strays` at once; steps of
    /// the server are looked for if the clock `holds_out` against them. What comes back is the
    /// change of the round trip's floor, s, if the path has changed.
    pub(super) fn take(&mut self, sample: Sample, strays: f64, holds_out: bool) -> Option<f64> {
        self.holds_out = holds_out;
        let changed = self.model.take(sample, strays, holds_out);
        self.now = self.model.now();
        changed
    }

    /// How far ahead the server is, s, if its time has moved more likely than not.
    pub(super) fn ahead(&self) -> Option<f64> {
        self.model.ahead().filter(|_| self.holds_out)
    }

    /// Whether that is beyond doubt.
    pub(super) fn has_moved(&self) -> bool {
        self.holds_out && self.model.has_moved()
    }

    /// Whether it led out of what a double holds: exchanges may be beyond all reason.
    pub(super) fn is_lost(&self) -> bool {
        let States { offset, rate, offset_variance, rate_variance, .. } = self.now;
        ![offset, rate, offset_variance, rate_variance].iter().all(|x| x.is_finite())
    }
}

/// States `dt` seconds later (or earlier).
pub(super) fn later(now: &States, dt: f64) -> States {
    let noise = dt.abs();
    let variance = now.offset_variance
        + 2.0 * dt * now.covariance
        + dt * dt * now.rate_variance
        + now.walk * noise * noise * noise / 3.0;
    // The newest of the interval is as now.
    let newer = ((dt - 2.0 * now.ahead) / INTERVAL).clamp(0.0, 1.0);
    States {
        mean_rate: now.mean_rate + newer * (now.rate - now.mean_rate),
        offset: now.offset + now.rate * dt,
        offset_variance: variance.max(0.0),
        covariance: now.covariance + dt * now.rate_variance + now.walk * dt * noise / 2.0,
        rate_variance: now.rate_variance + now.walk * noise,
        ..*now
    }
}
