//! State of knowledge since the first exchange.

use alloc::boxed::Box;

use truechimer_model::Model;
use truechimer_time::{Count, Instant};

use super::further::Further;
use super::likely::Waits;
use super::past::Past;
use super::promise::Promise;
use crate::corridor::Corridor;
use crate::declared::Declared;
use crate::quarantine::Quarantine;

/// Knowledge since the first exchange.
#[derive(Clone, Debug)]
pub(super) struct State {
    pub(super) anchor: (Count, Instant),
    /// The model, and when it was brought up to date.
    pub(super) model: Box<Model>,
    pub(super) at: Count,
    pub(super) corridor: Corridor,
    pub(super) promise: Promise,
    /// Replies since the last exchange.
    pub(super) further: Further,
    pub(super) quarantine: Option<Quarantine>,
    /// No exchange has been used yet: what is known is from before.
    pub(super) unproven: bool,
    /// Since when and until when that was known, if anybody has kept it.
    pub(super) before: Option<(Count, Count)>,
    /// Mean square of how far the rate has been from the difference clock's, over the time that
    /// this averages.
    pub(super) strayed: f64,
    /// Mean excess over the floor of one direction, s.
    pub(super) excess: f64,
    pub(super) waits: Waits,
    pub(super) root_distance: f64,
    pub(super) declared: Option<Declared>,
    pub(super) past: Past,
    /// The first exchange of what is believed now.
    pub(super) begun: Count,
    pub(super) last_used: Count,
}

impl State {
    /// When the newest exchange arrived that is not held off: one of a server that is only suspected
    /// narrows nothing, but is heard.
    pub(super) fn newest(&self) -> Count {
        if self.is_suspected() { self.at } else { self.last_used }
    }

    /// True while the server is suspected of having moved, but not held off.
    pub(super) fn is_suspected(&self) -> bool {
        self.quarantine.is_some_and(|q| q.suspected)
    }

    /// Since when and until when what is held has been known, if anybody has kept that.
    pub(super) fn known(&self) -> Option<(Count, Count)> {
        if self.unproven { self.before } else { Some((self.begun, self.last_used)) }
    }

    /// Least time of either direction, if the path is symmetric, s.
    pub(super) fn one_way(&self) -> f64 {
        self.model.now().floors.iter().sum::<f64>().max(0.0) / 2.0
    }

    /// Least time of the slower direction, as far as is known, s. It is half of the round trip
    /// until one direction is seen to become longer.
    pub(super) fn path(&self) -> f64 {
        let half = self.one_way();
        let [forward, backward] = self.model.now().floors;
        let known = self.declared.as_ref().and_then(Declared::half_error);
        known.unwrap_or(half).min(half) + ((forward - backward).abs() / 2.0).min(half)
    }

    /// Forgets all that was known of time, but for the corridor.
    pub(super) fn forget_time(&mut self) {
        self.promise = Promise::new(self.at, self.corridor);
        self.past.forget();
        self.quarantine = None;
        self.unproven = false;
        self.waits = Waits::new();
        if let Some(declared) = &mut self.declared {
            declared.forget();
        }
    }

    /// Keeps the model where causality allows it.
    pub(super) fn clamp(&mut self, slack: f64) {
        let theta = self.model.now().offset;
        let by = theta - self.corridor.clamp(theta);
        if by != 0.0 {
            self.model.refute(by, slack);
        }
        // No measurement shows how the path is shared: what is declared moves the floors along.
        if let Some(known) = self.declared.as_ref().and_then(Declared::known) {
            let theta = self.model.now().offset;
            let by = theta - known.clamp(theta);
            if by != 0.0 {
                self.model.turn(by);
            }
        }
    }
}
