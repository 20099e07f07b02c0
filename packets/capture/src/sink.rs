//! Where packets go: capture files.
//!
//! A [`Sink`] takes packets with their times; [`CaptureFile`] writes them as pcapng, to a file, to
//! a row of files, or to standard output. How the files look is in `docs/reference/capture-files.md`.
//!
//! # When things go wrong
//! * Blocks are written whole, and at the latest a second after they came: whoever kills the
//!   program loses that second at the most. (A kill in the midst of a write may leave half a block
//!   at the end, which readers of captures cope with.)
//! * A full disk does not end the capture. The file is cut back to its last whole block, packets
//!   that do not fit are counted in [`Written::unwritten`], [`Written::trouble`] says why, and once
//!   a second it is tried again: the first packet that fits bears a mark that says how many are
//!   missing before it.
//! * Compression that ends badly, as on a full disk, ends the capture. Each file that lacks its end is
//!   read once more, and its packets that are not found there are in [`Written::unwritten`].
//! * A reader of a pipe that has gone away is [`SinkError::Closed`].
//! * Anything else that the system refuses ends it, with an error that names the file.

use std::fmt;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::Duration;

mod encode;
mod file;
mod names;
mod output;
mod several;

pub use encode::{bound_ns, clock};
pub use file::CaptureFile;
pub use several::{Together, several};

use crate::convert::Change;
use crate::{Losses, Packet, Stamped};

/// Takes packets with their times, one after the other.
pub trait Sink: Send {
    /// Takes one packet; false where there is no room for it at the moment, so that it is lost and in
    /// [`Written::unwritten`].
    ///
    /// # Errors
    /// Where nothing more can be written, this packet included: [`Written`] does not have it. A full disk is not
    /// such an error, unless files are compressed.
    fn packet(&mut self, packet: &Packet<'_>, stamped: &Stamped) -> Result<bool, SinkError>;

    /// The clock changed: for all packets from here on, until the next change. Should be called
    /// once before the first packet, so that the file begins with it.
    ///
    /// # Errors
    /// As [`Sink::packet`].
    fn change(&mut self, change: &Change) -> Result<(), SinkError>;

    /// Something happened that whoever reads the packets must know.
    ///
    /// # Errors
    /// As [`Sink::packet`].
    fn mark(&mut self, mark: Mark) -> Result<(), SinkError>;

    /// Takes the tap's losses so far, for the statistics. `dropped`: packets that the pipeline
    /// itself dropped between tap and sink.
    fn losses(&mut self, losses: &Losses, dropped: u64);

    /// Hands on what is still held back; a new file is begun if it is time. To be called after
    /// each chunk, and every 100 ms while nothing comes.
    ///
    /// # Errors
    /// As [`Sink::packet`].
    fn flush(&mut self) -> Result<(), SinkError>;

    /// Outcome so far.
    fn written(&self) -> &Written;

    /// Writes the statistics and ends. Nothing can be written after it.
    ///
    /// # Errors
    /// If the end of the file cannot be written.
    fn finish(&mut self) -> Result<Written, SinkError>;
}

/// Something that happened between two packets.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Mark {
    /// The interface went down.
    Down,
    /// Up again.
    Up,
    /// Gone for good.
    Gone,
}

/// Account of what was written.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Written {
    /// Packets that were handed to the system.
    pub packets: u64,
    /// Packets that could not be, or were not found there after compression had ended badly.
    pub unwritten: u64,
    /// Bytes of all files together.
    pub bytes: u64,
    /// Number of files begun.
    pub files: u64,
    /// The present file; `None` for standard output.
    pub file: Option<PathBuf>,
    /// Trouble at the moment, if any: "FILE: no space left on device".
    pub trouble: Option<String>,
}

/// Reason why nothing more can be written.
#[derive(Debug)]
pub enum SinkError {
    /// Reader of the packets (the program behind a pipe) has gone: a clean end.
    Closed,
    /// Nothing more can be written, for a reason that another interface of the same capture was told.
    Elsewhere,
    /// Anything else.
    Failed {
        /// The file, or "standard output".
        file: String,
        /// Attempt that failed: "writing".
        doing: &'static str,
        /// Error of the system.
        why: io::Error,
    },
}

impl fmt::Display for SinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SinkError::Closed => f.write_str("nobody reads the packets any more"),
            SinkError::Elsewhere => f.write_str("writing failed for another interface"),
            SinkError::Failed { file, doing, why } => {
                write!(f, "{file}: {doing}: {why}")?;
                let folder = Path::new(file).parent().filter(|_| why.kind() == ErrorKind::NotFound);
                match folder.filter(|folder| !folder.as_os_str().is_empty()) {
                    Some(folder) => {
                        write!(f, "; is there a directory {}? Make it first", folder.display())
                    }
                    None => Ok(()),
                }
            }
        }
    }
}

impl std::error::Error for SinkError {}

/// Where to write and how.
#[derive(Clone, Debug, Default)]
pub struct FileOptions {
    /// The file; `-` is standard output. A directory is refused.
    pub path: PathBuf,
    /// Begin another file when one is so large, in bytes.
    pub rotate_bytes: Option<u64>,
    /// Begin another file after so long.
    pub rotate_after: Option<Duration>,
    /// Compress by zstd(1), at this level, 1 to 19. A full disk ends such a capture.
    pub zstd: Option<u8>,
    /// Keep so many files and delete older ones.
    pub keep: Option<u32>,
    /// Begin no file after so many: the last one goes on.
    pub last: Option<u32>,
    /// The filter, as the user wrote it.
    pub filter: Option<String>,
    /// Name of the host, for the descriptions of its interfaces; none where it has none.
    pub host: Option<String>,
    /// Comments for the section header: clock, bound, method.
    pub comments: Vec<String>,
    /// Say what each packet's record says in a comment of it as well.
    pub packet_comments: bool,
    /// Called with what the user is to know of meanwhile: a compressed file is unpacked once more, to count what is left of it.
    pub tell: Option<fn(&str)>,
}

impl FileOptions {
    /// True if there is to be a row of files.
    fn rotates(&self) -> bool {
        self.rotate_bytes.is_some() || self.rotate_after.is_some()
    }
}
