//! The configuration file, `truechimer-group.toml`, and what an agent is told in all.
//!
//! ```toml
//! directory = "/run/truechimer/group"         # where programs find the agent
//! state = "/var/lib/truechimer/group"         # where the clocks' floors are kept; or "none"
//! page = "/run/truechimer/clock"              # the Truechimer clock to follow
//! # system-clock = "10ms"                     # instead: the system clock, this far from UTC at most
//! # realtime = 10                             # real-time priority of the agent, 1 to 99
//!
//! [metrics]
//! # listen = "127.0.0.1:9926"                 # where metrics are served; or a path, a Unix socket
//!
//! [[group]]
//! name = "ledger"                             # a-z A-Z 0-9 . _ -
//! members = [1, 2, 3]                         # all that there can be; the ring's node list unless set
//! # local = 3                                 # no ring: members 1 to 3, all of them in this agent
//! mode = "active"                             # semi-active, passive
//! order = "monotone"                          # published
//! rotate = false                              # whether the order of proposing goes round
//! steering-cap-ppm = 500                      # the fastest that the group's clock is steered
//! steering-time = "8s"                        # in which steering takes away an offset
//! horizon = "5s"                              # proposals farther ahead are cut
//! lease = "1us"                               # what a message reserves for further reads
//! causal-horizon = "10s"                      # messages stamped farther ahead are refused
//! stagger = "400us"                           # how long each further replica waits with its proposal
//! gather = "1s"                               # how long a program that starts waits for the others
//! report-interval = "1s"                      # between reports of this member's clock
//! buffer = 1048576                            # values kept for what is behind
//! checkpoints = false                         # whether programs here give and take checkpoints
//! without-utc = false                         # whether programs get times before those are tied to UTC
//! # link = { owner = "redis", group = "redis", mode = "0660" }  # who may attach; else the agent's user
//! ```
//!
//! Only `[[group]]` with a `name` is needed. `members` to `causal-horizon` must be the same at
//! every member, or they do not let each other in.

mod names;
mod options;
mod reader;
mod values;

use std::path::PathBuf;

pub use truechimer_config::{ConfigError, Place};
use truechimer_group::{Group, Member};
/// Place where metrics are served.
pub use truechimer_metrics::Listen;

pub use crate::clocks::UtcSource;
pub use options::Options;
pub use reader::parse;
pub use values::{
    causal_horizon, gather, horizon, lease, members, mode, name, order, report_interval, stagger,
    steering_cap, steering_time, system_clock,
};

/// Everything that an agent needs to know, checked.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Settings {
    /// Where programs find it; none: where [`crate::run`] documents.
    pub directory: Option<PathBuf>,
    /// Where the clocks' floors are kept.
    pub state: Place,
    /// Where UTC comes from; none: from a clock page wherever there is one.
    pub utc: Option<UtcSource>,
    /// The real-time priority, 1 to 99.
    pub real_time: Option<u8>,
    /// Place where metrics are served, if they are wanted.
    pub metrics: Option<Listen>,
    /// The groups.
    pub groups: Vec<Membership>,
}

/// One group, as this agent takes part in it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Membership {
    /// Settings that all its members must have in common. An empty universe is the ring's node
    /// list.
    pub group: Group,
    /// Carrier of its messages.
    pub carrier: Carrier,
    /// Time that each further replica waits with its proposal, ns.
    pub stagger_ns: u64,
    /// Time that a program that starts here waits for those of the other members, ns.
    pub gather_ns: u64,
    /// The least time between two reports of this member's clock, ns.
    pub report_ns: u64,
    /// Values kept for a thread or a program that is behind.
    pub buffer: usize,
    /// True if programs here give and take checkpoints.
    pub checkpoints: bool,
    /// True if programs here get times even while neither the group's clock nor this member's is
    /// tied to UTC: such a clock begins anywhere, in 1970 for one.
    pub without_utc: bool,
    /// Users that may attach.
    pub link: Link,
}

/// Owner, group and mode of the socket of a group that programs attach by.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Link {
    /// User; none: the agent's.
    pub owner: Option<u32>,
    /// Group; none: the agent's.
    pub group: Option<u32>,
    /// Permissions; none: 0660 where a group is named, else 0600.
    pub mode: Option<u32>,
}

impl Link {
    /// Permissions, as said or by default.
    #[must_use]
    pub fn permissions(&self) -> u32 {
        self.mode.unwrap_or(if self.group.is_some() { 0o660 } else { 0o600 })
    }
}

/// Carriers of a group's messages.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Carrier {
    /// Corosync on this node.
    #[default]
    Corosync,
    /// Nothing but memory: these members, all of them in this agent.
    Local(Vec<Member>),
}

impl Membership {
    /// This group with all settings at their defaults.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Membership {
        Membership {
            group: Group::new(&name.into(), &[]),
            carrier: Carrier::Corosync,
            stagger_ns: 400_000,
            gather_ns: 1_000_000_000,
            report_ns: 1_000_000_000,
            buffer: 1 << 20,
            checkpoints: false,
            without_utc: false,
            link: Link::default(),
        }
    }

    /// With these members in this very agent, and no ring.
    #[must_use]
    pub fn local(mut self, count: u32) -> Membership {
        let all: Vec<Member> = (1..=count).map(Member).collect();
        if self.group.universe.is_empty() {
            self.group.universe.clone_from(&all);
        }
        self.carrier = Carrier::Local(all);
        self
    }
}

#[cfg(test)]
mod tests;
