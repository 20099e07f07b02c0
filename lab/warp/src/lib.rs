//! A clock warp for tests: `LD_PRELOAD` this library and one process sees a system clock that is
//! slewed and stepped, or steers one, while the host's clock is left alone.
//!
//! The warp maps the host's `CLOCK_REALTIME` *t* to *W(t) = t + disturbance(t) + steering(t)* and
//! is applied to everything that speaks of that clock: `clock_gettime`, `gettimeofday`, `time`,
//! and the packet stamps in the control data of `recvmsg`. So the process sees stamps and clock
//! that agree with each other, as they do when the kernel itself steers. `CLOCK_MONOTONIC` and
//! `CLOCK_BOOTTIME` follow the slews and not the steps, as the kernel has it;
//! `CLOCK_MONOTONIC_RAW` and the counters stay what they are.
//!
//! * The *disturbance* ([`schedule`]) is a pure function of *t*, set by `TRUECHIMER_WARP`.
//! * The *steering* ([`state`], [`steer`]) is what the process itself asks for with `adjtimex`,
//!   `clock_adjtime`, `clock_settime` or `settimeofday`. It lives in the file that
//!   `TRUECHIMER_WARP_STATE` names, so that several processes share one steered clock; without it
//!   these calls fail with `EPERM`. None of them ever reaches the kernel.
//!
//! Not covered: `CLOCK_TAI`, absolute timers and timers' cancellation on a step, raw system calls.

#[cfg(not(all(target_os = "linux", target_env = "gnu", target_pointer_width = "64")))]
compile_error!("the warp knows the layouts of 64-bit Linux with glibc only");

pub mod ahead;
pub mod control;
pub mod schedule;
pub mod state;
pub mod steer;

// The test harness would be warped itself.
#[cfg(not(test))]
mod interpose;
