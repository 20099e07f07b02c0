//! The system calls that std does not have, through libc; unsafe where rustix has none that suit.
#![allow(unsafe_code)]

use std::io;
use std::num::NonZeroU64;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use rustix::event::{EventfdFlags, epoll, eventfd};
use rustix::io::retry_on_intr;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::rand::{GetRandomFlags, getrandom};
use rustix::thread::set_current_timer_slack;
use rustix::time::{ClockId, clock_gettime};

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
    let set = epoll::create(epoll::CreateFlags::CLOEXEC)?;
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
    let _ = set_current_timer_slack(Some(NonZeroU64::MIN));
}

/// Gives this thread a real-time priority, 1 to 99 (`SCHED_RR`); children do not inherit it.
pub(crate) fn real_time(priority: u8) -> io::Result<()> {
    // SAFETY: integers, for which zeros are valid; some libcs have more of them.
    let mut param: libc::sched_param = unsafe { std::mem::zeroed() };
    param.sched_priority = priority.into();
    let policy = libc::SCHED_RR | libc::SCHED_RESET_ON_FORK;
    // SAFETY: the kernel reads one sched_param.
    check(unsafe { libc::sched_setscheduler(0, policy, &raw const param) }).map(drop)
}

/// Lets this process have as many descriptors as it may: each attached program takes two.
pub(crate) fn more_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

/// `CLOCK_MONOTONIC_RAW`, ns.
pub(crate) fn raw_ns() -> i64 {
    read_clock(ClockId::MonotonicRaw)
}

/// `CLOCK_REALTIME`, ns since 1970.
pub(crate) fn realtime_ns() -> i64 {
    read_clock(ClockId::Realtime)
}

fn read_clock(clock: ClockId) -> i64 {
    let now = clock_gettime(clock);
    now.tv_sec.saturating_mul(1_000_000_000).saturating_add(now.tv_nsec)
}

/// An unpredictable number.
///
/// # Errors
/// As getrandom(2).
pub(crate) fn random() -> io::Result<u64> {
    let mut bytes = [0_u8; 8];
    // So few come all at once.
    retry_on_intr(|| getrandom(&mut bytes[..], GetRandomFlags::empty()))?;
    Ok(u64::from_ne_bytes(bytes))
}

/// An event counter that wakes a poll(2) from another thread.
pub(crate) fn event_counter() -> io::Result<OwnedFd> {
    Ok(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?)
}

/// The user that this process acts as.
pub(crate) fn uid() -> u32 {
    rustix::process::geteuid().as_raw()
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
