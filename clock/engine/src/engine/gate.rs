//! Gate that decides whether the published time goes where the sources put it.
//!
//! Servers that agree may all lie: they are behind one router, or few are left to speak. So what
//! was published stands against a *move*, a time that it does not allow for: until enough servers
//! say so (`min-sources`), and for ever if the move, with those before it, is further than servers
//! may go by themselves (`max-step`). Meanwhile the clock goes on by dead reckoning, and its bound
//! covers both. A first time has nothing published to stand against it, but this machine's own
//! witnesses: the release date of the program, the real-time clock, the saved state, and after a
//! break of the counter the kernel's clocks. Only the user's word overrules all that.

mod accept;
mod first;

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use truechimer_time::{Count, Instant, Leaps, Rate, Span};
use truechimer_timehands::{Hand, Status};

use super::course::Course;
use super::{Engine, STRAYS, VOID_AFTER, note};
use crate::bar::{Bar, remedies, remedy};
use crate::cause::Cause;
use crate::event::{Action, Level, RtcReading, Start};
use crate::hold_off::{is_said, time};
use crate::peer::{HoldOff, Peer};
use crate::report::SourceStatus;
use crate::selection::Chosen;
use crate::source::Source;

/// A move that all servers share is held for as long as a counter that is as wrong as any may be
/// takes to come as far: 500 ppm.
const COUNTER_MAY: i128 = 2000;
/// Moves below this the real-time clock cannot show: it is read in whole seconds.
const RTC_SHOWS: Span = Span::from_secs(4);
/// Span by which two readings of the real-time clock may differ for that reason, and by its own
/// drift.
const RTC_READS: Span = Span::from_secs(2);
/// Interval at which a hand that is held is made anew.
const RENEW: Span = Span::from_secs(64);

/// Memory of the gate.
#[derive(Debug, Default)]
pub(super) struct Gate {
    /// By whose word the published time stands, by name; empty: nobody knows.
    pub(super) told_by: Vec<String>,
    /// Span by which servers alone have moved the time, once they did; positive: forward.
    pub(super) moved: Span,
    /// A source was believed where it contradicted what was known: by whatever the time moves next,
    /// servers move it, also if the bounds are wide enough to allow for it.
    pub(super) stepped: bool,
    /// Rates that the clock can have without their doing.
    course: Option<Course>,
    /// Hold, if anything is held off.
    pub(super) hold: Option<Hold>,
    /// The user's word: what is published next is, whatever stands.
    accepted: bool,
    rtc: Option<RtcReading>,
    /// Real-time clock − published clock when nothing was held off last, and not before that count.
    pub(super) rtc_offset: Option<Span>,
    /// Real-time clock − system clock then, s.
    rtc_ahead: Option<i64>,
    /// Real-time clock − a first time, if that clock was found to go by local time; until that is
    /// told.
    local: Option<Span>,
    /// By whose word alone a first time was published, with no witness on this machine.
    alone: Option<String>,
    /// That is to be told; it was if not.
    tells_alone: bool,
    /// The time that was known last, and the kernel's clocks then, ns.
    known: Option<(Instant, i64)>,
    /// The kernel's clocks at the last check, ns.
    checked: Option<(Count, i64)>,
    /// Release date of the program, Unix time, s; 0: not known.
    built: i64,
    /// When the state was saved last, or the time known before the machine was restored, Unix time, s.
    saved: Option<i64>,
}

/// Until when a server is held off, unless it lasts for `accept-step-after`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Until {
    /// A witness of this machine has seen the move.
    Witnessed,
    /// Till that count if a majority says the same, as it is what a counter may do.
    Vouched(Count),
}

/// Something that is held off.
#[derive(Clone, Debug)]
pub(super) struct Hold {
    /// Hand that was published before, and stands; `None`: nothing, or nothing that still holds.
    pub(super) stands: Option<Hand>,
    bar: Bar,
    since: Count,
}

/// Time published at a count, the bound of its error without what it disputed, and how fast that
/// grows there: the rate strays ever further from what it was, evenly at the worst.
fn carried(hand: &Hand, max_wander: Rate, at: Count) -> (Instant, Span, Rate) {
    let away = hand.period.span(at - hand.base).abs();
    // In whole seconds, as the product in full is too large for a number.
    let (away_s, strays_s) = ((away.0 >> 64) + 1, STRAYS.0 >> 64);
    let strayed = i128::from(max_wander.0).saturating_mul(away_s) / strays_s;
    let grown = |strayed: i128| {
        let growth = strayed.saturating_add(hand.growth.0.into());
        Rate(growth.min(i64::MAX.into()) as i64)
    };
    let bound = hand.undisputed_bound() + grown(strayed / 2 + 1).over(away).abs();
    (hand.time_at(at), bound, grown(strayed))
}

/// True if a source that has a vote agrees with the time as it was just chosen, one that smears like any other.
fn agrees(peer: &&Peer) -> bool {
    peer.trust.votes_with_most() && peer.is_proven()
}

impl Gate {
    pub(super) fn new(start: &Start) -> Gate {
        let saved = start.saved.as_ref();
        Gate {
            rtc: start.rtc,
            built: start.built,
            saved: saved.map(|saved| saved.unix),
            moved: saved.map_or(Span::ZERO, |saved| saved.moved),
            rtc_offset: saved.and_then(|saved| saved.rtc_offset),
            ..Gate::default()
        }
    }

    /// Counts from before mean nothing any more.
    pub(super) fn new_epoch(&mut self) {
        (self.rtc, self.checked, self.hold) = (None, None, None);
        (self.stepped, self.course) = (false, None);
    }

    /// Knowledge from before tells nothing of the time now but that it is later: the machine was migrated or
    /// restored, and the kernel's clocks with it. So the next time is as a first one.
    pub(super) fn moved_on(&mut self, leaps: &Leaps) {
        let known = self.known.take().map(|(time, _)| leaps.utc(time).unix);
        self.saved = self.saved.max(known);
    }
}

impl Engine {
    /// True if the gate is open to everything, as in the logs of versions that had none, and for
    /// estimators that are shown as they are.
    fn is_ungated(&self) -> bool {
        let unlimited = self.config.max_step.is_none() && self.config.min_sources == Some(1);
        unlimited && !self.peers().any(|peer| peer.required) || self.follows_one()
    }

    /// Number of servers that must agree.
    pub(super) fn least(&self) -> usize {
        let voters = self.voting().count();
        let default = if voters >= 3 { 2 } else { 1 };
        self.config.min_sources.map_or(default, |least| usize::try_from(least).unwrap_or(voters))
    }

    /// The sources that have a vote: servers, and reference clocks that are trusted.
    pub(super) fn voting(&self) -> impl Iterator<Item = &Peer> {
        let servers = self.sources.iter().filter(|s| s.votes()).map(|s| &s.peer);
        servers.chain(self.refclocks.iter().filter(|r| r.votes()).map(|r| &r.peer))
    }

    /// True if none is required, or one that is agrees with the time as it was just chosen.
    fn is_required_there(&self) -> bool {
        let mut required = self.peers().filter(|peer| peer.required).peekable();
        required.peek().is_none() || required.any(|peer| agrees(&peer))
    }

    /// Number of those with a vote that agree with the time as it was just chosen.
    pub(super) fn agreeing(&self) -> usize {
        self.voting().filter(agrees).count()
    }

    /// Hand that stands against a move: what was published last, if it was promised and is the word
    /// of a server that is still configured, or nobody knows whose.
    pub(super) fn stands(&self) -> Option<Hand> {
        let stands = match &self.gate.hold {
            Some(hold) => hold.stands,
            None => Some(self.hand).filter(|hand| hand.status.bound_holds()),
        };
        let told_by = &self.gate.told_by;
        let teller = |s: &Source| s.votes() && told_by.iter().any(|name| name == s.name());
        let asked = told_by.is_empty() || self.sources.iter().any(teller);
        stands.filter(|_| asked)
    }

    /// True if the real-time clock has made this move as well, against what stands, and against the
    /// system clock: who sets that one sets the real-time clock too, by way of the kernel, and may
    /// follow the same servers.
    fn explained(&self, by: Span, stands: &Hand) -> bool {
        let Some((reading, before)) = self.gate.rtc.zip(self.gate.rtc_offset) else { return false };
        let read = self.leaps.instant(reading.unix, 1 << 63);
        let moved = read - stands.time_at(reading.count) - before;
        let was_set = reading.system.is_some_and(|system| {
            let ahead = reading.unix.saturating_sub(system);
            let gained = |before: i64| Span::from_secs(ahead.saturating_sub(before));
            self.gate.rtc_ahead.is_none_or(|before| (gained(before) - moved).abs() > RTC_READS)
        });
        !was_set
            && by.abs() >= RTC_SHOWS
            && moved.abs() >= RTC_READS
            && (moved - by).abs() <= RTC_READS
    }

    /// Part of the rate of what stands that the counter cannot have by itself; negative: too slow.
    fn beyond(&self, stands: &Hand) -> Rate {
        let beyond = |course: Course| course.beyond(stands, self.settings.nominal);
        self.gate.course.map_or(Rate::ZERO, beyond)
    }

    /// Allows servers to move the time so far by themselves, or says who else has to say so. `room`
    /// is how far both bounds allow for it: so far nobody moves the time, unless step by step.
    /// `drift` is how far they have made it go already, too fast or too slowly.
    fn may_move(
        &self,
        (by, room, drift): (Span, Span, Span),
        agree: usize,
        stands: &Hand,
    ) -> Result<(), Bar> {
        if self.explained(by, stands) {
            return Ok(());
        }
        let least = self.least();
        if by.abs() > room && agree < least {
            return Err(Bar::TooFew { agree, least });
        }
        let moved = (self.gate.moved + by + drift).abs();
        match self.config.max_step {
            Some(limit) if moved > limit.max(self.gate.moved.abs()) => Err(Bar::TooFar { limit }),
            _ => Ok(()),
        }
    }

    /// Decides whether what the sources come to is published.
    pub(super) fn admit(&mut self, chosen: &Chosen, at: Count) -> Result<(), (Bar, Option<Span>)> {
        if self.is_ungated() || self.gate.accepted {
            return Ok(());
        }
        let agree = self.agreeing();
        let Some(stands) = self.stands() else {
            self.first(chosen.estimate.time, agree, at).map_err(|bar| (bar, None))?;
            self.gate.course = None;
            return Ok(());
        };
        let (time, bound, _) = carried(&stands, self.settings.max_wander, at);
        let by = chosen.estimate.time - time;
        // Not by the bound of what all have in common: that may cover samples that are held off.
        let own = self.peers().nth(chosen.index).map_or(Span::ZERO, |peer| {
            let known = peer.known(at).map(|(from, to)| (to - from).half());
            known.or(peer.estimate(at).map(|e| e.bound)).unwrap_or(Span::ZERO)
        });
        let room = bound + own;
        // Once servers have moved it, all that it moves by counts: what they said was believed for
        // as far as its bound reached, and so were small steps, one after the other.
        let drift = self.beyond(&stands).over(stands.period.span(at - stands.base));
        let counts = by.abs() > room || self.gate.stepped || self.gate.moved != Span::ZERO;
        if !counts && drift == Span::ZERO {
            return Ok(());
        }
        self.may_move((by, room, drift), agree, &stands).map_err(|bar| (bar, Some(by)))?;
        if by.abs() > room {
            if !self.is_required_there() && !self.explained(by, &stands) {
                return Err((Bar::Required, Some(by)));
            }
            self.is_believed(by, &stands, at).map_err(|bar| (bar, Some(by)))?;
        }
        self.gate.moved += drift;
        if !self.explained(by, &stands) {
            self.gate.moved += by;
        }
        Ok(())
    }

    /// Decides whether a majority is believed where this move leads to. A server that is held off
    /// there waits for as long as any does: one that was hardly known, or wrong all along, may be
    /// believed long before it, and is not to take the time along with the others' held samples.
    fn is_believed(&mut self, by: Span, stands: &Hand, at: Count) -> Result<(), Bar> {
        if self.explained(by, stands) {
            return Ok(());
        }
        let all = self.votes(at).iter().flatten().count();
        let said = self.voting().filter(|s| agrees(s) && s.hold_off(at).is_none()).count();
        let majority = all - all.saturating_sub(1) / 2;
        if said < majority { Err(Bar::Undecided { said, majority }) } else { Ok(()) }
    }

    /// Until when a source is held off whose time has moved by this, where so many servers say what
    /// it says now, or why for ever.
    pub(super) fn judge(&self, hold_off: &HoldOff, agree: usize, at: Count) -> Result<Until, Bar> {
        let Some(stands) = self.stands().filter(|_| !self.is_ungated()) else {
            return Ok(Until::Vouched(at));
        };
        if self.explained(hold_off.step, &stands) {
            return Ok(Until::Witnessed);
        }
        let (_, bound, _) = carried(&stands, self.settings.max_wander, at);
        let own = (hold_off.newcomers.1 - hold_off.newcomers.0).half();
        self.may_move((hold_off.step, bound + own, Span::ZERO), agree, &stands)?;
        // As fast as a lone server at the most, and no faster than a counter may run off.
        let wait = Span(hold_off.step.abs().0.saturating_mul(COUNTER_MAY));
        let wait = wait.min(self.settings.accept_step_after);
        Ok(Until::Vouched(hold_off.since + self.settings.nominal.counts(wait)))
    }

    /// True if what a source says now is where the clock stands, and what it said before is not: it
    /// was wrong, and is right again.
    pub(super) fn comes_home(&self, hold_off: &HoldOff, at: Count) -> bool {
        let Some(stands) = self.stands().filter(|_| !self.is_ungated()) else { return false };
        let (time, bound, _) = carried(&stands, self.settings.max_wander, at);
        let meets = |(from, to): (Instant, Instant)| from <= time + bound && to >= time - bound;
        // Where nobody else is left to tell, at once.
        let said = self.gate.hold.is_some() || is_said(hold_off);
        said && meets(hold_off.newcomers) && !meets(hold_off.held)
    }

    /// Publishes what stands: what the sources come to is held off.
    pub(super) fn hold(
        &mut self,
        chosen: &Chosen,
        (bar, by): (Bar, Option<Span>),
        at: Count,
        actions: &mut Vec<Action>,
    ) {
        let stands = self.stands().map(|stands| match bar {
            // It does not go on by the rate that they gave it either.
            Bar::TooFar { .. } => {
                let Rate(beyond) = self.beyond(&stands);
                let period = stands.period.scaled(Rate(beyond.saturating_neg()));
                let growth = Rate(stands.growth.0.saturating_add(beyond.saturating_abs()));
                Hand { period, growth, ..stands }
            }
            _ => stands,
        });
        let Some(name) = self.peers().nth(chosen.freshest).map(|peer| peer.name.clone()) else {
            return;
        };
        let more = self.agreeing().saturating_sub(1);
        let who = if more > 0 { format!("{name} and {more} more") } else { name.clone() };
        self.leave_out(bar, by, at);
        let since = self.gate.hold.as_ref().map_or(at, |hold| hold.since);
        let long = match self.settings.nominal.span(at - since) {
            long if long < Span::from_secs(1) => String::new(),
            long => format!(" for {}", time(long)),
        };
        self.reason = match by {
            Some(by) => {
                format!("held off{long}: {who} {by:+} off what was known: {bar}{}", remedies(&name))
            }
            None => format!("held off{long}: {who}: {bar}; to believe it now: {}", remedy(&name)),
        };
        (self.quiet, self.unanswered, self.others) = (None, false, 0);
        let told = self.gate.hold.as_ref().is_some_and(|hold| hold.bar.is_like(&bar));
        let before = self.hand.status;
        if let Some(stands) = stands {
            self.renew_at = Some(at + self.settings.nominal.counts(RENEW));
            self.hand = self.covering(&stands, chosen, at);
        } else {
            self.renew_at = None;
        }
        if before != self.hand.status {
            self.announce(before, actions);
        } else if !told {
            note(actions, Level::Warning, format!("{}: {}", self.hand.status, self.reason));
        }
        self.gate.hold = Some(Hold { stands, bar, since });
        self.hear_overruled(chosen.estimate.time, chosen.estimate.bound, at);
        if stands.is_some() {
            actions.push(Action::Publish(self.hand));
        }
    }

    /// Nobody has a part: those that agree with one another are held off.
    fn leave_out(&mut self, bar: Bar, by: Option<Span>, at: Count) {
        let servers = self.sources.iter_mut().map(|source| &mut source.peer);
        let peers = servers.chain(self.refclocks.iter_mut().map(|refclock| &mut refclock.peer));
        for peer in peers.filter(|peer| peer.trust.agrees()) {
            peer.trust.set(SourceStatus::Truechimer, Some(Cause::Limit(bar, by)));
        }
        let mut change_log = core::mem::take(&mut self.change_log);
        change_log.look(self.peers(), self.follows_one(), at);
        self.change_log = change_log;
    }

    /// Hand that stands, with a bound that covers what the sources come to as well.
    fn covering(&self, stands: &Hand, chosen: &Chosen, at: Count) -> Hand {
        let estimate = &chosen.estimate;
        let (time, bound, growth) = carried(stands, self.settings.max_wander, at);
        let reach = (estimate.time - time).abs() + estimate.bound;
        let disputed = (reach - bound).max(Span::ZERO);
        let apart = estimate.period.relative_to(stands.period);
        let apart = Rate(apart.0.saturating_abs().saturating_add(estimate.growth.0));
        let path = stands.path_bound.min(bound);
        Hand {
            base: at,
            time,
            path_bound: path,
            statistical_bound: bound - path + disputed,
            disputed,
            growth: growth.max(apart),
            imbalance: Span::ZERO,
            likely: None,
            difference_error: growth.max(stands.difference_error),
            status: Status::Holdover,
            leaps: self.leaps,
            void_after: at + stands.period.counts(VOID_AFTER),
            ..*stands
        }
    }

    /// Publishes what the sources come to: nothing is held off any more.
    pub(super) fn admitted(&mut self, at: Count, actions: &mut Vec<Action>) {
        if let Some(hold) = self.gate.hold.take()
            && hold.stands.is_some()
        {
            note(actions, Level::Info, "nothing is held off any more".into());
        }
        if let Some(ahead) = self.gate.local.take() {
            let text = format!(
                "the machine's real-time clock is {ahead:+} off: it is taken for local time, and was \
                 no witness of the first time"
            );
            note(actions, Level::Info, text);
        }
        (self.gate.accepted, self.gate.stepped) = (false, false);
        let agrees =
            |s: &&Source| s.votes() && s.hold_off(at).is_none() && s.peer.trust.votes_with_most();
        let tellers = || self.sources.iter().filter(agrees).map(Source::name);
        // Where all are held off it is what they said before.
        if tellers().next().is_some() && !tellers().eq(&self.gate.told_by) {
            self.gate.told_by = tellers().map(str::to_owned).collect();
        }
        let (hand, wander, nominal) = (self.hand, self.settings.max_wander, self.settings.nominal);
        let course = self.gate.course;
        let course = course.map(|course| course.and(&hand, nominal, wander, at));
        self.gate.course = Some(course.unwrap_or_else(|| Course::of(&hand, nominal, at)));
        let (time, bound, _) = carried(&hand, wander, at);
        self.hear_overruled(time, bound, at);
    }

    /// Those whom the user's word overruled, and who agree by now, have a vote again.
    fn hear_overruled(&mut self, time: Instant, bound: Span, at: Count) {
        let meets = |(from, to): (Instant, Instant)| from <= time + bound && to >= time - bound;
        for source in self.sources.iter_mut().filter(|source| source.peer.trust.overruled) {
            let agrees = source.peer.says_between(at).is_some_and(meets);
            source.peer.trust.overruled = !agrees;
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use truechimer_time::{BootId, CountSpan, CounterId, CounterKind, Epoch, Period};

    /// One that promises 0.5 ppm.
    pub(in crate::engine) fn hand() -> Hand {
        let (wander, base) = (Rate::from_ppb(500), Count(0));
        Hand {
            counter: CounterId { kind: CounterKind::Raw, boot: BootId::default(), epoch: Epoch(0) },
            base,
            time: Instant::default(),
            period: Period::NANOSECOND,
            difference: Period::NANOSECOND,
            difference_error: wander,
            path_bound: Span::ZERO,
            statistical_bound: Span::from_millis(3),
            disputed: Span::from_millis(2),
            growth: wander,
            imbalance: Span::ZERO,
            likely: None,
            status: Status::Holdover,
            leaps: Leaps::default(),
            void_after: base,
        }
    }

    /// (In the first 84 minutes it grew as if the rate stayed where it was.)
    #[test]
    fn what_stands_is_worth_less_as_the_rate_strays() {
        let (hand, wander, base) = (hand(), Rate::from_ppb(500), Count(0));
        for seconds in [0, 60, 2520, 5039, 5040, 20_000, 1_000_000_000] {
            let (_, bound, growth) =
                carried(&hand, wander, base + CountSpan(seconds * 1_000_000_000));
            // An oscillator that moves by 0.5 ppm in every 5040 s, from 0.5 ppm on.
            let wide = i128::from(seconds);
            let micros = 1000 + wide / 2 + wide * wide / 20_160;
            let least = Span::from_nanos_wide(micros * 1000);
            // But for the roundings of the test.
            assert!(bound + Span::from_nanos(1) >= least, "{seconds} s: {bound}");
            assert!(bound <= least + least.half() + Span::from_micros(2), "{seconds} s: {bound}");
            let rate = Rate::from_ppb(500 + 500 * seconds / 5040);
            assert!(growth >= rate && growth <= Rate(rate.0 + wander.0), "{seconds} s");
        }
    }
}
