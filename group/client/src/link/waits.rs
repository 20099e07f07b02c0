//! Things that a read waits for, in words, and when that is told.

use std::fmt;

use truechimer_group::Phase;

use super::{Link, SLICE};
use crate::lead::Lead;
use crate::memory::Began;
use crate::sys;

/// Things that a read waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Waits {
    /// That this member is in the majority again.
    Majority,
    /// That this member is let in.
    Joining,
    /// That other members' programs start ([`Together`](super::Together)).
    Others,
    /// That an operator ends the drain of this member: no program begins here until then.
    Drained,
    /// In the modes passive and semi-active: that the primary's program has read that far.
    Primary(Lead),
    /// For a value, though the member takes part: the group's clock is not tied to UTC, the group's
    /// messages do not come through, or the agent hangs. The agent knows which.
    Value,
}

impl fmt::Display for Waits {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Waits::Drained => {
                "an operator has drained this member: no program begins here until it is promoted \
                 or demoted"
            }
            Waits::Primary(lead) => return write!(out, "this member is a backup: {lead}"),
            Waits::Majority => "this member is outside the majority",
            Waits::Joining => "this member is not let into the group yet",
            Waits::Others => {
                "programs of other members, which this one starts with, have not started"
            }
            Waits::Value => {
                "no value comes, though this member is live: `truechimer group status` says why"
            }
        })
    }
}

/// A read that is waiting.
pub(super) struct Vigil<'a> {
    pub(super) link: &'a Link,
    pub(super) note: Option<fn(Option<Waits>)>,
    pub(super) since: Option<u64>,
    pub(super) said: bool,
}

/// After so long a read's waiting is told, ns.
const TELL: u64 = 2_000_000_000;

impl Vigil<'_> {
    /// The thread has slept for a slice, in vain.
    pub(super) fn slept(&mut self) {
        let Some(note) = self.note.filter(|_| !self.said) else { return };
        let now = sys::monotonic();
        let since = *self.since.get_or_insert(now.saturating_sub(SLICE));
        if now.saturating_sub(since) >= TELL {
            self.said = true;
            let lead = self.link.lead();
            let waits = self.link.began() == Began::Waits;
            note(Some(match self.link.phase() {
                Some(Phase::Outside) => Waits::Majority,
                Some(Phase::Joining) => Waits::Joining,
                Some(Phase::Live) if waits && lead.drained => Waits::Drained,
                Some(Phase::Live) if waits => Waits::Others,
                Some(Phase::Live)
                    if lead.primary.is_some_and(|it| it != self.link.welcome().member) =>
                {
                    Waits::Primary(lead)
                }
                Some(Phase::Live) | None => Waits::Value,
            }));
        }
    }
}

impl Drop for Vigil<'_> {
    fn drop(&mut self) {
        if let Some(note) = self.note.filter(|_| self.said) {
            note(None);
        }
    }
}
