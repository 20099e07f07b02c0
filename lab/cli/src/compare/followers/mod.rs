//! Those who follow the server.

pub mod chrony;
pub mod clockbound;
pub mod truechimer;

use crate::compare::moment::{Counters, Moment};

/// What ours is called.
pub const OURS: &str = "Truechimer";

/// What a follower says that the time is.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Said {
    /// Unix time, ns.
    pub unix_ns: i64,
    /// How far from that the true time is at most, it says, ns; `None` if it says nothing.
    pub bound_ns: Option<f64>,
}

/// A clock that follows the server.
pub trait Follower {
    /// What it is called.
    fn name(&self) -> &str;

    /// Asks what takes long to ask, right before the moment.
    fn ask(&mut self, counters: &Counters);

    /// What it says that the time is at `moment`; `None` while it does not know.
    fn said(&mut self, counters: &Counters, moment: &Moment) -> Option<Said>;
}
