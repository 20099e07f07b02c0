//! The system calls that std does not have.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

pub(crate) use libc::{POLLIN, pollfd};

/// A wait as poll(2) takes it: ready when something can be read.
pub(crate) fn readable(fd: RawFd) -> pollfd {
    pollfd { fd, events: POLLIN, revents: 0 }
}

/// Waits until something happens on one of `fds` or `timeout_ns` have passed.
///
/// # Errors
/// As ppoll(2); a signal ends it with [`io::ErrorKind::Interrupted`].
pub(crate) fn poll(fds: &mut [pollfd], timeout_ns: i64) -> io::Result<()> {
    let ns = timeout_ns.max(0);
    let timeout = libc::timespec { tv_sec: ns / 1_000_000_000, tv_nsec: ns % 1_000_000_000 };
    // SAFETY: pointer and length are those of an exclusive slice of `pollfd`, the kernel reads one
    // timespec, and no signal mask is given.
    let n = unsafe {
        libc::ppoll(
            fds.as_mut_ptr(),
            fds.len() as libc::nfds_t,
            &raw const timeout,
            std::ptr::null(),
        )
    };
    check(n).map(drop)
}

/// The most descriptors of a set that are told of at a time.
const MOST_READY: usize = 64;

/// A set to wait for: these, each told of by its place.
///
/// # Errors
/// As epoll_create1(2) and epoll_ctl(2); always where the C library's timespec is not the one that
/// [`wait_for_set`]'s system call takes.
pub(crate) fn wait_set(fds: &[pollfd]) -> io::Result<OwnedFd> {
    if cfg!(not(target_pointer_width = "64")) {
        return Err(io::ErrorKind::Unsupported.into());
    }
    // SAFETY: takes a number.
    let set = check(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
    // SAFETY: the descriptor was just made and is nobody else's.
    let set = unsafe { OwnedFd::from_raw_fd(set) };
    for (place, one) in fds.iter().enumerate() {
        // The events have the same numbers.
        let events = u32::from(one.events.cast_unsigned());
        let mut event = libc::epoll_event { events, u64: place as u64 };
        // SAFETY: the kernel reads one event.
        let added = unsafe {
            libc::epoll_ctl(set.as_raw_fd(), libc::EPOLL_CTL_ADD, one.fd, &raw mut event)
        };
        check(added)?;
    }
    Ok(set)
}

/// Waits as [`poll`] does, for what [`wait_set`] was given. Of many that are ready some may not be
/// told of; the next wait tells of those.
///
/// # Errors
/// As epoll_pwait2(2), which Linux has since 5.11.
pub(crate) fn wait_for_set(set: &OwnedFd, fds: &mut [pollfd], timeout_ns: i64) -> io::Result<()> {
    let ns = timeout_ns.max(0);
    let timeout = libc::timespec { tv_sec: ns / 1_000_000_000, tv_nsec: ns % 1_000_000_000 };
    let mut ready = [libc::epoll_event { events: 0, u64: 0 }; MOST_READY];
    let none = std::ptr::null::<libc::sigset_t>();
    // SAFETY: pointer and length are those of an exclusive array of events, the kernel reads one
    // timespec, and no signal mask is given.
    let n = unsafe {
        libc::syscall(
            libc::SYS_epoll_pwait2,
            set.as_raw_fd(),
            ready.as_mut_ptr(),
            MOST_READY as libc::c_int,
            &raw const timeout,
            none,
            0_usize,
        )
    };
    let n = check(n as i32)?;
    fds.iter_mut().for_each(|one| one.revents = 0);
    for event in ready.iter().take(n as usize) {
        let (events, place) = (event.events, event.u64);
        if let Some(one) = usize::try_from(place).ok().and_then(|place| fds.get_mut(place)) {
            // None of those that were asked for, or come unasked, is beyond 16 bits.
            one.revents = events as i16;
        }
    }
    Ok(())
}

/// Makes this thread's waits end when they should, and not up to 50 µs later. Where the kernel does
/// not take that, waits end a little late.
pub(crate) fn wake_promptly() {
    // SAFETY: takes numbers.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong, 0, 0, 0) };
}

/// Gives this thread a real-time priority, 1 to 99 (`SCHED_RR`); children do not inherit it.
pub(crate) fn real_time(priority: u8) -> io::Result<()> {
    let param = libc::sched_param { sched_priority: priority.into() };
    let policy = libc::SCHED_RR | libc::SCHED_RESET_ON_FORK;
    // SAFETY: the kernel reads one sched_param.
    check(unsafe { libc::sched_setscheduler(0, policy, &raw const param) }).map(drop)
}

/// Lets this process have as many descriptors as it may: each attached program takes two.
pub(crate) fn more_descriptors() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel writes one rlimit, and reads one.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) == 0 {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
        }
    }
}

/// `CLOCK_MONOTONIC_RAW`, ns.
pub(crate) fn raw_ns() -> i64 {
    read_clock(libc::CLOCK_MONOTONIC_RAW)
}

/// `CLOCK_REALTIME`, ns since 1970.
pub(crate) fn realtime_ns() -> i64 {
    read_clock(libc::CLOCK_REALTIME)
}

fn read_clock(clock: libc::clockid_t) -> i64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one timespec into `now`. Both clocks exist since Linux 2.6.28.
    unsafe { libc::clock_gettime(clock, &raw mut now) };
    now.tv_sec.saturating_mul(1_000_000_000).saturating_add(now.tv_nsec)
}

/// An unpredictable number.
///
/// # Errors
/// As getrandom(2).
pub(crate) fn random() -> io::Result<u64> {
    let mut bytes = [0_u8; 8];
    loop {
        // SAFETY: pointer and length are those of an exclusive array of bytes.
        let n = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
        if n == bytes.len() as isize {
            return Ok(u64::from_ne_bytes(bytes));
        }
        let why = io::Error::last_os_error();
        if n < 0 && why.kind() != io::ErrorKind::Interrupted {
            return Err(why);
        }
    }
}

/// An event counter that wakes a poll(2) from another thread.
pub(crate) fn event_counter() -> io::Result<OwnedFd> {
    // SAFETY: takes two numbers.
    let fd = check(unsafe { libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) })?;
    // SAFETY: the descriptor was just made and is nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// The user that this process acts as.
pub(crate) fn uid() -> u32 {
    // SAFETY: takes no argument and cannot fail.
    unsafe { libc::geteuid() }
}

fn check(result: i32) -> io::Result<i32> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_go_on_and_numbers_differ() {
        let (raw, real) = (raw_ns(), realtime_ns());
        poll(&mut [], 1_000_000).unwrap();
        assert!(raw_ns() >= raw + 1_000_000 / 2, "the wait was {} ns", raw_ns() - raw);
        assert!(real > 1_700_000_000_000_000_000);
        assert_ne!(random().unwrap(), random().unwrap());
    }
}
