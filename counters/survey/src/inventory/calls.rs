//! The few instructions and system calls that the inventory needs: its only unsafe code.
#![allow(unsafe_code)]

use std::io;

/// One leaf of CPUID; `None` where there is no such instruction.
pub(super) fn cpuid(leaf: u32, sub: u32) -> Option<[u32; 4]> {
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

/// One of the kernel's clocks in ns, through libc: by the vDSO where it can.
pub(super) fn clock(id: libc::clockid_t) -> io::Result<i64> {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is a valid timespec for the call to write to.
    done(i64::from(unsafe { libc::clock_gettime(id, &raw mut now) }), &now)
}

/// The same by a system call, past the vDSO.
pub(super) fn clock_by_call(id: libc::clockid_t) -> io::Result<i64> {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: as above; the arguments are those of clock_gettime.
    let result = unsafe { libc::syscall(libc::SYS_clock_gettime, id, &raw mut now) };
    #[allow(clippy::useless_conversion)] // c_long has 32 bits on some targets
    let result = i64::from(result);
    done(result, &now)
}

fn done(result: i64, now: &libc::timespec) -> io::Result<i64> {
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    #[allow(clippy::useless_conversion)] // time_t and c_long have 32 bits on some targets
    Ok(i64::from(now.tv_sec).wrapping_mul(1_000_000_000).wrapping_add(i64::from(now.tv_nsec)))
}

/// What the kernel's clock discipline says of `CLOCK_REALTIME`; it is only asked, never told.
#[derive(Clone, Copy, Debug)]
pub(super) struct Discipline {
    /// Nobody has synchronised it, or not for long (`STA_UNSYNC`).
    pub unsynchronised: bool,
    /// The claimed bound of its error in µs.
    pub max_error_us: i64,
    /// The correction of its rate in ppm · 2¹⁶, positive = made to run faster.
    pub frequency: i64,
    /// Microseconds per tick of a hundredth of a second: 10 000 but for a coarse correction.
    pub tick: i64,
}

/// Asks for it.
pub(super) fn discipline() -> io::Result<Discipline> {
    // SAFETY: timex is plain integers, for which zero is a value; modes = 0 changes nothing.
    let mut answer: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: `answer` is a valid timex for the call to read and write.
    if unsafe { libc::adjtimex(&raw mut answer) } < 0 {
        return Err(io::Error::last_os_error());
    }
    #[allow(clippy::useless_conversion)] // c_long has 32 bits on some targets
    Ok(Discipline {
        unsynchronised: answer.status & libc::STA_UNSYNC != 0,
        max_error_us: answer.maxerror.into(),
        frequency: answer.freq.into(),
        tick: answer.tick.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_lead_to_the_same_clock() {
        let a = clock(libc::CLOCK_MONOTONIC).unwrap();
        let b = clock_by_call(libc::CLOCK_MONOTONIC).unwrap();
        let c = clock(libc::CLOCK_MONOTONIC).unwrap();
        assert!(a <= b && b <= c);
        assert!(clock(9999).is_err() && clock_by_call(9999).is_err());
    }

    #[test]
    fn the_discipline_is_asked() {
        let answer = discipline().unwrap();
        assert!((9_000..=11_000).contains(&answer.tick), "{answer:?}");
    }
}
