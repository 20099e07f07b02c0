//! Being let in by those that are live: by the special round, whose message carries the state.
//!
//! All of this happens within one configuration: each change of it starts it again.

use std::collections::BTreeMap;

use crate::checkpoints::{Given, Taken};
use crate::engine::Engine;
use crate::event::{Action, Notice};
use crate::message::{
    Checkpoint, Join, Kept, MOST_MEMBERS, Part, Peer, Report, Run, Standing, Transfer,
};
use crate::state::State;
use crate::types::{Call, Member, Order, Phase, Thread};
use crate::view::View;
use crate::wire;

/// A member that has asked to be let in.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Joined {
    pub(crate) incarnation: u64,
    /// At which place of the configuration.
    pub(crate) at: u64,
    pub(crate) join: Join,
}

impl Joined {
    /// True if this part of a state was made for it, and not for an earlier one.
    pub(crate) fn answers(&self, part: &Part) -> bool {
        let Join { number, attempt, .. } = self.join;
        (self.incarnation, number, attempt, self.at)
            == (part.incarnation, part.number, part.attempt, part.at)
    }
}

/// The states that a live replica holds ready.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Transfers {
    /// Members to be served when the message has been taken up.
    pub(crate) new: Vec<Member>,
    pub(crate) ready: BTreeMap<Member, Serving>,
    /// The primary's own checkpoint, on its way to the backups.
    pub(crate) given: Option<Given>,
    /// Parts of it that a backup has.
    pub(crate) taken: Taken,
    serial: u64,
}

impl Transfers {
    pub(crate) fn clear(&mut self) {
        self.new.clear();
        self.ready.clear();
        self.forget_given();
    }

    /// The checkpoint that a primary was giving is not given any more.
    pub(crate) fn forget_given(&mut self) {
        self.given = None;
        self.taken = Taken::default();
    }
}

/// A state that is held ready for a newcomer.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Serving {
    /// The number of the checkpoint.
    pub(crate) id: u64,
    pub(crate) state: State,
    /// Others that were waiting.
    pub(crate) joins: Vec<(Member, Joined)>,
    pub(crate) incarnation: u64,
    pub(crate) number: u64,
    pub(crate) attempt: u64,
    pub(crate) at: u64,
    /// Values that the program here had not read then; only for a checkpoint.
    pub(crate) values: Vec<Kept>,
    /// Of which threads values that it had not read had been forgotten.
    pub(crate) behind: Vec<Thread>,
    pub(crate) checkpoint: Option<Checkpoint>,
    wants: bool,
    /// Since when this member could send, or when another last did (physical).
    pub(crate) since: i64,
    /// Another sends.
    pub(crate) other: bool,
    /// Encoded, once it is being sent, and how many parts have been.
    pub(crate) bytes: Vec<u8>,
    pub(crate) sent: u32,
    /// All of it is under way.
    pub(crate) finished: bool,
}

impl Serving {
    /// True if there is something to send, and all is there that the newcomer needs.
    pub(crate) fn complete(&self) -> bool {
        let ready = !self.wants || self.checkpoint.is_some() || !self.bytes.is_empty();
        ready && !self.finished
    }

    /// Encodes it, at the first time.
    pub(crate) fn encode(&mut self) {
        if self.bytes.is_empty() {
            let checkpoint = self.checkpoint.take();
            let joins = std::mem::take(&mut self.joins);
            let transfer = Transfer { snapshot: self.state.snapshot(), joins, checkpoint };
            self.bytes = wire::encode_transfer(&transfer);
        }
    }
}

impl Engine {
    /// The message that asks to be let in.
    pub(crate) fn own_join(&self) -> Join {
        let report = match (self.view, self.now.utc) {
            (Some(view), utc) => Some(Report::of(view.at(self.now.physical), utc)),
            (None, Some(utc)) => Some(Report::of(utc.best, Some(utc))),
            (None, None) => None,
        };
        let standing = self.state.as_ref().filter(|_| self.is_replica()).map(|state| Standing {
            epoch: state.epoch,
            established: self.commits.established,
            confirmed: self.commits.confirmed,
            point: state.point,
            history: state.history,
            outnumbered: self.is_outnumbered(),
            last: state.last,
            digest: state.digest(),
        });
        Join {
            number: self.outbox.number(),
            attempt: self.outbox.attempts,
            standing,
            floor: self.floor,
            report,
            checkpoint: self.own.checkpoints,
            drained: self.drained,
            fence: self.start.unlike(),
        }
    }

    /// A join takes effect at a live member.
    pub(crate) fn join(&mut self, from: Member, incarnation: u64, join: &Join) {
        let Some(state) = self.state.as_mut() else { return };
        let stale = state
            .live
            .get(&from)
            .is_some_and(|peer| peer.incarnation == incarnation && join.number <= peer.number);
        if stale || state.live.len() + self.place.joins.len() >= MOST_MEMBERS {
            return;
        }
        state.leave(&self.group, from);
        if let Some(standing) = join.standing.filter(|it| it.epoch == state.epoch)
            && self.group.counts(from)
        {
            self.commits.comes_from(from, standing.point, standing.history);
        }
        if let Some(standing) = join.standing
            && self.group.order == Order::Monotone
        {
            // It may have been cut off with a value that nobody else has: not below that.
            state.at_least(state.limit.map_or(standing.last, |limit| limit.min(standing.last)));
        }
        self.hear(from, join.report);
        let at = self.place.mark;
        self.place.joins.insert(from, Joined { incarnation, at, join: join.clone() });
        self.transfers.ready.remove(&from);
        if !self.transfers.new.contains(&from) {
            self.transfers.new.push(from);
        }
    }

    /// Holds the state at this place ready for those who have just asked for it.
    pub(crate) fn serve(&mut self) {
        let new = std::mem::take(&mut self.transfers.new);
        if self.phase != Phase::Live || !self.is_replica() || self.catching.is_some() {
            return;
        }
        for joiner in new {
            let (Some(joined), Some(state)) = (self.place.joins.get(&joiner), &self.state) else {
                continue;
            };
            let wants = joined.join.checkpoint;
            self.transfers.serial += 1;
            let id = self.transfers.serial;
            let serving = Serving {
                id,
                state: state.clone(),
                joins: self.place.joins.iter().map(|(&who, it)| (who, it.clone())).collect(),
                incarnation: joined.incarnation,
                number: joined.join.number,
                attempt: joined.join.attempt,
                at: joined.at,
                values: if wants { self.threads.values() } else { Vec::new() },
                behind: if wants { self.threads.all_behind(state) } else { Vec::new() },
                checkpoint: None,
                wants,
                since: self.now.physical,
                other: false,
                bytes: Vec::new(),
                sent: 0,
                finished: false,
            };
            let givers = state
                .live
                .values()
                .any(|peer| peer.gives && peer.fence.is_none() && self.group.counts(peer.member));
            self.transfers.ready.insert(joiner, serving);
            if wants && !givers {
                self.notice(Notice::NoCheckpoint { member: joiner });
            }
            // The state of a program that differs is nobody's. Who has asked asks again.
            if wants && self.own.checkpoints && self.start.unlike().is_none() {
                self.act(Action::TakeCheckpoint { join: id });
            }
        }
    }

    /// A part of a state takes effect at a live member: the last one decides the joining round.
    pub(crate) fn part(&mut self, from: Member, part: &Part) {
        let Some(joined) = self.place.joins.get(&part.joiner) else { return };
        if !joined.answers(part) || !self.group.counts(from) {
            return;
        }
        let now = self.now.physical;
        if let Some(serving) = self.transfers.ready.get_mut(&part.joiner)
            && from != self.own.member
        {
            serving.since = now;
            serving.other = true;
        }
        if part.part + 1 < part.parts {
            return;
        }
        let peer = Peer {
            member: part.joiner,
            incarnation: joined.incarnation,
            number: part.number,
            since: self.point().index,
            place: i64::try_from(self.point().index).unwrap_or(i64::MAX),
            drained: joined.join.drained,
            gives: joined.join.checkpoint,
            suspect: false,
            report: None,
            run: Run::default(),
            fence: None,
        };
        self.place.joins.remove(&part.joiner);
        self.place.admitted.insert(part.joiner, (peer.incarnation, peer.number));
        self.transfers.ready.remove(&part.joiner);
        self.commits.lets_in(part.joiner);
        if let Some(state) = self.state.as_mut() {
            state.enter(&self.group, peer);
        }
        self.round(from, Thread::JOIN, Call::Group, &part.time);
        if part.joiner == self.own.member
            && let Some(state) = &self.state
        {
            let (there, _) = self.since(state.last, part.time.utc);
            // What another's clock says is not taken up where this one is sure that it is not so.
            // But for what the one that lets it in goes by too: the group's clock may be ahead.
            let judged = state.tied || self.group.order == Order::Published;
            let most = if judged { i64::MAX } else { self.sure() };
            let there = there.min(most);
            let physical = self.now.physical;
            self.view.get_or_insert(View::new(physical, there)).set(physical, there);
        }
    }
}
