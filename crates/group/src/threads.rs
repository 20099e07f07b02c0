//! What the program here has read of each logical thread's rounds.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::message::{Kept, MOST_THREADS};
use crate::types::{Agreed, Call, Round, Thread};

/// An operation that waits for its value.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Pending {
    pub(crate) call: Call,
    /// When it began, by the physical clock; again when the order of proposers changes.
    pub(crate) began: i64,
    /// The physical clock as read for the last proposal, or for the operation.
    pub(crate) physical: i64,
    /// When a proposal was last sent from here.
    pub(crate) proposed: Option<i64>,
}

/// A logical thread, as the program here has it.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Local {
    /// The next round that the program reads.
    pub(crate) read: u64,
    /// Values from `read` on that have been agreed on.
    pub(crate) kept: VecDeque<(Call, Agreed)>,
    pub(crate) pending: Option<Pending>,
    /// Values had to be forgotten.
    pub(crate) behind: bool,
}

impl Local {
    /// Values are lost: how many.
    fn forget(&mut self) -> usize {
        let forgotten = self.kept.len();
        self.kept = VecDeque::new();
        self.behind = true;
        forgotten
    }
}

/// All of them.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Threads {
    pub(crate) all: BTreeMap<Thread, Local>,
    /// Those with an operation that waits: what `flush` looks at.
    pub(crate) waiting: BTreeSet<Thread>,
    /// Values kept, in all.
    pub(crate) kept: usize,
}

/// What a decision means here.
pub(crate) enum Taken {
    /// The value is for the operation that waits.
    Return(Pending),
    /// It is kept until the program asks.
    Kept,
    /// The program has given the round up, or is too far behind.
    Dropped,
}

impl Threads {
    /// The thread, if there is room for it.
    pub(crate) fn enter(&mut self, thread: Thread, next: u64) -> Option<&mut Local> {
        let room = self.all.len() < MOST_THREADS;
        match self.all.entry(thread) {
            Entry::Occupied(local) => Some(local.into_mut()),
            Entry::Vacant(free) => {
                room.then(|| free.insert(Local { read: next, ..Local::default() }))
            }
        }
    }

    /// Takes the value of a thread's next undecided round.
    pub(crate) fn take(
        &mut self,
        thread: Thread,
        round: u64,
        call: Call,
        value: Agreed,
        buffer: usize,
    ) -> Taken {
        let full = self.kept >= buffer;
        let Some(local) = self.enter(thread, round) else { return Taken::Dropped };
        if round < local.read || local.behind {
            return Taken::Dropped;
        }
        if round != local.read.saturating_add(local.kept.len() as u64) {
            // What lies between was never seen here.
            let forgotten = local.forget();
            self.kept -= forgotten;
            return Taken::Dropped;
        }
        if round == local.read
            && let Some(pending) = local.pending.take()
        {
            local.read += 1;
            self.waiting.remove(&thread);
            return Taken::Return(pending);
        }
        if full {
            let forgotten = local.forget();
            self.kept -= forgotten;
            return Taken::Dropped;
        }
        local.kept.push_back((call, value));
        self.kept += 1;
        Taken::Kept
    }

    /// An operation waits from now on.
    pub(crate) fn wait(&mut self, thread: Thread, pending: Pending) {
        if let Some(local) = self.all.get_mut(&thread) {
            local.pending = Some(pending);
            self.waiting.insert(thread);
        }
    }

    /// The operation that waits fails; its round counts as read.
    pub(crate) fn abandon(&mut self, thread: Thread) {
        if let Some(local) = self.all.get_mut(&thread)
            && local.pending.take().is_some()
        {
            local.read = local.read.saturating_add(1);
            self.waiting.remove(&thread);
        }
    }

    /// The operation that waits fails; nothing was read.
    pub(crate) fn reject(&mut self, thread: Thread) -> bool {
        self.waiting.remove(&thread);
        self.all.get_mut(&thread).is_some_and(|local| local.pending.take().is_some())
    }

    /// The next value that is kept for the thread.
    pub(crate) fn next(&mut self, thread: Thread) -> Option<(Round, Call, Agreed)> {
        let local = self.all.get_mut(&thread)?;
        let (call, value) = local.kept.pop_front()?;
        let round = Round(local.read);
        local.read += 1;
        self.kept -= 1;
        Some((round, call, value))
    }

    /// All values that are kept.
    pub(crate) fn values(&self) -> Vec<Kept> {
        let mut values = Vec::with_capacity(self.kept);
        for (&thread, local) in &self.all {
            for ((call, value), round) in local.kept.iter().zip(local.read..) {
                values.push(Kept { thread, round: Round(round), call: *call, value: *value });
            }
        }
        values
    }

    /// Those that wait wait anew for their turn; proposals sent count as sent only if `keep`.
    pub(crate) fn wait_anew(&mut self, physical: i64, keep: bool) {
        for thread in &self.waiting {
            if let Some(pending) = self.all.get_mut(thread).and_then(|it| it.pending.as_mut()) {
                pending.began = physical;
                pending.proposed = pending.proposed.filter(|_| keep);
            }
        }
    }

    /// The program goes on where the group is; operations that wait go on waiting.
    pub(crate) fn skip(&mut self, threads: &BTreeMap<Thread, u64>) {
        self.kept = 0;
        self.all.retain(|thread, local| {
            local.read = threads.get(thread).copied().unwrap_or(0);
            local.kept = VecDeque::new();
            local.behind = false;
            local.pending.is_some() || local.read > 0
        });
        for (&thread, &next) in threads.iter().filter(|&(&thread, _)| thread >= Thread::FIRST) {
            if let Some(local) = self.enter(thread, next) {
                local.read = next;
            }
        }
    }

    /// The program starts from a checkpoint: it has read so many rounds; these values come next.
    /// `threads` have been decided so far.
    pub(crate) fn install(
        &mut self,
        position: &[(Thread, Round)],
        values: &[Kept],
        threads: &BTreeMap<Thread, u64>,
        buffer: usize,
    ) {
        *self = Threads::default();
        for &(thread, read) in position {
            self.enter(thread, read.0);
        }
        for kept in values {
            if self.enter(kept.thread, 0).is_some() {
                self.take(kept.thread, kept.round.0, kept.call, kept.value, buffer);
            }
        }
        for (&thread, &next) in threads.iter().filter(|&(&thread, _)| thread >= Thread::FIRST) {
            let Some(local) = self.enter(thread, 0) else { continue };
            if local.read.saturating_add(local.kept.len() as u64) < next {
                let forgotten = local.forget();
                self.kept -= forgotten;
            }
        }
    }
}
