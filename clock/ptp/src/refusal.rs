//! Reasons for which a message was not used.

use core::fmt;

use crate::{Kind, Malformed};

/// Reason for which a message was not used. Most are no trouble: on a network with several domains,
/// masters and slaves, every port hears much that is not for it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Refusal {
    /// No message of PTP version 2.
    Malformed(Malformed),
    /// Belongs to this profile of 802.1AS or another organisation (sdoId), not to ours.
    Profile(u16),
    /// Belongs to this domain.
    Domain(u8),
    /// Has our own clock's identity: our own message come back, or forged.
    Own,
    /// Nothing is done with messages of this type, or with so many of them.
    Unused(Kind),
    /// Came without a stamp.
    NoStamp,
    /// The sender is not the best master: an alternate one, another, or one not yet qualified.
    NotParent,
    /// Has the name of a known port and comes from another address than that: forged.
    WrongAddress,
    /// The master is 255 or more boundary clocks away from its grandmaster.
    TooFar,
    /// Too many masters announce themselves.
    TooMany,
    /// Goes with nothing that is remembered.
    Stray,
    /// Copy of one that was used.
    Duplicate,
    /// Answers another slave.
    ForOthers,
    /// The nanoseconds of its timestamp are none.
    Timestamp,
    /// The correction was too large for the field, or is larger than any path.
    Correction,
    /// The neighbour on the link is not the master.
    Neighbour,
    /// The neighbour on the link says how long it took to answer, not when the question arrived.
    Turnaround,
    /// Was not granted, or is not said to be unicast, where masters are asked by address.
    Ungranted,
    /// Grants or ends what was not asked for or granted, for no time of use, or at another interval.
    Grant,
}

/// Names in the order of [`Refusal::index`].
const NAMES: [&str; 19] = [
    "malformed",
    "profile",
    "domain",
    "own",
    "unused",
    "no-stamp",
    "not-parent",
    "wrong-address",
    "too-far",
    "too-many",
    "stray",
    "duplicate",
    "for-others",
    "timestamp",
    "correction",
    "neighbour",
    "turnaround",
    "ungranted",
    "grant",
];

impl Refusal {
    const fn index(self) -> usize {
        match self {
            Refusal::Malformed(_) => 0,
            Refusal::Profile(_) => 1,
            Refusal::Domain(_) => 2,
            Refusal::Own => 3,
            Refusal::Unused(_) => 4,
            Refusal::NoStamp => 5,
            Refusal::NotParent => 6,
            Refusal::WrongAddress => 7,
            Refusal::TooFar => 8,
            Refusal::TooMany => 9,
            Refusal::Stray => 10,
            Refusal::Duplicate => 11,
            Refusal::ForOthers => 12,
            Refusal::Timestamp => 13,
            Refusal::Correction => 14,
            Refusal::Neighbour => 15,
            Refusal::Turnaround => 16,
            Refusal::Ungranted => 17,
            Refusal::Grant => 18,
        }
    }

    /// A short name for tables and logs, one for all refusals of a kind.
    #[must_use]
    pub fn name(self) -> &'static str {
        NAMES.get(self.index()).copied().unwrap_or("refused")
    }

    /// True if the user may want to know of it: it shows a fault, an attack, or another set-up than
    /// is thought.
    #[must_use]
    pub const fn is_trouble(self) -> bool {
        matches!(
            self,
            Refusal::Malformed(_)
                | Refusal::NoStamp
                | Refusal::WrongAddress
                | Refusal::TooFar
                | Refusal::TooMany
                | Refusal::Timestamp
                | Refusal::Correction
                | Refusal::Neighbour
                | Refusal::Turnaround
                | Refusal::Grant
        )
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Malformed(why) => why.fmt(f),
            Refusal::Profile(id) => {
                write!(f, "a message of the profile 0x{id:03x} (sdoId), which is not followed")
            }
            Refusal::Domain(domain) => {
                write!(f, "a message of domain {domain}; set `domain` to follow that one")
            }
            Refusal::Own => f.write_str("a message with our own identity"),
            Refusal::Unused(kind) => write!(f, "a {kind} message is nothing to a slave"),
            Refusal::NoStamp => f.write_str("a message came without a stamp"),
            Refusal::NotParent => f.write_str("a message of a master that is not followed"),
            Refusal::WrongAddress => f.write_str(
                "a message has the name of a master and came from another address: forged, or two \
                 clocks have one identity",
            ),
            Refusal::TooFar => {
                f.write_str("a master is 255 or more boundary clocks away from its grandmaster")
            }
            Refusal::TooMany => f.write_str("too many masters announce themselves"),
            Refusal::Stray => f.write_str("a message goes with none of ours or of the master's"),
            Refusal::Duplicate => f.write_str("a copy of a message that was used"),
            Refusal::ForOthers => f.write_str("an answer to another slave"),
            Refusal::Timestamp => f.write_str("a timestamp's nanoseconds are a second or more"),
            Refusal::Neighbour => f.write_str(
                "the neighbour on the link is not the master, or answers by another clock: nothing \
                 bounds the path to the master; set delay = \"e2e\"",
            ),
            Refusal::Turnaround => f.write_str(
                "the neighbour on the link says how long it took to answer (in one step, or as a \
                 correction), not when: nothing bounds the path to the master; set delay = \"e2e\"",
            ),
            Refusal::Ungranted => f.write_str(
                "a message that no master was asked for, or one that is not said to be unicast",
            ),
            Refusal::Grant => f.write_str(
                "a master grants what it was not asked for, for less than 10 s or at another \
                 interval: forged, or of no use",
            ),
            Refusal::Correction => f.write_str(
                "a correction is too large for its field or for any path: a transparent clock is \
                 at fault",
            ),
        }
    }
}

impl core::error::Error for Refusal {}

/// Number of refusals of each kind. The numbers stop at their largest value.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tally([u64; NAMES.len()]);

impl Tally {
    /// Nothing was refused.
    pub const NONE: Tally = Tally([0; NAMES.len()]);

    /// Counts one more.
    pub fn add(&mut self, refusal: Refusal) {
        if let Some(n) = self.0.get_mut(refusal.index()) {
            *n = n.saturating_add(1);
        }
    }

    /// Number of refusals of the kind of `refusal`, whatever it carries.
    #[must_use]
    pub fn of(&self, refusal: Refusal) -> u64 {
        self.0.get(refusal.index()).copied().unwrap_or(0)
    }

    /// Names and numbers of the kinds that happened, in the order of the checks.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        NAMES.iter().copied().zip(self.0).filter(|(_, n)| *n > 0)
    }
}
