//! Timers that are set to a moment of the group's clock: the kernel is told how long that is to
//! go, by the last pair of clocks that the thread has seen.

use core::ffi::{CStr, c_int};
use core::sync::atomic::{AtomicUsize, Ordering};

use libc::{clockid_t, itimerspec, sigevent, timer_t};

use crate::clocks::{Shows, shows};
use crate::kernel;
use crate::reads::{group_ahead, monotonic};
use crate::real::{self, Real};
use crate::spans::{from_timespec, left, to_timespec};

/// Most POSIX timers on clocks other than the host's that can be told apart.
const TIMERS: usize = 1024;

/// One such timer: its number + 1 with the clock in another word; 0 = none.
struct Timer {
    id: AtomicUsize,
    clock: AtomicUsize,
}

static TABLE: [Timer; TIMERS] =
    [const { Timer { id: AtomicUsize::new(0), clock: AtomicUsize::new(0) } }; TIMERS];

fn key(timer: timer_t) -> usize {
    timer.addr().wrapping_add(1)
}

fn clock_of(timer: timer_t) -> Option<clockid_t> {
    let found = TABLE.iter().find(|one| one.id.load(Ordering::Acquire) == key(timer))?;
    clockid_t::try_from(found.clock.load(Ordering::Acquire)).ok()
}

fn forget(timer: timer_t) {
    for one in TABLE.iter().filter(|one| one.id.load(Ordering::Acquire) == key(timer)) {
        one.id.store(0, Ordering::Release);
    }
}

fn remember(timer: timer_t, clock: clockid_t) {
    // What an earlier life of the number was, or one before a fork, does not count.
    forget(timer);
    let Ok(clock) = usize::try_from(clock) else { return };
    // Claimed under a key that no timer has, then said.
    let free = TABLE.iter().find(|one| {
        one.id.compare_exchange(0, usize::MAX, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    });
    if let Some(one) = free {
        one.clock.store(clock, Ordering::Release);
        one.id.store(key(timer), Ordering::Release);
    }
}

/// Makes a setting of a timer on that clock: relative, with as much time as is left; none if it
/// stays as it is.
unsafe fn relative(clock: clockid_t, value: *const itimerspec) -> Option<itimerspec> {
    // SAFETY: null or the caller's setting.
    let value = unsafe { value.as_ref() }?;
    let by = match shows(clock) {
        Shows::Host => return None,
        Shows::Group | Shows::Monotonic => 0,
        Shows::Ahead(by) => by,
    };
    // All zeros stop the timer; what is no time is refused.
    let until = from_timespec(&value.it_value).filter(|until| *until != 0)?;
    let errno = kernel::Errno::keep();
    let ahead = group_ahead();
    errno.restore();
    let left = left(until.saturating_sub(by), ahead?, monotonic());
    Some(itimerspec { it_interval: value.it_interval, it_value: to_timespec(left) })
}

/// The clock of a timer's descriptor, as the kernel has it.
fn clock_of_descriptor(fd: c_int) -> Option<clockid_t> {
    let mut path = [0_u8; 40];
    let mut length = 0;
    let mut push = |bytes: &[u8]| {
        for byte in bytes {
            if let Some(at) = path.get_mut(length) {
                *at = *byte;
                length += 1;
            }
        }
    };
    push(b"/proc/self/fdinfo/");
    let number = u32::try_from(fd).ok()?;
    let mut begun = false;
    for power in (0..10).rev() {
        let digit = number / 10_u32.pow(power) % 10;
        begun |= digit != 0 || power == 0;
        if begun {
            push(&[b'0' + digit as u8]);
        }
    }
    let path = CStr::from_bytes_until_nul(&path).ok()?;
    let mut room = [0; 512];
    clock_in(kernel::read_file(path, &mut room)?)
}

/// The line `clockid: N`.
fn clock_in(info: &[u8]) -> Option<clockid_t> {
    let text = core::str::from_utf8(info).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("clockid:"))?;
    line.trim().parse().ok()
}

/// Flags of timerfd_settime without those that have no sense for what is left.
pub const fn without_moment(flags: c_int) -> c_int {
    flags & !(libc::TFD_TIMER_ABSTIME | libc::TFD_TIMER_CANCEL_ON_SET)
}

/// The setting of a timer's descriptor, and whether it is translated.
///
/// # Safety
/// As `timerfd_settime(2)`.
pub unsafe fn descriptor_setting(
    fd: c_int,
    flags: c_int,
    value: *const itimerspec,
) -> Option<itimerspec> {
    if flags & libc::TFD_TIMER_ABSTIME == 0 {
        return None;
    }
    let errno = kernel::Errno::keep();
    let clock = clock_of_descriptor(fd);
    errno.restore();
    // SAFETY: the caller's own arguments.
    unsafe { relative(clock?, value) }
}

/// # Safety
/// As `timerfd_settime(2)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn timerfd_settime(
    fd: c_int,
    flags: c_int,
    value: *const itimerspec,
    old: *mut itimerspec,
) -> c_int {
    let Some(real) = Real::get(&real::TIMERFD_SETTIME) else { return missing() };
    // SAFETY: the caller's own arguments.
    match unsafe { descriptor_setting(fd, flags, value) } {
        // SAFETY: the caller's own arguments, and a setting that outlives the call.
        Some(setting) => unsafe { real(fd, without_moment(flags), &setting, old) },
        // SAFETY: the caller's own arguments.
        None => unsafe { real(fd, flags, value, old) },
    }
}

/// # Safety
/// As `timer_create(2)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn timer_create(
    clock: clockid_t,
    event: *mut sigevent,
    timer: *mut timer_t,
) -> c_int {
    let Some(real) = Real::get(&real::TIMER_CREATE) else { return missing() };
    // SAFETY: the caller's own arguments.
    let result = unsafe { real(clock, event, timer) };
    if result == 0 {
        // SAFETY: the real one has just written the timer there.
        let timer = unsafe { *timer };
        match shows(clock) {
            Shows::Host => forget(timer),
            Shows::Group | Shows::Monotonic | Shows::Ahead(_) => remember(timer, clock),
        }
    }
    result
}

/// # Safety
/// As `timer_delete(2)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn timer_delete(timer: timer_t) -> c_int {
    let Some(real) = Real::get(&real::TIMER_DELETE) else { return missing() };
    forget(timer);
    // SAFETY: the caller's own argument.
    unsafe { real(timer) }
}

/// # Safety
/// As `timer_settime(2)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn timer_settime(
    timer: timer_t,
    flags: c_int,
    value: *const itimerspec,
    old: *mut itimerspec,
) -> c_int {
    let Some(real) = Real::get(&real::TIMER_SETTIME) else { return missing() };
    let clock = clock_of(timer).filter(|_| flags & libc::TIMER_ABSTIME != 0);
    // SAFETY: the caller's own arguments.
    if let Some(setting) = clock.and_then(|clock| unsafe { relative(clock, value) }) {
        // SAFETY: the caller's own arguments, and a setting that outlives the call.
        return unsafe { real(timer, flags & !libc::TIMER_ABSTIME, &setting, old) };
    }
    // SAFETY: the caller's own arguments.
    unsafe { real(timer, flags, value, old) }
}

fn missing() -> c_int {
    kernel::set_errno(libc::ENOSYS);
    -1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_descriptors_clock() {
        for clock in [libc::CLOCK_REALTIME, libc::CLOCK_MONOTONIC, libc::CLOCK_BOOTTIME] {
            // SAFETY: takes numbers only.
            let fd = unsafe { libc::timerfd_create(clock, libc::TFD_CLOEXEC) };
            assert!(fd >= 0);
            assert_eq!(clock_of_descriptor(fd), Some(clock));
            kernel::close(fd);
            assert_eq!(clock_of_descriptor(fd), None);
        }
        assert_eq!(clock_in(b"pos:\t0\nclockid: 11\n"), Some(11));
        assert_eq!(clock_in(b"pos:\t0\nclockid: x\n"), None);
        assert_eq!(clock_in(b"\xff"), None);
    }

    #[test]
    fn timers_are_told_apart() {
        let timer = |number: usize| core::ptr::without_provenance_mut(number);
        remember(timer(0), libc::CLOCK_REALTIME);
        remember(timer(7), libc::CLOCK_TAI);
        assert_eq!(clock_of(timer(0)), Some(libc::CLOCK_REALTIME));
        assert_eq!(clock_of(timer(7)), Some(libc::CLOCK_TAI));
        remember(timer(7), libc::CLOCK_REALTIME);
        assert_eq!(clock_of(timer(7)), Some(libc::CLOCK_REALTIME));
        forget(timer(7));
        assert_eq!((clock_of(timer(7)), clock_of(timer(1))), (None, None));
    }
}
