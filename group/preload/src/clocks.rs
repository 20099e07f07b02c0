//! The functions of libc that tell the time.

use core::ffi::{c_int, c_long, c_short, c_ushort, c_void};

use libc::{clockid_t, time_t, timespec, timeval};
use truechimer_group::Call;

use crate::kernel::set_errno;
use crate::process::{Part, part, process};
use crate::reads::group_time;
use crate::real;
use crate::spans::{SECOND, to_timespec};

/// `TIME_UTC` and `TIME_MONOTONIC` of C.
const TIME_UTC: c_int = 1;
const TIME_MONOTONIC: c_int = 2;

/// Clock as this process sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shows {
    /// Reading of the host's clock.
    Host,
    /// The group's time.
    Group,
    /// The group's time with this added, ns.
    Ahead(i64),
    /// The group's time, as a monotonic clock.
    Monotonic,
}

/// Reading that the clock shows.
pub fn shows(clock: clockid_t) -> Shows {
    let takes_part = || matches!(part(), Part::Round | Part::Delivery);
    match clock {
        libc::CLOCK_REALTIME | libc::CLOCK_REALTIME_COARSE | libc::CLOCK_REALTIME_ALARM
            if takes_part() =>
        {
            Shows::Group
        }
        libc::CLOCK_TAI if takes_part() => {
            process().map_or(Shows::Host, |process| Shows::Ahead(process.tai_ns))
        }
        libc::CLOCK_MONOTONIC
        | libc::CLOCK_MONOTONIC_COARSE
        | libc::CLOCK_MONOTONIC_RAW
        | libc::CLOCK_BOOTTIME
        | libc::CLOCK_BOOTTIME_ALARM
            if takes_part() && process().is_some_and(|process| process.monotonic) =>
        {
            Shows::Monotonic
        }
        _ => Shows::Host,
    }
}

/// The clock's time by the group; none if it is the host's.
pub fn read(clock: clockid_t, call: Call) -> Option<i64> {
    match shows(clock) {
        Shows::Host => None,
        Shows::Group => group_time(call),
        Shows::Ahead(by) => group_time(call).map(|time| time.saturating_add(by)),
        Shows::Monotonic => group_time(Call::Monotonic),
    }
}

fn fault() -> c_int {
    set_errno(libc::EFAULT);
    -1
}

/// # Safety
/// As `clock_gettime(2)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn clock_gettime(clock: clockid_t, at: *mut timespec) -> c_int {
    if let Some(time) = read(clock, Call::ClockGettime) {
        // SAFETY: null or the caller's place for the answer.
        return match unsafe { at.as_mut() } {
            Some(at) => {
                *at = to_timespec(time);
                0
            }
            None => fault(),
        };
    }
    match real::CLOCK_GETTIME.get() {
        // SAFETY: the caller's own arguments.
        Some(real) => unsafe { real(clock, at) },
        None => {
            let arguments = [c_long::from(clock), at as c_long, 0, 0, 0, 0];
            // SAFETY: the caller's own arguments.
            let result = unsafe { crate::kernel::call(libc::SYS_clock_gettime, arguments) };
            crate::kernel::returned(result) as c_int
        }
    }
}

/// # Safety
/// As `gettimeofday(2)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn gettimeofday(at: *mut timeval, zone: *mut c_void) -> c_int {
    let Some(time) = read(libc::CLOCK_REALTIME, Call::Gettimeofday) else {
        let Some(real) = real::GETTIMEOFDAY.get() else { return fault() };
        // SAFETY: the caller's own arguments.
        return unsafe { real(at, zone) };
    };
    if let (false, Some(real)) = (zone.is_null(), real::GETTIMEOFDAY.get()) {
        // SAFETY: the zone alone, at the caller's place for it.
        unsafe { real(core::ptr::null_mut(), zone) };
    }
    // SAFETY: null or the caller's place for the answer.
    if let Some(at) = unsafe { at.as_mut() } {
        at.tv_sec = time.div_euclid(SECOND);
        at.tv_usec = time.rem_euclid(SECOND) / 1_000;
    }
    0
}

/// # Safety
/// As `gettimeofday(2)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn __gettimeofday(at: *mut timeval, zone: *mut c_void) -> c_int {
    // SAFETY: the same contract.
    unsafe { gettimeofday(at, zone) }
}

/// # Safety
/// As `time(2)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn time(at: *mut time_t) -> time_t {
    let Some(time) = read(libc::CLOCK_REALTIME, Call::Time) else {
        let Some(real) = real::TIME.get() else { return time_t::from(fault()) };
        // SAFETY: the caller's own argument.
        return unsafe { real(at) };
    };
    let seconds = time.div_euclid(SECOND);
    // SAFETY: null or the caller's place for the answer.
    if let Some(at) = unsafe { at.as_mut() } {
        *at = seconds;
    }
    seconds
}

/// `struct timeb` of C.
#[repr(C)]
struct Timeb {
    time: time_t,
    millitm: c_ushort,
    timezone: c_short,
    dstflag: c_short,
}

/// # Safety
/// As `ftime(3)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn ftime(at: *mut c_void) -> c_int {
    let Some(time) = read(libc::CLOCK_REALTIME, Call::Ftime) else {
        let Some(real) = real::FTIME.get() else { return fault() };
        // SAFETY: the caller's own argument.
        return unsafe { real(at) };
    };
    // SAFETY: null or the caller's place for the answer, which has this layout.
    let Some(at) = (unsafe { at.cast::<Timeb>().as_mut() }) else { return fault() };
    *at = Timeb {
        time: time.div_euclid(SECOND),
        millitm: (time.rem_euclid(SECOND) / 1_000_000) as c_ushort,
        timezone: 0,
        dstflag: 0,
    };
    0
}

/// # Safety
/// As `timespec_get(3)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn timespec_get(at: *mut timespec, base: c_int) -> c_int {
    let clock = match base {
        TIME_UTC => Some(libc::CLOCK_REALTIME),
        TIME_MONOTONIC => Some(libc::CLOCK_MONOTONIC),
        _ => None,
    };
    let Some(time) = clock.and_then(|clock| read(clock, Call::TimespecGet)) else {
        let Some(real) = real::TIMESPEC_GET.get() else { return 0 };
        // SAFETY: the caller's own arguments.
        return unsafe { real(at, base) };
    };
    // SAFETY: null or the caller's place for the answer.
    match unsafe { at.as_mut() } {
        Some(at) => {
            *at = to_timespec(time);
            base
        }
        None => 0,
    }
}
