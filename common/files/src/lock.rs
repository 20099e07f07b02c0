//! Locks that no other user can hold.
//!
//! Whoever can open a file can lock it, if only to keep others away. So what is locked is not the
//! file itself but one beside it that its owner alone can open.

use std::ffi::OsString;
use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;

use rustix::process::geteuid;

use crate::{Access, Entry, Kind};

/// Number of tries to get it: whoever had it may have removed its file just then.
const TRIES: u32 = 8;

/// A lock, held as long as this lives; its file is removed with it.
#[derive(Debug)]
pub struct Lock {
    entry: Entry,
    file: File,
}

impl Entry {
    /// Locks what has this name, for this process: by a file beside it, of mode 0600, whose name is
    /// this one with `.lock` after it. None if another process of this user has locked it. A file
    /// that is left by a process that was killed is locked by nobody. Where the file system knows
    /// no locks everybody has it.
    ///
    /// # Errors
    /// If something else has the lock's name, or a file that other users could lock; if the
    /// system refuses.
    pub fn lock(&self) -> io::Result<Option<Lock>> {
        let mut name = OsString::from(&self.name);
        name.push(".lock");
        for _ in 0..TRIES {
            let entry = Entry::new(self.folder.try_clone()?, name.clone(), false, None);
            let file = entry.open(Access::Write, 0o600).map_err(|why| named(&entry, &why))?;
            is_private(&file).map_err(|why| named(&entry, &why))?;
            if let Err(TryLockError::WouldBlock) = file.try_lock() {
                return Ok(None);
            }
            let lock = Lock { entry, file };
            if lock.has_its_name()? {
                return Ok(Some(lock));
            }
        }
        Err(io::Error::other("its lock is taken and left again and again"))
    }
}

impl Lock {
    /// True if the file that is locked still has the lock's name.
    fn has_its_name(&self) -> io::Result<bool> {
        let ours = self.file.metadata()?;
        let there = self.entry.status()?;
        Ok(there.is_some_and(|there| there.inode == (ours.dev(), ours.ino())))
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Nobody else removes it while it is locked. One that stays does no harm.
        if self.has_its_name().unwrap_or(false) {
            let _ = self.entry.remove();
        }
    }
}

/// Makes sure that nobody else can open the file.
fn is_private(file: &File) -> io::Result<()> {
    let meta = file.metadata()?;
    let why = if Kind::from_raw_mode(meta.mode()) != Kind::RegularFile {
        "is not a plain file".to_owned()
    } else if meta.uid() != geteuid().as_raw() {
        format!("belongs to user {}", meta.uid())
    } else if meta.nlink() > 1 {
        "has another name (a hard link)".to_owned()
    } else if meta.mode() & 0o077 != 0 {
        format!("can be opened by others (mode {:04o})", meta.mode() & 0o7777)
    } else {
        return Ok(());
    };
    let text = format!("{why}, so that others could keep it locked: remove it");
    Err(io::Error::new(io::ErrorKind::PermissionDenied, text))
}

/// The error, with the lock's name.
fn named(entry: &Entry, why: &io::Error) -> io::Error {
    let name = entry.name.to_string_lossy();
    io::Error::new(why.kind(), format!("its lock '{}': {why}", name.escape_debug()))
}
