//! Happenings in a log, as its readers want to see them.

use truechimer_engine::{
    Action, Engine, Event, Level, PtpEvent, SourceId, SourceReport, SourceStatus,
};
use truechimer_feedforward::Exchange;
use truechimer_time::{Count, Epoch, Instant, Period, Rate, Span, Utc};
use truechimer_timehands::{Hand, Status};

/// One thing that happened, and what the clock said of it.
#[derive(Clone, PartialEq, Debug)]
pub struct Happened {
    /// The line of the event that it came of, from 1.
    pub line: u64,
    /// When: of a reply its arrival, else when the engine heard of it.
    pub count: Count,
    /// The published clock at `count`, once it was synchronised: leap-free, and as UTC.
    pub time: Option<(Instant, Utc)>,
    /// With another estimator, at a reply that was used: the logged clock at `count`, leap-free,
    /// once it had taken in the same event. `None` where either does not know the time.
    pub logged: Option<Instant>,
    /// Bound of its error, while it is promised.
    pub bound: Option<Span>,
    /// Status of the published clock, in its own words.
    pub status: Status,
    /// Event or change.
    pub what: What,
}

/// Kinds of events and changes.
#[derive(Clone, PartialEq, Debug)]
pub enum What {
    /// A datagram came from a source, or a sample of a reference clock.
    Reply(Box<Heard>),
    /// The configuration was read again.
    Reload {
        /// Number of sources now.
        sources: usize,
    },
    /// The counter lost its continuity; the note before says why.
    Disruption,
    /// The clock's status changed.
    Status {
        /// From this.
        from: Status,
    },
    /// The engine told the user something.
    Note {
        /// Importance of it.
        level: Level,
        /// One line.
        text: String,
    },
}

/// A datagram or a sample, and what the source's estimator knew once it had been taken in.
#[derive(Clone, PartialEq, Debug)]
pub struct Heard {
    /// The source's name.
    pub source: String,
    /// `None` if it was used, else the name of the reason why not.
    pub refused: Option<String>,
    /// Status: how far the source is believed.
    pub status: SourceStatus,
    /// Round trip less the server's residence time: of this exchange, or if it was refused of the
    /// newest that was used.
    pub rtt: Option<Span>,
    /// The exchange, if it was used: stamps in counts, the server's times leap-free.
    pub exchange: Option<Exchange>,
    /// The server's two times in it as UTC.
    pub server_utc: Option<[Utc; 2]>,
    /// The delays there and back of an exchange that was used, by the published clock: the server's
    /// receive stamp − the departure, and the arrival − the server's transmit stamp.
    pub delays: Option<(Span, Span)>,
    /// Floor of the round trip just now, as far as is known.
    pub floor: Option<Span>,
    /// Published clock − this source's estimate: positive, the published clock is ahead.
    pub offset: Option<Span>,
    /// Bound of this source's own estimate.
    pub bound: Option<Span>,
    /// Standard uncertainty of it, from noise alone.
    pub deviation: Option<Span>,
    /// Skew of the counter by this source: positive, it is fast.
    pub skew: Option<Rate>,
    /// Length of a count by the published clock.
    pub period: Period,
}

impl Happened {
    /// `what`, at `count`, with what `hand` says then.
    pub(super) fn new(line: u64, count: Count, hand: &Hand, what: What) -> Happened {
        let known = hand.status != Status::Unknown;
        let time = hand.time_at(count);
        Happened {
            line,
            count,
            time: known.then(|| (time, hand.leaps.utc(time))),
            logged: None,
            bound: hand.status.bound_holds().then(|| hand.bound_at(count)),
            status: hand.status,
            what,
        }
    }

    /// The published clock − the logged one: positive, the published clock is ahead.
    #[must_use]
    pub fn ahead_of_logged(&self) -> Option<Span> {
        Some(self.time?.0 - self.logged?)
    }

    /// Takes down what the logged clock says at the same count.
    pub(super) fn compare(&mut self, logged: &Hand) {
        let known = |status| !matches!(status, Status::Unknown | Status::Disrupted);
        let used = matches!(&self.what, What::Reply(heard) if heard.refused.is_none());
        if used && known(self.status) && known(logged.status) {
            self.logged = Some(logged.time_at(self.count));
        }
    }
}

impl Heard {
    /// The published clock − the naive time, which takes the reply for half of the round trip:
    /// positive, the published clock is ahead. `None` if the exchange was not used.
    #[must_use]
    pub fn naive_offset(&self) -> Option<Span> {
        let (there, back) = self.delays?;
        Some((back - there).half())
    }
}

/// An event before the engine has it.
pub(super) struct Before {
    /// The source's state, if the event is a reply to one, or a sample of it.
    reply: Option<(SourceId, Count, SourceReport)>,
    reload: Option<usize>,
    status: Status,
    epoch: Epoch,
}

impl Before {
    pub(super) fn new(engine: &Engine, at: Count, event: &Event) -> Before {
        Before {
            reply: match event {
                Event::Reply { source, received, .. } => {
                    let report = engine.source_report(*source, at);
                    report.map(|report| (*source, received.count, report))
                }
                Event::Sample { source, stamp, .. } => {
                    let count = stamp.as_ref().map_or(at, |stamp| stamp.count);
                    engine.source_report(*source, at).map(|report| (*source, count, report))
                }
                Event::Ptp(PtpEvent::Message { source, .. } | PtpEvent::Sent { source, .. }) => {
                    engine.source_report(*source, at).map(|report| (*source, at, report))
                }
                _ => None,
            },
            reload: match event {
                Event::Configure(config) => Some(config.sources.len()),
                _ => None,
            },
            status: engine.hand().status,
            epoch: engine.hand().counter.epoch,
        }
    }

    /// Consequences of the event, in order: what the engine had to say, then what became of a
    /// reply.
    pub(super) fn then(
        self,
        engine: &Engine,
        line: u64,
        at: Count,
        actions: &[Action],
    ) -> Vec<Happened> {
        let mut happened = Vec::new();
        let hand = engine.hand();
        if let Some(sources) = self.reload {
            happened.push(Happened::new(line, at, hand, What::Reload { sources }));
        }
        happened.extend(said(line, at, self.status, hand, actions));
        if hand.counter.epoch != self.epoch {
            happened.push(Happened::new(line, at, hand, What::Disruption));
        }
        if let Some((id, count, before)) = self.reply
            && let Some(after) = engine.source_report(id, at)
        {
            let refused = refused(&before, &after);
            // One that nobody counts was for no association: nothing was decided.
            if after.accepted > before.accepted || refused.is_some() {
                let exchange = engine.last_exchange(id).filter(|_| refused.is_none());
                let heard = Heard {
                    exchange: exchange.copied(),
                    server_utc: exchange
                        .map(|x| [x.server_received, x.server_sent].map(|at| hand.leaps.utc(at))),
                    delays: exchange.map(|x| delays(x, hand)),
                    refused,
                    status: after.status,
                    rtt: after.rtt,
                    floor: after.rtt_floor,
                    offset: after.offset,
                    bound: after.bound,
                    deviation: after.deviation,
                    skew: after.skew,
                    period: hand.period,
                    source: after.name,
                };
                happened.push(Happened::new(line, count, hand, What::Reply(Box::new(heard))));
            }
        }
        happened
    }
}

/// Words of the engine by its actions: notes that matter, and changes of status.
pub(super) fn said(
    line: u64,
    at: Count,
    mut status: Status,
    hand: &Hand,
    actions: &[Action],
) -> Vec<Happened> {
    let mut happened = Vec::new();
    for action in actions {
        match action {
            Action::Note { level, text } if *level > Level::Debug => {
                let what = What::Note { level: *level, text: text.clone() };
                happened.push(Happened::new(line, at, hand, what));
            }
            Action::Publish(hand) if hand.status != status => {
                let from = core::mem::replace(&mut status, hand.status);
                happened.push(Happened::new(line, at, hand, What::Status { from }));
            }
            _ => {}
        }
    }
    happened
}

/// The delays there and back by this clock.
fn delays(exchange: &Exchange, hand: &Hand) -> (Span, Span) {
    let there = exchange.server_received - hand.time_at(exchange.sent.count);
    let back = hand.time_at(exchange.received.count) - exchange.server_sent;
    (there, back)
}

/// The reason that was counted once more.
fn refused(before: &SourceReport, after: &SourceReport) -> Option<String> {
    let counted = |name: &String| before.refused.get(name).copied().unwrap_or(0);
    let more = after.refused.iter().find(|(name, times)| **times > counted(name));
    more.map(|(name, _)| name.clone())
}
