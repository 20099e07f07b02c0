//! Messages of programs: their time of delivery, leases, and those that wait because another
//! group's clock was ahead of ours when they were sent.

use std::collections::BTreeSet;

use crate::engine::Engine;
use crate::event::{Action, LARGEST_PAYLOAD, Refusal};
use crate::message::{Held, MOST_HELD, MOST_HELD_BYTES, User};
use crate::outgoing::Queued;
use crate::types::{Agreed, Bound, GroupTime, Member, Phase};

/// One sender's share of the messages that are held, and of their bytes, is one in this many.
const SHARE: usize = 4;

impl Engine {
    pub(crate) fn multicast(&mut self, token: u64, payload: &[u8], stamp: Option<i64>) {
        let why = if self.phase != Phase::Live {
            Refusal::Outside
        } else if payload.len() > LARGEST_PAYLOAD || !self.outbox.takes(payload.len()) {
            Refusal::TooMuch
        } else {
            return self.outbox.push(Queued { token, payload: payload.to_vec(), stamp });
        };
        self.act(Action::Refused { token, why });
    }

    /// A program's message is delivered.
    pub(crate) fn user(&mut self, from: Member, user: &User) {
        let Some(state) = self.state.as_mut() else { return };
        let &User { token, ref time, stamp, ref payload } = user;
        let newest = state.borne_out.map_or(state.last, |borne_out| borne_out.max(state.last));
        let horizon = newest.saturating_add_unsigned(self.group.causal_horizon_ns);
        if stamp.is_some_and(|stamp| stamp > horizon) {
            return self.refuse(from, token, Refusal::StampTooFarAhead);
        }
        let decided = state.decide(&self.group, from, time);
        state.record(&[token]);
        let its = state.held.iter().filter(|held| held.from == from);
        let (many, bytes) =
            its.fold((0, 0), |(many, bytes), held| (many + 1, bytes + held.payload.len()));
        let waits = stamp.is_some_and(|stamp| stamp > decided.value) || many > 0;
        // No sender takes more than its share of what there is for all.
        let room = many < MOST_HELD / SHARE
            && bytes + payload.len() <= MOST_HELD_BYTES / SHARE
            && room(state.held.len(), state.held_bytes, payload.len());
        if waits && !room {
            self.settle(from, time, decided);
            return self.refuse(from, token, Refusal::TooMuch);
        }
        let held = Held { from, token, stamp, payload: payload.clone() };
        if waits {
            state.held_bytes += payload.len();
            state.held.push_back(held);
        } else {
            self.deliver(held, decided.value, decided.utc, from);
        }
        self.settle(from, time, decided);
        self.release(decided.utc, from);
    }

    fn refuse(&mut self, from: Member, token: u64, why: Refusal) {
        if from == self.own.member {
            self.act(Action::Refused { token, why });
        }
    }

    /// Gives a message to the program, at this value of the group's clock.
    fn deliver(&mut self, held: Held, value: i64, utc: Option<Bound>, synchronizer: Member) {
        let Some(state) = self.state.as_mut() else { return };
        let lease_end = value.saturating_add_unsigned(self.group.lease_ns);
        state.last = lease_end;
        let time = Agreed { time: GroupTime(value), utc, synchronizer, point: state.point };
        self.keep_ahead(lease_end);
        self.counts.last = Some(time);
        let Held { from, token, stamp, payload } = held;
        self.act(Action::Deliver { from, token, payload, time, lease_end, stamp });
    }

    /// Gives out what the group's clock has reached, in stream order, each sender's in its order.
    pub(crate) fn release(&mut self, utc: Option<Bound>, synchronizer: Member) {
        loop {
            let Some(state) = self.state.as_mut() else { return };
            let mut waiting = BTreeSet::new();
            let free = state.held.iter().position(|held| {
                !waiting.contains(&held.from)
                    && (held.stamp.is_none_or(|stamp| stamp <= state.last)
                        || !waiting.insert(held.from))
            });
            let Some(held) = free.and_then(|free| state.held.remove(free)) else { return };
            state.held_bytes = state.held_bytes.saturating_sub(held.payload.len());
            let value = state.last.saturating_add(1);
            self.deliver(held, value, utc, synchronizer);
        }
    }

    /// The earliest stamp that a message waits for.
    pub(crate) fn awaited(&self) -> Option<i64> {
        let state = self.live()?;
        state.held.iter().filter_map(|held| held.stamp).filter(|&stamp| stamp > state.last).min()
    }
}

fn room(held: usize, bytes: usize, more: usize) -> bool {
    held < MOST_HELD && bytes.saturating_add(more) <= MOST_HELD_BYTES
}
