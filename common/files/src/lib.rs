//! Files, directories and sockets that are made, replaced or removed by path, in places where
//! somebody else may have laid a trap.
//!
//! A program that runs as root and writes `/home/ann/report.html` opens whatever Ann has put there:
//! a link to `/etc/shadow`, say. So nothing here hands a whole path to the kernel. [`Entry::at`]
//! walks it, one name at a time and each directory by its descriptor, and everything else is done
//! relative to the last directory's descriptor, on names that are not followed.
//!
//! One rule decides: *a symbolic link is followed where only root and this user could have put it,
//! and refused in a directory that others can change* ([`Entry::is_shared`]). In such a directory,
//! a file that is there already must moreover be this user's (or root's) and have no second name,
//! before anything is written to it; a pipe or device must be this user's or root's.
//!
//! The walk is of this crate's making rather than openat2(2)'s: that can refuse all links or none,
//! and `/var/run` is a link on every machine. It needs no more than Linux 3.12, and works where a
//! filter of system calls knows no openat2.
//!
//! ```
//! # fn main() -> std::io::Result<()> {
//! use std::io::Write;
//! let folder = std::env::temp_dir().join(format!("truechimer-files-{}", std::process::id()));
//! truechimer_files::make_folder(&folder, 0o700)?;
//! // Readers find the old file or the new one, never half of it.
//! let mut new = truechimer_files::Entry::at(&folder.join("rate.json"))?.replace(0o600)?;
//! new.write_all(b"{}\n")?;
//! new.commit(truechimer_files::Durable::No)?;
//! # std::fs::remove_dir_all(folder)
//! # }
//! ```
#![forbid(unsafe_code)]

mod entry;
mod lock;
mod replacement;
mod socket;
mod walk;

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

pub use entry::{Access, Entry, Status};
pub use lock::Lock;
pub use replacement::{Durable, Replacement};
/// Kind of file that something is.
pub use rustix::fs::FileType as Kind;
pub use socket::{Bound, listen, receive};

/// Opens the file at `path` for writing and empties it if it is a plain one; makes it, with this
/// mode (less the umask), if it is not there. Like [`File::create`], by the rule of this crate.
///
/// # Errors
/// If a name on the way or the file itself could be somebody else's trap, or the system refuses.
pub fn create(path: &Path, mode: u32) -> io::Result<File> {
    let file = Entry::at(path)?.open(Access::Write, mode)?;
    if file.metadata()?.is_file() {
        file.set_len(0)?;
    }
    Ok(file)
}

/// Writes all of a file, as [`create`] opens it, readable by all whom the umask lets.
///
/// # Errors
/// As [`create`].
pub fn write(path: &Path, content: impl AsRef<[u8]>) -> io::Result<()> {
    create(path, 0o666)?.write_all(content.as_ref())
}

/// Removes the name `path`; a link itself, never what it leads to.
///
/// # Errors
/// If a directory on the way could be somebody else's trap, or the system refuses.
pub fn remove(path: &Path) -> io::Result<()> {
    Entry::itself(path)?.remove()
}

/// Makes a directory with this mode, and those above it that are missing with 0755, all less the
/// umask. A new one is returned, open, so that its mode can be made exact by its descriptor; one
/// that is there stays as it is.
///
/// # Errors
/// If a name on the way could be somebody else's trap, if something else has the name, or the
/// system refuses.
pub fn make_folder(path: &Path, mode: u32) -> io::Result<Option<File>> {
    walk::make(path, mode)
}

/// Makes the symbolic link `path`, which leads to `target`. A link that is there is replaced, and
/// nothing else is.
///
/// # Errors
/// If a directory on the way could be somebody else's trap, something else has that name, or the
/// system refuses.
pub fn link(path: &Path, target: &Path) -> io::Result<()> {
    let entry = Entry::itself(path)?;
    if entry.status()?.is_some_and(|old| old.kind == Kind::Symlink) {
        entry.remove()?;
    }
    entry.link_to(target)
}

/// An unpredictable name for a file beside others.
fn random_name(of: &OsStr) -> io::Result<std::ffi::OsString> {
    let mut bytes = [0; 8];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    // What is left of a longer name, with all of the end, fits into the 255 bytes of a name.
    let shown: String = of.to_string_lossy().chars().take(40).collect();
    Ok(format!(".{shown}.{:016x}.new", u64::from_ne_bytes(bytes)).into())
}

/// Examples of the page that registries show.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
