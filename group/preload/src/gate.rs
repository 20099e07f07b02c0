//! `syscall(2)`: what the program asks of the kernel without naming a function of libc.

use core::ffi::{c_int, c_long};

use libc::{itimerspec, timespec};
use truechimer_group::Call;

use crate::births;
use crate::clocks::{self, read};
use crate::input::{hand_on, wait_for_another};
use crate::kernel::{self, returned, set_errno};
use crate::process::{Part, is_ours, part};
use crate::spans::to_timespec;
use crate::timers;
use crate::waits::moment;

/// Takes as many arguments as the call has. Those that the caller did not give are read as libc's
/// reads them (registers, and a word of the caller's frame), and ignored by the kernel.
///
/// # Safety
/// As `syscall(2)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn syscall(
    number: c_long,
    a: c_long,
    b: c_long,
    c: c_long,
    d: c_long,
    e: c_long,
    f: c_long,
) -> c_long {
    // SAFETY: the caller's own arguments.
    let kernel = |arguments: [c_long; 6]| returned(unsafe { kernel::call(number, arguments) });
    let plain = [a, b, c, d, e, f];
    match number {
        libc::SYS_clock_gettime => {
            let Some(time) = read(a as c_int, Call::ClockGettime) else { return kernel(plain) };
            // SAFETY: null or the caller's place for the answer.
            match unsafe { (b as *mut timespec).as_mut() } {
                Some(at) => {
                    *at = to_timespec(time);
                    0
                }
                None => {
                    set_errno(libc::EFAULT);
                    -1
                }
            }
        }
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the caller's own arguments.
        libc::SYS_time => unsafe { clocks::time(a as *mut libc::time_t) },
        // SAFETY: the caller's own arguments.
        libc::SYS_gettimeofday => c_long::from(unsafe {
            clocks::gettimeofday(a as *mut libc::timeval, b as *mut core::ffi::c_void)
        }),
        libc::SYS_futex => {
            // SAFETY: the caller's deadline, if it is one.
            let until = futex_clock(b as c_int)
                .and_then(|clock| unsafe { moment(clock, d as *const timespec) });
            let call = || match until {
                Some(until) => kernel([a, on_monotonic(b), c, (&raw const until) as c_long, e, f]),
                None => kernel(plain),
            };
            match b as c_int & libc::FUTEX_CMD_MASK {
                libc::FUTEX_WAIT | libc::FUTEX_WAIT_BITSET => wait_for_another(call),
                libc::FUTEX_WAKE
                | libc::FUTEX_WAKE_BITSET
                | libc::FUTEX_WAKE_OP
                | libc::FUTEX_REQUEUE
                | libc::FUTEX_CMP_REQUEUE => {
                    hand_on();
                    call()
                }
                _ => call(),
            }
        }
        libc::SYS_clock_nanosleep if b as c_int & libc::TIMER_ABSTIME != 0 => {
            // SAFETY: the caller's deadline.
            match unsafe { moment(a as c_int, c as *const timespec) } {
                Some(until) => {
                    let monotonic = c_long::from(libc::CLOCK_MONOTONIC);
                    kernel([monotonic, b, (&raw const until) as c_long, d, e, f])
                }
                None => kernel(plain),
            }
        }
        libc::SYS_timerfd_settime => {
            // SAFETY: the caller's own arguments.
            let setting = unsafe {
                timers::descriptor_setting(a as c_int, b as c_int, c as *const itimerspec)
            };
            match setting {
                Some(setting) => {
                    let flags = c_long::from(timers::without_moment(b as c_int));
                    kernel([a, flags, (&raw const setting) as c_long, d, e, f])
                }
                None => kernel(plain),
            }
        }
        libc::SYS_close if is_ours(a as c_int) => {
            set_errno(libc::EBADF);
            -1
        }
        _ if is_fork(number, a) && part() != Part::None => {
            births::before();
            let result = kernel(plain);
            if result == 0 {
                births::in_child()
            } else {
                births::after()
            }
            result
        }
        _ => kernel(plain),
    }
}

/// True if the call makes a process with memory of its own.
fn is_fork(number: c_long, flags: c_long) -> bool {
    #[cfg(target_arch = "x86_64")]
    if number == libc::SYS_fork {
        return true;
    }
    number == libc::SYS_clone && flags & c_long::from(libc::CLONE_VM) == 0
}

/// The clock of a futex's absolute deadline; none if it has none.
fn futex_clock(operation: c_int) -> Option<libc::clockid_t> {
    /// `FUTEX_LOCK_PI2`.
    const LOCK_PI2: c_int = 13;
    match operation & !(libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME) {
        libc::FUTEX_WAIT_BITSET | libc::FUTEX_WAIT_REQUEUE_PI | LOCK_PI2 => {
            Some(match operation & libc::FUTEX_CLOCK_REALTIME {
                0 => libc::CLOCK_MONOTONIC,
                _ => libc::CLOCK_REALTIME,
            })
        }
        // Always on CLOCK_REALTIME; with the host's monotonic clock it has another number.
        libc::FUTEX_LOCK_PI => Some(libc::CLOCK_REALTIME),
        _ => None,
    }
}

/// Operation with its deadline on CLOCK_MONOTONIC instead.
fn on_monotonic(operation: c_long) -> c_long {
    const LOCK_PI2: c_int = 13;
    let operation = operation as c_int & !libc::FUTEX_CLOCK_REALTIME;
    let plain = operation & !libc::FUTEX_PRIVATE_FLAG;
    c_long::from(match plain {
        libc::FUTEX_LOCK_PI => LOCK_PI2 | operation & libc::FUTEX_PRIVATE_FLAG,
        _ => operation,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn futexes_deadlines() {
        let private = libc::FUTEX_PRIVATE_FLAG;
        let real = libc::FUTEX_CLOCK_REALTIME;
        let (wait, bitset) = (libc::FUTEX_WAIT, libc::FUTEX_WAIT_BITSET);
        assert_eq!(futex_clock(wait | private), None, "relative");
        assert_eq!(futex_clock(libc::FUTEX_WAKE), None);
        assert_eq!(futex_clock(bitset | private), Some(libc::CLOCK_MONOTONIC));
        assert_eq!(futex_clock(bitset | private | real), Some(libc::CLOCK_REALTIME));
        assert_eq!(futex_clock(libc::FUTEX_LOCK_PI | private), Some(libc::CLOCK_REALTIME));
        assert_eq!(futex_clock(13 | private), Some(libc::CLOCK_MONOTONIC));
        assert_eq!(
            on_monotonic(c_long::from(bitset | private | real)),
            c_long::from(bitset | private)
        );
        assert_eq!(
            on_monotonic(c_long::from(libc::FUTEX_LOCK_PI | private)),
            c_long::from(13 | private)
        );
    }
}
