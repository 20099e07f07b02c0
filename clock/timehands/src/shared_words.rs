//! Plain words in a file that processes share, for whatever is no page: other ways to publish a
//! clock, which the benchmark compares the ring with.
#![allow(unsafe_code)]

use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Deref;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

/// Words in a file that this process and others have mapped, readable and writable by all of them.
///
/// For a file of one's own in a private directory: who can shorten it can end every process that
/// has it mapped.
pub struct SharedWords {
    words: NonNull<AtomicU64>,
    count: usize,
}

// SAFETY: the mapping belongs to the process, not to a thread, and all of it is atomics.
unsafe impl Send for SharedWords {}
// SAFETY: as above.
unsafe impl Sync for SharedWords {}

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
        let (access, fd) = (libc::PROT_READ | libc::PROT_WRITE, file.as_raw_fd());
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory in use.
        let address =
            unsafe { libc::mmap(std::ptr::null_mut(), count * 8, access, libc::MAP_SHARED, fd, 0) };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let words = NonNull::new(address.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(SharedWords { words, count })
    }
}

impl Deref for SharedWords {
    type Target = [AtomicU64];

    #[inline(always)]
    fn deref(&self) -> &[AtomicU64] {
        // SAFETY: the mapping is `count` words long, aligned to a memory page, writable, and stays
        // until drop; every bit pattern is an AtomicU64, which others may change at any time.
        unsafe { std::slice::from_raw_parts(self.words.as_ptr(), self.count) }
    }
}

impl Drop for SharedWords {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this address and size, and no reference outlives `self`.
        unsafe { libc::munmap(self.words.as_ptr().cast(), self.count * 8) };
    }
}
