//! The few instructions and system calls that rustix lacks, or that are themselves what is measured:
//! all unsafe code around clocks.
#![allow(unsafe_code)]

use std::io;
use std::time::Duration;

/// One leaf of CPUID; `None` where there is no such instruction.
pub(crate) fn cpuid(leaf: u32, sub: u32) -> Option<[u32; 4]> {
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: every x86-64 has CPUID; a leaf that it does not know gives some value.
        #[allow(unused_unsafe)]
        let r = unsafe { core::arch::x86_64::__cpuid_count(leaf, sub) };
        Some([r.eax, r.ebx, r.ecx, r.edx])
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = (leaf, sub);
        None
    }
}

/// Nanoseconds of one of the kernel's clocks by libc, which goes by the vDSO where that can serve.
/// Zero where it cannot be read.
#[inline]
pub(crate) fn by_vdso(clock: libc::clockid_t) -> u64 {
    truechimer_counter::clock(clock).unwrap_or(0) as u64
}

/// Nanoseconds by a system call, whatever the vDSO could do.
#[inline]
pub(crate) fn by_system_call(clock: libc::clockid_t) -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: this call takes a clock and a timespec of the kernel's layout, which libc's is on the
    // 64-bit targets; `now` outlives it.
    unsafe { libc::syscall(libc::SYS_clock_gettime, clock, &raw mut now) };
    nanos(&now)
}

fn nanos(time: &libc::timespec) -> u64 {
    (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64)
}

/// Microseconds by `gettimeofday`.
#[inline]
pub(crate) fn gettimeofday() -> u64 {
    let mut now = libc::timeval { tv_sec: 0, tv_usec: 0 };
    // SAFETY: `now` is a valid timeval to write to; no time zone is asked for.
    unsafe { libc::gettimeofday(&mut now, std::ptr::null_mut()) };
    (now.tv_sec as u64).wrapping_mul(1_000_000).wrapping_add(now.tv_usec as u64)
}

/// Seconds by `time`.
#[inline]
pub(crate) fn time() -> u64 {
    // SAFETY: without a place to write to, it only returns.
    unsafe { libc::time(std::ptr::null_mut()) as u64 }
}

/// In what steps a clock counts, as the kernel says.
pub(crate) fn resolution(clock: libc::clockid_t) -> io::Result<Duration> {
    let mut step = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `step` is a valid timespec for the call to write to.
    if unsafe { libc::clock_getres(clock, &mut step) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(Duration::from_nanos(nanos(&step)))
}

/// The processor time that the calling thread has used: its own, and in the kernel.
pub(crate) fn used() -> io::Result<(Duration, Duration)> {
    // SAFETY: a rusage is numbers only, for which zero is valid.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is a valid rusage for the call to write to.
    if unsafe { libc::getrusage(libc::RUSAGE_THREAD, &mut usage) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let span = |time: libc::timeval| {
        Duration::new(time.tv_sec as u64, 0) + Duration::from_micros(time.tv_usec as u64)
    };
    Ok((span(usage.ru_utime), span(usage.ru_stime)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_ways_tell_the_same_time() {
        let before = by_vdso(libc::CLOCK_REALTIME);
        let call = by_system_call(libc::CLOCK_REALTIME);
        let day = gettimeofday();
        let after = by_vdso(libc::CLOCK_REALTIME);
        assert!(before <= call && call <= after, "{before} {call} {after}");
        assert!(before / 1000 <= day && day <= after / 1000, "{before} {day} {after}");
        // `time` is that of the last tick, which may be a few ms ago.
        assert!(time() + 1 >= before / 1_000_000_000);
    }

    #[test]
    fn a_thread_that_works_uses_time() {
        let before = used().unwrap();
        while used().unwrap() == before {
            by_system_call(libc::CLOCK_MONOTONIC);
        }
        let after = used().unwrap();
        assert!(after.0 >= before.0 && after.1 >= before.1);
    }

    #[test]
    fn coarse_clocks_say_their_step() {
        assert!(resolution(libc::CLOCK_MONOTONIC_COARSE).unwrap() >= Duration::from_micros(100));
        assert!(resolution(libc::CLOCK_MONOTONIC).unwrap() < Duration::from_millis(20));
        assert!(resolution(12345).is_err());
        assert_eq!((by_vdso(12345), by_system_call(12345)), (0, 0));
    }
}
