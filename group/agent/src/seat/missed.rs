//! Gaps that the member's program has in the group's stream, and that it knows of them.
//!
//! A member that took over another's state may have missed what the others did since it was out: a
//! *gap*. Programs from before get neither values nor messages nor commits until they have started
//! anew ([`Rejection::Missed`]). One that was revived with what it had has missed nothing. A program
//! that differs from a majority's is *fenced* in the same way, though its member was never out.

use truechimer_group::{Action, Event, Phase, Rejection};
use truechimer_group_client::agent::News;
use truechimer_group_client::link::Outside;

use super::{Seat, Turn};
use crate::notices::Level;

/// Program and its gaps as known; that the last one is unsettled, the door knows.
#[derive(Default)]
pub(super) struct Missed {
    /// Number of gaps that the engine has told of.
    gaps: u64,
    /// True if the program has been there while this member was live: else it has missed nothing.
    seen: bool,
    /// True if messages are withheld from it.
    stream: bool,
    /// True if something else than the time at present has been read since.
    shares: bool,
}

impl Missed {
    /// There is a new program, or none; or it has started anew.
    pub(super) fn anew(&mut self) {
        *self = Missed { gaps: self.gaps, ..Missed::default() };
    }

    /// The engine is a new one.
    pub(super) fn forget(&mut self) {
        *self = Missed::default();
    }

    /// Something is read that has a place in the stream.
    pub(super) fn shares(&mut self) {
        self.shares = true;
    }

    /// True if messages are withheld from the program.
    pub(super) fn withholds(&self) -> bool {
        self.stream
    }
}

impl Seat {
    /// Looks whether the engine has a new gap: to be done before any of what it says then is told.
    pub(super) fn see_gap(&mut self, turn: &mut Turn<'_>) {
        let gaps = self.engine.gaps();
        let is_there = self.door.family().is_some();
        if std::mem::replace(&mut self.missed.gaps, gaps) != gaps && is_there {
            self.miss(turn);
        }
        self.missed.seen |= is_there && self.engine.phase() == Phase::Live;
    }

    /// True while all that is done here is to read the time at present, of which nothing is missed.
    fn reads_only_now(&self) -> bool {
        let shares = self.missed.shares || !self.reads.is_empty();
        self.has_not_started() && self.door.program().is_none() && !shares
    }

    fn miss(&mut self, turn: &mut Turn<'_>) {
        if self.reads_only_now() {
            return;
        }
        let checkpoints = self.membership.checkpoints;
        let resumes = self.reads.values().any(|read| read.outside == Outside::Resume);
        let differs = self.engine.fence().is_some();
        if !checkpoints && !differs && (resumes || !self.missed.seen) {
            // What waits for a value gets the group's next.
            return;
        }
        // What was asked before is not answered with what came after.
        self.held.retain(|action| {
            !matches!(
                action,
                Action::Return { .. } | Action::Reject { .. } | Action::Deliver { .. }
            )
        });
        let gap = self.door.miss();
        self.reject_all();
        self.begin_rounds_anew(turn.clocks);
        // With a checkpoint the stream goes on from there, and the threads are where that has them.
        if !checkpoints {
            self.missed.stream = true;
            self.engine.handle(turn.clocks.read(), Event::Missed);
            self.tell_program(&News::Missed { gap });
            if !differs {
                let text = "the group may have gone on without this member: its program gets no \
                            values until it is started anew";
                self.speak(Level::Warning, text, turn);
            }
        }
    }

    /// A checkpoint is on its way to the program: until it has that, its reads are of no use. The
    /// gap's number.
    pub(super) fn replace(&mut self) -> u64 {
        self.reject_all();
        self.door.missed().unwrap_or_else(|| self.door.miss())
    }

    /// Rejects all reads but those of the time at present, of which nothing is missed.
    fn reject_all(&mut self) {
        self.gate.forget_reads();
        for (_, waiting) in self.reads.drain() {
            self.door.complete(waiting.ticket, Err(Rejection::Missed));
        }
    }

    /// Settles the last gap if it is `gap`, which the program knows of. False if it is another.
    pub(super) fn settle_gap(&mut self, gap: u64) -> bool {
        if self.door.missed().is_some_and(|last| last != gap) {
            return false;
        }
        self.door.settle();
        self.missed.anew();
        true
    }
}
