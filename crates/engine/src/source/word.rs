//! What the server says by now: its vote, and its row in `sources`.

use truechimer_feedforward::{Estimate, Estimator};
use truechimer_ntp::Reply;
use truechimer_time::{Count, Instant, Span, Utc};

use super::{Last, Source, skew};
use crate::doubt;
use crate::event::SourceId;
use crate::report::{Selection, SourceReport};
use crate::voice::Voice;
use crate::why::Why;

impl Voice for Source {
    fn id(&self) -> SourceId {
        self.id
    }

    fn name(&self) -> String {
        self.config.name()
    }

    fn is_pulse(&self) -> bool {
        false
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

    fn accuse(&mut self, yes: bool) {
        self.accused = yes;
    }

    fn is_accused(&self) -> bool {
        self.accused
    }

    fn root_distance(&self) -> Span {
        self.last.map_or(Span::ZERO, |last| last.exchange.root_distance)
    }

    fn rtt(&self) -> Option<Span> {
        self.last.map(|last| last.rtt)
    }

    fn lean_bound(&self, estimate: &Estimate) -> Span {
        let most = estimate.path_bound.min(estimate.bound);
        match self.last {
            // The doubt is about a smear, and passes.
            Some(last) if last.smear > Span::ZERO => {
                most.min(estimate.rtt_floor.half() + last.exchange.root_distance)
            }
            _ => most,
        }
    }

    fn was_part(&self) -> bool {
        self.weight.is_some()
    }

    fn is_proven(&self) -> bool {
        self.last.is_some()
    }

    fn doubted(&self, at: Count) -> Option<(Instant, Instant)> {
        self.doubt(at).map(|doubt| doubt.newcomers)
    }

    fn torn(&self, at: Count) -> Option<[(Instant, Instant); 2]> {
        // What moves on by another rate is nowhere for long.
        self.doubt(at).filter(|doubt| doubt.steady).map(|doubt| [doubt.held, doubt.newcomers])
    }

    fn held(&self, at: Count) -> Option<(Instant, Instant)> {
        self.doubt(at).map(|doubt| doubt.held)
    }

    fn estimate(&self, at: Count) -> Option<Estimate> {
        self.estimator.estimate(at)
    }

    fn patience(&self) -> Span {
        Span::from_secs(i64::from(self.steady_interval()) * 4 + 2)
    }

    fn estimator(&self) -> &dyn Estimator {
        self.estimator.as_ref()
    }

    fn used(&self) -> u64 {
        self.accepted
    }
}

impl Source {
    /// Whether the time that was published last is its, or in part.
    pub(crate) fn is_part(&self) -> bool {
        matches!(self.selection, Selection::Combined | Selection::Selected)
    }

    /// Its last reply that was used.
    pub(crate) fn reply(&self) -> Option<Reply> {
        self.last.map(|last| last.reply)
    }

    /// Its stratum, by its newest reply.
    pub(crate) fn stratum(&self) -> Option<u8> {
        self.newest.map(|newest| newest.reply.stratum)
    }

    /// Whether its last usable reply is fresh.
    pub(crate) fn is_heard(&self, at: Count) -> bool {
        let age = |last: Last| self.nominal.span(at - last.exchange.received.count);
        self.last.is_some_and(|last| age(last) <= self.patience())
    }

    /// For how long nothing was heard from it, if that is longer than `most`, and than its
    /// patience. Whoever is held off is heard.
    pub(crate) fn is_silent_for(&self, at: Count, most: Span) -> Option<Span> {
        self.estimate(at)?;
        let age = self.nominal.span(at - self.newest?.exchange.received.count);
        (self.is_proven() && age > most.max(self.patience())).then_some(age)
    }

    /// Where it puts the time, and the bound of that: by what it says now, if that is held off.
    pub(crate) fn says(&self, at: Count, estimate: &Estimate) -> (Instant, Span) {
        let newest = self.doubt(at).map(|doubt| doubt.newcomers);
        newest.map_or((estimate.time, estimate.bound), |(from, to)| {
            let half = (to - from).half();
            (from + half, half)
        })
    }

    /// Where it puts the time, from and to, by what it says now.
    pub(crate) fn says_between(&self, at: Count) -> Option<(Instant, Instant)> {
        let estimate = self.estimate(at).filter(|_| self.newest.is_some())?;
        let (time, bound) = self.says(at, &estimate);
        Some((time - bound, time + bound))
    }

    /// Whether the clock does not go where it is.
    pub(crate) fn is_held(&self) -> bool {
        matches!(self.why, Some(Why::Held(_)))
    }

    /// What `sources` shows, when it is `utc` by the published clock; `reference` is what its
    /// offset is shown against, and the name of that if it is not the published clock.
    pub(crate) fn report(
        &self,
        at: Count,
        utc: Option<Utc>,
        reference: Option<&(Instant, Option<String>)>,
    ) -> SourceReport {
        let estimate = self.estimate(at);
        let estimate = estimate.as_ref();
        let says = estimate.map(|e| self.says(at, e));
        let last = self.newest.as_ref();
        let reply = last.map(|l| l.reply);
        let moved = || self.doubt(at).map(|doubt| doubt::in_short(&doubt));
        let mut refused = self.refused.clone();
        if let Some(association) = &self.association {
            refused.extend(association.refused().iter().map(|(name, n)| (name.to_owned(), n)));
        }
        SourceReport {
            name: self.name(),
            is_pulse: false,
            address: self.address(),
            selection: self.selection,
            weight: self.weight,
            why: moved().or_else(|| self.why.as_ref().map(Why::to_string)),
            holdover: estimate.is_some_and(|e| self.age(e, at) > self.patience()),
            reach: self.reach,
            poll: self.interval(),
            retry: self.retry().map(|due| self.nominal.span(due - at).max(Span::ZERO)),
            last_reply: last.map(|l| self.nominal.span(at - l.exchange.received.count)),
            stratum: reply.map(|r| r.stratum),
            reference: reply.map(|r| r.reference_id.text(r.stratum).to_string()),
            leap: reply.map(|r| r.leap as u8),
            root_distance: reply.map(|r| r.root_distance()),
            rtt: last.map(|l| l.rtt),
            rtt_floor: estimate.filter(|_| self.is_proven()).map(|e| e.rtt_floor),
            offset: says.zip(reference).map(|(says, (reference, _))| *reference - says.0),
            offset_to: reference.filter(|_| says.is_some()).and_then(|(_, name)| name.clone()),
            bound: says.map(|says| says.1),
            deviation: estimate.map(|e| e.deviation),
            skew: estimate.map(|e| skew(e.period, self.nominal)),
            sent_method: last.map(|l| l.exchange.sent.method),
            received_method: last.map(|l| l.exchange.received.method),
            stamp_errors: last
                .map(|l| [l.exchange.sent, l.exchange.received].map(|s| self.nominal.span(s.error)))
                .map(|[sent, received]| (sent, received)),
            requests: self.requests,
            accepted: self.accepted,
            timeouts: self.timeouts,
            refused,
            asymmetry: self.asymmetry,
            trouble: self.trouble(at, utc),
            doubt: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::SourceConfig;
    use crate::method::Standard;
    use crate::source::Basis;
    use truechimer_feedforward::{RatePrior, Settings};
    use truechimer_time::{CountSpan, Period, Rate};

    fn at(seconds: u64) -> Count {
        Count(seconds * 1_000_000_000)
    }

    /// What a source knows from an earlier daemon only is never fresh.
    #[test]
    fn one_that_has_said_nothing_itself_is_not_fresh() {
        let (period, error) = (Period::NANOSECOND, Rate::from_ppb(500_000));
        let settings = Settings {
            nominal: period,
            resolution: CountSpan(1),
            max_wander: Rate::from_ppb(500),
            accept_step_after: Span::from_secs(3600),
            asymmetry: None,
        };
        let basis = Basis { settings, rate: RatePrior { period, error }, time: None, own: false };
        let (id, config) = (SourceId(1), SourceConfig::new("s1"));
        let source = Source::new(id, config, &Standard, &basis, true, at(0));
        let estimate = Estimate {
            base: at(100),
            time: Instant::default(),
            period,
            difference: period,
            difference_error: error,
            difference_deviation: error,
            bound: Span::ZERO,
            path_bound: Span::ZERO,
            growth: error,
            deviation: Span::ZERO,
            rtt_floor: Span::ZERO,
            last_used: at(99),
        };
        assert!(!source.is_proven() && source.left(&estimate, at(100)).is_negative());
        assert!(source.patience() > source.age(&estimate, at(100)), "it would be fresh");
    }
}
