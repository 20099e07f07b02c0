//! Length of a count, as far as it has to be known before the first row is replayed.

use serde::Serialize;
use truechimer_engine::{DEFAULT_POLL, POLL_RANGE};
use truechimer_report::percentile;
use truechimer_time::{CountSpan, Period, Rate, Span};

use super::track::{Place, Track};
use super::{ReplayError, ReplayOptions, forward};
use crate::stamps::{Declared, Row, Stamped};

/// The first estimate of the rate is made of rows so many apart: a break in the counter spoils as
/// many pairs, and no more.
const APART: usize = 4;

/// An inferred rate within this of a power of ten is taken for it: such a counter counts
/// nanoseconds, say, and its skew is worth showing.
const ROUND: f64 = 500e-6;
/// No use is made of an inferred rate that is less certain than this.
const VAGUE: f64 = 0.05;
/// Multiple of the slopes' spread that counts as a bound.
const SPREADS: f64 = 4.0;

/// Where the nominal rate comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum From {
    /// The caller said so.
    Given,
    /// A comment in the file says so.
    Declared,
    /// The first rows tell.
    Inferred,
}

/// The nominal rate of a counter.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Nominal {
    /// Counts per second, rounded.
    pub hz: u64,
    /// Length of a count.
    #[serde(skip)]
    pub period: Period,
    /// Bound of the relative error of `period`.
    #[serde(skip)]
    pub error: Rate,
    /// Where it comes from.
    pub from: From,
}

/// The slope of one pair of rows.
#[derive(Clone, Copy, Debug)]
struct Slope {
    span: Span,
    counts: CountSpan,
    /// s per count.
    value: f64,
    /// Relative uncertainty of `value`, from the two round trips.
    doubt: f64,
}

/// The nominal rate: given, declared, or inferred from the first rows.
pub(super) fn of(
    head: &[Row],
    said: Declared,
    said_in: Option<u64>,
    options: &ReplayOptions,
) -> Result<Nominal, ReplayError> {
    let inferred = infer(head);
    let (period, from) = match (options.nominal, said.nominal_hz) {
        (Some(period), _) => (period, From::Given),
        (None, Some(hz)) => (Period::from_hz(hz), From::Declared),
        (None, None) => {
            let (period, error) = inferred.ok_or_else(|| {
                ReplayError::Nominal(
                    "the counter's rate cannot be told from the first rows: they are too few, \
                     too close together, or out of order. Give it with --hz or in a comment \
                     '# nominal-hz: 1000000000'"
                        .into(),
                )
            })?;
            return Ok(Nominal { hz: period.hz(), period, error, from: From::Inferred });
        }
    };
    let error = said.nominal_error.unwrap_or(ReplayOptions::DEFAULTS.nominal_error);
    if let Some((likely, doubt)) = inferred {
        let apart = period.relative_to(likely).0.saturating_abs();
        if apart > error.0.saturating_add(doubt.0) {
            let by = match (from, said_in) {
                (From::Declared, Some(line)) => format!("the comment in line {line}"),
                (From::Declared, None) => "the file's comment".into(),
                _ => "--hz".into(),
            };
            return Err(ReplayError::Nominal(format!(
                "the counter makes {} counts per second by {by}, but about {} by the first rows: \
                 correct it, or leave it out",
                period.hz(),
                likely.hz()
            )));
        }
    }
    Ok(Nominal { hz: period.hz(), period, error, from })
}

/// The rate by the first rows. Rows a few apart give a first estimate; by it, the longest piece is
/// found in which the counter goes on without a break, and rows half of that apart give the rate.
/// A quarter of the rows may be wrong in any way.
fn infer(head: &[Row]) -> Option<(Period, Rate)> {
    let rows: Vec<&Stamped> = head.iter().map(|row| &row.stamped).filter(|s| forward(s)).collect();
    let (period, doubt) = median(&rows, APART.min(rows.len() / 2))?;
    let mut track = Track::new(period, Rate::from_ppb((doubt * 1e9) as i64));
    let (mut longest, mut piece) = (Vec::new(), Vec::new());
    for (at, row) in rows.iter().enumerate() {
        let following = rows.get(at + 1..).unwrap_or_default().iter().copied();
        match track.place(row, following) {
            Place::On => piece.push(*row),
            Place::Break(_) => {
                let ended = core::mem::replace(&mut piece, vec![*row]);
                longest = if ended.len() > longest.len() { ended } else { longest };
            }
            Place::Off | Place::Ahead => {}
        }
    }
    let longest = if piece.len() > longest.len() { piece } else { longest };
    let (period, doubt) = median(&longest, longest.len() / 2)?;
    if doubt > VAGUE {
        return None;
    }
    let doubt = Rate::from_ppb((doubt * 2e9) as i64);
    let error = doubt.0.saturating_add(ReplayOptions::DEFAULTS.nominal_error.0);
    Some((round(period).unwrap_or(period), Rate(error)))
}

/// The median of the slopes of pairs of rows so many apart, each between the middles of the
/// exchanges, and its relative uncertainty.
fn median(rows: &[&Stamped], apart: usize) -> Option<(Period, f64)> {
    if apart == 0 {
        return None;
    }
    let pairs = rows.iter().zip(rows.iter().skip(apart));
    let mut slopes: Vec<Slope> = pairs.filter_map(|(a, b)| slope(a, b)).collect();
    slopes.sort_by(|a, b| a.value.total_cmp(&b.value));
    let median = percentile(&slopes, 50)?;
    let middle = |mut values: Vec<f64>| {
        values.sort_by(f64::total_cmp);
        percentile(&values, 50)
    };
    let doubt = middle(slopes.iter().map(|s| s.doubt).collect())?;
    let spread = middle(slopes.iter().map(|s| (s.value / median.value - 1.0).abs()).collect())?;
    Some((Period::from_ratio(median.span, median.counts)?, doubt + SPREADS * spread))
}

fn slope(a: &Stamped, b: &Stamped) -> Option<Slope> {
    let counts = b.sent.midpoint(b.received) - a.sent.midpoint(a.received);
    let middle = |x: &Stamped| x.server_received + (x.server_sent - x.server_received).half();
    let span = middle(b) - middle(a);
    if counts.0 <= 0 || span.0 <= 0 {
        return None;
    }
    let trips = (a.received - a.sent).0 as f64 + (b.received - b.sent).0 as f64;
    let value = span.0 as f64 / counts.0 as f64;
    Some(Slope { span, counts, value, doubt: trips / 2.0 / counts.0 as f64 })
}

/// The power of ten that this period is all but that of.
fn round(period: Period) -> Option<Period> {
    let near = |hz: u64| {
        let apart = Period::from_hz(hz).relative_to(period).as_ppt().unsigned_abs();
        (apart as f64 / 1e12 <= ROUND).then(|| Period::from_hz(hz))
    };
    (3..=10).find_map(|power| near(10u64.pow(power)))
}

/// The poll interval by the first rows, s.
pub(super) fn poll(head: &[Row], period: Period) -> u32 {
    let pairs = head.iter().zip(head.iter().skip(1));
    let mut gaps: Vec<Span> =
        pairs.map(|(a, b)| period.span(b.stamped.sent - a.stamped.sent)).collect();
    gaps.sort_unstable();
    let Some(gap) = percentile(&gaps, 50) else { return DEFAULT_POLL };
    let seconds = (gap + Span::from_millis(500)).0 >> 64;
    let (least, most) = (i128::from(*POLL_RANGE.start()), i128::from(*POLL_RANGE.end()));
    u32::try_from(seconds.clamp(least, most)).unwrap_or(DEFAULT_POLL)
}
