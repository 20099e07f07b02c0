//! The file of a page.

use std::fmt;
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{Ordering, fence};

use truechimer_files::{Access, Durable, Entry, Kind, Lock};
use truechimer_time::Period;

use crate::layout::{GENERATION_AT, HEADER, VERSION_AT};
use crate::{Layout, Record, Status};

/// Reasons why a page cannot be written.
#[derive(Debug)]
#[non_exhaustive]
pub enum PageError {
    /// The system refuses.
    System {
        /// Verb of the attempt, as in "cannot …".
        action: &'static str,
        /// With which file.
        path: PathBuf,
        /// Error of the operating system.
        why: io::Error,
    },
    /// There is no directory for it, and it cannot be made.
    NoDirectory {
        /// The directory.
        path: PathBuf,
        /// Error of the operating system.
        why: io::Error,
    },
    /// A socket, a directory, a link, or a file of something else is in its place.
    InTheWay {
        /// Where.
        path: PathBuf,
        /// Kind of file, with its article ("a socket"), or "another file".
        what: &'static str,
    },
    /// File of another user.
    Owner {
        /// Where.
        path: PathBuf,
        /// User that it belongs to.
        owner: u32,
    },
    /// Another process of Truechimer writes it.
    Locked {
        /// Where.
        path: PathBuf,
    },
}

impl fmt::Display for PageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = "or name another `directory` in [clockbound], or leave the page out";
        match self {
            PageError::System { action, path, why } => {
                write!(f, "cannot {action} the ClockBound page {}: {why}", path.display())
            }
            PageError::NoDirectory { path, why } => write!(
                f,
                "there is no directory {} for ClockBound pages, and it cannot be made: {why}; make \
                 it for this user (in a unit file: RuntimeDirectory=), {end}",
                path.display()
            ),
            PageError::InTheWay { path, what } => write!(
                f,
                "{} is {what}, and no ClockBound page of this layout: remove it, {end}",
                path.display()
            ),
            PageError::Owner { path, owner } => write!(
                f,
                "the ClockBound page {} belongs to user {owner}: stop what writes it and remove \
                 it, {end}",
                path.display()
            ),
            PageError::Locked { path } => write!(
                f,
                "another truechimer writes the ClockBound page {}: stop that one, {end}",
                path.display()
            ),
        }
    }
}

impl std::error::Error for PageError {}

/// Reasons why a page is not written any more.
#[derive(Debug)]
pub enum Lost {
    /// Somebody else writes it.
    Stolen,
    /// The file was removed.
    Removed,
    /// The system refuses.
    System(io::Error),
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Lost::Stolen => f.write_str("somebody else writes it as well (a ClockBound?)"),
            Lost::Removed => f.write_str("its file was removed"),
            Lost::System(why) => why.fmt(f),
        }
    }
}

/// A page, and the right to write it.
#[derive(Debug)]
pub struct Page {
    layout: Layout,
    path: PathBuf,
    file: File,
    /// Generation in the page: even, or odd if a writer was killed half-way.
    generation: u16,
    /// Page taken over from an earlier writer.
    continued: bool,
    _lock: Lock,
}

impl Page {
    /// The page of this layout in `directory`: the one that is there, with what it says, or a new
    /// one that says [`Status::Unknown`]. The directory is made if only it is missing.
    ///
    /// # Errors
    /// If anything but a page of this user and of this layout is there (it stays untouched), another
    /// process writes it, or the system refuses.
    pub fn create(directory: &Path, layout: Layout) -> Result<Page, PageError> {
        make_directory(directory)?;
        let path = directory.join(layout.name());
        let system = |action, why| PageError::System { action, path: path.clone(), why };
        let entry = Entry::itself(&path).map_err(|why| system("make", why))?;
        // What is no page is left alone before anything is put beside it.
        look(&entry, &path)?;
        let lock = entry.lock().map_err(|why| system("lock", why))?;
        let Some(lock) = lock else { return Err(PageError::Locked { path }) };
        let there = look(&entry, &path)?;
        let (file, generation) = open(&entry, &path, layout, there)?;
        Ok(Page { layout, path, file, generation, continued: there, _lock: lock })
    }

    /// Looks, without touching it, whether something is in the place of the page that [`create`](Self::create)
    /// would refuse. The directory is not looked at.
    ///
    /// # Errors
    /// If so, or if the system refuses to say.
    pub fn examine(directory: &Path, layout: Layout) -> Result<(), PageError> {
        let path = directory.join(layout.name());
        let Ok(entry) = Entry::itself(&path) else { return Ok(()) };
        if look(&entry, &path)? {
            open(&entry, &path, layout, true)?;
        }
        Ok(())
    }

    /// Layout of the page.
    #[must_use]
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// True if it was there already, with what an earlier writer said last.
    #[must_use]
    pub fn is_continued(&self) -> bool {
        self.continued
    }

    /// Makes the page anew where its file was removed ([`Lost::Removed`]).
    ///
    /// # Errors
    /// If something else is in its place by now, or the system refuses.
    pub fn renew(&mut self) -> Result<(), PageError> {
        let system = |action, why| PageError::System { action, path: self.path.clone(), why };
        let entry = Entry::itself(&self.path).map_err(|why| system("make", why))?;
        if look(&entry, &self.path)? {
            return Err(PageError::InTheWay { path: self.path.clone(), what: "another file" });
        }
        (self.file, self.generation) = open(&entry, &self.path, self.layout, false)?;
        Ok(())
    }

    /// Writes a record: readers find the one before or this one, whole. The generation is odd
    /// meanwhile, and never 0.
    ///
    /// # Errors
    /// If somebody else has written since, the file has no name any more, or the system refuses;
    /// then nothing more should be written.
    pub fn publish(&mut self, record: &Record) -> Result<(), Lost> {
        let mut header = [0; HEADER];
        if let Err(why) = self.file.read_exact_at(&mut header, 0) {
            // Cut short, as ClockBound does with a page before it makes it anew.
            let cut = why.kind() == ErrorKind::UnexpectedEof;
            return Err(if cut { Lost::Stolen } else { Lost::System(why) });
        }
        if header != self.layout.header(self.generation) {
            return Err(Lost::Stolen);
        }
        if self.file.metadata().map_err(Lost::System)?.nlink() == 0 {
            return Err(Lost::Removed);
        }
        // One that was killed half-way has left an odd one.
        let odd = self.generation | 1;
        let even = if odd == u16::MAX { 2 } else { odd + 1 };
        let write = |bytes: &[u8], at: usize| {
            // The kernel copies into the very pages that readers have mapped. Each fence keeps
            // that in order for other processors.
            fence(Ordering::SeqCst);
            self.file.write_all_at(bytes, at as u64).map_err(Lost::System)
        };
        write(&odd.to_ne_bytes(), GENERATION_AT)?;
        write(&self.layout.encode(record), HEADER)?;
        write(&even.to_ne_bytes(), GENERATION_AT)?;
        self.generation = even;
        Ok(())
    }
}

/// The file of a page and its generation; made if it is not `there`.
fn open(entry: &Entry, path: &Path, layout: Layout, there: bool) -> Result<(File, u16), PageError> {
    let system = |action, why| PageError::System { action, path: path.to_path_buf(), why };
    if !there {
        make(path, layout).map_err(|why| system("make", why))?;
    }
    let file = entry.open(Access::ReadWrite, 0o644).map_err(|why| system("open", why))?;
    let meta = file.metadata().map_err(|why| system("look at", why))?;
    let mut header = [0; HEADER];
    let read = file.read_exact_at(&mut header, 0);
    let generation = generation(&header);
    let right =
        read.is_ok() && header == layout.header(generation) && meta.len() >= layout.size() as u64;
    if !right {
        return Err(PageError::InTheWay { path: path.to_path_buf(), what: "another file" });
    }
    Ok((file, generation))
}

fn generation(header: &[u8; HEADER]) -> u16 {
    let [.., low, high] = *header;
    u16::from_ne_bytes([low, high])
}

/// Makes the last directory of the path if it is missing.
fn make_directory(directory: &Path) -> Result<(), PageError> {
    match std::fs::metadata(directory) {
        Err(why) if why.kind() == ErrorKind::NotFound => {
            let made = Entry::itself(directory).and_then(|entry| entry.make_folder(0o755));
            let path = directory.to_path_buf();
            made.map(drop).map_err(|why| PageError::NoDirectory { path, why })
        }
        _ => Ok(()),
    }
}

/// True if a plain file of this user is there; an error if something else is.
fn look(entry: &Entry, path: &Path) -> Result<bool, PageError> {
    let path = path.to_path_buf();
    let there = match entry.status() {
        Ok(there) => there,
        Err(why) => return Err(PageError::System { action: "look at", path, why }),
    };
    let Some(there) = there else { return Ok(false) };
    let what = match there.kind {
        Kind::RegularFile if there.owner != rustix::process::geteuid().as_raw() => {
            return Err(PageError::Owner { path, owner: there.owner });
        }
        Kind::RegularFile => return Ok(true),
        Kind::Directory => "a directory",
        Kind::Symlink => "a symbolic link",
        Kind::Socket => "a socket",
        Kind::Fifo => "a pipe",
        _ => "a device",
    };
    Err(PageError::InTheWay { path, what })
}

/// Makes a new page, whole before it has its name.
fn make(path: &Path, layout: Layout) -> io::Result<()> {
    let nothing = Record {
        count: 0,
        as_of: 0,
        void_after: 0,
        bound: 0,
        drift: 0,
        period: Period::NANOSECOND,
        disruptions: 0,
        vmclock: None,
        status: Status::Unknown,
    };
    let mut new = Entry::itself(path)?.replace(0o644)?;
    new.write_all(&layout.header(2))?;
    new.write_all(&layout.encode(&nothing))?;
    new.commit(Durable::No)
}

const _: () = assert!(VERSION_AT + 2 == GENERATION_AT && GENERATION_AT + 2 == HEADER);
