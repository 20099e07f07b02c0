//! Status of a member, for tools.

use std::collections::{BTreeMap, BTreeSet};

use crate::engine::Engine;
use crate::event::Handover;
use crate::message::{Report, Run, Stage};
use crate::threads::Local;
use crate::types::{Agreed, Fence, Member, Phase, Point, Round, Thread};

/// State of things at a member. Counts are since the engine was made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Status {
    /// Member that reports.
    pub member: Member,
    /// Where it stands.
    pub phase: Phase,
    /// Place up to which it has delivered.
    pub point: Point,
    /// True if more than half of the universe has been heard in this generation.
    pub established: bool,
    /// Members connected (observers too), ascending.
    pub connected: Vec<Member>,
    /// The group's members, observers that have joined, and those that stand apart, ascending.
    pub members: Vec<MemberStatus>,
    /// The live replica that proposes first: in the modes semi-active and passive, the only one
    /// that proposes.
    pub first: Option<Member>,
    /// In those modes, the last change of it that this member has seen.
    pub handover: Option<Handover>,
    /// The synchronizers of the last rounds, the newest last; at most [`RECENT`].
    pub recent: Vec<Member>,
    /// For how long this member has been waiting to be let in, ns.
    pub joining_ns: Option<i64>,
    /// Number of times that this member had missed part of the stream and took over the state of
    /// another. A program that lived through a change of this has a gap.
    pub gaps: u64,
    /// Members that have asked to be let in and have not been yet, this one included, ascending.
    pub asking: Vec<Member>,
    /// Number of times that this member has asked to be let in.
    pub joins_sent: u64,
    /// Number of times that it has heard itself ask, while it was not live.
    pub joins_heard: u64,
    /// Parts of a state that came for it, in answer to that.
    pub state_parts: u64,
    /// And such as were made for an earlier request or at another place of the stream.
    pub state_parts_unfit: u64,
    /// Messages sent.
    pub messages_sent: u64,
    /// Messages delivered (all, foreign ones too).
    pub messages_delivered: u64,
    /// Foreign or broken messages delivered.
    pub foreign: u64,
    /// Proposals for rounds sent.
    pub proposals_sent: u64,
    /// Operations that needed no proposal from here, for another's came first.
    pub suppressed: u64,
    /// Proposals delivered for rounds that had been decided.
    pub duplicates: u64,
    /// Rounds decided.
    pub rounds: u64,
    /// Proposals that were cut for being too far ahead.
    pub cuts: u64,
    /// Reports of clocks delivered.
    pub reports: u64,
    /// The published offset: this member's view of the group's clock − its physical clock, ns.
    pub offset_ns: Option<i64>,
    /// UTC by this member's clock − its view of the group's clock, ns; if synchronised.
    pub behind_utc_ns: Option<i64>,
    /// Rate of the group's clock above that of the physical clocks, by steering, parts in 10⁹.
    pub steering_ppb: i64,
    /// True if the group's clock is tied to UTC.
    pub tied: bool,
    /// The last value agreed on.
    pub last: Option<Agreed>,
    /// Causal messages held.
    pub held: usize,
    /// Values kept for threads that have not read them yet.
    pub kept: usize,
    /// Messages that wait to be sent.
    pub queued: usize,
    /// Operations that wait for a value, or for a majority to have it.
    pub pending: usize,
    /// Replies that wait for a majority.
    pub commits: usize,
    /// The group's threads: rounds read here and rounds decided.
    pub threads: BTreeMap<Thread, ThreadStatus>,
}

/// Reason why a member stands apart, though it is connected.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Apart {
    /// Other settings than ours.
    Settings,
    /// Another version of the protocol: this one.
    Version(u16),
}

/// The most synchronizers that [`Status::recent`] names.
pub const RECENT: usize = 64;

/// State of things with another member, as seen from here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemberStatus {
    /// Member concerned.
    pub member: Member,
    /// True if it only observes.
    pub observer: bool,
    /// True if it has the group's state and takes part.
    pub live: bool,
    /// Reason why it stands apart, if it does, and whether it was live in a group of its own at its
    /// last word.
    pub apart: Option<(Apart, bool)>,
    /// True if its clock contradicts the majority's.
    pub suspect: bool,
    /// UTC by its clock − its view of the group's clock, ns, as last reported.
    pub behind_utc_ns: Option<i64>,
    /// View that it had of the group's clock when it last reported, ns.
    pub reported_at: Option<i64>,
    /// The last place that it acknowledged.
    pub heard: Option<Point>,
    /// Rounds that it was the synchronizer of.
    pub won: u64,
    /// True if an operator has drained it.
    pub drained: bool,
    /// Place in the order in which the live replicas propose, from 0; none: it is none of them.
    pub rank: Option<usize>,
    /// True if a program reads there, or nobody tells of programs.
    pub has_program: bool,
    /// Mark of a program that has missed something or differs, and gets nothing until it begins
    /// anew.
    pub fenced: bool,
    /// Difference of it from a majority's if it is fenced, else from others', and nobody knows yet
    /// which of them are right.
    pub differs: Option<Fence>,
    /// The number of the program that runs there, higher than those of all before it; none: there
    /// is none, or it has not begun.
    pub program: Option<u64>,
}

/// State of things with a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ThreadStatus {
    /// Rounds that the program here has read.
    pub read: Round,
    /// Rounds that the group has decided.
    pub decided: Round,
    /// True if an operation waits here.
    pub waits: bool,
}

impl Default for ThreadStatus {
    fn default() -> ThreadStatus {
        ThreadStatus { read: Round(0), decided: Round(0), waits: false }
    }
}

impl Engine {
    /// State of things, by this member's last reading of its clocks.
    pub fn status(&self) -> Status {
        let state = self.state.as_ref();
        let live = self.live();
        let now = self.now;
        let counts = &self.counts;
        let mut names: BTreeSet<Member> = self.group.universe.iter().copied().collect();
        names.extend(live.iter().flat_map(|state| state.live.keys().copied()));
        names.extend(self.place.foreign.keys().copied());
        let member = |&member: &Member| {
            let peer = live.and_then(|state| state.live.get(&member));
            let report = peer.and_then(|peer| peer.report);
            let behind = |report: Report| Some(report.utc?.best.saturating_sub(report.view));
            let heard = self.commits.heard.get(&member);
            MemberStatus {
                member,
                observer: !self.group.counts(member),
                live: peer.is_some(),
                apart: self.place.foreign.get(&member).copied(),
                suspect: peer.is_some_and(|peer| peer.suspect),
                behind_utc_ns: report.and_then(behind),
                reported_at: report.map(|report| report.view),
                heard: heard.map(|heard| heard.acknowledged),
                won: counts.won.get(&member).copied().unwrap_or(0),
                drained: peer.is_some_and(|peer| peer.drained),
                rank: live.and_then(|it| it.ranks.iter().position(|one| *one == member)),
                has_program: peer.is_some_and(|peer| peer.run.is_there()),
                fenced: peer.is_some_and(|peer| peer.run.stage == Stage::Fenced),
                differs: live.and_then(|state| state.differs(&self.group, member)),
                program: peer.map(|peer| peer.run).and_then(Run::running),
            }
        };
        let view = self.view.map(|view| view.at(now.physical));
        let mut threads: BTreeMap<Thread, ThreadStatus> = BTreeMap::new();
        let next = |thread| state.map_or(0, |state| state.next(thread));
        let known = state.iter().flat_map(|state| state.threads.keys());
        for &thread in known.chain(self.threads.all.keys()) {
            let decided = next(thread);
            let local = self.threads.all.get(&thread);
            let entry = ThreadStatus {
                read: Round(local.map_or(decided, |local| local.read(decided))),
                decided: Round(decided),
                waits: local.is_some_and(Local::waits),
            };
            threads.insert(thread, entry);
        }
        Status {
            member: self.own.member,
            phase: self.phase,
            point: self.point(),
            established: self.is_established(),
            connected: self.place.connected.clone(),
            members: names.iter().map(member).collect(),
            first: live.and_then(|state| state.ranks.first().copied()),
            handover: self.handover(),
            recent: counts.recent.iter().copied().collect(),
            joining_ns: self.asked.map(|(since, _)| now.physical.saturating_sub(since)),
            gaps: counts.gaps,
            asking: self.place.joins.keys().copied().collect(),
            joins_sent: counts.joins,
            joins_heard: counts.joins_heard,
            state_parts: counts.parts,
            state_parts_unfit: counts.parts_unfit,
            messages_sent: counts.sent,
            messages_delivered: counts.delivered,
            foreign: counts.foreign,
            proposals_sent: counts.proposals,
            suppressed: counts.suppressed,
            duplicates: counts.duplicates,
            rounds: counts.rounds,
            cuts: counts.cuts,
            reports: counts.reports,
            offset_ns: view.map(|view| view.saturating_sub(now.physical)),
            behind_utc_ns: view.zip(now.utc).map(|(view, utc)| utc.best.saturating_sub(view)),
            steering_ppb: state.map_or(0, |state| state.steering.rate_ppb.into()),
            tied: self.is_tied(),
            last: counts.last,
            held: state.map_or(0, |state| state.held.len()),
            kept: self.threads.kept,
            queued: self.outbox.len(),
            pending: threads.values().filter(|thread| thread.waits).count()
                + self.commits.readings(),
            commits: self.commits.replies(),
            threads,
        }
    }
}
