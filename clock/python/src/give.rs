//! Readings as whole nanoseconds of Unix time, so rounded that an interval keeps what is in it.
#![forbid(unsafe_code)]

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use truechimer::{Elapsed, Instant, Leaps, Reading, Side, Span, Status};

const NANOS: i128 = 1_000_000_000;

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
        let leaps = reading.leaps();
        let utc = leaps.utc(reading.best);
        let best = held(utc.unix_nanos());
        let (mut earliest, mut latest, mut bound) = (i64::MIN, i64::MAX, None);
        if reading.status.bound_holds() {
            (earliest, latest) = ends(reading, &leaps);
            bound = Some(best.saturating_sub(earliest).max(latest.saturating_sub(best)));
        }
        Told {
            earliest,
            best,
            latest,
            bound,
            count: reading.count.0,
            status: reading.status,
            tai_offset: leaps.offset_at(reading.best),
            tai_known: leaps.known,
            leap_second: utc.leap_second,
        }
    }
}

/// The first and the last that Unix time showed in the interval. One second is shown twice around an
/// inserted leap second: they need not be what it showed at the ends.
fn ends(reading: &Reading, leaps: &Leaps) -> (i64, i64) {
    let down = |at: Instant| leaps.utc(at).unix_nanos();
    let (mut low, mut high) = (down(reading.earliest), up(reading.latest, leaps));
    for leap in [leaps.last, leaps.next].into_iter().flatten().filter(|leap| leap.step > 0) {
        // From the end of 23:59:59 it goes back to its beginning here.
        let begins = Instant::new(leap.at.saturating_sub(1), 0);
        if reading.earliest < begins && begins <= reading.latest {
            low = low.min(down(begins));
            high = high.max(down(begins) + NANOS - 1);
        }
    }
    (held(low), held(high))
}

fn up(at: Instant, leaps: &Leaps) -> i128 {
    let utc = leaps.utc(at);
    let below = (u128::from(utc.frac) * NANOS as u128) as u64;
    utc.unix_nanos() + i128::from(below != 0)
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
