//! When a hand was made, by clocks that do not depend on it.

use truechimer_time::Count;

/// The host's own clocks at the count at which a hand was made.
///
/// They let a reader find out by itself, without a daemon, that the counter lost its continuity
/// since: the machine was suspended, or the counter and the kernel no longer agree on how much
/// time has passed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Made {
    /// The count at which the clocks below were read.
    pub count: Count,
    /// `CLOCK_MONOTONIC` then, ns.
    pub monotonic_ns: i64,
    /// `CLOCK_MONOTONIC_RAW` then, ns.
    pub raw_ns: i64,
    /// `CLOCK_BOOTTIME` − `CLOCK_MONOTONIC` then: all the time spent suspended since boot, ns.
    pub suspended_ns: i64,
}
