//! Readings as whole nanoseconds of Unix time, so rounded that an interval keeps what is in it.
#![forbid(unsafe_code)]

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use truechimer::{Elapsed, Reading, Side, Span, Status, UnixReading};

/// A reading in ns since 1970, held at the ends of 64 bits.
pub(crate) struct Told {
    pub earliest: i64,
    pub best: i64,
    pub latest: i64,
    /// ns, ≥ 0; `None` if nothing is promised.
    pub bound: Option<i64>,
    pub count: u64,
    pub status: Status,
    /// TAI − UTC at `best`, s.
    pub tai_offset: i32,
    pub tai_known: bool,
    pub leap_second: bool,
}

impl Told {
    pub(crate) fn of(reading: &Reading) -> Told {
        Told::with(reading, &reading.unix())
    }

    /// A reading at these times.
    pub(crate) fn with(reading: &Reading, shown: &UnixReading) -> Told {
        let [earliest, best, latest] =
            [shown.earliest, shown.best, shown.latest].map(|time| held(time.as_nanos()));
        let bound = best.saturating_sub(earliest).max(latest.saturating_sub(best));
        Told {
            earliest,
            best,
            latest,
            bound: reading.status.bound_holds().then_some(bound),
            count: reading.count.0,
            status: reading.status,
            tai_offset: shown.tai_offset,
            tai_known: reading.leaps().known,
            leap_second: shown.leap_second,
        }
    }
}

fn held(ns: i128) -> i64 {
    i64::try_from(ns).unwrap_or(if ns < 0 { i64::MIN } else { i64::MAX })
}

/// A length and its bound, in ns.
pub(crate) fn length(elapsed: &Elapsed) -> (i64, i64) {
    let ns = elapsed.span.as_nanos_i64();
    // Rounding to whole nanoseconds is an error of its own.
    let rounding = (elapsed.span - Span::from_nanos(ns)).abs();
    (ns, (elapsed.bound + rounding).as_nanos_up())
}

/// The side that a number of Python's `Side` names.
pub(crate) fn side(number: i64) -> PyResult<Side> {
    match number {
        0 => Ok(Side::Before),
        1 => Ok(Side::Best),
        2 => Ok(Side::After),
        _ => Err(PyValueError::new_err("no side: give truechimer.Side.BEFORE, LIKELY or AFTER")),
    }
}
