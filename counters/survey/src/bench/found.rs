//! Findings of the comparison.

use serde::{Deserialize, Serialize};

use super::By;

/// Results of the measurement.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Bench {
    /// Number of readings of each.
    pub reads: u64,
    /// The clocksource in the beginning, and in the end; none where the kernel does not tell.
    pub clocksource: Option<String>,
    /// The other ones that were available but not measured, as changing it was not asked for.
    pub not_selected: Vec<String>,
    /// By clocksource, what reading through the kernel takes.
    pub sources: Vec<OfSource>,
    /// Cost of reading directly.
    pub direct: Vec<Cost>,
    /// Counters that cannot be read, and why.
    pub unreadable: Vec<Unreadable>,
    /// Steps of the coarse clocks.
    pub coarse: Vec<CoarseStep>,
    /// Notes about it all.
    pub notes: Vec<String>,
}

/// Cost of reading through the kernel while it uses one clocksource.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct OfSource {
    /// Name of the clocksource.
    pub clocksource: Option<String>,
    /// True if the vDSO can read it, judged by what it takes compared with a system call; where it
    /// cannot, each of its readings is a system call.
    pub in_vdso: Option<bool>,
    /// The ways; none where the kernel did not accept the clocksource.
    pub costs: Vec<Cost>,
    /// Reason why there are none.
    pub refused: Option<String>,
}

/// Cost of one way.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Cost {
    /// Way by which it is reached.
    pub by: By,
    /// Name of what is read.
    pub what: String,
    /// True if no counter is read for it.
    pub coarse: bool,
    /// The time that passed, s.
    pub real_s: f64,
    /// The processor time of the thread outside of the kernel, s.
    pub user_s: f64,
    /// The processor time of the thread in the kernel, s.
    pub system_s: f64,
    /// Time that a reading takes, ns: the median of the batches, so that interruptions do not
    /// count.
    pub ns: f64,
    /// To the cheapest reading of a counter or a clock that is not coarse, in the whole comparison.
    pub ratio: f64,
}

/// Something that cannot be read.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Unreadable {
    /// Name of the counter.
    pub what: String,
    /// Reason.
    pub why: String,
}

/// Step of a coarse clock.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct CoarseStep {
    /// Which one.
    pub clock: String,
    /// Step as `clock_getres` has it, ns.
    pub said_ns: u64,
    /// Step as seen, the smallest of some, ns; none if it did not step. (On a busy machine this
    /// process may have missed some of them.)
    pub seen_ns: Option<u64>,
}
