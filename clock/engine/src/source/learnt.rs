//! Asymmetry of a path, learnt while the clock knows the time better than the path can tell it.
//!
//! Each exchange is laid beside the published clock: true time at the departure was within its bound
//! of what it says, the server's stamp within its root distance. So the request took x ± e, and the
//! reply y ± f, whoever the clock has that from: a reference clock, a PTP port, a nearer server. The
//! least of x − e and of x + e hold the fastest request between them, and likewise the fastest reply
//! ([RFC 7679] defines the delays; RFC 5905, 8, what their difference does to an offset).
//!
//! The fastest that came need not be the fastest that may: both directions are thought faster by as
//! much as `declared.rs` of the estimator allows for the smallest round trip of n.
//!
//! [RFC 7679]: https://www.rfc-editor.org/rfc/rfc7679

use serde::{Deserialize, Serialize};
use truechimer_feedforward::Exchange;
use truechimer_time::{Count, CountSpan, Period, Span};
use truechimer_timehands::Hand;

use crate::config::Asymmetry;

/// Exchanges are remembered for once to twice as long: long enough to meet both floors at any poll,
/// and a route that has changed is forgotten after that.
const WINDOW: Span = Span::from_secs(3600);
/// Exchanges beside each other are known equally well, up to this factor: one that the clock knew
/// less of would say that the fastest may have been much faster.
const ALIKE: i128 = 2;
/// The fewest exchanges that something is concluded from: as many as `burst` begins with, twice.
const LEAST: u32 = 16;
/// The fastest of n packets waited so many times the mean wait / √n at most; see `declared.rs`.
const SMALLEST: i128 = 8;

/// Asymmetry of a path as the exchanges of the last one to two hours show it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Learnt {
    /// The asymmetry, and the bound of its error: what is declared of a path with `asymmetry`.
    pub asymmetry: Asymmetry,
    /// Exchanges that show it.
    pub exchanges: u32,
}

/// Memory of a path's delays.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Learning {
    newer: Option<Window>,
    older: Option<Window>,
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

    /// How much faster than the fastest of n that came one may be.
    fn faster(&self, n: u32) -> Span {
        let waits = Span(self.sum.0 / i128::from(n)) - (self.low + self.high).half();
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
        }
    }

    fn is_known_like(&self, other: &Window) -> bool {
        self.error.max(other.error).0 <= self.error.min(other.error).0 * ALIKE
    }

    /// What it shows, if that is more than causality alone: that no delay is negative.
    fn learnt(&self) -> Option<Learnt> {
        let Window { request, reply, exchanges, .. } = *self;
        if exchanges < LEAST {
            return None;
        }
        let request_low = request.low - request.faster(exchanges);
        let reply_low = reply.low - reply.faster(exchanges);
        let (low, high) = (request_low - reply.high, request.high - reply_low);
        let error = (high - low).half() + Span(1);
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
        let Exchange { sent, server_received, server_sent, received, root_distance } = exchange;
        let error = |count: Count, stamp: CountSpan| {
            hand.bound_at(count) + *root_distance + nominal.span(stamp).abs()
        };
        let errors = [(sent.count, sent.error), (received.count, received.error)];
        let [there, back] = errors.map(|(count, stamp)| error(count, stamp));
        let this = Window {
            begun: sent.count,
            error: there.max(back),
            exchanges: 1,
            request: Direction::of(*server_received - hand.time_at(sent.count), there),
            reply: Direction::of(hand.time_at(received.count) - *server_sent, back),
        };
        match self.newer {
            Some(newer) if nominal.span(sent.count - newer.begun) >= WINDOW => {
                *self = Learning { newer: Some(this), older: Some(newer) };
            }
            Some(newer) if this.is_known_like(&newer) => self.newer = Some(newer.with(this)),
            Some(newer) if this.error > newer.error => {}
            // What came before was known less.
            _ => {
                let older = self.older.filter(|older| older.is_known_like(&this));
                *self = Learning { newer: Some(this), older };
            }
        }
    }

    pub(super) fn learnt(&self) -> Option<Learnt> {
        let newer = self.newer?;
        let both = self.older.filter(|older| older.is_known_like(&newer));
        both.map_or(newer, |older| older.with(newer)).learnt().or_else(|| self.older?.learnt())
    }
}
