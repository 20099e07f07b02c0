//! The clock as a thread reads it, and as a message brings it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use truechimer_group::{Agreed, Call, GroupTime, Member, Point, Round, Thread};

use super::Shared;
use crate::link::ReadError;

/// One logical thread's clock. Each read is a round of the group, in which all replicas get the
/// same value; so each thread of the program has its own, with the number that the thread has at
/// every replica, and reads at the same places of its work.
#[derive(Clone)]
pub struct ThreadClock {
    pub(super) shared: Arc<Shared>,
    pub(super) thread: Thread,
    pub(super) rounds: Arc<AtomicU64>,
}

impl fmt::Debug for ThreadClock {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "ThreadClock({:#x}, {} rounds)", self.thread.0, self.rounds.load(Relaxed))
    }
}

impl ThreadClock {
    /// Thread that it is of.
    #[must_use]
    pub fn thread(&self) -> Thread {
        self.thread
    }

    /// Reads the group's clock: one round. It waits at most `patience` (none: as
    /// [`super::Options::patience`] has it).
    ///
    /// A round that the thread has no patience for counts as read; the value that the others get
    /// of it is not given later, as this thread has gone on without it.
    ///
    /// # Errors
    /// See [`ReadError`]. Nothing that another replica would not get is ever returned.
    pub fn now(&self, call: Call, patience: Option<Duration>) -> Result<Agreed, ReadError> {
        let answer = self.shared.read(self.thread, call, patience)?;
        self.rounds.store(answer.round.0.wrapping_add(1), Relaxed);
        self.shared.saw(answer.value.time);
        Ok(answer.value)
    }

    /// Number of rounds that it has read: the number of the next.
    #[must_use]
    pub fn rounds(&self) -> Round {
        Round(self.rounds.load(Relaxed))
    }
}

/// A message in the group's order. It brings the time with it: all replicas that process it get
/// the same values of [`Delivered::now`], without asking anybody.
pub struct Delivered {
    /// Sender.
    pub from: Member,
    /// The sender's number for it.
    pub token: u64,
    /// Contents.
    pub payload: Vec<u8>,
    /// The group's time at its delivery.
    pub time: Agreed,
    /// The last value that its lease has, ns.
    pub lease_end: i64,
    /// The sending group's time, for a message from another group, ns.
    pub stamp: Option<i64>,
    /// The next value of the lease; none once it is used up.
    pub(super) next: Option<i64>,
    pub(super) point: Point,
    pub(super) clock: ThreadClock,
}

impl fmt::Debug for Delivered {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Delivered")
            .field("from", &self.from)
            .field("token", &self.token)
            .field("length", &self.payload.len())
            .field("time", &self.time)
            .finish_non_exhaustive()
    }
}

impl Delivered {
    /// The group's time while this message is processed: at first its delivery time, then 1 ns
    /// more each time, without a message or a wait; rounds of [`crate::lineage::MESSAGES`] once
    /// the lease is used up.
    ///
    /// Messages must be processed one after the other, then, and in the same order everywhere. Who
    /// has several threads process them gives each a number and uses [`Delivered::now_by`].
    ///
    /// # Errors
    /// Only of a round.
    pub fn now(&mut self) -> Result<Agreed, ReadError> {
        let clock = self.clock.clone();
        self.now_by(&clock, Call::Group)
    }

    /// Reads with rounds of another thread, once the lease is used up.
    ///
    /// # Errors
    /// Only of a round.
    pub fn now_by(&mut self, clock: &ThreadClock, call: Call) -> Result<Agreed, ReadError> {
        let Some(time) = self.next else {
            let value = clock.now(call, None)?;
            self.point = self.point.max(value.point);
            return Ok(value);
        };
        self.next = time.checked_add(1).filter(|next| *next <= self.lease_end);
        self.clock.shared.saw(GroupTime(time));
        Ok(Agreed { time: GroupTime(time), ..self.time })
    }

    /// The place in the group's stream of all that was read of the clock while processing it: what
    /// a reply depends on.
    #[must_use]
    pub fn point(&self) -> Point {
        self.point
    }
}
