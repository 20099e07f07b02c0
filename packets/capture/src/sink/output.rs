//! Bytes on their way to a file: whole blocks only.

use std::fs::{File, TryLockError};
use std::io::{self, Seek, SeekFrom, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::time::Duration;

use truechimer_files::{Access, Entry, Kind};

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
        Ok(Output { file, name, regular, position: 0 })
    }

    /// Name of it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether it is a plain file rather than a pipe or a device.
    pub fn regular(&self) -> bool {
        self.regular
    }

    /// How many bytes were written.
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
