//! The lines of a log, as anybody may have written them.

use std::fmt;
use std::io::{self, BufRead, Read};

use serde::Deserialize;
use truechimer_engine::Action;

/// The longest line that is read, in bytes.
const MAX_LINE: u64 = 4 << 20;

/// Why a log could not be repeated.
#[derive(Debug)]
pub enum ReplayError {
    /// It cannot be read.
    Unreadable(io::Error),
    /// It is not a replay log, or not of this version of the format.
    NotALog(String),
    /// A line is not as it should be.
    Line {
        /// Its number, from 1.
        line: u64,
        /// What is wrong with it.
        why: String,
    },
    /// The engine decided otherwise.
    Differs {
        /// The number of the first line that differs, from 1.
        line: u64,
        /// What the log has there.
        logged: String,
        /// What the engine decided now.
        decided: String,
    },
    /// Whoever takes what happened takes no more.
    Output(io::Error),
}

impl fmt::Display for ReplayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReplayError::Unreadable(why) => write!(f, "cannot be read: {why}"),
            ReplayError::NotALog(why) => {
                write!(f, "not a replay log that this version can read: {why}")
            }
            ReplayError::Line { line, why } => write!(f, "line {line}: {why}"),
            ReplayError::Differs { line, logged, decided } => {
                write!(f, "line {line} differs:\n  logged:  {logged}\n  decided: {decided}")
            }
            ReplayError::Output(why) => why.fmt(f),
        }
    }
}

impl std::error::Error for ReplayError {}

/// The complete lines of a log.
pub(super) struct Lines<R> {
    reader: R,
    /// Of the line that was read last, from 1.
    pub(super) number: u64,
    /// The last line has no end.
    pub(super) truncated: bool,
}

impl<R: BufRead> Lines<R> {
    pub(super) fn new(reader: R) -> Lines<R> {
        Lines { reader, number: 0, truncated: false }
    }

    pub(super) fn next(&mut self) -> Result<Option<String>, ReplayError> {
        let mut text = String::new();
        let read = self.reader.by_ref().take(MAX_LINE).read_line(&mut text);
        match read {
            // A line cut in the middle of a character, too, was cut.
            Err(error) if error.kind() != io::ErrorKind::InvalidData => {
                return Err(ReplayError::Unreadable(error));
            }
            Err(error) => {
                self.number += 1;
                return Err(self.error(error.to_string()));
            }
            Ok(0) => return Ok(None),
            Ok(_) => self.number += 1,
        }
        if !text.ends_with('\n') {
            if text.len() as u64 >= MAX_LINE {
                return Err(self.error("too long".into()));
            }
            self.truncated = true;
            return Ok(None);
        }
        Ok(Some(text))
    }

    pub(super) fn error(&self, why: String) -> ReplayError {
        ReplayError::Line { line: self.number, why }
    }

    pub(super) fn differs(&self, logged: String, decided: &Action) -> ReplayError {
        ReplayError::Differs { line: self.number, logged, decided: format!("{decided:?}") }
    }
}

pub(super) fn parse<'t, T: Deserialize<'t>>(text: &'t str) -> Result<T, String> {
    serde_json::from_str(text).map_err(|error| error.to_string())
}
