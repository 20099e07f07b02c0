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
use crate::{Hand, HandRing, Made, Marker, Reference, Status, pack, pack_beside};

/// The one that may write a page. Nobody else can be while it lives.
///
/// It never waits for readers, and none of its steps leaves the page unreadable: it may be killed
/// at any of them.
pub struct PageWriter {
    /// Page that has the name.
    sheet: Sheet,
    /// Pages that have lost it, for those who have them mapped; the oldest first.
    nameless: Vec<Sheet>,
    /// Generation of the newest hand.
    generation: u64,
    /// Newest hand, and how it was made.
    last: Option<(Hand, Made)>,
    /// Counter of the newest hand's counts, and so of the count that was kept.
    counter: Option<CounterId>,
    /// Disruption marker of the hands that are published.
    marker: Option<Marker>,
    path: PathBuf,
    /// Lock that keeps other writers out.
    lock: File,
    /// Process that has the locks: not one that was forked off with all of this.
    process: u32,
}

/// Mend of a page, see [`PageWriter::tend`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mended {
    /// File that somebody had shortened, lengthened or overwritten: it is a page with its hand again.
    Content,
    /// File that somebody had removed or given another name: there is a new one.
    Name,
}

/// Largest number of pages without a name that are written on: somebody who removes the page again and again does
/// not make for more work than this.
const MOST_NAMELESS: usize = 4;

/// File of a page, mapped.
struct Sheet {
    mapping: Mapping,
    file: File,
    /// Device and inode.
    inode: (u64, u64),
    /// Locked, for readers to see.
    shown: AtomicBool,
    /// Mark of a file that was as long as a page when it was looked at last. Whoever writes to one that
    /// is shorter dies of `SIGBUS`.
    whole: bool,
}

impl Sheet {
    /// Maps the file, and fills in the header if it is new.
    fn of(file: File, path: &Path) -> Result<Sheet, PageError> {
        let system = |action, error| PageError::refused(action, path.into(), error);
        map::allocate(&file).map_err(|e| system("find space for", e))?;
        let mapping = Mapping::of(&file, true).map_err(|e| system("map", e))?;
        let path = || path.to_path_buf();
        match mapping.kind() {
            Kind::Right => {}
            Kind::Unfinished if mapping.is_blank() => mapping.initialise(),
            Kind::Unfinished | Kind::Foreign => return Err(PageError::Foreign { path: path() }),
            Kind::Version(found) => return Err(PageError::Version { path: path(), found }),
            Kind::Damaged => return Err(PageError::Damaged { path: path() }),
        }
        mapping.set_writer(std::process::id());
        // Whatever the umask or an earlier owner of this name wanted.
        file.set_permissions(Permissions::from_mode(0o644)).map_err(|e| system("publish", e))?;
        let meta = file.metadata().map_err(|e| system("examine", e))?;
        let inode = (meta.dev(), meta.ino());
        Ok(Sheet { mapping, file, inode, shown: AtomicBool::new(false), whole: true })
    }

    /// Makes a new one at `path`, whole before it has that name: where there is no space for it,
    /// nothing is left. To be called under the writer's lock.
    fn make(path: &Path) -> Result<Sheet, PageError> {
        let mut name = path.as_os_str().to_owned();
        name.push(".new");
        let new = PathBuf::from(name);
        // One that was killed half-way may have left it.
        let _ = std::fs::remove_file(&new);
        let file = options()
            .create_new(true)
            .mode(0o600)
            .open(&new)
            .map_err(|e| PageError::refused("make", new.clone(), e))?;
        // The caller has just seen that nothing has the name.
        let made = Sheet::of(file, path).and_then(|sheet| match std::fs::rename(&new, path) {
            Ok(()) => Ok(sheet),
            Err(error) => Err(PageError::refused("make", path.into(), error)),
        });
        if made.is_err() {
            let _ = std::fs::remove_file(&new);
        }
        made
    }

    /// Looks at the file's length.
    fn measure(&mut self) -> io::Result<u64> {
        let length = self.file.metadata().map(|meta| meta.len());
        self.whole = length.as_ref().is_ok_and(|length| *length >= SIZE as u64);
        length
    }

    /// Makes the file a page again, with no hand in it, unless it is one up to that generation.
    /// Returns `true` if it was not.
    fn mend(&mut self, generation: u64) -> io::Result<bool> {
        let length = self.measure()?;
        let page = &self.mapping;
        if self.whole && page.kind() == Kind::Right && page.ring.generation() == generation {
            if length == SIZE as u64 {
                return Ok(false);
            }
        } else {
            self.whole = false;
            // Of the right length it may still have holes, for which there need be no space.
            map::allocate(&self.file)?;
            page.clear();
            page.initialise();
            page.set_writer(std::process::id());
        }
        self.file.set_len(SIZE as u64)?;
        self.whole = true;
        Ok(true)
    }

    /// Locks the page itself, for readers to see that somebody writes it. Whoever can read the page
    /// can take a read lock on it first: then it is tried again with each heartbeat.
    fn show(&self) {
        if !self.shown.load(Relaxed) {
            self.shown.store(map::lock(&self.file).unwrap_or(false), Relaxed);
        }
    }
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
        open(&path)?;
        let Some(lock) = lock::take(&path)? else { return Err(locked(path)) };
        // Looked at again under the lock: another writer may just have finished making it.
        let sheet = match open(&path)? {
            // A daemon of before there was such a lock holds the page's own.
            Some(file) if map::locked_by(&file, Lock::Read) == Some(Lock::Write) => {
                map::unlock(&lock);
                return Err(locked(path));
            }
            Some(file) => Sheet::of(file, &path)?,
            None => Sheet::make(&path)?,
        };
        let generation = sheet.mapping.ring.generation();
        let newest = super::newest(&sheet.mapping.ring).ok().flatten();
        let last = newest.map(|newest| (newest.hand, newest.made));
        let counter = last.map(|(hand, _)| hand.counter);
        let marker = newest.and_then(|newest| newest.marker);
        let (nameless, process) = (Vec::new(), std::process::id());
        sheet.show();
        Ok(PageWriter { sheet, nameless, generation, last, counter, marker, path, lock, process })
    }

    /// Looks, without touching it, whether something is in the place of the page that [`create`](Self::create)
    /// would refuse.
    ///
    /// # Errors
    /// If so, or if the system refuses to say.
    pub fn examine(path: impl AsRef<Path>) -> Result<(), PageError> {
        open(path.as_ref()).map(drop)
    }

    /// Looks after the file: to be called before the page is written, at least once a second. If
    /// somebody has shortened or overwritten it, it gets its length and the newest hand back: readers
    /// who have it mapped and did not read meanwhile go on (those who read a shortened one have died
    /// of `SIGBUS`). If it was removed or given another name, a new one is made, and the old one is
    /// written on for those who have it mapped.
    ///
    /// # Errors
    /// If something else has taken its place (it stays untouched), or the system refuses: then
    /// nothing is written to a page that is too short. The next call tries again.
    pub fn tend(&mut self) -> Result<Option<Mended>, PageError> {
        // By another name they can be shortened as well.
        self.nameless.retain_mut(|sheet| sheet.measure().is_ok() && sheet.whole);
        let refused = |action, error| PageError::refused(action, self.path.clone(), error);
        let mended = self.sheet.mend(self.generation).map_err(|e| refused("find space for", e))?;
        if mended {
            self.publish_again();
        }
        match std::fs::symlink_metadata(&self.path) {
            Ok(meta) if (meta.dev(), meta.ino()) == self.sheet.inode => {
                Ok(mended.then_some(Mended::Content))
            }
            Ok(_) => Err(PageError::Replaced { path: self.path.clone() }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.name_anew(),
            Err(error) => Err(PageError::refused("examine", self.path.clone(), error)),
        }
    }

    /// Makes a new page in place of the one that has lost its name.
    fn name_anew(&mut self) -> Result<Option<Mended>, PageError> {
        let sheet = Sheet::make(&self.path)?;
        sheet.show();
        self.nameless.push(std::mem::replace(&mut self.sheet, sheet));
        if self.nameless.len() > MOST_NAMELESS {
            let oldest = self.nameless.remove(0);
            self.end(&oldest);
        }
        self.publish_again();
        Ok(Some(Mended::Name))
    }

    /// Publishes the newest hand once more, as what is in the page now is not it. Its heartbeat and
    /// what was kept come with the next look at the world.
    fn publish_again(&mut self) {
        if let Some((hand, made)) = self.last {
            self.publish_words(&hand, &made);
        }
    }

    /// Pages that can be written, the one with the name last.
    fn sheets(&self) -> impl Iterator<Item = &Sheet> {
        self.nameless.iter().chain([&self.sheet]).filter(|sheet| sheet.whole)
    }

    /// The newest hand in the page and how it was made: at the start, what the daemon before left.
    #[must_use]
    pub fn last_hand(&self) -> Option<(Hand, Made)> {
        self.last
    }

    /// The count that was kept last: at the start, by the daemon before. It goes with
    /// [`PageWriter::last_hand`].
    #[must_use]
    pub fn last_kept(&self) -> Option<Kept> {
        self.ring().and_then(Kept::of)
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
            self.sheets().for_each(|sheet| sheet.mapping.ring.unkeep());
            self.counter = Some(hand.counter);
        }
        self.publish_words(hand, made);
        // Not before: a fresh heartbeat vouches for the hand that is the newest then.
        self.heartbeat(made.count);
        self.generation
    }

    fn publish_words(&mut self, hand: &Hand, made: &Made) {
        self.last = Some((*hand, *made));
        let before = self.generation;
        let put = self.sheets().map(|sheet| self.put(sheet, before, hand, made)).last();
        self.generation = put.unwrap_or(before);
    }

    /// Writes a hand into one page, as the one after generation `before`.
    fn put(&self, sheet: &Sheet, before: u64, hand: &Hand, made: &Made) -> u64 {
        let (words, mut beside) = (pack(hand, made), pack_beside(hand));
        Marker::put(self.marker, &mut beside);
        sheet.mapping.ring.publish(before, &words, &beside)
    }

    /// Says that the daemon looked at the world at `count`: the host's clocks are in order, the
    /// newest hand still stands. To be called at least once a second.
    pub fn heartbeat(&self, count: Count) {
        for sheet in self.sheets() {
            sheet.mapping.ring.beat(count.0);
            sheet.show();
        }
    }

    /// Count of the last heartbeat, as readers see it; 0 while the page is too short to be read.
    #[must_use]
    pub fn last_heartbeat(&self) -> Count {
        Count(self.ring().map_or(0, HandRing::heartbeat))
    }

    fn ring(&self) -> Option<&HandRing> {
        self.sheet.whole.then_some(&self.sheet.mapping.ring)
    }

    /// Beats likewise, with the count of a counter that rolls over, for others to continue from: it
    /// must be of the newest hand's counter and epoch.
    pub fn keep(&self, kept: Kept) {
        for sheet in self.sheets() {
            sheet.mapping.ring.keep(kept.wide.0, kept.at_ns as u64);
            sheet.show();
        }
    }

    /// Says how uncertain the rate of the newest hand's difference clock is, statistically.
    pub fn deviate(&self, deviation: Option<Rate>) {
        self.sheets().for_each(|sheet| sheet.mapping.set_deviation(deviation));
    }

    /// Says what the clock follows, for servers of it.
    pub fn follow(&self, reference: Option<Reference>) {
        self.sheets().for_each(|sheet| sheet.mapping.set_reference(reference));
    }

    /// Says in a page that nobody tends it from now on: the newest hand once more, as a holdover,
    /// and a heartbeat that nobody relies on.
    fn end(&self, sheet: &Sheet) {
        map::unlock(&sheet.file);
        let Some((hand, made)) = self.last else { return };
        if made.device.is_none() {
            // As far from any count to come as counts can be. That of a device stays: the next
            // daemon goes on counting from it.
            sheet.mapping.ring.beat((made.count + CountSpan(i64::MIN)).0);
        }
        if hand.status == Status::Synchronised {
            let hand = Hand { status: Status::Holdover, ..hand };
            self.put(sheet, self.generation, &hand, &made);
        }
    }

    /// Path of the page.
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
            // A shortened page ends its writer by SIGBUS, too; one without space for it is left.
            let _ = self.tend();
            self.sheets().for_each(|sheet| self.end(sheet));
            map::unlock(&self.lock);
        }
    }
}

impl fmt::Debug for PageWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PageWriter").field("path", &self.path).finish_non_exhaustive()
    }
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options
        .read(true)
        .write(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC | libc::O_NONBLOCK | libc::O_NOCTTY);
    options
}

/// The page at `path`, or nothing if there is none; an error if it is something else, or another
/// user's.
fn open(path: &Path) -> Result<Option<File>, PageError> {
    let path = path.to_path_buf();
    let system = |action, error| PageError::refused(action, path.clone(), error);
    let opened = options().open(&path);
    let file = match opened {
        Ok(file) => file,
        Err(error) => match error.raw_os_error() {
            Some(libc::ENOENT) => return Ok(None),
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

/// Error that another daemon writes the page: which one, if the page says so.
fn locked(path: PathBuf) -> PageError {
    let pid = open(&path)
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
