//! Words to the user on a server: its row in `sources`, and what is wrong with it.

use alloc::borrow::{Cow, ToOwned};
use alloc::format;
use alloc::string::{String, ToString};

use truechimer_time::{Count, Instant, Span, Utc};

use super::Source;
use crate::cause::Cause;
use crate::report::{SourceReport, SourceStatus};
use crate::{bar, hold_off};

impl Source {
    /// Row in `sources`, when it is `utc` by the published clock; `reference` is what its offset is
    /// shown against, and the name of that if it is not the published clock.
    pub(crate) fn report(
        &self,
        at: Count,
        utc: Option<Utc>,
        reference: Option<&(Instant, Option<String>)>,
    ) -> SourceReport {
        let filter = &self.peer.filter;
        let newest = filter.newest.as_ref();
        let reply = newest.and_then(|newest| newest.reply);
        let shown = self.peer.report(at, reference);
        let mut refused = shown.refused;
        if let Some(association) = &self.association {
            refused.extend(association.refused().iter().map(|(name, n)| (name.to_owned(), n)));
        }
        if let Some(port) = &self.ptp {
            let rtt = newest.and_then(|newest| newest.rtt);
            let sent_method = newest.map(|newest| newest.exchange.sent.method);
            let root_distance = newest.map(|newest| newest.exchange.root_distance);
            let asymmetry = self.path.asymmetry();
            let trouble = self.trouble(at, utc);
            let shown = SourceReport {
                rtt,
                sent_method,
                root_distance,
                refused,
                asymmetry,
                learnt: self.path.learnt(),
                trouble,
                ..shown
            };
            return port.report(self.config.ptp.as_ref(), shown);
        }
        SourceReport {
            address: self.address(),
            origin: self.config.origin,
            authentication: self.config.authentication,
            poll: self.schedule.interval(),
            retry: self.schedule.retry().map(|due| filter.span(due - at).max(Span::ZERO)),
            stratum: reply.map(|r| r.stratum),
            reference: reply.map(|r| r.reference_id.text(r.stratum).to_string()),
            interleaved: self.is_interleaved(),
            leap: reply.map(|r| r.leap as u8),
            root_distance: reply.map(|r| r.root_distance()),
            rtt: newest.and_then(|newest| newest.rtt),
            sent_method: newest.map(|newest| newest.exchange.sent.method),
            refused,
            asymmetry: self.path.asymmetry(),
            learnt: self.path.learnt(),
            trouble: self.trouble(at, utc),
            ..shown
        }
    }

    /// Reason why nothing usable has come from it, as far as that is known.
    pub(crate) fn unreachable(&self) -> Option<Cause> {
        if self.config.offline {
            Some(Cause::Offline)
        } else if self.schedule.is_refused() {
            Some(Cause::KissCode)
        } else if self.resolver.lacks_keys() && self.config.is_authenticated() {
            Some(Cause::NoKeys)
        } else if self.resolver.failure().is_some() && self.address().is_none() {
            Some(Cause::NoAddress)
        } else {
            (self.schedule.silence > 0).then_some(Cause::NoReply)
        }
    }

    /// Trouble with it now, which is `utc` if that is known.
    pub(crate) fn trouble(&self, at: Count, utc: Option<Utc>) -> Option<String> {
        let (peer, name) = (&self.peer, &self.peer.name);
        let outvoted = peer.trust.status() == SourceStatus::Falseticker;
        if let Some(held) = peer.hold_off(at) {
            let who = (&**name, peer.trust.bar.as_ref());
            let against = outvoted.then(|| match peer.trust.cause() {
                Some(why @ Cause::Overruled) => format!("{why}: no part until it agrees"),
                _ => "outvoted by the others, and no part until it agrees with them".into(),
            });
            let no_vote = || "it has no vote, so that this moves nothing".to_owned();
            let against = against.or_else(|| (!self.votes()).then(no_vote));
            return Some(hold_off::told(&held, who, at, peer.filter.nominal(), utc, against));
        }
        match peer.trust.cause() {
            Some(Cause::Limit(_, by)) => {
                let held = match by {
                    Some(by) => format!("its time is {by:+} off what was known: not used"),
                    None => "not published".into(),
                };
                // Nobody is to accept one that has no vote.
                let remedies = match by {
                    _ if !self.votes() => String::new(),
                    Some(_) => bar::remedies(name),
                    None => format!("; to believe it now: {}", bar::remedy(name)),
                };
                return Some(format!("held off: {held}{remedies}"));
            }
            Some(why) if outvoted => {
                return Some(format!("falseticker: {why}: no part until it agrees again"));
            }
            _ => {}
        }
        if self.config.offline {
            return Some("offline, by your word: not asked".into());
        }
        if let (Some(due), Some(trouble)) = (self.schedule.retry(), &peer.trouble) {
            let wait = peer.filter.span(due - at).max(Span::ZERO);
            return Some(format!("{trouble}; asked again in {}", hold_off::time(wait)));
        }
        let stray = || self.stray_trouble();
        peer.trouble
            .clone()
            .map(Cow::into_owned)
            .or_else(stray)
            .or_else(|| self.path.trouble(&peer.filter))
    }

    /// Trouble of a server whose time moves against our counter by more than an oscillator promises
    /// to wander, while it is so.
    fn stray_trouble(&self) -> Option<String> {
        self.peer.filter.estimator.strays().then(|| {
            "it drifts against our counter by more than max-wander-ppm allows, by its own fault or our \
             oscillator's: the bound covers both, until it comes back or for accept-step-after"
                .into()
        })
    }

    /// That, once as it begins, and that it is over.
    pub(crate) fn news_of_straying(&mut self) -> Option<String> {
        let trouble = self.stray_trouble();
        if trouble.is_some() == self.stray_told {
            return None;
        }
        self.stray_told = trouble.is_some();
        let over =
            || "it no longer drifts by more than max-wander-ppm allows, or is believed".into();
        Some(trouble.unwrap_or_else(over))
    }

    /// Reason why the declared asymmetry is not relied upon, once.
    pub(crate) fn news_of_asymmetry(&mut self) -> Option<String> {
        self.path.news(&self.peer.filter)
    }
}
