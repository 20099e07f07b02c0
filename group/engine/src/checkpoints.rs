//! The states of programs: for a newcomer, or given by the primary of its own accord so that the
//! backups' log of values begins there.

use std::collections::BTreeMap;

use crate::engine::Engine;
use crate::event::{Action, Notice, Rejection};
use crate::message::{Checkpoint, Entry, Kept, LONGEST_PART, MOST_PARTS, Piece};
use crate::threads::{Local, Pending};
use crate::types::{Member, Mode, Point, Round, Thread};
use crate::wire;

/// Pieces sent at a time.
const PIECES_AT_A_TIME: usize = 8;

/// A checkpoint that the primary is sending.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Given {
    bytes: Vec<u8>,
    sent: usize,
}

/// Parts of the primary's checkpoint that a backup has so far.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Taken {
    next: u32,
    bytes: Vec<u8>,
}

impl Engine {
    pub(crate) fn checkpoint(&mut self, join: u64, data: &[u8], position: &[(Thread, Round)]) {
        if self.start.unlike().is_some() {
            // As it may have been asked for before that was known.
            return;
        }
        if join == 0 {
            return self.give(data, position);
        }
        let now = self.now.physical;
        let Some(serving) = self.transfers.ready.values_mut().find(|serving| serving.id == join)
        else {
            return;
        };
        if serving.checkpoint.is_some() {
            return;
        }
        let mut position: BTreeMap<Thread, Round> = position.iter().copied().collect();
        let mut values = std::mem::take(&mut serving.values);
        values.retain(|kept| {
            position.get(&kept.thread).is_none_or(|&position| kept.round >= position)
        });
        position.retain(|thread, _| serving.state.threads.contains_key(thread));
        // Nothing is said of these: the newcomer must not take them to be up to date.
        for &thread in &serving.behind {
            position.entry(thread).or_insert(Round(0));
        }
        serving.checkpoint = Some(Checkpoint {
            data: data.to_vec(),
            position: position.into_iter().collect(),
            values,
        });
        serving.since = now;
    }

    /// The primary's program gives its state.
    fn give(&mut self, data: &[u8], position: &[(Thread, Round)]) {
        if self.group.mode != Mode::Passive || !self.is_first() {
            return;
        }
        let Some(state) = self.live() else { return };
        let position: BTreeMap<Thread, Round> = position
            .iter()
            .copied()
            .filter(|(thread, _)| state.threads.contains_key(thread))
            .collect();
        let position = position.into_iter().collect();
        let checkpoint = Checkpoint { data: data.to_vec(), position, values: Vec::new() };
        let bytes = wire::encode_checkpoint(&checkpoint);
        // One that is still on its way ends where it is: the first piece of this begins anew.
        self.transfers.given = Some(Given { bytes, sent: 0 });
    }

    /// True if there is more of it to send.
    pub(crate) fn gives(&self) -> bool {
        self.transfers.given.is_some()
    }

    pub(crate) fn send_pieces(&mut self) {
        let Some(given) = &mut self.transfers.given else { return };
        let parts = given.bytes.len().div_ceil(LONGEST_PART).min(MOST_PARTS as usize);
        let chunks = given.bytes.chunks(LONGEST_PART).take(parts).enumerate();
        let pieces: Vec<Piece> = chunks
            .skip(given.sent)
            .take(PIECES_AT_A_TIME)
            .map(|(part, bytes)| {
                let bytes = bytes.to_vec();
                Piece { part: part as u32, parts: parts as u32, bytes }
            })
            .collect();
        given.sent += pieces.len();
        if given.sent >= parts {
            self.transfers.given = None;
        }
        for piece in pieces {
            self.send(vec![Entry::Checkpoint(piece)]);
        }
    }

    /// A piece of the primary's checkpoint takes effect; that had delivered as much as `point` when
    /// it sent it.
    pub(crate) fn piece(&mut self, from: Member, point: Point, piece: &Piece) {
        let Some(state) = &self.state else { return };
        if self.group.mode != Mode::Passive || state.ranks.first() != Some(&from) {
            return;
        }
        if from == self.own.member || !self.own.checkpoints || !self.is_replica() {
            return;
        }
        let differs = self.commits.differs(from);
        let taken = &mut self.transfers.taken;
        if differs {
            // What its program has had was not delivered here, or not so.
            *taken = Taken::default();
            return;
        }
        if piece.part == 0 {
            *taken = Taken::default();
            if point < self.commits.entered {
                // The state that this member was let in with is newer.
                return;
            }
        }
        if piece.part != taken.next {
            return;
        }
        taken.bytes.extend_from_slice(&piece.bytes);
        taken.next += 1;
        if piece.part + 1 < piece.parts {
            return;
        }
        let bytes = std::mem::take(taken).bytes;
        let Checkpoint { data, position, .. } = match wire::decode_checkpoint(&bytes) {
            Ok(checkpoint) => checkpoint,
            Err(broken) => {
                return self.notice(Notice::Malformed { from, what: broken.what() });
            }
        };
        let read: BTreeMap<Thread, Round> = position.iter().copied().collect();
        if self.threads.are_past(&read, state) {
            return;
        }
        let waiting = self.threads.waiting.iter().copied();
        let waiting: Vec<Thread> = waiting
            .filter(|thread| !thread.is_now())
            .filter(|thread| self.threads.all.get(thread).is_some_and(Local::waits))
            .collect();
        self.threads.trim(&read, state);
        for thread in waiting {
            self.act(Action::Reject { thread, why: Rejection::Missed });
        }
        self.installing = true;
        self.act(Action::InstallCheckpoint { data, position });
    }

    /// The program here has taken a checkpoint over: what waited for that goes on.
    pub(crate) fn installed(&mut self) {
        self.installing = false;
        self.start.take_over();
        // What was decided before is in the state of another, or was read beside it.
        self.likeness.begin(self.point());
        while let Some((thread, pending, (round, call, value))) = self.threads.next_held_back() {
            self.finish(Kept { thread, round, call, value }, Pending { waits: true, ..pending });
        }
        let waiting = self.threads.waiting.iter().copied();
        let behind: Vec<Thread> =
            waiting.filter(|&thread| self.threads.is_behind(thread)).collect();
        for thread in behind {
            if self.threads.reject(thread) {
                self.act(Action::Reject { thread, why: Rejection::Behind });
            }
        }
    }
}
