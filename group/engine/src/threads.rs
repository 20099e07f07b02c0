//! Rounds of each logical thread that the program here has read, as far as that is not simply all
//! that has been agreed on: values that it has not asked for yet, operations that wait, rounds that
//! it gave up.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::message::{Kept, MOST_THREADS};
use crate::state::State;
use crate::types::{Agreed, Call, Round, Thread};

/// The most threads that there is something to say of.
const MOST_LOCAL: usize = 4 * MOST_THREADS;

/// An operation that waits for its value, or the last of those that the program gave up.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Pending {
    pub(crate) call: Call,
    /// When it began, by the physical clock; again when the order of proposers changes.
    pub(crate) began: i64,
    /// The physical clock as read for the last proposal, or for the operation.
    pub(crate) physical: i64,
    /// Up to which round a proposal was last sent from here, and when.
    pub(crate) proposed: Option<(u64, i64)>,
    /// True if the program still waits.
    pub(crate) waits: bool,
}

/// A logical thread, as the program here has it.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Local {
    /// Rounds agreed on and not read; always up to the last round agreed on.
    kept: VecDeque<(Round, Call, Agreed)>,
    /// Number of rounds after the last one agreed on that the program has given up.
    ahead: u64,
    /// While a newcomer catches up: its program has read the rounds before this.
    until: u64,
    pub(crate) pending: Option<Pending>,
    /// Values had to be forgotten.
    behind: bool,
}

impl Local {
    pub(crate) fn waits(&self) -> bool {
        self.pending.is_some_and(|pending| pending.waits)
    }

    /// The number of the next operation's round, when `next` is the next to be agreed on.
    pub(crate) fn number(&self, next: u64) -> u64 {
        next.max(self.until).saturating_add(self.ahead)
    }

    /// The next round that the program has not read.
    pub(crate) fn read(&self, next: u64) -> u64 {
        self.kept.front().map_or_else(|| self.number(next), |(round, ..)| round.0)
    }

    /// True if there is nothing to say of it.
    fn is_idle(&self) -> bool {
        *self == Local::default()
    }

    /// True if what is kept are all rounds from this one on, up to the next.
    fn covers(&self, from: u64, next: u64) -> bool {
        from >= next
            || (self.kept.len() as u64 == next - from
                && self.kept.front().is_some_and(|(round, ..)| round.0 == from))
    }

    /// Drops what is kept of the rounds before this one: how many.
    fn drop_before(&mut self, from: u64) -> usize {
        let before = self.kept.len();
        self.kept.retain(|(round, ..)| round.0 >= from);
        before - self.kept.len()
    }
}

/// All of them.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Threads {
    pub(crate) all: BTreeMap<Thread, Local>,
    /// Those with an operation that waits or was given up: what `flush` looks at.
    pub(crate) waiting: BTreeSet<Thread>,
    /// Values kept, in all.
    pub(crate) kept: usize,
    /// Number of threads that are behind.
    behind: usize,
    /// True if so many were behind that it is no longer known which: each of which nothing is said
    /// is.
    lost: bool,
}

impl Threads {
    /// True if values that the thread should read next had to be forgotten.
    pub(crate) fn is_behind(&self, thread: Thread) -> bool {
        !thread.is_now() && self.all.get(&thread).map_or(self.lost, |local| local.behind)
    }

    /// Those of which values had to be forgotten, of all that the group knows.
    pub(crate) fn all_behind(&self, state: &State) -> Vec<Thread> {
        let known = state.threads.keys().copied().filter(|&thread| thread >= Thread::FIRST);
        known.filter(|&thread| self.is_behind(thread)).collect()
    }

    /// True for a round that is to be decided next and that the program does not read: it gave that
    /// up, or another's state has it.
    pub(crate) fn passes_over(&self, thread: Thread, round: u64) -> bool {
        self.all.get(&thread).is_some_and(|local| local.ahead > 0 || round < local.until)
    }

    /// Takes the value of a thread's next undecided round: the operation that it is for, if one
    /// waits for it.
    pub(crate) fn take(
        &mut self,
        thread: Thread,
        round: u64,
        call: Call,
        value: Agreed,
        buffer: usize,
    ) -> Option<Pending> {
        if self.lost && !self.all.contains_key(&thread) {
            return None;
        }
        let local = self.all.entry(thread).or_default();
        let mut done = None;
        if round < local.until {
        } else if local.ahead > 0 {
            local.ahead -= 1;
            if local.ahead == 0 && !local.waits() {
                local.pending = None;
                self.waiting.remove(&thread);
            }
        } else if local.kept.is_empty() && (thread.is_now() || !local.behind) && local.waits() {
            done = local.pending.take();
            self.waiting.remove(&thread);
        } else if !thread.is_now() {
            // One of the time at present is of no use later.
            self.keep(thread, (Round(round), call, value), buffer);
        }
        self.tidy(thread);
        done
    }

    /// Keeps a value; if there is no room for it, at the cost of the thread's oldest.
    fn keep(&mut self, thread: Thread, value: (Round, Call, Agreed), buffer: usize) {
        let Some(local) = self.all.get_mut(&thread) else { return };
        if self.kept >= buffer {
            if !local.behind {
                local.behind = true;
                self.behind += 1;
            }
            if local.kept.pop_front().is_none() {
                return self.lose();
            }
            self.kept -= 1;
        }
        local.kept.push_back(value);
        self.kept += 1;
    }

    /// Where too many are behind, one can as well say that all are.
    fn lose(&mut self) {
        if self.behind <= MOST_THREADS {
            return;
        }
        self.lost = true;
        let (kept, behind, waiting) = (&mut self.kept, &mut self.behind, &mut self.waiting);
        self.all.retain(|thread, local| {
            let stays = !local.behind || local.waits();
            if !stays {
                *kept -= local.kept.len();
                *behind -= 1;
                waiting.remove(thread);
            }
            stays
        });
    }

    /// An operation waits from now on; whether there is room for that.
    pub(crate) fn wait(&mut self, thread: Thread, pending: Pending) -> bool {
        if self.all.len() >= MOST_LOCAL && !self.all.contains_key(&thread) {
            return false;
        }
        self.all.entry(thread).or_default().pending = Some(pending);
        self.waiting.insert(thread);
        true
    }

    /// The operation that waits fails; its round counts as read. Of the time at present nothing is
    /// left, as its number is not used again.
    pub(crate) fn abandon(&mut self, thread: Thread) {
        if thread.is_now() {
            return self.remove(thread);
        }
        let Some(local) = self.all.get_mut(&thread).filter(|local| local.waits()) else { return };
        if local.kept.pop_front().is_some() {
            // It waited only for the program to take over a checkpoint.
            self.kept -= 1;
        } else {
            local.ahead = local.ahead.saturating_add(1);
        }
        let owed = local.ahead > 0;
        local.pending = local.pending.map(|it| Pending { waits: false, ..it }).filter(|_| owed);
        if !owed {
            self.waiting.remove(&thread);
        }
        self.tidy(thread);
    }

    fn remove(&mut self, thread: Thread) {
        self.waiting.remove(&thread);
        if let Some(local) = self.all.remove(&thread) {
            self.kept -= local.kept.len();
            self.behind -= usize::from(local.behind);
        }
    }

    /// The operation that waits fails; nothing was read. Whether one did.
    pub(crate) fn reject(&mut self, thread: Thread) -> bool {
        let Some(local) = self.all.get_mut(&thread).filter(|local| local.waits()) else {
            return false;
        };
        let owed = local.ahead > 0;
        local.pending = local.pending.map(|it| Pending { waits: false, ..it }).filter(|_| owed);
        if !owed {
            self.waiting.remove(&thread);
        }
        self.tidy(thread);
        true
    }

    /// The next value that is kept for the thread.
    pub(crate) fn next(&mut self, thread: Thread) -> Option<(Round, Call, Agreed)> {
        let next = self.all.get_mut(&thread)?.kept.pop_front()?;
        self.kept -= 1;
        self.tidy(thread);
        Some(next)
    }

    /// An operation that waits though its value is there, because a checkpoint had to be taken over
    /// first.
    pub(crate) fn next_held_back(&mut self) -> Option<(Thread, Pending, (Round, Call, Agreed))> {
        let held = |thread: &&Thread| {
            self.all.get(thread).is_some_and(|it| it.waits() && !it.kept.is_empty() && !it.behind)
        };
        let thread = *self.waiting.iter().find(held)?;
        self.waiting.remove(&thread);
        let pending = self.all.get_mut(&thread)?.pending.take()?;
        Some((thread, pending, self.next(thread)?))
    }

    fn tidy(&mut self, thread: Thread) {
        if self.all.get(&thread).is_some_and(Local::is_idle) {
            self.all.remove(&thread);
        }
    }

    /// All values that are kept.
    pub(crate) fn values(&self) -> Vec<Kept> {
        let mut values = Vec::with_capacity(self.kept);
        for (&thread, local) in &self.all {
            for &(round, call, value) in &local.kept {
                values.push(Kept { thread, round, call, value });
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
    pub(crate) fn skip(&mut self) {
        let before = std::mem::take(self);
        for (thread, local) in before.all {
            if let Some(pending) = local.pending.filter(|pending| pending.waits) {
                self.wait(thread, pending);
            }
        }
    }

    /// The program begins here: nothing that was agreed on before is its. What it waits for it goes
    /// on waiting for, and what it gave up is given up. Threads that are no program's go on.
    pub(crate) fn begin(&mut self) {
        let before = std::mem::take(self);
        for (thread, mut local) in before.all {
            if thread.is_programs() {
                let Local { pending, ahead, .. } = local;
                local = Local { pending, ahead, ..Local::default() };
            }
            self.kept += local.kept.len();
            self.behind += usize::from(local.behind);
            if local.pending.is_some() {
                self.waiting.insert(thread);
            }
            self.all.insert(thread, local);
            self.tidy(thread);
        }
    }

    /// A program starts, or ends: nothing is left of the one before but threads that are no
    /// program's.
    pub(crate) fn clear(&mut self) {
        for local in self.all.iter_mut().filter(|(thread, _)| thread.is_programs()) {
            *local.1 = Local::default();
        }
        self.begin();
    }

    /// The program starts from a checkpoint: it has read so many rounds; these values, ascending,
    /// come next, of what has been agreed on in `state`.
    pub(crate) fn install(
        &mut self,
        position: &[(Thread, Round)],
        values: &[Kept],
        state: &State,
        buffer: usize,
    ) {
        *self = Threads::default();
        let ours = |thread: &Thread| *thread >= Thread::FIRST && state.threads.contains_key(thread);
        for kept in values.iter().filter(|kept| ours(&kept.thread)) {
            self.all.entry(kept.thread).or_default();
            self.keep(kept.thread, (kept.round, kept.call, kept.value), buffer);
            self.tidy(kept.thread);
        }
        let read: BTreeMap<Thread, u64> = position.iter().map(|&(it, read)| (it, read.0)).collect();
        for (&thread, &read) in read.iter().filter(|(thread, _)| **thread >= Thread::FIRST) {
            let next = state.next(thread);
            let local = self.all.entry(thread).or_default();
            self.kept -= local.drop_before(read);
            if read > next {
                local.until = read;
            } else if ours(&thread) {
                let behind = !local.covers(read, next);
                self.behind += usize::from(behind && !local.behind);
                self.behind -= usize::from(!behind && local.behind);
                local.behind = behind;
            }
            self.tidy(thread);
        }
        for (&thread, local) in self.all.iter_mut().filter(|(thread, _)| !read.contains_key(thread))
        {
            let from = local.read(0);
            if !local.behind && !local.covers(from, state.next(thread)) {
                local.behind = true;
                self.behind += 1;
            }
        }
        self.lose();
    }

    /// Notes that what a newcomer's checkpoint was ahead of its state has been made up for.
    pub(crate) fn caught_up(&mut self) {
        for local in self.all.values_mut() {
            local.until = 0;
        }
        self.all.retain(|_, local| !local.is_idle());
    }

    /// True if the program here has read what one that starts from this position would read: that
    /// state is older than its own, and it could not go on from there.
    pub(crate) fn are_past(&self, position: &BTreeMap<Thread, Round>, state: &State) -> bool {
        let known = |thread: &Thread| {
            *thread >= Thread::FIRST
                && state.threads.contains_key(thread)
                && !self.is_behind(*thread)
        };
        position.iter().filter(|(thread, _)| known(thread)).any(|(&thread, read)| {
            let next = state.next(thread);
            let here = self.all.get(&thread).map_or(next, |local| {
                let first = local.kept.front().map(|(round, ..)| round.0);
                first.unwrap_or(next.max(local.until))
            });
            read.0 < here
        })
    }

    /// The program starts from the primary's checkpoint, which had read so many rounds: earlier
    /// ones are not needed any more.
    pub(crate) fn trim(&mut self, position: &BTreeMap<Thread, Round>, state: &State) {
        // Whatever waits or was given up is the former program's, but for the time at present.
        let (present, former) =
            std::mem::take(&mut self.waiting).into_iter().partition(|it| it.is_now());
        self.waiting = present;
        let former: BTreeSet<Thread> = former;
        for thread in former {
            if let Some(local) = self.all.get_mut(&thread) {
                (local.pending, local.ahead) = (None, 0);
            }
            self.tidy(thread);
        }
        for (&thread, &Round(read)) in position {
            let Some(local) = self.all.get_mut(&thread) else { continue };
            self.kept -= local.drop_before(read);
            if local.behind && local.covers(read, state.next(thread)) {
                local.behind = false;
                self.behind -= 1;
            }
            self.tidy(thread);
        }
        if std::mem::take(&mut self.lost) {
            // Of each that the group knows, and nothing is said of, values may be missing.
            for (&thread, progress) in &state.threads {
                let read = position.get(&thread).map_or(0, |read| read.0);
                if thread >= Thread::FIRST && !thread.is_now() && read < progress.next {
                    self.all.entry(thread).or_insert_with(|| {
                        self.behind += 1;
                        Local { behind: true, ..Local::default() }
                    });
                }
            }
        }
    }
}
