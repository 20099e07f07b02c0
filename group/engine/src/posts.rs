//! Posts: who is the primary, what an operator has said of it, and why it became another.
//!
//! The order of the live replicas follows from the state, so it is the same at each of them at the
//! same place of the stream, and one at most is its first. In the modes semi-active and passive it
//! follows the programs: one that ends, and one that an operator demotes or drains, hands over at
//! the place of the stream where that is said.

use crate::engine::Engine;
use crate::event::{Action, Cause, Handover, Unshifted};
use crate::message::{Peer, Shift, Stage};
use crate::settings::Group;
use crate::state::State;
use crate::types::{Member, Mode, Order, Phase, Post};

/// The most words of operators that may be under way from here.
const MOST_SHIFTS: usize = 64;

impl Group {
    /// True if there is a primary.
    pub(crate) fn leads(&self) -> bool {
        self.mode != Mode::Active
    }

    /// True if members whose clocks are wrong propose last.
    pub(crate) fn judges(&self) -> bool {
        self.mode != Mode::Passive && self.order == Order::Monotone
    }
}

impl State {
    /// Order of proposing: the live replicas by what each sorts by.
    pub(crate) fn order(&self, group: &Group) -> Vec<Member> {
        let (leads, judged) = (group.leads(), group.judges());
        let mut ranks: Vec<_> = self
            .replicas(group)
            .map(|peer| {
                let away = leads && !peer.run.is_there();
                // A member whose clock is wrong or, if all propose, unknown proposes last.
                let unknown = peer.report.is_some_and(|report| report.utc.is_none());
                let unfit = (judged && peer.suspect, judged && !leads && unknown);
                // A primary stays one when others come.
                let place = if leads { (peer.place, peer.since) } else { (0, 0) };
                (away, peer.drained, unfit, place, peer.member)
            })
            .collect();
        ranks.sort_unstable();
        ranks.into_iter().map(|(.., member)| member).collect()
    }

    /// The peer has changed in this way: its place, if a program is there now that was not.
    pub(crate) fn change(&mut self, member: Member, change: impl FnOnce(&mut Peer)) {
        let here = self.here();
        if let Some(peer) = self.live.get_mut(&member) {
            let before = peer.run.is_there();
            change(peer);
            if !before && peer.run.is_there() {
                peer.place = here;
            }
        }
    }

    /// The place of one that comes now: after all others.
    pub(crate) fn here(&self) -> i64 {
        i64::try_from(self.point.index).unwrap_or(i64::MAX)
    }

    /// Reason why this word of an operator has no effect.
    fn refuses(&self, group: &Group, shift: &Shift) -> Result<(), Unshifted> {
        let &Shift { member, to, .. } = shift;
        let peer = self.replicas(group).find(|peer| peer.member == member);
        let peer = peer.ok_or(Unshifted::NotLive)?;
        let others = self.replicas(group).any(|peer| {
            peer.member != member && !peer.drained && (peer.run.is_there() || !group.leads())
        });
        let leads = self.ranks.first() == Some(&member) || !group.leads();
        match to {
            // The end of a drain.
            Post::Last if peer.drained => Ok(()),
            Post::First | Post::Last if !group.leads() => Err(Unshifted::NoPrimary),
            Post::First if !peer.run.is_there() => Err(Unshifted::NoProgram),
            Post::First if group.judges() && peer.suspect => Err(Unshifted::Suspect),
            Post::First => Ok(()),
            Post::Last | Post::Drained if leads && !others => Err(Unshifted::NobodyElse),
            Post::Last | Post::Drained => Ok(()),
        }
    }

    fn shift(&mut self, group: &Group, from: Member, shift: &Shift) -> Result<(), Unshifted> {
        self.refuses(group, shift)?;
        let &Shift { token, member, to } = shift;
        let least = self.live.values().map(|peer| peer.place).min().unwrap_or(0);
        let here = self.here();
        self.change(member, |peer| {
            peer.drained = to == Post::Drained;
            peer.place = match to {
                Post::First => least.saturating_sub(1),
                Post::Last | Post::Drained => here,
            };
        });
        self.record(&[from.0.into(), token, member.0.into(), to as u64]);
        self.refresh(group);
        Ok(())
    }
}

impl Engine {
    /// An operator here has said something of a member.
    pub(crate) fn shift(&mut self, shift: Shift) {
        let Shift { token, .. } = shift;
        let outcome = match self.phase {
            Phase::Live if !self.is_replica() => Err(Unshifted::Observer),
            Phase::Live if self.outbox.shifts.len() >= MOST_SHIFTS => Err(Unshifted::Busy),
            Phase::Live => return self.outbox.shifts.push((shift, false)),
            Phase::Outside | Phase::Joining => Err(Unshifted::Outside),
        };
        self.act(Action::Shifted { token, outcome });
    }

    /// Lets an operator's word take effect on the state.
    pub(crate) fn shifted(&mut self, from: Member, shift: &Shift) {
        let counts = self.group.counts(from);
        let Some(state) = self.state.as_mut().filter(|_| counts) else { return };
        let outcome = state.shift(&self.group, from, shift);
        if shift.member == self.own.member && outcome.is_ok() {
            self.drained = shift.to == Post::Drained;
        }
        let asked = self.outbox.shifts.len();
        let ours = from == self.own.member;
        self.outbox.shifts.retain(|(other, _)| !ours || other.token != shift.token);
        if self.outbox.shifts.len() < asked {
            self.act(Action::Shifted { token: shift.token, outcome });
        }
    }

    /// Sees whether another is the primary now, and why.
    pub(crate) fn see_primary(&mut self) {
        let Some(state) = self.state.as_ref().filter(|_| self.group.leads()) else { return };
        let first = state.ranks.first().copied();
        let there = |member: &Member| state.live.get(member).is_some_and(|it| it.run.is_there());
        let now = (first, first.as_ref().is_some_and(there));
        let (before, was_there) = std::mem::replace(&mut self.led, now);
        if before == first {
            return;
        }
        // What the former gave is no primary's, and not to be mixed with what the next one gives.
        self.transfers.forget_given();
        let Some((from, to)) = before.zip(first) else { return };
        let cause = match state.live.get(&from) {
            None => Cause::Left,
            // The first word of an agent that tells of programs: there was none.
            Some(peer) if peer.run.serial == 1 && !peer.run.is_there() => return,
            Some(peer) if was_there && peer.run.stage == Stage::Fenced => Cause::Fenced,
            Some(peer) if was_there && !peer.run.is_there() => Cause::Ended,
            Some(_) if !was_there => Cause::Began,
            Some(peer) if peer.drained => Cause::Drained,
            Some(peer) if peer.suspect && self.group.judges() => Cause::Suspect,
            Some(_) => Cause::Operator,
        };
        self.counts.handover = Some((Handover { from, to, cause, ago_ns: 0 }, self.now.physical));
    }
}
