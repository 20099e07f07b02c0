//! One name in one directory, and what is done with it.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{self, AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;
use rustix::process::geteuid;

use crate::replacement::Replacement;
use crate::walk::{self, Folder, Last, refused};

/// Purpose for which a file is opened. It is never emptied by that: who opens it looks first, or
/// calls [`crate::create`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Writing; it is made if it is not there.
    Write,
    /// Reading and writing; it is made if it is not there.
    ReadWrite,
    /// Reading, and writing at its end; it must be there.
    ReadAppend,
    /// Reading and writing; it must not be there.
    New,
}

/// File that has a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Status {
    /// Plain file, directory, link …
    pub kind: FileType,
    /// Permissions.
    pub mode: u32,
    /// Of a plain file, bytes.
    pub length: u64,
    /// The user that it belongs to.
    pub owner: u32,
    pub(crate) has_more_names: bool,
    pub(crate) inode: (u64, u64),
}

/// A name in a directory that is held by its descriptor: whatever others rename meanwhile, it
/// stays that directory.
#[derive(Debug)]
pub struct Entry {
    pub(crate) folder: Folder,
    pub(crate) name: OsString,
    /// A link of /proc, which only the kernel can follow.
    kernels: bool,
    /// The directory's path, if nobody else can change what that leads to.
    known: Option<PathBuf>,
}

impl Entry {
    pub(crate) fn new(
        folder: Folder,
        name: OsString,
        kernels: bool,
        known: Option<PathBuf>,
    ) -> Entry {
        Entry { folder, name, kernels, known }
    }

    /// Finds what `path` names, after all links that may be followed. It need not be there; its
    /// directory must.
    ///
    /// # Errors
    /// If a link in a directory that others can change is on the way or at the end; if a directory
    /// is missing, or the path ends in one (`..`); if the system refuses.
    pub fn at(path: &Path) -> io::Result<Entry> {
        walk::walk(path, Last::Followed, false)
    }

    /// Finds `path` itself, be it a link: to remove it, or to give it another name.
    ///
    /// # Errors
    /// As [`Entry::at`].
    pub fn itself(path: &Path) -> io::Result<Entry> {
        walk::walk(path, Last::Itself, false)
    }

    /// True if somebody who is neither root nor this user can put names into the directory: it is
    /// another user's, open to all (as `/tmp`), or open to a group that is not this user's.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.folder.shared
    }

    /// The directory's path, if all of the way is root's or this user's alone.
    pub(crate) fn known(&self) -> Option<&Path> {
        self.known.as_deref()
    }

    /// Looks at what is there, if anything; a link itself.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn status(&self) -> io::Result<Option<Status>> {
        match fs::statat(self.folder.fd(), &self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(Status {
                kind: FileType::from_raw_mode(stat.st_mode),
                mode: stat.st_mode & 0o7777,
                length: u64::try_from(stat.st_size).unwrap_or(0),
                owner: stat.st_uid,
                has_more_names: stat.st_nlink > 1,
                inode: (stat.st_dev, stat.st_ino),
            })),
            Err(Errno::NOENT) => Ok(None),
            Err(why) => Err(why.into()),
        }
    }

    /// Opens the file. A new one gets this mode, less the umask.
    ///
    /// # Errors
    /// If what is there could be somebody else's trap, or the system refuses.
    pub fn open(&self, access: Access, mode: u32) -> io::Result<File> {
        let (mut flags, follow) = (access.flags() | OFlags::CLOEXEC | OFlags::NOCTTY, self.kernels);
        if !follow {
            flags |= OFlags::NOFOLLOW;
        }
        if self.is_shared() && !follow {
            match self.status()? {
                Some(there) => {
                    self.check(there.kind, there.owner, there.has_more_names)?;
                    // One's own pipe is waited at until somebody reads it.
                    if there.kind == FileType::RegularFile {
                        flags |= OFlags::NONBLOCK;
                    }
                }
                // A pipe that somebody puts there now holds nobody up.
                None => flags |= OFlags::NONBLOCK,
            }
        }
        let opened = fs::openat(self.folder.fd(), &self.name, flags, Mode::from_raw_mode(mode));
        let file = File::from(opened.map_err(|why| match why {
            Errno::LOOP => refused(&self.name),
            why => why.into(),
        })?);
        if self.is_shared() && !follow {
            let meta = file.metadata()?;
            self.check(FileType::from_raw_mode(meta.mode()), meta.uid(), meta.nlink() > 1)?;
        }
        Ok(file)
    }

    /// Checks that what is there in a directory that others can change may be written to.
    fn check(&self, kind: FileType, owner: u32, has_more_names: bool) -> io::Result<()> {
        let why = if kind == FileType::Symlink {
            return Err(refused(&self.name));
        } else if owner != geteuid().as_raw() && owner != 0 {
            format!("belongs to user {owner}, who could read what is written to it")
        } else if kind == FileType::RegularFile && has_more_names {
            "has another name (a hard link), which other users may have given it".to_owned()
        } else {
            return Ok(());
        };
        let text = format!(
            "{why}, in a directory that other users can change: remove it, or name another file"
        );
        Err(io::Error::new(io::ErrorKind::PermissionDenied, text))
    }

    /// Begins a file that takes this one's place when it is complete. It has exactly this mode.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn replace(self, mode: u32) -> io::Result<Replacement> {
        Replacement::begin(self, mode)
    }

    /// Makes sure that [`Entry::replace`] can work, and leaves nothing behind.
    ///
    /// # Errors
    /// If it cannot.
    pub fn try_replace(self) -> io::Result<()> {
        if self.status()?.is_some_and(|there| there.kind == FileType::Directory) {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        Replacement::begin(self, 0o600).map(drop)
    }

    /// Gives it another name in the same directory; what has that name is replaced.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn rename(&self, to: &OsStr) -> io::Result<()> {
        Ok(fs::renameat(self.folder.fd(), &self.name, self.folder.fd(), to)?)
    }

    /// The name in the directory.
    #[must_use]
    pub fn name(&self) -> &OsStr {
        &self.name
    }

    /// Removes the name. A directory is not removed.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn remove(&self) -> io::Result<()> {
        Ok(fs::unlinkat(self.folder.fd(), &self.name, AtFlags::empty())?)
    }

    /// Makes a directory of this name with this mode, less the umask, unless it is there. A new one
    /// is returned, open, so that its mode can be made exact by its descriptor.
    ///
    /// # Errors
    /// If something else has the name, or the system refuses.
    pub fn make_folder(&self, mode: u32) -> io::Result<Option<File>> {
        let is_new = self.folder.make(&self.name, mode)?;
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        // One that is there need not be readable.
        let flags = if is_new { flags } else { flags | OFlags::PATH };
        let folder = fs::openat(self.folder.fd(), &self.name, flags, Mode::empty())?;
        Ok(is_new.then(|| File::from(folder)))
    }

    pub(crate) fn link_to(&self, target: &Path) -> io::Result<()> {
        Ok(fs::symlinkat(target, self.folder.fd(), &self.name)?)
    }
}

impl Access {
    fn flags(self) -> OFlags {
        match self {
            Access::Write => OFlags::WRONLY | OFlags::CREATE,
            Access::ReadWrite => OFlags::RDWR | OFlags::CREATE,
            Access::ReadAppend => OFlags::RDWR | OFlags::APPEND,
            Access::New => OFlags::RDWR | OFlags::CREATE | OFlags::EXCL,
        }
    }
}
