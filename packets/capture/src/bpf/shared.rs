//! Memory that is shared with the kernel.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use memmap2::{MmapOptions, MmapRaw};

/// Shared memory with the kernel, of whole pages.
#[derive(Debug)]
pub(crate) struct Shared {
    map: MmapRaw,
    writable: bool,
}

impl Shared {
    /// Maps `len` bytes of `fd` from `offset` on, a multiple of the page.
    pub(crate) fn map(
        fd: BorrowedFd<'_>,
        offset: usize,
        len: usize,
        writable: bool,
    ) -> io::Result<Shared> {
        let mut options = MmapOptions::new();
        options.offset(offset as u64).len(len);
        let map = if writable { options.map_raw(&fd) } else { options.map_raw_read_only(&fd) }?;
        Ok(Shared { map, writable })
    }

    /// The word at the start.
    fn word(&self) -> &AtomicU64 {
        // SAFETY: the mapping is page-aligned and at least a page long, and lives as long as self.
        unsafe { AtomicU64::from_ptr(self.map.as_mut_ptr().cast()) }
    }

    pub(crate) fn load(&self) -> u64 {
        self.word().load(Ordering::Acquire)
    }

    /// Does nothing to memory that is mapped for reading only.
    pub(crate) fn store(&self, value: u64) {
        if self.writable {
            self.word().store(value, Ordering::Release);
        }
    }

    /// The 32-bit word at `at`, with acquire ordering; `None` past the end or unaligned.
    pub(crate) fn header(&self, at: usize) -> Option<u32> {
        if !at.is_multiple_of(4) || at.checked_add(4)? > self.map.len() {
            return None;
        }
        // SAFETY: inside of the mapping and aligned, as was just checked.
        let word = unsafe { AtomicU32::from_ptr(self.map.as_mut_ptr().add(at).cast()) };
        Some(word.load(Ordering::Acquire))
    }

    /// Bytes that the kernel does not write to while they are looked at: those of a committed
    /// record that the consumer has not passed yet.
    pub(crate) fn bytes(&self, at: usize, len: usize) -> Option<&[u8]> {
        if at.checked_add(len)? > self.map.len() {
            return None;
        }
        // SAFETY: inside of the mapping, as was just checked; unchanged as long as the caller does
        // not pass the record, which borrows the mapping.
        Some(unsafe { std::slice::from_raw_parts(self.map.as_ptr().add(at), len) })
    }
}
