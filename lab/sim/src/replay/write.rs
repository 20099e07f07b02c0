//! Replayed rows as text: comma-separated values, and JSON lines.

use core::fmt;

use serde::Serialize;
use truechimer_feedforward::Accepted;
use truechimer_time::{Period, Span};

use super::{Judged, Told};
use crate::stamps::Digits;

/// Decimals of a time: picoseconds.
const DECIMALS: usize = 12;

/// The first line of the CSV form. Units stand in the names; spans have three decimals.
pub const CSV_HEADER: &str = "line,count,time_s,offset_ns,skew_ppb,period_s,rtt_ns,floor_ns,\
    bound_ns,deviation_ns,outcome,moved_ns,error_ns,naive_error_ns,\
    epoch";

/// Outcome of a row: `refined`, `shifted`, `floor-moved`, `stepped`, or why it was refused; and by how much floor
/// or estimate moved.
fn outcome(judged: &Judged) -> (&'static str, Option<Span>) {
    match judged.outcome {
        Ok(Accepted::Refined) => ("refined", None),
        Ok(Accepted::Shifted(by)) => ("shifted", Some(by)),
        Ok(Accepted::FloorMoved(by)) => ("floor-moved", Some(by)),
        Ok(Accepted::Stepped(by)) => ("stepped", Some(by)),
        Err(refused) => (refused.name(), None),
    }
}

/// One of the clock's spans, unless it is the one that stands for "not known".
fn told(judged: &Judged, part: fn(&Told) -> Span) -> Option<Span> {
    judged.clock.as_ref().map(part).filter(|&span| span != Span::MAX)
}

/// Nanoseconds with three decimals; nothing where there is nothing.
#[derive(Clone, Copy, Debug)]
pub struct Nanos(pub Option<Span>);

impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(span) = self.0 else { return Ok(()) };
        let ps = span.as_picos();
        let sign = if ps < 0 { "-" } else { "" };
        write!(f, "{sign}{}.{:03}", ps.unsigned_abs() / 1000, ps.unsigned_abs() % 1000)
    }
}

/// Seconds per count, for people and their tools: to the 53 bits of a float.
#[must_use]
pub fn period_s(period: Period) -> f64 {
    let half = |bits: u8| 1.0 / (1u128 << bits) as f64;
    period.mantissa() as f64 * half(64) * half(period.shift())
}

/// One row of the CSV form, without the end of the line.
///
/// # Errors
/// If `out` takes no more.
pub fn write_csv(judged: &Judged, out: &mut dyn fmt::Write) -> fmt::Result {
    write!(out, "{},{},", judged.line, judged.count.0)?;
    match &judged.clock {
        Some(Told { time, period, skew, .. }) => write!(
            out,
            "{:.DECIMALS$},{},{},{:e}",
            Digits(*time),
            Nanos(judged.offset()),
            skew.as_ppt() as f64 / 1000.0,
            period_s(*period)
        )?,
        None => write!(out, ",,,")?,
    }
    let (name, moved) = outcome(judged);
    let told = |part| Nanos(told(judged, part));
    write!(
        out,
        ",{},{},{},{},{name},{},{},{},{}",
        Nanos(Some(judged.rtt)),
        told(|t| t.floor),
        told(|t| t.bound),
        told(|t| t.deviation),
        Nanos(moved),
        Nanos(judged.error()),
        Nanos(judged.naive_error()),
        judged.epoch
    )
}

#[derive(Serialize)]
struct Line {
    line: u64,
    count: u64,
    time: Option<String>,
    offset_ps: Option<i128>,
    skew_ppb: Option<f64>,
    period_s: Option<f64>,
    rtt_ps: i128,
    floor_ps: Option<i128>,
    bound_ps: Option<i128>,
    deviation_ps: Option<i128>,
    outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    moved_ps: Option<i128>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error_ps: Option<i128>,
    #[serde(skip_serializing_if = "Option::is_none")]
    naive_error_ps: Option<i128>,
    epoch: u64,
}

/// One row as a JSON object, without the end of the line: spans are whole picoseconds, the time is
/// text, as it has more digits than most readers' numbers.
///
/// # Errors
/// If `out` takes no more.
pub fn write_json(judged: &Judged, out: &mut dyn fmt::Write) -> fmt::Result {
    let (outcome, moved) = outcome(judged);
    let ps = |span: Option<Span>| span.map(Span::as_picos);
    let told = |part| ps(told(judged, part));
    let line = Line {
        line: judged.line,
        count: judged.count.0,
        time: judged.clock.map(|t| format!("{:.DECIMALS$}", Digits(t.time))),
        offset_ps: ps(judged.offset()),
        skew_ppb: judged.clock.map(|t| t.skew.as_ppt() as f64 / 1000.0),
        period_s: judged.clock.map(|t| period_s(t.period)),
        rtt_ps: judged.rtt.as_picos(),
        floor_ps: told(|t| t.floor),
        bound_ps: told(|t| t.bound),
        deviation_ps: told(|t| t.deviation),
        outcome,
        moved_ps: ps(moved),
        error_ps: ps(judged.error()),
        naive_error_ps: ps(judged.naive_error()),
        epoch: judged.epoch,
    };
    out.write_str(&serde_json::to_string(&line).map_err(|_| fmt::Error)?)
}
