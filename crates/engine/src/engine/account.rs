//! What the engine can say of itself: for `sources` and `status`, and for the next start.

use truechimer_feedforward::{Doubt, Estimate, Exchange};
use truechimer_time::{Count, Span};
use truechimer_timehands::Status;

use super::{Engine, WORTH_SAVING};
use crate::doubt;
use crate::doubt::Held;
use crate::event::{Saved, SourceId};
use crate::report::{Doubted, Report, Selection, SourceReport};
use crate::source::{Source, skew};
use crate::voice::Voice;

impl Engine {
    /// What the engine knows, for `sources` and `status`.
    #[must_use]
    pub fn report(&self, now: Count) -> Report {
        let ours = self.hand.time_at(now);
        let known = self.hand.status != Status::Unknown;
        let measured = self.selected().and_then(|voice| voice.estimate(now));
        let offset = |e: &Option<Estimate>| e.as_ref().filter(|_| known).map(|e| ours - e.time);
        let servers = self.sources.iter().map(|source| {
            let estimate = source.estimate(now);
            let doubt = self.doubted(source, source.doubt(now).as_ref(), now);
            let report = source.report(now, estimate.as_ref(), offset(&estimate));
            SourceReport { doubt, ..report }
        });
        let pulses = self.pulses.iter().map(|pulse| {
            let estimate = pulse.estimate(now);
            let report = pulse.report(now, estimate.as_ref(), offset(&estimate));
            SourceReport { doubt: self.doubted(pulse, None, now), ..report }
        });
        Report {
            at: now,
            hand: Some(self.hand),
            skew: measured.map(|e| skew(e.period, self.settings.nominal)),
            reason: self.reason(now),
            sources: servers.chain(pulses).collect(),
        }
    }

    /// Why the clock does not go along with a source, if so.
    fn doubted(&self, voice: &dyn Voice, doubt: Option<&Doubt>, now: Count) -> Option<Doubted> {
        let ago = |since: Count| self.settings.nominal.span(now - since).max(Span::ZERO);
        let (_, why) = voice.weight();
        let since = || self.bulletin.since(voice.id().0).map_or(Span::ZERO, ago);
        let by_its_part = || why.map(|why| Doubted::of(why, since()));
        doubt.map(|doubt| Doubted::held(doubt, ago(doubt.since))).or_else(by_its_part)
    }

    /// Why the status is what it is: above all that the source it rests on is in doubt.
    fn reason(&self, now: Count) -> String {
        let selected = self.sources.iter().find(|s| s.selection == Selection::Selected);
        let doubted = selected.and_then(|source| Some((source, source.doubt(now)?)));
        doubted.map_or_else(
            || self.reason.clone(),
            |(source, doubt)| {
                let told = doubt::told(&doubt, now, self.settings.nominal);
                format!("holding the time against {}: {told}", source.name())
            },
        )
    }

    /// What the engine knows of one source, if there is such a one.
    #[must_use]
    pub fn source_report(&self, id: SourceId, now: Count) -> Option<SourceReport> {
        let estimate = self.voices().find(|voice| voice.id() == id)?.estimate(now);
        let known = self.hand.status != Status::Unknown;
        let offset = estimate.filter(|_| known).map(|e| self.hand.time_at(now) - e.time);
        let server = self.sources.iter().find(|s| s.id == id);
        let pulse = self.pulses.iter().find(|p| p.id() == id);
        let (report, doubt) = match (server, pulse) {
            (Some(server), _) => {
                let doubt = self.doubted(server, server.doubt(now).as_ref(), now);
                (server.report(now, estimate.as_ref(), offset), doubt)
            }
            (None, pulse) => {
                let pulse = pulse?;
                (pulse.report(now, estimate.as_ref(), offset), self.doubted(pulse, None, now))
            }
        };
        Some(SourceReport { doubt, ..report })
    }

    /// The last exchange with this source that was used.
    #[must_use]
    pub fn last_exchange(&self, id: SourceId) -> Option<&Exchange> {
        let pulse = self.pulses.iter().find(|p| p.id() == id);
        let server = self.sources.iter().find(|s| s.id == id);
        server.map_or_else(|| pulse?.last_exchange(), Source::last_exchange)
    }

    /// What it holds against servers whose time has moved by more than it may.
    #[must_use]
    pub fn held(&self, now: Count) -> Vec<Held> {
        let held = |source: &Source| {
            let (estimate, doubt) = (source.estimate(now)?, source.doubt(now)?);
            Some(Held::new(source.name(), self.counter, now, &estimate, &doubt))
        };
        self.sources.iter().filter_map(held).collect()
    }

    /// What is worth keeping across boots, if anything is.
    #[must_use]
    pub fn saved(&self, now: Count) -> Option<Saved> {
        let estimate = self.selected()?.estimate(now)?;
        (estimate.difference_error <= WORTH_SAVING).then(|| Saved {
            counter: self.counter.kind.name().to_owned(),
            nominal: self.settings.nominal,
            period: estimate.difference,
            error: estimate.difference_error,
            unix: self.leaps.utc(estimate.time).unix,
            held: self.held(now),
        })
    }

    /// The poll interval, s, that the estimator of this source would choose, if it has an opinion.
    #[must_use]
    pub fn poll_advice(&self, source: SourceId) -> Option<u32> {
        self.sources.iter().find(|s| s.id == source)?.poll_advice()
    }
}
