//! The writer's end of a page.

use std::fmt;
use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use truechimer_time::{Count, CountSpan, CounterId, Rate};

use super::Kept;
use super::error::PageError;
use super::layout::{Kind, MAGIC, SIZE};
use super::lock;
use super::map::{self, Lock, Mapping};
use super::places;
use super::reader::directory;
use crate::{Hand, Made, Marker, Reference, Status, pack, pack_beside};

/// The one that may write a page. Nobody else can be while it lives.
///
/// It never waits for readers, and none of its steps leaves the page unreadable: it may be killed
/// at any of them.
pub struct PageWriter {
    mapping: Mapping,
    /// Of the newest hand.
    generation: u64,
    /// Counter of the newest hand's counts, and so of the count that was kept.
    counter: Option<CounterId>,
    /// Disruption marker of the hands that are published.
    marker: Option<Marker>,
    path: PathBuf,
    /// The page.
    file: File,
    /// Whether it is locked, for readers to see.
    shown: AtomicBool,
    /// Lock that keeps other writers out.
    lock: File,
    /// Whose locks they are: not that of a process that was forked off with all of this.
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
        // What is no page is left alone before anything is put beside it.
        open(&path, false)?;
        let Some(lock) = lock::take(&path)? else { return Err(locked(path)) };
        // Looked at again under the lock: another writer may just have finished making it.
        let Some(file) = open(&path, true)? else {
            return Err(PageError::Missing { path });
        };
        // A daemon of before there was such a lock holds the page's own.
        if map::locked_by(&file, Lock::Read) == Some(Lock::Write) {
            map::unlock(&lock);
            return Err(locked(path));
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
        let newest = super::newest(&mapping.ring).ok().flatten();
        let counter = newest.map(|newest| newest.hand.counter);
        let marker = newest.and_then(|newest| newest.marker);
        let shown = AtomicBool::new(false);
        let writer =
            PageWriter { mapping, generation, counter, marker, path, file, shown, lock, process };
        writer.show();
        Ok(writer)
    }

    /// Locks the page itself, for readers to see that somebody writes it. Whoever can read the page
    /// can take a read lock on it first: then it is tried again with each heartbeat.
    fn show(&self) {
        if !self.shown.load(Relaxed) {
            self.shown.store(map::lock(&self.file).unwrap_or(false), Relaxed);
        }
    }

    /// The newest hand in the page and how it was made: at the start, what the daemon before left.
    #[must_use]
    pub fn last_hand(&self) -> Option<(Hand, Made)> {
        let newest = super::newest(&self.mapping.ring).ok().flatten();
        newest.map(|newest| (newest.hand, newest.made))
    }

    /// The count that was kept last: at the start, by the daemon before. It goes with
    /// [`PageWriter::last_hand`].
    #[must_use]
    pub fn last_kept(&self) -> Option<Kept> {
        Kept::of(&self.mapping.ring)
    }

    /// Disruption marker of the hands that are published from now on: at the start, that of
    /// [`PageWriter::last_hand`].
    #[must_use]
    pub fn marker(&self) -> Option<Marker> {
        self.marker
    }

    /// Says under which disruption marker the hands are that are published from now on; readers who
    /// find another one take them for disrupted.
    pub fn mark(&mut self, marker: Option<Marker>) {
        self.marker = marker;
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
        self.publish_words(hand, made);
        // Not before: a fresh heartbeat vouches for the hand that is the newest then.
        self.heartbeat(made.count);
        self.generation
    }

    fn publish_words(&mut self, hand: &Hand, made: &Made) {
        let (words, mut beside) = (pack(hand, made), pack_beside(hand));
        Marker::put(self.marker, &mut beside);
        self.generation = self.mapping.ring.publish(self.generation, &words, &beside);
    }

    /// Says that the daemon looked at the world at `count`: the host's clocks are in order, the
    /// newest hand still stands. To be called at least once a second.
    pub fn heartbeat(&self, count: Count) {
        self.mapping.ring.beat(count.0);
        self.show();
    }

    /// Count of the last heartbeat, as readers see it.
    #[must_use]
    pub fn last_heartbeat(&self) -> Count {
        Count(self.mapping.ring.heartbeat())
    }

    /// Beats likewise, with the count of a counter that rolls over, for others to continue from: it
    /// must be of the newest hand's counter and epoch.
    pub fn keep(&self, kept: Kept) {
        self.mapping.ring.keep(kept.wide.0, kept.at_ns as u64);
        self.show();
    }

    /// Says how uncertain the rate of the newest hand's difference clock is, statistically.
    pub fn deviate(&self, deviation: Option<Rate>) {
        self.mapping.set_deviation(deviation);
    }

    /// Says what the clock follows, for servers of it.
    pub fn follow(&self, reference: Option<Reference>) {
        self.mapping.set_reference(reference);
    }

    /// Says in the page that nobody tends it from now on: the newest hand once more, as a holdover,
    /// and a heartbeat that nobody relies on.
    fn end(&mut self) {
        let Some((hand, made)) = self.last_hand() else { return };
        if made.device.is_none() {
            // As far from any count to come as counts can be. That of a device stays: the next
            // daemon goes on counting from it.
            self.heartbeat(made.count + CountSpan(i64::MIN));
        }
        if hand.status == Status::Synchronised {
            let hand = Hand { status: Status::Holdover, ..hand };
            self.publish_words(&hand, &made);
        }
    }

    /// Where the page is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for PageWriter {
    /// Readers are told that nobody tends the page any more. Whoever comes next may write at once,
    /// though this process may just be starting others.
    fn drop(&mut self) {
        if self.process == std::process::id() {
            self.end();
            map::unlock(&self.file);
            map::unlock(&self.lock);
        }
    }
}

impl fmt::Debug for PageWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PageWriter").field("path", &self.path).finish_non_exhaustive()
    }
}

/// The page at `path`, or nothing if there is none and none is to be made; an error if it is
/// something else, or another user's.
fn open(path: &Path, make: bool) -> Result<Option<File>, PageError> {
    let path = path.to_path_buf();
    let system = |action, error| PageError::refused(action, path.clone(), error);
    let opened = OpenOptions::new()
        .read(true)
        .write(true)
        .create(make)
        .truncate(false)
        .mode(0o644)
        .custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC | libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(&path);
    let file = match opened {
        Ok(file) => file,
        Err(error) => match error.raw_os_error() {
            Some(libc::ENOENT) if !make => return Ok(None),
            Some(libc::ELOOP | libc::EISDIR | libc::ENXIO) => {
                return Err(PageError::NotAFile { path });
            }
            _ => return Err(system("open", error)),
        },
    };
    let meta = file.metadata().map_err(|e| system("examine", e))?;
    if !meta.is_file() {
        return Err(PageError::NotAFile { path });
    }
    // Its owner could shorten it under us.
    if meta.uid() != map::effective_user() {
        return Err(PageError::Owner { path, owner: meta.uid() });
    }
    let mut begins = [0; 8];
    let read = file.read_at(&mut begins, 0).map_err(|e| system("read", e))?;
    let ours = [0, MAGIC].contains(&u64::from_ne_bytes(begins));
    if meta.len() != 0 && (meta.len() != SIZE as u64 || read != begins.len() || !ours) {
        return Err(PageError::Foreign { path });
    }
    Ok(Some(file))
}

/// Another daemon writes the page: which one, if the page says so.
fn locked(path: PathBuf) -> PageError {
    let pid = open(&path, false)
        .ok()
        .flatten()
        .filter(|file| file.metadata().is_ok_and(|m| m.len() == SIZE as u64))
        .and_then(|file| Mapping::of(&file, false).ok())
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
