//! Reading a record: every line in turn, and whether the chain is whole.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

use crate::chain::split;
use crate::line::{Event, Kind, Line, Torn};
use crate::{FORMAT, Hash, LONGEST_LINE, file_name, file_number};

/// Largest file that is read, bytes: none of ours is so large.
const LARGEST_FILE: u64 = 64 << 20;
/// Faults that are told one by one; the others are counted.
const TOLD: usize = 100;

/// A place where the chain is broken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    /// Name of the file.
    pub file: String,
    /// Line, from 1 on; 0: the file as a whole.
    pub line: u64,
    /// Words on what is wrong.
    pub text: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.file, self.text),
            line => write!(f, "{}:{line}: {}", self.file, self.text),
        }
    }
}

/// Receiver of what is read: lines that fit, and faults.
pub type Take<'t> = &'t mut dyn FnMut(Result<Line, &Fault>);

/// A line that was cut off by a crash or a full disk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TornLine {
    /// Name of the file.
    pub file: String,
    /// Line, from 1 on.
    pub line: u64,
    /// Length of what is left of it, bytes.
    pub bytes: u64,
    /// True if the next start of the daemon has said so; the newest line has had none yet.
    pub is_told: bool,
}

/// Findings on the chain of a record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Chain {
    /// Files.
    pub files: u64,
    /// All of them, bytes.
    pub bytes: u64,
    /// Lines that fit.
    pub lines: u64,
    /// Number of the oldest file: more than 1 if older ones were removed.
    pub first_file: u64,
    /// The last hash.
    pub last: Hash,
    /// The first places where it is broken.
    pub faults: Vec<Fault>,
    /// Number of such places.
    pub fault_count: u64,
    /// Lines that were cut off.
    pub torn: Vec<TornLine>,
    /// True if the hash that was looked for is that of a line here, and all before it fits; none if none was
    /// looked for.
    pub contains: Option<bool>,
    /// True if the hash that was looked for stands at a line that does not fit, or after one: what stands
    /// before that place is not proven.
    pub is_after_fault: bool,
    /// The oldest file says that the hash that was looked for was the last one before it. Anybody can
    /// write that: it proves nothing.
    pub is_named: bool,
}

impl Chain {
    /// True if nothing speaks against it.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.fault_count == 0 && self.contains != Some(false)
    }
}

/// Reasons why a record cannot be read.
#[derive(Debug)]
pub enum ReadError {
    /// The directory or a file of it.
    Io(PathBuf, io::Error),
    /// There is none in the directory.
    Empty(PathBuf),
    /// A file is none of a record.
    Foreign(PathBuf),
    /// A file has a format of another version.
    Format(PathBuf, u64),
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadError::Io(path, why) if why.kind() == io::ErrorKind::NotFound => write!(
                f,
                "{}: {why}: the daemon keeps a record if 'directory' stands under [audit] in its \
                 configuration; name that directory with --record",
                path.display()
            ),
            ReadError::Io(path, why) if why.kind() == io::ErrorKind::PermissionDenied => write!(
                f,
                "{}: {why}: the daemon's user and group may read it, and root",
                path.display()
            ),
            ReadError::Io(path, why) => write!(f, "{}: {why}", path.display()),
            ReadError::Empty(path) => write!(
                f,
                "{}: there is no record here (record-000001.jsonl …): name the 'directory' of [audit] \
                 with --record",
                path.display()
            ),
            ReadError::Foreign(path) => write!(
                f,
                "{}: is not a file of a record, or its first line was changed: move it away if it is \
                 not the daemon's",
                path.display()
            ),
            ReadError::Format(path, format) => write!(
                f,
                "{}: has format {format}, and this program knows {FORMAT}: read it with the program \
                 that wrote it, or a newer one",
                path.display()
            ),
        }
    }
}

impl std::error::Error for ReadError {}

/// The files of a record, oldest first.
///
/// # Errors
/// If the directory cannot be read.
pub fn files(folder: &Path) -> io::Result<Vec<(u64, PathBuf)>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let name = entry?.file_name();
        if let Some(number) = name.to_str().and_then(file_number) {
            found.push((number, folder.join(name)));
        }
    }
    found.sort();
    Ok(found)
}

/// Reads a record, checks its chain, and gives every line that fits to `take`, oldest first, and in its
/// place each fault. `wanted` is a hash to look for.
///
/// # Errors
/// If the directory or a file cannot be read, or is none of a record.
pub fn read(folder: &Path, wanted: Option<&Hash>, take: Take<'_>) -> Result<Chain, ReadError> {
    let files = files(folder).map_err(|why| ReadError::Io(folder.to_owned(), why))?;
    if files.is_empty() {
        return Err(ReadError::Empty(folder.to_owned()));
    }
    let mut scan = Scan::new(wanted);
    let last = files.len() - 1;
    for (n, (number, path)) in files.iter().enumerate() {
        let bytes = match content(path) {
            // Removed by the daemon since: there was no room for it.
            Err(why)
                if why.kind() == io::ErrorKind::NotFound && scan.chain.files == 0 && n < last =>
            {
                continue;
            }
            read => read.map_err(|why| ReadError::Io(path.clone(), why))?,
        };
        scan.file(*number, &bytes, n == last, take).map_err(|why| match why {
            None => ReadError::Foreign(path.clone()),
            Some(format) => ReadError::Format(path.clone(), format),
        })?;
    }
    Ok(scan.finish())
}

/// A plain file, through no link.
fn content(path: &Path) -> io::Result<Vec<u8>> {
    use std::io::Read;
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = std::fs::File::from(rustix::fs::open(path, flags, Mode::empty())?);
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("is not a regular file"));
    }
    let mut bytes = Vec::new();
    file.take(LARGEST_FILE + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LARGEST_FILE {
        return Err(io::Error::other("is larger than any file of a record"));
    }
    Ok(bytes)
}

/// The check of a chain, file by file.
#[derive(Debug)]
pub struct Scan<'w> {
    chain: Chain,
    wanted: Option<&'w Hash>,
    /// Number of the file before.
    before: Option<u64>,
}

impl<'w> Scan<'w> {
    /// At the beginning, with a hash to look for.
    #[must_use]
    pub fn new(wanted: Option<&'w Hash>) -> Scan<'w> {
        let chain = Chain {
            files: 0,
            bytes: 0,
            lines: 0,
            first_file: 0,
            last: Hash::none(),
            faults: Vec::new(),
            fault_count: 0,
            torn: Vec::new(),
            contains: wanted.map(|_| false),
            is_after_fault: false,
            is_named: false,
        };
        Scan { chain, wanted, before: None }
    }

    /// Reads the next file.
    ///
    /// # Errors
    /// If it is none of a record, or has another format: which.
    pub fn file(
        &mut self,
        number: u64,
        bytes: &[u8],
        is_last: bool,
        take: Take<'_>,
    ) -> Result<(), Option<u64>> {
        let name = file_name(number);
        self.chain.files += 1;
        self.chain.bytes += bytes.len() as u64;
        let mut lines = bytes.split_inclusive(|b| *b == b'\n').zip(1..).peekable();
        let headed = lines.peek().is_some_and(|(line, _)| line.ends_with(b"\n"));
        if !headed && is_last && self.before.is_some() {
            // The daemon has just begun it, or did not come further.
            self.torn(&name, 1, bytes.len() as u64, false);
            return Ok(());
        }
        self.header(&name, number, lines.peek().map_or(&[][..], |(line, _)| line), take)?;
        self.before = Some(number);
        while let Some((line, n)) = lines.next() {
            let Some(whole) = line.strip_suffix(b"\n") else {
                if is_last {
                    self.torn(&name, n, line.len() as u64, false);
                } else {
                    self.fault(&name, n, "is cut off, and nothing says why", take);
                }
                continue;
            };
            let next = lines.peek().map(|(line, _)| *line);
            if next.is_some_and(|next| tells(next, whole)) {
                self.torn(&name, n, whole.len() as u64, true);
                continue;
            }
            self.line(&name, n, whole, take);
        }
        Ok(())
    }

    /// Findings.
    #[must_use]
    pub fn finish(self) -> Chain {
        self.chain
    }

    /// Looks at the first line: whether this is a file of a record, and the one that comes next.
    fn header(
        &mut self,
        name: &str,
        number: u64,
        line: &[u8],
        take: Take<'_>,
    ) -> Result<(), Option<u64>> {
        let value: serde_json::Value = serde_json::from_slice(line).map_err(|_| None)?;
        let format = value.get("record").and_then(|header| header.get("format"));
        match format.and_then(serde_json::Value::as_u64) {
            None => return Err(None),
            Some(format) if format != u64::from(FORMAT) => return Err(Some(format)),
            Some(_) => {}
        }
        let header = line.strip_suffix(b"\n").and_then(split).and_then(|(c, _)| Line::parse(c));
        let Some(Line::Record(header)) = header else { return Err(None) };
        if header.file != number {
            let text = format!("says that it is file {}: it was renamed", header.file);
            self.fault(name, 1, &text, take);
        }
        match self.before {
            None => {
                (self.chain.first_file, self.chain.last) = (number, header.previous);
                self.chain.is_named = self.wanted == Some(&self.chain.last);
                if number == 1 && self.chain.last != Hash::none() {
                    self.fault(name, 1, "is the first file, and names a hash from before it", take);
                }
            }
            Some(before) if before.saturating_add(1) != number => {
                let missing = file_name(before.saturating_add(1));
                let text = format!("{missing} is missing before it");
                self.fault(name, 0, &text, take);
                self.chain.last = header.previous;
            }
            Some(_) if header.previous != self.chain.last => {
                let text = if header.previous == Hash::none() {
                    "begins a new chain: the end of the file before was damaged or changed"
                } else {
                    "does not go on from the file before: lines were removed there, or changed"
                };
                self.fault(name, 1, text, take);
                self.chain.last = header.previous;
            }
            Some(_) => {}
        }
        Ok(())
    }

    fn line(&mut self, name: &str, n: u64, line: &[u8], take: Take<'_>) {
        let Some((content, hash)) = split(line).filter(|_| line.len() < LONGEST_LINE) else {
            return self.fault(name, n, "is no line of a record: it was changed or put in", take);
        };
        let fits = self.chain.last.next(content) == hash;
        if !fits {
            let text = "its hash does not fit: it was changed, or lines before it were removed, put in or \
                        moved";
            self.fault(name, n, text, take);
        }
        // From here on it is judged by what this line says, so that one change is one fault.
        self.look(&hash);
        self.chain.last = hash;
        if !fits {
            return;
        }
        match Line::parse(content) {
            Some(Line::Record(_)) if n != 1 => {
                self.fault(name, n, "begins a file within a file", take);
            }
            Some(parsed) => {
                self.chain.lines += 1;
                take(Ok(parsed));
            }
            None => {
                self.fault(name, n, "has a hash that fits, and is no line of this format", take);
            }
        }
    }

    fn look(&mut self, hash: &Hash) {
        if self.wanted == Some(hash) && self.chain.contains == Some(false) {
            // A line that does not fit is a fault already: anybody can write a hash at its end.
            self.chain.contains = Some(self.chain.fault_count == 0);
            self.chain.is_after_fault = self.chain.fault_count > 0;
        }
    }

    fn fault(&mut self, file: &str, line: u64, text: &str, take: Take<'_>) {
        self.chain.fault_count += 1;
        let fault = Fault { file: file.into(), line, text: text.into() };
        take(Err(&fault));
        if self.chain.faults.len() < TOLD {
            self.chain.faults.push(fault);
        }
    }

    fn torn(&mut self, file: &str, line: u64, bytes: u64, is_told: bool) {
        if self.chain.torn.len() < TOLD {
            self.chain.torn.push(TornLine { file: file.into(), line, bytes, is_told });
        }
    }
}

/// True if a line says that the one before it was cut off, and means the very one.
fn tells(next: &[u8], torn: &[u8]) -> bool {
    let content = next.strip_suffix(b"\n").and_then(split).map(|(content, _)| content);
    let Some(Line::Event(Event { kind: Kind::Torn, torn: Some(Torn { bytes, sha256 }), .. })) =
        content.and_then(Line::parse)
    else {
        return false;
    };
    bytes == torn.len() as u64 && sha256 == Hash::of(torn)
}
