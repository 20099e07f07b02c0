//! Errors of a file.

use std::fmt;
use std::io;

/// Reason why a capture cannot be read on.
#[derive(Debug)]
pub enum ReadError {
    /// Begins like no capture that can be read; this is how, and what is known of it.
    Foreign(String),
    /// Breaks the rules of its format.
    Damaged {
        /// Which block (pcap: packet), from 1.
        block: u64,
        /// Where that begins, in bytes from the start of the file.
        offset: u64,
        /// Fault.
        what: String,
    },
    /// The system cannot read it.
    Io {
        /// Where, in bytes from the start of the file.
        offset: u64,
        /// Error of the system.
        why: io::Error,
    },
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadError::Foreign(what) => f.write_str(what),
            ReadError::Damaged { block, offset, what } => {
                write!(f, "block {block} at byte {offset}: {what}")
            }
            ReadError::Io { offset, why } => write!(f, "reading at byte {offset}: {why}"),
        }
    }
}

impl std::error::Error for ReadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            ReadError::Io { why, .. } => Some(why),
            _ => None,
        }
    }
}
