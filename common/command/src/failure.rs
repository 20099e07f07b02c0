//! End of a command.

use std::fmt::Display;
use std::io;

/// End of a command that ran: the exit statuses 0 and 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// Done as wished: 0.
    Good,
    /// Run to its end, but the answer is no (as `--help` of each command explains): 1.
    Bad,
}

impl Outcome {
    /// `Good` if `good`.
    pub fn of(good: bool) -> Outcome {
        if good { Outcome::Good } else { Outcome::Bad }
    }
}

/// Reason why a command could not do what was asked: exit status 2.
#[derive(Debug)]
pub enum Failure {
    /// Nobody reads the output any more: end without a word.
    Unread,
    /// One line for the user: what, why, and how to mend it.
    Said(String),
}

/// Result of a command.
pub type Ended = Result<Outcome, Failure>;

impl Failure {
    /// A failure in one line: what was tried and why it did not work.
    pub fn new(what: impl Display, why: impl Display) -> Failure {
        Failure::Said(format!("{what}: {why}"))
    }
}

/// A bare I/O error is one of writing to standard output; all others are given their context.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::Unread,
            _ => Failure::new("standard output", error),
        }
    }
}
