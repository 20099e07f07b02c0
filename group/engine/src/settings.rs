//! Settings that the members of a group must have in common, and those that each may choose for
//! itself.

use core::fmt;

use crate::digest::Digest;
use crate::message::MOST_THREADS;
use crate::types::{Member, Mode, Order};

/// The name is at most this many bytes of `a-z A-Z 0-9 . _ -`.
pub const LONGEST_NAME: usize = 64;

/// Settings of a group: the same at every member, or they refuse each other (its digest goes with
/// each message).
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Group {
    /// Name of the group.
    pub name: String,
    /// All members that there can be, ascending: more than half of them make a primary component.
    pub universe: Vec<Member>,
    /// Division of the work among the replicas.
    pub mode: Mode,
    /// Rule by which values are made of proposals.
    pub order: Order,
    /// The greatest rate at which the group's clock is steered, parts in 10⁹ (default 500 000).
    pub steering_cap_ppb: u32,
    /// The time in which steering takes away an offset, ns (default 8 s).
    pub steering_time_ns: u64,
    /// Largest lead of a proposal over what the members' last reports bear out, ns (default 5 s);
    /// what is farther is cut off there.
    pub horizon_ns: u64,
    /// Time that a delivered message reserves for further reads during its processing, ns (default
    /// 1 µs, that is 1000 leases).
    pub lease_ns: u64,
    /// A message from another group that is stamped farther than this ahead is refused, ns (default
    /// 10 s).
    pub causal_horizon_ns: u64,
    /// True if the order in which members propose goes round with the rounds.
    pub rotate: bool,
    /// Of how many logical threads it is remembered how far they are (default and most 65 536).
    /// Where there are more, the one whose last round is the oldest is forgotten; if it reads
    /// again, its rounds are numbered on from the greatest number that any forgotten one had.
    pub threads: u32,
}

/// Settings that a member chooses for itself.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Own {
    /// Member that it is. A member that is not of the universe is an observer: it sends and
    /// receives messages and follows the clock, but never proposes in a round, votes or counts.
    pub member: Member,
    /// A number that no earlier life of this member had.
    pub incarnation: u64,
    /// The k-th replica waits k times this before it proposes, ns (default 400 µs).
    pub stagger_ns: u64,
    /// The least time between two reports of its clock, ns (default and least 1 s).
    pub report_ns: u64,
    /// Longest wait of a program that starts for those of the other live members, ns (default 1 s),
    /// unless it says with how many it begins.
    pub gather_ns: u64,
    /// Values kept for a thread or a program that is behind, in all (default 1 048 576).
    pub buffer: usize,
    /// Floor durably kept of an earlier life: the group's clock was never ahead of this, ns.
    pub floor: Option<i64>,
    /// True if a program here can give and take checkpoints.
    pub checkpoints: bool,
}

/// The most members that a universe may have.
pub const LARGEST_UNIVERSE: usize = 256;

/// The least time between two reports of a member's clock, ns.
const LEAST_REPORT_NS: u64 = 1_000_000_000;

/// The longest of all settings that are times, ns (about a day).
const LONGEST_NS: u64 = 100_000_000_000_000;

impl Group {
    /// A group of this name and universe, everything else by default.
    pub fn new(name: &str, universe: &[Member]) -> Group {
        Group {
            name: name.to_owned(),
            universe: universe.to_vec(),
            mode: Mode::Active,
            order: Order::Monotone,
            steering_cap_ppb: 500_000,
            steering_time_ns: 8_000_000_000,
            horizon_ns: 5_000_000_000,
            lease_ns: 1_000,
            causal_horizon_ns: 10_000_000_000,
            rotate: false,
            threads: MOST_THREADS as u32,
        }
    }

    /// Digest of all settings (FNV-1a, 64 bits): the same exactly where they are the same, but for
    /// one case in 2⁶⁴. Goes with each message.
    pub fn digest(&self) -> u64 {
        // Destructured so that a new setting cannot be forgotten.
        let Group {
            name,
            universe,
            mode,
            order,
            steering_cap_ppb,
            steering_time_ns,
            horizon_ns,
            lease_ns,
            causal_horizon_ns,
            rotate,
            threads,
        } = self;
        let mut digest = Digest::default();
        digest.number(name.len() as u64);
        digest.bytes(name.as_bytes());
        digest.number(universe.len() as u64);
        universe.iter().for_each(|member| digest.number(member.0.into()));
        digest.number(*mode as u64);
        digest.number(*order as u64);
        digest.number((*steering_cap_ppb).into());
        for number in [steering_time_ns, horizon_ns, lease_ns, causal_horizon_ns] {
            digest.number(*number);
        }
        digest.number((*rotate).into());
        digest.number((*threads).into());
        digest.0
    }

    /// True if so many members of the universe are more than half of it.
    pub(crate) fn majority(&self, members: usize) -> bool {
        members > self.universe.len() / 2
    }

    /// True if this is a member of the universe (otherwise it is an observer).
    pub(crate) fn counts(&self, member: Member) -> bool {
        self.place(member).is_some()
    }

    /// Which of the universe's members it is, from 0.
    pub(crate) fn place(&self, member: Member) -> Option<usize> {
        self.universe.binary_search(&member).ok()
    }

    fn check(&self) -> Result<(), SettingsError> {
        let letter = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
        if self.name.is_empty()
            || self.name.len() > LONGEST_NAME
            || !self.name.bytes().all(letter)
            || self.name.starts_with('.')
        {
            return Err(SettingsError::Name);
        }
        if self.universe.is_empty()
            || self.universe.len() > LARGEST_UNIVERSE
            || self.universe.first() == Some(&Member(0))
            || !self.universe.is_sorted_by(|a, b| a < b)
        {
            return Err(SettingsError::Universe);
        }
        if self.steering_cap_ppb > 100_000_000 {
            return Err(SettingsError::SteeringCap);
        }
        let times = [self.steering_time_ns, self.horizon_ns, self.lease_ns, self.causal_horizon_ns];
        if self.steering_time_ns == 0 || times.iter().any(|&time| time > LONGEST_NS) {
            return Err(SettingsError::Time);
        }
        if self.threads == 0 || self.threads as usize > MOST_THREADS {
            return Err(SettingsError::Threads);
        }
        Ok(())
    }
}

impl Own {
    /// This member, with everything else by default: nothing kept, no checkpoints.
    pub fn new(member: Member, incarnation: u64) -> Own {
        Own {
            member,
            incarnation,
            stagger_ns: 400_000,
            report_ns: LEAST_REPORT_NS,
            gather_ns: 1_000_000_000,
            buffer: 1 << 20,
            floor: None,
            checkpoints: false,
        }
    }
}

pub(crate) fn check(group: &Group, own: &Own) -> Result<(), SettingsError> {
    group.check()?;
    if own.member.0 == 0 {
        return Err(SettingsError::Member);
    }
    let longest = own.report_ns.max(own.stagger_ns).max(own.gather_ns);
    if own.report_ns < LEAST_REPORT_NS || longest > LONGEST_NS {
        return Err(SettingsError::Report);
    }
    Ok(())
}

/// Faults of settings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SettingsError {
    /// The name.
    Name,
    /// The universe.
    Universe,
    /// The greatest steering rate.
    SteeringCap,
    /// One of the group's times.
    Time,
    /// Number of threads that are remembered.
    Threads,
    /// The own member.
    Member,
    /// The own times.
    Report,
}

impl fmt::Display for SettingsError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SettingsError::Name => write!(
                out,
                "name: 1 to {LONGEST_NAME} of a-z A-Z 0-9 . _ - are allowed, no dot at the start"
            ),
            SettingsError::Universe => write!(
                out,
                "universe: 1 to {LARGEST_UNIVERSE} different members are needed, ascending, each 1 \
                 or more"
            ),
            SettingsError::SteeringCap => {
                out.write_str("steering cap: at most 100 000 000 parts in 10⁹ (10 %) are allowed")
            }
            SettingsError::Time => out.write_str(
                "steering time, horizon, lease and causal horizon may be at most 100 000 s, and \
                 the steering time not 0",
            ),
            SettingsError::Threads => {
                write!(out, "threads: 1 to {MOST_THREADS} can be remembered")
            }
            SettingsError::Member => out.write_str("member: a number of 1 or more is needed"),
            SettingsError::Report => out.write_str(
                "reports must be at least 1 s apart, and they, the stagger and the time to gather in \
                 at most 100 000 s",
            ),
        }
    }
}

impl core::error::Error for SettingsError {}
