//! Plan of what to measure, and how much of it.

use std::time::Duration;

use crate::stress::Phases;

/// Amount to measure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Amount {
    /// Number of readings of each way, under each load.
    Samples(u64),
    /// For so long, all loads together.
    Time(Duration),
}

/// Plan of a measurement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Plan {
    /// The loads.
    pub phases: Phases,
    /// Amount to measure.
    pub amount: Amount,
    /// The processor to read on; none: where the thread happens to be.
    pub cpu: Option<usize>,
}

/// Shortest slot of the course over time.
const FINEST: Duration = Duration::from_millis(20);
/// Into how many parts a run of known length is divided for that.
const PARTS: u32 = 300;

impl Plan {
    /// Length of a slot of the course over time, in the beginning.
    pub(super) fn slot(&self) -> Duration {
        match self.amount {
            Amount::Time(all) => (all / PARTS).max(FINEST),
            Amount::Samples(_) => FINEST,
        }
    }
}
