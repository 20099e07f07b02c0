//! Asymmetry of a path, learnt while the clock knows the time better than the path can tell it.
//!
//! Each exchange is laid beside the published clock: true time at the departure was within its bound
//! of what it says, the server's stamp within its root distance. So the request took x ± e, and the
//! reply y ± f, whoever the clock has that from: a reference clock, a PTP port, a nearer server. The
//! least of x − e and of x + e hold the fastest request between them, and likewise the fastest reply
//! ([RFC 7679] defines the delays; RFC 5905, 8, what their difference does to an offset).
//!
//! The fastest that came need not be the fastest that may: both directions are thought faster by as
//! much as `declared.rs` of the estimator allows for the smallest round trip of n. And where the
//! route changed, the fastest request may be of one and the fastest reply, r and p, of another. Of a
//! route whose round trips were S at least, the asymmetry is within S − r − p of r − p, as neither
//! of its directions takes less than r or p: the largest S of any sixteen exchanges in a row counts.
//!
//! Over a restart it is kept together with r + p. It is used again if the least of the first sixteen
//! round trips is that, within the error, and else forgotten.
//!
//! [RFC 7679]: https://www.rfc-editor.org/rfc/rfc7679

use alloc::string::String;
use core::net::SocketAddr;

use serde::{Deserialize, Serialize};
use truechimer_feedforward::Exchange;
use truechimer_time::{Count, CountSpan, Period, Span};
use truechimer_timehands::Hand;

use crate::config::Asymmetry;

/// Exchanges are remembered for once to twice as long, and no longer than that without any: long
/// enough to meet both floors, and a route that has changed is forgotten after that.
const WINDOW: Span = Span::from_secs(3600);
/// The fewest exchanges that something is concluded from: as many as `burst` begins with, twice.
const LEAST: u32 = 16;
/// The fewest that are remembered, where they take longer than a window.
const REMEMBERED: u32 = 4 * LEAST;
/// A path is used again by a daemon that hears the server at most so long after it was heard last, s: a night, and the work of a
/// day.
const KEPT: i64 = 24 * 3600;
/// Exchanges beside each other are known equally well, up to this factor: one that the clock knew
/// less of would say that the fastest may have been much faster.
const ALIKE: i128 = 2;
/// The fastest of n packets waited so many times the mean wait / √n at most.
const SMALLEST: i128 = truechimer_feedforward::SMALLEST as i128;

/// Asymmetry of a path as the exchanges of the last one to two hours show it, or more where those
/// are few.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Learnt {
    /// The asymmetry, and the bound of its error: what is declared of a path with `asymmetry`.
    pub asymmetry: Asymmetry,
    /// Exchanges that show it.
    pub exchanges: u32,
}

/// Path that was learnt, for the daemon after this one.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeptPath {
    /// Name of the source.
    pub server: String,
    /// Address that answers.
    pub address: SocketAddr,
    /// The asymmetry that is used, and the bound of its error.
    pub asymmetry: Asymmetry,
    /// The least round trip of that route, > 0, known to the same error.
    pub least: Span,
    /// Unix time in seconds at which the server was last heard.
    pub unix: i64,
}

/// Path that the daemon before has left, until it shows whether the route is still that one.
#[derive(Clone, Debug)]
pub(super) struct Recall {
    path: KeptPath,
    /// The least round trip so far.
    least: Span,
    exchanges: u32,
}

/// Finding about a path of before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Recalled {
    /// More exchanges are needed to tell.
    NotYet,
    /// The route is as it was.
    Same,
    /// Another route, or nobody can tell any more.
    Other,
}

impl Recall {
    /// `None` if it is of no path that there can be.
    pub(super) fn new(path: KeptPath) -> Option<Recall> {
        let KeptPath { asymmetry: Asymmetry { by, error }, least, .. } = path;
        let is_path = [by, -by, error, least].iter().all(|span| *span <= WINDOW)
            && error >= Span::ZERO
            && least >= Span::ZERO;
        is_path.then_some(Recall { path, least: WINDOW, exchanges: 0 })
    }

    pub(super) fn path(&self) -> &KeptPath {
        &self.path
    }

    /// Lays another round trip beside those of before, at this Unix time by the clock, s.
    pub(super) fn take(&mut self, round_trip: Span, stamps: Span, unix: i64) -> Recalled {
        self.least = self.least.min(round_trip);
        self.exchanges += 1;
        let KeptPath { asymmetry, least, unix: kept, .. } = &self.path;
        let longer = self.least - *least;
        let known = asymmetry.error + stamps;
        let is_recent = (0..=KEPT).contains(&unix.saturating_sub(*kept));
        // The first may have been in a queue, and of a route that is shorter.
        match longer {
            _ if !is_recent || longer < -known => Recalled::Other,
            _ if self.exchanges < LEAST => Recalled::NotYet,
            _ if longer <= known => Recalled::Same,
            _ => Recalled::Other,
        }
    }
}

/// Memory of a path's delays.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Learning {
    /// Exchanges since the newest [`LEAST`] that are in `newer`.
    block: Option<Window>,
    newer: Option<Window>,
    older: Option<Window>,
    /// Count of the newest exchange.
    last: Option<Count>,
}

/// One direction: the least times that its packets took.
#[derive(Clone, Copy, Debug)]
struct Direction {
    /// The least by which a packet took at least so long.
    low: Span,
    /// The least by which a packet took at most so long.
    high: Span,
    /// Sum of what all took, in the middle.
    sum: Span,
}

#[derive(Clone, Copy, Debug)]
struct Window {
    begun: Count,
    /// Least error of its exchanges.
    error: Span,
    exchanges: u32,
    request: Direction,
    reply: Direction,
    /// Round trip that some block of [`LEAST`] exchanges was never below.
    trip: Span,
}

impl Direction {
    fn of(took: Span, error: Span) -> Direction {
        Direction { low: took - error, high: took + error, sum: took }
    }

    fn with(self, other: Direction) -> Direction {
        Direction {
            low: self.low.min(other.low),
            high: self.high.min(other.high),
            sum: self.sum + other.sum,
        }
    }

    /// The least time that one took, in the middle.
    fn least(&self) -> Span {
        (self.low + self.high).half()
    }

    /// Time by which one may be faster than the fastest of n that came.
    fn faster(&self, n: u32) -> Span {
        let waits = Span(self.sum.0 / i128::from(n)) - self.least();
        Span(waits.0.max(0) * SMALLEST / i128::from(n.isqrt()))
    }
}

impl Window {
    fn with(self, other: Window) -> Window {
        Window {
            begun: self.begun,
            error: self.error.min(other.error),
            exchanges: self.exchanges.saturating_add(other.exchanges),
            request: self.request.with(other.request),
            reply: self.reply.with(other.reply),
            trip: self.trip.max(other.trip),
        }
    }

    /// True if it has been filled long enough, `age` after its beginning.
    fn is_full(&self, age: Span) -> bool {
        age >= WINDOW && self.exchanges >= REMEMBERED
    }

    /// True if what it is of was known about as well as what the other is of.
    fn is_known_like(&self, other: &Window) -> bool {
        self.error.max(other.error).0 <= self.error.min(other.error).0 * ALIKE
    }

    /// Asymmetry that it shows, if that is more than causality alone: that no delay is negative.
    fn learnt(&self) -> Option<Learnt> {
        let Window { request, reply, exchanges, .. } = *self;
        if exchanges < LEAST {
            return None;
        }
        let request_low = request.low - request.faster(exchanges);
        let reply_low = reply.low - reply.faster(exchanges);
        let (low, high) = (request_low - reply.high, request.high - reply_low);
        // The fastest of each direction may have been of two routes: no packet of one that was there
        // for a block took longer than its round trip leaves to it.
        let apart = (self.trip - request.least() - reply.least()).max(Span::ZERO);
        let error = (high - low).half() + apart + Span(1);
        let round_trip = request_low + reply_low;
        let asymmetry = Asymmetry { by: low + (high - low).half(), error };
        (error < round_trip).then_some(Learnt { asymmetry, exchanges })
    }
}

impl Learning {
    /// Lays an exchange, as it came, beside this hand.
    pub(super) fn take(&mut self, exchange: &Exchange, hand: &Hand, nominal: Period) {
        if !hand.status.bound_holds() {
            return;
        }
        if self.last.is_some_and(|last| nominal.span(exchange.sent.count - last) >= WINDOW) {
            *self = Learning::default();
        }
        let Exchange { sent, server_received, server_sent, received, root_distance, .. } = exchange;
        let error = |count: Count, stamp: CountSpan| {
            hand.bound_at(count) + *root_distance + nominal.span(stamp).abs()
        };
        let errors = [(sent.count, sent.error), (received.count, received.error)];
        let [there, back] = errors.map(|(count, stamp)| error(count, stamp));
        let delays = [
            *server_received - hand.time_at(sent.count),
            hand.time_at(received.count) - *server_sent,
        ];
        // No packet is under way for so long: stamps are wrong.
        if delays.iter().any(|took| took.abs() > WINDOW) || there.max(back) > WINDOW {
            return;
        }
        let this = Window {
            begun: sent.count,
            error: there.max(back),
            exchanges: 1,
            request: Direction::of(delays[0], there),
            reply: Direction::of(delays[1], back),
            trip: delays[0] + delays[1],
        };
        match self.newer.or(self.block) {
            Some(known) if this.is_known_like(&known) => {}
            Some(known) if this.error > known.error => return,
            // What came before was known less.
            _ => {
                let older = self.older.filter(|older| older.is_known_like(&this));
                *self = Learning { older, ..Learning::default() };
            }
        }
        self.last = Some(sent.count);
        let block = self.block.map_or(this, |block| {
            let trip = block.trip.min(this.trip);
            Window { trip, ..block.with(this) }
        });
        self.block = Some(block).filter(|block| block.exchanges < LEAST);
        if self.block.is_some() {
            return;
        }
        self.newer = Some(match self.newer {
            Some(newer) if newer.is_full(nominal.span(sent.count - newer.begun)) => {
                self.older = Some(newer);
                block
            }
            Some(newer) => newer.with(block),
            None => block,
        });
    }

    /// Asymmetry that they show.
    pub(super) fn learnt(&self) -> Option<Learnt> {
        self.window()?.learnt()
    }

    /// The fastest request and the fastest reply together.
    pub(super) fn least(&self) -> Option<Span> {
        let Window { request, reply, .. } = self.window()?;
        Some(request.least() + reply.least())
    }

    fn window(&self) -> Option<Window> {
        let newer = self.newer?;
        let both = self.older.filter(|older| older.is_known_like(&newer));
        Some(both.map_or(newer, |older| older.with(newer)))
    }
}
