//! Files that commands write.

use std::io::{self, ErrorKind, Write};
use std::path::Path;

use truechimer_files::{Access, Durable, Entry};
use truechimer_report::Page;

use crate::{Failure, program};

/// Makes sure that a file can be written, before anybody waits for what goes into it. One that is not there yet is not
/// made: what ends early leaves no empty file.
///
/// # Errors
/// If it cannot: which, and why.
pub fn ready(path: &Path) -> Result<(), Failure> {
    let tried = Entry::at(path).and_then(|entry| match entry.status()? {
        Some(_) => entry.open(Access::Write, 0o666).map(drop),
        None => entry.try_replace(),
    });
    tried.map_err(|why| refused(path, &why))
}

/// Writes a file. A new one has its name once all is in it; one that is there keeps its mode and its owner.
///
/// # Errors
/// If that cannot be done: which, and why.
pub fn save(path: &Path, text: &str) -> Result<(), Failure> {
    let written = Entry::at(path).and_then(|entry| match entry.status()? {
        Some(_) => truechimer_files::write(path, text),
        None => {
            let mut new = entry.replace(0o666 & !umask())?;
            new.write_all(text.as_bytes())?;
            new.commit(Durable::No)
        }
    });
    written.map_err(|why| refused(path, &why))
}

/// Bits that new files of this process do not get, as the kernel shows them: to ask by umask() would change them for a
/// moment, for all threads. Those of most systems where it does not.
fn umask() -> u32 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    mask.and_then(|mask| u32::from_str_radix(mask.trim(), 8).ok()).unwrap_or(0o022)
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
    fn a_new_file_is_there_once_it_is_whole() {
        let folder = std::env::temp_dir().join(format!("truechimer-output-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let path = folder.join("report.html");
        ready(&path).unwrap();
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0, "nothing is left behind");
        save(&path, "first").unwrap();
        let plain = folder.join("plain");
        std::fs::write(&plain, "").unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions();
        assert_eq!(mode(&path), mode(&plain), "it has the mode of any new file");
        ready(&path).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "first", "what is there stays so long");
        save(&path, "2").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "2");
        std::fs::remove_dir_all(&folder).unwrap();
        let told = format!("{:?}", ready(&path).unwrap_err());
        assert!(told.contains("Make it first"), "{told}");
    }

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
