//! Pulses per second: edges as the kernel stamped them (RFC 2783), and as counts.
//!
//! A [`Pps`] reads the assert edges of a device `/dev/pps*`, or of a plain file that shows the
//! newest one in a line as `/sys/class/pps/pps0/assert` does. The kernel stamps edges with
//! `CLOCK_REALTIME`; an [`EdgeLog`] turns such a stamp into a count, as
//! [`PairLog`](crate::PairLog) does for packets.
//!
//! Nothing relies on poll(2): on kernels before 6.12 it returns at once on such a device, whether
//! there is a new edge or not.

pub mod card;
mod count;
mod device;
mod line;

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

pub use count::EdgeLog;
use device::Device;
pub use line::LineError;

/// Interval at which a plain file is looked at by [`Pps::wait`].
const LOOK: Duration = Duration::from_millis(10);
/// A line is far shorter. More is not read.
const LONGEST: usize = 128;

/// An assert edge: the beginning of a second, as a rule.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Edge {
    /// The kernel's number of the edge: one more each time, and 0 again after 2³² − 1.
    pub sequence: u64,
    /// When the kernel noticed it by its `CLOCK_REALTIME`: Unix time in ns, without the offset
    /// that somebody may have set in the device's parameters.
    pub unix_ns: i64,
}

/// A source of edges.
#[derive(Debug)]
pub struct Pps {
    path: PathBuf,
    form: Form,
    /// The newest edge that is known of.
    last: Option<Edge>,
}

#[derive(Debug)]
enum Form {
    Device(Device),
    /// A plain file is opened anew each time: it may be replaced by another.
    Plain,
}

impl Pps {
    /// Opens a device or a plain file. Edges from before are not reported.
    ///
    /// A device whose driver captures no assert edges yet is told to, which takes CAP_SYS_TIME;
    /// most capture them from the start.
    ///
    /// # Errors
    /// If there is no such file, or it shows no assert edges.
    pub fn open(path: &Path) -> Result<Pps, PpsError> {
        let kind = fs::metadata(path).map_err(|why| failed(path, "opened", why))?.file_type();
        let form = if kind.is_char_device() {
            Form::Device(Device::open(path)?)
        } else if kind.is_file() {
            Form::Plain
        } else {
            return Err(PpsError::NoSuchKind { path: path.into() });
        };
        let mut pps = Pps { path: path.into(), form, last: None };
        pps.last = pps.newest()?;
        Ok(pps)
    }

    /// Where it was opened.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The newest edge, if it is another than the last one that was seen. Never waits. Edges that
    /// came in between are lost: their number shows in the sequence.
    ///
    /// # Errors
    /// If the device is gone (open it again), or the file shows something else.
    pub fn fetch(&mut self) -> Result<Option<Edge>, PpsError> {
        let newest = self.newest()?;
        Ok(self.note(newest))
    }

    /// The next edge, or `None` if none came for so long, or a signal did. A device is waited for
    /// in the kernel if it can be, and so are its edges told within microseconds; a plain file is
    /// looked at every 10 ms.
    ///
    /// # Errors
    /// As [`Pps::fetch`] does.
    pub fn wait(&mut self, timeout: Duration) -> Result<Option<Edge>, PpsError> {
        let begun = Instant::now();
        loop {
            if let Some(edge) = self.fetch()? {
                return Ok(Some(edge));
            }
            let left = timeout.saturating_sub(begun.elapsed());
            if left.is_zero() {
                return Ok(None);
            }
            match &self.form {
                Form::Device(device) if device.can_wait() => {
                    match device.wait(&self.path, left)? {
                        device::Waited::Edge => {}
                        device::Waited::TimedOut => return self.fetch(),
                        device::Waited::Interrupted => return Ok(None),
                    }
                }
                _ => std::thread::sleep(left.min(LOOK)),
            }
        }
    }

    fn note(&mut self, newest: Option<Edge>) -> Option<Edge> {
        let newest = newest.filter(|edge| self.last != Some(*edge))?;
        self.last = Some(newest);
        Some(newest)
    }

    fn newest(&self) -> Result<Option<Edge>, PpsError> {
        match &self.form {
            Form::Device(device) => device.newest(&self.path),
            Form::Plain => {
                let text = read(&self.path)?;
                line::parse(&text).map_err(|why| PpsError::Line {
                    path: self.path.clone(),
                    line: String::from_utf8_lossy(&text).trim_end().to_owned(),
                    why,
                })
            }
        }
    }
}

/// The beginning of a plain file: as much as one line can be, and a byte more.
fn read(path: &Path) -> Result<Vec<u8>, PpsError> {
    let file = open(path, false)?;
    if !file.metadata().map_err(|why| failed(path, "looked at", why))?.is_file() {
        return Err(PpsError::NoSuchKind { path: path.into() });
    }
    let mut bytes = [0; LONGEST + 1];
    let len = file.read_at(&mut bytes, 0).map_err(|why| failed(path, "read", why))?;
    Ok(bytes.get(..len).unwrap_or_default().to_vec())
}

/// Opens without waiting for anybody, whatever it is.
fn open(path: &Path, write: bool) -> Result<File, PpsError> {
    OpenOptions::new()
        .read(true)
        .write(write)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(path)
        .map_err(|why| failed(path, "opened", why))
}

/// Which file it is, however it is called.
fn identity(metadata: &fs::Metadata) -> [u64; 3] {
    [metadata.dev(), metadata.ino(), metadata.rdev()]
}

fn failed(path: &Path, what: &'static str, why: io::Error) -> PpsError {
    PpsError::System { path: path.into(), what, why }
}

/// Reasons why there are no edges to be had. The text names the file and the remedy.
#[derive(Debug)]
pub enum PpsError {
    /// The system refused something.
    System {
        /// The file.
        path: PathBuf,
        /// Attempt that failed, as in "cannot be …".
        what: &'static str,
        /// Error of the operating system.
        why: io::Error,
    },
    /// Neither a character device nor a plain file.
    NoSuchKind {
        /// The file.
        path: PathBuf,
    },
    /// A character device that knows nothing of pulses.
    NotPps {
        /// The file.
        path: PathBuf,
    },
    /// The device's driver cannot capture assert edges.
    NoAssert {
        /// The file.
        path: PathBuf,
    },
    /// The device does not capture assert edges now, and this process may not make it.
    NotCapturing {
        /// The file.
        path: PathBuf,
        /// Error of the operating system.
        why: io::Error,
    },
    /// The device's file is not there any more, or is another device's.
    Gone {
        /// The file.
        path: PathBuf,
    },
    /// A device's stamp that no clock shows.
    Stamp {
        /// The file.
        path: PathBuf,
        /// Seconds of the stamp.
        secs: i64,
        /// Nanoseconds of the stamp.
        nanos: i32,
    },
    /// A plain file's line is not an edge.
    Line {
        /// The file.
        path: PathBuf,
        /// Content of the file.
        line: String,
        /// Fault of the line.
        why: LineError,
    },
}

impl fmt::Display for PpsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PpsError::System { path, what, why } => {
                let path = path.display();
                write!(f, "{path} cannot be {what}: {why}")?;
                match why.kind() {
                    io::ErrorKind::NotFound => f.write_str(
                        ": is the driver loaded (modprobe pps-gpio, or ldattach 18 /dev/ttyS0)?",
                    ),
                    io::ErrorKind::PermissionDenied => {
                        write!(f, ": chgrp {path} to a group of this user's, and chmod g+r")
                    }
                    _ => Ok(()),
                }
            }
            PpsError::NoSuchKind { path } => write!(
                f,
                "{} is neither a device nor a plain file: /dev/pps0 and \
                 /sys/class/pps/pps0/assert are",
                path.display()
            ),
            PpsError::NotPps { path } => write!(
                f,
                "{} is a device, but not a PPS device (RFC 2783): ls /sys/class/pps shows those \
                 that there are",
                path.display()
            ),
            PpsError::NoAssert { path } => {
                write!(f, "the driver of {} cannot capture assert edges", path.display())
            }
            PpsError::NotCapturing { path, why } => write!(
                f,
                "{} does not capture assert edges, and cannot be told to: {why}: it takes \
                 CAP_SYS_TIME, once (ppstest as root)",
                path.display()
            ),
            PpsError::Gone { path } => write!(f, "{} is gone, or another device", path.display()),
            PpsError::Stamp { path, secs, nanos } => write!(
                f,
                "{} shows an edge at {secs} s and {nanos} ns, which no clock does",
                path.display()
            ),
            PpsError::Line { path, line, why } => {
                let line: String = line.chars().take(40).collect();
                write!(
                    f,
                    "{} shows {line:?}, which is no edge ({why}): expected \
                     SECONDS.NANOSECONDS#SEQUENCE, as in 1700000000.000012345#17",
                    path.display()
                )
            }
        }
    }
}

impl std::error::Error for PpsError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            PpsError::System { why, .. } | PpsError::NotCapturing { why, .. } => Some(why),
            PpsError::Line { why, .. } => Some(why),
            _ => None,
        }
    }
}

/// Parses a plain file's content as [`Pps`] does: an edge, none yet, or an error. For fuzzing and
/// for those who have the line from elsewhere.
///
/// # Errors
/// If the bytes are not one line as the kernel writes it.
pub fn parse_line(bytes: &[u8]) -> Result<Option<Edge>, LineError> {
    line::parse(bytes)
}
