//! The file that is written, and what is put into it.

use std::io::{self, BufWriter, Write};
use std::path::Path;

use truechimer_files::{Access, Durable, Entry, Kind, Replacement};
use truechimer_pcapng::records::{PACKET_BYTES, PacketRecord};
use truechimer_pcapng::{Block, Resolution};

use truechimer_command::Failure;

use super::stamper::Anew;

/// Where the upper half of the time stands in the block of a packet.
const TIME_AT: usize = 12;

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
            To::Replaces(new) => new.commit(Durable::No).map_err(failed)?,
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

/// Puts a new time into the copy of a packet's block, whose record begins at `at`. False if the
/// units of its interface cannot hold it.
pub fn put(
    copy: &mut [u8],
    block: &Block<'_>,
    at: usize,
    old: &PacketRecord,
    anew: &Anew,
    resolution: Resolution,
) -> bool {
    let ticks_then =
        block.order.u32(block.bytes, TIME_AT).zip(block.order.u32(block.bytes, TIME_AT + 4));
    let nanos_then = ticks_then
        .and_then(|(high, low)| resolution.nanos((u64::from(high) << 32) | u64::from(low)));
    if nanos_then != Some(anew.unix_ns) {
        let Some(ticks) = resolution.ticks(anew.unix_ns) else { return false };
        let halves = [(ticks >> 32) as u32, ticks as u32].map(|half| block.order.bytes(half));
        match copy.get_mut(TIME_AT..TIME_AT + 8) {
            Some(field) => field.copy_from_slice(halves.as_flattened()),
            None => return false,
        }
    }
    if anew.record != *old {
        match copy.get_mut(at..at + PACKET_BYTES) {
            Some(field) => field.copy_from_slice(&anew.record.encode()),
            None => return false,
        }
    }
    true
}
