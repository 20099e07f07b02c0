//! Why there is no clock, or no time from it.

use std::fmt;
use std::path::PathBuf;

use truechimer_counter::CounterError;
use truechimer_time::Epoch;
use truechimer_timehands::{Corrupt, PageError};

/// Why the clock cannot be opened.
#[derive(Debug)]
#[non_exhaustive]
pub enum OpenError {
    /// There is no page at any of these places.
    NoPage {
        /// Where pages were looked for.
        searched: Vec<PathBuf>,
    },
    /// There is one, and something is wrong with it.
    Page(PageError),
    /// The page was left by another boot of this machine, or by another machine, and no daemon
    /// tends it.
    OtherBoot {
        /// Where it is.
        path: PathBuf,
    },
    /// The page holds no hand of ours.
    Corrupt {
        /// Where it is.
        path: PathBuf,
        /// What is wrong with it.
        corrupt: Corrupt,
    },
    /// The counter that the page is about, or what else it takes, cannot be read here.
    Counter(CounterError),
}

/// Why the clock cannot tell.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ReadError {
    /// The page holds no time yet.
    NotYet {
        /// Whether a daemon is there that may still provide it.
        tended: bool,
    },
    /// The page holds no hand of ours.
    Corrupt(Corrupt),
    /// The counter that the page is now about cannot be read here.
    Counter(CounterError),
    /// The moment belongs to another stretch of the counter than the clock does now: the counter
    /// lost its continuity in between (suspend, migration, another counter).
    OtherEpoch {
        /// The epoch of the moment.
        moment: Epoch,
        /// The epoch of the clock.
        clock: Epoch,
    },
    /// The counter has just lost its continuity, and no daemon has caught up with it yet.
    Disrupted,
    /// The page is so old that it promises nothing for that moment.
    Void,
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::NoPage { searched } => {
                f.write_str("no clock page at")?;
                for (i, path) in searched.iter().enumerate() {
                    write!(f, "{} {}", if i == 0 { "" } else { " or" }, path.display())?;
                }
                f.write_str(": start a daemon (truechimer run --server HOST, or truechimer demo)")
            }
            OpenError::Page(error) => error.fmt(f),
            OpenError::OtherBoot { path } => write!(
                f,
                "the clock page {} was left by another boot, and no daemon tends it: \
                 start one (truechimer run --server HOST)",
                path.display()
            ),
            OpenError::Corrupt { path, corrupt } => {
                write!(f, "{} holds {corrupt}: restart the daemon that writes it", path.display())
            }
            OpenError::Counter(error) => write!(f, "cannot read the clock's counter: {error}"),
        }
    }
}

impl std::error::Error for OpenError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            OpenError::Page(error) => Some(error),
            _ => None,
        }
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadError::NotYet { tended: true } => {
                f.write_str("the clock is not set yet: the daemon is still starting")
            }
            ReadError::NotYet { tended: false } => f.write_str(
                "the clock was never set and no daemon tends it: \
                 start one (truechimer run --server HOST)",
            ),
            ReadError::Corrupt(corrupt) => {
                write!(f, "the clock page holds {corrupt}: restart the daemon that writes it")
            }
            ReadError::Counter(error) => write!(f, "cannot read the clock's counter: {error}"),
            ReadError::OtherEpoch { moment, clock } => write!(
                f,
                "the counter lost its continuity in between: that moment is of epoch {}, the \
                 clock in epoch {}",
                moment.0, clock.0
            ),
            ReadError::Disrupted => f.write_str(
                "the counter lost its continuity (suspend, migration or a jump): \
                 wait until the daemon has synchronised again",
            ),
            ReadError::Void => f.write_str(
                "the clock page is too old to say: is the daemon still running, and does it reach \
                 its servers?",
            ),
        }
    }
}

impl std::error::Error for ReadError {}

impl From<PageError> for OpenError {
    fn from(error: PageError) -> OpenError {
        OpenError::Page(error)
    }
}

impl From<CounterError> for OpenError {
    fn from(error: CounterError) -> OpenError {
        OpenError::Counter(error)
    }
}

impl From<CounterError> for ReadError {
    fn from(error: CounterError) -> ReadError {
        ReadError::Counter(error)
    }
}
