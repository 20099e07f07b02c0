//! Queue from the capture thread to the conversion thread.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex};
use std::time::Duration;

use truechimer_counter::HostPair;
use truechimer_time::Count;

use super::progress::guard;
use crate::convert::DevicePair;
use crate::sink::Mark;
use crate::{Chunk, Losses};

/// Pairs that a batch may have: a few hundred KiB at the most.
pub(super) const MOST_PAIRS: usize = 4096;

/// Batch of what travels together.
#[derive(Default)]
pub(super) struct Batch {
    /// Pairs, in their order: to be known before the chunks are converted. The last one was taken
    /// after the last chunk.
    pub pairs: Vec<Pair>,
    /// Packets, and what happened between them, in the order of both.
    pub items: Vec<Item>,
    /// Number of packets among them.
    pub packets: u64,
    /// The tap's counters, if they were looked at.
    pub losses: Option<Losses>,
    /// The tap was found empty after this count and before the first packet.
    pub quiet: Option<Count>,
}

pub(super) enum Pair {
    Host(HostPair),
    Device(DevicePair),
}

pub(super) enum Item {
    Chunk(Box<dyn Chunk>),
    Mark(Mark),
}

impl Batch {
    pub fn chunk(&mut self, chunk: Box<dyn Chunk>) {
        self.packets += chunk.len() as u64;
        self.items.push(Item::Chunk(chunk));
    }

    /// This and then a later one, in one batch. Of many pairs the later ones stay.
    pub fn and(mut self, later: Batch) -> Batch {
        self.pairs.extend(later.pairs);
        let many = self.pairs.len().saturating_sub(MOST_PAIRS);
        self.pairs.drain(..many);
        self.items.extend(later.items);
        self.packets += later.packets;
        self.losses = later.losses.or(self.losses);
        self.quiet = if self.packets == later.packets { later.quiet } else { self.quiet };
        self
    }

    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty() && self.items.is_empty() && self.losses.is_none()
    }
}

/// Most that may be on its way; one batch always may.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Number of chunks and marks.
    pub items: usize,
    /// Number of packets.
    pub packets: u64,
}

/// A bounded queue between two threads, that both wait at without spinning.
pub(super) struct Queue {
    limits: Limits,
    state: Mutex<State>,
    filled: Condvar,
    emptied: Condvar,
}

#[derive(Default)]
struct State {
    batches: VecDeque<Batch>,
    items: usize,
    packets: u64,
    /// The last batch that was taken out is still worked on.
    busy: bool,
    /// Nothing more will be put in.
    over: bool,
    /// Nothing more will be taken out.
    closed: bool,
}

impl State {
    fn is_full(&self, limits: Limits, more: &Batch) -> bool {
        !self.batches.is_empty()
            && (self.items.saturating_add(more.items.len()) > limits.items
                || self.packets.saturating_add(more.packets) > limits.packets)
    }
}

/// Result of putting something in.
pub(super) enum Put {
    Done,
    /// Full; here it is again.
    Full(Batch),
    /// Nobody takes anything out any more; here it is again.
    Closed(Batch),
}

/// Result of waiting.
pub(super) enum Got {
    Batch(Batch),
    /// Nothing until the time was over.
    Nothing,
    /// There will be nothing more.
    Over,
}

/// See [`Queue::ending`].
pub(super) struct Ending<'a>(&'a Queue);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl Queue {
    pub fn new(limits: Limits) -> Queue {
        let (filled, emptied) = (Condvar::new(), Condvar::new());
        Queue { limits, state: Mutex::default(), filled, emptied }
    }

    /// Puts it in, after waiting at most `timeout` for room.
    pub fn put(&self, batch: Batch, timeout: Duration) -> Put {
        let full = |state: &mut State| !state.closed && state.is_full(self.limits, &batch);
        let state = guard(&self.state);
        let mut state = match self.emptied.wait_timeout_while(state, timeout, full) {
            Ok((state, _)) => state,
            Err(poisoned) => poisoned.into_inner().0,
        };
        if state.closed {
            return Put::Closed(batch);
        }
        if state.is_full(self.limits, &batch) {
            return Put::Full(batch);
        }
        state.items += batch.items.len();
        state.packets += batch.packets;
        state.batches.push_back(batch);
        drop(state);
        self.filled.notify_one();
        Put::Done
    }

    /// Takes the oldest out, after waiting at most `timeout` for one.
    pub fn get(&self, timeout: Duration) -> Got {
        let empty = |state: &mut State| !state.over && state.batches.is_empty();
        let mut state = guard(&self.state);
        if std::mem::take(&mut state.busy) && state.batches.is_empty() {
            self.emptied.notify_one();
        }
        let mut state = match self.filled.wait_timeout_while(state, timeout, empty) {
            Ok((state, _)) => state,
            Err(poisoned) => poisoned.into_inner().0,
        };
        let Some(batch) = state.batches.pop_front() else {
            return if state.over { Got::Over } else { Got::Nothing };
        };
        state.busy = true;
        state.items -= batch.items.len();
        state.packets -= batch.packets;
        // It is worth waking somebody for half of the room, not for every batch.
        let room = state.items <= self.limits.items / 2 && state.packets <= self.limits.packets / 2;
        drop(state);
        if room {
            self.emptied.notify_one();
        }
        Got::Batch(batch)
    }

    /// True if more is taken out, once all that was put in is worked on; `None` if that takes longer than `timeout`.
    pub fn settled(&self, timeout: Duration) -> Option<bool> {
        let works = |state: &mut State| !state.closed && (state.busy || !state.batches.is_empty());
        let state = guard(&self.state);
        let mut state = match self.emptied.wait_timeout_while(state, timeout, works) {
            Ok((state, _)) => state,
            Err(poisoned) => poisoned.into_inner().0,
        };
        (!works(&mut state)).then_some(!state.closed)
    }

    /// Nothing more will be put in once this is dropped, however that comes.
    pub fn ending(&self) -> Ending<'_> {
        Ending(self)
    }

    /// Number of packets in it.
    pub fn packets(&self) -> u64 {
        guard(&self.state).packets
    }

    /// Nothing more will be put in.
    fn end(&self) {
        guard(&self.state).over = true;
        self.filled.notify_one();
    }

    /// Nothing more will be taken out: gives back what is in it.
    pub fn close(&self) -> VecDeque<Batch> {
        let mut state = guard(&self.state);
        state.closed = true;
        (state.items, state.packets) = (0, 0);
        let left = std::mem::take(&mut state.batches);
        drop(state);
        self.emptied.notify_one();
        left
    }
}
