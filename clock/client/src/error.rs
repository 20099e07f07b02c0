//! Reasons why there is no clock, or no time from it.

use std::fmt;
use std::path::PathBuf;

use truechimer_counter::CounterError;
use truechimer_time::{CounterKind, Epoch};
use truechimer_timehands::{Corrupt, PageError};

/// Reasons why a counter that is a device gives no counts here.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unreadable {
    /// Which counter.
    pub kind: CounterKind,
    /// Reason why it cannot be read itself.
    pub device: NoDevice,
    /// Reason why `CLOCK_MONOTONIC_RAW` cannot stand in for it.
    pub raw: NoRawClock,
}

/// Reasons why a device cannot be read.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum NoDevice {
    /// Counter not there, not to be read, or kept too long ago to continue from.
    Counter(CounterError),
    /// The page says nothing to continue from: no daemon, or one that has only just begun.
    NotKept,
    /// The page is about a device of another width.
    Width {
        /// Number of bits that this process would read.
        here: u32,
        /// Number of bits that the daemon reads.
        page: u32,
    },
}

/// Reasons why `CLOCK_MONOTONIC_RAW` does not tell the counts of a device.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum NoRawClock {
    /// The kernel keeps time by something else.
    Clocksource {
        /// Clocksource in use, if the kernel says.
        now: Option<String>,
        /// Clocksource that would be needed.
        wanted: &'static str,
    },
    /// The daemon has not said (yet) how one goes with the other.
    NotSaid,
    /// Word of the daemon, of no use so far from when it came.
    TooFar,
}

/// Reasons why the clock cannot be opened.
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
        /// Fault in it.
        corrupt: Corrupt,
    },
    /// The counter that the page is about, or what else it takes, cannot be read here.
    Counter(CounterError),
    /// The counter that the page is about is a device that gives no counts here.
    Unreadable(Box<Unreadable>),
}

/// Reasons why the clock cannot tell.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ReadError {
    /// The page holds no time yet.
    NotYet {
        /// True if a daemon is there that may still provide it.
        tended: bool,
    },
    /// The page holds no hand of ours.
    Corrupt(Corrupt),
    /// The counter that the page is now about cannot be read here.
    Counter(CounterError),
    /// The counter that the page is now about is a device that gives no counts here.
    Unreadable(Box<Unreadable>),
    /// The moment belongs to another stretch of the counter than the clock does now: the counter
    /// lost its continuity in between (suspend, migration).
    OtherEpoch {
        /// The epoch of the moment.
        moment: Epoch,
        /// The epoch of the clock.
        clock: Epoch,
    },
    /// The moment is of another counter than the clock goes by now.
    OtherCounter {
        /// The counter of the moment.
        moment: CounterKind,
        /// The counter of the clock.
        clock: CounterKind,
    },
    /// The moment is later than now, and than anything that the page foresees.
    NotOver,
    /// The counter has just lost its continuity, and no daemon has caught up with it yet.
    Disrupted,
    /// The page is so old that it promises nothing for that moment.
    Void,
}

impl fmt::Display for NoDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoDevice::Counter(error) => error.fmt(f),
            NoDevice::NotKept => f.write_str("no daemon says where it is"),
            NoDevice::Width { here, page } => {
                write!(f, "it has {here} bits here, and {page} by the clock page")
            }
        }
    }
}

impl fmt::Display for NoRawClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoRawClock::Clocksource { now, wanted } => {
                let now = now.as_deref().unwrap_or("unknown");
                write!(f, "the kernel's clocksource is {now}, not {wanted}")
            }
            NoRawClock::NotSaid => f.write_str("the daemon has not said yet how they go together"),
            NoRawClock::TooFar => f.write_str("what the daemon said is too old"),
        }
    }
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Unreadable { kind, device, raw } = self;
        write!(
            f,
            "cannot read the clock's counter {kind}: {device}; and CLOCK_MONOTONIC_RAW cannot stand \
             in for it: {raw}. Run as root, start the daemon with --counter raw"
        )?;
        match raw {
            NoRawClock::Clocksource { wanted, .. } => {
                write!(
                    f,
                    ", or let the kernel keep time by it (truechimer counters select {wanted})"
                )
            }
            _ => f.write_str(", or try again in a second"),
        }
    }
}

impl std::error::Error for Unreadable {}

impl From<Unreadable> for OpenError {
    fn from(why: Unreadable) -> OpenError {
        OpenError::Unreadable(Box::new(why))
    }
}

impl From<Unreadable> for ReadError {
    fn from(why: Unreadable) -> ReadError {
        ReadError::Unreadable(Box::new(why))
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::NoPage { searched } => {
                f.write_str("no clock page at")?;
                for (i, path) in searched.iter().enumerate() {
                    write!(f, "{} {}", if i == 0 { "" } else { " or" }, path.display())?;
                }
                f.write_str(
                    ": start a daemon (truechimer run --server HOST), or name the page of one that \
                     runs ($TRUECHIMER_PAGE)",
                )
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
            OpenError::Unreadable(why) => why.fmt(f),
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
            ReadError::Unreadable(why) => why.fmt(f),
            ReadError::OtherEpoch { moment, clock } => write!(
                f,
                "the counter lost its continuity in between: that moment is of epoch {}, the \
                 clock in epoch {}",
                moment.0, clock.0
            ),
            ReadError::OtherCounter { moment, clock } => write!(
                f,
                "that moment is of the counter {moment}, and the clock goes by {clock} now"
            ),
            ReadError::NotOver => {
                f.write_str("that moment is not over yet, or it is of another boot")
            }
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
