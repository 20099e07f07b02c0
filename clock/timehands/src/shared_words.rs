//! Plain words in a file that processes share, for whatever is no page: other ways to publish a
//! clock, which the benchmark compares the ring with.
#![allow(unsafe_code)]

use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Deref;
use std::path::Path;
use std::sync::atomic::AtomicU64;

use memmap2::{MmapOptions, MmapRaw};

/// Words in a file that this process and others have mapped, readable and writable by all of them.
///
/// For a file of one's own in a private directory: who can shorten it can end every process that
/// has it mapped.
pub struct SharedWords(MmapRaw);

impl SharedWords {
    /// A new file with so many words, all 0.
    ///
    /// # Errors
    /// If there is a file of that name already, or the system refuses.
    pub fn create(path: impl AsRef<Path>, count: usize) -> io::Result<SharedWords> {
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(path)?;
        let bytes = u64::try_from(count).ok().and_then(|count| count.checked_mul(8));
        file.set_len(bytes.ok_or(io::ErrorKind::InvalidInput)?)?;
        SharedWords::of(&file)
    }

    /// The words in a file that [`SharedWords::create`] made.
    ///
    /// # Errors
    /// If there is no such file, or the system refuses.
    pub fn open(path: impl AsRef<Path>) -> io::Result<SharedWords> {
        SharedWords::of(&OpenOptions::new().read(true).write(true).open(path)?)
    }

    fn of(file: &File) -> io::Result<SharedWords> {
        let meta = file.metadata()?;
        let count = usize::try_from(meta.len() / 8).map_err(|_| io::ErrorKind::InvalidInput)?;
        if !meta.is_file() || count == 0 {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        MmapOptions::new().len(count * 8).map_raw(file).map(SharedWords)
    }
}

impl Deref for SharedWords {
    type Target = [AtomicU64];

    #[inline(always)]
    fn deref(&self) -> &[AtomicU64] {
        // SAFETY: the mapping is whole words long, aligned to a memory page, writable, and stays
        // until drop; every bit pattern is an AtomicU64, which others may change at any time.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr().cast(), self.0.len() / 8) }
    }
}
