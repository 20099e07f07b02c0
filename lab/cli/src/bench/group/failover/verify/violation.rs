//! Violations: what must not be.

use std::fmt;

/// Which promise was broken.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Kind {
    /// Two members have different values for one round, or times for one message.
    Disagreement,
    /// A later value is not greater: of a thread, of the group in its order, or over a restart.
    RollBack,
    /// A value that is not greater than one that somebody had before anybody asked for it.
    RealTime,
    /// A program missed a round of its thread, or had one twice.
    LostRound,
    /// A member outside the primary component gave a value or a message.
    WhileOutside,
    /// Loss of what a majority was said to have: the group went on with something else.
    CommitLost,
    /// A node to which nothing was done lost its place or refused an operation.
    SurvivorLost,
    /// Messages came in another order than their places say.
    MessageOrder,
    /// A message came twice.
    MessageTwice,
    /// A program missed a message between two that it got.
    MessageLost,
    /// The group's clock ran away.
    Ahead,
}

impl Kind {
    /// For people.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Disagreement => "disagreement",
            Kind::RollBack => "roll-back",
            Kind::RealTime => "earlier than what was read before",
            Kind::LostRound => "lost round",
            Kind::WhileOutside => "value while outside",
            Kind::CommitLost => "commit lost",
            Kind::SurvivorLost => "survivor lost its place",
            Kind::MessageOrder => "message out of order",
            Kind::MessageTwice => "message twice",
            Kind::MessageLost => "message lost",
            Kind::Ahead => "clock ran ahead",
        }
    }
}

/// A broken promise, with both sides of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    /// Which promise.
    pub kind: Kind,
    /// About what.
    pub what: String,
    /// Observation, in words.
    pub this: String,
    /// Observation that it contradicts.
    pub other: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Violation { kind, what, this, other } = self;
        write!(f, "{}: {what}\n    {this}\n    {other}", kind.name())
    }
}
