//! The register of the processes that belong to one program: which logical thread the first thread
//! of each is. It is memory without a name, handed down by its descriptor, so that a program that
//! a process executes finds its own number again, and that of its parent if it was born in a way
//! that this library does not see (`posix_spawn`, `system`, `popen`).

use core::ffi::c_long;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use truechimer_group::Thread;
use truechimer_group_client::lineage::{self, Kind};

use crate::kernel;

/// Number of processes that fit.
const ENTRIES: usize = 4096;
/// Greatest distance of an entry from its first place.
const NEAR: usize = 64;
const MAGIC: u64 = u64::from_ne_bytes(*b"TCKIN001");
/// Descriptors that a program does not use by itself.
const HIGH: c_long = 900;

#[repr(C)]
struct Head {
    magic: AtomicU64,
    family: AtomicU64,
    /// Children of nobody known.
    strays: AtomicU64,
    spare: AtomicU64,
}

/// Any bytes are a valid one, and other processes may change it.
#[repr(C)]
struct Entry {
    pid: AtomicU32,
    /// Children of this process that were born unseen.
    unseen: AtomicU32,
    thread: AtomicU64,
}

/// The register, as it is mapped.
#[repr(C)]
pub struct Kin {
    head: Head,
    entries: [Entry; ENTRIES],
}

/// The number from which the children that were born unseen are counted.
const fn unseen(parent: Thread) -> Thread {
    lineage::child(parent, u64::MAX, Kind::Process)
}

impl Kin {
    /// A new one and its descriptor, which programs that are executed inherit.
    pub fn create(family: u64) -> Option<(&'static Kin, i32)> {
        let name = c"truechimer-kin".as_ptr() as c_long;
        // SAFETY: a C string and a flag.
        let made = unsafe { kernel::call(libc::SYS_memfd_create, [name, 0, 0, 0, 0, 0]) };
        let made = i32::try_from(made).ok().filter(|fd| *fd >= 0)?;
        let fd = raised(made);
        let size = size_of::<Kin>() as c_long;
        // SAFETY: a descriptor of ours and a length.
        let sized =
            unsafe { kernel::call(libc::SYS_ftruncate, [c_long::from(fd), size, 0, 0, 0, 0]) };
        let kin = if sized == 0 { map(fd) } else { None };
        let Some(kin) = kin else {
            kernel::close(fd);
            return None;
        };
        kin.head.family.store(family, Ordering::Relaxed);
        kin.head.magic.store(MAGIC, Ordering::Release);
        Some((kin, fd))
    }

    /// The one that this process has inherited; none if the descriptor is not of it any more.
    pub fn inherited(fd: i32, family: u64) -> Option<&'static Kin> {
        // SAFETY: `stat` is plain memory that the kernel fills.
        let mut stat: libc::stat = unsafe { core::mem::zeroed() };
        let at = (&raw mut stat) as c_long;
        // SAFETY: a place for the kernel to write to.
        let known = unsafe { kernel::call(libc::SYS_fstat, [c_long::from(fd), at, 0, 0, 0, 0]) };
        if known != 0 || usize::try_from(stat.st_size) != Ok(size_of::<Kin>()) {
            return None;
        }
        let kin = map(fd)?;
        let ours = kin.head.magic.load(Ordering::Acquire) == MAGIC
            && kin.head.family.load(Ordering::Relaxed) == family;
        ours.then_some(kin)
    }

    /// The process's first thread has that number.
    pub fn enter(&self, pid: u32, thread: Thread) {
        let place = self.near(pid).find(|entry| entry.pid.load(Ordering::Acquire) == pid);
        let place = place.or_else(|| self.near(pid).find(|entry| entry.take(pid)));
        // A register that is full around here: a program that this process executes counts as
        // its parent's unseen child.
        if let Some(entry) = place {
            entry.unseen.store(0, Ordering::Relaxed);
            entry.thread.store(thread.0, Ordering::Release);
        }
    }

    /// The process is at its end.
    pub fn leave(&self, pid: u32) {
        if let Some(entry) = self.of(pid) {
            entry.pid.store(0, Ordering::Release);
        }
    }

    /// Number of the process's first thread.
    pub fn thread_of(&self, pid: u32) -> Option<Thread> {
        self.of(pid).map(|entry| Thread(entry.thread.load(Ordering::Acquire)))
    }

    /// Number of the next unseen child of that process: counted in the order in which they come, so
    /// that children that run one after the other have the same numbers everywhere.
    pub fn unseen_child(&self, parent: u32) -> Thread {
        match self.of(parent) {
            Some(entry) => {
                let nth = entry.unseen.fetch_add(1, Ordering::AcqRel);
                let parent = Thread(entry.thread.load(Ordering::Acquire));
                lineage::child(unseen(parent), u64::from(nth), Kind::Process)
            }
            None => {
                let nth = self.head.strays.fetch_add(1, Ordering::AcqRel);
                lineage::child(unseen(unseen(lineage::FIRST)), nth, Kind::Process)
            }
        }
    }

    fn of(&self, pid: u32) -> Option<&Entry> {
        self.near(pid).find(|entry| entry.pid.load(Ordering::Acquire) == pid)
    }

    fn near(&self, pid: u32) -> impl Iterator<Item = &Entry> {
        let first = pid.wrapping_mul(0x9e37_79b1) as usize % ENTRIES;
        (0..NEAR).filter_map(move |k| self.entries.get((first + k) % ENTRIES))
    }
}

impl Entry {
    /// Takes a place that is free, or whose process has died without a word.
    fn take(&self, pid: u32) -> bool {
        let was = self.pid.load(Ordering::Acquire);
        (was == 0 || !kernel::is_alive(was))
            && self.pid.compare_exchange(was, pid, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }
}

/// Number of a process that should have inherited a register and has not: others like it have the
/// same number, so it has to be alone.
pub fn lost() -> Thread {
    lineage::child(unseen(lineage::FIRST), u64::MAX, Kind::Process)
}

/// The descriptor under a high number, out of the way of programs that expect theirs.
fn raised(fd: i32) -> i32 {
    let how = c_long::from(libc::F_DUPFD);
    // SAFETY: takes numbers only.
    let high = unsafe { kernel::call(libc::SYS_fcntl, [c_long::from(fd), how, HIGH, 0, 0, 0]) };
    match i32::try_from(high) {
        Ok(high) if high >= 0 => {
            kernel::close(fd);
            high
        }
        _ => fd,
    }
}

fn map(fd: i32) -> Option<&'static Kin> {
    let access = c_long::from(libc::PROT_READ | libc::PROT_WRITE);
    let arguments = [
        0,
        size_of::<Kin>() as c_long,
        access,
        c_long::from(libc::MAP_SHARED),
        c_long::from(fd),
        0,
    ];
    // SAFETY: a new mapping at a place of the kernel's choice.
    let at = unsafe { kernel::call(libc::SYS_mmap, arguments) };
    if (-4095..=0).contains(&at) {
        return None;
    }
    // SAFETY: page-aligned, as long as `Kin` (the file was checked or made so; only our own
    // processes have it), and never unmapped; `Kin` is atomics only.
    Some(unsafe { &*(at as *const Kin) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_find_their_numbers() {
        let (kin, fd) = Kin::create(7).unwrap();
        assert!(fd >= 900);
        assert!(Kin::inherited(fd, 8).is_none(), "another family's");
        let own = kernel::pid();
        kin.enter(own, Thread(99));
        let same = Kin::inherited(fd, 7).unwrap();
        assert_eq!(same.thread_of(own), Some(Thread(99)));
        assert_eq!(same.thread_of(own + 1), None);
        let children = [same.unseen_child(own), same.unseen_child(own), same.unseen_child(0)];
        assert_eq!(children.iter().collect::<std::collections::HashSet<_>>().len(), 3);
        same.enter(own, Thread(100));
        assert_eq!(kin.thread_of(own), Some(Thread(100)));
        kin.leave(own);
        assert_eq!(kin.thread_of(own), None);
        kernel::close(fd);
        assert!(Kin::inherited(fd, 7).is_none());
    }

    #[test]
    fn places_of_the_dead_are_taken() {
        let (kin, fd) = Kin::create(1).unwrap();
        // No processes have numbers as high as these; those with the same first place by design.
        let pids: Vec<u32> = (0..200).map(|k| 0x7000_0000 + k * ENTRIES as u32).collect();
        for &pid in &pids {
            kin.enter(pid, Thread(u64::from(pid)));
            assert_eq!(kin.thread_of(pid), Some(Thread(u64::from(pid))));
        }
        assert_eq!(kin.thread_of(pids[0]), None, "its place was taken");
        kernel::close(fd);
    }
}
