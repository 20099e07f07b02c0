//! The record of how well a clock was known: a line for each minute and one for each event, in a
//! chain of hashes.
//!
//! [`Writer`] appends to it, in files that are rotated by size and bounded in total; [`read`] goes
//! through all lines and checks the chain; [`Account`] sums a span of time up. The format is in
//! docs/reference/audit-record.md.
//!
//! A chain without a signature shows that something in the middle was changed later by somebody who
//! did not make all hashes after it anew. Whoever can write the files can do that. So the last hash
//! is worth keeping elsewhere: a record that still contains it has not been rewritten up to there.
#![forbid(unsafe_code)]

mod account;
mod chain;
mod line;
mod read;
mod time;
mod write;

pub use account::{Account, Gap, Piece, Seen, Share, StatusTime, Stretch};
pub use chain::Hash;
pub use line::{Event, Header, Interval, Kind, Line, SourceState, Sources, Torn};
pub use read::{Chain, Fault, ReadError, Scan, Take, TornLine, files, read};
pub use time::{Time, parse_time};
pub use write::{Found, Limits, Writer, is_written};

/// Version of the format.
pub const FORMAT: u32 = 1;
/// Longest line, bytes: a longer one is none of ours.
pub const LONGEST_LINE: usize = 256 << 10;

/// Name of the file with this number.
#[must_use]
pub fn file_name(number: u64) -> String {
    format!("record-{number:06}.jsonl")
}

/// Number in the name of a file, if it is one of a record.
#[must_use]
pub fn file_number(name: &str) -> Option<u64> {
    let number = name.strip_prefix("record-")?.strip_suffix(".jsonl")?.parse().ok()?;
    (file_name(number) == name).then_some(number)
}
