//! Faults of a scenario.

use core::fmt;

/// Reason why a scenario cannot be run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScenarioError {
    /// The line of the text, from 1, where it is known.
    pub line: Option<usize>,
    /// Fault, and how to mend it.
    pub what: String,
}

impl ScenarioError {
    pub(crate) fn new(what: impl Into<String>) -> ScenarioError {
        ScenarioError { line: None, what: what.into() }
    }
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "line {line}: {}", self.what),
            None => f.write_str(&self.what),
        }
    }
}

impl std::error::Error for ScenarioError {}
