//! Files that commands write.

use std::io::{self, ErrorKind};
use std::path::Path;

use truechimer_files::{Access, Entry};
use truechimer_report::Page;

use crate::{Failure, program};

/// Makes sure that a file can be written, before anybody waits for what goes into it.
///
/// # Errors
/// If it cannot: which, and why.
pub fn ready(path: &Path) -> Result<(), Failure> {
    let opened = Entry::at(path).and_then(|entry| entry.open(Access::Write, 0o666));
    opened.map(drop).map_err(|why| refused(path, &why))
}

/// Writes a file.
///
/// # Errors
/// If that cannot be done: which, and why.
pub fn save(path: &Path, text: &str) -> Result<(), Failure> {
    truechimer_files::write(path, text).map_err(|why| refused(path, &why))
}

/// Writes a report, and says so on standard error.
///
/// # Errors
/// If it cannot be written, as with [`save`].
pub fn save_report(path: &Path, page: &Page) -> Result<(), Failure> {
    save(path, &page.render())?;
    program::tell(&format!("report written to {}", path.display()));
    Ok(())
}

fn refused(path: &Path, why: &io::Error) -> Failure {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let mend = folder
        .filter(|_| why.kind() == ErrorKind::NotFound)
        .map(|folder| format!("; is there a directory {}? Make it first", folder.display()));
    Failure::new(path.display(), format!("{why}{}", mend.unwrap_or_default()))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_asked_for_where_one_is_named() {
        let told = |path: &str| match refused(Path::new(path), &ErrorKind::NotFound.into()) {
            Failure::Said(text) => text,
            Failure::Unread => panic!("it was told"),
        };
        assert!(told("no/a.html").ends_with("; is there a directory no? Make it first"));
        assert_eq!(told("a.html"), "a.html: entity not found");
    }
}
