//! One pulse per second: which second an edge begins, and what its estimator makes of that.
//!
//! An edge says when a second begins, and not which. The engine numbers it by what the servers
//! vouch for, or where they are lost by the published clock, as long as that is known to well under
//! half a second; else, as while a server is held off, it is numbered by those before it, and may be
//! whole seconds off (see `selection.rs`). Seconds are counted on the leap-free scale: a leap second
//! is a second like any other.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use truechimer_feedforward::{Estimate, Exchange, RatePrior, TimePrior};
use truechimer_time::{Count, CountSpan, Instant, Period, Span, Stamp};

use crate::cause::Cause;
use crate::config::PpsConfig;
use crate::event::{Action, Level, SourceId};
use crate::method::{Beginning, Method};
use crate::peer::{Filter, Peer, Sample};
use crate::report::SourceReport;
use crate::source::{Basis, Heard};

/// Seconds are numbered by a clock that is known better than this.
const NUMBERS: Span = Span::from_millis(400);
/// An edge is missed when it is this late.
const GRACE: Span = Span::from_millis(500);
const SECOND: Span = Span::from_secs(1);
/// Edges missed in a row before the user is told.
const SILENCE: u32 = 4;
/// Seconds between edges.
const POLL: u32 = 1;
/// First and longest wait before it is opened again, s.
const RETRY: (i64, i64) = (2, 64);

/// Clock that numbers the seconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Numbering {
    /// The time at the edge.
    pub(crate) time: Instant,
    /// Bound of its error.
    pub(crate) bound: Span,
}

impl Numbering {
    /// Whether it tells one second from the next.
    pub(crate) fn is_enough(&self) -> bool {
        self.bound < NUMBERS
    }
}

/// Next thing that a pulse does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Plan {
    /// Have it opened at that count.
    Open(Count),
    /// Miss an edge at that count.
    Miss(Count),
}

/// A pulse.
#[derive(Debug)]
pub(crate) struct Pulse {
    pub(crate) config: PpsConfig,
    pub(crate) peer: Peer,
    /// Prior of time before the first edge.
    prior: Option<TimePrior>,
    plan: Plan,
    /// How long to wait before it is opened again, s.
    retry: i64,
    /// The number of the newest edge.
    sequence: Option<u64>,
    /// The newest second that an edge was taken for.
    second: Option<i64>,
    /// Edges missed in a row.
    silence: u32,
}

impl Pulse {
    pub(crate) fn new(
        id: SourceId,
        config: PpsConfig,
        method: &dyn Method,
        mut basis: Basis,
        at: Count,
    ) -> Pulse {
        // Within what the servers vouch for it is believed anyway, beyond that it never is.
        (basis.settings.accept_step_after, basis.settings.pulse) = (Span::ZERO, true);
        let Basis { settings, rate, time, .. } = basis;
        let filter = Filter::new(method, &Beginning { settings, rate, time, poll: POLL });
        Pulse {
            peer: Peer::new(id, config.name.clone(), true, filter),
            config,
            prior: time,
            plan: Plan::Open(at),
            retry: RETRY.0,
            sequence: None,
            second: None,
            silence: 0,
        }
    }

    /// Whether `config` is for the same edges, understood in the same way.
    pub(crate) fn is(&self, config: &PpsConfig) -> bool {
        let own = &self.config;
        (&own.path, own.latency, own.offset) == (&config.path, config.latency, config.offset)
    }

    /// Takes over another configuration of the same edges.
    pub(crate) fn reconfigure(&mut self, config: PpsConfig) {
        self.peer.name.clone_from(&config.name);
        self.config = config;
    }

    /// When it wants to act next.
    pub(crate) fn deadline(&self) -> Count {
        match self.plan {
            Plan::Open(at) | Plan::Miss(at) => at,
        }
    }

    fn after(&self, at: Count, span: Span) -> Count {
        at + self.nominal().counts(span)
    }

    fn nominal(&self) -> Period {
        self.peer.filter.nominal()
    }

    /// If its time has come, says what to do.
    pub(crate) fn act(&mut self, at: Count, actions: &mut Vec<Action>) {
        if !at.at_or_after(self.deadline()) {
            return;
        }
        match self.plan {
            Plan::Open(_) => {
                self.plan = Plan::Miss(self.after(at, SECOND + SECOND + GRACE));
                let path = self.config.path.clone();
                actions.push(Action::Watch { source: self.peer.id, path });
            }
            Plan::Miss(_) => {
                self.plan = Plan::Miss(self.after(at, SECOND));
                self.peer.tally.poll();
                self.peer.tally.miss();
                self.silence = self.silence.saturating_add(1);
                self.peer.trouble =
                    Some("no edges: receiver without a fix, or wire or driver at fault".into());
                if self.silence == SILENCE {
                    let text = format!("{}: no edge for {SILENCE} seconds", self.config.name);
                    actions.push(Action::Note { level: Level::Warning, text });
                }
            }
        }
    }

    /// Tries once more, later: it could not be opened, or is gone. Returns the trouble if it is
    /// new.
    pub(crate) fn failed(&mut self, error: String, at: Count) -> Option<String> {
        self.peer.tally.refuse("unreadable");
        self.plan = Plan::Open(self.after(at, Span::from_secs(self.retry)));
        self.retry = (self.retry * 2).min(RETRY.1);
        self.peer.note_trouble(error)
    }

    /// An edge came. `clock` numbers its second; a fresh estimator of this method begins with
    /// `rate`.
    pub(crate) fn edge(
        &mut self,
        sequence: u64,
        stamp: Result<Stamp, &str>,
        clock: Option<Numbering>,
        (method, rate): (&dyn Method, RatePrior),
        at: Count,
    ) -> Heard {
        if self.sequence.replace(sequence) == Some(sequence) {
            return self.refuse("duplicate", "an edge of the same number as the last".into());
        }
        self.peer.tally.requests = self.peer.tally.requests.saturating_add(1);
        self.retry = RETRY.0;
        self.silence = 0;
        self.plan = Plan::Miss(self.after(at, SECOND + GRACE));
        self.peer.tally.poll();
        if !method.takes_pulses() {
            let text = format!("the estimator '{}' takes no pulses", method.name());
            return self.refuse("estimator", text);
        }
        let stamp = match stamp {
            Ok(stamp) => stamp,
            Err(why) => return self.refuse("no-stamp", format!("an edge without a count: {why}")),
        };
        let by_others = clock.filter(Numbering::is_enough);
        let Some(clock) = by_others.or_else(|| self.numbers_itself(stamp.count)) else {
            let text = "no clock is known well enough to say which second an edge begins";
            return self.refuse("no-second", text.into());
        };
        let (second, off) = self.second_of(&clock);
        let error = self.nominal().span(stamp.error).abs();
        let allowed = clock.bound + self.config.latency.half() + error;
        self.peer.strays = off.abs() > allowed;
        if self.peer.strays {
            let text = format!("the edge is {off:+} off the second, which is known to {allowed}");
            return self.refuse("off-second", text);
        }
        if self.second == Some(second) {
            return self.refuse("duplicate", "two edges in a second".into());
        }
        self.use_edge(stamp, second, (method, rate))
    }

    /// The time by the edges before, if there were any.
    fn numbers_itself(&self, at: Count) -> Option<Numbering> {
        self.peer.filter.last?;
        let Estimate { time, bound, .. } = self.peer.estimate(at)?;
        Some(Numbering { time, bound }).filter(Numbering::is_enough)
    }

    /// Which second begins at an edge, and how far the clock has the edge after it; both stamps of
    /// the clock's time are at the end of the time that the edge may have happened in.
    fn second_of(&self, clock: &Numbering) -> (i64, Span) {
        let edge = clock.time - self.config.latency.half() - self.config.offset;
        let second = (edge + Span::from_millis(500)).secs();
        (second, edge - Instant::new(second, 0))
    }

    fn use_edge(
        &mut self,
        stamp: Stamp,
        second: i64,
        (method, rate): (&dyn Method, RatePrior),
    ) -> Heard {
        let time = Instant::new(second, 0) + self.config.offset;
        match self.peer.filter.time(stamp.count).map(|known| known - time) {
            Some(apart) if apart.abs() < SECOND.half() => {}
            // Nothing is known yet, or the clock that numbers the seconds has moved by whole ones:
            // which second it is was never the pulse's own word.
            known => {
                let prior = if known.is_none() { self.prior } else { None };
                self.peer.filter.restart(method, rate, prior);
            }
        }
        let latency = self.nominal().counts(self.config.latency).0.max(1);
        let exchange = Exchange {
            sent: Stamp { count: stamp.count - CountSpan(latency), ..stamp },
            server_received: time,
            server_sent: time,
            received: stamp,
            root_distance: Span::ZERO,
        };
        match self.peer.filter.exchange(&exchange) {
            Ok(accepted) => {
                let sample = Sample { exchange, reply: None, rtt: None, smear: Span::ZERO };
                self.peer.filter.keep(sample, true);
                self.second = Some(second);
                self.peer.tally.accept();
                self.peer.tally.reach |= 1;
                self.peer.trouble = None;
                Heard::Used(accepted)
            }
            Err(refusal) => match self.refuse(refusal.name(), refusal.to_string()) {
                Heard::Refused(trouble) => Heard::Rejected(trouble),
                heard => heard,
            },
        }
    }

    /// Counts it. The user hears of the 1st, 2nd, 4th, 8th … of each reason: edges come every
    /// second.
    fn refuse(&mut self, name: &'static str, text: String) -> Heard {
        let tell = self.peer.tally.refuse(name).is_power_of_two();
        self.peer.trouble = Some(text.clone().into());
        Heard::Refused(tell.then_some(text))
    }

    /// The counter broke: begin again.
    pub(crate) fn new_epoch(&mut self, at: Count) {
        self.peer.new_epoch();
        (self.prior, self.second) = (None, None);
        self.plan = match self.plan {
            Plan::Open(_) => Plan::Open(at),
            Plan::Miss(_) => Plan::Miss(self.after(at, SECOND + GRACE)),
        };
    }

    /// Why no edge that could be used has come, as far as that is known.
    pub(crate) fn unreachable(&self) -> Option<Cause> {
        (self.silence > 0).then_some(Cause::NoReply)
    }

    /// Row in `sources`; `reference` is what its offset is shown against.
    pub(crate) fn report(
        &self,
        at: Count,
        reference: Option<&(Instant, Option<String>)>,
    ) -> SourceReport {
        let last = self.peer.filter.last.as_ref();
        SourceReport {
            stratum: last.map(|_| 0),
            reference: Some("PPS".into()),
            root_distance: last.map(|_| Span::ZERO),
            rtt: last.map(|_| self.config.latency),
            ..self.peer.report(at, reference)
        }
    }
}
