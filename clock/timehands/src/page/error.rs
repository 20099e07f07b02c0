//! Faults of a page, and what to do about them.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use super::layout::{SIZE, VERSION};
use super::places::SYSTEM;

/// Reasons why a page cannot be used.
#[derive(Debug)]
#[non_exhaustive]
pub enum PageError {
    /// There is no file.
    Missing {
        /// Where.
        path: PathBuf,
    },
    /// The system refused something.
    System {
        /// Action tried, as in "cannot …".
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// Error of the operating system.
        error: io::Error,
    },
    /// This user may not put a page there.
    NotPermitted {
        /// Action tried, as in "cannot …".
        action: &'static str,
        /// Where.
        path: PathBuf,
        /// Error of the operating system.
        error: io::Error,
    },
    /// A directory, a device, a symbolic link: not a file of its own.
    NotAFile {
        /// Where.
        path: PathBuf,
    },
    /// Something else has the name of the page that this daemon writes.
    Replaced {
        /// Where.
        path: PathBuf,
    },
    /// Another daemon writes this page.
    Locked {
        /// Where.
        path: PathBuf,
        /// The process identifier which that daemon left in the page, as seen in its own
        /// process namespace.
        pid: Option<u32>,
    },
    /// Something in the place of the writer's lock that is not a file that this user alone can
    /// open.
    ForeignLock {
        /// Where the lock has to be.
        path: PathBuf,
        /// Fault of it, as in "it …".
        why: String,
    },
    /// Owner that a reader or writer must not trust.
    Owner {
        /// Where.
        path: PathBuf,
        /// The user it belongs to.
        owner: u32,
    },
    /// Others than its owner may write it.
    Writable {
        /// Where.
        path: PathBuf,
        /// The permission bits.
        mode: u32,
    },
    /// The file is shorter than a page, or nobody has finished making it.
    Unfinished {
        /// Where.
        path: PathBuf,
        /// Length of the file, bytes.
        length: u64,
    },
    /// The file is none of Truechimer's.
    Foreign {
        /// Where.
        path: PathBuf,
    },
    /// The page has another version of the layout.
    Version {
        /// Where.
        path: PathBuf,
        /// The version it has.
        found: u32,
    },
    /// The page has the right version but not the sizes of that version.
    Damaged {
        /// Where.
        path: PathBuf,
    },
}

impl PageError {
    /// The system refused to let a page be written.
    pub(super) fn refused(action: &'static str, path: PathBuf, error: io::Error) -> PageError {
        match error.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                PageError::NotPermitted { action, path, error }
            }
            _ => PageError::System { action, path, error },
        }
    }
}

impl fmt::Display for PageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PageError::Missing { path } => {
                write!(f, "there is no clock page at {}: is the daemon running?", path.display())
            }
            PageError::System { action, path, error } => {
                write!(f, "cannot {action} {}: {error}", path.display())?;
                match (error.kind(), path.parent()) {
                    (io::ErrorKind::NotFound, Some(folder)) if !folder.is_dir() => {
                        write!(f, "; is there a directory {}? Make it first", folder.display())
                    }
                    (io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded, _) => {
                        f.write_str("; make room there, or name another page with --page")
                    }
                    _ => Ok(()),
                }
            }
            PageError::NotPermitted { action, path, error } => {
                write!(
                    f,
                    "cannot {action} {}: {error}; name another page with --page",
                    path.display()
                )?;
                if path.parent() == Path::new(SYSTEM).parent() {
                    f.write_str(", or set XDG_RUNTIME_DIR to a directory of your own")?;
                }
                Ok(())
            }
            PageError::NotAFile { path } => {
                write!(f, "{} is not a regular file; name another page", path.display())
            }
            PageError::Replaced { path } => write!(
                f,
                "something else is in the place of the clock page {}, and programs that open it now \
                 get none of ours: remove it, and the page is made anew",
                path.display()
            ),
            PageError::Locked { path, pid } => {
                write!(f, "another daemon writes the clock page {}", path.display())?;
                if let Some(pid) = pid {
                    write!(f, " (process {pid})")?;
                }
                f.write_str("; stop it, or name another page")
            }
            PageError::ForeignLock { path, why } => write!(
                f,
                "{}, the lock of the clock page, {why}, so others could keep the daemon from \
                 starting; remove it, or name another page",
                path.display()
            ),
            PageError::Owner { path, owner } => write!(
                f,
                "{} belongs to user {owner}, who is not to be trusted with the time here; \
                 name another page, or remove it",
                path.display()
            ),
            PageError::Writable { path, mode } => write!(
                f,
                "{} can be written by others than its owner (mode {mode:04o}); \
                 chmod go-w it if its content can be trusted, or remove it",
                path.display()
            ),
            PageError::Unfinished { path, length } => write!(
                f,
                "{} is not a whole clock page (yet): {length} bytes of {SIZE}, or without its \
                 header; is the daemon starting?",
                path.display()
            ),
            PageError::Foreign { path } => write!(
                f,
                "{} is not a clock page; name another page, or remove it if nothing needs it",
                path.display()
            ),
            PageError::Version { path, found } => write!(
                f,
                "{} has layout version {found}, this program knows version {VERSION}: \
                 use programs and daemon of the same release, or remove it once no daemon runs",
                path.display()
            ),
            PageError::Damaged { path } => write!(
                f,
                "the header of {} contradicts itself; remove it once no daemon runs",
                path.display()
            ),
        }
    }
}

impl std::error::Error for PageError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            PageError::System { error, .. } | PageError::NotPermitted { error, .. } => Some(error),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_may_not_write_there_hears_where_else() {
        for number in [libc::EACCES, libc::EPERM, libc::EROFS] {
            let told = |path: &str| {
                let error = io::Error::from_raw_os_error(number);
                PageError::refused("make the directory of", path.into(), error).to_string()
            };
            let system = told(SYSTEM);
            assert!(system.starts_with("cannot make the directory of /run/truechimer/clock: "));
            assert!(system.contains("--page") && system.contains("XDG_RUNTIME_DIR"), "{system}");
            let other = told("/elsewhere/clock");
            assert!(other.contains("--page") && !other.contains("XDG_RUNTIME_DIR"), "{other}");
        }
        for (path, asks) in [("/proc/clock", false), ("/nonexistent/clock", true)] {
            let missing = io::Error::from_raw_os_error(libc::ENOENT);
            let told = PageError::refused("make", path.into(), missing).to_string();
            assert_eq!(told.contains("Make it first"), asks, "{told}");
        }
        for number in [libc::ENOSPC, libc::EDQUOT] {
            let full = io::Error::from_raw_os_error(number);
            let full = PageError::refused("find space for", SYSTEM.into(), full);
            assert!(matches!(full, PageError::System { .. }));
            let told = full.to_string();
            assert!(told.contains("make room") && told.contains("--page"), "{told}");
        }
    }
}
