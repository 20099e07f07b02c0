//! An exchange, in the notation of the estimator.

use alloc::boxed::Box;

use truechimer_model::{Constants, Known, Model, Noise, Sample};
use truechimer_time::Count;

use super::State;
use crate::corridor::{BoundedRate, Corridor};

/// Noise of a stamp beside half of the error that it states, as long as nothing else is known, s.
const STAMP_NOISE: f64 = 0.3e-6;

/// An exchange in seconds of θ.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measured {
    pub(crate) received: Count,
    /// From departure to arrival, s.
    pub(super) duration: f64,
    /// θ + forward delay at the departure.
    pub(super) forward: f64,
    /// θ − backward delay at `received`.
    pub(super) backward: f64,
    /// Bounds of what the stamps add to either.
    pub(super) forward_error: f64,
    pub(super) backward_error: f64,
    pub(super) root_distance: f64,
    pub(super) precision: f64,
    /// Reach of causality beyond backward and forward, if the path's asymmetry was taken off them.
    pub(super) beyond: (f64, f64),
    /// There was no request.
    pub(super) pulse: bool,
}

impl Measured {
    /// The round trip without the server's residence time, for a counter of this rate, s.
    pub(super) fn round_trip(&self, rate: f64) -> f64 {
        self.forward - self.backward + rate * self.duration
    }

    /// θ at the arrival, if either packet took half of the round trip.
    pub(super) fn middle(&self, rate: f64) -> f64 {
        (self.forward + rate * self.duration + self.backward) / 2.0
    }

    /// Bound of the error of the stamps, both together, s.
    pub(super) fn stamp_errors(&self) -> f64 {
        self.forward_error + self.backward_error
    }

    /// The server took longer than the exchange did, even if its two stamps are off by as much as
    /// it allows for (a clock that shows milliseconds) and ours as well.
    pub(super) fn impossible(&self, rate: f64) -> bool {
        self.round_trip(rate) < -self.stamp_errors() - self.root_distance
    }

    /// Round trip − its floor, s.
    pub(super) fn excess(&self, state: &State) -> f64 {
        self.round_trip(state.model.now().rate) - 2.0 * state.one_way()
    }

    /// Delay of the reply − θ at its arrival, s.
    pub(super) fn reply(&self) -> f64 {
        -self.backward
    }

    /// The exchange as the model sees it.
    pub(super) fn sample(&self) -> Sample {
        let request = if self.pulse { f64::INFINITY } else { self.forward };
        Sample { above: [request, self.reply()], duration: self.duration }
    }

    /// A model that knows so much and has yet to see this exchange.
    pub(super) fn model(&self, theta: Known, rate: Known, constants: Constants) -> Box<Model> {
        let rtt = self.round_trip(rate.mean).max(0.0);
        let floor = Known { mean: rtt / 2.0, deviation: rtt / 4.0 + self.of_stamps() };
        Box::new(Model::new(theta, rate, floor, self.noise(), constants))
    }

    /// Noise of the stamps.
    pub(super) fn noise(&self) -> Noise {
        let own = STAMP_NOISE + self.stamp_errors() / 4.0;
        Noise { own, claimed: self.precision / 2.0 }
    }

    /// Error that the stamps may make of a round trip, s: that of ours, or of the server's if they are the coarser ones.
    pub(super) fn of_stamps(&self) -> f64 {
        self.stamp_errors().max(self.precision)
    }

    /// Corridor of θ at its arrival by this exchange alone.
    pub(super) fn corridor(&self, rate: BoundedRate) -> Corridor {
        Corridor {
            low: self.backward + self.beyond.0 - self.backward_error - self.root_distance,
            high: self.forward
                + rate.rate * self.duration
                + rate.error * self.duration
                + self.beyond.1
                + self.forward_error
                + self.root_distance,
        }
    }
}
