//! The engine itself: its doors, and what each of its parts keeps.

use std::collections::{BTreeMap, VecDeque};

use crate::catching::Catching;
use crate::commit::Commits;
use crate::compared::Compared;
use crate::event::{Action, Event, Handover, Notice, Rejection};
use crate::joining::Transfers;
use crate::likeness::Likeness;
use crate::membership::Place;
use crate::message::{Kept, Shift};
use crate::outgoing::Outbox;
use crate::settings::{self, Group, Own, SettingsError};
use crate::stagger::Stagger;
use crate::starts::Start;
use crate::state::State;
use crate::status::RECENT;
use crate::threads::{Local, Pending, Threads};
use crate::types::{Agreed, Call, GroupTime, Member, Mode, Order, Phase, Point, Reading, Thread};
use crate::view::View;

/// After so long a member that is not let in says so, and again each time as much longer, ns.
const PATIENCE_NS: i64 = 10_000_000_000;

/// One member of a group, without I/O: events in, actions out.
///
/// The transport must deliver each message to all that are connected in the same order, our own
/// included, and configuration changes at the same place of that order to those that stay together
/// (extended virtual synchrony); it need not deliver safely. Give it all that is there with
/// [`handle`](Engine::handle), then [`flush`](Engine::flush), then take the actions.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Engine {
    pub(crate) group: Group,
    pub(crate) own: Own,
    pub(crate) digest: u64,
    pub(crate) now: Reading,
    pub(crate) phase: Phase,
    pub(crate) place: Place,
    /// Since when this member has been joining, and when that is to be said next.
    pub(crate) asked: Option<(i64, i64)>,
    /// The group's state: live, or what is left from when we were.
    pub(crate) state: Option<State>,
    pub(crate) view: Option<View>,
    /// Comparison of its clock with the others'.
    pub(crate) compared: Compared,
    /// The view is but this member's own guess: nothing has been agreed on since the group began.
    pub(crate) guess: bool,
    pub(crate) threads: Threads,
    pub(crate) commits: Commits,
    pub(crate) transfers: Transfers,
    pub(crate) catching: Option<Catching>,
    pub(crate) outbox: Outbox,
    /// Floor that is durably kept.
    pub(crate) floor: Option<i64>,
    /// The program here is taking over a checkpoint: no proposals meanwhile.
    pub(crate) installing: bool,
    pub(crate) actions: VecDeque<Action>,
    pub(crate) stagger: Stagger,
    /// Start of the program here.
    pub(crate) start: Start,
    /// Difference of that program from the others'.
    pub(crate) likeness: Likeness,
    /// True if an operator has drained this member.
    pub(crate) drained: bool,
    /// The primary as last seen, and whether it had a program.
    pub(crate) led: (Option<Member>, bool),
    pub(crate) counts: Counts,
}

/// Counts for tools.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) gaps: u64,
    pub(crate) joins: u64,
    pub(crate) joins_heard: u64,
    pub(crate) parts: u64,
    pub(crate) parts_unfit: u64,
    pub(crate) sent: u64,
    pub(crate) delivered: u64,
    pub(crate) foreign: u64,
    pub(crate) proposals: u64,
    pub(crate) suppressed: u64,
    pub(crate) duplicates: u64,
    pub(crate) rounds: u64,
    pub(crate) cuts: u64,
    pub(crate) reports: u64,
    pub(crate) recent: VecDeque<Member>,
    pub(crate) won: BTreeMap<Member, u64>,
    pub(crate) last: Option<Agreed>,
    /// The last one, and when that was, by the physical clock.
    pub(crate) handover: Option<(Handover, i64)>,
}

/// No decision depends on what is counted: two engines that differ in nothing else are the same to
/// a model checker.
impl core::hash::Hash for Counts {
    fn hash<H: core::hash::Hasher>(&self, _: &mut H) {}
}

impl Counts {
    pub(crate) fn won(&mut self, value: Agreed) {
        self.rounds += 1;
        self.last = Some(value);
        *self.won.entry(value.synchronizer).or_default() += 1;
        if self.recent.len() == RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(value.synchronizer);
    }
}

impl Engine {
    /// A member that knows of nobody yet.
    pub fn new(group: Group, own: Own) -> Result<Engine, SettingsError> {
        settings::check(&group, &own)?;
        Ok(Engine {
            digest: group.digest(),
            now: Reading { physical: 0, utc: None },
            phase: Phase::Outside,
            place: Place::default(),
            asked: None,
            state: None,
            view: None,
            compared: Compared::default(),
            guess: false,
            threads: Threads::default(),
            commits: Commits::default(),
            transfers: Transfers::default(),
            catching: None,
            outbox: Outbox::default(),
            floor: own.floor,
            installing: false,
            actions: VecDeque::new(),
            stagger: Stagger::default(),
            start: Start::default(),
            likeness: Likeness::default(),
            drained: false,
            led: (None, false),
            counts: Counts::default(),
            group,
            own,
        })
    }

    /// Takes up what happened.
    pub fn handle(&mut self, now: Reading, event: Event<'_>) {
        self.read_clock(now);
        match event {
            Event::Read { thread, call } => self.read(thread, call),
            Event::Abandon { thread } => self.abandon(thread),
            Event::Multicast { token, payload, stamp } => self.multicast(token, payload, stamp),
            Event::Commit { token, point } => self.commit(token, point),
            Event::Delivered { from, bytes } => self.delivered(from, bytes),
            Event::Configuration { members, lost } => self.configuration(members, lost),
            Event::Quorum { quorate } => self.quorum(quorate),
            Event::Checkpoint { join, data, position } => self.checkpoint(join, data, position),
            Event::Start { together } => self.start(together),
            Event::End => self.end(),
            Event::Shift { token, member, to } => self.shift(Shift { token, member, to }),
            Event::Installed => self.installed(),
            Event::Missed => self.missed(),
            Event::Restarted => self.restarted(),
            Event::Timer => {}
        }
    }

    /// Sends what is due: the only place where proposals are made. To be called when all that was
    /// delivered has been handled and the transport takes more.
    pub fn flush(&mut self, now: Reading) {
        self.read_clock(now);
        self.send_due();
    }

    /// Takes what is to be done next, in order.
    pub fn next_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// Until when, by the physical clock in ns, nothing is to be sent if nothing happens; then
    /// [`flush`](Engine::flush) is due. May lie in the past: then it is due at once.
    pub fn deadline(&self) -> Option<i64> {
        self.next_due()
    }

    /// Where this member stands.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Place up to which this member has delivered.
    pub fn point(&self) -> Point {
        self.state.as_ref().map(|state| state.point).unwrap_or_default()
    }

    /// The group's clock as far as this member has delivered, what leases reserve included, ns;
    /// none before it has been let in for the first time.
    pub fn last(&self) -> Option<i64> {
        self.state.as_ref().map(|state| state.last)
    }

    /// True if the group's clock has been tied to UTC since the group began: set once by a majority
    /// of the live members' clocks, and steered since. Without that it is a clock of the group's
    /// own. Never with [`Order::Published`], which knows no UTC.
    pub fn is_tied(&self) -> bool {
        self.state.as_ref().is_some_and(|state| state.tied)
    }

    /// True if all live replicas have said what their clocks say, and those that know UTC agree
    /// with this member's: where the group is not [tied](Engine::is_tied) because only some know
    /// UTC, theirs is all that there is.
    pub fn is_unopposed(&self) -> bool {
        self.live().is_some_and(|state| state.agree_with(&self.group, self.own.member))
    }

    /// Number of times that this member has missed part of the stream and took over the state of
    /// another. If it changes, a program that was here before has a gap in what it read, and must
    /// start anew. So must one that was [fenced](Engine::fence): that counts here as well.
    pub fn gaps(&self) -> u64 {
        self.counts.gaps
    }

    /// True if this member is the live replica that proposes first (in the passive mode: the one
    /// whose program runs).
    pub fn is_first(&self) -> bool {
        self.phase == Phase::Live && self.rank(0) == Some(0)
    }

    /// The primary; none in the mode active and where this member is not live.
    pub fn primary(&self) -> Option<Member> {
        self.led.0.filter(|_| self.phase == Phase::Live)
    }

    /// The last change of it that this member has seen.
    pub fn handover(&self) -> Option<Handover> {
        let (handover, at) = self.counts.handover?;
        Some(Handover { ago_ns: self.now.physical.saturating_sub(at), ..handover })
    }

    /// True if an operator has drained this member.
    pub fn is_drained(&self) -> bool {
        self.drained
    }

    /// This member's own view of the group's clock: for tools, never for programs, for it is not
    /// agreed on. None before it has been let in for the first time.
    pub fn view(&self, now: Reading) -> Option<GroupTime> {
        Some(GroupTime(self.view?.at(now.physical)))
    }

    /// Keeps only what can be used of a reading: the physical clock never goes back, and UTC lies
    /// within its bound.
    fn read_clock(&mut self, now: Reading) {
        self.now.physical = self.now.physical.max(now.physical);
        self.now.utc =
            now.utc.filter(|utc| (utc.bound.earliest..=utc.bound.latest).contains(&utc.best));
    }

    /// True if this member is of the universe.
    pub(crate) fn is_replica(&self) -> bool {
        self.group.counts(self.own.member)
    }

    /// True if values of this thread are of any use here: not if it is another member's alone.
    pub(crate) fn keeps(&self, thread: Thread) -> bool {
        let owner = |index: usize| self.group.universe.get(index) == Some(&self.own.member);
        thread.owner().is_none_or(owner)
    }

    /// The live state.
    pub(crate) fn live(&self) -> Option<&State> {
        self.state.as_ref().filter(|_| self.phase == Phase::Live)
    }

    pub(crate) fn act(&mut self, action: Action) {
        self.actions.push_back(action);
    }

    pub(crate) fn notice(&mut self, notice: Notice) {
        self.act(Action::Notice(notice));
    }

    pub(crate) fn enter(&mut self, phase: Phase) {
        if phase != Phase::Joining {
            self.asked = None;
        } else if self.asked.is_none() {
            let now = self.now.physical;
            self.asked = Some((now, now.saturating_add(PATIENCE_NS)));
        }
        if self.phase != phase {
            self.phase = phase;
            self.act(Action::Phase(phase));
        }
    }

    fn read(&mut self, thread: Thread, call: Call) {
        let reject = |why| Action::Reject { thread, why };
        if !self.is_replica() {
            return self.act(reject(Rejection::Observer));
        }
        if thread < Thread::FIRST || !self.keeps(thread) {
            return self.act(reject(Rejection::TooManyThreads));
        }
        if self.threads.all.get(&thread).is_some_and(Local::waits) {
            return self.act(reject(Rejection::Busy));
        }
        if self.threads.is_behind(thread) {
            return self.act(reject(Rejection::Behind));
        }
        let physical = self.now.physical;
        let pending = Pending { call, began: physical, physical, proposed: None, waits: true };
        // What is kept is for the program that starts from the checkpoint, once it has.
        let kept = if self.installing { None } else { self.threads.next(thread) };
        if let Some((round, theirs, value)) = kept {
            self.finish(Kept { thread, round, call: theirs, value }, pending);
        } else if !self.threads.wait(thread, pending) {
            self.act(reject(Rejection::TooManyThreads));
        }
    }

    /// Says that nobody lets this member in, if that is due.
    pub(crate) fn complain(&mut self) {
        let now = self.now.physical;
        if let Some((since, due)) = self.asked.filter(|&(_, due)| due <= now) {
            let for_ns = now.saturating_sub(since);
            self.asked = Some((since, due.saturating_add(for_ns)));
            self.notice(Notice::NotLetIn { for_ns, checkpoint: self.own.checkpoints });
        }
    }

    fn abandon(&mut self, thread: Thread) {
        if !thread.is_now() || !self.commits.forget(thread) {
            self.threads.abandon(thread);
        }
    }

    fn restarted(&mut self) {
        self.threads = Threads::default();
        self.installing = false;
        self.start.restart();
        self.likeness.begin(self.point());
    }

    /// The program here is to get nothing of what is agreed on from here.
    fn missed(&mut self) {
        self.start.miss();
        self.withhold();
    }

    /// Nothing is the program's here any more, and nothing that it says may go.
    pub(crate) fn withhold(&mut self) {
        self.fail_commits();
        self.threads = Threads::default();
    }

    /// An operation has its value.
    pub(crate) fn finish(&mut self, kept: Kept, pending: Pending) {
        let Kept { thread, round, call, value } = kept;
        if call != pending.call && self.read_oddly(&kept, pending.call) {
            self.notice(Notice::Divergence {
                thread,
                round,
                theirs: call,
                ours: pending.call,
                synchronizer: value.synchronizer,
            });
        }
        if pending.proposed.is_none() {
            self.counts.suppressed += 1;
            self.stagger.saved();
        }
        if self.group.order == Order::Published {
            let view = self.view.get_or_insert(View::new(pending.physical, value.time.0));
            view.set(pending.physical, value.time.0);
        }
        if thread.is_now() {
            self.commits.hold(thread, round, value, self.now.physical);
        } else {
            self.act(Action::Return { thread, round, value });
        }
    }

    /// The place of this member among the live replicas in the order of proposing, for this round.
    pub(crate) fn rank(&self, round: u64) -> Option<u64> {
        let ranks = &self.live()?.ranks;
        let here = ranks.iter().position(|&member| member == self.own.member)? as u64;
        let many = ranks.len() as u64;
        let turn =
            if self.group.rotate && self.group.mode == Mode::Active { round % many } else { 0 };
        Some((here + many - turn) % many)
    }
}
