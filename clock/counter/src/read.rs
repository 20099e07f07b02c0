//! The instructions and library calls that read counters and clocks: all of this crate's unsafe
//! code, behind functions that anyone may call.
#![allow(unsafe_code)]

use std::io;

use truechimer_time::CounterKind;

/// The counter that this architecture lets any program read, if there is one.
pub(crate) const NATIVE: Option<CounterKind> = if cfg!(target_arch = "x86_64") {
    Some(CounterKind::Tsc)
} else if cfg!(target_arch = "aarch64") {
    Some(CounterKind::ArmGeneric)
} else {
    None
};

/// The architecture's counter, in no particular order with the instructions around it.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) fn native() -> u64 {
    // SAFETY: every x86-64 has RDTSC. Where a process has forbidden it to itself (prctl PR_SET_TSC)
    // it gets SIGSEGV, as it does from every clock in the vDSO: nothing undefined.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// The architecture's counter, read after everything before it and before everything after it.
///
/// The first LFENCE waits until all earlier instructions have completed, loads among them; the
/// second keeps later ones from starting before the counter is read. Stores before it may still
/// wait in the store buffer: that takes MFENCE, costs far more, and matters to nobody who reads
/// time. (On AMD this relies on LFENCE being serialising, which Linux has set since 2018.)
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) fn native_fenced() -> u64 {
    use core::arch::x86_64::{_mm_lfence, _rdtsc};
    // SAFETY: as above; SSE2, which LFENCE belongs to, is part of x86-64.
    #[allow(unused_unsafe)]
    unsafe {
        _mm_lfence();
        let count = _rdtsc();
        _mm_lfence();
        count
    }
}

/// The architecture's counter, in no particular order with the instructions around it.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
pub(crate) fn native() -> u64 {
    let count: u64;
    // SAFETY: Linux lets EL0 read CNTVCT_EL0 (by trap and emulation where the hardware is faulty);
    // the read touches neither memory nor flags. Not `pure`: two reads are two readings.
    unsafe {
        core::arch::asm!("mrs {}, cntvct_el0", out(reg) count, options(nomem, nostack, preserves_flags));
    }
    count
}

/// The architecture's counter, read after everything before it and before everything after it:
/// an ISB on either side, as the architecture manual asks for.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
pub(crate) fn native_fenced() -> u64 {
    let count: u64;
    // SAFETY: as above. Without `nomem` the compiler keeps memory accesses on their side, too.
    unsafe {
        core::arch::asm!("isb", "mrs {}, cntvct_el0", "isb", out(reg) count, options(nostack, preserves_flags));
    }
    count
}

/// No counter of its own on this architecture: opening never leads here.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
#[inline(always)]
pub(crate) fn native() -> u64 {
    raw()
}

/// No counter of its own on this architecture: opening never leads here.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
#[inline(always)]
pub(crate) fn native_fenced() -> u64 {
    raw()
}

/// `CLOCK_MONOTONIC_RAW` in ns; 0 if it cannot be read, which opening the counter has excluded.
#[inline]
pub(crate) fn raw() -> u64 {
    clock(libc::CLOCK_MONOTONIC_RAW).unwrap_or(0) as u64
}

/// `CLOCK_MONOTONIC_COARSE` in ns: what it was at the last tick. 0 where it cannot be read, which
/// opening a narrow counter has excluded.
#[inline]
pub(crate) fn coarse() -> i64 {
    clock(libc::CLOCK_MONOTONIC_COARSE).unwrap_or(0)
}

/// One of the kernel's clocks in ns (±292 years), through libc and so by the vDSO where that can
/// serve.
///
/// # Errors
/// Where there is no such clock.
#[inline]
pub fn clock(id: libc::clockid_t) -> io::Result<i64> {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is a valid timespec for the call to write to.
    if unsafe { libc::clock_gettime(id, &mut now) } != 0 {
        return Err(io::Error::last_os_error());
    }
    #[allow(clippy::useless_conversion)] // time_t and c_long have 32 bits on some targets
    Ok(i64::from(now.tv_sec).wrapping_mul(1_000_000_000).wrapping_add(i64::from(now.tv_nsec)))
}

/// True if CPUID says that the TSC is invariant: one rate in all power states (leaf 80000007h, EDX
/// bit 8).
#[cfg(target_arch = "x86_64")]
pub(crate) fn tsc_invariant() -> bool {
    use core::arch::x86_64::__cpuid;
    // SAFETY: every x86-64 has CPUID, and the highest extended leaf is asked for first.
    #[allow(unused_unsafe)]
    unsafe {
        __cpuid(0x8000_0000).eax >= 0x8000_0007 && __cpuid(0x8000_0007).edx & (1 << 8) != 0
    }
}

/// False: there is no TSC here that could be invariant.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn tsc_invariant() -> bool {
    false
}

/// Frequency of the Arm generic timer as the firmware says, in Hz.
#[cfg(target_arch = "aarch64")]
pub(crate) fn arm_hz() -> Option<u64> {
    let hz: u64;
    // SAFETY: EL0 may read CNTFRQ_EL0 wherever it may read CNTVCT_EL0.
    unsafe {
        core::arch::asm!("mrs {}, cntfrq_el0", out(reg) hz, options(nomem, nostack, preserves_flags));
    }
    Some(hz)
}

/// There is no Arm generic timer here.
#[cfg(not(target_arch = "aarch64"))]
pub(crate) fn arm_hz() -> Option<u64> {
    None
}

/// True if this program runs with more rights than whoever started it (setuid, setgid, file
/// capabilities): then the environment is not to be trusted.
#[must_use]
pub fn is_privileged() -> bool {
    // SAFETY: it takes a number and looks at what the kernel left in this process's memory.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}
