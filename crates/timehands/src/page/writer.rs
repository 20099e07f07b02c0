//! The writer's end of a page.

use std::fmt;
use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use truechimer_time::{Count, CounterId};

use super::Kept;
use super::error::PageError;
use super::layout::{Kind, SIZE};
use super::map::{self, Lock, Mapping};
use super::places;
use super::reader::directory;
use crate::{Hand, Made, pack};

/// The one that may write a page. Nobody else can be while it lives.
///
/// It never waits for readers, and none of its steps leaves the page unreadable: it may be killed
/// at any of them.
pub struct PageWriter {
    mapping: Mapping,
    /// Of the newest hand.
    generation: u64,
    /// What the newest hand's counts are of, and so what the count is of that was kept.
    counter: Option<CounterId>,
    path: PathBuf,
    /// Holds the lock.
    file: File,
    /// Whose lock it is: not that of a process that was forked off with all of this.
    process: u32,
}

impl PageWriter {
    /// Opens the page at `path` for writing: a new one, or the one that an earlier daemon left,
    /// with its hands. The last directory of a default place is made if it is missing.
    ///
    /// # Errors
    /// If another daemon writes it, if the file is not a page of this version (it is left
    /// untouched), or if the system refuses.
    pub fn create(path: impl AsRef<Path>) -> Result<PageWriter, PageError> {
        let path = path.as_ref().to_path_buf();
        let system = |action, error| PageError::refused(action, path.clone(), error);
        if path == places::for_daemon() {
            make_directory(directory(&path)).map_err(|e| system("make the directory of", e))?;
        }
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o644)
            .custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC | libc::O_NONBLOCK | libc::O_NOCTTY)
            .open(&path)
            .map_err(|error| match error.raw_os_error() {
                Some(libc::ELOOP | libc::EISDIR | libc::ENXIO) => {
                    PageError::NotAFile { path: path.clone() }
                }
                _ => system("open", error),
            })?;
        let meta = file.metadata().map_err(|e| system("examine", e))?;
        if !meta.is_file() {
            return Err(PageError::NotAFile { path });
        }
        // Its owner could shorten it under us.
        if meta.uid() != map::effective_user() {
            return Err(PageError::Owner { path, owner: meta.uid() });
        }
        if !map::lock(&file).map_err(|e| system("lock", e))? {
            return Err(refused(&file, path));
        }
        // Looked at again under the lock: another writer may just have finished making it.
        let length = file.metadata().map_err(|e| system("examine", e))?.len();
        if length != 0 && length != SIZE as u64 {
            return Err(PageError::Foreign { path });
        }
        map::allocate(&file).map_err(|e| system("find space for", e))?;
        let mapping = Mapping::of(&file, true).map_err(|e| system("map", e))?;
        match mapping.kind() {
            Kind::Right => {}
            Kind::Unfinished if mapping.is_blank() => mapping.initialise(),
            Kind::Unfinished | Kind::Foreign => return Err(PageError::Foreign { path }),
            Kind::Version(found) => return Err(PageError::Version { path, found }),
            Kind::Damaged => return Err(PageError::Damaged { path }),
        }
        let process = std::process::id();
        mapping.set_writer(process);
        // Whatever the umask or an earlier owner of this name wanted.
        file.set_permissions(Permissions::from_mode(0o644)).map_err(|e| system("publish", e))?;
        let generation = mapping.ring.generation();
        let counter = super::newest(&mapping.ring).ok().flatten().map(|(_, hand, _)| hand.counter);
        Ok(PageWriter { mapping, generation, counter, path, file, process })
    }

    /// The newest hand in the page and how it was made: at the start, what the daemon before left.
    #[must_use]
    pub fn last_hand(&self) -> Option<(Hand, Made)> {
        super::newest(&self.mapping.ring).ok().flatten().map(|(_, hand, made)| (hand, made))
    }

    /// The count that was kept last: at the start, by the daemon before. It goes with
    /// [`PageWriter::last_hand`].
    #[must_use]
    pub fn last_kept(&self) -> Option<Kept> {
        Kept::of(&self.mapping.ring)
    }

    /// Publishes a hand, made when `made` says; that is a heartbeat too. Returns its generation.
    ///
    /// If its counter or epoch is another one than the last hand's, nobody can continue from what
    /// was kept so far, and nothing is until the next [`PageWriter::keep`].
    pub fn publish(&mut self, hand: &Hand, made: &Made) -> u64 {
        if self.counter != Some(hand.counter) {
            self.mapping.ring.unkeep();
            self.counter = Some(hand.counter);
        }
        self.generation = self.mapping.ring.publish(self.generation, &pack(hand, made));
        // Not before: a fresh heartbeat vouches for the hand that is the newest then.
        self.heartbeat(made.count);
        self.generation
    }

    /// Says that the daemon looked at the world at `count`: the host's clocks are in order, the
    /// newest hand still stands. To be called at least once a second.
    pub fn heartbeat(&self, count: Count) {
        self.mapping.ring.beat(count.0);
    }

    /// The same, with the count of a counter that rolls over, for others to continue from: it must
    /// be of the newest hand's counter and epoch.
    pub fn keep(&self, kept: Kept) {
        self.mapping.ring.keep(kept.wide.0, kept.at_ns as u64);
    }

    /// Where the page is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for PageWriter {
    /// Whoever comes next may write at once, though this process may just be starting others.
    fn drop(&mut self) {
        if self.process == std::process::id() {
            map::unlock(&self.file);
        }
    }
}

impl fmt::Debug for PageWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PageWriter").field("path", &self.path).finish_non_exhaustive()
    }
}

/// Who keeps us from taking the lock.
fn refused(file: &File, path: PathBuf) -> PageError {
    if map::locked_by(file, Lock::Write) == Some(Lock::Read) {
        return PageError::Held { path };
    }
    let pid = file
        .metadata()
        .is_ok_and(|m| m.len() >= SIZE as u64)
        .then(|| Mapping::of(file, false).ok())
        .flatten()
        .filter(|page| page.kind() == Kind::Right)
        .map(|page| page.writer())
        .filter(|pid| *pid != 0);
    PageError::Locked { path, pid }
}

/// Makes the directory, open to all for reading, if it is not there.
fn make_directory(directory: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o755).create(directory) {
        Ok(()) => std::fs::set_permissions(directory, Permissions::from_mode(0o755)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}
