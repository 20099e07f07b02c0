//! The lines of a log, as anybody may have written them.

use std::fmt;
use std::io::{self, BufRead, Read};

use serde::Deserialize;
use truechimer_engine::Action;

use super::difference::Difference;
use super::{FORMAT, VERSION};

/// The longest line that is read, in bytes.
const MAX_LINE: u64 = 4 << 20;

/// The program that wrote a log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Writer {
    /// Version of the program.
    pub version: String,
    /// The version of the format.
    pub format: u32,
}

impl fmt::Display for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (format {})", self.version, self.format)
    }
}

impl Writer {
    /// This program.
    pub(super) fn this() -> Writer {
        Writer { version: VERSION.into(), format: FORMAT }
    }
}

/// Reasons why a log could not be repeated.
#[derive(Debug)]
pub enum ReplayError {
    /// Log that cannot be read.
    Unreadable(io::Error),
    /// Not a replay log, or not of this version of the format.
    NotALog(String),
    /// A line is not as it should be.
    Line {
        /// Number of the line, from 1.
        line: u64,
        /// The column, from 1, unless it is the line as a whole.
        column: Option<usize>,
        /// Fault of it.
        why: String,
    },
    /// The engine decided otherwise.
    Differs {
        /// The number of the first line that differs, from 1.
        line: u64,
        /// The first field that differs, as `hand.bound`.
        field: String,
        /// Value in the log.
        logged: String,
        /// Value that the engine decided now.
        decided: String,
        /// Writer of the log, unless it was this version of the program in this format.
        writer: Option<Writer>,
    },
    /// Receiver of what happened takes no more.
    Output(io::Error),
}

impl fmt::Display for ReplayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReplayError::Unreadable(why) => write!(f, "cannot be read: {why}"),
            ReplayError::NotALog(why) => {
                write!(f, "not a replay log that this version can read: {why}")
            }
            ReplayError::Line { line, column: None, why } => write!(f, "line {line}: {why}"),
            ReplayError::Line { line, column: Some(column), why } => {
                write!(f, "line {line}, column {column}: {why}")
            }
            ReplayError::Differs { line, field, logged, decided, writer } => {
                write!(f, "line {line}: {field} differs: logged {logged}, decided {decided}")?;
                let Some(writer) = writer else { return Ok(()) };
                write!(
                    f,
                    "; version {writer} wrote the log, and this one, {}, may decide otherwise: repeat it \
                     with that version, or leave its decisions aside (--estimator)",
                    Writer::this()
                )
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
        ReplayError::Line { line: self.number, column: None, why }
    }

    pub(super) fn parse<'t, T: Deserialize<'t>>(&self, text: &'t str) -> Result<T, ReplayError> {
        let line = self.number;
        parse(text).map_err(|(column, why)| ReplayError::Line { line, column, why })
    }

    /// The error of a decision that is not the logged one, either of which may be missing.
    pub(super) fn differs(
        &self,
        logged: Option<&Action>,
        decided: Option<&Action>,
        writer: &Writer,
    ) -> ReplayError {
        let Difference { field, logged, decided } = Difference::between(logged, decided);
        let writer = Some(writer.clone()).filter(|writer| *writer != Writer::this());
        ReplayError::Differs { line: self.number, field, logged, decided, writer }
    }
}

/// The value of one line; else in which column it is wrong, and how.
pub(super) fn parse<'t, T: Deserialize<'t>>(text: &'t str) -> Result<T, (Option<usize>, String)> {
    serde_json::from_str(text).map_err(|error| {
        // The line is ours to know: to the parser it is always the first.
        let (why, place) = (error.to_string(), format!(" at line {}", error.line()));
        let end = why.rfind(&place).unwrap_or(why.len());
        let column = Some(error.column()).filter(|&column| column > 0);
        (column, why.get(..end).unwrap_or(&why).to_owned())
    })
}
