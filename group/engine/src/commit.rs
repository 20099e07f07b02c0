//! Output commit: who has delivered how much, by the headers of their messages.

use std::collections::{BTreeMap, BTreeSet};

use crate::course::{Course, Way};
use crate::engine::Engine;
use crate::event::{Action, Notice, Rejection};
use crate::likeness::EVERYWHERE;
use crate::message::Message;
use crate::state::State;
use crate::threads::Pending;
use crate::types::{Agreed, Call, Member, Mode, Phase, Point, Round, Thread};

/// Words heard of the others, and those who wait for them.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Commits {
    /// The last header of each live member in this or an earlier generation.
    pub(crate) heard: BTreeMap<Member, Heard>,
    /// Course that we have come through since we were let in.
    pub(crate) course: Course,
    /// Replicas that speak as live members and are none here, or that are not where we are: since
    /// when, and when they last did.
    rivals: BTreeMap<Member, (i64, i64)>,
    /// Replicas that have gone another way than we since we were let in, and have not been let in
    /// since; those too that have left.
    strays: BTreeSet<Member>,
    /// While somebody's stream differs from ours, or may: when a header is due that lets all see
    /// what ours is, and how many there have been.
    doubt: Option<(i64, u32)>,
    /// The last generation in which more than half of the universe was heard as live.
    pub(crate) established: u64,
    /// The greatest index of this generation that any header delivered here acknowledged.
    pub(crate) confirmed: u64,
    /// Place where we were let in; nothing before it is known here.
    pub(crate) entered: Point,
    /// Replies, and readings of the time at present, that wait.
    waiting: BTreeMap<(Point, u64), Waiting>,
    /// Number of these that are readings.
    readings: usize,
    serial: u64,
    /// The greatest place that somebody has asked us to acknowledge.
    pub(crate) asked: Option<Point>,
    /// Our own last acknowledgement that counted, and the generation of our last header.
    pub(crate) said: Point,
    pub(crate) said_generation: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Heard {
    /// The generation that its last message came from.
    pub(crate) generation: u64,
    /// The last acknowledgement that counts.
    pub(crate) acknowledged: Point,
    /// True if it has delivered something else than was delivered here.
    differs: bool,
}

/// Word that waits for a majority.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Word {
    /// A reply, by the asker's number for it.
    Reply(u64),
    /// The value of a reading of the time at present.
    Reading(Thread, Round, Agreed),
}

impl Word {
    fn is_reading(&self) -> bool {
        matches!(self, Word::Reading(..))
    }
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Waiting {
    word: Word,
    since: i64,
    asked: Option<i64>,
}

/// After this long an unanswered question is put again, ns.
const AGAIN_NS: i64 = 1_000_000_000;
/// After this long a member in doubt says again where it is, each time twice as long, ns; some
/// seconds at most.
const DOUBT_NS: i64 = 10_000_000;
/// Time for which one speaks for one that is not with us, ns: what it had said before it was cut
/// off or we were let in does not come for so long. Where it does all the same, as the ring stands
/// still in the midst of it, we come in anew without need: that costs a moment, and no time.
const RIVAL_NS: i64 = 100_000_000;

impl Commits {
    /// A new generation begins here.
    pub(crate) fn generation(&mut self, point: Point) {
        self.confirmed = point.index;
        self.rivals.clear();
    }

    /// We are let in, with this state.
    pub(crate) fn enter(&mut self, state: &State) {
        self.heard.clear();
        self.course.begin(state.point, state.history);
        self.doubt = None;
        self.rivals.clear();
        self.strays.clear();
        self.confirmed = state.point.index;
        self.asked = None;
        self.said = Point::default();
        self.said_generation = 0;
    }

    /// True if this live member has delivered something else than what was delivered here.
    pub(crate) fn differs(&self, member: Member) -> bool {
        self.heard.get(&member).is_some_and(|heard| heard.differs)
    }

    /// A replica that asks to be let in has come to that place by that history.
    pub(crate) fn comes_from(&mut self, member: Member, point: Point, history: u64) {
        if self.course.way(point, history) == Way::Other {
            self.strays.insert(member);
        }
    }

    /// A replica is let in, with the state that is here.
    pub(crate) fn lets_in(&mut self, member: Member) {
        self.strays.remove(&member);
    }

    /// A replica speaks, from there, as one that is not with us; from nowhere if it is not live.
    fn speaks(&mut self, member: Member, point: Point, now: i64) {
        if point == Point::default() {
            self.rivals.remove(&member);
            return;
        }
        self.rivals.entry(member).or_insert((now, now)).1 = now;
        // Mostly that is over by then.
        self.doubt.get_or_insert((now.saturating_add(2 * DOUBT_NS), 0));
    }

    /// True if it does so not only by what was under way.
    fn rivals(&self, member: Member) -> bool {
        let long = |(first, last): &(i64, i64)| last.saturating_sub(*first) > RIVAL_NS;
        self.rivals.get(&member).is_some_and(long)
    }

    /// When a member in doubt is to say where it is.
    pub(crate) fn doubt_due(&self) -> Option<i64> {
        Some(self.doubt?.0)
    }

    /// A header has been sent.
    pub(crate) fn doubt_said(&mut self, now: i64) {
        if let Some((due, times)) = &mut self.doubt
            && *due <= now
        {
            *due = now.saturating_add(DOUBT_NS << *times);
            *times = (*times + 1).min(9);
        }
    }

    /// Nothing that waits can be known any more: that.
    fn fail(&mut self) -> Vec<Word> {
        self.readings = 0;
        std::mem::take(&mut self.waiting).into_values().map(|waiting| waiting.word).collect()
    }

    fn wait(&mut self, word: Word, point: Point, since: i64) {
        self.serial += 1;
        self.readings += usize::from(word.is_reading());
        self.waiting.insert((point, self.serial), Waiting { word, since, asked: None });
    }

    /// A reading of the time at present has its value, which is handed out when a majority has it.
    pub(crate) fn hold(&mut self, thread: Thread, round: Round, value: Agreed, now: i64) {
        self.wait(Word::Reading(thread, round, value), value.point, now);
    }

    /// Nobody waits for that thread's reading any more: whether it was held.
    pub(crate) fn forget(&mut self, thread: Thread) -> bool {
        let before = self.waiting.len();
        self.waiting
            .retain(|_, waiting| !matches!(waiting.word, Word::Reading(it, ..) if it == thread));
        let gone = before - self.waiting.len();
        self.readings -= gone;
        gone > 0
    }

    /// Number of replies that wait.
    pub(crate) fn replies(&self) -> usize {
        self.waiting.len() - self.readings
    }

    /// Number of readings of the time at present that have a value, and wait.
    pub(crate) fn readings(&self) -> usize {
        self.readings
    }

    /// Words that a majority has, which wait no longer: replies up to the one place, readings up to
    /// the other.
    fn ready(&mut self, replies: Option<Point>, readings: Option<Point>) -> Vec<Word> {
        let Some(upto) = replies.max(readings) else { return Vec::new() };
        let has = |point: Point, word: &Word| {
            Some(point) <= if word.is_reading() { readings } else { replies }
        };
        let some =
            self.waiting.range(..=(upto, u64::MAX)).map(|(key, waiting)| (*key, waiting.word));
        let ready: Vec<_> = some.filter(|((point, _), word)| has(*point, word)).collect();
        for (key, word) in &ready {
            self.waiting.remove(key);
            self.readings -= usize::from(word.is_reading());
        }
        ready.into_iter().map(|(_, word)| word).collect()
    }

    /// When a question is due for one that waits.
    fn due(waiting: &Waiting, stagger: u64) -> i64 {
        match waiting.asked {
            Some(asked) => asked.saturating_add(AGAIN_NS),
            None => waiting.since.saturating_add_unsigned(stagger),
        }
    }

    /// When the next question is due.
    pub(crate) fn next_due(&self, stagger: u64) -> Option<i64> {
        self.waiting.values().map(|waiting| Commits::due(waiting, stagger)).min()
    }

    /// The place to ask about, if it is time.
    pub(crate) fn ask(&mut self, now: i64, stagger: u64) -> Option<Point> {
        let due = |waiting: &Waiting| Commits::due(waiting, stagger) <= now;
        let (&(point, _), _) = self.waiting.iter().rev().find(|(_, waiting)| due(waiting))?;
        for waiting in self.waiting.range_mut(..=(point, u64::MAX)).map(|(_, waiting)| waiting) {
            waiting.asked = Some(now);
        }
        Some(point)
    }
}

impl Engine {
    pub(crate) fn commit(&mut self, token: u64, point: Point) {
        let known = self.live().is_some_and(|state| point <= state.point)
            && point >= self.commits.entered
            && !self.start.is_fenced()
            && self.commits.replies() < self.own.buffer.max(1);
        if !known {
            return self.act(Action::Uncommitted { token });
        }
        self.commits.wait(Word::Reply(token), point, self.now.physical);
        self.check_commits();
    }

    /// Nothing that waits for a majority can be known any more. Readings of the time at present
    /// begin anew.
    pub(crate) fn fail_commits(&mut self) {
        for word in self.commits.fail() {
            match word {
                Word::Reply(token) => self.act(Action::Uncommitted { token }),
                Word::Reading(thread, ..) => {
                    let (call, physical) = (Call::Group, self.now.physical);
                    let pending =
                        Pending { call, began: physical, physical, proposed: None, waits: true };
                    if !self.threads.wait(thread, pending) {
                        self.act(Action::Reject { thread, why: Rejection::TooManyThreads });
                    }
                }
            }
        }
    }

    /// The header of a live member's message, which comes next: whether it acknowledges what was
    /// delivered here, or something else.
    ///
    /// The layer below may keep part of the stream from some members and not say so (Corosync 3.1
    /// does where its own synchronisation is broken off by a further change of the ring). Who of
    /// them is right only numbers can tell: see
    /// [`leave_if_outnumbered`](Engine::leave_if_outnumbered).
    pub(crate) fn heard(&mut self, from: Member, message: Option<&Message>) {
        let Some((state, message)) = self.state.as_ref().zip(message) else { return };
        let Message { point, history, established, .. } = *message;
        let (now, counts) = (self.now.physical, self.group.counts(from));
        if !state.lives(from, message.incarnation) {
            if counts {
                self.commits.speaks(from, point, now);
            }
            return;
        }
        let way = self.commits.course.way(point, history);
        if way == Way::Same && point.generation == state.point.generation {
            self.commits.confirmed = self.commits.confirmed.max(point.index);
        }
        if !counts {
            return;
        }
        let unheard = Heard { generation: 0, acknowledged: Point::default(), differs: false };
        let heard = self.commits.heard.entry(from).or_insert(unheard);
        if way != Way::Other {
            heard.generation = point.generation;
        } else if from != self.own.member && !heard.differs {
            heard.differs = true;
            self.commits.strays.insert(from);
            self.commits.doubt = Some((now, 0));
        }
        if established && way == Way::Same {
            heard.acknowledged = heard.acknowledged.max(point);
        }
        if way == Way::Before && from != self.own.member {
            self.commits.speaks(from, point, now);
        } else {
            self.commits.rivals.remove(&from);
        }
    }

    /// Where so many live replicas have delivered something else that no majority can have what we
    /// have, or others go on by themselves and most are not with us, we come in anew. What a
    /// majority has acknowledged stays: whoever has that goes only if enough others have gone
    /// another way since. Who goes another way alone does not throw out the others, though it may
    /// have more messages than they.
    pub(crate) fn leave_if_outnumbered(&mut self) {
        let Some(state) = self.live() else { return };
        let replicas = state.live.keys().filter(|&&member| self.group.counts(member)).count();
        let apart =
            |member: &&Member| self.commits.differs(**member) || self.commits.rivals(**member);
        let apart: Vec<Member> = state.live.keys().filter(apart).copied().collect();
        let rival = self.commits.rivals.keys().copied().find(|&member| self.commits.rivals(member));
        if apart.is_empty() && self.commits.rivals.is_empty() {
            self.commits.doubt = None;
        }
        let Some(&from) = apart.first().or(rival.as_ref()) else { return };
        if !self.group.majority(replicas - apart.len()) {
            let differs = self.commits.differs(from);
            self.notice(Notice::Missed { from, differs });
            self.go_outside();
            self.consider_joining();
        }
    }

    /// True if more than half of the universe have gone another way than this member, those too
    /// that have left since.
    pub(crate) fn is_outnumbered(&self) -> bool {
        self.group.majority(self.commits.strays.len())
    }

    /// True if more than half of the universe has been heard as live in this generation.
    pub(crate) fn is_established(&self) -> bool {
        self.live().is_some_and(|state| state.point.generation == self.commits.established)
    }

    /// Reports what a majority has.
    pub(crate) fn check_commits(&mut self) {
        if self.phase != Phase::Live {
            return;
        }
        let Some(state) = &self.state else { return };
        let own = self.own.member;
        self.commits.heard.retain(|member, _| state.live.contains_key(member));
        let here = self.commits.heard.iter().filter(|&(&member, heard)| {
            member != own && !heard.differs && heard.generation == state.point.generation
        });
        let mut established = self.commits.established;
        if self.group.majority(here.count() + usize::from(self.group.counts(own))) {
            established = state.point.generation;
        } else if established < state.point.generation {
            // What was sent in an earlier generation and comes in this one shows that one's
            // members.
            let mut generations: Vec<u64> =
                self.commits.heard.values().map(|heard| heard.generation).collect();
            generations.sort_unstable_by(|a, b| b.cmp(a));
            let most = generations.get(self.group.universe.len() / 2).copied();
            established = established.max(most.unwrap_or(0));
        }
        self.commits.established = established;
        if self.commits.waiting.is_empty() {
            return;
        }
        // A program's reply is as good as the programs that have what it depends on: an agent
        // without one keeps nothing of it, nor is it known what one has that is at odds. A reading
        // of the time at present depends on no program.
        let readings = self.acknowledged(state, |_| Some(EVERYWHERE));
        let runs = |member| state.live.get(&member)?.run.running();
        let replies = match self.group.mode {
            Mode::Passive => readings,
            _ => {
                let counts = |member| !self.start.runs() || runs(member).is_some();
                let alike =
                    |member| counts(member).then(|| state.alike_before(&self.group, own, member));
                self.acknowledged(state, alike).min(Some(self.told_before()))
            }
        };
        for word in self.commits.ready(replies, readings) {
            self.act(match word {
                Word::Reply(token) => Action::Committed { token },
                Word::Reading(thread, round, value) => Action::Return { thread, round, value },
            });
        }
    }

    /// Place that more than half of the universe has, of the members that have what matters: each
    /// up to where it does.
    fn acknowledged(&self, state: &State, upto: impl Fn(Member) -> Option<Point>) -> Option<Point> {
        let own = self.own.member;
        let others = self.commits.heard.iter().filter(|&(&member, _)| member != own);
        let others = others.map(|(&member, heard)| (member, heard.acknowledged));
        let here = self.is_established() && self.group.counts(own);
        let all = others.chain(here.then_some((own, state.point)));
        let mut points: Vec<Point> =
            all.filter_map(|(member, point)| Some(point.min(upto(member)?))).collect();
        points.sort_unstable_by(|a, b| b.cmp(a));
        points.get(self.group.universe.len() / 2).copied()
    }
}
