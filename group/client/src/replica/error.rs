//! Errors of a replica.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crate::link::{MISSED, Refused};
use crate::memory::Closed;
use crate::place::PlaceError;

/// Reason why one cannot attach.
#[derive(Debug)]
#[non_exhaustive]
pub enum AttachError {
    /// Place not known.
    Place(PlaceError),
    /// The socket's path is longer than 107 bytes.
    TooLong(PathBuf),
    /// There is no agent, or it refuses.
    Refused {
        /// Where.
        path: PathBuf,
        /// Reason.
        why: Refused,
    },
}

/// Reason why a message was not sent.
#[derive(Debug)]
#[non_exhaustive]
pub enum SendError {
    /// The agent is gone.
    Gone(Option<Closed>),
    /// The message is too long.
    TooLong {
        /// Length of the message, bytes.
        length: usize,
        /// Greatest length allowed, bytes.
        limit: usize,
    },
    /// Not a name for a group.
    Group(String),
    /// Role wrong: a reader does not take part in the group's messages.
    Role,
    /// The agent is there, takes nothing, and has shown no sign of life for that long ([`Options::silence`]). A short
    /// message is not sent, and others may be later. Of a longer one the agent may have a part: nothing else can be sent
    /// by this attachment then, which is to be made anew.
    ///
    /// [`Options::silence`]: crate::Options::silence
    Silent(Duration),
}

/// Reason why nothing more comes.
#[derive(Debug)]
#[non_exhaustive]
pub enum NextError {
    /// The agent is gone.
    Gone(Option<Closed>),
    /// This member was out of the majority, and the others may have gone on: what comes next in the
    /// stream is missing here. No more comes until [`crate::Replica::restarted`].
    Missed,
    /// Malformed input that breaks the protocol.
    Malformed(&'static str),
    /// Nothing was asked, as that could not be sent.
    Send(SendError),
}

/// Reason why a reply must not be sent.
#[derive(Debug)]
#[non_exhaustive]
pub enum CommitError {
    /// Loss of what the reply depends on: a majority never had it, or may not have.
    Lost,
    /// This program has missed part of the group's stream: what it would reply is of no worth until
    /// it has started anew.
    Missed,
    /// No majority has confirmed it in time. It may do so later.
    Late,
    /// Gone: cannot be found out any more.
    Gone(NextError),
    /// Failure to ask for it.
    Send(SendError),
    /// Too much waits for [`crate::Replica::next`] for the answer to be looked for behind it.
    Unread,
}

/// Reason why a reply was not sent.
#[derive(Debug)]
#[non_exhaustive]
pub enum ReplyError {
    /// Ban on sending it.
    Commit(CommitError),
    /// Sending it failed.
    Send(io::Error),
}

fn gone(out: &mut fmt::Formatter<'_>, why: Option<Closed>) -> fmt::Result {
    out.write_str(why.map_or("the group's agent on this node is gone", Closed::text))
}

const UNREAD: &str = "too many of the group's messages wait to be taken by this program";

impl fmt::Display for AttachError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AttachError::Place(error) => error.fmt(out),
            AttachError::TooLong(path) => {
                write!(out, "{} is longer than a socket's path may be (107 bytes)", path.display())
            }
            AttachError::Refused { path, why } => write!(out, "{}: {why}", path.display()),
        }
    }
}

impl fmt::Display for SendError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SendError::Gone(why) => gone(out, *why),
            SendError::TooLong { length, limit } => {
                write!(out, "a message of {length} bytes; at most {limit} are allowed")
            }
            SendError::Group(name) => {
                write!(out, "'{}' is no name for a group", name.escape_debug())
            }
            SendError::Role => out.write_str(
                "a program that attached as a reader takes no part in the group's messages",
            ),
            SendError::Silent(span) => write!(
                out,
                "the group's agent on this node stands still: no sign of life for {:.1} s",
                span.as_secs_f64()
            ),
        }
    }
}

impl fmt::Display for NextError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NextError::Gone(why) => gone(out, *why),
            NextError::Missed => out.write_str(MISSED),
            NextError::Malformed(what) => write!(out, "the agent sent {what}"),
            NextError::Send(error) => error.fmt(out),
        }
    }
}

impl fmt::Display for CommitError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CommitError::Lost => {
                out.write_str("what the reply depends on is lost; it must not be sent")
            }
            CommitError::Missed => out.write_str(MISSED),
            CommitError::Late => out.write_str("no majority has confirmed it in time"),
            CommitError::Gone(error) => error.fmt(out),
            CommitError::Send(error) => error.fmt(out),
            CommitError::Unread => out.write_str(UNREAD),
        }
    }
}

impl fmt::Display for ReplyError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReplyError::Commit(error) => error.fmt(out),
            ReplyError::Send(error) => write!(out, "cannot send the reply: {error}"),
        }
    }
}

impl std::error::Error for AttachError {}
impl std::error::Error for SendError {}
impl std::error::Error for NextError {}
impl std::error::Error for CommitError {}
impl std::error::Error for ReplyError {}
