//! Reasons for which there is no attachment, or no value.

use std::fmt;

use truechimer_group::Rejection;

use crate::memory::VERSION;

/// Reason for which a read gave nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ReadError {
    /// The group's engine gives no value.
    Rejected(Rejection),
    /// Patience is at an end; the round counts as read.
    Late,
    /// The agent is gone, or has cut this program off.
    Gone,
    /// All slots are in use, and stayed so for as long as patience lasted.
    Full,
    /// The shared memory holds what the agent cannot have written.
    Damaged,
}

/// Reason for which there is no attachment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Refused {
    /// Nobody listens there.
    NoAgent,
    /// This user may not.
    NotPermitted,
    /// The agent does not answer.
    Silent,
    /// The agent refused.
    ByAgent {
        /// Reason.
        why: WhyRefused,
        /// The version of the protocol that it speaks.
        version: u16,
        /// With [`WhyRefused::Taken`]: the process that is there already, or 0.
        process: u32,
    },
    /// A system call failed with this error number.
    System(&'static str, i32),
    /// Malformed answer: no welcome of this version.
    Malformed,
}

/// Reason for which an agent refuses an attachment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
#[non_exhaustive]
pub enum WhyRefused {
    /// Other version of the protocol.
    Version = 1,
    /// The member has another program.
    Taken = 2,
    /// No more attachments taken.
    TooMany = 3,
    /// This user may not.
    NotPermitted = 4,
}

impl fmt::Display for Refused {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::NoAgent => out.write_str(
                "no agent listens there; start one with 'truechimer group agent --group NAME'",
            ),
            Refused::NotPermitted => out.write_str(
                "this user may not use the agent's socket; run as the agent's user, or let the \
                 agent admit this one (`link` of the group in its configuration)",
            ),
            Refused::Silent => out.write_str("the agent does not answer: is it stopped?"),
            Refused::ByAgent { why: WhyRefused::Version, version, .. } => write!(
                out,
                "the agent speaks version {version} of the link's protocol, this program {VERSION}: \
                 use both of the same release"
            ),
            Refused::ByAgent { why: WhyRefused::Taken, process, .. } => {
                out.write_str("this member has a program already")?;
                if *process != 0 {
                    write!(out, ", process {process}")?;
                }
                out.write_str(
                    ", and each member has one only: end that one first, or start this one on \
                     another node (with 'group agent --local N': with another --member)",
                )
            }
            Refused::ByAgent { why: WhyRefused::TooMany, .. } => {
                out.write_str("the agent takes no more attachments")
            }
            Refused::ByAgent { why: WhyRefused::NotPermitted, .. } => {
                out.write_str("the agent does not admit this user")
            }
            Refused::System(call, error) => {
                write!(out, "{call}: {}", std::io::Error::from_raw_os_error(*error))
            }
            Refused::Malformed => {
                out.write_str("what listens there is no agent of this project's making")
            }
        }
    }
}

impl std::error::Error for Refused {}

/// Words for, and treatment of, a program that has missed something.
pub(crate) const MISSED: &str = "the group goes on without this program, as its member was out of \
                                 the majority or it differs from a majority's ('truechimer group \
                                 status' says which): start it anew, from a checkpoint if it has \
                                 state (a program without: restarted())";

impl fmt::Display for ReadError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            ReadError::Rejected(Rejection::Outside) => {
                "this member is outside the group's primary component"
            }
            ReadError::Rejected(Rejection::Behind) => {
                "this thread is so far behind the group that only a checkpoint helps"
            }
            ReadError::Rejected(Rejection::Busy) => {
                "a thread of this number is reading the group's clock already"
            }
            ReadError::Rejected(Rejection::TooManyThreads) => {
                "the group has more threads than it keeps"
            }
            ReadError::Rejected(Rejection::Observer) => {
                "this member is an observer, whose programs cannot read the group's clock"
            }
            ReadError::Rejected(Rejection::Missed) => MISSED,
            ReadError::Rejected(Rejection::Full) => {
                "too many readings wait for the group's clock to be tied to UTC"
            }
            ReadError::Late => "the group did not agree on a value in time",
            ReadError::Gone => {
                "the group's agent on this node is gone, or has cut this program off"
            }
            ReadError::Full => "too many threads read the group's clock at once",
            ReadError::Damaged => "the memory that is shared with the group's agent is damaged",
        })
    }
}

impl std::error::Error for ReadError {}
