//! A file that takes another's place when it is complete.

use std::ffi::OsString;
use std::fs::{File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;

use rustix::fs::{self, AtFlags, Mode, OFlags};
use rustix::io::Errno;

use crate::{Entry, random_name};

/// Choice whether a file is forced to the disk before it takes its place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Durable {
    /// Forced to the disk, and so is its name; that can take seconds.
    Yes,
    /// The system writes it when it likes: after a crash of the machine it may be damaged.
    No,
}

/// A file beside another one, under a name of its own. [`Replacement::commit`] puts it in the
/// other's place; dropped before that, it is removed, and the other one stays.
#[derive(Debug)]
pub struct Replacement {
    entry: Entry,
    name: OsString,
    file: File,
    done: bool,
}

impl Replacement {
    pub(crate) fn begin(entry: Entry, mode: u32) -> io::Result<Replacement> {
        let flags = OFlags::WRONLY
            | OFlags::CREATE
            | OFlags::EXCL
            | OFlags::NOFOLLOW
            | OFlags::NOCTTY
            | OFlags::CLOEXEC;
        let (name, fd) = loop {
            let name = random_name(&entry.name)?;
            match fs::openat(entry.folder.fd(), &name, flags, Mode::from_raw_mode(0o600)) {
                // By chance: 64 bits.
                Err(Errno::EXIST) => {}
                opened => break (name, opened?),
            }
        };
        let new = Replacement { entry, name, file: File::from(fd), done: false };
        new.file.set_permissions(Permissions::from_mode(mode))?;
        Ok(new)
    }

    /// Puts it in its place: whoever opens the path finds the old file or the whole new one.
    ///
    /// # Errors
    /// If the system refuses; the old file is still there then.
    pub fn commit(mut self, durable: Durable) -> io::Result<()> {
        if durable == Durable::Yes {
            self.file.sync_all()?;
        }
        self.entry.folder_renames(&self.name)?;
        self.done = true;
        if durable == Durable::Yes {
            let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
            let folder = fs::openat(self.entry.folder.fd(), ".", flags, Mode::empty())?;
            File::from(folder).sync_all()?;
        }
        Ok(())
    }
}

impl Entry {
    fn folder_renames(&self, from: &OsString) -> io::Result<()> {
        Ok(fs::renameat(self.folder.fd(), from, self.folder.fd(), &self.name)?)
    }
}

impl Write for Replacement {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for Replacement {
    fn drop(&mut self) {
        if !self.done {
            // Nobody wants half of it.
            let _ = fs::unlinkat(self.entry.folder.fd(), &self.name, AtFlags::empty());
        }
    }
}
