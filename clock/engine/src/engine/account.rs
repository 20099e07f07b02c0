//! Account of the engine: for `sources` and `status`, and for the next start.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use truechimer_feedforward::number::fraction;
use truechimer_feedforward::{Estimator, Exchange};
use truechimer_ntp::RefId;
use truechimer_time::{Count, Instant, Rate, Span, Utc};
use truechimer_timehands::{Hand, Reference, Status};

use super::publication::Quiet;
use super::{Engine, VOID_AFTER, WORTH_SAVING};
use crate::cause::Cause;
use crate::event::{Saved, SourceId};
use crate::hold_off;
use crate::hold_off::{Agreed, Held};
use crate::peer::Peer;
use crate::refclock::RefClock;
use crate::report::{Reason, Report, SourceKind, SourceReport, SourceStatus};
use crate::source::{Source, canonical};

/// Reason why the clock goes on by itself, by what [`Engine::held_off`] says.
pub(super) fn held_against((name, says): &(String, String)) -> String {
    format!("held against {name}, which says {says}")
}

impl Engine {
    /// The name of a source, as the user knows it.
    pub(super) fn name_of(&self, id: SourceId) -> &str {
        self.peers().find(|peer| peer.id == id).map_or("", |peer| &peer.name)
    }

    /// Report of the engine, for `sources` and `status`.
    #[must_use]
    pub fn report(&self, now: Count) -> Report {
        let measured = self.selected().and_then(|peer| Some(peer.skew(&peer.estimate(now)?)));
        let reference = self.reference(now);
        let servers = self.sources.iter().map(|s| self.server(s, reference.as_ref(), now));
        let refclocks =
            self.refclocks.iter().map(|r| self.refclock_report(r, reference.as_ref(), now));
        Report {
            at: now,
            hand: Some(self.hand),
            skew: measured,
            reason: self.reason(now),
            disputed: self.disputed(),
            sources: servers.chain(self.empty_pools()).chain(refclocks).collect(),
        }
    }

    /// Servers and PTP ports: the first sources of a [`Engine::report`], in its order.
    pub fn servers(&self) -> impl Iterator<Item = SourceId> {
        self.sources.iter().map(Source::id)
    }

    /// Status of each source that is asked, as in a [`Engine::report`], by name, and whether nothing usable came
    /// from it for longer than it may.
    pub fn standings(&self, now: Count) -> impl Iterator<Item = (&str, SourceStatus, bool)> {
        let is_stale = move |peer: &Peer| {
            matches!(peer.trust.cause(), Some(Cause::Stale(_) | Cause::TimedOut(_)))
                || stale_part(peer, now).is_some()
        };
        self.peers().map(move |peer| (peer.name.as_str(), peer.trust.status(), is_stale(peer)))
    }

    fn server(
        &self,
        source: &Source,
        reference: Option<&(Instant, Option<String>)>,
        now: Count,
    ) -> SourceReport {
        let reason = self.reason_of(&source.peer, source.unreachable(), now);
        let likely = self.likely(&source.peer, now);
        let pool = self.pool_of(source);
        SourceReport { reason, likely, pool, ..source.report(now, self.utc(now), reference) }
    }

    fn refclock_report(
        &self,
        refclock: &RefClock,
        reference: Option<&(Instant, Option<String>)>,
        now: Count,
    ) -> SourceReport {
        let reason = self.reason_of(&refclock.peer, refclock.unreachable(), now);
        let likely = self.likely(&refclock.peer, now);
        SourceReport { reason, likely, ..refclock.report(now, reference) }
    }

    /// Likely error of a source's own estimate, if that is less than its bound.
    fn likely(&self, peer: &Peer, now: Count) -> Option<Span> {
        let estimate = peer.estimate(now).filter(|_| peer.has_statistics())?;
        let (half, _) = estimate.spread.within(fraction(self.config.likely_doubt))?;
        Some(half).filter(|half| *half < estimate.bound)
    }

    /// Reason for a source's status: what keeps it from being selected comes first, then that its
    /// newest samples are held off, then what selection found, or why nothing has come.
    pub(super) fn reason_of(
        &self,
        peer: &Peer,
        unreachable: Option<Cause>,
        now: Count,
    ) -> Option<Reason> {
        let ago = |since: Count| self.settings.nominal.span(now - since).max(Span::ZERO);
        let found = peer.trust.cause();
        if !found.is_some_and(Cause::comes_first)
            && let Some(hold_off) = peer.hold_off(now).filter(|_| !peer.narrows())
        {
            // Nor does the clock follow one that is outvoted, or has no vote, when its time has come.
            let has_no_part = peer.trust.status() == SourceStatus::Falseticker || !peer.votes();
            let barred = has_no_part || peer.trust.bar.is_some();
            return Some(Reason::held_off(&hold_off, barred, ago(hold_off.since)));
        }
        let is_quiet = matches!(found, None | Some(Cause::Stale(_) | Cause::TimedOut(_)));
        let is_unreachable = peer.trust.status() == SourceStatus::Unreachable;
        // What it said before may count for a while yet.
        let says_more = |why: &&Cause| is_quiet && matches!(why, Cause::NoKeys);
        let no_keys = unreachable.as_ref().filter(says_more);
        let silent = stale_part(peer, now).filter(|_| found.is_none());
        let why = no_keys.or(found).or(silent.as_ref());
        let why = why.or(unreachable.as_ref().filter(|_| is_unreachable));
        // The status is older than the silence.
        let since = match (why, &silent) {
            (Some(Cause::Stale(age)), Some(_)) => *age,
            _ => self.change_log.since(peer.id.0).map_or(Span::ZERO, ago),
        };
        Some(Reason::of(why?, since))
    }

    /// Reference that the offsets of the sources are shown against, and its name if it is not the
    /// published clock: without that the server in the middle.
    fn reference(&self, now: Count) -> Option<(Instant, Option<String>)> {
        if self.hand.status != Status::Unknown {
            return Some((self.hand.time_at(now), None));
        }
        let others = self.voters(now).nth(1);
        let (name, time) = others.and(self.middle(now))?;
        Some((time, Some(name)))
    }

    /// UTC by the published clock.
    pub(super) fn utc(&self, now: Count) -> Option<Utc> {
        let known = self.hand.status != Status::Unknown;
        known.then(|| self.leaps.utc(self.hand.time_at(now)))
    }

    /// Part of the published bound that is there only because it covers samples that are held off.
    fn disputed(&self) -> Option<Span> {
        let Hand { disputed, status, .. } = self.hand;
        Some(disputed).filter(|disputed| status.bound_holds() && *disputed > Span::ZERO)
    }

    /// Reason for the clock's status: above all that the source it rests on is held off.
    fn reason(&self, now: Count) -> String {
        match (self.held_off(now), self.hand.status) {
            (Some((name, says)), Status::Synchronised) => {
                let who = if self.others > 0 { &name } else { "it" };
                format!("{}, but not what {who} says now: {says}", self.reason)
            }
            (Some(held), _) => held_against(&held),
            (None, Status::Holdover) => self.quiet.as_ref().map_or_else(
                || self.reason.clone(),
                |Quiet { what, since, smears }| {
                    let age = self.settings.nominal.span(now - *since);
                    format!("{what} {age}{}{smears}", self.absent(*since, age))
                },
            ),
            (None, _) if self.unanswered => self.why_unanswered(now),
            (None, _) => self.reason.clone(),
        }
    }

    /// The server that the clock rests on, and what it says, if that is held off.
    pub(super) fn held_off(&self, now: Count) -> Option<(String, String)> {
        let selected = self.sources.iter().find(|s| s.peer.trust.is_selected())?;
        // One that is fenced may lead, but it keeps no bound.
        let held = |source: &&Source| source.votes() && source.hold_off(now).is_some();
        let rests_on = match selected.peer.is_fenced() {
            true => self.sources.iter().find(held)?,
            false => selected,
        };
        let (held, name) = (rests_on.hold_off(now)?, rests_on.name());
        let who = (name, rests_on.peer.trust.bar.as_ref());
        let says = hold_off::says(&held, who, now, self.settings.nominal, self.utc(now));
        Some((name.to_owned(), says))
    }

    /// Report of one source, if there is such a one.
    #[must_use]
    pub fn source_report(&self, id: SourceId, now: Count) -> Option<SourceReport> {
        let reference = self.reference(now);
        let server = self.sources.iter().find(|s| s.id() == id);
        let server = server.map(|server| self.server(server, reference.as_ref(), now));
        let refclock = || self.refclocks.iter().find(|r| r.peer.id == id);
        server.or_else(|| Some(self.refclock_report(refclock()?, reference.as_ref(), now)))
    }

    /// Number of a server's newest requests that wait for their replies: the sockets of all others are of no
    /// use any more. Only what was accepted, or a demand of the server's own, ends the wait.
    #[must_use]
    pub fn waiting(&self, id: SourceId) -> usize {
        self.sources.iter().find(|s| s.id() == id).map_or(0, Source::waiting)
    }

    /// Standard uncertainty of the published difference clock's rate, by measured noise alone; none before a reply, or
    /// while nothing is promised.
    #[must_use]
    pub fn difference_deviation(&self) -> Option<Rate> {
        self.deviation.filter(|_| self.hand.status.bound_holds())
    }

    /// The source that the published clock follows, for those who serve it on.
    #[must_use]
    pub fn followed(&self) -> Option<Reference> {
        let selected = self.selected()?;
        let id = match selected.kind {
            SourceKind::Server | SourceKind::Ptp => None,
            SourceKind::Pulse => Some(*b"PPS\0"),
            SourceKind::Phc => Some(*b"PHC\0"),
            SourceKind::Shm => Some(*b"SHM\0"),
            SourceKind::Sock => Some(*b"SOCK"),
            SourceKind::Vmclock => Some(*b"VMCL"),
        };
        if let Some(id) = id {
            return Some(Reference { stratum: 0, id, port: 0, ipv6: false });
        }
        let source = self.sources.iter().find(|source| source.id() == selected.id)?;
        let address = canonical(source.address()?);
        let RefId(id) = RefId::of_address(address.ip());
        let (port, ipv6) = (address.port(), address.is_ipv6());
        Some(Reference { stratum: source.stratum()?, id, port, ipv6 })
    }

    /// The last exchange with this source that was used.
    #[must_use]
    pub fn last_exchange(&self, id: SourceId) -> Option<&Exchange> {
        self.peers().find(|peer| peer.id == id)?.filter.last_exchange()
    }

    /// Hold-offs of servers whose time has moved by more than it may; of those that are no longer
    /// asked as well, for as long as a hand is good: they may be asked again.
    #[must_use]
    pub fn held(&self, now: Count) -> Vec<Held> {
        let held = |source: &Source| {
            let Some(estimate) = source.estimate(now) else {
                // It has not answered yet: what was held against it before still is.
                return self.inherited.iter().find(|held| held.server == source.name()).cloned();
            };
            let hold_off = source.hold_off(now)?;
            let (name, known) = (source.name().to_owned(), source.peer.filter.estimator.known());
            Some(Held::new(name, self.counter, (now, estimate.time), &hold_off, known))
        };
        let gone = self.inherited.iter().filter(|held| {
            let age = self.settings.nominal.span(now - held.count);
            age <= VOID_AFTER && !self.sources.iter().any(|source| source.name() == held.server)
        });
        self.sources.iter().filter_map(held).chain(gone.cloned()).collect()
    }

    /// State worth keeping across boots, if any.
    #[must_use]
    pub fn saved(&self, now: Count) -> Option<Saved> {
        self.left(now).filter(|saved| saved.error <= WORTH_SAVING)
    }

    /// State that the next daemon on the same clock page should know, however little is known of
    /// the rate.
    #[must_use]
    pub fn left(&self, now: Count) -> Option<Saved> {
        let estimate = self.selected().and_then(|peer| peer.estimate(now));
        let (period, error, time) = match estimate {
            Some(e) => (e.difference, e.difference_error, e.time),
            // Nobody is followed any more, which the next daemon should know.
            None if self.hand.status == Status::Holdover => {
                let Hand { difference, difference_error, .. } = self.hand;
                (difference, difference_error, self.hand.time_at(now))
            }
            None => return None,
        };
        let held = self.held(now);
        // What is held is worth keeping also if the rate is not, by now.
        let (period, error) = match self.kept_rate {
            Some(kept) if error > WORTH_SAVING && !held.is_empty() => kept,
            _ => (period, error),
        };
        let servers = self.agreed(now);
        let known = |s: &Source| Some((s.name().to_owned(), s.peer.filter.estimator.known()?.0));
        let agrees = |s: &&Source| servers.iter().any(|server| server == s.name());
        let since = self.sources.iter().filter(agrees).filter_map(known).collect();
        let told_by = self.gate.told_by.clone();
        let overruled = self.sources.iter().filter(|s| s.peer.trust.overruled);
        let overruled = overruled.map(|s| s.name().to_owned()).collect();
        let agreed =
            Agreed { counter: self.counter, count: now, servers, since, told_by, overruled };
        Some(Saved {
            counter: self.counter.kind.name().to_owned(),
            nominal: self.settings.nominal,
            period,
            error,
            unix: self.leaps.utc(time).unix,
            held,
            agreed: Some(agreed),
            moved: self.gate.moved,
            rtc_offset: self.gate.rtc_offset,
            paths: self.sources.iter().filter_map(Source::kept_path).collect(),
        })
    }

    /// The servers that agree with the clock, apart from those that something is held against.
    #[must_use]
    pub fn agreed(&self, now: Count) -> Vec<String> {
        let agrees = |s: &&Source| match s.estimate(now) {
            // It has not answered yet.
            None => s.peer.trust.agreed,
            // What was published since was not by it.
            Some(_)
                if matches!(s.peer.trust.cause(), Some(Cause::TimedOut(_) | Cause::Limit(..))) =>
            {
                false
            }
            // It has, and others that it is to be compared with have not.
            Some(_) if s.peer.trust.is_undecided() => {
                s.peer.trust.agreed && s.hold_off(now).is_none()
            }
            Some(_) => {
                s.peer.trust.votes_with_most() && s.peer.is_proven() && s.hold_off(now).is_none()
            }
        };
        self.sources.iter().filter(agrees).map(|s| s.name().to_owned()).collect()
    }

    /// The estimator of this server, for those who compare estimators.
    #[must_use]
    pub fn estimator(&self, source: SourceId) -> Option<&dyn Estimator> {
        let source = self.sources.iter().find(|s| s.id() == source)?;
        Some(source.peer.filter.estimator.as_ref())
    }
}

/// Silence of a source that has a part in the clock: where none answers any more, nobody selects anew.
fn stale_part(peer: &Peer, now: Count) -> Option<Cause> {
    let has_part = matches!(peer.trust.status(), SourceStatus::Selected | SourceStatus::Combined);
    let estimate = has_part.then(|| peer.estimate(now))??;
    peer.is_stale(&estimate, now).then(|| Cause::Stale(peer.age(&estimate, now)))
}
