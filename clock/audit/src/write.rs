//! Writing a record: lines at the end of the newest file, a new file when that is full, and never
//! more than so many bytes in all.

use std::fs::{File, Permissions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use truechimer_files::{Access, Entry, Lock};

use crate::chain::{join, split};
use crate::line::{Header, Line, Torn};
use crate::{FORMAT, Hash, LONGEST_LINE, file_name, files};

/// Mode of the files: others may not write them, nor read unless they are of the group.
const MODE: u32 = 0o640;
/// Mode of the directory.
const FOLDER_MODE: u32 = 0o750;

/// Name of what a writer locks; that of the lock itself has `.lock` after it.
const LOCKED: &str = "record";
/// Time after which a lock is tried once more: [`is_written`] holds it for a moment.
const AGAIN: Duration = Duration::from_millis(10);

/// True if a program has the record in this directory open for writing; none if that is not for this user to
/// know. A daemon that cannot write, as the disk is full, has not.
#[must_use]
pub fn is_written(folder: &Path) -> Option<bool> {
    let path = folder.join(format!("{LOCKED}.lock"));
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(rustix::io::Errno::NOENT) => return Some(false),
        Err(_) => return None,
    };
    match file.try_lock_shared() {
        Ok(()) => Some(false),
        Err(TryLockError::WouldBlock) => Some(true),
        Err(TryLockError::Error(_)) => None,
    }
}

/// Most that a record may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// All files together, bytes.
    pub total_bytes: u64,
}

impl Limits {
    /// Size from which on a file is followed by the next, bytes.
    #[must_use]
    pub fn file_bytes(self) -> u64 {
        (self.total_bytes / 8).min(8 << 20)
    }
}

/// Discovery at the end of a record that was left by another run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Found {
    /// A line that was cut off, with what is left of it.
    Torn(Torn),
    /// A file whose last line is none of ours: a new chain begins after it.
    Foreign(String),
    /// A file without a whole line, which was removed.
    Empty(String),
}

/// A record that is being written.
#[derive(Debug)]
pub struct Writer {
    folder: PathBuf,
    limits: Limits,
    version: String,
    _lock: Lock,
    open: Option<Open>,
}

/// The newest file.
#[derive(Debug)]
struct Open {
    file: File,
    number: u64,
    bytes: u64,
    hash: Hash,
    /// True if the end of the file was cut off and still lacks its newline.
    is_torn: bool,
}

impl Writer {
    /// Opens the record in a directory, which is made if it is not there, for a program of this
    /// version. What was found at its end is told, to be written as events.
    ///
    /// # Errors
    /// If another program writes it, somebody else could change where it leads, or the system
    /// refuses.
    pub fn open(folder: &Path, limits: Limits, version: &str) -> io::Result<(Writer, Vec<Found>)> {
        if let Some(new) = truechimer_files::make_folder(folder, FOLDER_MODE)? {
            new.set_permissions(Permissions::from_mode(FOLDER_MODE))?;
        }
        let locked = Entry::itself(&folder.join(LOCKED))?;
        let mut lock = locked.lock()?;
        if lock.is_none() {
            std::thread::sleep(AGAIN);
            lock = locked.lock()?;
        }
        let lock = lock.ok_or_else(|| io::Error::other("another daemon writes this record"))?;
        let version = version.to_owned();
        let mut writer =
            Writer { folder: folder.to_owned(), limits, version, _lock: lock, open: None };
        let found = writer.resume()?;
        Ok((writer, found))
    }

    /// Goes on from the newest file.
    fn resume(&mut self) -> io::Result<Vec<Found>> {
        let mut found = Vec::new();
        loop {
            let Some((number, path)) = files(&self.folder)?.pop() else {
                self.begin(0, Hash::none())?;
                return Ok(found);
            };
            let mut file = Entry::itself(&path)?.open(Access::ReadAppend, MODE)?;
            if !file.metadata()?.is_file() {
                return Err(io::Error::other(format!("{}: is not a regular file", path.display())));
            }
            let bytes = file.metadata()?.len();
            let tail = tail(&mut file, bytes)?;
            let (whole, torn) = match tail.iter().rposition(|b| *b == b'\n') {
                Some(end) => tail.split_at_checked(end + 1).unwrap_or((&tail, &[])),
                None => (&[][..], &tail[..]),
            };
            let Some(line) = last_line(whole) else {
                // Begun and not even headed; or none of ours.
                if bytes > LONGEST_LINE as u64 {
                    found.push(Found::Foreign(file_name(number)));
                    self.begin(number, Hash::none())?;
                    return Ok(found);
                }
                Entry::itself(&path)?.remove()?;
                found.push(Found::Empty(file_name(number)));
                continue;
            };
            let Some((_, hash)) = split(line) else {
                found.push(Found::Foreign(file_name(number)));
                self.begin(number, Hash::none())?;
                return Ok(found);
            };
            let is_torn = !torn.is_empty();
            if is_torn {
                found.push(Found::Torn(Torn { bytes: torn.len() as u64, sha256: Hash::of(torn) }));
            }
            self.open = Some(Open { file, number, bytes, hash, is_torn });
            return Ok(found);
        }
    }

    /// Begins the file that follows the one with this number, with its header.
    fn begin(&mut self, after: u64, previous: Hash) -> io::Result<()> {
        let number = after.checked_add(1).ok_or_else(|| {
            io::Error::other(format!("{}: no number is left after it", file_name(after)))
        })?;
        let path = self.folder.join(file_name(number));
        let file = Entry::itself(&path)?.open(Access::New, MODE)?;
        file.set_permissions(Permissions::from_mode(MODE))?;
        let mut open = Open { file, number, bytes: 0, hash: previous.clone(), is_torn: false };
        let version = self.version.clone();
        open.line(&Line::Record(Header { format: FORMAT, file: number, version, previous }))?;
        self.open = Some(open);
        Ok(())
    }

    /// Appends a line. If the file is full by then, the next one is begun, and old ones are removed
    /// that there is no room for: their names are returned.
    ///
    /// # Errors
    /// If the system refuses. The record is to be opened anew then: what was written of the line is
    /// found as cut off.
    pub fn append(&mut self, line: &Line) -> io::Result<Vec<String>> {
        let open = self.open.as_mut().ok_or_else(|| io::Error::other("the record is not open"))?;
        if let Err(why) = open.line(line) {
            self.open = None;
            return Err(why);
        }
        if open.bytes < self.limits.file_bytes() {
            return Ok(Vec::new());
        }
        let (number, hash) = (open.number, open.hash.clone());
        self.open = None;
        // Room first: the disk may be full of just this.
        let removed = self.make_room()?;
        self.begin(number, hash)?;
        Ok(removed)
    }

    /// The last hash.
    #[must_use]
    pub fn hash(&self) -> Option<&Hash> {
        self.open.as_ref().map(|open| &open.hash)
    }

    /// Removes the oldest files until one more has room.
    fn make_room(&self) -> io::Result<Vec<String>> {
        let mut sizes = Vec::new();
        for (number, path) in files(&self.folder)? {
            let bytes = Entry::itself(&path)?.status()?.map_or(0, |there| there.length);
            sizes.push((number, path, bytes));
        }
        let room = self.limits.total_bytes.saturating_sub(self.limits.file_bytes());
        let mut all: u64 = sizes.iter().map(|(_, _, bytes)| bytes).sum();
        let mut removed = Vec::new();
        // The newest stays, whatever it is.
        sizes.pop();
        for (number, path, bytes) in sizes {
            if all <= room {
                break;
            }
            Entry::itself(&path)?.remove()?;
            all = all.saturating_sub(bytes);
            removed.push(file_name(number));
        }
        Ok(removed)
    }
}

impl Open {
    fn line(&mut self, line: &Line) -> io::Result<()> {
        let content = line.content().ok_or_else(|| io::Error::other("a line is no JSON"))?;
        let hash = self.hash.next(content.as_bytes());
        let mut text = join(&content, &hash);
        if text.len() > LONGEST_LINE {
            return Err(io::Error::other("a line is too long"));
        }
        if self.is_torn {
            // With the line that says so in one go: another crash finds both or the first alone.
            text.insert(0, '\n');
        }
        self.file.write_all(text.as_bytes())?;
        self.is_torn = false;
        self.bytes += text.len() as u64;
        self.hash = hash;
        Ok(())
    }
}

/// The last bytes of a file, enough for a torn line and a whole one.
fn tail(file: &mut File, bytes: u64) -> io::Result<Vec<u8>> {
    let from = bytes.saturating_sub(2 * LONGEST_LINE as u64);
    file.seek(SeekFrom::Start(from))?;
    let mut tail = Vec::new();
    file.take(2 * LONGEST_LINE as u64).read_to_end(&mut tail)?;
    Ok(tail)
}

/// The last line of lines that are whole, without its end. A torn line that has got its end since is
/// followed by one that says so.
fn last_line(whole: &[u8]) -> Option<&[u8]> {
    whole.strip_suffix(b"\n")?.rsplit(|b| *b == b'\n').next()
}

impl Found {
    /// Words for the log and for the event.
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            Found::Torn(torn) => format!(
                "the last line was cut off after {} bytes by a crash or a full disk; the chain goes on \
                 from the line before it",
                torn.bytes
            ),
            Found::Foreign(name) => format!(
                "{name} does not end with a line of a record: somebody else wrote to it, or the disk \
                 lost it; a new chain begins"
            ),
            Found::Empty(name) => format!("{name} had no whole line and was removed"),
        }
    }
}
