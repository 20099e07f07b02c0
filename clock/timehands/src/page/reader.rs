//! The reader's end of a page.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use truechimer_time::{Count, Rate};

use super::error::PageError;
use super::layout::{Kind, MAGIC, SIZE};
use super::map::{self, Lock, Mapping};
use super::{Kept, Newest};
use crate::{Corrupt, Hand, HandRing, Made, Reference};

/// A page to read from.
///
/// Once open it stays readable whatever becomes of the daemon; a restarted one goes on in the same
/// file. (Should its owner or root shorten the file by hand, a read dies of `SIGBUS` until the daemon
/// has made it whole, within a second. No daemon ever shortens it.)
pub struct PageReader {
    mapping: Mapping,
    file: File,
    path: PathBuf,
}

impl PageReader {
    /// Opens the page at `path`.
    ///
    /// # Errors
    /// If there is none, it cannot be read, is not one of ours and of this version, or belongs to
    /// someone who must not be trusted with the time: the owner must be root, the reader or the
    /// owner of the directory that holds it, and nobody else may have write access.
    pub fn open(path: impl AsRef<Path>) -> Result<PageReader, PageError> {
        let path = path.as_ref().to_path_buf();
        let system = |action, error| PageError::System { action, path: path.clone(), error };
        // Without O_NONBLOCK a FIFO in its place would hold us up.
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_CLOEXEC | libc::O_NONBLOCK | libc::O_NOCTTY)
            .open(&path)
            .map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => PageError::Missing { path: path.clone() },
                // A socket, or the file of a device that is not there.
                _ if error.raw_os_error() == Some(libc::ENXIO) => {
                    PageError::NotAFile { path: path.clone() }
                }
                _ => system("open", error),
            })?;
        let meta = file.metadata().map_err(|e| system("examine", e))?;
        if !meta.is_file() {
            return Err(PageError::NotAFile { path });
        }
        let owner = meta.uid();
        let trusted = owner == 0
            || owner == map::effective_user()
            || directory(&path).metadata().is_ok_and(|d| d.uid() == owner);
        if !trusted {
            return Err(PageError::Owner { path, owner });
        }
        let mode = meta.mode() & 0o7777;
        if mode & 0o022 != 0 {
            return Err(PageError::Writable { path, mode });
        }
        if meta.len() < SIZE as u64 {
            // A page that is being made is short only while nothing is in it.
            let mut begins = [0; 8];
            let read = file.read_at(&mut begins, 0).map_err(|e| system("read", e))?;
            let ours = u64::from_ne_bytes(begins) == MAGIC && read == begins.len();
            if !ours && begins != [0; 8] {
                return Err(PageError::Foreign { path });
            }
            return Err(PageError::Unfinished { path, length: meta.len() });
        }
        let mapping = Mapping::of(&file, false).map_err(|e| system("map", e))?;
        match mapping.kind() {
            Kind::Right => Ok(PageReader { mapping, file, path }),
            Kind::Unfinished => Err(PageError::Unfinished { path, length: meta.len() }),
            Kind::Foreign => Err(PageError::Foreign { path }),
            Kind::Version(found) => Err(PageError::Version { path, found }),
            Kind::Damaged => Err(PageError::Damaged { path }),
        }
    }

    /// The newest hand and how it was made; `None` while there is none.
    #[must_use]
    pub fn read(&self) -> Option<(Hand, Made)> {
        self.newest().ok().flatten().map(|(_, hand, made)| (hand, made))
    }

    /// The newest hand with its generation, and how it was made; `None` while there is none.
    ///
    /// # Errors
    /// If what the page holds cannot be a hand.
    pub fn newest(&self) -> Result<Option<(u64, Hand, Made)>, Corrupt> {
        let found = self.newest_in_full()?;
        Ok(found.map(|newest| (newest.generation, newest.hand, newest.made)))
    }

    /// The newest hand with all that goes with it; `None` while there is none.
    ///
    /// # Errors
    /// Likewise, see [`PageReader::newest`].
    pub fn newest_in_full(&self) -> Result<Option<Newest>, Corrupt> {
        super::newest(self.ring())
    }

    /// The count at which the daemon last looked at the world; 0 before its first look.
    #[must_use]
    pub fn heartbeat(&self) -> Count {
        Count(self.ring().heartbeat())
    }

    /// Where a counter that rolls over was when the daemon last read it. `None` if that is nothing
    /// to continue from, or if the daemon was just saying something new.
    ///
    /// It is of the hand of which this and the reading of the counter lie between two looks at its
    /// generation: see [`crate::Ring::kept`].
    #[must_use]
    pub fn kept(&self) -> Option<Kept> {
        Kept::of(self.ring())
    }

    /// True if a daemon has the page open for writing. It may be stopped all the same: see
    /// [`PageReader::heartbeat`].
    #[must_use]
    pub fn tended(&self) -> bool {
        map::locked_by(&self.file, Lock::Read) == Some(Lock::Write)
    }

    /// The process that writes it or wrote it last, as numbered in its own process namespace.
    #[must_use]
    pub fn writer(&self) -> Option<u32> {
        Some(self.mapping.writer()).filter(|pid| *pid != 0)
    }

    /// Standard uncertainty of the newest hand's `difference` as the rate of an interval that ends
    /// now: by the measured noise alone, promised by nothing. `None` if nobody has said.
    #[must_use]
    pub fn difference_deviation(&self) -> Option<Rate> {
        self.mapping.deviation()
    }

    /// Source that the clock follows, or followed last; `None` if nobody has said.
    #[must_use]
    pub fn reference(&self) -> Option<Reference> {
        self.mapping.reference()
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The hands themselves.
    #[must_use]
    #[inline(always)]
    pub fn ring(&self) -> &HandRing {
        &self.mapping.ring
    }
}

impl fmt::Debug for PageReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PageReader").field("path", &self.path).finish_non_exhaustive()
    }
}

/// The directory that holds `path`.
pub(super) fn directory(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    }
}
