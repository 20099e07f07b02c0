//! A vmclock page, mapped to be read.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use memmap2::{MmapOptions, MmapRaw};

use super::page::WORDS;

/// Number of bytes that are mapped: a page of memory, neither more nor less, as the driver wants.
pub(super) fn length() -> usize {
    // SAFETY: it takes a number, and answers one.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(size).unwrap_or(4096).max(4096)
}

/// The first page of a device or file, mapped read-only until it is dropped.
#[derive(Debug)]
pub(super) struct Mapping(MmapRaw);

impl Mapping {
    /// Maps the first [`length`] bytes of a file that the caller knows to be that long.
    pub fn new(file: &File) -> io::Result<Mapping> {
        MmapOptions::new().len(length()).map_raw_read_only(file).map(Mapping)
    }

    #[inline(always)]
    fn words(&self) -> &[AtomicU64; WORDS] {
        // SAFETY: the mapping is 4096 bytes long or longer, aligned to a memory page, and stays until
        // drop. Words may be changed at any time by whoever else has the memory: all are atomic, and
        // any bits are a number. They are only ever loaded from, with relaxed 64-bit loads, which
        // need no write access on 64-bit targets.
        unsafe { &*self.0.as_ptr().cast() }
    }

    /// One word, in the order of the processor, by one load. 0 for one that there is not.
    #[inline(always)]
    pub fn word(&self, at: usize) -> u64 {
        self.words().get(at).map_or(0, |word| u64::from_le(word.load(Relaxed)))
    }
}
