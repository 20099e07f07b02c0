//! One pulse per second: which second an edge begins, and what its estimator makes of that.
//!
//! An edge says when a second begins, and not which. The engine numbers it by what the servers
//! vouch for, or where they are lost by the published clock, as long as that is known to well under
//! half a second; else, as while a server's word is held off, it is numbered by those before it,
//! and may be whole seconds off (see [`Voice`]). Seconds are counted on the leap-free scale: a leap second is a second like any
//! other.

use std::collections::BTreeMap;

use truechimer_feedforward::{Estimate, Estimator, Exchange, RatePrior};
use truechimer_time::{Count, CountSpan, Instant, Period, Rate, Span, Stamp};

use crate::config::PpsConfig;
use crate::event::{Action, Level, SourceId};
use crate::method::Method;
use crate::report::{Selection, SourceReport};
use crate::source::{Basis, Heard, skew};
use crate::voice::Voice;
use crate::why::Why;

/// Seconds are numbered by a clock that is known better than this.
const NUMBERS: Span = Span::from_millis(400);
/// An edge is missed when it is this late.
const GRACE: Span = Span::from_millis(500);
const SECOND: Span = Span::from_secs(1);
/// So many missed in a row, and the user is told.
const SILENCE: u32 = 4;
/// Without a used edge for this long its word counts as stale: as for a server asked every second.
const PATIENCE: Span = Span::from_secs(6);
/// First and longest wait before it is opened again, s.
const RETRY: (i64, i64) = (2, 64);

/// What numbers the seconds.
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

/// What a pulse does next.
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
    id: SourceId,
    pub(crate) config: PpsConfig,
    selection: Selection,
    basis: Basis,
    estimator: Box<dyn Estimator>,
    plan: Plan,
    retry: i64,
    sequence: Option<u64>,
    last: Option<Last>,
    /// The newest edge was none of a second.
    strays: bool,
    /// The newest second that an edge was taken for.
    second: Option<i64>,
    silence: u32,
    reach: u8,
    edges: u64,
    accepted: u64,
    timeouts: u64,
    refused: BTreeMap<String, u64>,
    trouble: Option<String>,
    weight: Option<f64>,
    why: Option<Why>,
}

/// The last edge that was used.
#[derive(Clone, Copy, Debug)]
struct Last {
    exchange: Exchange,
    stamp: Stamp,
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
        basis.settings.accept_step_after = Span::ZERO;
        Pulse {
            id,
            config,
            selection: Selection::Unusable,
            estimator: basis.estimator(method, 1),
            basis,
            plan: Plan::Open(at),
            retry: RETRY.0,
            sequence: None,
            last: None,
            strays: false,
            second: None,
            silence: 0,
            reach: 0,
            edges: 0,
            accepted: 0,
            timeouts: 0,
            refused: BTreeMap::new(),
            trouble: None,
            weight: None,
            why: None,
        }
    }

    /// Whether `config` is for the same edges, understood in the same way.
    pub(crate) fn is(&self, config: &PpsConfig) -> bool {
        let own = &self.config;
        (&own.path, own.latency, own.offset) == (&config.path, config.latency, config.offset)
    }

    pub(crate) fn set_max_wander(&mut self, max_wander: Rate) {
        self.basis.settings.max_wander = max_wander;
        self.estimator.set_max_wander(max_wander);
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
        self.basis.settings.nominal
    }

    /// Its time has come: what to do.
    pub(crate) fn act(&mut self, at: Count) -> Vec<Action> {
        if !at.at_or_after(self.deadline()) {
            return Vec::new();
        }
        match self.plan {
            Plan::Open(_) => {
                self.plan = Plan::Miss(self.after(at, SECOND + SECOND + GRACE));
                vec![Action::Watch { source: self.id, path: self.config.path.clone() }]
            }
            Plan::Miss(_) => {
                self.plan = Plan::Miss(self.after(at, SECOND));
                self.reach <<= 1;
                self.timeouts = self.timeouts.saturating_add(1);
                self.silence = self.silence.saturating_add(1);
                self.trouble =
                    Some("no edges: receiver without a fix, or wire or driver at fault".into());
                if self.silence != SILENCE {
                    return Vec::new();
                }
                let text = format!("{}: no edge for {SILENCE} seconds", self.config.name);
                vec![Action::Note { level: Level::Warning, text }]
            }
        }
    }

    /// It could not be opened, or is gone: once more, later. Returns the trouble if it is new.
    pub(crate) fn failed(&mut self, error: String, at: Count) -> Option<String> {
        *self.refused.entry("unreadable".into()).or_insert(0) += 1;
        self.plan = Plan::Open(self.after(at, Span::from_secs(self.retry)));
        self.retry = (self.retry * 2).min(RETRY.1);
        let new = self.trouble.as_ref() != Some(&error);
        self.trouble = Some(error);
        self.trouble.clone().filter(|_| new)
    }

    /// An edge came. `clock` numbers its second; a fresh estimator of this method begins with
    /// `rate`.
    pub(crate) fn edge(
        &mut self,
        sequence: u64,
        stamp: Result<Stamp, String>,
        clock: Option<Numbering>,
        (method, rate): (&dyn Method, RatePrior),
        at: Count,
    ) -> Heard {
        if self.sequence.replace(sequence) == Some(sequence) {
            return self.refuse("duplicate", "an edge of the same number as the last".into());
        }
        self.edges = self.edges.saturating_add(1);
        self.retry = RETRY.0;
        self.silence = 0;
        self.plan = Plan::Miss(self.after(at, SECOND + GRACE));
        self.reach <<= 1;
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
        self.strays = off.abs() > allowed;
        if self.strays {
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
        self.last?;
        let Estimate { time, bound, .. } = self.estimator.estimate(at)?;
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
        match self.estimator.estimate(stamp.count).map(|e| e.time - time) {
            Some(apart) if apart.abs() < SECOND.half() => {}
            // Nothing is known yet, or the clock that numbers the seconds has moved by whole ones:
            // which second it is was never the pulse's own word.
            known => {
                let time = if known.is_none() { self.basis.time } else { None };
                self.estimator = Basis { rate, time, ..self.basis }.estimator(method, 1);
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
        match self.estimator.exchange(&exchange) {
            Ok(accepted) => {
                self.last = Some(Last { exchange, stamp });
                self.second = Some(second);
                self.accepted = self.accepted.saturating_add(1);
                self.reach |= 1;
                self.trouble = None;
                Heard::Used(accepted)
            }
            Err(refusal) => match self.refuse(refusal.name(), refusal.to_string()) {
                Heard::Refused(trouble) => Heard::Doubted(trouble),
                heard => heard,
            },
        }
    }

    /// Counts it. The user hears of the 1st, 2nd, 4th, 8th … of each reason: edges come every
    /// second.
    fn refuse(&mut self, name: &str, text: String) -> Heard {
        let times = self.refused.entry(name.into()).or_insert(0);
        *times = times.saturating_add(1);
        let tell = times.is_power_of_two();
        self.trouble = Some(text.clone());
        Heard::Refused(tell.then_some(text))
    }

    /// The counter broke: begin again.
    pub(crate) fn new_epoch(&mut self, at: Count) {
        self.estimator.new_epoch();
        self.basis.time = None;
        (self.last, self.second, self.why, self.strays) = (None, None, None, false);
        self.selection = Selection::Unusable;
        self.plan = match self.plan {
            Plan::Open(_) => Plan::Open(at),
            Plan::Miss(_) => Plan::Miss(self.after(at, SECOND + GRACE)),
        };
    }

    /// The last edge that was used, as an exchange.
    pub(crate) fn last_exchange(&self) -> Option<&Exchange> {
        self.last.as_ref().map(|last| &last.exchange)
    }

    /// What `sources` shows; `published` is the published clock's offset from this source.
    pub(crate) fn report(
        &self,
        at: Count,
        reference: Option<&(Instant, Option<String>)>,
    ) -> SourceReport {
        let estimate = self.estimate(at);
        let estimate = estimate.as_ref();
        let last = self.last.as_ref();
        let error = |stamp: Stamp| self.nominal().span(stamp.error);
        SourceReport {
            name: self.config.name.clone(),
            is_pulse: true,
            address: None,
            selection: self.selection,
            weight: self.weight,
            why: self.why.as_ref().map(Why::to_string),
            holdover: estimate.is_some_and(|e| self.age(e, at) > PATIENCE),
            reach: self.reach,
            poll: 1,
            retry: None,
            last_reply: last.map(|l| self.nominal().span(at - l.stamp.count)),
            stratum: last.map(|_| 0),
            reference: Some("PPS".into()),
            leap: None,
            root_distance: last.map(|_| Span::ZERO),
            rtt: last.map(|_| self.config.latency),
            rtt_floor: estimate.map(|e| e.rtt_floor),
            offset: estimate.zip(reference).map(|(e, (reference, _))| *reference - e.time),
            offset_to: reference.filter(|_| estimate.is_some()).and_then(|(_, name)| name.clone()),
            bound: estimate.map(|e| e.bound),
            deviation: estimate.map(|e| e.deviation),
            skew: estimate.map(|e| skew(e.period, self.nominal())),
            sent_method: None,
            received_method: last.map(|l| l.stamp.method),
            stamp_errors: last.map(|l| (error(l.exchange.sent), error(l.stamp))),
            requests: self.edges,
            accepted: self.accepted,
            timeouts: self.timeouts,
            refused: self.refused.clone(),
            asymmetry: None,
            trouble: self.trouble.clone(),
            doubt: None,
        }
    }
}

impl Voice for Pulse {
    fn id(&self) -> SourceId {
        self.id
    }

    fn name(&self) -> String {
        self.config.name.clone()
    }

    fn is_pulse(&self) -> bool {
        true
    }

    fn selection(&self) -> Selection {
        self.selection
    }

    fn mark(&mut self, selection: Selection) {
        self.selection = selection;
    }

    fn weigh(&mut self, weight: Option<f64>, why: Option<Why>) {
        (self.weight, self.why) = (weight, why);
    }

    fn weight(&self) -> (Option<f64>, Option<&Why>) {
        (self.weight, self.why.as_ref())
    }

    fn accuse(&mut self, _yes: bool) {}

    fn is_accused(&self) -> bool {
        false
    }

    fn root_distance(&self) -> Span {
        Span::ZERO
    }

    fn was_part(&self) -> bool {
        self.weight.is_some()
    }

    fn strays(&self) -> bool {
        self.strays
    }

    fn doubted(&self, _at: Count) -> Option<(Instant, Instant)> {
        None
    }

    fn torn(&self, _at: Count) -> Option<[(Instant, Instant); 2]> {
        None
    }

    fn held(&self, at: Count) -> Option<(Instant, Instant)> {
        self.estimator.doubt(at).map(|doubt| doubt.held)
    }

    fn estimate(&self, at: Count) -> Option<Estimate> {
        self.estimator.estimate(at)
    }

    fn patience(&self) -> Span {
        PATIENCE
    }

    fn estimator(&self) -> &dyn Estimator {
        self.estimator.as_ref()
    }

    fn used(&self) -> u64 {
        self.accepted
    }
}
