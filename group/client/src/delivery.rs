//! The page that a front shares with the program that it feeds: the agreed time of the message that
//! the program is processing, and how much of its input the program has taken.
//!
//! One file of [`SIZE`] bytes, words in the machine's own order:
//!
//! | at | word |
//! |---|---|
//! | 0 | magic, written last |
//! | 8 | u32 version, then u32 length of this head, 4096 |
//! | 16 | u64 flags: [`CLOCK`], [`FENCED`], [`LOOP`] |
//! | 24 | i64 agreed time, ns since 1970; 0 = none yet |
//! | 32 | u64 sequence: how often the time was set, or the program fenced (its low half is a futex) |
//! | 64 | u64 programs that have attached |
//! | 72 | u32 busy: threads that took input and have not waited since |
//! | 76 | u32 settles: how often busy came back to 0 (a futex) |
//! | 80 | u32 watching: the front waits at `settles` |
//! | 88 | u64 process that attached last |
//! | 96 | u64 process of the front |
//! | 104 | u32 handed on: how often a thread of the program may have woken another, or made one |
//! | 108 | u32 1: there are more processes than there is room for |
//! | 112 | u32 filling: the front gives several requests, and is not done with that (a futex) |
//! | 116 | u32 looking: 1 while the looper looks which connections have input |
//! | 120 | u32 looper: the thread that takes all input, by the kernel's number; 0 = nobody yet, 2³² − 1 = several, 2³² − 2 = input given at once came in part |
//! | 124 | u32 serial: how often several requests were given at once |
//! | 128 | u64 for each of 256: a process of the program, or 0 |
//! | 2176 | u64: how many requests were given at once last |
//! | 2184 | u64 for each of these: the port in the upper 16 bits; in the others, how many bytes there are then, all in all |
//! | 4096 | u64 for each port of the front's: bytes taken, the marks of [`Taken`], and one while it waits for all of a length (`MSG_WAITALL`) |
//!
//! The words at 0, 8 and 96 are the same in all versions. The program's side in Go is `group/go/page.go`.
//!
//! The program's side allocates nothing, takes no lock and is fit for signal handlers. Each side
//! takes what the other wrote as a claim: a wrong word makes a wait end early or in the front's
//! time-out, never more.

#![allow(unsafe_code)]

mod at_once;

use std::ffi::{CStr, OsStr};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use truechimer_files::{Access, Entry, Kind};

pub use at_once::MOST_AT_ONCE;

/// Programs take their time from the page. Without it they keep their own clock and only count.
pub const CLOCK: u64 = 1;
/// The program is fenced: the front has ended as it could not go on with it, and there is no time.
pub const FENCED: u64 = 2;
/// The program answers from one event loop: it may be given several connections' requests at once.
pub const LOOP: u64 = 4;
/// The size of the file, bytes.
pub const SIZE: usize = HEAD + PORTS * 8;
/// The name of the variable that tells a program where its page is.
pub const VARIABLE: &str = "TRUECHIMER_GROUP_FRONT";

const HEAD: usize = 4096;
const PORTS: usize = 1 << 16;
const MAGIC: u64 = u64::from_le_bytes(*b"TCFRONT1");
const VERSION: u32 = 4;
/// Where the processes are, and for how many there is room.
const PROCESSES: usize = 128;
const MOST_PROCESSES: usize = 256;

/// The low half of the sequence.
const SEQUENCE: usize = if cfg!(target_endian = "little") { 32 } else { 36 };
const ACCEPTED: u64 = 1 << 63;
const ENDED: u64 = 1 << 62;
const CLOSED: u64 = 1 << 61;
const LOOPED: u64 = 1 << 60;
const TAKES_ALL: u64 = 1 << 59;
const BY_LOOPER: u64 = 1 << 58;
const BYTES: u64 = (1 << 56) - 1;

/// State of one connection at the program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Taken {
    /// Bytes read.
    pub bytes: u64,
    /// True if the program has accepted it.
    pub accepted: bool,
    /// True if it has read the end.
    pub ended: bool,
    /// True if it has closed its end.
    pub closed: bool,
    /// True if its looper reads it, as the loop finds input: together with others, then.
    pub looped: bool,
    /// True if its looper has accepted it.
    pub by_looper: bool,
}

/// Reason why a page cannot be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unusable {
    /// A system call failed with this `errno`.
    System(i32),
    /// No page, or not a whole one yet.
    NoPage,
    /// The front that made it runs, and is of another release: the version of its page.
    Version(u32),
    /// The front that made it has ended.
    Stale,
}

impl std::fmt::Display for Unusable {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Unusable::System(error) => std::io::Error::from_raw_os_error(*error).fmt(out),
            Unusable::NoPage => out.write_str("no whole page is there"),
            Unusable::Version(other) => write!(
                out,
                "its front speaks version {other} of the page, and this program's library {VERSION}: use one release of both"
            ),
            Unusable::Stale => out.write_str("the front that made it has ended"),
        }
    }
}

/// The mapped page.
#[derive(Debug)]
pub struct Page {
    base: NonNull<u8>,
}

// SAFETY: the mapping lives as long as the value, and all access goes through atomics.
unsafe impl Send for Page {}
// SAFETY: as above.
unsafe impl Sync for Page {}

impl Page {
    /// Makes the page anew, for the front: programs that have an earlier one keep that.
    ///
    /// # Errors
    /// What the system says.
    pub fn create(path: &CStr, flags: u64) -> io::Result<Page> {
        let entry = Entry::itself(Path::new(OsStr::from_bytes(path.to_bytes())))?;
        if entry.status()?.is_some_and(|old| old.kind == Kind::RegularFile) {
            entry.remove()?;
        }
        let file = entry.open(Access::New, 0o600)?;
        file.set_len(SIZE as u64)?;
        let page = map(file.as_raw_fd());
        let page = page.map_err(io::Error::from_raw_os_error)?;
        page.u32_at(8).store(VERSION, Ordering::Relaxed);
        page.u32_at(12).store(HEAD as u32, Ordering::Relaxed);
        page.u64_at(16).store(flags, Ordering::Relaxed);
        page.u64_at(96).store(u64::from(std::process::id()), Ordering::Relaxed);
        page.u64_at(0).store(MAGIC, Ordering::Release);
        Ok(page)
    }

    /// Maps the page of a front that runs, for a program. Allocates nothing.
    ///
    /// # Errors
    /// Why it cannot be used; what is not there yet may come.
    pub fn open(path: &CStr) -> Result<Page, Unusable> {
        // SAFETY: a C string; `stat` is plain memory that the kernel fills.
        let (fd, size) = unsafe {
            let fd = libc::open(path.as_ptr(), libc::O_RDWR | libc::O_CLOEXEC);
            if fd < 0 {
                return Err(Unusable::System(errno()));
            }
            let mut stat: libc::stat = core::mem::zeroed();
            let size = if libc::fstat(fd, &mut stat) == 0 { stat.st_size } else { -1 };
            (fd, size)
        };
        let page = if size == SIZE as libc::off_t {
            map(fd).map_err(Unusable::System)
        } else {
            Err(other_version(fd).map_or(Unusable::NoPage, Unusable::Version))
        };
        // SAFETY: our own descriptor, not used after this.
        unsafe { libc::close(fd) };
        let page = page?;
        let front = page.u64_at(96).load(Ordering::Relaxed);
        if page.u64_at(0).load(Ordering::Acquire) != MAGIC || libc::pid_t::try_from(front).is_err()
        {
            return Err(Unusable::NoPage);
        }
        if is_gone(front) {
            return Err(Unusable::Stale);
        }
        let version = page.u32_at(8).load(Ordering::Relaxed);
        if version != VERSION {
            return Err(Unusable::Version(version));
        }
        let whole = page.u32_at(12).load(Ordering::Relaxed) == HEAD as u32;
        if whole { Ok(page) } else { Err(Unusable::NoPage) }
    }

    /// The program's side: it has attached.
    pub fn attached(&self, process: u32) {
        self.u64_at(88).store(u64::from(process), Ordering::Relaxed);
        self.joined(process);
        self.u64_at(64).fetch_add(1, Ordering::Release);
    }

    /// The program's side: this process is one of its, by a fork or by itself. Takes the room of
    /// one that is gone, if there is no other.
    pub fn joined(&self, process: u32) {
        let own = u64::from(process);
        let takes = |at: usize, old: u64| {
            let place = self.u64_at(at);
            place.compare_exchange(old, own, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        };
        let places = || (0..MOST_PROCESSES).map(|n| PROCESSES + n * 8);
        let known = |at: usize| self.u64_at(at).load(Ordering::Acquire);
        let there = places().any(|at| known(at) == own)
            || places().any(|at| takes(at, 0))
            || places().any(|at| {
                let old = known(at);
                is_gone(old) && takes(at, old)
            });
        if !there {
            self.u32_at(108).store(1, Ordering::Release);
        }
    }

    /// The front's side: the program's processes, by their own word; none if there are too many.
    pub fn processes(&self) -> Option<Vec<u32>> {
        let all = (0..MOST_PROCESSES).map(|n| self.u64_at(PROCESSES + n * 8));
        let all = all.map(|place| place.load(Ordering::Acquire)).filter(|process| *process != 0);
        let fits = self.u32_at(108).load(Ordering::Acquire) == 0;
        fits.then(|| all.filter_map(|process| u32::try_from(process).ok()).collect())
    }

    /// The program's side: a thread is about to wake another, or to make one.
    pub fn hand_on(&self) {
        self.u32_at(104).fetch_add(1, Ordering::AcqRel);
    }

    /// Number of times that threads may have woken others.
    pub fn handed(&self) -> u32 {
        self.u32_at(104).load(Ordering::Acquire)
    }

    /// Number of programs that have attached.
    pub fn programs(&self) -> u64 {
        self.u64_at(64).load(Ordering::Acquire)
    }

    /// The process that attached last, by its own word.
    pub fn process(&self) -> u64 {
        self.u64_at(88).load(Ordering::Relaxed)
    }

    /// True if the program's clock is the page's.
    pub fn is_clock(&self) -> bool {
        self.u64_at(16).load(Ordering::Relaxed) & CLOCK != 0
    }

    /// The front's side: its program gets no time any more.
    pub fn fence(&self) {
        self.u64_at(16).fetch_or(FENCED, Ordering::Release);
        self.u64_at(32).fetch_add(1, Ordering::Release);
        self.wake(SEQUENCE);
    }

    /// Mark of a program that gets no time any more.
    pub fn is_fenced(&self) -> bool {
        self.u64_at(16).load(Ordering::Acquire) & FENCED != 0
    }

    /// The agreed time of the message being processed, ns since 1970; none before the first.
    pub fn time(&self) -> Option<i64> {
        let time = self.i64_at(24).load(Ordering::Acquire);
        (time > 0).then_some(time)
    }

    /// Number of times that the time was set.
    pub fn sequence(&self) -> u64 {
        self.u64_at(32).load(Ordering::Acquire)
    }

    /// Waits for the first time, at most so long; the program's side. None at once where the program
    /// is fenced.
    pub fn wait_for_time(&self, patience: Duration) -> Option<i64> {
        let end = monotonic() + patience.as_nanos() as i128;
        loop {
            if let Some(time) = self.time() {
                return Some(time);
            }
            let left = end - monotonic();
            let sequence = self.u32_at(SEQUENCE).load(Ordering::Acquire);
            if left <= 0 || self.is_fenced() {
                return None;
            }
            if self.time().is_none() {
                self.wait(SEQUENCE, sequence, Duration::from_nanos(left.min(1_000_000_000) as u64));
            }
        }
    }

    /// The front's side: this is the time now.
    pub fn set_time(&self, time: i64) {
        let before = self.i64_at(24).swap(time, Ordering::AcqRel);
        self.u64_at(32).fetch_add(1, Ordering::Release);
        // Nobody waits for another one than the first.
        if before <= 0 {
            self.wake(SEQUENCE);
        }
    }

    /// The program's side: a thread that was not busy is about to take input. Before the counting.
    pub fn busy_up(&self) {
        self.u32_at(72).fetch_add(1, Ordering::AcqRel);
    }

    /// The program's side: a thread that was busy waits, or ends.
    pub fn busy_down(&self) {
        if self.u32_at(72).fetch_sub(1, Ordering::AcqRel) == 1 {
            self.u32_at(76).fetch_add(1, Ordering::SeqCst);
            if self.u32_at(80).load(Ordering::SeqCst) != 0 {
                self.wake(76);
            }
        }
    }

    /// The program's side: it has accepted the connection from that port.
    pub fn took_accept(&self, port: u16) {
        self.taken_at(port).fetch_or(ACCEPTED, Ordering::Release);
    }

    /// The program's side: the thread that takes all input has accepted the connection from that port.
    pub fn looper_took_accept(&self, port: u16) {
        self.taken_at(port).fetch_or(ACCEPTED | BY_LOOPER, Ordering::Release);
    }

    /// The program's side: it has read so many bytes.
    pub fn took(&self, port: u16, bytes: u64) {
        self.taken_at(port).fetch_add(bytes & BYTES, Ordering::Release);
    }

    /// The program's side: it waits in one call for all that it wants (`MSG_WAITALL`), or does not any more.
    pub fn set_takes_all(&self, port: u16, takes: bool) {
        if takes {
            self.taken_at(port).fetch_or(TAKES_ALL, Ordering::Release);
        } else {
            self.taken_at(port).fetch_and(!TAKES_ALL, Ordering::Release);
        }
    }

    /// True while it waits so: it may have read what it has not counted.
    pub fn takes_all(&self, port: u16) -> bool {
        self.taken_at(port).load(Ordering::Acquire) & TAKES_ALL != 0
    }

    /// The program's side: it has read the end.
    pub fn took_end(&self, port: u16) {
        self.taken_at(port).fetch_or(ENDED, Ordering::Release);
    }

    /// The program's side: it has closed the connection.
    pub fn took_close(&self, port: u16) {
        self.taken_at(port).fetch_or(CLOSED, Ordering::Release);
    }

    /// The front's side: a connection from that port begins.
    pub fn begin(&self, port: u16) {
        self.taken_at(port).store(0, Ordering::Release);
    }

    /// The front's side: a new program is to start; what an earlier one left does not count.
    pub fn forget_program(&self) {
        self.u32_at(72).store(0, Ordering::Release);
        self.forget_loop();
        (0..MOST_PROCESSES)
            .for_each(|n| self.u64_at(PROCESSES + n * 8).store(0, Ordering::Release));
        self.u32_at(108).store(0, Ordering::Release);
    }

    /// Parts that the program has taken of the connection from that port.
    pub fn taken(&self, port: u16) -> Taken {
        let word = self.taken_at(port).load(Ordering::Acquire);
        Taken {
            bytes: word & BYTES,
            accepted: word & ACCEPTED != 0,
            ended: word & ENDED != 0,
            closed: word & CLOSED != 0,
            looped: word & LOOPED != 0,
            by_looper: word & BY_LOOPER != 0,
        }
    }

    /// Number of threads that have taken input and not waited since. To be read after
    /// [`Page::taken`].
    pub fn busy(&self) -> u32 {
        self.u32_at(72).load(Ordering::Acquire)
    }

    /// Number of times that the program has come to rest; for [`Page::wait_settled`].
    pub fn settles(&self) -> u32 {
        self.u32_at(76).load(Ordering::Acquire)
    }

    /// Waits until the program has come to rest since `settles` was read, at most so long.
    pub fn wait_settled(&self, settles: u32, patience: Duration) {
        self.u32_at(80).store(1, Ordering::SeqCst);
        if self.u32_at(76).load(Ordering::SeqCst) == settles {
            self.wait(76, settles, patience);
        }
        self.u32_at(80).store(0, Ordering::SeqCst);
    }

    fn taken_at(&self, port: u16) -> &AtomicU64 {
        self.u64_at(HEAD + usize::from(port) * 8)
    }

    fn u64_at(&self, at: usize) -> &AtomicU64 {
        debug_assert!(at + 8 <= SIZE && at.is_multiple_of(8));
        // SAFETY: inside the mapping and aligned (each place is a constant or HEAD + port·8), and
        // an atomic needs nothing else of shared memory.
        unsafe { &*self.base.as_ptr().add(at).cast::<AtomicU64>() }
    }

    fn i64_at(&self, at: usize) -> &AtomicI64 {
        debug_assert!(at + 8 <= SIZE && at.is_multiple_of(8));
        // SAFETY: as above.
        unsafe { &*self.base.as_ptr().add(at).cast::<AtomicI64>() }
    }

    fn u32_at(&self, at: usize) -> &AtomicU32 {
        debug_assert!(at + 4 <= SIZE && at.is_multiple_of(4));
        // SAFETY: as above.
        unsafe { &*self.base.as_ptr().add(at).cast::<AtomicU32>() }
    }

    fn wait(&self, at: usize, value: u32, patience: Duration) {
        let patience = libc::timespec {
            tv_sec: patience.as_secs().min(3600) as _, // libc deprecates the name of the type on musl.
            tv_nsec: patience.subsec_nanos() as libc::c_long,
        };
        let word: *const AtomicU32 = self.u32_at(at);
        // SAFETY: a word of the mapping and a timespec that outlive the call.
        unsafe { libc::syscall(libc::SYS_futex, word, libc::FUTEX_WAIT, value, &patience) };
    }

    fn wake(&self, at: usize) {
        let word: *const AtomicU32 = self.u32_at(at);
        // SAFETY: a word of the mapping; waking reads nothing else.
        unsafe { libc::syscall(libc::SYS_futex, word, libc::FUTEX_WAKE, i32::MAX) };
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: mapped by `map` with this size, and nothing refers to it any more.
        unsafe { libc::munmap(self.base.as_ptr().cast(), SIZE) };
    }
}

fn map(fd: libc::c_int) -> Result<Page, i32> {
    // SAFETY: a new mapping of a file that is as large, at a place of the kernel's choice.
    let base = unsafe {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        libc::mmap(core::ptr::null_mut(), SIZE, access, libc::MAP_SHARED, fd, 0)
    };
    if base == libc::MAP_FAILED {
        return Err(errno());
    }
    NonNull::new(base.cast()).map(|base| Page { base }).ok_or(libc::ENOMEM)
}

/// The version of a page that is of another size than ours, if its front is there. Allocates nothing.
fn other_version(fd: libc::c_int) -> Option<u32> {
    let mut head = [0_u8; 104];
    // SAFETY: a place of that length.
    let read = unsafe { libc::pread(fd, head.as_mut_ptr().cast(), head.len(), 0) };
    let word = |at: usize| Some(u64::from_ne_bytes(head.get(at..at + 8)?.try_into().ok()?));
    let front = word(96).filter(|front| libc::pid_t::try_from(*front).is_ok())?;
    let is_page = read == head.len() as isize && word(0) == Some(MAGIC) && !is_gone(front);
    let version = u32::from_ne_bytes(head.get(8..12)?.try_into().ok()?);
    (is_page && version != VERSION).then_some(version)
}

/// True if there is no such process any more.
fn is_gone(process: u64) -> bool {
    let Ok(process) = libc::pid_t::try_from(process) else { return true };
    // SAFETY: signal 0 asks only whether the process is there.
    process < 1 || (unsafe { libc::kill(process, 0) } != 0 && errno() == libc::ESRCH)
}

fn errno() -> i32 {
    // SAFETY: the thread's own errno.
    unsafe { *libc::__errno_location() }
}

/// CLOCK_MONOTONIC by the kernel, since a preloaded library may stand in for libc's.
fn monotonic() -> i128 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a timespec for the kernel to fill.
    unsafe { libc::syscall(libc::SYS_clock_gettime, libc::CLOCK_MONOTONIC, &mut now) };
    i128::from(now.tv_sec) * 1_000_000_000 + i128::from(now.tv_nsec)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CString;
    use std::sync::Arc;

    pub(super) fn path(name: &str) -> CString {
        let name = format!("truechimer-delivery-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        CString::new(path.to_str().unwrap()).unwrap()
    }

    #[test]
    fn both_sides_see_the_same() {
        let path = path("both");
        let front = Page::create(&path, CLOCK).unwrap();
        let program = Page::open(&path).unwrap();
        assert!(program.is_clock());
        assert_eq!(program.time(), None);
        assert_eq!(program.wait_for_time(Duration::from_millis(1)), None);
        front.set_time(1_700_000_000_000_000_001);
        assert_eq!(program.wait_for_time(Duration::ZERO), Some(1_700_000_000_000_000_001));
        assert_eq!(program.sequence(), 1);
        program.attached(7);
        assert_eq!((front.programs(), front.process()), (1, 7));
        program.joined(7);
        program.joined(8);
        program.hand_on();
        assert_eq!((front.processes(), front.handed()), (Some(vec![7, 8]), 1));

        program.took(65535, 9);
        front.begin(65535);
        program.busy_up();
        program.took_accept(65535);
        program.took(65535, 5);
        program.took(65535, 6);
        program.took_end(65535);
        program.set_looped(65535, true);
        let all = Taken {
            bytes: 11,
            accepted: true,
            ended: true,
            closed: false,
            looped: true,
            by_looper: false,
        };
        assert_eq!(front.taken(65535), all);
        program.set_takes_all(65535, true);
        assert!(front.takes_all(65535) && front.taken(65535) == all);
        program.set_takes_all(65535, false);
        assert!(!front.takes_all(65535) && front.taken(65535) == all);
        assert_eq!(front.taken(65534).bytes, 0);
        assert_eq!(front.busy(), 1);
        let settles = front.settles();
        program.busy_down();
        assert_eq!((front.busy(), front.settles()), (0, settles + 1));
        program.took_close(65535);
        assert!(front.taken(65535).closed);
        std::fs::remove_file(path.to_str().unwrap()).unwrap();
    }

    #[test]
    fn processes_that_are_gone_make_room() {
        let path = path("processes");
        let front = Page::create(&path, CLOCK).unwrap();
        let own = std::process::id();
        // No process has numbers as great as these.
        let gone = i32::MAX as u32 - MOST_PROCESSES as u32;
        (0..MOST_PROCESSES as u32).for_each(|n| front.joined(gone + n));
        front.joined(own);
        let processes = front.processes().unwrap();
        assert_eq!((processes.len(), processes[0]), (MOST_PROCESSES, own));
        // Of those that are there none goes for another.
        (0..MOST_PROCESSES)
            .for_each(|n| front.u64_at(PROCESSES + n * 8).store(1, Ordering::Relaxed));
        front.joined(own);
        assert_eq!(front.processes(), None);
        front.forget_program();
        assert_eq!(front.processes(), Some(vec![]));
        std::fs::remove_file(path.to_str().unwrap()).unwrap();
    }

    #[test]
    fn a_waiting_front_is_woken() {
        let path = path("woken");
        let front = Arc::new(Page::create(&path, CLOCK).unwrap());
        let program = Page::open(&path).unwrap();
        let settles = front.settles();
        program.busy_up();
        let waiter = Arc::clone(&front);
        let waiter = std::thread::spawn(move || {
            while waiter.settles() == settles {
                waiter.wait_settled(settles, Duration::from_secs(60));
            }
        });
        program.busy_down();
        waiter.join().unwrap();
        let waiter = Arc::clone(&front);
        let waiter = std::thread::spawn(move || waiter.wait_for_time(Duration::from_secs(600)));
        front.set_time(5);
        assert_eq!(waiter.join().unwrap(), Some(5));
        // And one whose front ends before the first message.
        let front = Arc::new(Page::create(&path, CLOCK).unwrap());
        let waiter = Arc::clone(&front);
        let waiter = std::thread::spawn(move || {
            let begun = std::time::Instant::now();
            (waiter.wait_for_time(Duration::from_secs(600)), begun.elapsed())
        });
        front.fence();
        let (time, waited) = waiter.join().unwrap();
        assert!(time.is_none() && waited < Duration::from_secs(600), "{waited:?}");
        std::fs::remove_file(path.to_str().unwrap()).unwrap();
    }

    #[test]
    fn what_is_no_page_is_refused() {
        let path = path("none");
        let file = path.to_str().unwrap();
        assert_eq!(Page::open(&path).unwrap_err(), Unusable::System(libc::ENOENT));
        std::fs::write(file, b"short").unwrap();
        assert_eq!(Page::open(&path).unwrap_err(), Unusable::NoPage);
        std::fs::write(file, vec![0; SIZE]).unwrap();
        assert_eq!(Page::open(&path).unwrap_err(), Unusable::NoPage);
        let page = Page::create(&path, 0).unwrap();
        assert!(!Page::open(&path).unwrap().is_clock());
        // A front of another release, whose page may be longer.
        page.u32_at(8).store(VERSION + 1, Ordering::Relaxed);
        for longer in [0, 8] {
            let file = std::fs::OpenOptions::new().write(true).open(file).unwrap();
            file.set_len((SIZE + longer) as u64).unwrap();
            let why = Page::open(&path).unwrap_err();
            assert_eq!(why, Unusable::Version(VERSION + 1));
            assert!(why.to_string().contains("speaks version 5 of the page"), "{why}");
        }
        // No process has the greatest number there is.
        page.u64_at(96).store(i32::MAX as u64, Ordering::Relaxed);
        assert_eq!(
            Page::open(&path).unwrap_err(),
            Unusable::NoPage,
            "one that has ended may leave any"
        );
        std::fs::OpenOptions::new().write(true).open(file).unwrap().set_len(SIZE as u64).unwrap();
        assert_eq!(Page::open(&path).unwrap_err(), Unusable::Stale);
        std::fs::remove_file(file).unwrap();
    }
}
