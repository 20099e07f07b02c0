//! Faults of a stamp file, said so that they can be mended.

use core::fmt;
use std::io;

use truechimer_time::{Count, Instant};

use super::{COLUMNS, LATEST, unix_seconds};

/// Number of characters that are shown of what was found.
const SHOWN: usize = 40;

/// Reason why a stamp file cannot be read.
#[derive(Debug)]
pub enum StampError {
    /// The system will not let us.
    Unreadable(io::Error),
    /// A line is not as it should be.
    Fault(Fault),
    /// There is no row in it.
    Empty {
        /// Number of lines in it.
        lines: u64,
    },
}

/// Fault of a line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    /// Number of the line, from 1.
    pub line: u64,
    /// In which column, as an index into [`COLUMNS`]; `None` if it is the line as a whole.
    pub column: Option<usize>,
    /// Contents that should be there.
    pub expected: String,
    /// Contents that are there.
    pub found: String,
    /// Advice on what to do about it.
    pub mend: &'static str,
}

impl From<Fault> for StampError {
    fn from(fault: Fault) -> StampError {
        StampError::Fault(fault)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Fault { line, column, expected, found, mend } = self;
        write!(f, "line {line}")?;
        if let Some((column, name)) = column.and_then(|c| Some((c + 1, COLUMNS.get(c)?))) {
            write!(f, ", column {column} ({name})")?;
        }
        write!(f, ": expected {expected}, found {found}: {mend}")
    }
}

impl fmt::Display for StampError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StampError::Unreadable(why) => write!(f, "cannot be read: {why}"),
            StampError::Fault(fault) => fault.fmt(f),
            StampError::Empty { lines: 0 } => {
                f.write_str("it is empty: expected rows of Ta Tb Te Tf [RefIn RefOut]")
            }
            StampError::Empty { lines } => write!(
                f,
                "no row in {lines} lines, only comments and blanks: expected rows of \
                 Ta Tb Te Tf [RefIn RefOut]"
            ),
        }
    }
}

impl std::error::Error for StampError {}

/// Fault of a field, wherever it stands.
pub(super) struct Wrong {
    expected: &'static str,
    found: String,
    mend: &'static str,
}

impl Wrong {
    pub(super) fn at(self, line: u64, column: usize) -> Fault {
        let Wrong { expected, found, mend } = self;
        Fault { line, column: Some(column), expected: expected.into(), found, mend }
    }
}

/// A field as it is shown: printable, and no longer than needed.
pub(super) fn shown(field: &[u8]) -> String {
    let text = String::from_utf8_lossy(field);
    let mut quoted: String = text.chars().take(SHOWN).flat_map(char::escape_debug).collect();
    if text.chars().nth(SHOWN).is_some() {
        quoted.push('…');
    }
    format!("'{quoted}'")
}

fn all(field: &[u8], allowed: impl Fn(u8) -> bool) -> bool {
    !field.is_empty() && field.iter().all(|&byte| allowed(byte))
}

/// True if it is a number with an exponent.
fn scientific(field: &[u8]) -> bool {
    let Some(e) = field.iter().position(|byte| matches!(byte, b'e' | b'E')) else { return false };
    let (before, after) = (field.get(..e).unwrap_or(b""), field.get(e + 1..).unwrap_or(b""));
    all(before, |b| b.is_ascii_digit() || matches!(b, b'.' | b'+' | b'-'))
        && all(after, |b| b.is_ascii_digit() || matches!(b, b'+' | b'-'))
}

/// Advice on a field that is no number of any kind.
fn mend(field: &[u8]) -> &'static str {
    if field.contains(&b',') || field.contains(&b';') {
        "columns are separated by blanks or tabs, and decimals by a point"
    } else if scientific(field) {
        "scientific notation loses digits; write all of them out"
    } else if matches!(field, [b'+', rest @ ..] if unix_seconds(rest).is_some()) {
        "write it without the sign"
    } else if missing(field) {
        "nothing was measured there: leave the row out"
    } else {
        "a comment begins with # or %"
    }
}

/// True if it is what programs write for no number at all.
fn missing(field: &[u8]) -> bool {
    let bare = field.strip_prefix(b"-").or(field.strip_prefix(b"+")).unwrap_or(field);
    ["nan", "inf", "infinity", "null", "none", "na", "n/a"]
        .iter()
        .any(|word| bare.eq_ignore_ascii_case(word.as_bytes()))
        || field == b"-"
}

pub(super) fn count(field: &[u8]) -> Result<Count, Wrong> {
    const EXPECTED: &str = "a count (a whole number)";
    let wrong = |mend| Wrong { expected: EXPECTED, found: shown(field), mend };
    if all(field, |b| b.is_ascii_digit()) {
        let sum = field
            .iter()
            .try_fold(0u64, |sum, digit| sum.checked_mul(10)?.checked_add(u64::from(digit - b'0')));
        return sum.map(Count).ok_or_else(|| wrong("counts have 64 bits"));
    }
    Err(wrong(match field {
        [b'-', rest @ ..] if all(rest, |b| b.is_ascii_digit()) => {
            "counts are unsigned; add the same number to all of them"
        }
        [b'0', b'x' | b'X', ..] => "write it in decimal",
        _ if unix_seconds(field).is_some() => {
            "Ta and Tf are raw counts, Tb and Te seconds; are the columns in the order Ta Tb Te Tf?"
        }
        _ => mend(field),
    }))
}

pub(super) fn time(field: &[u8]) -> Result<Instant, Wrong> {
    const EXPECTED: &str = "Unix seconds between 1970 and 2200";
    let wrong = |mend| Wrong { expected: EXPECTED, found: shown(field), mend };
    match unix_seconds(field) {
        Some(at) if at.secs() < LATEST as i64 => Ok(at),
        // Huge numbers are no seconds either.
        _ if all(field, |b| b.is_ascii_digit() || b == b'.')
            && field.iter().filter(|&&b| b == b'.').count() <= 1
            && field != b"." =>
        {
            Err(wrong("are these milliseconds or nanoseconds, or counts? Write seconds since 1970"))
        }
        _ => Err(wrong(match field {
            [b'-', rest @ ..] if unix_seconds(rest).is_some() => "it is before 1970",
            _ => mend(field),
        })),
    }
}

pub(super) fn wrong_width(line: u64, columns: usize, fields: &[&[u8]; 6]) -> Fault {
    let commas = fields.iter().any(|field| field.contains(&b',') || field.contains(&b';'));
    Fault {
        line,
        column: None,
        expected: "4 columns (Ta Tb Te Tf) or 6 (RefIn RefOut as well)".into(),
        found: columns.to_string(),
        mend: match columns {
            _ if commas => "separate the columns by blanks or tabs",
            5 => "both reference columns or none; a comment begins with # or %",
            ..=3 => "was the line cut off? A comment begins with # or %",
            _ => "leave the other columns out, or put # before them",
        },
    }
}

pub(super) fn changed_width(line: u64, columns: usize, width: usize, first: u64) -> Fault {
    Fault {
        line,
        column: None,
        expected: format!("{width} columns as in line {first}"),
        found: columns.to_string(),
        mend: "every row has RefIn and RefOut or none has: cut them, or leave out the rows without",
    }
}
