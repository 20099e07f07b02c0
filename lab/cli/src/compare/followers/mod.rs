//! Those who follow the server.

pub mod chrony;
pub mod clockbound;
pub mod truechimer;

use crate::compare::moment::{Counters, Moment};

/// Name of ours.
pub const OURS: &str = "Truechimer";

/// Time by a follower.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Said {
    /// Unix time, ns.
    pub unix_ns: i64,
    /// Largest distance of the true time from that, by its word, ns; `None` if it says nothing.
    pub bound_ns: Option<f64>,
}

/// A clock that follows the server.
pub trait Follower {
    /// Name of the follower.
    fn name(&self) -> &str;

    /// Asks what takes long to ask, right before the moment.
    fn ask(&mut self, counters: &Counters);

    /// Time by this follower at `moment`; `None` while it does not know.
    fn said(&mut self, counters: &Counters, moment: &Moment) -> Option<Said>;
}
