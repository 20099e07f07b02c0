//! The only unsafe code of this crate: mapping the file, and the calls that std lacks.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::ops::Deref;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use memmap2::{MmapOptions, MmapRaw};

use super::layout::{Page, SIZE};

/// A page file mapped into this process, shared with all others that map it.
pub(crate) struct Mapping(MmapRaw);

impl Mapping {
    /// Maps the first [`SIZE`] bytes of a file that the caller knows to be that long.
    pub fn of(file: &File, writable: bool) -> io::Result<Mapping> {
        let mut options = MmapOptions::new();
        options.len(SIZE);
        let map = if writable { options.map_raw(file) } else { options.map_raw_read_only(file) };
        map.map(Mapping)
    }

    /// Empties a writable mapping, the magic first: nobody who opens it meanwhile takes it for a
    /// page.
    pub fn clear(&self) {
        let words = self.0.as_ptr().cast::<AtomicU64>();
        for at in 0..SIZE / size_of::<AtomicU64>() {
            // SAFETY: it lies within the SIZE bytes of the mapping, aligned as the whole is, and
            // every word there is an atomic or padding that nobody reads. The mapping is writable:
            // its only caller is the writer.
            unsafe { (*words.add(at)).store(0, SeqCst) };
        }
    }
}

impl Deref for Mapping {
    type Target = Page;

    #[inline(always)]
    fn deref(&self) -> &Page {
        // SAFETY: the mapping is SIZE = size_of::<Page>() bytes long, aligned to a memory page,
        // and stays until drop. `Page` is all AtomicU64, for which every bit pattern is valid and
        // which other processes may change at any time. A read-only mapping is only ever loaded
        // from, with relaxed 64-bit loads, which need no write access on 64-bit targets.
        unsafe { &*self.0.as_ptr().cast() }
    }
}

/// Makes the file at least [`SIZE`] bytes long with all of it backed by storage, so that no store
/// through the mapping can fail for want of space. What is there stays.
pub(crate) fn allocate(file: &File) -> io::Result<()> {
    // SAFETY: it takes numbers only.
    match unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, SIZE as libc::off_t) } {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

/// Takes the writer's lock, which goes when the file is closed or the process dies. `false` if
/// another process has it.
pub(crate) fn lock(file: &File) -> io::Result<bool> {
    let lock = whole_file(libc::F_WRLCK);
    // SAFETY: `lock` is a valid flock structure for the duration of the call.
    if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &lock) } == 0 {
        return Ok(true);
    }
    match io::Error::last_os_error() {
        e if matches!(e.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => Ok(false),
        e => Err(e),
    }
}

/// Gives the writer's lock back: closing the file does not where a process that was just started
/// still has a copy of the descriptor, as it has until it becomes another program.
pub(crate) fn unlock(file: &File) {
    let lock = whole_file(libc::F_UNLCK);
    // SAFETY: `lock` is a valid flock structure for the duration of the call.
    unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &lock) };
}

/// Lock of another that would keep this file's opener from taking one of the given type.
pub(crate) fn locked_by(file: &File, ours: Lock) -> Option<Lock> {
    let mut lock = whole_file(ours as libc::c_int);
    // SAFETY: `lock` is a valid flock structure for the duration of the call.
    let asked = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_GETLK, &mut lock) };
    match libc::c_int::from(lock.l_type) {
        _ if asked != 0 => None,
        libc::F_WRLCK => Some(Lock::Write),
        libc::F_RDLCK => Some(Lock::Read),
        _ => None,
    }
}

/// A kind of lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Lock {
    /// Shared: needs a file open for reading only.
    Read = libc::F_RDLCK as isize,
    /// Exclusive: needs a file open for writing.
    Write = libc::F_WRLCK as isize,
}

fn whole_file(kind: libc::c_int) -> libc::flock {
    // SAFETY: a structure of integers, for which zeros are valid; l_len 0 means "to the end".
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = kind as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    lock
}

/// The effective user.
pub(crate) fn effective_user() -> u32 {
    // SAFETY: it takes nothing and cannot fail.
    unsafe { libc::geteuid() }
}

/// True if this program runs with more rights than whoever started it (setuid, setgid, file
/// capabilities).
pub(crate) fn is_privileged() -> bool {
    // SAFETY: it takes a number and looks at what the kernel left in this process's memory.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}
