//! From what the sources say to the hand that is published.

use alloc::borrow::{Cow, ToOwned};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write;
use core::net::SocketAddr;

use truechimer_feedforward::{Accepted, Estimate, RatePrior};
use truechimer_ntp::LeapIndicator;
use truechimer_time::{Count, Instant, Span};
use truechimer_timehands::{Hand, Status};

use super::account::held_against;
use super::gate::Until;
use super::{Engine, MOMENT, VOID_AFTER, WORTH_SAVING, note};
use crate::cause::Cause;
use crate::event::{Action, Level, SourceId};
use crate::few::Few;
use crate::hold_off::{Moved, Opinion};
use crate::method::Candidate;
use crate::peer::Peer;
use crate::refclock::{Numbering, RefClock};
use crate::report::{SourceKind, SourceStatus};
use crate::selection::{Chosen, Voter};
use crate::source::{Heard, Source, canonical};
use crate::{hold_off, selection};

/// Nothing has come for a while: what to say of that, and since when.
#[derive(Debug)]
pub(super) struct Quiet {
    pub(super) what: String,
    pub(super) since: Count,
    pub(super) smears: &'static str,
}

/// Number of servers that are named where none agree.
const SHOWN: usize = 6;

impl Engine {
    pub(super) fn after_reply(
        &mut self,
        id: SourceId,
        heard: Heard,
        at: Count,
        actions: &mut Vec<Action>,
    ) {
        let speaks = self.let_speak(id, at, actions);
        // A rejected exchange may have widened the bound; a refused datagram costs a count, no more.
        let republish = matches!(heard, Heard::Rejected(_)) && self.hand.status.bound_holds();
        match heard {
            Heard::Used(accepted) => {
                let told = actions.len();
                if let Accepted::Stepped(_) = accepted {
                    self.servo.interrupt();
                    self.gate.stepped = true;
                    // Paths may have been learnt by what it said before.
                    self.sources.iter_mut().for_each(Source::forget_path);
                }
                if let Some(text) = changed(accepted) {
                    note(actions, Level::Info, format!("{}: {text}", self.name_of(id)));
                }
                self.publish(at, actions);
                if let Accepted::Stepped(by) = accepted {
                    let text = self.settled(id, by);
                    // It comes before what it led to.
                    actions.insert(told, Action::Note { level: Level::Warning, text });
                }
            }
            Heard::Refused(trouble) | Heard::Rejected(trouble) => {
                if republish {
                    self.judge_hold_offs(at);
                }
                // By what the others say of it, if it is held off.
                let trouble = trouble
                    .filter(|_| !speaks)
                    .map(|trouble| self.trouble_held(id, at).unwrap_or(trouble));
                let told = actions.len();
                if republish {
                    self.hear_vouchers(at, actions);
                    self.publish(at, actions);
                }
                if let Some(trouble) = trouble {
                    let is_outvoted = |peer: &Peer| {
                        peer.id == id && peer.trust.status() == SourceStatus::Falseticker
                    };
                    // Then nobody is told when it would be accepted.
                    let outvoted = self.peers().any(is_outvoted);
                    let by_others = if outvoted { self.trouble_held(id, at) } else { None };
                    let trouble = by_others.unwrap_or(trouble);
                    let text = format!("{}: {trouble}", self.name_of(id));
                    // It comes before what it led to.
                    actions.insert(told, Action::Note { level: Level::Warning, text });
                }
            }
        }
    }

    /// Trouble of a server that is held off.
    fn trouble_held(&self, id: SourceId, at: Count) -> Option<String> {
        let source = self.sources.iter().find(|source| source.id() == id)?;
        source.hold_off(at).and_then(|_| source.trouble(at, self.utc(at)))
    }

    /// Word of a source whose time moved and stayed there. That it is believed to have moved
    /// does not make the clock go along: who is followed decides.
    fn settled(&self, id: SourceId, by: Span) -> String {
        let is_part = self.peers().any(|peer| peer.id == id && peer.trust.is_part());
        let apart = if is_part { "" } else { "; it has no part in the clock" };
        format!(
            "{}: its time moved by {by:+} and stayed there: taken for its time from now on{apart}",
            self.name_of(id)
        )
    }

    /// Servers that contradict the time of the clock page, which is not known to have been their
    /// word, speak for themselves as soon as there is another to ask. One alone is held off, as a
    /// daemon that was never stopped would do. Returns whether this one does from now on.
    fn let_speak(&mut self, id: SourceId, at: Count, actions: &mut Vec<Action>) -> bool {
        let mut speaks = false;
        let misrepresented = |source: &Source| source.votes() && source.peer.is_misrepresented(at);
        if !self.sources.iter().any(misrepresented) || self.votes(at).iter().flatten().count() < 2 {
            return speaks;
        }
        for source in &mut self.sources {
            if misrepresented(source)
                && let Some(Accepted::Stepped(by)) = source.peer.believe()
            {
                self.servo.interrupt();
                self.gate.stepped = true;
                speaks |= source.id() == id;
                let text = format!(
                    "{}: its time is {by:+} off what the previous daemon left, and it is not known \
                     to have agreed with that: has a vote of its own",
                    source.name()
                );
                note(actions, Level::Warning, text);
            }
        }
        speaks
    }

    /// Believes the servers whose time moved, where others, a witness or what stands vouch for it.
    pub(super) fn hear_vouchers(&mut self, at: Count, actions: &mut Vec<Action>) {
        let Some((who, opinions)) = self.judge_hold_offs(at) else { return };
        for index in 0..self.sources.len() {
            let one = who.iter().position(|voter| *voter == index);
            let Some(source) = self.sources.get(index) else { continue };
            let due = source.peer.trust.vouched.is_some_and(|then| at.at_or_after(then));
            let Some(hold_off) = source.hold_off(at).filter(|_| due) else { continue };
            // One without a vote is believed only there.
            let moved = one.filter(|one| {
                !self.comes_home(&hold_off, at) || hold_off::vouched(*one, &opinions)
            });
            if let Some(source) = self.sources.get_mut(index)
                && let Some(Accepted::Stepped(by)) = source.peer.believe()
            {
                source.peer.trust.moved = moved.map(|_| at);
                self.servo.interrupt();
                self.gate.stepped = true;
                let moved = moved.map_or(Moved::Home, |one| Moved::of(one, &opinions));
                let text = moved.told(by, opinions.len());
                note(actions, Level::Warning, format!("{}: {text}", source.name()));
            }
        }
        self.judge_hold_offs(at);
    }

    /// Works out of every server whose time moved until when that is held off, or why for ever.
    /// Returns which servers say something, and what.
    fn judge_hold_offs(&mut self, at: Count) -> Option<(Few<usize>, Few<Opinion>)> {
        let hold_offs: Few<_> = self.sources.iter().map(|source| source.hold_off(at)).collect();
        let votes = self.votes(at);
        for source in &mut self.sources {
            (source.peer.trust.bar, source.peer.trust.vouched) = (None, None);
        }
        let origin = votes.iter().flatten().map(|e| e.time).next()?;
        let (mut who, mut opinions) = (Few::new(), Few::new());
        for (index, (vote, hold_off)) in votes.iter().zip(&hold_offs).enumerate() {
            if let Some(estimate) = vote {
                who.push(index);
                let moved = self.sources.get(index).and_then(|source| source.peer.trust.moved);
                opinions.push(Opinion::new(estimate, hold_off.as_ref(), moved, origin));
            }
        }
        for (one, index) in who.iter().enumerate() {
            // Servers that smear a leap second alike are no witnesses of each other.
            let smears = self.sources.get(*index).is_some_and(Source::may_smear);
            let Some(hold_off) = hold_offs.get(*index).copied().flatten() else { continue };
            let vouched = !smears && hold_off::vouched(one, &opinions);
            let (vouchers, _) = hold_off::witnesses(one, &opinions);
            let (bar, then) = match self.judge(&hold_off, vouchers + 1, at) {
                _ if self.comes_home(&hold_off, at) => (None, Some(at)),
                Ok(Until::Witnessed) => (None, hold_off::is_said(&hold_off).then_some(at)),
                Ok(Until::Vouched(then)) => (None, Some(then).filter(|_| vouched)),
                Err(bar) => (Some(bar), None),
            };
            if let Some(source) = self.sources.get_mut(*index) {
                let trust = &mut source.peer.trust;
                (trust.bar, trust.vouched) = (bar, then);
                // Whoever says what a majority says was not wrong by saying it first.
                if vouched {
                    trust.is_newest_false = false;
                }
            }
        }
        for index in 0..self.sources.len() {
            let fenced = self.sources.get(index).filter(|source| source.peer.is_fenced());
            let Some(hold_off) = fenced.and_then(|source| source.hold_off(at)) else { continue };
            let then = Some(at).filter(|_| self.comes_home(&hold_off, at));
            if let Some(source) = self.sources.get_mut(index) {
                source.peer.trust.vouched = then;
            }
        }
        Some((who, opinions))
    }

    /// Works out which sources agree, and publishes what they come to.
    pub(super) fn publish(&mut self, at: Count, actions: &mut Vec<Action>) {
        let Some(chosen) = self.select(at) else {
            return self.without_source(at, actions);
        };
        self.split_told = false;
        if let Err(why) = self.admit(&chosen, at) {
            return self.hold(&chosen, why, at, actions);
        }
        let Chosen { index, estimate, likely, disputed, others, patience, freshest } = chosen;
        let status = if patience.is_negative() { Status::Holdover } else { Status::Synchronised };
        let held = if status == Status::Holdover { self.held_off(at) } else { None };
        let smears = self.sources.get(index).is_some_and(Source::smears);
        let smears =
            if smears { "; all smear the leap second: the smear is taken off" } else { "" };
        // The text before gives its memory.
        let mut reason = core::mem::take(&mut self.reason);
        reason.clear();
        let Some(peer) = self.peers().nth(index) else { return };
        let (name, mut quiet) = (&peer.name, None);
        let _ = match (status, held) {
            (Status::Synchronised, _) if others == 0 => write!(reason, "following {name}"),
            (Status::Synchronised, _) => write!(reason, "following {name} and {others} more"),
            (_, Some(held)) => write!(reason, "{}", held_against(&held)),
            (_, None) => {
                let freshest = self.peers().nth(freshest).unwrap_or(peer);
                let sample = match freshest.kind {
                    SourceKind::Server | SourceKind::Ptp => "reply",
                    SourceKind::Pulse => "edge",
                    _ => "sample",
                };
                let what = format!("no usable {sample} from {} for", freshest.name);
                let heard = freshest.estimate(at).map_or(estimate.heard, |e| e.heard);
                let age = estimate.period.span(at - heard);
                let written = write!(reason, "{what} {age}{}", self.absent(heard, age));
                quiet = Some(Quiet { what, since: heard, smears });
                written
            }
        };
        reason += smears;
        // Sooner if patience ends before, so that holdover is said when it begins.
        let renew = self.method.renew_after(peer.filter.estimator.as_ref());
        (self.reason, self.others) = (reason, others);
        (self.quiet, self.unanswered) = (quiet, false);
        let wait = if patience.is_negative() { renew } else { renew.min(patience + MOMENT) };
        self.renew_at = Some(at + estimate.period.counts(wait));
        self.leaps = self.leaps.advanced(estimate.time);
        self.hear_announcements(estimate.time, actions);
        let before = self.hand.status;
        self.hand = Hand {
            counter: self.counter,
            base: estimate.base,
            time: estimate.time,
            period: estimate.period,
            difference: estimate.difference,
            difference_error: estimate.difference_error,
            path_bound: estimate.path_bound,
            statistical_bound: estimate.bound - estimate.path_bound,
            disputed,
            growth: estimate.growth,
            imbalance: estimate.imbalance,
            likely: likely.filter(|_| disputed == Span::ZERO),
            status,
            leaps: self.leaps,
            void_after: at + estimate.period.counts(VOID_AFTER),
        };
        self.deviation = Some(estimate.difference_deviation);
        let Hand { difference, difference_error, .. } = self.hand;
        if difference_error <= WORTH_SAVING {
            self.kept_rate = Some((difference, difference_error));
        }
        self.admitted(at, actions);
        self.announce(before, actions);
        self.tell_changes(!before.bound_holds(), at, actions);
        actions.push(Action::Publish(self.hand));
    }

    /// Words for how much of a silence since this count, of this length, is the daemon's own doing.
    pub(super) fn absent(&self, since: Count, silence: Span) -> String {
        // An absence begins with the last check, before which nothing may have come for a while.
        let words =
            |span: Span| format!(", of which the daemon did not run for {}", span.min(silence));
        self.watch.absence_since(since).map_or_else(String::new, words)
    }

    /// Takes in the leap second that the believed sources announce at `now`, if any.
    fn hear_announcements(&mut self, now: Instant, actions: &mut Vec<Action>) {
        let believed = |peer: &Peer| peer.votes() && peer.trust.agrees();
        // A server that is left alone of many does not announce a leap second by itself. Those that smear, whose word
        // is not heard here, make it no majority.
        let heard = |peer: &&Peer| peer.trust.agrees() && peer.is_proven();
        let enough = self.voting().filter(heard).count() >= self.least();
        let servers = self.sources.iter().filter(|s| enough && believed(&s.peer));
        let servers = servers.filter_map(|s| Some((s.name(), s.leap()?)));
        // Many receivers' programs leave the field at 0 whatever comes: that is no word against a server's.
        let alone = servers.clone().next().is_none();
        let clocks = self.refclocks.iter().filter(|r| enough && believed(&r.peer));
        let clocks = clocks.filter_map(|r| Some((r.peer.name.as_str(), r.leap()?)));
        let clocks = clocks.filter(|(_, leap)| alone || *leap != LeapIndicator::None);
        let words = servers.chain(clocks);
        let contradiction = self.announced.contradiction(&self.leaps, now, words.clone());
        self.leaps = self.announced.heard(self.leaps, now, words.map(|(_, leap)| leap));
        if let Some(text) = contradiction {
            note(actions, Level::Warning, text);
        }
    }

    /// Tells who leads now, who has a part and who is left out. `first`: nothing was promised
    /// before.
    pub(super) fn tell_changes(&mut self, first: bool, at: Count, actions: &mut Vec<Action>) {
        let mut change_log = core::mem::take(&mut self.change_log);
        change_log.look(self.peers(), self.follows_one(), at);
        for (level, text) in change_log.lines(self.peers(), first, at, self.settings.nominal) {
            note(actions, level, text);
        }
        self.change_log = change_log;
        self.tell_same_servers(actions);
    }

    /// Tells which source turned out to be the server that another is already.
    fn tell_same_servers(&mut self, actions: &mut Vec<Action>) {
        for Peer { name, trust, .. } in self.sources.iter_mut().map(|source| &mut source.peer) {
            if let Some(text) = trust.same_server_news() {
                note(actions, Level::Warning, format!("{name}: {text}"));
            }
        }
    }

    /// No source is fit to follow: hold what was published last.
    pub(super) fn without_source(&mut self, at: Count, actions: &mut Vec<Action>) {
        let mut change_log = core::mem::take(&mut self.change_log);
        change_log.look(self.peers(), self.follows_one(), at);
        self.change_log = change_log;
        let votes = self.votes(at);
        self.tell_same_servers(actions);
        let usable = votes.iter().flatten().count();
        let waits = self.to_come(at) > 0;
        self.reason = if waits {
            let all = self.sources.iter().filter(|s| s.votes()).count();
            format!("{usable} of {all} sources answered so far")
        } else if usable > 0 {
            format!("no majority of the {usable} servers agrees{}", self.split(at, &votes))
        } else {
            self.why_unanswered(at)
        };
        self.quiet = None;
        self.unanswered = usable == 0 && !waits;
        let split = usable > 0 && !waits;
        if self.hand.status == Status::Synchronised {
            let before = self.hand.status;
            (self.hand.status, self.hand.likely) = (Status::Holdover, None);
            self.announce(before, actions);
            actions.push(Action::Publish(self.hand));
        } else if split && !self.split_told {
            // The status is what it was before: nothing else would say why.
            note(actions, Level::Warning, format!("{}: {}", self.hand.status, self.reason));
        }
        self.split_told |= split;
        self.renew_at = None;
    }

    /// Reason why nobody's word could be used so far.
    pub(super) fn why_unanswered(&self, at: Count) -> String {
        let trouble = |r: &RefClock| r.peer.trouble.clone().map(Cow::into_owned);
        let servers = || self.sources.iter().filter_map(|s| Some((s.name(), s.trouble(at, None)?)));
        let trusted = || self.refclocks.iter().filter(|refclock| refclock.votes());
        let pools = || self.pools.iter().filter_map(|p| Some((p.name(), p.trouble()?)));
        let servers = || servers().chain(pools());
        let troubles =
            || servers().chain(trusted().filter_map(|r| Some((r.peer.name.as_str(), trouble(r)?))));
        match (troubles().next(), troubles().count()) {
            (None, _) if self.sources.iter().any(|s| s.peer.is_fenced() && s.peer.is_proven()) => {
                "no source that is authenticated or trusted has answered yet".into()
            }
            (None, _) => "no source has answered yet".into(),
            (Some((name, trouble)), 1) => format!("no usable reply yet: {name}: {trouble}"),
            (Some((name, trouble)), n) => {
                format!("no usable reply yet: {name}: {trouble}; and {} more", n - 1)
            }
        }
    }

    /// The server in the middle of those that have an estimate (of an even number, the earlier
    /// one): its name, and where it puts the time.
    pub(super) fn middle(&self, at: Count) -> Option<(String, Instant)> {
        let said = self.voters(at).filter_map(|s| Some((s.peer.says(at, &s.estimate(at)?).0, s)));
        let mut said: Vec<(Instant, &Source)> = said.collect();
        said.sort_by_key(|(time, _)| *time);
        let (time, source) = said.get(said.len().checked_sub(1)? / 2)?;
        Some((source.name().to_owned(), *time))
    }

    /// Those that say something and have a vote.
    pub(super) fn voters(&self, at: Count) -> impl Iterator<Item = &Source> {
        let says = move |s: &&Source| {
            let trust = &s.peer.trust;
            let may = s.votes() && !trust.overruled && trust.same_server().is_none();
            may && s.peer.filter.knows(at)
        };
        let timed_out = self.timed_out(at);
        let spoken =
            self.sources.iter().zip(timed_out).filter(|(_, timed_out)| timed_out.is_none());
        spoken.map(|(source, _)| source).filter(says)
    }

    /// Words for how far the servers are apart.
    fn split(&self, at: Count, votes: &[Option<Estimate>]) -> String {
        let Some((middle, reference)) = self.middle(at) else { return String::new() };
        // One that is another's address says nothing of its own.
        let own = self.sources.iter().zip(votes).filter(|(_, vote)| vote.is_some());
        let others = own.map(|(source, _)| source).filter(|source| source.name() != middle);
        let apart = others.filter_map(|s| {
            let ahead = s.peer.says(at, &s.estimate(at)?).0 - reference;
            let which = if ahead.is_negative() { "behind" } else { "ahead of" };
            Some((s.name(), ahead.abs(), which))
        });
        let apart: Vec<_> = apart.collect();
        let more = apart.len().saturating_sub(SHOWN);
        let shown = apart.iter().take(SHOWN);
        let shown: Vec<String> =
            shown.map(|(name, by, which)| format!("{name} is {by} {which} {middle}")).collect();
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        if shown.is_empty() { String::new() } else { format!(": {}{more}", shown.join(", ")) }
    }

    pub(super) fn announce(&self, before: Status, actions: &mut Vec<Action>) {
        if before != self.hand.status {
            let level =
                if self.hand.status == Status::Synchronised { Level::Info } else { Level::Warning };
            let bound = self.hand.bound().rounded_up();
            note(actions, level, format!("{}: {}; bound {bound}", self.hand.status, self.reason));
        }
    }

    /// Marks every source's part, and works out what they come to.
    pub(super) fn select(&mut self, at: Count) -> Option<Chosen> {
        let chosen = self.chosen(at);
        let timed_out = self.timed_out(at);
        let silent = self.sources.iter_mut().zip(timed_out);
        for (source, age) in silent.filter_map(|(source, age)| Some((source, age?))) {
            source.peer.trust.set(SourceStatus::Unreachable, Some(Cause::TimedOut(age)));
        }
        for source in &mut self.sources {
            let (is_heard, is_on_trial) = (source.is_heard(), source.is_on_trial());
            let trust = &mut source.peer.trust;
            let same = trust.same_server().filter(|_| trust.cause().is_none()).map(str::to_owned);
            let (status, cause) = match same {
                _ if trust.overruled => (SourceStatus::Falseticker, Cause::Overruled),
                _ if source.config.no_select => (SourceStatus::Unselectable, Cause::NoSelect),
                _ if is_on_trial => (SourceStatus::Unselectable, Cause::OnTrial),
                _ if !is_heard => (SourceStatus::Unselectable, Cause::Unauthenticated),
                Some(of) => (SourceStatus::Unselectable, Cause::SameServer(of)),
                None => continue,
            };
            trust.set(status, Some(cause));
        }
        chosen
    }

    /// Chooses, where those that have no vote are taken for silent.
    fn chosen(&mut self, at: Count) -> Option<Chosen> {
        let estimates = self.estimates(at);
        let to_come = self.to_come(at);
        let (nominal, all) = (self.settings.nominal, self.sources.len() + self.refclocks.len());
        let (single, doubt) = (self.follows_one(), self.config.likely_doubt);
        let servers = self.sources.iter_mut().zip(estimates);
        let servers = servers.map(|(source, estimate)| {
            let smears = source.smears();
            Voter { peer: &mut source.peer, estimate, smears }
        });
        let refclocks = self.refclocks.iter_mut().map(|refclock| {
            let estimate = refclock.peer.estimate(at);
            Voter { peer: &mut refclock.peer, estimate, smears: false }
        });
        let mut voters: Few<Voter<'_>> = servers.chain(refclocks).collect();
        let preferred = {
            let plain = voters.iter().any(Voter::is_plain);
            let candidates: Few<Candidate<'_>> = voters
                .iter()
                .filter(|voter| !plain || !voter.smears)
                .filter_map(Voter::candidate)
                .collect();
            self.method.prefer(&candidates, all, at, nominal)
        };
        if let Some(id) = preferred {
            let (index, estimate) = selection::follow(&mut voters, id)?;
            for voter in &mut voters {
                voter.peer.trust.weigh(None, None);
            }
            let patience = voters.get(index)?.peer.left(&estimate, at);
            let (likely, disputed, others, freshest) = (None, Span::ZERO, 0, index);
            let chosen = Chosen { index, estimate, likely, disputed, others, patience, freshest };
            return Some(chosen);
        }
        let combination = (!single).then_some(&mut self.combination);
        let chosen = selection::choose(&mut voters, combination, to_come, doubt, at);
        for trust in voters.iter_mut().map(|voter| &mut voter.peer.trust) {
            if matches!(trust.cause(), Some(Cause::LeapSmear)) {
                trust.mark(SourceStatus::Unselectable);
            }
        }
        chosen
    }

    /// The other estimators' clocks are shown as they are: one at a time.
    pub(super) fn follows_one(&self) -> bool {
        !self.method.combines()
    }

    /// Clock that tells the second of an edge at count `at`: what the servers vouch for, where they
    /// do; else by the published clock, as long as its bound holds.
    pub(super) fn numbering(&mut self, at: Count) -> Option<Numbering> {
        let votes = self.votes(at);
        let vouched = selection::vouched(&votes, self.to_come(at));
        let servers = vouched.map(|(time, bound)| Numbering { time, bound });
        let published = self
            .hand
            .status
            .bound_holds()
            .then(|| Numbering { time: self.hand.time_at(at), bound: self.hand.bound_at(at) });
        servers.filter(|clock| clock.is_enough()).or(published)
    }

    /// Prior of the rate by now.
    pub(super) fn known_rate(&self) -> RatePrior {
        match self.hand.status {
            Status::Synchronised => RatePrior { period: self.hand.period, error: self.hand.growth },
            _ => self.rate_prior,
        }
    }

    /// Number of sources that are waited for.
    pub(super) fn to_come(&self, at: Count) -> usize {
        let pools = self.pools.iter().filter(|p| p.is_to_come() && self.config.votes(&p.config));
        self.sources.iter().filter(|s| s.is_to_come(at)).count() + pools.count()
    }

    /// For how long each source has been silent, if that is for so long that the others are
    /// believed without it: what it said has become ever vaguer meanwhile, and so agrees with
    /// whomever. Where that is so of all, it is so of none.
    fn timed_out(&self, at: Count) -> Few<Option<Span>> {
        let most = self.settings.accept_step_after;
        let silent = |source: &Source| source.is_silent_for(at, most);
        let speaks =
            |source: &Source| source.votes() && source.peer.is_proven() && silent(source).is_none();
        let anyone = self.sources.iter().any(speaks);
        self.sources.iter().map(|source| silent(source).filter(|_| anyone)).collect()
    }

    /// Votes of the servers, in their order, and after them of the reference clocks that have one.
    pub(super) fn votes(&mut self, at: Count) -> Few<Option<Estimate>> {
        let mut votes = self.estimates(at);
        for (source, vote) in self.sources.iter().zip(&mut votes) {
            *vote = vote.filter(|_| source.votes());
        }
        let trusted = self.refclocks.iter().filter(|refclock| refclock.votes());
        votes.extend(trusted.map(|refclock| refclock.peer.estimate(at)));
        votes
    }

    /// Estimates of the servers that are heard, in their order. Two that turn out to be the same
    /// server count once ([`Source::precedence`]), and one that has been silent for long does not.
    fn estimates(&mut self, at: Count) -> Few<Option<Estimate>> {
        let timed_out = self.timed_out(at);
        let vote = |(source, timed_out): (&Source, Option<Span>)| {
            let heard = timed_out.is_none() && source.is_heard() && !source.peer.trust.overruled;
            let estimate = source.estimate(at).filter(|_| heard)?;
            Some((canonical(source.heard_from()?), estimate))
        };
        let said: Few<_> = self.sources.iter().zip(timed_out).map(vote).collect();
        let mut votes = Few::new();
        for (index, one) in said.iter().enumerate() {
            let rank = |index: usize| (self.sources.get(index).map(Source::precedence), index);
            let same = |(address, _): &(SocketAddr, Estimate)| {
                let is_there =
                    |other: &Option<_>| other.is_some_and(|(there, _)| there == *address);
                let there = (0..said.len()).filter(|i| said.get(*i).is_some_and(is_there));
                there.filter(|i| rank(*i) < rank(index)).min_by_key(|i| rank(*i))
            };
            let first = one.as_ref().and_then(same).and_then(|first| self.sources.get(first));
            let first = first.map(|first| first.name().to_owned());
            if let (Some(source), true) = (self.sources.get_mut(index), one.is_some()) {
                match &first {
                    Some(first) => source.take_for(first),
                    None => source.take_for_itself(),
                }
            }
            votes.push(one.filter(|_| first.is_none()).map(|(_, estimate)| estimate));
        }
        votes
    }

    /// Renews a hand that no reply has renewed for a while.
    pub(super) fn renew(&mut self, at: Count, actions: &mut Vec<Action>) {
        if self.renew_at.is_some_and(|due| at.at_or_after(due)) {
            self.publish(at, actions);
        }
    }
}

/// Account of a change of the path that an exchange has shown.
fn changed(accepted: Accepted) -> Option<String> {
    match accepted {
        Accepted::Shifted(by) => Some(format!("the path changed: round trips {by:+}")),
        Accepted::FloorMoved(by) => {
            let hidden = "another path, or queues had hidden it";
            let why = if by < Span::ZERO { hidden } else { "by as much as once within a day" };
            Some(format!("the least round trip is another one, {by:+}: {why}"))
        }
        Accepted::Refined | Accepted::Stepped(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_is_named_only_where_it_is_one() {
        let said = |accepted| changed(accepted).unwrap_or_default();
        assert!(said(Accepted::Shifted(Span::from_millis(1))).starts_with("the path changed: "));
        let shorter = said(Accepted::FloorMoved(Span::from_millis(-1)));
        assert!(shorter.contains("queues had hidden it") && !shorter.contains("path changed"));
        let again = said(Accepted::FloorMoved(Span::from_millis(1)));
        assert!(again.contains("within a day") && !again.contains("path changed"), "{again}");
        assert_eq!(changed(Accepted::Refined), None);
    }
}
