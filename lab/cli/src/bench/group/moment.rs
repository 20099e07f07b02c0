//! Moments by the host's clocks, as programs in different namespaces see them alike.

use rustix::time::{ClockId, clock_gettime};

/// CLOCK_MONOTONIC, ns.
#[must_use]
pub fn monotonic() -> i64 {
    read(ClockId::Monotonic)
}

/// CLOCK_REALTIME, ns since 1970.
#[must_use]
pub fn realtime() -> i64 {
    read(ClockId::Realtime)
}

/// CLOCK_MONOTONIC_RAW, ns: what no warp and no steering touches.
#[must_use]
pub fn raw() -> i64 {
    read(ClockId::MonotonicRaw)
}

fn read(clock: ClockId) -> i64 {
    let time = clock_gettime(clock);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}
