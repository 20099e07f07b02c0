//! Memory that is shared with the kernel.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Shared memory with the kernel, of whole pages.
#[derive(Debug)]
pub(crate) struct Shared {
    at: *mut u8,
    len: usize,
    writable: bool,
}

// SAFETY: the memory belongs to the mapping, not to a thread; it is only touched atomically or
// copied from.
unsafe impl Send for Shared {}

impl Shared {
    /// Maps `len` bytes of `fd` from `offset` on.
    pub(crate) fn map(
        fd: BorrowedFd<'_>,
        offset: usize,
        len: usize,
        writable: bool,
    ) -> io::Result<Shared> {
        let protection =
            if writable { libc::PROT_READ | libc::PROT_WRITE } else { libc::PROT_READ };
        let offset = libc::off_t::try_from(offset).map_err(|_| io::ErrorKind::InvalidInput)?;
        // SAFETY: a new mapping at an address of the kernel's choosing.
        let at = unsafe {
            libc::mmap(ptr::null_mut(), len, protection, libc::MAP_SHARED, fd.as_raw_fd(), offset)
        };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Shared { at: at.cast(), len, writable })
    }

    /// The word at the start.
    fn word(&self) -> &AtomicU64 {
        // SAFETY: the mapping is page-aligned and at least a page long, and lives as long as self.
        unsafe { AtomicU64::from_ptr(self.at.cast()) }
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
        if !at.is_multiple_of(4) || at.checked_add(4)? > self.len {
            return None;
        }
        // SAFETY: inside of the mapping and aligned, as was just checked.
        let word = unsafe { AtomicU32::from_ptr(self.at.add(at).cast()) };
        Some(word.load(Ordering::Acquire))
    }

    /// Bytes that the kernel does not write to while they are looked at: those of a committed
    /// record that the consumer has not passed yet.
    pub(crate) fn bytes(&self, at: usize, len: usize) -> Option<&[u8]> {
        if at.checked_add(len)? > self.len {
            return None;
        }
        // SAFETY: inside of the mapping, as was just checked; unchanged as long as the caller does
        // not pass the record, which borrows the mapping.
        Some(unsafe { std::slice::from_raw_parts(self.at.add(at), len) })
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: this mapping is ours, and nothing borrows it any more.
        unsafe { libc::munmap(self.at.cast(), self.len) };
    }
}
