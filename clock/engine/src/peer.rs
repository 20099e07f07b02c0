//! A source of time as selection sees it: what servers and reference clocks have in common.

mod filter;
mod trust;

use alloc::borrow::{Cow, ToOwned};
use alloc::collections::BTreeMap;
use alloc::string::String;

use truechimer_feedforward::{Accepted, Estimate};
use truechimer_time::{Count, Instant, Rate, Span};

use crate::event::SourceId;
use crate::report::{SourceKind, SourceReport};

use filter::skew;
/// Newest samples that contradict what was known by a source, and are held off.
pub(crate) use truechimer_feedforward::Doubt as HoldOff;

pub(crate) use filter::{Filter, Sample, declared};
pub(crate) use trust::Trust;

/// Two ends of an interval of time, the earlier one first.
pub(crate) type Interval = (Instant, Instant);

/// Part that a source may have in finding out what time it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Role {
    /// Has a vote: truth lies where a majority of those agrees.
    Votes,
    /// Has none, and is believed within what the others vouch for, which it narrows.
    Narrows,
    /// Has none. Within what the others vouch for it may have a part in where the time stands; the
    /// bound is theirs.
    Fenced,
    /// Is asked and shown.
    Watched,
}

/// A server or a reference clock: its filter, how far it is believed, and what was counted of it.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) id: SourceId,
    /// Name that the user knows.
    pub(crate) name: String,
    pub(crate) kind: SourceKind,
    pub(crate) role: Role,
    /// The user prefers it to the others.
    pub(crate) preferred: bool,
    /// The user wants no time without it, or another such source.
    pub(crate) required: bool,
    /// Part of its bound that is its own error, of a reference clock; of a pulse what the user says beside its
    /// latency. A server's is its root distance.
    pub(crate) own_error: Span,
    /// Others say which second its samples are of.
    pub(crate) is_numbered: bool,
    pub(crate) filter: Filter,
    pub(crate) trust: Trust,
    pub(crate) tally: Tally,
    /// The newest trouble with it, for people.
    pub(crate) trouble: Option<Cow<'static, str>>,
    /// True if the newest sample of a reference clock was not where others vouch for.
    pub(crate) strays: bool,
}

/// Counts of a source since the start.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// The last eight polls or seconds, newest in the lowest bit: 1 = a sample that was used, or is
    /// held off.
    pub(crate) reach: u8,
    /// Polls that `reach` tells of: eight, or as many as there have been.
    pub(crate) polls: u8,
    /// Requests sent, or samples seen.
    pub(crate) requests: u64,
    /// Samples that were used.
    pub(crate) accepted: u64,
    /// Requests without a reply, or samples missed.
    pub(crate) timeouts: u64,
    /// Refusals by reason; those of the protocol are in the association.
    pub(crate) refused: BTreeMap<&'static str, u64>,
}

impl Tally {
    /// Counts a refusal; returns how many there were of this reason.
    pub(crate) fn refuse(&mut self, reason: &'static str) -> u64 {
        let times = self.refused.entry(reason).or_insert(0);
        *times = times.saturating_add(1);
        *times
    }

    /// Counts a request or second that has yet to bring a sample.
    pub(crate) fn poll(&mut self) {
        self.reach <<= 1;
        self.polls = (self.polls + 1).min(8);
    }

    /// Counts a request that is about to be sent.
    pub(crate) fn request(&mut self) {
        self.requests = self.requests.saturating_add(1);
        self.poll();
    }

    /// The request that was counted last was not sent: a poll that brings nothing.
    pub(crate) fn unsent(&mut self) {
        self.requests = self.requests.saturating_sub(1);
    }

    /// Counts a poll that brought nothing.
    pub(crate) fn miss(&mut self) {
        self.timeouts = self.timeouts.saturating_add(1);
    }
}

impl Peer {
    /// A source that nothing has come from yet.
    pub(crate) fn new(
        id: SourceId,
        name: String,
        kind: SourceKind,
        role: Role,
        filter: Filter,
    ) -> Peer {
        Peer {
            id,
            name,
            kind,
            role,
            preferred: false,
            required: false,
            own_error: Span::ZERO,
            is_numbered: false,
            filter,
            trust: Trust::default(),
            tally: Tally::default(),
            trouble: None,
            strays: false,
        }
    }

    /// Estimate of its filter at `at`, if any.
    pub(crate) fn estimate(&self, at: Count) -> Option<Estimate> {
        let estimate = self.filter.estimate(at)?;
        let path_bound = estimate.path_bound + self.own_error;
        let path_bound = if self.own_error == Span::ZERO {
            estimate.path_bound
        } else {
            path_bound.min(estimate.bound)
        };
        Some(Estimate { path_bound, ..estimate })
    }

    /// Hold-off of its newest samples, if they contradict what was known by it.
    pub(crate) fn hold_off(&self, at: Count) -> Option<HoldOff> {
        let hold_off = self.filter.hold_off(at)?;
        let left = self.trust.vouched.map(|then| self.filter.span(then - at).max(Span::ZERO));
        Some(HoldOff { left: left.unwrap_or(hold_off.left).min(hold_off.left), ..hold_off })
    }

    /// True if its samples say how far it is likely to be off. Those of a reference clock do not:
    /// its own error may be the same in all of them.
    pub(crate) fn has_statistics(&self) -> bool {
        match self.kind {
            SourceKind::Server | SourceKind::Ptp => true,
            SourceKind::Pulse => self.own_error == Span::ZERO,
            _ => false,
        }
    }

    /// True if truth lies where a majority of its like agrees.
    pub(crate) fn votes(&self) -> bool {
        self.role == Role::Votes
    }

    /// True if it narrows what those leave open.
    pub(crate) fn narrows(&self) -> bool {
        self.role == Role::Narrows
    }

    /// True if it is believed within that, and leaves it as it is.
    pub(crate) fn is_fenced(&self) -> bool {
        self.role == Role::Fenced
    }

    /// Where its newest samples put the time while they are held off. Those of a source without a
    /// vote count for nothing until they are used.
    pub(crate) fn newest(&self, at: Count) -> Option<Interval> {
        self.hold_off(at).filter(|_| !self.narrows()).map(|hold_off| hold_off.newcomers)
    }

    /// Where what its newest samples contradict puts the time, while they are held off.
    pub(crate) fn known(&self, at: Count) -> Option<Interval> {
        self.filter.hold_off(at).map(|hold_off| hold_off.held)
    }

    /// Where it put the time before its time stepped and where it does now, while that is held off.
    /// What moves on by another rate is nowhere for long.
    pub(crate) fn before_and_after(&self, at: Count) -> Option<[Interval; 2]> {
        let hold_off = self.hold_off(at).filter(|hold_off| hold_off.steady && !self.narrows())?;
        Some([hold_off.open, hold_off.newcomers])
    }

    /// Where it puts the time, and the bound of that: by its newest samples, if they are held off.
    pub(crate) fn says(&self, at: Count, estimate: &Estimate) -> (Instant, Span) {
        self.newest(at).map_or((estimate.time, estimate.bound), |(from, to)| {
            let half = (to - from).half();
            (from + half, half)
        })
    }

    /// Where it puts the time by its newest samples, if any came in this epoch.
    pub(crate) fn says_between(&self, at: Count) -> Option<Interval> {
        let estimate = self.estimate(at).filter(|_| self.filter.newest.is_some())?;
        let (time, bound) = self.says(at, &estimate);
        Some((time - bound, time + bound))
    }

    /// True if any sample of it was used, since the start or since the counter broke.
    pub(crate) fn is_proven(&self) -> bool {
        self.narrows() || self.filter.last.is_some()
    }

    /// Span for which it stays fresh without another sample; not positive: it is stale.
    pub(crate) fn left(&self, estimate: &Estimate, at: Count) -> Span {
        let left = self.filter.reach_timeout() - self.age(estimate, at);
        // What an earlier daemon left is no sample of its own, however fresh.
        if self.is_proven() { left } else { left.min(Span(-1)) }
    }

    /// Span since the newest sample came that was used.
    pub(crate) fn age(&self, estimate: &Estimate, at: Count) -> Span {
        estimate.period.span(at - estimate.heard)
    }

    /// True if what it says is worked out from samples that are too old.
    pub(crate) fn is_stale(&self, estimate: &Estimate, at: Count) -> bool {
        self.age(estimate, at) > self.filter.reach_timeout()
    }

    /// Others vouch for its newest samples: they are used from now on.
    pub(crate) fn believe(&mut self) -> Option<Accepted> {
        let accepted = self.filter.estimator.believe()?;
        (self.trouble, self.trust.foreign_start) = (None, false);
        self.filter.last = self.filter.newest;
        Some(accepted)
    }

    /// True if it contradicts the time that its filter began with, and that is not known to have
    /// been its own.
    pub(crate) fn is_misrepresented(&self, at: Count) -> bool {
        self.trust.foreign_start && self.filter.last.is_none() && self.hold_off(at).is_some()
    }

    /// A sample came that could be understood: it is held off, if not more.
    pub(crate) fn heard(&mut self, sample: Sample) {
        self.filter.newest = Some(sample);
        self.tally.reach |= 1;
    }

    /// A sample was used.
    pub(crate) fn used(&mut self, sample: Sample) {
        self.heard(sample);
        self.filter.last = Some(sample);
        self.tally.accepted = self.tally.accepted.saturating_add(1);
        self.trouble = None;
    }

    /// Takes note of a trouble; returns it if it is new.
    pub(crate) fn note_trouble(&mut self, trouble: String) -> Option<String> {
        let new = self.trouble.as_deref() != Some(&*trouble);
        self.trouble = Some(trouble.clone().into());
        new.then_some(trouble)
    }

    /// The counter broke: nothing that was known or said before counts.
    pub(crate) fn new_epoch(&mut self) {
        self.filter.new_epoch();
        self.trust.new_epoch();
        self.strays = false;
    }

    /// The skew of the counter by it.
    pub(crate) fn skew(&self, estimate: &Estimate) -> Rate {
        skew(estimate.period, self.filter.nominal())
    }

    /// Row of any source in `sources`; `reference` is what its offset is shown against, and the
    /// name of that if it is not the published clock.
    pub(crate) fn report(
        &self,
        at: Count,
        reference: Option<&(Instant, Option<String>)>,
    ) -> SourceReport {
        let estimate = self.estimate(at);
        let estimate = estimate.as_ref();
        let says = estimate.map(|e| self.says(at, e));
        let newest = self.filter.newest.as_ref().map(|newest| &newest.exchange);
        SourceReport {
            status: self.trust.status(),
            weight: self.trust.weight(),
            holdover: estimate.is_some_and(|e| self.is_stale(e, at)),
            vote: self.votes(),
            reach: self.tally.reach,
            polls: self.tally.polls,
            poll: self.filter.poll(),
            last_reply: newest.map(|exchange| self.filter.span(at - exchange.received.count)),
            rtt_floor: estimate.filter(|_| self.is_proven()).map(|e| e.rtt_floor),
            offset: says.zip(reference).map(|(says, (reference, _))| *reference - says.0),
            offset_to: reference.filter(|_| says.is_some()).and_then(|(_, name)| name.clone()),
            bound: says.map(|says| says.1),
            deviation: estimate.map(|e| e.deviation),
            skew: estimate.map(|e| self.skew(e)),
            received_method: newest.map(|exchange| exchange.received.method),
            stamp_errors: newest.map(|exchange| {
                (self.filter.span(exchange.sent.error), self.filter.span(exchange.received.error))
            }),
            requests: self.tally.requests,
            accepted: self.tally.accepted,
            timeouts: self.tally.timeouts,
            refused: self.tally.refused.iter().map(|(why, n)| ((*why).to_owned(), *n)).collect(),
            trouble: self.trouble.clone().map(Cow::into_owned),
            ..SourceReport::new(self.name.clone(), self.kind)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::method::{Beginning, Standard};
    use truechimer_feedforward::{RatePrior, Settings, Spread};
    use truechimer_time::{CountSpan, Period};

    /// Knowledge from an earlier daemon only never makes a source fresh.
    #[test]
    fn one_that_has_said_nothing_itself_is_not_fresh() {
        let (period, error) = (Period::NANOSECOND, Rate::from_ppb(500_000));
        let at = |seconds: u64| Count(seconds * 1_000_000_000);
        let settings = Settings {
            nominal: period,
            resolution: CountSpan(1),
            max_wander: Rate::from_ppb(500),
            accept_step_after: Span::from_secs(3600),
            asymmetry: None,
            pulse: false,
        };
        let rate = RatePrior { period, error };
        let beginning = Beginning { settings, rate, time: None, poll: 16 };
        let filter = Filter::new(&Standard, &beginning);
        let peer = Peer::new(SourceId(1), "s1".into(), SourceKind::Server, Role::Votes, filter);
        let estimate = Estimate {
            base: at(100),
            time: Instant::default(),
            period,
            difference: period,
            difference_error: error,
            difference_deviation: error,
            bound: Span::ZERO,
            imbalance: Span::ZERO,
            path_bound: Span::ZERO,
            growth: error,
            deviation: Span::ZERO,
            rtt_floor: Span::ZERO,
            spread: Spread::default(),
            last_used: at(99),
            heard: at(99),
        };
        assert!(!peer.is_proven() && peer.left(&estimate, at(100)).is_negative());
        assert!(peer.filter.reach_timeout() > peer.age(&estimate, at(100)), "it would be fresh");
    }
}
