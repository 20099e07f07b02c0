//! The replay of a stamp file: one estimator over the rows, as it would have run live.
//!
//! Every row goes to the estimator in its turn, and what the estimator then says of the time at Tf
//! comes out. Two things are taken from the first [`HEAD`] rows before the first is replayed, where
//! they are not given: the counter's nominal rate ([`Nominal`]) and by how many whole seconds the
//! reference's timescale differs from the server's ([`Referenced::offset_s`]). Nothing else looks
//! ahead, and nothing is kept of a row once it is replayed but its error.

use core::fmt;
use std::collections::BTreeMap;
use std::io::{self, BufRead};

use serde::Serialize;
use truechimer_engine::{EstimatorKind, estimator};
use truechimer_feedforward::{Accepted, Estimator, Exchange, RatePrior, Settings};
use truechimer_time::{Count, CountSpan, Instant, Period, Rate, Span, Stamp, StampMethod};

use crate::stamps::{Declared, Reader, Row, StampError, Stamped};

mod nominal;
mod reference;
mod spread;
mod write;

pub use nominal::{From, Nominal};
pub use reference::Referenced;
pub use spread::Spread;
pub use write::{CSV_HEADER, Nanos, period_s, write_csv, write_json};

/// So many rows are looked at before the first is replayed.
pub const HEAD: usize = 1000;

/// How to replay a stamp file. What is `None` is taken from the file's comments, else from its
/// rows, else from [`ReplayOptions::DEFAULTS`].
#[derive(Clone, Copy, Debug, Default)]
pub struct ReplayOptions {
    /// With which estimator.
    pub estimator: EstimatorKind,
    /// How long a count lasts, nominally.
    pub nominal: Option<Period>,
    /// Bound of the error of each count, ≥ 0.
    pub stamp_error: Option<Span>,
    /// The server's root distance, ≥ 0.
    pub root_distance: Option<Span>,
    /// Bound of how fast the oscillator's rate may differ from its recent average.
    pub max_wander: Option<Rate>,
    /// Seconds between requests.
    pub poll: Option<u32>,
}

/// What is assumed where neither the caller nor the file says anything.
#[derive(Clone, Copy, Debug)]
pub struct Defaults {
    /// Bound of the nominal rate's error.
    pub nominal_error: Rate,
    /// Bound of the error of each count.
    pub stamp_error: Span,
    /// The server's root distance.
    pub root_distance: Span,
    /// Bound of the oscillator's wander.
    pub max_wander: Rate,
}

impl ReplayOptions {
    /// A counter known as well as the daemon knows one at boot, stamped by a kernel, and a server
    /// that is right.
    pub const DEFAULTS: Defaults = Defaults {
        nominal_error: Rate::from_ppb(500_000),
        stamp_error: Span::from_micros(1),
        root_distance: Span::ZERO,
        max_wander: Rate::from_ppb(500),
    };
}

/// Why a row was not used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused {
    /// Te lies before Tb: by its own clock, the server replied before it was asked.
    ServerBackwards,
    /// Ta is not after that of the row before.
    NotAfterPrevious,
    /// The estimator would not have it.
    Estimator(truechimer_feedforward::Refusal),
}

impl Refused {
    /// A short name for tables, the same for all of a kind.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Refused::ServerBackwards => "server-backwards",
            Refused::NotAfterPrevious => "not-after-previous",
            Refused::Estimator(refusal) => refusal.name(),
        }
    }
}

/// One row, and what the clock knew once it had been taken in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Judged {
    /// The number of its line, from 1.
    pub line: u64,
    /// Tf: what follows is for this count.
    pub count: Count,
    /// Whether it was used, and if not, why.
    pub outcome: Result<Accepted, Refused>,
    /// Round trip by the nominal period, less the server's residence time.
    pub rtt: Span,
    /// Time at Tf if the reply took half of `rtt`: what a client without a filter believes.
    pub naive: Instant,
    /// What the clock says. `None` before the first row that was used.
    pub clock: Option<Told>,
    /// When the reply passed the reference, on the server's timescale.
    pub reference: Option<Instant>,
}

/// What the clock says at one count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Told {
    /// Time.
    pub time: Instant,
    /// Bound of its error.
    pub bound: Span,
    /// Its standard uncertainty from noise alone.
    pub deviation: Span,
    /// How long a count lasts.
    pub period: Period,
    /// Skew of the counter against its nominal rate: positive, the counter is fast.
    pub skew: Rate,
    /// The smallest round trip of the recent past.
    pub floor: Span,
}

impl Judged {
    /// The clock − the naive time: positive, the clock is ahead.
    #[must_use]
    pub fn offset(&self) -> Option<Span> {
        Some(self.clock?.time - self.naive)
    }

    /// The clock − the reference: positive, the clock is ahead.
    #[must_use]
    pub fn error(&self) -> Option<Span> {
        Some(self.clock?.time - self.reference?)
    }

    /// The naive time − the reference.
    #[must_use]
    pub fn naive_error(&self) -> Option<Span> {
        Some(self.naive - self.reference?)
    }
}

/// Refusals of one kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Refusals {
    /// How many.
    pub rows: u64,
    /// The line of the first.
    pub first_line: u64,
}

/// What came of a replay.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Replayed {
    /// With which estimator.
    pub estimator: EstimatorKind,
    /// Rows.
    pub rows: u64,
    /// Those that the estimator used.
    pub used: u64,
    /// Those that it did not, by reason.
    pub refused: BTreeMap<&'static str, Refusals>,
    /// Changes of the path that it found.
    pub shifts: u64,
    /// Steps of the server's time that it followed.
    pub steps: u64,
    /// From the first Ta to the last Tf at the nominal rate, s.
    pub duration_s: f64,
    /// The nominal rate, and where it comes from.
    pub nominal: Nominal,
    /// Seconds between requests.
    pub poll: u32,
    /// Bound of the error of each count that was assumed, µs.
    pub stamp_error_us: f64,
    /// The server's root distance that was assumed, µs.
    pub root_distance_us: f64,
    /// The smallest round trip, µs.
    pub rtt_least_us: f64,
    /// Skew of the counter in the end, parts per 10⁹: positive, it is fast.
    pub skew_ppb: Option<f64>,
    /// The bounds, µs.
    pub bound: Spread,
    /// The clock − the naive time, µs.
    pub offset: Spread,
    /// What the reference says of it, if there is one.
    pub reference: Option<Referenced>,
}

/// Why a stamp file cannot be replayed.
#[derive(Debug)]
pub enum ReplayError {
    /// It cannot be read.
    Stamps(StampError),
    /// The counter's nominal rate is not known, or not what is said.
    Nominal(String),
    /// The reference cannot be brought to the server's timescale.
    Reference(String),
    /// The rows' taker takes no more.
    Output(io::Error),
}

impl fmt::Display for ReplayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReplayError::Stamps(error) => error.fmt(f),
            ReplayError::Nominal(why) | ReplayError::Reference(why) => f.write_str(why),
            ReplayError::Output(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ReplayError {}

/// Replays a stamp file. `each` gets every row as soon as it is replayed.
///
/// # Errors
/// If the file cannot be read to its end, its counter's rate cannot be worked out, or `each` fails.
/// A row that no estimator would use is no error: it comes out as refused.
pub fn replay_stamps<R: BufRead>(
    input: R,
    options: &ReplayOptions,
    each: &mut dyn FnMut(&Judged) -> io::Result<()>,
) -> Result<Replayed, ReplayError> {
    let mut reader = Reader::new(input);
    let head: Vec<Row> =
        reader.by_ref().take(HEAD).collect::<Result<_, _>>().map_err(ReplayError::Stamps)?;
    let mut replay = Replay::new(&head, reader.declared(), options)?;
    for row in head.into_iter().map(Ok).chain(reader) {
        let judged = replay.row(&row.map_err(ReplayError::Stamps)?);
        each(&judged).map_err(ReplayError::Output)?;
    }
    Ok(replay.done())
}

/// A replay under way.
struct Replay {
    estimator: Box<dyn Estimator>,
    nominal: Period,
    stamp_error: CountSpan,
    root_distance: Span,
    reference: Option<reference::Gathered>,
    bounds: spread::Gathered,
    offsets: spread::Gathered,
    /// Ta of the first row, and of the newest that went to the estimator.
    sent: Option<(Count, Count)>,
    rtt_least: Span,
    sum: Replayed,
}

impl Replay {
    fn new(head: &[Row], said: Declared, options: &ReplayOptions) -> Result<Replay, ReplayError> {
        const ELSE: Defaults = ReplayOptions::DEFAULTS;
        let nominal = nominal::of(head, said, options)?;
        let period = nominal.period;
        let poll = options.poll.unwrap_or_else(|| nominal::poll(head, period));
        let settings = Settings {
            nominal: period,
            resolution: CountSpan(1),
            max_wander: options.max_wander.unwrap_or(ELSE.max_wander),
        };
        let prior = RatePrior { period, error: nominal.error };
        let stamp_error = options.stamp_error.or(said.stamp_error).unwrap_or(ELSE.stamp_error);
        let root_distance =
            options.root_distance.or(said.root_distance).unwrap_or(ELSE.root_distance);
        let us = |span: Span| span.as_picos() as f64 / 1e6;
        Ok(Replay {
            estimator: estimator(options.estimator, settings, prior, None, poll),
            nominal: period,
            stamp_error: period.counts(stamp_error),
            root_distance,
            reference: reference::Gathered::new(head)?,
            bounds: spread::Gathered::default(),
            offsets: spread::Gathered::default(),
            sent: None,
            rtt_least: Span::MAX,
            sum: Replayed {
                estimator: options.estimator,
                rows: 0,
                used: 0,
                refused: BTreeMap::new(),
                shifts: 0,
                steps: 0,
                duration_s: 0.0,
                nominal,
                poll,
                stamp_error_us: us(stamp_error),
                root_distance_us: us(root_distance),
                rtt_least_us: 0.0,
                skew_ppb: None,
                bound: Spread::default(),
                offset: Spread::default(),
                reference: None,
            },
        })
    }

    fn row(&mut self, row: &Row) -> Judged {
        let Row { line, stamped } = *row;
        let rtt = self.nominal.span(stamped.received - stamped.sent)
            - (stamped.server_sent - stamped.server_received);
        let outcome = self.exchange(&stamped);
        let clock = self.estimator.estimate(stamped.received).map(|estimate| {
            // What an estimator says of another count than its base is a straight line.
            let away = estimate.period.span(stamped.received - estimate.base);
            Told {
                time: estimate.time + away,
                bound: estimate.bound + estimate.growth.over(away.abs()),
                deviation: estimate.deviation,
                period: estimate.period,
                skew: Rate(estimate.period.relative_to(self.nominal).0.saturating_neg()),
                floor: estimate.rtt_floor,
            }
        });
        let judged = Judged {
            line,
            count: stamped.received,
            outcome,
            rtt,
            naive: stamped.server_sent + rtt.half(),
            clock,
            reference: self.reference.as_mut().and_then(|r| r.shifted(row)),
        };
        self.add(&judged, &stamped);
        judged
    }

    fn exchange(&mut self, stamped: &Stamped) -> Result<Accepted, Refused> {
        if stamped.server_sent < stamped.server_received {
            return Err(Refused::ServerBackwards);
        }
        if self.sent.is_some_and(|(_, last)| last.at_or_after(stamped.sent)) {
            return Err(Refused::NotAfterPrevious);
        }
        self.sent = Some((self.sent.map_or(stamped.sent, |(first, _)| first), stamped.sent));
        self.estimator
            .exchange(&exchange(stamped, self.stamp_error, self.root_distance))
            .map_err(Refused::Estimator)
    }

    fn add(&mut self, judged: &Judged, stamped: &Stamped) {
        let sum = &mut self.sum;
        sum.rows += 1;
        match judged.outcome {
            Ok(accepted) => {
                sum.used += 1;
                sum.shifts += u64::from(matches!(accepted, Accepted::Shifted(_)));
                sum.steps += u64::from(matches!(accepted, Accepted::Stepped(_)));
                self.rtt_least = self.rtt_least.min(judged.rtt);
                if let Some((first, _)) = self.sent {
                    let seconds = self.nominal.span(stamped.received - first);
                    sum.duration_s = seconds.as_nanos() as f64 / 1e9;
                }
            }
            Err(refused) => {
                let first = Refusals { rows: 0, first_line: judged.line };
                sum.refused.entry(refused.name()).or_insert(first).rows += 1;
            }
        }
        if let Some(clock) = judged.clock {
            sum.skew_ppb = Some(clock.skew.as_ppt() as f64 / 1000.0);
            self.bounds.add(clock.bound);
        }
        if let Some(offset) = judged.offset() {
            self.offsets.add(offset);
        }
        if let Some(reference) = &mut self.reference {
            reference.add(judged);
        }
    }

    fn done(self) -> Replayed {
        let least = if self.rtt_least == Span::MAX { Span::ZERO } else { self.rtt_least };
        Replayed {
            rtt_least_us: least.as_picos() as f64 / 1e6,
            bound: self.bounds.spread(),
            offset: self.offsets.spread(),
            reference: self.reference.map(reference::Gathered::done),
            ..self.sum
        }
    }
}

/// A row as estimators see it.
fn exchange(stamped: &Stamped, error: CountSpan, root_distance: Span) -> Exchange {
    let stamp = |count| Stamp { count, error, method: StampMethod::Kernel };
    Exchange {
        sent: stamp(stamped.sent),
        server_received: stamped.server_received,
        server_sent: stamped.server_sent,
        received: stamp(stamped.received),
        root_distance,
    }
}

#[cfg(test)]
mod tests;
