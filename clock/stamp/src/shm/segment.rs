//! System V shared memory, with everything unsafe about it kept inside.
#![allow(unsafe_code)]

use std::io;
use std::sync::atomic::{AtomicI32, Ordering, fence};

use super::{COUNT, MODE, SIZE, VALID};

/// Words of a segment.
const WORDS: usize = SIZE / 4;

/// A segment in this process's memory.
#[derive(Debug)]
pub(super) struct Segment {
    id: i32,
    words: *const [AtomicI32; WORDS],
    /// True if it may be written.
    writable: bool,
}

// SAFETY: the pointer is to memory that stays attached for as long as the segment lives, and all
// access to that is atomic.
unsafe impl Send for Segment {}

impl Segment {
    /// Attaches the segment of this key, or makes one of this size and mode.
    pub(super) fn open(key: i32, size: usize, mode: i32) -> io::Result<Segment> {
        debug_assert!(size >= SIZE);
        let id = |flags| {
            // SAFETY: a call with plain numbers.
            let id = unsafe { libc::shmget(key, size, flags) };
            if id < 0 { Err(io::Error::last_os_error()) } else { Ok(id) }
        };
        let denied = |why: &io::Error| why.kind() == io::ErrorKind::PermissionDenied;
        // One that is there may be for reading only.
        let id = match id(libc::IPC_CREAT | mode) {
            Err(why) if denied(&why) => id(0o444)?,
            made => made?,
        };
        let attach = |flags| {
            // SAFETY: the kernel chooses the address.
            let at = unsafe { libc::shmat(id, std::ptr::null(), flags) };
            if at as isize == -1 { Err(io::Error::last_os_error()) } else { Ok(at) }
        };
        let (at, writable) = match attach(0) {
            Err(why) if denied(&why) => (attach(libc::SHM_RDONLY)?, false),
            attached => (attached?, true),
        };
        // The kernel's address is that of a page, and the segment has at least `size` bytes: shmget
        // says no to a smaller one.
        Ok(Segment { id, words: at.cast_const().cast(), writable })
    }

    /// User that owns it, and its mode.
    pub(super) fn status(&self) -> io::Result<(u32, u32)> {
        // SAFETY: all zeros is a valid `shmid_ds`.
        let mut status: libc::shmid_ds = unsafe { std::mem::zeroed() };
        // SAFETY: the kernel writes one `shmid_ds` there.
        if unsafe { libc::shmctl(self.id, libc::IPC_STAT, &raw mut status) } < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok((status.shm_perm.uid, u32::from(status.shm_perm.mode) & 0o777))
    }

    fn words(&self) -> &[AtomicI32; WORDS] {
        // SAFETY: the memory is attached until `self` is dropped, large and aligned enough, and
        // every pattern of bits is an i32; other processes write it as they like, which atomics
        // allow for.
        unsafe { &*self.words }
    }

    fn word(&self, byte: usize) -> Option<&AtomicI32> {
        self.words().get(byte / 4)
    }

    /// The bytes as they are, unless a writer is at it.
    pub(super) fn read(&self) -> Option<[u8; SIZE]> {
        let count = || self.word(COUNT).map(|word| word.load(Ordering::Acquire));
        let before = count();
        let bytes = self.copy();
        fence(Ordering::Acquire);
        let counts = self.word(MODE).is_some_and(|mode| mode.load(Ordering::Relaxed) == 1);
        // One that does not count shows that it is at it by what has changed meanwhile.
        let whole = if counts { before == count() } else { bytes == self.copy() };
        whole.then_some(bytes)
    }

    fn copy(&self) -> [u8; SIZE] {
        let mut bytes = [0; SIZE];
        for (to, word) in bytes.chunks_exact_mut(4).zip(self.words()) {
            to.copy_from_slice(&word.load(Ordering::Acquire).to_ne_bytes());
        }
        bytes
    }

    /// Tells the writer that the sample was read.
    pub(super) fn take(&self) {
        if let Some(valid) = self.word(VALID).filter(|_| self.writable) {
            valid.store(0, Ordering::Release);
        }
    }

    /// Puts these bytes there, for tests.
    #[cfg(test)]
    pub(super) fn write(&self, bytes: &[u8; SIZE]) {
        for (word, from) in self.words().iter().zip(bytes.chunks_exact(4)) {
            word.store(i32::from_ne_bytes(from.try_into().unwrap()), Ordering::Relaxed);
        }
    }

    /// Puts these bytes there as a writer does that counts, from the count that they have: it is one
    /// more in the end. For tests.
    #[cfg(test)]
    pub(super) fn replace(&self, bytes: &[u8; SIZE]) {
        let words = || self.words().iter().zip(bytes.chunks_exact(4)).enumerate();
        let store = |at: usize, value: i32| self.word(at).unwrap().store(value, Ordering::SeqCst);
        let count = i32::from_ne_bytes(bytes[COUNT..COUNT + 4].try_into().unwrap());
        store(VALID, 0);
        store(COUNT, count);
        for (at, (word, from)) in words() {
            if at * 4 != VALID && at * 4 != COUNT {
                word.store(i32::from_ne_bytes(from.try_into().unwrap()), Ordering::SeqCst);
            }
        }
        store(COUNT, count + 1);
        store(VALID, 1);
    }

    /// Sets its mode, for tests.
    #[cfg(test)]
    pub(super) fn set_mode(&self, mode: libc::mode_t) {
        // SAFETY: all zeros is a valid `shmid_ds`.
        let mut status: libc::shmid_ds = unsafe { std::mem::zeroed() };
        // SAFETY: the kernel writes one `shmid_ds` there.
        assert_eq!(unsafe { libc::shmctl(self.id, libc::IPC_STAT, &raw mut status) }, 0);
        status.shm_perm.mode = mode as _;
        // SAFETY: the kernel reads one there.
        assert_eq!(unsafe { libc::shmctl(self.id, libc::IPC_SET, &raw mut status) }, 0);
    }

    /// The key of the segment, for tests.
    #[cfg(test)]
    pub(super) fn key(&self) -> i32 {
        // SAFETY: all zeros is a valid `shmid_ds`.
        let mut status: libc::shmid_ds = unsafe { std::mem::zeroed() };
        // SAFETY: the kernel writes one `shmid_ds` there.
        assert_eq!(unsafe { libc::shmctl(self.id, libc::IPC_STAT, &raw mut status) }, 0);
        status.shm_perm.__key
    }

    /// Removes the segment from the system, for tests.
    #[cfg(test)]
    pub(super) fn remove(&self) {
        // SAFETY: a call without memory.
        assert_eq!(unsafe { libc::shmctl(self.id, libc::IPC_RMID, std::ptr::null_mut()) }, 0);
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        // SAFETY: the address is that of `shmat`, and nobody has it any more.
        unsafe { libc::shmdt(self.words.cast()) };
    }
}
