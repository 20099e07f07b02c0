//! The file that is written, and what is put into it.

use std::io::{self, BufWriter, Write};
use std::path::Path;

use truechimer_files::{Access, Durable, Entry, Kind, Replacement};
use truechimer_pcapng::{Block, Opt, Order, Resolution, code, edit};

use truechimer_command::Failure;

use super::others::COMMENT;

/// A capture that is being written. It gets its name when it is complete; until then an older file
/// of that name stays (it may be the one that is being read).
pub struct Rewritten {
    file: BufWriter<To>,
    name: String,
}

/// Where the bytes go.
enum To {
    /// Standard output, a pipe, a device.
    Stream(Box<dyn Write>),
    /// A file that takes its place at the end.
    Replaces(Replacement),
}

impl Rewritten {
    /// Begins; `-` is standard output.
    pub fn create(path: &Path) -> Result<Rewritten, Failure> {
        let (to, name) = if path.as_os_str() == "-" {
            (To::Stream(Box::new(io::stdout())), "standard output".to_owned())
        } else {
            let name = path.display().to_string();
            let failed = |why: io::Error| Failure::new(&name, why);
            let entry = Entry::at(path).map_err(failed)?;
            let there = entry.status().map_err(failed)?;
            let to = match there.map(|there| there.kind) {
                Some(Kind::Directory) => {
                    return Err(Failure::new(&name, "is a directory: name a file in it"));
                }
                Some(Kind::RegularFile) | None => {
                    // A mode that somebody else chose is none for a capture.
                    let old = there.filter(|_| !entry.is_shared());
                    let mode = old.map_or(0o600, |there| there.mode & 0o777);
                    To::Replaces(entry.replace(mode).map_err(failed)?)
                }
                // A pipe or a device is written to as it is.
                Some(_) => To::Stream(Box::new(entry.open(Access::Write, 0o600).map_err(failed)?)),
            };
            (to, name)
        };
        Ok(Rewritten { file: BufWriter::with_capacity(1 << 18, to), name })
    }

    /// Writes a block.
    pub fn block(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.file.write_all(bytes).map_err(|why| failure(&self.name, why))
    }

    /// Completes it; its name.
    pub fn finish(self) -> Result<String, Failure> {
        let failed = |why| failure(&self.name, why);
        match self.file.into_inner().map_err(|why| failed(why.into_error()))? {
            // It may be the only capture there is that it replaces.
            To::Replaces(new) => new.commit(Durable::Yes).map_err(failed)?,
            To::Stream(mut stream) => stream.flush().map_err(failed)?,
        }
        Ok(self.name)
    }
}

impl Write for To {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            To::Stream(stream) => stream.write(bytes),
            To::Replaces(new) => new.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            To::Stream(stream) => stream.flush(),
            To::Replaces(new) => new.flush(),
        }
    }
}

fn failure(name: &str, why: io::Error) -> Failure {
    match why.kind() {
        io::ErrorKind::BrokenPipe => Failure::Unread,
        _ => Failure::new(name, why),
    }
}

/// Puts a new time into the copy of a packet's block, whose time stands at `at`, unless it is the one
/// that stands there.
pub fn put(
    copy: &mut [u8],
    block: &Block<'_>,
    at: usize,
    unix_ns: i64,
    resolution: Resolution,
) -> Result<(), String> {
    let then = block.order.halves(block.bytes, at).and_then(|ticks| resolution.nanos(ticks));
    if then == Some(unix_ns) {
        return Ok(());
    }
    let why = "the new time cannot be written in the units of its interface";
    let ticks = resolution.ticks(unix_ns).ok_or(why)?;
    let halves = [(ticks >> 32) as u32, ticks as u32].map(|half| block.order.bytes(half));
    let field = copy.get_mut(at..at + 8).ok_or("no room for its time")?;
    field.copy_from_slice(halves.as_flattened());
    Ok(())
}

/// Puts the account of an interface of others into the copy of its block, as a comment.
pub fn describe(copy: &mut Vec<u8>, order: Order, begin: usize, text: &str) -> Result<(), String> {
    let is_ours = |option: &Opt<'_>| {
        option.code == code::COMMENT && option.value.starts_with(COMMENT.as_bytes())
    };
    edit::replace(copy, (order, begin), is_ours, (code::COMMENT, text.as_bytes()), true)
}
