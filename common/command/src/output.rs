//! Files that commands write.

use std::path::Path;

use truechimer_files::{Access, Entry};

use crate::Failure;

/// Makes sure that a file can be written, before anybody waits for what goes into it.
///
/// # Errors
/// If it cannot: which, and why.
pub fn ready(path: &Path) -> Result<(), Failure> {
    let opened = Entry::at(path).and_then(|entry| entry.open(Access::Write, 0o666));
    opened.map(drop).map_err(|why| Failure::new(path.display(), why))
}

/// Writes a file.
///
/// # Errors
/// If that cannot be done: which, and why.
pub fn save(path: &Path, text: &str) -> Result<(), Failure> {
    truechimer_files::write(path, text).map_err(|why| Failure::new(path.display(), why))
}

/// A field of comma-separated values, in quotes where that takes some (RFC 4180).
#[must_use]
pub fn csv_field(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}
