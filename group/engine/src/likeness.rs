//! Programs that read unlike: found by their calls, judged by a majority of them, and fenced.
//!
//! Each round is decided for a call as well as a value, the same at all members. A program that
//! reads the round by another call does other work than its synchronizer, and one of the two is
//! wrong. Its member says so in the stream: that opens a *contest* about the round, in which every
//! member says by which call its own program has read that round, or that it never will. So each
//! reading is compared with the others' at the same round, however far apart the programs are, and
//! nothing is sent as long as they are alike.
//!
//! Once more than half of the universe have read the round by the same call, all whose programs
//! have read it by another are *fenced*, at one place of the stream: such a program gets neither
//! values nor messages nor commits until it begins anew, and counts as none meanwhile. A member
//! whose program takes checkpoints leaves, at the end of the message that fences it, and comes in
//! anew with another's. While there is no such majority nobody is fenced, and no reply is committed
//! that depends on the round: those that have not read so far may be like either. What a program
//! says before any other has read a round by another call is not held up, though it be the one that
//! is fenced later: to wait for the others' programs at each round would be a wait for the slowest
//! of a majority, for ever where threads of theirs wait for each other in another order.

use std::collections::{BTreeMap, BTreeSet};

use crate::engine::Engine;
use crate::event::Notice;
use crate::message::{Ballot, Contest, Entry, Kept, Stage, Vote};
use crate::outgoing::AGAIN_NS;
use crate::settings::Group;
use crate::state::State;
use crate::types::{Call, Fence, GroupTime, Member, Mode, Point, Round, Thread};

/// Beyond all places.
pub(crate) const EVERYWHERE: Point = Point { generation: u64::MAX, index: u64::MAX };
/// The most contests at a time.
pub(crate) const MOST_CONTESTS: usize = 64;
/// The most rounds of which it is known here that the program has read them by another call.
const MOST_ODD: usize = 64;
/// The most rounds of which it is known here that nothing is known.
const MOST_LOST: usize = 64;

/// A round that the program here has read by another call than it was decided for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Odd {
    at: Point,
    decided: Call,
    call: Call,
    synchronizer: Member,
    /// Known to the group, or of no interest to it: its synchronizer is fenced.
    said: bool,
}

/// Rounds that the program here has read unlike.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Likeness {
    /// Rounds decided at this place or before are none of the program's here, or forgotten.
    began: Point,
    odd: BTreeMap<(Thread, Round), Odd>,
    /// Places of later rounds of which nothing is known: those that there was no room for in
    /// `odd`, and those that the program gave up.
    lost: BTreeSet<Point>,
    /// The last vote sent, and when.
    told: Option<((Thread, Round), i64)>,
}

impl Likeness {
    /// The program here begins at this place.
    pub(crate) fn begin(&mut self, began: Point) {
        *self = Likeness { began, ..Likeness::default() };
    }

    /// Notes a round. Where there is no room the earliest goes: if possible one that was said.
    fn note(&mut self, key: (Thread, Round), odd: Odd) {
        self.odd.insert(key, odd);
        if self.odd.len() > MOST_ODD {
            let first = self.odd.iter().min_by_key(|(_, odd)| (!odd.said, odd.at));
            let gone = first.map(|(key, _)| *key).and_then(|key| self.odd.remove(&key));
            gone.into_iter().for_each(|odd| self.lose(odd.at));
        }
    }

    /// Of a round that was decided there it is not known by which call the program has read it.
    pub(crate) fn lose(&mut self, at: Point) {
        self.lost.insert(at);
        if self.lost.len() > MOST_LOST {
            self.began = self.began.max(self.lost.pop_first().unwrap_or_default());
        }
    }
}

impl Contest {
    fn key(&self) -> (Thread, Round) {
        (self.thread, self.round)
    }

    fn of(&self, member: Member) -> Option<&Ballot> {
        self.ballots.iter().find(|ballot| ballot.member == member)
    }

    /// True for a program that has read the round by another call than it was decided for.
    fn contests(&self, ballot: &Ballot) -> bool {
        ballot.call.is_some_and(|call| call != self.decided)
    }

    /// Call by which a majority has read the round.
    fn verdict(&self, group: &Group) -> Option<Call> {
        let same =
            |call: &Call| self.ballots.iter().filter(|ballot| ballot.call == Some(*call)).count();
        let calls = self.ballots.iter().filter_map(|ballot| ballot.call);
        calls.into_iter().find(|call| group.majority(same(call)))
    }
}

impl State {
    /// Takes up a vote: the members whose programs are fenced by it. None if there is no room for it, or the contest
    /// is about that round of another stream: it is to be said again, and nothing later is opened by its sender until
    /// that contest is over. Replies wait meanwhile.
    fn vote(&mut self, group: &Group, from: Member, vote: &Vote) -> Option<Vec<(Member, Fence)>> {
        let &Vote { serial, thread, round, at, decided, call } = vote;
        let votes = |run: crate::message::Run| run.serial == serial && run.is_there();
        if !self.live.get(&from).is_some_and(|peer| votes(peer.run)) {
            return None;
        }
        let found = self.contests.binary_search_by_key(&(thread, round), Contest::key);
        let place = match found {
            Ok(place) => place,
            // Only a difference opens one.
            Err(place)
                if self.contests.len() < MOST_CONTESTS
                    && call.is_some_and(|call| call != decided)
                    && thread >= Thread::FIRST
                    && thread.is_programs()
                    && round.0 < self.next(thread) =>
            {
                let (since, ballots) = (GroupTime(self.last), Vec::new());
                let contest = Contest { thread, round, at, decided, since, ballots };
                self.contests.insert(place, contest);
                place
            }
            Err(_) if self.contests.len() >= MOST_CONTESTS => return None,
            Err(_) => return Some(Vec::new()),
        };
        let contest = self.contests.get_mut(place)?;
        if (contest.at, contest.decided) != (at, decided) {
            return None;
        }
        if contest.of(from).is_some() {
            return Some(Vec::new());
        }
        let after = contest.ballots.partition_point(|ballot| ballot.member < from);
        contest.ballots.insert(after, Ballot { member: from, serial, call });
        let right = contest.verdict(group);
        let unlike: Vec<(Member, Call)> = contest
            .ballots
            .iter()
            .filter_map(|ballot| Some((ballot.member, ballot.call?)))
            .filter(|(_, call)| right.is_some_and(|right| *call != right))
            .collect();
        let words =
            [from.0.into(), serial, thread.0, round.0, call.map_or(u64::MAX, |it| it as u64)];
        self.record(&words);
        self.refresh(group);
        let since = GroupTime(self.last);
        let fence = |(member, ours): (Member, Call)| {
            Some((member, Fence { thread, round, ours, theirs: right?, since }))
        };
        Some(unlike.into_iter().filter_map(fence).collect())
    }

    /// Drops what programs have said that are not there any more, and the contests that are over.
    pub(crate) fn tidy_contests(&mut self, group: &Group) {
        if self.contests.is_empty() {
            return;
        }
        let mut contests = std::mem::take(&mut self.contests);
        contests.retain_mut(|contest| {
            contest.ballots.retain(|ballot| {
                let run = self.live.get(&ballot.member).map(|peer| peer.run);
                run.is_some_and(|run| run.is_there() && run.serial == ballot.serial)
            });
            let open = contest.ballots.iter().any(|ballot| contest.contests(ballot));
            let mut there = self.replicas(group).filter(|peer| peer.run.is_there());
            let missing = there.any(|peer| contest.of(peer.member).is_none());
            // Where all have voted it stays while two differ and nobody can tell who is right.
            let mut calls = contest.ballots.iter().filter_map(|ballot| ballot.call);
            let first = calls.next();
            let differ = calls.any(|call| Some(call) != first);
            open && (missing || (differ && contest.verdict(group).is_none()))
        });
        self.contests = contests;
    }

    /// Difference of a member's program from a majority's, or from what a round was decided for.
    pub(crate) fn differs(&self, group: &Group, member: Member) -> Option<Fence> {
        let peer = self.live.get(&member)?;
        let open = || {
            let open = self.contests.iter().filter(|contest| contest.verdict(group).is_none());
            open.into_iter().find_map(|contest| {
                let ballot = contest.of(member).filter(|ballot| contest.contests(ballot))?;
                let &Contest { thread, round, decided: theirs, since, .. } = contest;
                Some(Fence { thread, round, ours: ballot.call?, theirs, since })
            })
        };
        peer.fence.or_else(open)
    }

    /// Place up to which two members' programs count for each other's replies: before the first
    /// round about which programs are at odds and nobody can tell who is right, unless both have
    /// said the same of it. One that has not read so far may be like either.
    pub(crate) fn alike_before(&self, group: &Group, one: Member, two: Member) -> Point {
        let agree = |contest: &Contest| {
            let both = contest.of(one).zip(contest.of(two));
            both.is_some_and(|(one, two)| one.call == two.call)
        };
        let open = self.contests.iter().filter(|contest| contest.verdict(group).is_none());
        before(open.filter(|contest| !agree(contest)).map(|contest| contest.at).min())
    }
}

/// Last place before the one where something is wrong, if anything is.
fn before(wrong: Option<Point>) -> Point {
    wrong.map_or(EVERYWHERE, |at| Point { index: at.index.saturating_sub(1), ..at })
}

impl Engine {
    /// The program here has read a round by another call than it was decided for: whether that says
    /// something of it, and not of a synchronizer that is fenced.
    pub(crate) fn read_oddly(&mut self, kept: &Kept, call: Call) -> bool {
        let &Kept { thread, round, call: decided, value } = kept;
        let synchronizer = value.synchronizer;
        // Noted all the same: once it has begun anew another's word may open a contest about it.
        let said = self.is_fenced(synchronizer);
        if thread.is_programs() {
            let odd = Odd { at: value.point, decided, call, synchronizer, said };
            self.likeness.note((thread, round), odd);
        }
        !said
    }

    fn is_fenced(&self, member: Member) -> bool {
        let peer = self.state.as_ref().and_then(|state| state.live.get(&member));
        peer.is_some_and(|peer| peer.fence.is_some())
    }

    /// Difference for which the program here is fenced.
    pub fn fence(&self) -> Option<Fence> {
        self.start.fence()
    }

    /// Vote that this member owes.
    pub(crate) fn vote_owed(&self) -> Option<Vote> {
        let state = self.live().filter(|_| self.group.mode != Mode::Passive)?;
        let own = self.own.member;
        let run = state.live.get(&own)?.run;
        if !self.is_replica()
            || self.installing
            || !run.is_there()
            || run.serial != self.start.serial()
        {
            return None;
        }
        let owed = state.contests.iter().filter(|contest| contest.of(own).is_none());
        let answer = owed.filter_map(|contest| self.ballot(contest)).next();
        answer.or_else(|| self.opening(state)).map(|vote| Vote { serial: run.serial, ..vote })
    }

    /// Place at which the program here began, or this member was let in.
    fn program_since(&self) -> Point {
        self.likeness.began.max(self.commits.entered)
    }

    /// Answer to a contest; none: the program here has not come so far, or it is of another stream,
    /// where the round was decided otherwise.
    fn ballot(&self, contest: &Contest) -> Option<Vote> {
        if contest.ballots.iter().any(|ballot| self.commits.differs(ballot.member)) {
            return None;
        }
        let &Contest { thread, round, at, decided, .. } = contest;
        let next = self.live()?.next(thread);
        let read = self.threads.all.get(&thread).map_or(next, |local| local.read(next));
        let call = if at <= self.program_since() || self.threads.is_behind(thread) {
            None
        } else if read <= round.0 {
            return None;
        } else if let Some(odd) = self.likeness.odd.get(&contest.key()) {
            Some(odd.call)
        } else {
            Some(decided).filter(|_| !self.likeness.lost.contains(&at))
        };
        Some(Vote { serial: 0, thread, round, at, decided, call })
    }

    /// The first difference of which nothing was said, where none of this member's is open.
    fn opening(&self, state: &State) -> Option<Vote> {
        let own = |contest: &Contest| contest.of(self.own.member).copied();
        let open = |contest: &Contest| own(contest).is_some_and(|it| contest.contests(&it));
        if state.contests.len() >= MOST_CONTESTS || state.contests.iter().any(open) {
            return None;
        }
        let (&(thread, round), odd) = self.untold().min_by_key(|(_, odd)| odd.at)?;
        let &Odd { at, decided, call, .. } = odd;
        Some(Vote { serial: 0, thread, round, at, decided, call: Some(call) })
    }

    /// Differences of the program here of which the group does not know.
    fn untold(&self) -> impl Iterator<Item = (&(Thread, Round), &Odd)> {
        let since = self.program_since();
        self.likeness.odd.iter().filter(move |(_, odd)| !odd.said && odd.at > since)
    }

    /// Place before all that: what the program here says from there on waits for the others' word.
    pub(crate) fn told_before(&self) -> Point {
        before(self.untold().map(|(_, odd)| odd.at).min())
    }

    /// Time at which a vote is due, by the physical clock.
    pub(crate) fn vote_due(&self) -> Option<i64> {
        let vote = self.vote_owed()?;
        let told = self.likeness.told.filter(|(key, _)| *key == (vote.thread, vote.round));
        Some(told.map_or(i64::MIN, |(_, at)| at.saturating_add(AGAIN_NS)))
    }

    pub(crate) fn tell_votes(&mut self, entries: &mut Vec<Entry>) {
        let now = self.now.physical;
        if self.vote_due().is_some_and(|due| due <= now)
            && let Some(vote) = self.vote_owed()
        {
            self.likeness.told = Some(((vote.thread, vote.round), now));
            entries.push(Entry::Vote(vote));
        }
    }

    /// Lets a vote take effect on the state.
    pub(crate) fn voted(&mut self, from: Member, vote: &Vote) {
        let counts = self.group.counts(from);
        let Some(state) = self.state.as_mut().filter(|_| counts) else { return };
        let ours = from == self.own.member && vote.serial == self.start.serial();
        let Some(fenced) = state.vote(&self.group, from, vote) else { return };
        if let Some(odd) = self.likeness.odd.get_mut(&(vote.thread, vote.round)).filter(|_| ours) {
            odd.said = true;
        }
        for (member, fence) in fenced {
            self.fence_off(member, fence);
        }
    }

    /// A member's program is fenced from here on.
    fn fence_off(&mut self, member: Member, fence: Fence) {
        let Some(state) = self.state.as_mut() else { return };
        let leaves = state.live.get(&member).is_some_and(|peer| peer.gives);
        let serial = state.live.get(&member).map(|peer| peer.run.serial);
        state.record(&[member.0.into(), fence.thread.0, fence.round.0]);
        if leaves {
            state.leave(&self.group, member);
        } else {
            state.change(member, |peer| {
                (peer.run.stage, peer.fence) = (Stage::Fenced, Some(fence));
            });
            state.refresh(&self.group);
        }
        // So its other rounds need no word.
        let others = self.likeness.odd.values_mut().filter(|odd| odd.synchronizer == member);
        others.for_each(|odd| odd.said = true);
        self.notice(Notice::Fenced { member, fence });
        // Another may have started here since, of which nothing has been heard.
        let ours = member == self.own.member
            && self.catching.is_none()
            && serial == Some(self.start.serial());
        match (ours, leaves) {
            (true, true) => self.start.leave_for(fence),
            (true, false) => self.deprive(fence),
            (false, _) => {}
        }
    }

    /// The program here, which differs, gets nothing until it begins anew.
    pub(crate) fn deprive(&mut self, fence: Fence) {
        self.start.fence_off(fence);
        self.counts.gaps += 1;
        self.withhold();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_there_is_no_room_for_is_the_earliest_first_what_was_said() {
        let point = |index: u64| Point { generation: 1, index };
        let mut likeness = Likeness::default();
        let key = |n: u64| (Thread::FIRST, Round(n));
        for n in 1..=MOST_ODD as u64 + 2 {
            let (decided, call) = (Call::Time, Call::Group);
            let odd = Odd { at: point(n), decided, call, synchronizer: Member(1), said: n == 9 };
            likeness.note(key(n), odd);
        }
        let gone: Vec<Point> = likeness.lost.iter().copied().collect();
        assert_eq!((gone, likeness.odd.len()), (vec![point(1), point(9)], MOST_ODD));
        assert!([1, 9].iter().all(|n| !likeness.odd.contains_key(&key(*n))));
        // Of those that are lost the earliest are as good as none of the program's.
        for n in 100..100 + MOST_LOST as u64 {
            likeness.lose(point(n));
        }
        assert_eq!((likeness.began, likeness.lost.len()), (point(9), MOST_LOST));
    }
}
