//! Short measurements: what clocks cost, what they say of each other.

use std::hint::black_box;
use std::time::Instant;

use serde::Serialize;

use super::sources::plain;
use crate::sys;

/// Calls in a row, and how many such rows: each kind in its turn, so that whatever else the
/// machine does hits all alike.
const CALLS: u32 = 100;
const ROWS: usize = 40;

/// By which way a clock is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Path {
    /// By the vDSO: no system call.
    Vdso,
    /// By a system call.
    SystemCall,
    /// The figures do not tell.
    Unclear,
}

/// Cost of reading one of the kernel's clocks.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ClockCall {
    /// The clock's name.
    pub clock: String,
    /// Time that a call of libc's `clock_gettime` takes, ns.
    pub libc_ns: f64,
    /// Time that it takes as a system call for certain, ns.
    pub system_call_ns: f64,
    /// Which way libc's goes: by the vDSO if it takes at most a third of the system call, by a
    /// system call if it takes at least two thirds.
    pub path: Path,
}

/// State of the system clock.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Realtime {
    /// True if somebody keeps it synchronised, by the kernel's flag.
    pub synchronised: bool,
    /// The bound of its error that is claimed, µs.
    pub max_error_us: i64,
    /// By how many ppm its rate is corrected, positive = made to run faster. It says how far the
    /// clocksource, as the kernel knows it, is from seconds.
    pub correction_ppm: f64,
}

/// The costs of the clocks that matter most, fastest row each.
pub(super) fn clock_calls() -> Vec<ClockCall> {
    let clocks = [
        ("CLOCK_REALTIME", libc::CLOCK_REALTIME),
        ("CLOCK_MONOTONIC", libc::CLOCK_MONOTONIC),
        ("CLOCK_MONOTONIC_RAW", libc::CLOCK_MONOTONIC_RAW),
    ];
    let there = clocks.iter().filter(|(_, id)| truechimer_counter::clock(*id).is_ok());
    let cost = |(name, id): &(&str, libc::clockid_t)| {
        let (mut libc_ns, mut call_ns) = (f64::INFINITY, f64::INFINITY);
        for _ in 0..ROWS {
            libc_ns = libc_ns.min(row(|| sys::by_vdso(*id)));
            call_ns = call_ns.min(row(|| sys::by_system_call(*id)));
        }
        ClockCall {
            clock: (*name).to_owned(),
            libc_ns,
            system_call_ns: call_ns,
            path: path(libc_ns, call_ns),
        }
    };
    there.map(cost).collect()
}

/// ns per call, over a row of them.
fn row<T>(call: impl Fn() -> T) -> f64 {
    let start = Instant::now();
    for _ in 0..CALLS {
        black_box(call());
    }
    start.elapsed().as_nanos() as f64 / f64::from(CALLS)
}

/// Time that one call takes, ns: the median of many rows.
pub(super) fn cost<T>(call: impl Fn() -> T) -> f64 {
    crate::analysis::median((0..ROWS).map(|_| row(&call))).unwrap_or(f64::NAN)
}

fn path(libc_ns: f64, call_ns: f64) -> Path {
    if libc_ns * 3.0 <= call_ns {
        Path::Vdso
    } else if libc_ns * 3.0 >= call_ns * 2.0 {
        Path::SystemCall
    } else {
        Path::Unclear
    }
}

/// State of the system clock, by the kernel's word.
pub(super) fn realtime() -> Result<Realtime, String> {
    let answer =
        truechimer_counter::discipline().map_err(|why| format!("adjtimex: {}", plain(&why)))?;
    let fine = answer.frequency as f64 / 65_536.0;
    let coarse = (answer.tick as f64 - 10_000.0) * 100.0;
    Ok(Realtime {
        synchronised: !answer.unsynchronised,
        max_error_us: answer.max_error_us,
        correction_ppm: fine + coarse,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_needs_a_margin() {
        assert_eq!(path(20.0, 150.0), Path::Vdso);
        assert_eq!(path(50.0, 150.0), Path::Vdso);
        assert_eq!(path(60.0, 150.0), Path::Unclear);
        assert_eq!(path(100.0, 150.0), Path::SystemCall);
        assert_eq!(path(1200.0, 1100.0), Path::SystemCall);
    }

    #[test]
    fn costs_are_positive() {
        for call in clock_calls() {
            assert!(call.libc_ns > 0.0 && call.system_call_ns > 0.0, "{call:?}");
        }
        assert!(cost(|| 1) >= 0.0);
    }
}
