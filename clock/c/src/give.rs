//! The client's answers as structures of C.
#![forbid(unsafe_code)]

use std::ffi::{c_char, c_int};
use std::time::Duration;

use libc::timespec;
use truechimer::{Elapsed, ReadBy, Side, Span, UnixNanos, UnixReading, UnixTick, UnixTimer, View};

use crate::types::{
    Bound, Length, Moment, Reading, TRUECHIMER_AFTER, TRUECHIMER_BEFORE, TRUECHIMER_BY_COUNTER,
    TRUECHIMER_BY_DEVICE, TRUECHIMER_BY_RAW_CLOCK, TRUECHIMER_LEAP_SECOND, TRUECHIMER_LIKELY,
    TRUECHIMER_TAI_KNOWN, Tick, Timer,
};
use crate::unix::timespec_of;

/// A reading as C has it, if it promises something and no leap second is near: nearly all do. It is
/// written field by field where C wants it; one that is put together elsewhere and copied in wider
/// pieces than it was written has to wait for the cache.
#[inline(always)]
pub(crate) fn usual(from: &truechimer::Reading) -> Option<Reading> {
    from.unix_if_usual().map(|unix| with(from, &unix))
}

/// Any reading as C has it.
pub(crate) fn reading(from: &truechimer::Reading) -> Reading {
    with(from, &from.unix())
}

/// A reading as C has it, at these times.
#[inline(always)]
pub(crate) fn with(from: &truechimer::Reading, unix: &UnixReading) -> Reading {
    let leap_second = if unix.leap_second { TRUECHIMER_LEAP_SECOND } else { 0 };
    let known = if from.leaps().known { TRUECHIMER_TAI_KNOWN } else { 0 };
    Reading {
        earliest: timespec_of(unix.earliest),
        best: timespec_of(unix.best),
        latest: timespec_of(unix.latest),
        count: from.count.0,
        status: from.status as i32,
        tai_offset: unix.tai_offset,
        flags: leap_second | known,
        reserved: 0,
    }
}

#[inline(always)]
pub(crate) fn moment(from: truechimer::Moment) -> Moment {
    let [count, stretch] = from.to_words();
    Moment { count, stretch }
}

/// The client's moment, if it is one.
#[inline(always)]
pub(crate) fn moment_of(from: &Moment) -> Option<truechimer::Moment> {
    truechimer::Moment::from_words([from.count, from.stretch])
}

#[inline(always)]
pub(crate) fn length(from: &Elapsed) -> Length {
    let ns = from.span.as_nanos_i64();
    // Rounding to whole nanoseconds is an error of its own.
    let rounding = (from.span - Span::from_nanos(ns)).abs();
    Length { ns, bound_ns: (from.bound + rounding).as_nanos_up() }
}

pub(crate) fn side(number: c_int) -> Option<Side> {
    match number {
        TRUECHIMER_BEFORE => Some(Side::Before),
        TRUECHIMER_LIKELY => Some(Side::Best),
        TRUECHIMER_AFTER => Some(Side::After),
        _ => None,
    }
}

fn side_number(side: Side) -> c_int {
    match side {
        Side::Before => TRUECHIMER_BEFORE,
        Side::Best => TRUECHIMER_LIKELY,
        Side::After => TRUECHIMER_AFTER,
    }
}

pub(crate) fn timer(from: &UnixTimer) -> Timer {
    Timer {
        seconds: from.next.seconds,
        period_ns: i64::try_from(from.period_ns).unwrap_or(i64::MAX),
        nanoseconds: from.next.nanos,
        side: side_number(from.side),
    }
}

/// The client's timer, if it is one.
pub(crate) fn timer_of(from: &Timer) -> Option<UnixTimer> {
    let nanos = Some(from.nanoseconds).filter(|nanos| *nanos < 1_000_000_000)?;
    let (next, side) = (UnixNanos { seconds: from.seconds, nanos }, side(from.side)?);
    Some(UnixTimer { next, period_ns: u64::try_from(from.period_ns).unwrap_or(0), side })
}

pub(crate) fn tick(from: &UnixTick) -> Tick {
    Tick { time: timespec_of(from.time), missed: from.missed, reading: reading(&from.reading) }
}

/// Longest wait: `None` for ever; zero for a length below 0.
pub(crate) fn duration(from: Option<&timespec>) -> Result<Option<Duration>, ()> {
    let Some(from) = from else { return Ok(None) };
    let nanos = u32::try_from(from.tv_nsec).ok().filter(|nanos| *nanos < 1_000_000_000).ok_or(())?;
    Ok(Some(u64::try_from(from.tv_sec).map_or(Duration::ZERO, |secs| Duration::new(secs, nanos))))
}

/// A length as `Span`.
pub(crate) fn span(from: &timespec) -> Result<Span, ()> {
    let nanos = Some(from.tv_nsec).filter(|nanos| (0..1_000_000_000).contains(nanos)).ok_or(())?;
    Ok(Span::from_nanos_wide(i128::from(from.tv_sec) * 1_000_000_000 + i128::from(nanos)))
}

/// Distance of true time from best at most, ns, rounded up; −1 if nothing is promised.
pub(crate) fn bound_ns(reading: &Reading) -> i64 {
    if !matches!(reading.status, 1 | 2) {
        return -1;
    }
    let ns = |t: &timespec| i128::from(t.tv_sec) * 1_000_000_000 + i128::from(t.tv_nsec);
    let (earliest, best, latest) = (ns(&reading.earliest), ns(&reading.best), ns(&reading.latest));
    i64::try_from((best - earliest).max(latest - best)).unwrap_or(i64::MAX)
}

pub(crate) fn bound(view: &View) -> Bound {
    let taken = view.reading(view.count, view.status);
    let hand = &view.hand;
    let whole = hand.bound_at(view.count);
    let promised = |span: Option<Span>| span.map_or(-1, Span::as_nanos_up);
    let counter = taken.bound().map_or(Span::ZERO, |bound| (bound - whole).max(Span::ZERO));
    let mut reason = [0 as c_char; 64];
    // One byte stays zero.
    for (to, from) in reason.iter_mut().zip(view.reason.unwrap_or_default().bytes().take(63)) {
        *to = from as c_char;
    }
    Bound {
        reading: reading(&taken),
        total_ns: promised(taken.bound()),
        path_ns: hand.path_bound.as_nanos_up(),
        statistical_ns: hand.statistical_bound.as_nanos_up(),
        growth_ns: (whole - hand.bound()).as_nanos_up(),
        counter_ns: counter.as_nanos_up(),
        disputed_ns: hand.disputed.as_nanos_up(),
        likely_ns: promised(view.likely()),
        deviation_ppt: view.difference_deviation.map_or(-1, |rate| rate.as_ppt()),
        silence_ns: hand.period.span(view.count - view.heartbeat).as_nanos_i64(),
        generation: view.generation,
        counter: hand.counter.kind as u32,
        read_by: match view.read_by {
            ReadBy::Counter => TRUECHIMER_BY_COUNTER,
            ReadBy::Device => TRUECHIMER_BY_DEVICE,
            ReadBy::RawClock => TRUECHIMER_BY_RAW_CLOCK,
        },
        reason,
    }
}
