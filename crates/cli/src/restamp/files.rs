//! The file that is written, and what is put into it.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use truechimer_pcapng::records::{PACKET_BYTES, PacketRecord};
use truechimer_pcapng::{Block, Resolution};

use crate::failure::Failure;

use super::stamper::Anew;

/// Where the upper half of the time stands in the block of a packet.
const TIME_AT: usize = 12;

/// A capture that is being written. It gets its name when it is complete; until then an older file
/// of that name stays (it may be the one that is being read).
pub struct Rewritten {
    file: BufWriter<Box<dyn Write>>,
    name: String,
    /// From where to where it moves at the end.
    moves: Option<(PathBuf, PathBuf)>,
}

impl Rewritten {
    /// Begins; `-` is standard output.
    pub fn create(path: &Path) -> Result<Rewritten, Failure> {
        let (file, name, moves): (Box<dyn Write>, _, _) = if path.as_os_str() == "-" {
            (Box::new(io::stdout()), "standard output".to_owned(), None)
        } else {
            let name = path.display().to_string();
            let failed = |why: io::Error| Failure::new(&name, why);
            match std::fs::metadata(path) {
                Ok(there) if there.is_dir() => {
                    return Err(Failure::new(&name, "is a directory: name a file in it"));
                }
                // A pipe or a device is written to as it is.
                Ok(there) if !there.is_file() => {
                    let file = OpenOptions::new().write(true).open(path).map_err(failed)?;
                    (Box::new(file), name, None)
                }
                _ => {
                    // Beside the file itself, through links, so that a move is no copy.
                    let target = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
                    let mut beside = target.clone().into_os_string();
                    beside.push(format!(".{}.tmp", std::process::id()));
                    let beside = PathBuf::from(beside);
                    let mut how = OpenOptions::new();
                    how.write(true).create_new(true).mode(0o600);
                    let file: File = how.open(&beside).map_err(failed)?;
                    if let Ok(old) = std::fs::metadata(&target) {
                        file.set_permissions(old.permissions()).map_err(failed)?;
                    }
                    (Box::new(file), name, Some((beside, target)))
                }
            }
        };
        Ok(Rewritten { file: BufWriter::with_capacity(1 << 18, file), name, moves })
    }

    /// Writes a block.
    pub fn block(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.file.write_all(bytes).map_err(|why| failure(&self.name, why))
    }

    /// Completes it; its name.
    pub fn finish(mut self) -> Result<String, Failure> {
        self.file.flush().map_err(|why| failure(&self.name, why))?;
        if let Some((from, to)) = self.moves.take() {
            std::fs::rename(&from, &to).map_err(|why| failure(&self.name, why))?;
        }
        Ok(std::mem::take(&mut self.name))
    }
}

impl Drop for Rewritten {
    fn drop(&mut self) {
        if let Some((from, _)) = &self.moves {
            // Not complete: nobody wants it.
            let _ = std::fs::remove_file(from);
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
