//! The lock that keeps a page's writer single: a file beside the page that its owner alone can
//! open, and so lock.
//!
//! The page itself is open to all for reading, and whoever can read a file can take a read lock
//! on it that would keep the writer's away.

use std::fs::{File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::error::PageError;
use super::map;

/// Number of tries to make or open it while somebody else makes and removes it.
const TRIES: u32 = 8;

/// Where the lock of the page at `page` is: beside it, the name ending in `.lock`.
pub(super) fn place(page: &Path) -> PathBuf {
    let mut name = page.as_os_str().to_owned();
    name.push(".lock");
    PathBuf::from(name)
}

/// Takes the lock of the page at `page`; it is held until [`map::unlock`], or until the process
/// dies. `None` if another process has it.
pub(super) fn take(page: &Path) -> Result<Option<File>, PageError> {
    let path = place(page);
    let file = open(&path)?;
    match map::lock(&file) {
        Ok(taken) => Ok(taken.then_some(file)),
        Err(error) => Err(PageError::refused("lock", path, error)),
    }
}

fn open(path: &Path) -> Result<File, PageError> {
    let refused = |action, error| PageError::refused(action, path.into(), error);
    for _ in 0..TRIES {
        match options().create_new(true).mode(0o600).open(path) {
            Ok(file) => {
                // A umask may have left its owner less.
                let private = file.set_permissions(Permissions::from_mode(0o600));
                return private.map(|()| file).map_err(|e| refused("make private", e));
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(refused("make", error)),
        }
        match options().open(path) {
            Ok(file) => return ours(file, path),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                return Err(
                    fault(path, error.raw_os_error()).unwrap_or_else(|| refused("open", error))
                );
            }
        }
    }
    Err(refused("open", io::ErrorKind::NotFound.into()))
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options
        .write(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC | libc::O_NONBLOCK | libc::O_NOCTTY);
    options
}

/// The file, if nobody but this user can open it.
fn ours(file: File, path: &Path) -> Result<File, PageError> {
    let meta = file.metadata().map_err(|e| PageError::refused("examine", path.into(), e))?;
    let why = if !meta.is_file() {
        "is not a regular file".to_owned()
    } else if meta.uid() != map::effective_user() {
        format!("belongs to user {}", meta.uid())
    } else if meta.nlink() != 1 {
        "has another name as well".to_owned()
    } else if meta.mode() & 0o077 != 0 {
        format!("can be opened by others (mode {:04o})", meta.mode() & 0o7777)
    } else {
        return Ok(file);
    };
    Err(PageError::ForeignLock { path: path.into(), why })
}

/// Fault of what is in the lock's place, if that is why it could not be opened.
fn fault(path: &Path, error: Option<i32>) -> Option<PageError> {
    let foreign = |why: String| Some(PageError::ForeignLock { path: path.into(), why });
    match error {
        Some(libc::ELOOP | libc::EISDIR | libc::ENXIO) => foreign("is not a regular file".into()),
        Some(libc::EACCES | libc::EPERM) => {
            let owner = std::fs::symlink_metadata(path).ok()?.uid();
            let stranger = owner != map::effective_user();
            if stranger { foreign(format!("belongs to user {owner}")) } else { None }
        }
        _ => None,
    }
}
