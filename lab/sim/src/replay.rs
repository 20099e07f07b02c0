//! The replay of a stamp file: one estimator over the rows, as it would have run live.
//!
//! Every row goes to the estimator in its turn, and what the estimator then says of the time at Tf
//! comes out. Two things are taken from the first [`HEAD`] rows before the first is replayed, where
//! they are not given: the counter's nominal rate ([`Nominal`]) and by how many whole seconds the
//! reference's timescale differs from the server's ([`Referenced::offset_s`]). And the few rows
//! after one tell whether the counter began again in it, or whether it is out of its order. Nothing
//! else looks ahead, and nothing is kept of a row once it is replayed but its error.

use core::fmt;
use std::collections::{BTreeMap, VecDeque};
use std::io::{self, BufRead};

use serde::Serialize;
use truechimer_engine::Beginning;
use truechimer_estimators::Kind;
use truechimer_feedforward::{Accepted, Estimator, Exchange, RatePrior, Refusal, Settings};
use truechimer_time::{Count, CountSpan, Instant, Period, Rate, Span, Stamp, StampMethod};

use crate::stamps::{Reader, Row, StampError, Stamped};

mod nominal;
mod reference;
mod spread;
mod track;
mod write;

pub use nominal::{From, Nominal};
pub use reference::Referenced;
pub use spread::{Gathered, Spread};
use track::{AHEAD, Place, Track};
pub use write::{CSV_HEADER, Nanos, period_s, write_csv, write_json};

/// Number of rows that are looked at before the first is replayed.
pub const HEAD: usize = 1000;
/// Number of lines kept at which the counter began again.
const LINES: usize = 8;
/// Seconds since 1900 between 2000 and 2036; as seconds since 1970 they would be 2070 and later.
const SINCE_1900: core::ops::Range<i64> = 3_155_673_600..1 << 32;

/// Settings of the replay of a stamp file. What is `None` is taken from the file's comments, else
/// from its rows, else from [`ReplayOptions::DEFAULTS`].
#[derive(Clone, Copy, Debug, Default)]
pub struct ReplayOptions {
    /// With which estimator.
    pub estimator: Kind,
    /// Nominal length of a count.
    pub nominal: Option<Period>,
    /// Bound of the error of each count, ≥ 0.
    pub stamp_error: Option<Span>,
    /// The server's root distance, ≥ 0.
    pub root_distance: Option<Span>,
    /// Bound of how fast the oscillator's rate may differ from its recent average.
    pub max_wander: Option<Rate>,
    /// Seconds between requests.
    pub poll: Option<u32>,
    /// So much of the beginning, and after every restart of the counter, is in no statistics.
    pub settle: Span,
}

/// Assumptions where neither the caller nor the file says anything.
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

/// Reason why a row was not used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused {
    /// Te lies before Tb: by its own clock, the server replied before it was asked.
    ServerBackwards,
    /// Ta is not after that of the row before.
    NotAfterPrevious,
    /// Ta or Tf is later than those of the rows that follow.
    CounterAhead,
    /// The estimator would not have it.
    Estimator(Refusal),
}

impl Refused {
    /// A short name for tables, the same for all of a kind.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Refused::ServerBackwards => "server-backwards",
            Refused::NotAfterPrevious => "not-after-previous",
            Refused::CounterAhead => "counter-ahead",
            Refused::Estimator(refusal) => refusal.name(),
        }
    }

    /// True if the counts or their order make no sense, so that nothing can be said of the time at
    /// Tf either.
    fn senseless(self) -> bool {
        match self {
            Refused::ServerBackwards | Refused::NotAfterPrevious | Refused::CounterAhead => true,
            Refused::Estimator(refusal) => refusal == Refusal::CounterBackwards,
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
    /// Use that was made of the row, or the reason why none was.
    pub outcome: Result<Accepted, Refused>,
    /// Round trip by the nominal period, less the server's residence time.
    pub rtt: Span,
    /// Time at Tf if the reply took half of `rtt`: what a client without a filter believes.
    pub naive: Instant,
    /// Reading of the clock. `None` before the first row that was used.
    pub clock: Option<Told>,
    /// When the reply passed the reference, on the server's timescale.
    pub reference: Option<Instant>,
    /// From 1; one more with every restart of the counter.
    pub epoch: u64,
}

/// Reading of the clock at one count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Told {
    /// Time.
    pub time: Instant,
    /// Bound of its error.
    pub bound: Span,
    /// Standard uncertainty of `time` from noise alone.
    pub deviation: Span,
    /// Length of a count.
    pub period: Period,
    /// Skew of the counter against its nominal rate: positive, the counter is fast.
    pub skew: Rate,
    /// Floor of the round trip just now, as far as is known.
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
    /// Number of rows.
    pub rows: u64,
    /// The line of the first.
    pub first_line: u64,
}

/// Where the counter began again: its counts went back or jumped against the server's time, and
/// went on from there. What the clock knew of time is void then; it begins a new epoch.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Restarts {
    /// Number of restarts.
    pub count: u64,
    /// The lines of the first ones.
    pub lines: Vec<u64>,
}

/// Result of a replay. What was not measured is `None`.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Replayed {
    /// With which estimator.
    pub estimator: Kind,
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
    /// From the first Ta to the last Tf of the rows that make sense, used or not, at the nominal
    /// rate, s.
    pub duration_s: Option<f64>,
    /// Restarts of the counter.
    pub restarts: Restarts,
    /// So much of the beginning is left out of the statistics, s.
    pub settle_s: f64,
    /// The server's times look like seconds since 1900, as in NTP packets.
    pub since_1900: bool,
    /// The nominal rate, and where it comes from.
    pub nominal: Nominal,
    /// Seconds between requests.
    pub poll: u32,
    /// Bound of the error of each count that was assumed, µs.
    pub stamp_error_us: f64,
    /// The server's root distance that was assumed, µs.
    pub root_distance_us: f64,
    /// The smallest round trip, µs.
    pub rtt_least_us: Option<f64>,
    /// Skew of the counter in the end, parts per 10⁹: positive, it is fast.
    pub skew_ppb: Option<f64>,
    /// The bounds, µs.
    pub bound: Option<Spread>,
    /// The clock − the naive time, µs.
    pub offset: Option<Spread>,
    /// Comparison with the reference, if there is one.
    pub reference: Option<Referenced>,
}

/// Reason why a stamp file cannot be replayed.
#[derive(Debug)]
pub enum ReplayError {
    /// Stamps that cannot be read.
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
    let mut replay = Replay::new(&head, &reader, options)?;
    let mut coming = head.into_iter().map(Ok).chain(reader);
    let mut rows: VecDeque<Result<Row, StampError>> = coming.by_ref().take(AHEAD).collect();
    loop {
        rows.extend(coming.next());
        let Some(row) = rows.pop_front() else { break };
        let following = rows.iter().map_while(|row| Some(&row.as_ref().ok()?.stamped));
        let judged = replay.row(&row.map_err(ReplayError::Stamps)?, following);
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
    precision: Span,
    reference: Option<reference::Gathered>,
    bounds: Gathered,
    offsets: Gathered,
    track: Track,
    /// Ta of the newest row of this epoch that went to the estimator.
    sent: Option<Count>,
    settle: Span,
    rtt_least: Span,
    sum: Replayed,
}

impl Replay {
    fn new<R: BufRead>(
        head: &[Row],
        reader: &Reader<R>,
        options: &ReplayOptions,
    ) -> Result<Replay, ReplayError> {
        const ELSE: Defaults = ReplayOptions::DEFAULTS;
        let said = reader.declared();
        let nominal = nominal::of(head, said, reader.declared_in("nominal-hz"), options)?;
        let period = nominal.period;
        let poll = options.poll.unwrap_or_else(|| nominal::poll(head, period));
        let settings = Settings {
            nominal: period,
            resolution: CountSpan(1),
            max_wander: options.max_wander.unwrap_or(ELSE.max_wander),
            accept_step_after: truechimer_feedforward::ACCEPT_STEP_AFTER,
            asymmetry: None,
            pulse: false,
        };
        let rate = RatePrior { period, error: nominal.error };
        let beginning = Beginning { settings, rate, time: None, poll };
        let stamp_error = options.stamp_error.or(said.stamp_error).unwrap_or(ELSE.stamp_error);
        let root_distance =
            options.root_distance.or(said.root_distance).unwrap_or(ELSE.root_distance);
        let us = |span: Span| span.as_picos() as f64 / 1e6;
        Ok(Replay {
            estimator: options.estimator.estimator(&beginning),
            nominal: period,
            stamp_error: period.counts(stamp_error),
            root_distance,
            precision: said.precision.unwrap_or_default(),
            reference: reference::Gathered::new(head)?,
            bounds: Gathered::default(),
            offsets: Gathered::default(),
            track: Track::new(period, nominal.error),
            sent: None,
            settle: options.settle,
            rtt_least: Span::MAX,
            sum: Replayed {
                estimator: options.estimator,
                rows: 0,
                used: 0,
                refused: BTreeMap::new(),
                shifts: 0,
                steps: 0,
                duration_s: None,
                restarts: Restarts::default(),
                settle_s: seconds(options.settle),
                since_1900: since_1900(head),
                nominal,
                poll,
                stamp_error_us: us(stamp_error),
                root_distance_us: us(root_distance),
                rtt_least_us: None,
                skew_ppb: None,
                bound: None,
                offset: None,
                reference: None,
            },
        })
    }

    fn row<'r>(&mut self, row: &Row, following: impl Iterator<Item = &'r Stamped>) -> Judged {
        let Row { line, stamped } = *row;
        let place = forward(&stamped).then(|| self.track.place(&stamped, following));
        if let Some(Place::Break(_)) = place {
            self.estimator.new_epoch();
            self.sent = None;
            let restarts = &mut self.sum.restarts;
            restarts.count += 1;
            if restarts.lines.len() < LINES {
                restarts.lines.push(line);
            }
        }
        let rtt = self.nominal.span(stamped.received - stamped.sent)
            - (stamped.server_sent - stamped.server_received);
        let outcome = self.exchange(&stamped, place);
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
            epoch: self.sum.restarts.count + 1,
        };
        // Counts that neither server nor reference agree with say nothing of the clock.
        let wrong = place == Some(Place::Off) && stamped.reference.is_some();
        let settled = self.track.epoch >= self.settle;
        self.add(&judged, settled && !wrong);
        judged
    }

    fn exchange(&mut self, stamped: &Stamped, place: Option<Place>) -> Result<Accepted, Refused> {
        if stamped.server_sent < stamped.server_received {
            return Err(Refused::ServerBackwards);
        }
        if self.sent.is_some_and(|last| last.at_or_after(stamped.sent)) {
            return Err(Refused::NotAfterPrevious);
        }
        match place {
            None => return Err(Refused::Estimator(Refusal::CounterBackwards)),
            Some(Place::Ahead) => return Err(Refused::CounterAhead),
            Some(_) => {}
        }
        self.sent = Some(stamped.sent);
        self.estimator
            .exchange(&exchange(stamped, self.stamp_error, [self.root_distance, self.precision]))
            .map_err(Refused::Estimator)
    }

    /// `counts` in the statistics, that is: if it makes sense.
    fn add(&mut self, judged: &Judged, counts: bool) {
        let sum = &mut self.sum;
        sum.rows += 1;
        match judged.outcome {
            Ok(accepted) => {
                sum.used += 1;
                sum.shifts += u64::from(matches!(accepted, Accepted::Shifted(_)));
                sum.steps += u64::from(matches!(accepted, Accepted::Stepped(_)));
                self.rtt_least = self.rtt_least.min(judged.rtt);
            }
            Err(refused) => {
                let first = Refusals { rows: 0, first_line: judged.line };
                sum.refused.entry(refused.name()).or_insert(first).rows += 1;
            }
        }
        if !counts || judged.outcome.is_err_and(Refused::senseless) {
            return;
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
        let least = Some(self.rtt_least).filter(|&least| least != Span::MAX);
        Replayed {
            duration_s: self.track.elapsed().map(seconds),
            rtt_least_us: least.map(|least| least.as_picos() as f64 / 1e6),
            bound: self.bounds.spread(),
            offset: self.offsets.spread(),
            reference: self.reference.map(reference::Gathered::done),
            ..self.sum
        }
    }
}

fn seconds(span: Span) -> f64 {
    span.as_nanos() as f64 / 1e9
}

/// True if the client's part of an exchange takes time and the server's does not go backwards.
fn forward(stamped: &Stamped) -> bool {
    (stamped.received - stamped.sent).0 > 0 && stamped.server_sent >= stamped.server_received
}

/// True if the server's times look like seconds since 1900.
fn since_1900(head: &[Row]) -> bool {
    let like = |row: &&Row| SINCE_1900.contains(&row.stamped.server_received.secs());
    head.iter().filter(like).count() * 2 > head.len()
}

/// A row as estimators see it, with the server's root distance and precision.
fn exchange(stamped: &Stamped, error: CountSpan, distance: [Span; 2]) -> Exchange {
    let stamp = |count| Stamp { count, error, method: StampMethod::Kernel };
    Exchange {
        sent: stamp(stamped.sent),
        server_received: stamped.server_received,
        server_sent: stamped.server_sent,
        received: stamp(stamped.received),
        root_distance: distance[0],
        precision: distance[1],
    }
}

#[cfg(test)]
mod tests;
