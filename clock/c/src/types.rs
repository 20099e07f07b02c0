//! The structures of the header.
#![forbid(unsafe_code)]

use std::ffi::{CString, c_char, c_int};

use libc::timespec;

/// A clock, opened; for all threads. Only pointers to it are handed out.
pub struct Clock {
    pub(crate) clock: truechimer::Clock,
    pub(crate) page: CString,
}

/// Flag for opening: each reading of the counter waits for what the program has before it and holds
/// up what comes after it, for some 15 ns.
pub const TRUECHIMER_FENCED: u32 = 1;

/// Flag of a reading: best lies within an inserted leap second (23:59:60), in which Unix time shows
/// 23:59:59 once more.
pub const TRUECHIMER_LEAP_SECOND: u32 = 1;
/// Flag of a reading: tai_offset is TAI - UTC, and not only leap seconds since the daemon began.
pub const TRUECHIMER_TAI_KNOWN: u32 = 2;

/// Origin of a count: a reading of the counter itself.
pub const TRUECHIMER_BY_COUNTER: u32 = 0;
/// Origin of a count: a reading of a device that rolls over.
pub const TRUECHIMER_BY_DEVICE: u32 = 1;
/// Origin of a count: CLOCK_MONOTONIC_RAW, which the kernel makes of the device.
pub const TRUECHIMER_BY_RAW_CLOCK: u32 = 2;

/// Side of a time on which a wait ends: while the time is surely not over, as soon as latest is
/// within a microsecond of it. Whether the program was woken early enough the reading says: its
/// latest is before the time.
pub const TRUECHIMER_BEFORE: c_int = 0;
/// Side of a time on which a wait ends: when it is likely to be, as soon as best has reached it.
pub const TRUECHIMER_LIKELY: c_int = 1;
/// Side of a time on which a wait ends: when it is surely over, as soon as earliest is after it
/// (commit wait).
pub const TRUECHIMER_AFTER: c_int = 2;

/// The time, and how well it is known.
///
/// While the status is TRUECHIMER_SYNCHRONISED or TRUECHIMER_HOLDOVER, true time lay between
/// earliest and latest at the moment of the reading. Otherwise those two are the ends of the scale
/// (INT64_MIN and INT64_MAX seconds), and best is only what the clock shows,
/// in 1970 perhaps.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Reading {
    /// True time was not before this (UTC, rounded down to ns).
    pub earliest: timespec,
    /// The best estimate (UTC, rounded down to ns); not necessarily half-way between the others.
    pub best: timespec,
    /// True time was not after this (UTC, rounded up to ns).
    pub latest: timespec,
    /// The count of the counter that the time is of.
    pub count: u64,
    /// Status: TRUECHIMER_SYNCHRONISED and so on.
    pub status: i32,
    /// TAI - UTC at best, s; see TRUECHIMER_TAI_KNOWN.
    pub tai_offset: i32,
    /// Flags: TRUECHIMER_LEAP_SECOND, TRUECHIMER_TAI_KNOWN; other bits may come.
    pub flags: u32,
    /// Zero.
    pub reserved: u32,
}

/// A moment to ask about later: a count, and of which unbroken stretch of which counter.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Moment {
    /// The count.
    pub count: u64,
    /// The stretch: counts of different ones are not to be compared. Not to be made by hand.
    pub stretch: u64,
}

/// A length of time, by the difference clock.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Length {
    /// Length, ns; negative if the second moment came first.
    pub ns: i64,
    /// Most that the true length differs from that, ns; 0 or more, rounded up.
    pub bound_ns: i64,
}

/// A timer: times at even distances, to be waited for one after the other. They keep to true time,
/// never drift, and keep their distance through a leap second. For one thread at a time; nothing is
/// to be freed. Not to be made by hand: see truechimer_timer_begin().
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Timer {
    /// The next time, s on the scale without leap seconds.
    pub seconds: i64,
    /// From one time to the next, ns.
    pub period_ns: i64,
    /// The next time's nanoseconds after that second's beginning.
    pub nanoseconds: u32,
    /// Side of each time on which its wait ends: TRUECHIMER_BEFORE and so on.
    pub side: i32,
}

/// A time of a timer that has come.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Tick {
    /// The time (UTC).
    pub time: timespec,
    /// Number of earlier times that had come already when it was asked for, and were left out.
    pub missed: u64,
    /// The reading that ended the wait.
    pub reading: Reading,
}

/// Where the bound of a reading comes from, and the state of the clock behind it.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Bound {
    /// The reading that all this is about.
    pub reading: Reading,
    /// The whole bound: how far true time is from best at most, ns, rounded up; -1 while nothing is
    /// promised. At most the sum of the four parts.
    pub total_ns: i64,
    /// Part: half of the smallest round trip and the server's own bound, ns, rounded up.
    pub path_ns: i64,
    /// Part: stamping, queueing, drift, ns, rounded up.
    pub statistical_ns: i64,
    /// Part: growth since the daemon's last word, ns, rounded up.
    pub growth_ns: i64,
    /// Part: how the counter was read, ns, rounded up; 0 for a counter that anybody can read.
    pub counter_ns: i64,
    /// Part of statistical_ns that is there only as a server's word is held off, ns, rounded up.
    pub disputed_ns: i64,
    /// Likely error of best, by statistics and no bound, ns, rounded up; -1 if none is known.
    pub likely_ns: i64,
    /// Standard deviation of the difference clock's rate, 10^-12; -1 if nothing is known of that.
    pub deviation_ppt: i64,
    /// Time since the daemon last looked at the clock, ns; negative: in the future.
    pub silence_ns: i64,
    /// The number of the daemon's word that all this goes by.
    pub generation: u64,
    /// The counter: 1 TSC, 2 Arm generic timer, 3 CLOCK_MONOTONIC_RAW, 4 HPET, 5 ACPI PM timer.
    pub counter: u32,
    /// Origin of the count: TRUECHIMER_BY_COUNTER and so on.
    pub read_by: u32,
    /// Reason why the status is not what the daemon said last, in words; empty if it is.
    pub reason: [c_char; 64],
}
