//! Errors of measuring stability.

use std::fmt;
use std::io;
use std::path::PathBuf;

use truechimer_counter::CounterError;

use crate::analysis::PhaseFileError;

/// Reason why stability could not be measured.
#[derive(Debug)]
pub enum StabilityError {
    /// The counter cannot be used.
    Counter(CounterError),
    /// Demand that makes no sense: in words, with the remedy.
    Asked(String),
    /// The reference (its name) cannot be read.
    Reference(String, String),
    /// A phase file cannot be read.
    File(PathBuf, PhaseFileError),
    /// The log cannot be written.
    Log(PathBuf, io::Error),
    /// The log is of something else and cannot be continued: of what, and what to do.
    Resume(PathBuf, String),
    /// The load cannot be made.
    Load(io::Error),
}

impl fmt::Display for StabilityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StabilityError::Counter(why) => why.fmt(f),
            StabilityError::Asked(why) => f.write_str(why),
            StabilityError::Reference(name, why) => write!(f, "the reference {name}: {why}"),
            StabilityError::File(path, why) => write!(f, "{}: {why}", path.display()),
            StabilityError::Log(path, why) => write!(f, "{}: {why}", path.display()),
            StabilityError::Resume(path, why) => {
                write!(f, "{} cannot be continued: {why}", path.display())
            }
            StabilityError::Load(why) => write!(f, "the load cannot be made: {why}"),
        }
    }
}

impl std::error::Error for StabilityError {}

impl From<CounterError> for StabilityError {
    fn from(why: CounterError) -> StabilityError {
        StabilityError::Counter(why)
    }
}
