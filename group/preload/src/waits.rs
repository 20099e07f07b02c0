//! The functions of libc that wait for another thread or wake it, of which a front is told, and
//! those that wait for a moment of the group's clock. The latter wait on the host's
//! CLOCK_MONOTONIC for the moment that belongs to it, by the last pair of both clocks that the
//! thread has seen: that takes no round, and a step of the host's clock does not move it.

use core::ffi::{c_char, c_int, c_uint, c_void};

use libc::{
    clockid_t, mqd_t, pthread_cond_t, pthread_mutex_t, pthread_rwlock_t, pthread_t, sem_t, size_t,
    ssize_t, timespec,
};

use crate::clocks::{Shows, shows};
use crate::input::{hand_on, wait_for_another};
use crate::kernel;
use crate::process::process;
use crate::reads::{group_ahead, monotonic};
use crate::real::{self, Real};
use crate::spans::{from_timespec, local, to_timespec};

/// C11's answer to what does not work.
const THRD_ERROR: c_int = 2;

/// When CLOCK_MONOTONIC shows what belongs to a deadline on that clock; none if the clock is the
/// host's, or the deadline is one that libc is to refuse.
///
/// # Safety
/// `until` is null or a timespec.
pub unsafe fn moment(clock: clockid_t, until: *const timespec) -> Option<timespec> {
    // SAFETY: the caller's word.
    let until = from_timespec(unsafe { until.as_ref() }?)?;
    let by = match shows(clock) {
        Shows::Host => return None,
        Shows::Group | Shows::Monotonic => 0,
        Shows::Ahead(by) => by,
    };
    let errno = kernel::Errno::keep();
    let ahead = group_ahead();
    errno.restore();
    Some(to_timespec(local(until.saturating_sub(by), ahead?)))
}

/// Moment for calls that know no clock but the host's CLOCK_REALTIME.
unsafe fn moment_realtime(until: *const timespec) -> Option<timespec> {
    // SAFETY: the caller's word.
    let moment = unsafe { moment(libc::CLOCK_REALTIME, until) }?;
    let left = from_timespec(&moment)?.saturating_sub(monotonic());
    let host = kernel::clock(libc::CLOCK_REALTIME);
    Some(to_timespec(host.saturating_add(left).max(0)))
}

/// Where in a condition variable libc keeps its clock: the byte, and the bits that are set for the
/// monotonic one. Found by comparing two of them.
pub fn find_cond_clock() -> Option<(usize, u8)> {
    let made = |clock: clockid_t| {
        // SAFETY: all of them are plain memory, made as pthread_cond_init(3) has it.
        unsafe {
            let mut attributes: libc::pthread_condattr_t = core::mem::zeroed();
            let mut cond: pthread_cond_t = core::mem::zeroed();
            let set = libc::pthread_condattr_init(&mut attributes) == 0
                && libc::pthread_condattr_setclock(&mut attributes, clock) == 0
                && libc::pthread_cond_init(&mut cond, &attributes) == 0;
            set.then(|| {
                core::mem::transmute::<pthread_cond_t, [u8; size_of::<pthread_cond_t>()]>(cond)
            })
        }
    };
    let (real, mono) = (made(libc::CLOCK_REALTIME)?, made(libc::CLOCK_MONOTONIC)?);
    let mut other = real.iter().zip(&mono).enumerate().filter(|(_, (real, mono))| real != mono);
    let (at, (real, mono)) = other.next()?;
    let bits = real ^ mono;
    (other.next().is_none() && bits & mono == bits).then_some((at, bits))
}

/// The clock of a condition variable's deadlines.
unsafe fn cond_clock(cond: *const pthread_cond_t) -> clockid_t {
    match process().and_then(|process| process.cond_clock) {
        Some((at, bits)) if !cond.is_null() => {
            // SAFETY: a byte within the caller's condition variable, which other threads change
            // as atomics, but not these bits.
            let byte = unsafe { cond.cast::<u8>().add(at).read_volatile() };
            if byte & bits != 0 { libc::CLOCK_MONOTONIC } else { libc::CLOCK_REALTIME }
        }
        _ => libc::CLOCK_REALTIME,
    }
}

/// Calls the function of libc, or says that there is none.
macro_rules! call {
    ($real:expr, $missing:expr, ($($argument:expr),*)) => {
        match Real::get(&$real) {
            // SAFETY: the caller's own arguments, and a deadline of ours that outlives the call.
            Some(real) => unsafe { real($($argument),*) },
            None => $missing,
        }
    };
}

/// −1 and errno, as for a call that the system does not have.
fn missing() -> c_int {
    kernel::set_errno(libc::ENOSYS);
    -1
}

/// # Safety
/// As `clock_nanosleep(2)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn clock_nanosleep(
    clock: clockid_t,
    flags: c_int,
    until: *const timespec,
    rest: *mut timespec,
) -> c_int {
    if flags & libc::TIMER_ABSTIME != 0 {
        // SAFETY: the caller's deadline.
        if let Some(moment) = unsafe { moment(clock, until) } {
            let monotonic = libc::CLOCK_MONOTONIC;
            return call!(real::CLOCK_NANOSLEEP, libc::ENOSYS, (monotonic, flags, &moment, rest));
        }
    }
    call!(real::CLOCK_NANOSLEEP, libc::ENOSYS, (clock, flags, until, rest))
}

/// # Safety
/// Waits as `pthread_cond_wait(3)` does.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn pthread_cond_wait(
    cond: *mut pthread_cond_t,
    mutex: *mut pthread_mutex_t,
) -> c_int {
    wait_for_another(|| call!(real::COND_WAIT, libc::ENOSYS, (cond, mutex)))
}

/// # Safety
/// Waits as `cnd_wait(3)` does.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn cnd_wait(
    cond: *mut pthread_cond_t,
    mutex: *mut pthread_mutex_t,
) -> c_int {
    wait_for_another(|| call!(real::CND_WAIT, THRD_ERROR, (cond, mutex)))
}

/// # Safety
/// Waits as `sem_wait(3)` does.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn sem_wait(semaphore: *mut sem_t) -> c_int {
    wait_for_another(|| call!(real::SEM_WAIT, missing(), (semaphore)))
}

/// # Safety
/// Waits as `pthread_join(3)` does.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn pthread_join(thread: pthread_t, result: *mut *mut c_void) -> c_int {
    wait_for_another(|| call!(real::JOIN, libc::ENOSYS, (thread, result)))
}

/// # Safety
/// Wakes as `pthread_cond_signal(3)` does.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn pthread_cond_signal(cond: *mut pthread_cond_t) -> c_int {
    hand_on();
    call!(real::COND_SIGNAL, libc::ENOSYS, (cond))
}

/// # Safety
/// Wakes as `pthread_cond_broadcast(3)` does.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn pthread_cond_broadcast(cond: *mut pthread_cond_t) -> c_int {
    hand_on();
    call!(real::COND_BROADCAST, libc::ENOSYS, (cond))
}

/// # Safety
/// Wakes as `cnd_signal(3)` does.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn cnd_signal(cond: *mut pthread_cond_t) -> c_int {
    hand_on();
    call!(real::CND_SIGNAL, THRD_ERROR, (cond))
}

/// # Safety
/// Wakes as `cnd_broadcast(3)` does.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn cnd_broadcast(cond: *mut pthread_cond_t) -> c_int {
    hand_on();
    call!(real::CND_BROADCAST, THRD_ERROR, (cond))
}

/// # Safety
/// Wakes as `sem_post(3)` does.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn sem_post(semaphore: *mut sem_t) -> c_int {
    hand_on();
    call!(real::SEM_POST, missing(), (semaphore))
}

/// # Safety
/// As `pthread_cond_timedwait(3)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn pthread_cond_timedwait(
    cond: *mut pthread_cond_t,
    mutex: *mut pthread_mutex_t,
    until: *const timespec,
) -> c_int {
    // SAFETY: the caller's condition variable and deadline.
    if let Some(moment) = unsafe { moment(cond_clock(cond), until) } {
        let monotonic = libc::CLOCK_MONOTONIC;
        return wait_for_another(|| {
            call!(real::COND_CLOCKWAIT, libc::ENOSYS, (cond, mutex, monotonic, &moment))
        });
    }
    wait_for_another(|| call!(real::COND_TIMEDWAIT, libc::ENOSYS, (cond, mutex, until)))
}

/// # Safety
/// As `pthread_cond_clockwait(3)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn pthread_cond_clockwait(
    cond: *mut pthread_cond_t,
    mutex: *mut pthread_mutex_t,
    clock: clockid_t,
    until: *const timespec,
) -> c_int {
    // SAFETY: the caller's deadline.
    if let Some(moment) = unsafe { moment(clock, until) } {
        let monotonic = libc::CLOCK_MONOTONIC;
        return wait_for_another(|| {
            call!(real::COND_CLOCKWAIT, libc::ENOSYS, (cond, mutex, monotonic, &moment))
        });
    }
    wait_for_another(|| call!(real::COND_CLOCKWAIT, libc::ENOSYS, (cond, mutex, clock, until)))
}

/// # Safety
/// As `cnd_timedwait(3)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn cnd_timedwait(
    cond: *mut pthread_cond_t,
    mutex: *mut pthread_mutex_t,
    until: *const timespec,
) -> c_int {
    // SAFETY: the caller's deadline.
    if let Some(moment) = unsafe { moment_realtime(until) } {
        return wait_for_another(|| call!(real::CND_TIMEDWAIT, THRD_ERROR, (cond, mutex, &moment)));
    }
    wait_for_another(|| call!(real::CND_TIMEDWAIT, THRD_ERROR, (cond, mutex, until)))
}

/// # Safety
/// As `pthread_mutex_timedlock(3)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn pthread_mutex_timedlock(
    mutex: *mut pthread_mutex_t,
    until: *const timespec,
) -> c_int {
    // SAFETY: the caller's deadline.
    if let Some(moment) = unsafe { moment(libc::CLOCK_REALTIME, until) } {
        let monotonic = libc::CLOCK_MONOTONIC;
        return call!(real::MUTEX_CLOCKLOCK, libc::ENOSYS, (mutex, monotonic, &moment));
    }
    call!(real::MUTEX_TIMEDLOCK, libc::ENOSYS, (mutex, until))
}

/// # Safety
/// As `pthread_mutex_clocklock(3)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn pthread_mutex_clocklock(
    mutex: *mut pthread_mutex_t,
    clock: clockid_t,
    until: *const timespec,
) -> c_int {
    // SAFETY: the caller's deadline.
    if let Some(moment) = unsafe { moment(clock, until) } {
        let monotonic = libc::CLOCK_MONOTONIC;
        return call!(real::MUTEX_CLOCKLOCK, libc::ENOSYS, (mutex, monotonic, &moment));
    }
    call!(real::MUTEX_CLOCKLOCK, libc::ENOSYS, (mutex, clock, until))
}

/// # Safety
/// As `mtx_timedlock(3)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn mtx_timedlock(mutex: *mut pthread_mutex_t, until: *const timespec) -> c_int {
    // SAFETY: the caller's deadline.
    if let Some(moment) = unsafe { moment_realtime(until) } {
        return call!(real::MTX_TIMEDLOCK, THRD_ERROR, (mutex, &moment));
    }
    call!(real::MTX_TIMEDLOCK, THRD_ERROR, (mutex, until))
}

/// # Safety
/// As `pthread_rwlock_timedrdlock(3)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn pthread_rwlock_timedrdlock(
    lock: *mut pthread_rwlock_t,
    until: *const timespec,
) -> c_int {
    // SAFETY: the caller's deadline.
    if let Some(moment) = unsafe { moment(libc::CLOCK_REALTIME, until) } {
        let monotonic = libc::CLOCK_MONOTONIC;
        return call!(real::RWLOCK_CLOCKRDLOCK, libc::ENOSYS, (lock, monotonic, &moment));
    }
    call!(real::RWLOCK_TIMEDRDLOCK, libc::ENOSYS, (lock, until))
}

/// # Safety
/// As `pthread_rwlock_timedwrlock(3)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn pthread_rwlock_timedwrlock(
    lock: *mut pthread_rwlock_t,
    until: *const timespec,
) -> c_int {
    // SAFETY: the caller's deadline.
    if let Some(moment) = unsafe { moment(libc::CLOCK_REALTIME, until) } {
        let monotonic = libc::CLOCK_MONOTONIC;
        return call!(real::RWLOCK_CLOCKWRLOCK, libc::ENOSYS, (lock, monotonic, &moment));
    }
    call!(real::RWLOCK_TIMEDWRLOCK, libc::ENOSYS, (lock, until))
}

/// # Safety
/// As `pthread_rwlock_clockrdlock(3)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn pthread_rwlock_clockrdlock(
    lock: *mut pthread_rwlock_t,
    clock: clockid_t,
    until: *const timespec,
) -> c_int {
    // SAFETY: the caller's deadline.
    if let Some(moment) = unsafe { moment(clock, until) } {
        let monotonic = libc::CLOCK_MONOTONIC;
        return call!(real::RWLOCK_CLOCKRDLOCK, libc::ENOSYS, (lock, monotonic, &moment));
    }
    call!(real::RWLOCK_CLOCKRDLOCK, libc::ENOSYS, (lock, clock, until))
}

/// # Safety
/// As `pthread_rwlock_clockwrlock(3)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn pthread_rwlock_clockwrlock(
    lock: *mut pthread_rwlock_t,
    clock: clockid_t,
    until: *const timespec,
) -> c_int {
    // SAFETY: the caller's deadline.
    if let Some(moment) = unsafe { moment(clock, until) } {
        let monotonic = libc::CLOCK_MONOTONIC;
        return call!(real::RWLOCK_CLOCKWRLOCK, libc::ENOSYS, (lock, monotonic, &moment));
    }
    call!(real::RWLOCK_CLOCKWRLOCK, libc::ENOSYS, (lock, clock, until))
}

/// # Safety
/// As `sem_timedwait(3)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn sem_timedwait(semaphore: *mut sem_t, until: *const timespec) -> c_int {
    // SAFETY: the caller's deadline.
    if let Some(moment) = unsafe { moment(libc::CLOCK_REALTIME, until) } {
        let monotonic = libc::CLOCK_MONOTONIC;
        return wait_for_another(|| {
            call!(real::SEM_CLOCKWAIT, missing(), (semaphore, monotonic, &moment))
        });
    }
    wait_for_another(|| call!(real::SEM_TIMEDWAIT, missing(), (semaphore, until)))
}

/// # Safety
/// As `sem_clockwait(3)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn sem_clockwait(
    semaphore: *mut sem_t,
    clock: clockid_t,
    until: *const timespec,
) -> c_int {
    // SAFETY: the caller's deadline.
    if let Some(moment) = unsafe { moment(clock, until) } {
        let monotonic = libc::CLOCK_MONOTONIC;
        return wait_for_another(|| {
            call!(real::SEM_CLOCKWAIT, missing(), (semaphore, monotonic, &moment))
        });
    }
    wait_for_another(|| call!(real::SEM_CLOCKWAIT, missing(), (semaphore, clock, until)))
}

/// # Safety
/// As `pthread_timedjoin_np(3)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn pthread_timedjoin_np(
    thread: pthread_t,
    result: *mut *mut c_void,
    until: *const timespec,
) -> c_int {
    // SAFETY: the caller's deadline.
    if let Some(moment) = unsafe { moment(libc::CLOCK_REALTIME, until) } {
        let monotonic = libc::CLOCK_MONOTONIC;
        return wait_for_another(|| {
            call!(real::CLOCKJOIN, libc::ENOSYS, (thread, result, monotonic, &moment))
        });
    }
    wait_for_another(|| call!(real::TIMEDJOIN, libc::ENOSYS, (thread, result, until)))
}

/// # Safety
/// As `pthread_clockjoin_np(3)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn pthread_clockjoin_np(
    thread: pthread_t,
    result: *mut *mut c_void,
    clock: clockid_t,
    until: *const timespec,
) -> c_int {
    // SAFETY: the caller's deadline.
    if let Some(moment) = unsafe { moment(clock, until) } {
        let monotonic = libc::CLOCK_MONOTONIC;
        return wait_for_another(|| {
            call!(real::CLOCKJOIN, libc::ENOSYS, (thread, result, monotonic, &moment))
        });
    }
    wait_for_another(|| call!(real::CLOCKJOIN, libc::ENOSYS, (thread, result, clock, until)))
}

/// # Safety
/// As `mq_timedsend(3)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn mq_timedsend(
    queue: mqd_t,
    message: *const c_char,
    length: size_t,
    priority: c_uint,
    until: *const timespec,
) -> c_int {
    // SAFETY: the caller's deadline.
    if let Some(moment) = unsafe { moment_realtime(until) } {
        return call!(real::MQ_TIMEDSEND, missing(), (queue, message, length, priority, &moment));
    }
    call!(real::MQ_TIMEDSEND, missing(), (queue, message, length, priority, until))
}

/// # Safety
/// As `mq_timedreceive(3)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn mq_timedreceive(
    queue: mqd_t,
    message: *mut c_char,
    length: size_t,
    priority: *mut c_uint,
    until: *const timespec,
) -> ssize_t {
    let none = || missing() as ssize_t;
    // SAFETY: the caller's deadline.
    if let Some(moment) = unsafe { moment_realtime(until) } {
        return call!(real::MQ_TIMEDRECEIVE, none(), (queue, message, length, priority, &moment));
    }
    call!(real::MQ_TIMEDRECEIVE, none(), (queue, message, length, priority, until))
}
