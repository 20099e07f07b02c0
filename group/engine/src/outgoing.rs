//! Sending, and when: all that is due goes into as few messages as possible.

use std::collections::VecDeque;

use crate::engine::Engine;
use crate::event::Action;
use crate::message::{
    Entry, LONGEST_PART, MOST_ENTRIES, MOST_PARTS, Message, Part, Proposal, Report, Shift, Time,
    User,
};
use crate::threads::Pending;
use crate::types::{Call, Member, Mode, Phase, Point, Round, Thread};
use crate::wire;

/// A proposal or join that did not come back in this time is sent again, ns.
pub(crate) const AGAIN_NS: i64 = 5_000_000_000;
/// The least time between two proposals for causal rounds, ns.
const CAUSAL_AGAIN_NS: i64 = 10_000_000;
/// A state that another has begun to send is taken over after this silence, ns.
const STALLED_NS: i64 = 1_000_000_000;
/// Parts of a state sent at a time.
const PARTS_AT_A_TIME: u32 = 8;
/// The most rounds that are proposed for one thread at a time (more than one only where the program
/// gave up earlier ones).
const ROUNDS_AT_A_TIME: u64 = 64;
/// The most payload in one message beyond the first entry's, bytes.
const LONGEST_BATCH: usize = 128 << 10;
/// The most messages of programs that wait to be sent, and their bytes.
const MOST_QUEUED: usize = 4096;
const MOST_QUEUED_BYTES: usize = 16 << 20;

/// A program's message that waits to be sent.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Queued {
    pub(crate) token: u64,
    pub(crate) payload: Vec<u8>,
    pub(crate) stamp: Option<i64>,
}

/// Outgoing things that wait, but for those with the threads, replies and transfers.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Outbox {
    queue: VecDeque<Queued>,
    bytes: usize,
    /// Since when a join is wanted in this configuration.
    pub(crate) join: Option<i64>,
    /// When one was sent that has not come back.
    pub(crate) joining: Option<i64>,
    /// The others are to be told that we do not take part.
    pub(crate) leaving: bool,
    /// Number of times that this member has been let in, or may have been.
    lets: u64,
    /// Number of joins that it has sent.
    pub(crate) attempts: u64,
    /// Since when a join that has come back has brought nothing, and how often that was too long.
    caught: Option<i64>,
    stalls: u32,
    /// When the clock was last reported.
    reported: Option<i64>,
    /// When a causal round was last proposed.
    causal: Option<i64>,
    /// Words of operators here of which nothing has come back, and whether each was sent.
    pub(crate) shifts: Vec<(Shift, bool)>,
}

impl Outbox {
    pub(crate) fn takes(&self, more: usize) -> bool {
        self.queue.len() < MOST_QUEUED && self.bytes + more <= MOST_QUEUED_BYTES
    }

    pub(crate) fn push(&mut self, queued: Queued) {
        self.bytes += queued.payload.len();
        self.queue.push_back(queued);
    }

    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }

    /// Nothing of it can be sent any more: the tokens.
    pub(crate) fn fail(&mut self) -> Vec<u64> {
        self.bytes = 0;
        std::mem::take(&mut self.queue).into_iter().map(|queued| queued.token).collect()
    }

    /// The number of the next join.
    pub(crate) fn number(&self) -> u64 {
        self.lets + 1
    }

    pub(crate) fn let_in(&mut self, number: u64) {
        self.lets = self.lets.max(number.min(self.lets.saturating_add(1)));
        self.stalls = 0;
        self.causal = None;
    }

    /// The clock is to be reported at once.
    pub(crate) fn report_anew(&mut self) {
        self.reported = None;
    }

    /// The join has come back, or a part of a state for it.
    pub(crate) fn catches(&mut self, now: i64) {
        self.caught = Some(now);
    }

    fn join_due(&self) -> Option<i64> {
        let again = self.joining.map_or(i64::MIN, |sent| sent.saturating_add(AGAIN_NS));
        self.join.map(|join| join.max(again))
    }
}

impl Engine {
    pub(crate) fn send_due(&mut self) {
        if self.place.connected.is_empty() {
            return;
        }
        let now = self.now.physical;
        if self.phase != Phase::Live {
            self.complain();
            if self.stall_due().is_some_and(|due| due <= now) {
                self.outbox.stalls += 1;
                // They may have let us in by this number, and that has not come here.
                self.outbox.lets += 1;
                self.consider_joining();
            }
            if self.outbox.join_due().is_some_and(|due| due <= now) {
                self.outbox.attempts += 1;
                self.counts.joins += 1;
                let join = self.own_join();
                self.outbox.joining = Some(now);
                self.outbox.leaving = false;
                self.send(vec![Entry::Join(join)]);
            } else if self.outbox.leaving {
                self.outbox.leaving = false;
                self.send(vec![Entry::Leave]);
            }
            return;
        }
        let Some(time) = self.own_time() else { return };
        let mut entries = Vec::new();
        if self.is_replica() {
            self.report_clock(&mut entries);
            self.propose(time, &mut entries);
            self.propose_causal(time, &mut entries);
            self.tell_of_program(time, &mut entries);
            self.tell_votes(&mut entries);
            for (shift, sent) in self.outbox.shifts.iter_mut().filter(|(_, sent)| !sent) {
                *sent = true;
                entries.push(Entry::Shift(*shift));
            }
        }
        entries.extend(self.commits.ask(now, self.own.stagger_ns).map(Entry::Ask));
        self.send_messages(time, &mut entries);
        if !entries.is_empty() || self.owes_header() {
            self.send_in_pieces(entries);
        }
        if self.is_replica() {
            self.send_parts(time);
            self.send_pieces();
        }
    }

    /// When a join is given up that has brought nothing: those that had the state ready may all
    /// have left since. Later each time, for a checkpoint may take long.
    fn stall_due(&self) -> Option<i64> {
        let caught = self.outbox.caught.filter(|_| self.catching.is_some())?;
        Some(caught.saturating_add(AGAIN_NS << self.outbox.stalls.min(6)))
    }

    /// Time that this member would propose now.
    fn own_time(&self) -> Option<Time> {
        Some(Time {
            group: self.view?.at(self.now.physical),
            utc: self.now.utc.map(|utc| utc.bound),
            last: self.live()?.last,
        })
    }

    pub(crate) fn send(&mut self, entries: Vec<Entry>) {
        let live = self.phase == Phase::Live;
        let (point, history) = match self.live() {
            Some(state) => (state.point, state.history),
            None => (Point::default(), 0),
        };
        let established = self.is_established() && self.is_replica();
        if live {
            self.commits.said_generation = point.generation;
            self.commits.doubt_said(self.now.physical);
            if established {
                self.commits.said = point;
                self.commits.asked = self.commits.asked.filter(|&asked| asked > point);
            }
        }
        let message = Message {
            group: self.digest,
            incarnation: self.own.incarnation,
            point,
            history,
            established,
            entries,
        };
        self.counts.sent += 1;
        self.act(Action::Send(wire::encode(&message)));
    }

    fn send_in_pieces(&mut self, mut entries: Vec<Entry>) {
        while entries.len() > MOST_ENTRIES {
            let rest = entries.split_off(MOST_ENTRIES);
            self.send(std::mem::replace(&mut entries, rest));
        }
        self.send(entries);
    }

    /// True if an empty message is owed, for what its header says.
    fn owes_header(&self) -> bool {
        let Some(state) = self.live().filter(|_| self.is_replica()) else { return false };
        self.commits.said_generation != state.point.generation
            || self.commits.doubt_due().is_some_and(|due| due <= self.now.physical)
            || (self.is_established()
                && self.commits.asked.is_some_and(|asked| asked <= state.point))
    }

    /// When this member's clock is to be reported: not while its view is a guess, but for the one
    /// whose guess the others will take over.
    fn report_due(&self) -> Option<i64> {
        if !self.is_replica() || (self.guess && self.rank(0) != Some(0)) {
            return None;
        }
        let least = self.own.report_ns;
        let again = |reported: i64| reported.saturating_add_unsigned(least);
        Some(self.outbox.reported.map_or(i64::MIN, again))
    }

    fn report_clock(&mut self, entries: &mut Vec<Entry>) {
        let now = self.now;
        if self.report_due().is_none_or(|due| due > now.physical) {
            return;
        }
        if let Some(view) = self.view {
            self.outbox.reported = Some(now.physical);
            let view = view.at(now.physical);
            entries.push(Entry::Report(Report { view, utc: now.utc, compared: self.compared }));
        }
    }

    /// When it is this member's turn to propose for an operation that waits or was given up.
    fn turn(&self, thread: Thread, pending: &Pending) -> Option<i64> {
        if self.installing || self.holds(thread) {
            return None;
        }
        let next = self.live()?.next(thread);
        // One that is this member's alone is proposed for by nobody else.
        let rank = if thread.owner().is_some() { 0 } else { self.rank(next)? };
        if self.group.mode != Mode::Active && rank > 0 {
            return None;
        }
        let wait = self.stagger.ns(self.own.stagger_ns);
        Some(match pending.proposed {
            // What was proposed for a round before it has been decided, or is so no more.
            Some((round, at)) if round >= next => at.saturating_add(AGAIN_NS),
            _ => pending.began.saturating_add_unsigned(wait.saturating_mul(rank)),
        })
    }

    pub(crate) fn staggered(&self, since: i64, rank: u64) -> i64 {
        since.saturating_add_unsigned(self.own.stagger_ns.saturating_mul(rank))
    }

    fn turns(&self) -> impl Iterator<Item = (Thread, i64)> {
        self.threads.waiting.iter().filter_map(|&thread| {
            let pending = self.threads.all.get(&thread)?.pending.as_ref()?;
            Some((thread, self.turn(thread, pending)?))
        })
    }

    fn propose(&mut self, time: Time, entries: &mut Vec<Entry>) {
        let now = self.now.physical;
        let due: Vec<Thread> =
            self.turns().filter(|&(_, turn)| turn <= now).map(|(thread, _)| thread).collect();
        for thread in due {
            let Some(state) = &self.state else { return };
            let next = state.next(thread);
            let Some(local) = self.threads.all.get_mut(&thread) else { continue };
            // Rounds that the program here gave up must be decided first, but for those that are
            // too many at a time.
            let end = local.number(next).saturating_add(u64::from(local.waits()));
            let end = end.min(next.saturating_add(ROUNDS_AT_A_TIME));
            let Some(pending) = &mut local.pending else { continue };
            pending.proposed = Some((end.saturating_sub(1).max(next), now));
            pending.physical = now;
            for round in next..end {
                let (round, call) = (Round(round), pending.call);
                entries.push(Entry::Propose(Proposal { thread, round, call, time }));
                self.counts.proposals += 1;
            }
        }
    }

    /// When this member proposes a causal round.
    fn causal_turn(&self) -> Option<i64> {
        let stamp = self.awaited()?;
        let rank = self.rank(self.live()?.next(Thread::CAUSAL))?;
        if self.group.mode != Mode::Active && rank > 0 {
            return None;
        }
        // The view may be rounded down when it is computed and when it is read.
        let reached = self.view?.when(stamp).saturating_add(3);
        let again = self.outbox.causal.map_or(i64::MIN, |at| at.saturating_add(CAUSAL_AGAIN_NS));
        Some(self.staggered(reached, rank).max(again))
    }

    fn propose_causal(&mut self, time: Time, entries: &mut Vec<Entry>) {
        let now = self.now.physical;
        if self.causal_turn().is_none_or(|turn| turn > now) {
            return;
        }
        let Some(state) = self.live() else { return };
        let (thread, call) = (Thread::CAUSAL, Call::Group);
        let round = Round(state.next(thread));
        self.outbox.causal = Some(now);
        self.counts.proposals += 1;
        entries.push(Entry::Propose(Proposal { thread, round, call, time }));
    }

    /// Programs' messages, with what else there is on the first.
    fn send_messages(&mut self, time: Time, entries: &mut Vec<Entry>) {
        let mut payload = 0;
        while let Some(Queued { token, payload: data, stamp }) = self.outbox.queue.pop_front() {
            let more = data.len();
            self.outbox.bytes = self.outbox.bytes.saturating_sub(more);
            if payload > 0 && (payload + more > LONGEST_BATCH || entries.len() >= MOST_ENTRIES) {
                self.send_in_pieces(std::mem::take(entries));
                payload = 0;
            }
            payload += more.max(1);
            entries.push(Entry::User(User { token, time, stamp, payload: data }));
        }
    }

    /// When the next parts of each state that is held ready are due.
    fn part_turns(&self) -> impl Iterator<Item = (Member, i64)> {
        let rank = self.live().and_then(|state| self.rank(state.next(Thread::JOIN)));
        let ready = self.transfers.ready.iter().filter(|(_, serving)| serving.complete());
        ready.filter_map(move |(&joiner, serving)| {
            let since = match (serving.sent, serving.other) {
                (0, false) => self.staggered(serving.since, rank?),
                (0, true) => self.staggered(serving.since, rank?).saturating_add(STALLED_NS),
                _ => i64::MIN,
            };
            Some((joiner, since))
        })
    }

    fn send_parts(&mut self, time: Time) {
        let now = self.now.physical;
        let due = self.part_turns().filter(|&(_, turn)| turn <= now).map(|(joiner, _)| joiner);
        for joiner in due.collect::<Vec<_>>() {
            let mut parts = Vec::new();
            if let Some(serving) = self.transfers.ready.get_mut(&joiner) {
                serving.encode();
                let many = serving.bytes.len().div_ceil(LONGEST_PART).min(MOST_PARTS as usize);
                let chunks = serving.bytes.chunks(LONGEST_PART).enumerate();
                let next = chunks.skip(serving.sent as usize).take(PARTS_AT_A_TIME as usize);
                for (part, bytes) in next {
                    parts.push(Part {
                        joiner,
                        incarnation: serving.incarnation,
                        number: serving.number,
                        attempt: serving.attempt,
                        at: serving.at,
                        part: part as u32,
                        parts: many as u32,
                        time,
                        bytes: bytes.to_vec(),
                    });
                }
                serving.sent += parts.len() as u32;
                if serving.sent as usize >= many {
                    serving.finished = true;
                }
            }
            for part in parts {
                self.send(vec![Entry::State(part)]);
            }
        }
    }

    pub(crate) fn next_due(&self) -> Option<i64> {
        if self.place.connected.is_empty() {
            return None;
        }
        let now = self.now.physical;
        if self.phase != Phase::Live {
            let leave = self.outbox.leaving.then_some(now);
            let complaint = self.asked.map(|(_, due)| due);
            let others = [leave, complaint, self.stall_due()];
            return self.outbox.join_due().into_iter().chain(others.into_iter().flatten()).min();
        }
        let replica = self.is_replica();
        let said = self.outbox.shifts.iter().all(|(_, sent)| *sent);
        let at_once =
            self.outbox.len() > 0 || self.gives() || !said || (replica && self.owes_header());
        let ask = self.commits.next_due(self.own.stagger_ns);
        let parts = self.part_turns().filter(|_| replica).map(|(_, turn)| turn).min();
        let turn = self.turns().map(|(_, turn)| turn).min();
        let at_once = at_once.then_some(now);
        let doubt = self.commits.doubt_due().filter(|_| replica);
        let starts = if replica {
            [self.program_due(), self.begin_due(), self.vote_due()].into_iter().flatten().min()
        } else {
            None
        };
        let turns = [turn, self.causal_turn(), starts];
        let others = [at_once, self.report_due(), ask, doubt, parts].into_iter().chain(turns);
        others.flatten().min()
    }
}
