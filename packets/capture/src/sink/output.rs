//! Bytes on their way to a file: whole blocks only.

use std::fs::{File, TryLockError};
use std::io::{self, BufReader, Read as _, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use truechimer_files::{Access, Entry, Kind};
use truechimer_pcapng::Frames;

use super::SinkError;
use crate::sink::encode;

/// A file that is written to.
#[derive(Debug)]
pub struct Output {
    file: File,
    name: String,
    /// A regular file: it can be cut back, and it may become full.
    regular: bool,
    /// Bytes of whole blocks in it.
    position: u64,
    compressor: Option<Compressor>,
}

/// `zstd`, which reads from a pipe and writes the file. A writer that is killed
/// closes the pipe, so that all that was handed on is in the file, which has an end.
#[derive(Debug)]
struct Compressor {
    child: Child,
    /// The file that it writes.
    file: File,
    /// Words for the user go there.
    tell: Option<fn(&str)>,
}

/// Compression that ended badly.
#[derive(Debug)]
pub struct BadEnd {
    /// Error for the user.
    pub why: SinkError,
    /// Packets that a reader finds in the file all the same, of each interface; short where there are none.
    pub found: Vec<u64>,
}

/// Fate of some blocks.
#[derive(Debug)]
pub enum Outcome {
    /// They are written.
    Whole,
    /// Written in part: so many bytes, up to the end of a block; then there was no space.
    Full(usize, io::Error),
}

impl Output {
    /// Standard output.
    pub fn standard() -> Result<Output, SinkError> {
        let name = "standard output".to_owned();
        match io::stdout().as_fd().try_clone_to_owned() {
            Ok(fd) => Output::over(File::from(fd), name, false),
            Err(why) => Err(SinkError::Failed { file: name, doing: "opening", why }),
        }
    }

    /// The file there, emptied if it is a plain one. A new one is for its owner's eyes only:
    /// captures are other people's letters. (An old one keeps its permissions.)
    pub fn open(path: &Path) -> Result<Output, SinkError> {
        let name = path.display().to_string();
        let failed = |doing, why| SinkError::Failed { file: name.clone(), doing, why };
        let entry = Entry::at(path).map_err(|why| failed("opening", why))?;
        let refused = match entry.status().ok().flatten().map(|there| there.kind) {
            Some(Kind::Directory) => Some("is a directory: name a file in it"),
            Some(Kind::BlockDevice) => {
                Some("is a block device: a capture would destroy what is on it")
            }
            Some(Kind::Socket) => Some("is a socket"),
            _ => None,
        };
        if let Some(why) = refused {
            return Err(failed("opening", io::Error::other(why)));
        }
        let opened = entry.open(Access::Write, 0o600);
        let file = opened.map_err(|why| failed("opening", why))?;
        let regular = file.metadata().map_err(|why| failed("looking at", why))?.is_file();
        if regular {
            // Two captures in one file would leave rubbish. A file system that knows no locks has
            // nobody to tell us of.
            if let Err(TryLockError::WouldBlock) = file.try_lock() {
                let why = io::Error::other("another capture writes to it: name another file");
                return Err(failed("opening", why));
            }
            file.set_len(0).map_err(|why| failed("emptying", why))?;
        }
        Output::over(file, name, regular)
    }

    fn over(file: File, name: String, regular: bool) -> Result<Output, SinkError> {
        Ok(Output { file, name, regular, position: 0, compressor: None })
    }

    /// The file there, as [`Output::open`] has it, compressed at this level by zstd(1). `tell` is told what takes long.
    pub fn compressed(path: &Path, level: u8, tell: Option<fn(&str)>) -> Result<Output, SinkError> {
        let Output { file, name, .. } = Output::open(path)?;
        let failed = |why| SinkError::Failed { file: name.clone(), doing: "starting zstd(1)", why };
        let mut command = Command::new("zstd");
        command.args(["-q", "-c", "-T1", &format!("-{level}")]);
        // In a group of its own: Ctrl-C is for us, and it is to write what it has.
        command.process_group(0).stdin(Stdio::piped());
        command.stdout(file.try_clone().map_err(failed)?);
        let mut child = command.spawn().map_err(failed)?;
        let input = child.stdin.take().ok_or_else(|| failed(io::ErrorKind::BrokenPipe.into()))?;
        let compressor = Some(Compressor { child, file, tell });
        let file = File::from(OwnedFd::from(input));
        Ok(Output { file, name, regular: false, position: 0, compressor })
    }

    /// True where all is to be written at once: somebody reads along.
    pub fn is_read_along(&self) -> bool {
        !self.regular && self.compressor.is_none()
    }

    /// True of a compressed one.
    pub fn is_compressed(&self) -> bool {
        self.compressor.is_some()
    }

    /// Bytes of the file: of a compressed one, those that are there by now.
    pub fn length(&self) -> u64 {
        let there = self.compressor.as_ref().map(|one| one.file.metadata());
        there.map_or(self.position, |there| there.map_or(0, |there| there.len()))
    }

    /// Nothing more is written; of a compressed one, until all of it is there.
    ///
    /// # Errors
    /// Where the compression ended badly.
    pub fn end(&mut self) -> Result<(), BadEnd> {
        let Some(Compressor { mut child, file, tell }) = self.compressor.take() else {
            return Ok(());
        };
        let handed = self.position;
        // It ends where its input does: with the pipe, which is closed here.
        self.file = file;
        let status = child.wait();
        self.position = self.file.metadata().map_or(0, |there| there.len());
        let why = match status {
            Ok(status) if status.success() => return Ok(()),
            Ok(status) => io::Error::other(format!("zstd ended with {status}")),
            Err(why) => why,
        };
        if let Some(tell) = tell {
            tell(&format!(
                "{}: {why}: counting the packets that are there, in up to {} unpacked; interrupt twice to give that up",
                self.name,
                size(handed)
            ));
        }
        // What cannot be read counts as lost.
        let found = readable(&self.file, handed).unwrap_or_default();
        Err(BadEnd { why: self.failed("compressing", why), found })
    }

    /// Name of it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Number of bytes written.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Writes blocks.
    pub fn write(&mut self, blocks: &[u8]) -> Result<Outcome, SinkError> {
        let mut rest = blocks;
        while !rest.is_empty() {
            match self.file.write(rest) {
                Ok(0) => return self.full(blocks, rest.len(), io::ErrorKind::WriteZero.into()),
                Ok(written) => rest = rest.get(written..).unwrap_or_default(),
                Err(why) => match why.kind() {
                    io::ErrorKind::Interrupted => {}
                    // Somebody made the pipe so, and it is full.
                    io::ErrorKind::WouldBlock => std::thread::sleep(Duration::from_millis(1)),
                    io::ErrorKind::BrokenPipe if self.compressor.is_some() => {
                        let why = io::Error::other("zstd has ended: what it said is above");
                        return Err(self.failed("compressing", why));
                    }
                    io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => {
                        return Err(SinkError::Closed);
                    }
                    io::ErrorKind::StorageFull
                    | io::ErrorKind::QuotaExceeded
                    | io::ErrorKind::FileTooLarge
                        if self.regular =>
                    {
                        return self.full(blocks, rest.len(), why);
                    }
                    _ => return Err(self.failed("writing", why)),
                },
            }
        }
        self.position += blocks.len() as u64;
        Ok(Outcome::Whole)
    }

    /// Cuts the file back to its last whole block.
    fn full(&mut self, blocks: &[u8], left: usize, why: io::Error) -> Result<Outcome, SinkError> {
        if !self.regular {
            return Err(self.failed("writing", why));
        }
        let written = blocks.len() - left;
        let whole = encode::ends(blocks).take_while(|end| *end <= written).last().unwrap_or(0);
        self.position += whole as u64;
        let cut = self.file.set_len(self.position);
        cut.and_then(|()| self.file.seek(SeekFrom::Start(self.position)))
            .map_err(|why| self.failed("cutting back", why))?;
        Ok(Outcome::Full(whole, why))
    }

    fn failed(&self, doing: &'static str, why: io::Error) -> SinkError {
        SinkError::Failed { file: self.name.clone(), doing, why }
    }
}

/// Bytes in words, for people.
fn size(bytes: u64) -> String {
    match bytes {
        0..1_000_000 => format!("{bytes} bytes"),
        1_000_000..1_000_000_000 => format!("{} MB", bytes / 1_000_000),
        _ => format!("{} GB", bytes / 1_000_000_000),
    }
}

/// Packets of each interface in a compressed file that lacks its end: what zstd(1) can unpack of it, as it comes, up to
/// `handed` bytes. No more was written, so that whatever is beyond is not ours, and would unpack without an end.
///
/// # Errors
/// If it cannot be read again: it is no plain file, say.
fn readable(file: &File, handed: u64) -> io::Result<Vec<u64>> {
    if !file.metadata()?.is_file() {
        return Err(io::ErrorKind::Unsupported.into());
    }
    // It is open for writing alone, and may have no name any more.
    let again = File::open(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
    let mut command = Command::new("zstd");
    command.args(["-q", "-d", "-c"]).process_group(0);
    command.stdin(again).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn()?;
    let mut found = Vec::new();
    if let Some(unpacked) = child.stdout.take()
        && let Ok(mut frames) = Frames::new(BufReader::new(unpacked.take(handed)))
    {
        while let Ok(Some(frame)) = frames.next_frame() {
            let number = frame.interface as usize;
            found.resize(found.len().max(number + 1), 0);
            found.iter_mut().skip(number).take(1).for_each(|packets| *packets += 1);
        }
    }
    child.wait()?;
    Ok(found)
}

#[cfg(test)]
mod tests {
    use truechimer_testbed::lacking::{Lacking, or_skip};

    use super::*;

    #[test]
    fn no_more_is_unpacked_than_was_handed_on() {
        let word = |word: u32| word.to_le_bytes();
        let mut head = Vec::new();
        for word in [0xa1b2_3c4d_u32, 0x0004_0002, 0, 0, 65_535, 1].map(word) {
            head.extend(word);
        }
        let mut frame: Vec<u8> = [1_u32, 1, 1000, 1000].map(word).concat();
        frame.extend([0; 1000]);
        let path =
            std::env::temp_dir().join(format!("truechimer-unpacked-{}.zst", std::process::id()));
        let Some(mut output) =
            or_skip(Output::compressed(&path, 1, None).map_err(|why| Lacking(why.to_string())))
        else {
            return;
        };
        output.write(&head).unwrap();
        // 300 MB in a few kB.
        let many = frame.repeat(1000);
        for _ in 0..300 {
            output.write(&many).unwrap();
        }
        output.end().unwrap();
        assert!(output.position() < 1_000_000, "{} bytes", output.position());
        let of = |handed: u64| readable(&output.file, handed).unwrap();
        assert_eq!(of(u64::MAX), [300_000]);
        assert_eq!(of((head.len() + 7 * frame.len() + 20) as u64), [7]);
        assert_eq!(of(10), Vec::<u64>::new());
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn sizes_are_for_people() {
        assert_eq!([999, 2_500_000, 3_000_000_000].map(size), ["999 bytes", "2 MB", "3 GB"]);
    }
}
