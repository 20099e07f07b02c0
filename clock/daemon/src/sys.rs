//! The system calls that std does not have, by rustix where it has them; the only unsafe code of
//! this crate. All of them go through libc, where they can be interposed.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

use rustix::io::{Errno, retry_on_intr};
use rustix::rand::{GetRandomFlags, getrandom};
use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime,
    clock_settime, timerfd_create, timerfd_settime,
};
use truechimer_counter::{adjtimex, discipline, timex};
use truechimer_engine::KernelWord;
use truechimer_time::{Rate, Span};

pub(crate) use libc::{POLLIN, POLLNVAL, POLLOUT, pollfd};

/// The kernel's limit of `freq`: ±500 ppm in units of 2⁻¹⁶ ppm.
const MAX_FREQUENCY: i128 = 500 << 16;
const NANOS: i128 = 1_000_000_000;
/// A time that no clock is set to: in 2200, s since 1970.
const FAR: i64 = 7_258_118_400;

/// Waits until something happens on one of `fds` (by poll(2) itself, which clock simulators replace,
/// not by ppoll(2) as rustix would) or `timeout_ms` have passed, and says whether
/// anything did.
///
/// # Errors
/// As poll(2); a signal ends it with [`io::ErrorKind::Interrupted`].
pub(crate) fn poll(fds: &mut [pollfd], timeout_ms: i32) -> io::Result<bool> {
    // SAFETY: pointer and length are those of an exclusive slice of `pollfd`.
    let n = unsafe { libc::poll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, timeout_ms) };
    check(n).map(|n| n > 0)
}

/// A timer of `CLOCK_REALTIME`, not yet armed.
pub(crate) fn clock_timer() -> io::Result<OwnedFd> {
    Ok(timerfd_create(TimerfdClockId::Realtime, TimerfdFlags::NONBLOCK)?)
}

/// Arms the timer so that it becomes readable when `CLOCK_REALTIME` is set, and practically never
/// else.
pub(crate) fn await_clock_set(timer: &OwnedFd) -> io::Result<()> {
    let never = Timespec { tv_sec: FAR, tv_nsec: 0 };
    let value = Itimerspec { it_interval: Timespec::default(), it_value: never };
    let flags = TimerfdTimerFlags::ABSTIME | TimerfdTimerFlags::CANCEL_ON_SET;
    match timerfd_settime(timer, flags, &value) {
        // It was set once more since the last time; it is armed nevertheless.
        Ok(_) | Err(Errno::CANCELED) => Ok(()),
        Err(why) => Err(why.into()),
    }
}

/// Fills `bytes` with unpredictable ones.
pub(crate) fn random(bytes: &mut [u8]) -> io::Result<()> {
    // Up to 256 come all at once.
    retry_on_intr(|| getrandom(&mut bytes[..], GetRandomFlags::empty()))?;
    Ok(())
}

/// The user at the other end of a Unix socket.
pub(crate) fn peer_uid(socket: &impl AsRawFd) -> io::Result<u32> {
    let mut peer = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    // Not by rustix, for which no process may have the number 0, as those of other namespaces have.
    // SAFETY: the kernel writes at most `length` bytes into `peer`, which is that large and valid
    // for any bytes.
    check(unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut peer).cast(),
            &raw mut length,
        )
    })?;
    Ok(peer.uid)
}

/// Makes the calling thread, and no other, act as this user from now on; `false` if it may not.
#[cfg(test)]
pub(crate) fn become_user(user: u32) -> bool {
    let user = rustix::process::Uid::from_raw(user);
    rustix::thread::set_thread_res_uid(user, user, user).is_ok()
}

/// The user that this process acts as.
pub(crate) fn uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Reason why this user, with the rights that it has now, cannot make anything in a directory.
pub(crate) fn unwritable(folder: &Path) -> Option<io::Error> {
    use rustix::fs::{Access, AtFlags, CWD, accessat};
    let wanted = Access::WRITE_OK | Access::EXEC_OK;
    accessat(CWD, folder, wanted, AtFlags::EACCESS).err().map(Into::into)
}

/// Rate by which the system clock was made to run faster than the kernel's nominal rate.
pub(crate) fn kernel_frequency() -> io::Result<Rate> {
    let freq = i128::from(discipline()?.frequency);
    Ok(Rate(((freq << 48) / 1_000_000) as i64))
}

/// Tells the kernel how good its clock is. Its own phase-locked loop is switched off: nobody but
/// us moves the clock.
pub(crate) fn tell_kernel(word: &KernelWord) -> io::Result<()> {
    let mut t = in_nanoseconds();
    t.modes |= libc::ADJ_STATUS | libc::ADJ_MAXERROR | libc::ADJ_ESTERROR;
    (t.status, t.maxerror) = status_and_max_error(word);
    t.esterror = micros(word.estimated_error);
    adjtimex(&mut t)?;
    let Some(tai) = word.tai_offset else { return Ok(()) };
    let mut t = in_nanoseconds();
    t.modes |= libc::ADJ_TAI;
    t.constant = tai.into();
    adjtimex(&mut t).map(drop)
}

/// Status and `maxerror` that say it. A clock as far off as the kernel can say counts as not
/// synchronised, at once and not when the kernel's next second begins.
fn status_and_max_error(word: &KernelWord) -> (libc::c_int, libc::c_long) {
    let max_error = micros(word.max_error.unwrap_or(Span::MAX));
    let status = match word.leap {
        _ if i128::from(max_error) >= MAX_ERROR_US => libc::STA_UNSYNC,
        1 => libc::STA_INS,
        -1 => libc::STA_DEL,
        _ => 0,
    };
    (status, max_error)
}

/// True if the kernel takes its clock for not synchronised by this word.
pub(crate) fn is_unsynchronised(word: &KernelWord) -> bool {
    status_and_max_error(word).0 == libc::STA_UNSYNC
}

/// In microseconds, rounded up, and at most what the kernel can say.
fn micros(span: Span) -> libc::c_long {
    (span.as_nanos() / 1000).saturating_add(1).clamp(0, MAX_ERROR_US) as libc::c_long
}

/// Makes the system clock run `rate` faster than the kernel's nominal rate, within ±500 ppm.
pub(crate) fn set_frequency(rate: Rate) -> io::Result<()> {
    let mut t = in_nanoseconds();
    t.modes |= libc::ADJ_FREQUENCY;
    t.freq = frequency(rate) as libc::c_long;
    adjtimex(&mut t).map(drop)
}

/// Adds `span` to the system clock at once.
pub(crate) fn step(span: Span) -> io::Result<()> {
    let mut t = in_nanoseconds();
    t.modes |= libc::ADJ_SETOFFSET;
    let (secs, nanos) = secs_and_nanos(span.as_nanos());
    t.time.tv_sec = secs;
    t.time.tv_usec = nanos;
    match adjtimex(&mut t) {
        // Kernels without ADJ_SETOFFSET: read and set, at the cost of the time between.
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
            let now = clock_gettime(ClockId::Realtime);
            let now = i128::from(now.tv_sec) * NANOS + i128::from(now.tv_nsec);
            let (tv_sec, tv_nsec) = secs_and_nanos(now.saturating_add(span.as_nanos()));
            Ok(clock_settime(ClockId::Realtime, Timespec { tv_sec, tv_nsec })?)
        }
        result => result.map(drop),
    }
}

/// Error that the kernel takes for no synchronisation at all: 16 s (`NTP_PHASE_LIMIT`), µs.
const MAX_ERROR_US: i128 = 16_000_000;

/// Asks for nothing but nanoseconds.
fn in_nanoseconds() -> libc::timex {
    let mut t = timex();
    t.modes = libc::ADJ_NANO;
    t
}

/// In the kernel's units of 2⁻¹⁶ ppm, rounded to the nearest.
fn frequency(rate: Rate) -> i64 {
    let scaled = (i128::from(rate.0) * 1_000_000 + (1 << 47)) >> 48;
    scaled.clamp(-MAX_FREQUENCY, MAX_FREQUENCY) as i64
}

/// Seconds, rounded down, and the nanoseconds of the rest, 0 ≤ rest < 10⁹.
fn secs_and_nanos(nanos: i128) -> (i64, i64) {
    let secs = nanos.div_euclid(NANOS).clamp(i128::from(i64::MIN), i128::from(i64::MAX));
    (secs as i64, nanos.rem_euclid(NANOS) as i64)
}

/// Resident memory of this process in bytes; 0 where `/proc` does not tell.
pub(crate) fn resident() -> u64 {
    fn pages() -> Option<u64> {
        use std::io::Read;
        let mut text = String::new();
        File::open("/proc/self/statm").ok()?.take(256).read_to_string(&mut text).ok()?;
        text.split_whitespace().nth(1)?.parse().ok()
    }
    pages().unwrap_or(0).saturating_mul(rustix::param::page_size() as u64)
}

/// Locks all memory of the process, and what it will take. Where a limit could make it fail to get more
/// later, nothing.
///
/// # Errors
/// `EPERM` where there is a limit that holds for this process, or a filter of system calls.
pub fn lock_memory() -> io::Result<()> {
    use rustix::process::{Resource, getrlimit};
    use rustix::thread::{CapabilitySet, capabilities};
    let limit = getrlimit(Resource::Memlock).current;
    if limit.is_some() && !capabilities(None)?.effective.contains(CapabilitySet::IPC_LOCK) {
        return Err(Errno::PERM.into());
    }
    // SAFETY: it takes no pointers, and changes nothing that memory holds.
    check(unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE) }).map(drop)
}

/// The result of a system call: negative means errno.
fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    #[test]
    fn frequencies_are_in_the_kernels_units() {
        assert_eq!(frequency(Rate::from_ppb(1_000)), 65_536);
        assert_eq!(frequency(Rate::from_ppb(-37_500)), -2_457_600);
        assert_eq!(frequency(Rate(i64::MAX)), 500 << 16);
        assert_eq!(frequency(Rate(i64::MIN)), -(500 << 16));
    }

    #[test]
    fn the_kernels_word_is_rounded_up_and_ends_at_16_seconds() {
        let said = |max_error, leap| {
            let word =
                KernelWord { max_error, estimated_error: Span::ZERO, leap, tai_offset: None };
            status_and_max_error(&word)
        };
        assert_eq!(said(Some(Span::from_nanos(30_500)), 0), (0, 31));
        assert_eq!(said(Some(Span::from_secs(15)), 1), (libc::STA_INS, 15_000_001));
        assert_eq!(said(Some(Span::from_micros(31)), -1), (libc::STA_DEL, 32));
        for beyond in [Some(Span::from_secs(16)), Some(Span::MAX), None] {
            assert_eq!(said(beyond, 1), (libc::STA_UNSYNC, 16_000_000), "{beyond:?}");
        }
        assert_eq!(said(Some(Span(i128::MIN)), 0).1, 0);
    }

    #[test]
    fn a_step_back_has_positive_nanoseconds() {
        assert_eq!(secs_and_nanos(-1), (-1, 999_999_999));
        assert_eq!(secs_and_nanos(-2_500_000_000), (-3, 500_000_000));
        assert_eq!(secs_and_nanos(Span::from_millis(1_250).as_nanos()), (1, 250_000_000));
        assert_eq!(secs_and_nanos(i128::MAX).0, i64::MAX);
    }

    #[test]
    fn the_peer_of_a_pair_is_oneself() {
        let (a, _b) = UnixStream::pair().unwrap();
        assert_eq!(peer_uid(&a).unwrap(), uid());
    }

    #[test]
    fn polling_nothing_is_a_wait() {
        assert!(!poll(&mut [], 1).unwrap());
    }

    #[test]
    fn randomness_fills_everything() {
        let (mut a, mut b) = ([0; 32], [0; 32]);
        random(&mut a).unwrap();
        random(&mut b).unwrap();
        assert_ne!(a, b);
    }

    #[test]
    fn this_process_is_resident() {
        assert!(resident() > 100_000);
    }
}
