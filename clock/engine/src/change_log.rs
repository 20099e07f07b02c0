//! Log of who leads, who has a part in the published time and who is left out: a line for each
//! change, and none if there is none.
//!
//! A source that comes and goes with every reply must not fill the log: each has a few lines to
//! spend, and gets a new one every quarter of an hour. What it did meanwhile is counted.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use truechimer_time::{Count, Period, Span};

use crate::cause::Cause;
use crate::event::Level;
use crate::peer::Peer;
use crate::report::{ReasonKind, SourceStatus as Status};

/// Lines that may come in a row ...
const LINES: u32 = 4;
/// ... and one more each time that so long has passed.
const REFILL: Span = Span::from_secs(900);
/// Beginning: who joins or leads within so long belongs to it, and the status says whom we follow.
const BEGINNING: Span = Span::from_secs(64);

/// Part of a source, as far as it is worth a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Part {
    /// Says nothing.
    Absent,
    /// Smears a leap second: that has a line of its own.
    Smeared,
    /// Has a part.
    Used,
    /// Agrees and has none.
    Idle,
    Falseticker,
}

/// Lines to spend.
#[derive(Clone, Copy, Debug)]
struct Lines {
    left: u32,
    /// The last refill.
    at: Count,
    /// Changes that could not be told.
    untold: u64,
}

impl Lines {
    fn new(at: Count) -> Lines {
        Lines { left: LINES, at, untold: 0 }
    }

    /// Takes one, if there is any.
    fn take(&mut self, at: Count, nominal: Period) -> bool {
        let passed = nominal.span(at - self.at).max(Span::ZERO).0 / REFILL.0;
        if passed > 0 {
            let more = u32::try_from(passed).unwrap_or(LINES);
            (self.left, self.at) = (self.left.saturating_add(more).min(LINES), at);
        }
        let any = self.left > 0;
        self.left = self.left.saturating_sub(1);
        any
    }

    /// Words on those that could not be told.
    fn untold(&mut self) -> String {
        match core::mem::take(&mut self.untold) {
            0 => String::new(),
            1 => " (and one change before, which was not logged)".into(),
            n => format!(" (and {n} changes before, which were not logged)"),
        }
    }
}

/// One source.
#[derive(Clone, Copy, Debug)]
struct Member {
    now: Part,
    /// Reason for its status, and since when it has that.
    reason: Option<ReasonKind>,
    since: Count,
    told: Part,
    lines: Lines,
}

/// State that was told, and is so.
#[derive(Clone, Debug, Default)]
pub(crate) struct ChangeLog {
    members: BTreeMap<u32, Member>,
    leader: Option<Leader>,
    /// When a time was first published, or again.
    begun: Option<Count>,
    /// The published time is that of the one who leads, not a combination.
    single: bool,
}

#[derive(Clone, Debug)]
struct Leader {
    id: u32,
    told: u32,
    /// Name of the one that was told of, should it be gone.
    name: String,
    lines: Lines,
}

/// A line for the log.
pub(crate) type Line = (Level, String);

impl ChangeLog {
    /// Only these sources are left.
    pub(crate) fn keep(&mut self, is_there: impl Fn(u32) -> bool) {
        self.members.retain(|id, _| is_there(*id));
    }

    /// The counter broke: what was counted before says nothing of how long ago it was.
    pub(crate) fn new_epoch(&mut self, at: Count) {
        for member in self.members.values_mut() {
            (member.since, member.lines.at) = (at, at);
        }
        if let Some(leader) = &mut self.leader {
            leader.lines.at = at;
        }
        self.begun = None;
    }

    /// Since when a source has had its status for the reason that it has.
    pub(crate) fn since(&self, id: u32) -> Option<Count> {
        self.members.get(&id).map(|member| member.since)
    }

    /// Looks who has which part by now. `single`: the time is not combined, but that of the one who
    /// leads.
    pub(crate) fn look<'v>(
        &mut self,
        peers: impl Iterator<Item = &'v Peer>,
        single: bool,
        at: Count,
    ) {
        self.single = single;
        for peer in peers {
            let now = part(peer, single);
            let member = self.members.entry(peer.id.0).or_insert(Member {
                now: Part::Absent,
                reason: None,
                since: at,
                told: Part::Absent,
                lines: Lines::new(at),
            });
            let reason = peer.trust.cause().map(Cause::kind);
            if member.reason != reason {
                (member.reason, member.since) = (reason, at);
            }
            if member.now != now {
                member.now = now;
                member.lines.untold += u64::from(member.told != now);
            }
        }
    }

    /// Lines on what is new since they were told last. `first`: the time was not published before.
    pub(crate) fn lines<'v>(
        &mut self,
        peers: impl Iterator<Item = &'v Peer> + Clone,
        first: bool,
        at: Count,
        nominal: Period,
    ) -> Vec<Line> {
        let begun = if first { at } else { self.begun.unwrap_or(at) };
        self.begun = Some(begun);
        let first = nominal.span(at - begun) < BEGINNING;
        let each = peers.clone().filter_map(|peer| self.line(peer, first, at, nominal));
        let mut lines: Vec<Line> = each.collect();
        lines.extend(self.lead(peers, first, at, nominal));
        lines
    }

    fn line(&mut self, peer: &Peer, first: bool, at: Count, nominal: Period) -> Option<Line> {
        let single = self.single;
        let member = self.members.get_mut(&peer.id.0)?;
        let now = member.now;
        if first && now == Part::Used {
            // Who is followed from the start on is said with the status.
            (member.told, member.lines.untold) = (now, 0);
        }
        if member.told == now {
            return None;
        }
        let line = told(peer, single, member.told, now, at);
        if line.is_some() && !member.lines.take(at, nominal) {
            return None;
        }
        // This one is told, or needs no line.
        member.lines.untold = member.lines.untold.saturating_sub(1);
        member.told = now;
        let (level, text) = line?;
        let untold = member.lines.untold();
        Some((level, format!("{}: {text}{untold}", peer.name)))
    }

    fn lead<'v>(
        &mut self,
        mut peers: impl Iterator<Item = &'v Peer> + Clone,
        first: bool,
        at: Count,
        nominal: Period,
    ) -> Option<Line> {
        let of = |id: u32| move |peer: &&Peer| peer.id.0 == id;
        let now = peers.clone().find(|peer| peer.trust.is_selected())?;
        let id = now.id.0;
        let leader = self.leader.get_or_insert_with(|| Leader {
            id,
            told: id,
            name: now.name.clone(),
            lines: Lines::new(at),
        });
        if leader.id != id {
            leader.id = id;
            leader.lines.untold += u64::from(leader.told != id);
        }
        if first {
            (leader.told, leader.name, leader.lines.untold) = (id, now.name.clone(), 0);
        }
        if leader.told == id || !leader.lines.take(at, nominal) {
            return None;
        }
        leader.lines.untold = leader.lines.untold.saturating_sub(1);
        let reason = match peers.find(of(leader.told)) {
            None => "no longer asked".to_owned(),
            Some(old) => match (part(old, self.single), old.trust.cause(), old.trust.weight()) {
                (Part::Falseticker, ..) => "a falseticker".into(),
                (_, Some(cause), _) => cause.to_string(),
                (Part::Used, _, Some(weight)) => format!("{} now", share(weight)),
                (Part::Idle, ..) => "it is the worse of them now".into(),
                _ => "it says nothing that counts".into(),
            },
        };
        let weight = now.trust.weight().map_or_else(String::new, |weight| {
            format!(", with {} of where the time stands", share(weight))
        });
        let glides = if self.single { "" } else { "; the time glides, it does not step" };
        let text = format!(
            "{} is selected from now on{weight}, instead of {} ({reason}){glides}{}",
            now.name.clone(),
            leader.name,
            leader.lines.untold()
        );
        (leader.told, leader.name) = (id, now.name.clone());
        Some((Level::Info, text))
    }
}

fn part(peer: &Peer, single: bool) -> Part {
    match (peer.trust.status(), peer.trust.cause()) {
        (Status::Unselectable, Some(Cause::LeapSmear)) => Part::Smeared,
        (Status::Unselectable | Status::Unreachable, _) => Part::Absent,
        (Status::Candidate, Some(Cause::Waiting)) => Part::Absent,
        (Status::Candidate | Status::Falseticker, _) => Part::Falseticker,
        (_, Some(_)) if !peer.trust.was_part() => Part::Idle,
        (Status::Selected, _) => Part::Used,
        _ if single => Part::Idle,
        _ => Part::Used,
    }
}

/// The line about one that had a part, or none, and now has another. Of a `single` one that is
/// followed the line about the leader tells.
fn told(peer: &Peer, single: bool, before: Part, now: Part, at: Count) -> Option<Line> {
    let (weight, why) = (peer.trust.weight(), peer.trust.cause());
    if single {
        return told_of_single(why, before, now);
    }
    let timed_out = matches!(why, Some(Cause::TimedOut(_)));
    let overruled = matches!(why, Some(Cause::Overruled));
    let why = why.map(Cause::to_string).unwrap_or_default();
    let with = weight.map_or_else(String::new, |weight| format!(" ({})", share(weight)));
    Some(match (before, now) {
        (_, Part::Falseticker) if overruled => (
            Level::Warning,
            format!("falseticker: {why}: it has no vote and no part in the time until it agrees"),
        ),
        (_, Part::Falseticker) => (
            Level::Warning,
            format!(
                "falseticker: {why}: it has no part in the time until it agrees again, and the time \
                 stays where the majority puts it"
            ),
        ),
        (Part::Falseticker, Part::Used) => {
            (Level::Info, format!("agrees with the majority again: has a part in the time{with}"))
        }
        (Part::Falseticker, Part::Idle) => (
            Level::Info,
            format!("agrees with the majority again, but has no part in the time: {why}"),
        ),
        (_, Part::Used) => (Level::Info, joins(peer, at) + &with),
        (Part::Used, Part::Idle) => (
            Level::Info,
            format!("has no part in the time any more: {why}; the others keep it where it is"),
        ),
        (_, Part::Idle) => (Level::Info, format!("has no part in the time: {why}")),
        (_, Part::Absent) if timed_out => {
            (Level::Warning, format!("{why}; the time is where those that answer put it"))
        }
        (Part::Used, Part::Absent) => {
            (Level::Info, "has no part in the time any more: it says nothing that counts".into())
        }
        (_, Part::Absent | Part::Smeared) => return None,
    })
}

/// Says why a source joins: who is long silent has a part only while nobody else says anything.
fn joins(peer: &Peer, at: Count) -> String {
    let last = peer.estimate(at).map(|e| (peer.left(&e, at), peer.age(&e, at)));
    match last {
        Some((left, age)) if left <= Span::ZERO && peer.is_proven() => {
            format!("has a part in the time by what it said {age} ago, as nobody answers now")
        }
        _ => "has a part in the time from now on".into(),
    }
}

/// Line where one source is followed at a time, and the others have no part anyway.
fn told_of_single(why: Option<&Cause>, before: Part, now: Part) -> Option<Line> {
    let text = match (before, now, why) {
        (_, Part::Falseticker, Some(why)) => {
            return Some((Level::Warning, format!("falseticker: {why}")));
        }
        (_, Part::Absent, Some(why @ Cause::TimedOut(_))) => {
            return Some((Level::Warning, why.to_string()));
        }
        (Part::Falseticker, Part::Used | Part::Idle, None) => {
            "agrees with the majority again".into()
        }
        (Part::Falseticker, Part::Idle, Some(why)) => format!("no falseticker any more, but {why}"),
        (_, Part::Idle, Some(why)) => format!("cannot be followed: {why}"),
        (Part::Used, Part::Absent, _) => "says nothing that counts any more".into(),
        _ => return None,
    };
    Some((Level::Info, text))
}

/// A share in words.
fn share(weight: f64) -> String {
    let percent = 100.0 * weight;
    if percent < 0.5 { "less than 1 %".into() } else { format!("{percent:.0} %") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::SourceId;
    use crate::method::{Beginning, Standard};
    use crate::peer::Filter;
    use crate::peer::Role;
    use crate::report::SourceKind;
    use truechimer_feedforward::{RatePrior, Settings};
    use truechimer_time::{CountSpan, Rate};

    /// A count from before says nothing, however far the counter went back.
    #[test]
    fn lines_come_back_in_a_new_epoch() {
        let at = |seconds: u64| Count(seconds * 1_000_000_000);
        let (before, after) = (at(500_000), at(10));
        let mut lines = Lines::new(before);
        while lines.take(before, Period::NANOSECOND) {}
        let (told, now) = (Part::Used, Part::Used);
        let member = Member { now, reason: None, since: before, told, lines };
        let mut change_log = ChangeLog { begun: Some(before), ..ChangeLog::default() };
        change_log.members.insert(7, member);
        change_log.new_epoch(after);
        assert_eq!((change_log.since(7), change_log.begun), (Some(after), None));
        let mut lines = change_log.members[&7].lines;
        assert_eq!([909, 911].map(|s| lines.take(at(s), Period::NANOSECOND)), [false, true]);
    }

    #[test]
    fn a_reason_is_as_old_as_its_kind() {
        let settings = Settings {
            nominal: Period::NANOSECOND,
            resolution: CountSpan(1),
            max_wander: Rate::from_ppb(500),
            accept_step_after: Span::from_secs(3600),
            asymmetry: None,
            pulse: false,
        };
        let rate = RatePrior { period: Period::NANOSECOND, error: Rate::from_ppb(500_000) };
        let filter = Filter::new(&Standard, &Beginning { settings, rate, time: None, poll: 16 });
        let mut peer = Peer::new(SourceId(1), "s1".into(), SourceKind::Server, Role::Votes, filter);
        let mut change_log = ChangeLog::default();
        let ms = Span::from_millis;
        for (at, status, cause, since) in [
            (1, Status::Truechimer, Cause::Outlier(ms(2)), 1),
            (2, Status::Truechimer, Cause::Outlier(ms(3)), 1),
            (3, Status::Truechimer, Cause::Stale(ms(3)), 3),
            (4, Status::Falseticker, Cause::Outvoted(ms(3)), 4),
        ] {
            peer.trust.set(status, Some(cause));
            change_log.look(core::iter::once(&peer), false, Count(at));
            assert_eq!(change_log.since(1), Some(Count(since)));
        }
    }

    #[test]
    fn lines_are_few_and_come_back() {
        let at = |seconds: u64| Count(seconds * 1_000_000_000);
        let mut lines = Lines::new(at(0));
        let mut taken = |seconds| lines.take(at(seconds), Period::NANOSECOND);
        assert_eq!([0, 1, 2, 3, 4, 5].map(&mut taken), [true, true, true, true, false, false]);
        assert_eq!([899, 901, 902].map(&mut taken), [false, true, false]);
        // However long it was, it is not more than at the beginning.
        assert_eq!(
            [90_000, 90_001, 90_002, 90_003, 90_004].map(&mut taken),
            [true, true, true, true, false]
        );
    }
}
