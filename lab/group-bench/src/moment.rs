//! Moments by the host's clocks, as programs in different namespaces see them alike.

#![allow(unsafe_code, reason = "clock_gettime")]

/// CLOCK_MONOTONIC, ns.
#[must_use]
pub fn monotonic() -> i64 {
    read(libc::CLOCK_MONOTONIC)
}

/// CLOCK_REALTIME, ns since 1970.
#[must_use]
pub fn realtime() -> i64 {
    read(libc::CLOCK_REALTIME)
}

/// CLOCK_MONOTONIC_RAW, ns: what no warp and no steering touches.
#[must_use]
pub fn raw() -> i64 {
    read(libc::CLOCK_MONOTONIC_RAW)
}

fn read(clock: libc::clockid_t) -> i64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a timespec of ours that the call fills; both clocks are always there.
    unsafe { libc::clock_gettime(clock, &mut time) };
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}
