//! Knowledge that each thread of the process has of itself.

use core::cell::Cell;
use core::sync::atomic::{AtomicI64, AtomicPtr, AtomicU32, AtomicU64, Ordering};

use truechimer_group::Thread;
use truechimer_group_client::lineage::{self, Kind};

use crate::kernel;

/// Deepest nesting of reads: a handler that interrupts a read, and so on.
pub const DEEPEST: usize = 8;

/// One thread. No destructor, so that it can be used at any time of the thread's life, from signal
/// handlers as well.
pub struct Here {
    /// Logical number; 0: not known yet.
    number: Cell<u64>,
    /// Number of threads that it has created.
    threads: Cell<u64>,
    /// Number of processes that it has forked.
    processes: Cell<u64>,
    /// Number of its reads under way, each in a handler that has interrupted the one before.
    pub depth: Cell<usize>,
    /// Where on the stack they are.
    pub frames: [Cell<usize>; DEEPEST],
    /// The group's clock − CLOCK_MONOTONIC when this thread has last read the former.
    ahead: Cell<Option<i64>>,
    /// True if it is about to fork, and its child has been counted.
    forking: Cell<bool>,
    /// True if it has taken input from the front and not waited since.
    pub busy: Cell<bool>,
    /// The kernel's number of it; 0: not asked yet.
    tid: Cell<u32>,
}

thread_local! {
    static HERE: Here = const {
        Here {
            number: Cell::new(0),
            threads: Cell::new(0),
            processes: Cell::new(0),
            depth: Cell::new(0),
            frames: [const { Cell::new(0) }; DEEPEST],
            ahead: Cell::new(None),
            forking: Cell::new(false),
            busy: Cell::new(false),
            tid: Cell::new(0),
        }
    };
}

/// The number of the process's first thread.
static FIRST: AtomicU64 = AtomicU64::new(0);
/// Number of threads that have come that nobody has announced.
static STRANGERS: AtomicU64 = AtomicU64::new(0);
/// The pair that any thread of the process has last seen; `NEVER` if none has.
static AHEAD: AtomicI64 = AtomicI64::new(NEVER);
const NEVER: i64 = i64::MIN;
/// A word that is 0 in a process that was forked and has not noticed.
static NOTICED: AtomicPtr<AtomicU32> = AtomicPtr::new(core::ptr::null_mut());

/// The calling thread.
pub fn here<R>(f: impl FnOnce(&Here) -> R) -> R {
    HERE.with(f)
}

impl Here {
    /// Logical number of the thread.
    pub fn number(&self) -> Thread {
        if self.number.get() == 0 {
            let first = Thread(FIRST.load(Ordering::Acquire));
            let own = if kernel::tid() == kernel::pid() {
                first
            } else {
                // Made by a means that this library does not see: numbered as they come.
                let nth = STRANGERS.fetch_add(1, Ordering::AcqRel);
                lineage::child(lineage::child(first, u64::MAX, Kind::Thread), nth, Kind::Thread)
            };
            self.number.set(own.0);
        }
        Thread(self.number.get())
    }

    /// The kernel's number of it.
    pub fn tid(&self) -> u32 {
        if self.tid.get() == 0 {
            self.tid.set(kernel::tid());
        }
        self.tid.get()
    }

    /// Value hashed into the number of reads that are that deep inside others (from 1).
    pub fn inside(&self, depth: usize) -> u64 {
        lineage::child(self.number(), depth as u64 - 1, Kind::Signal).0
    }

    /// This thread was given a number at its birth.
    pub fn born(&self, number: Thread) {
        self.number.set(number.0);
    }

    /// The number of the next thread that it creates.
    pub fn next_thread(&self) -> Thread {
        let nth = self.threads.get();
        self.threads.set(nth.wrapping_add(1));
        lineage::child(self.number(), nth, Kind::Thread)
    }

    /// The thread that was just numbered could not be created.
    pub fn take_thread_back(&self) {
        self.threads.set(self.threads.get().wrapping_sub(1));
    }

    /// Notes that it is about to fork: its child is counted.
    pub fn fork(&self) {
        // Known while it can still be known.
        self.number();
        self.processes.set(self.processes.get().wrapping_add(1));
        self.forking.set(true);
    }

    /// Notes that it has forked.
    pub fn has_forked(&self) {
        self.forking.set(false);
    }

    /// Makes it the only thread of a new process: gives it its number.
    pub fn become_child(&self) -> Thread {
        let counted = u64::from(self.forking.replace(false));
        let nth = self.processes.get().wrapping_sub(counted);
        let parent = match self.number.get() {
            0 => Thread(FIRST.load(Ordering::Acquire)),
            known => Thread(known),
        };
        let own = lineage::child(parent, nth, Kind::Process);
        FIRST.store(own.0, Ordering::Release);
        STRANGERS.store(0, Ordering::Release);
        self.number.set(own.0);
        self.threads.set(0);
        self.processes.set(0);
        self.depth.set(0);
        self.busy.set(false);
        self.tid.set(0);
        own
    }

    /// Notes that it has seen this pair of clocks, ns.
    pub fn saw(&self, group: i64, monotonic: i64) {
        let ahead = group.saturating_sub(monotonic);
        self.ahead.set(Some(ahead));
        AHEAD.store(ahead, Ordering::Release);
    }

    /// The group's clock − CLOCK_MONOTONIC by the last pair that it has seen, or else any thread.
    pub fn ahead(&self) -> Option<i64> {
        self.ahead.get().or_else(|| {
            let any = AHEAD.load(Ordering::Acquire);
            (any != NEVER).then_some(any)
        })
    }
}

/// The process's first thread has this number.
pub fn begin(first: Thread) {
    FIRST.store(first.0, Ordering::Release);
}

/// From now on a fork is noticed by the child, by whatever means it was made.
pub fn watch_for_forks() {
    if !NOTICED.load(Ordering::Acquire).is_null() {
        return;
    }
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new mapping at a place of the kernel's choice, and advice about it alone.
    let at = unsafe {
        let at = libc::mmap(core::ptr::null_mut(), 4096, access, kind, -1, 0);
        if at == libc::MAP_FAILED || libc::madvise(at, 4096, libc::MADV_WIPEONFORK) != 0 {
            return;
        }
        at.cast::<AtomicU32>()
    };
    // SAFETY: mapped just now, aligned, zero, and never unmapped.
    unsafe { &*at }.store(1, Ordering::Release);
    NOTICED.store(at, Ordering::Release);
}

/// True if this process was forked and notices it now (once).
pub fn notice_fork() -> bool {
    // SAFETY: null or the word of `watch_for_forks`.
    match unsafe { NOTICED.load(Ordering::Acquire).as_ref() } {
        Some(word) => word.load(Ordering::Acquire) == 0 && word.swap(1, Ordering::AcqRel) == 0,
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fresh(number: u64) -> Here {
        let here = Here {
            number: Cell::new(0),
            threads: Cell::new(0),
            processes: Cell::new(0),
            depth: Cell::new(0),
            frames: [const { Cell::new(0) }; DEEPEST],
            ahead: Cell::new(None),
            forking: Cell::new(false),
            busy: Cell::new(false),
            tid: Cell::new(0),
        };
        here.born(Thread(number));
        here
    }

    #[test]
    fn numbers_go_by_who_created_whom() {
        let (one, other) = (fresh(16), fresh(16));
        let children = [one.next_thread(), one.next_thread()];
        assert_ne!(children[0], children[1]);
        assert_eq!(children, [other.next_thread(), other.next_thread()]);
        one.next_thread();
        one.take_thread_back();
        assert_eq!(one.next_thread(), other.next_thread());
        assert_ne!(one.inside(1), one.inside(2));
    }

    #[test]
    fn children_have_numbers_of_their_own() {
        let number = |forks: u32| {
            let here = fresh(16);
            for _ in 1..forks {
                here.fork();
                here.has_forked();
            }
            here.fork();
            here.depth.set(1);
            let own = here.become_child();
            assert_eq!((here.number(), here.depth.get()), (own, 0));
            own
        };
        assert_eq!(number(1), lineage::child(Thread(16), 0, Kind::Process));
        assert_eq!(number(3), lineage::child(Thread(16), 2, Kind::Process));
    }

    #[test]
    fn the_nearest_pair_counts() {
        let (one, other) = (fresh(1), fresh(2));
        one.saw(5_000, 1_000);
        assert_eq!(one.ahead(), Some(4_000));
        assert_eq!(other.ahead(), Some(4_000), "another thread's");
        other.saw(9_000, 1_000);
        assert_eq!(one.ahead(), Some(4_000), "its own");
    }
}
