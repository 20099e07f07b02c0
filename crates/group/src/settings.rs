//! What the members of a group must have in common, and what each may choose for itself.

use crate::types::{Member, Mode, Order};

/// The name is at most this many bytes of `a-z A-Z 0-9 . _ -`.
pub const LONGEST_NAME: usize = 64;

/// What a group is: the same at every member, or they refuse each other (its digest goes with each
/// message).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// All members that there can be, ascending: more than half of them make a primary component.
    pub universe: Vec<Member>,
    /// How the work is divided.
    pub mode: Mode,
    /// How values are made of proposals.
    pub order: Order,
    /// The greatest rate at which the group's clock is steered, parts in 10⁹ (default 500 000).
    pub steering_cap_ppb: u32,
    /// The time in which steering takes away an offset, ns (default 8 s).
    pub steering_time_ns: u64,
    /// How far a proposal may be ahead of what the members' last reports bear out, ns (default 5 s);
    /// what is farther is cut off there.
    pub horizon_ns: u64,
    /// How much time a delivered message reserves for further reads during its processing, ns
    /// (default 1 µs, that is 1000 leases).
    pub lease_ns: u64,
    /// A message from another group that is stamped farther than this ahead is refused, ns (default
    /// 10 s).
    pub causal_horizon_ns: u64,
    /// Whether the order in which members propose goes round with the rounds.
    pub rotate: bool,
}

/// What a member chooses for itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Own {
    /// Who it is. A member that is not of the universe is an observer: it sends and receives
    /// messages and follows the clock, but never proposes in a round, votes or counts.
    pub member: Member,
    /// A number that no earlier life of this member had.
    pub incarnation: u64,
    /// The k-th replica waits k times this before it proposes, ns (default 400 µs).
    pub stagger_ns: u64,
    /// The least time between two reports of its clock, ns (default and least 1 s).
    pub report_ns: u64,
    /// Values kept for a thread or a program that is behind, in all (default 1 048 576).
    pub buffer: usize,
    /// What was durably kept of an earlier life: the group's clock was never ahead of this, ns.
    pub floor: Option<i64>,
    /// Whether a program here can give and take checkpoints.
    pub checkpoints: bool,
}
