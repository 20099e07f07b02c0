//! `Sync` messages of the master, each put together with its `Follow_Up`, in whatever order the two
//! come.

use truechimer_time::{Count, Instant, Span, Stamp};

use crate::Refusal;

/// Messages of a kind that are remembered: a `Follow_Up` may come behind the next `Sync`, not much
/// later.
const KEPT: usize = 4;

/// A `Sync` of which all is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Arrival {
    /// When it arrived.
    pub(super) received: Stamp,
    /// When it left the master, with its corrections, on the master's timescale.
    pub(super) left: Instant,
    /// Corrections without their signs.
    pub(super) corrected: Span,
}

/// The last few of some things, the newest first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Last<T>([Option<T>; KEPT]);

impl<T: Copy> Last<T> {
    const NONE: Last<T> = Last([None; KEPT]);

    fn push(&mut self, new: T) {
        self.0.rotate_right(1);
        if let Some(first) = self.0.first_mut() {
            *first = Some(new);
        }
    }

    fn iter(&self) -> impl DoubleEndedIterator<Item = &T> {
        self.0.iter().flatten()
    }

    fn take(&mut self, is: impl Fn(&T) -> bool) -> Option<T> {
        self.0.iter_mut().find(|kept| kept.as_ref().is_some_and(&is))?.take()
    }
}

/// Messages that came from the master lately.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Arrivals {
    /// `Sync` without its `Follow_Up`: sequence number, stamp, correction.
    syncs: Last<(u16, Stamp, Span)>,
    /// `Follow_Up` without its `Sync`: sequence number, when it left, correction.
    follow_ups: Last<(u16, Instant, Span)>,
    /// Sequence numbers of those that are complete.
    done: Last<u16>,
    complete: Last<Arrival>,
}

impl Arrivals {
    pub(super) const NONE: Arrivals = Arrivals {
        syncs: Last::NONE,
        follow_ups: Last::NONE,
        done: Last::NONE,
        complete: Last::NONE,
    };

    /// A `Sync` with its time came; whether one is complete now, as below.
    pub(super) fn one_step(
        &mut self,
        sequence: u16,
        received: Stamp,
        (left, correction): (Instant, Span),
    ) -> Result<bool, Refusal> {
        self.is_new(sequence)?;
        self.complete(sequence, received, left, [correction, Span::ZERO]);
        Ok(true)
    }

    /// A `Sync` came whose time a `Follow_Up` has.
    pub(super) fn sync(
        &mut self,
        sequence: u16,
        received: Stamp,
        correction: Span,
    ) -> Result<bool, Refusal> {
        self.is_new(sequence)?;
        if self.syncs.iter().any(|(other, ..)| *other == sequence) {
            return Err(Refusal::Duplicate);
        }
        let Some((_, left, more)) = self.follow_ups.take(|(other, ..)| *other == sequence) else {
            self.syncs.push((sequence, received, correction));
            return Ok(false);
        };
        self.complete(sequence, received, left, [correction, more]);
        Ok(true)
    }

    /// A `Follow_Up` came.
    pub(super) fn follow_up(
        &mut self,
        sequence: u16,
        (left, more): (Instant, Span),
    ) -> Result<bool, Refusal> {
        self.is_new(sequence)?;
        if self.follow_ups.iter().any(|(other, ..)| *other == sequence) {
            return Err(Refusal::Duplicate);
        }
        let Some((_, received, correction)) = self.syncs.take(|(other, ..)| *other == sequence)
        else {
            self.follow_ups.push((sequence, left, more));
            return Ok(false);
        };
        self.complete(sequence, received, left, [correction, more]);
        Ok(true)
    }

    fn is_new(&self, sequence: u16) -> Result<(), Refusal> {
        let done = self.done.iter().any(|done| *done == sequence);
        if done { Err(Refusal::Duplicate) } else { Ok(()) }
    }

    fn complete(&mut self, sequence: u16, received: Stamp, left: Instant, corrections: [Span; 2]) {
        let [own, more] = corrections;
        self.done.push(sequence);
        self.complete.push(Arrival {
            received,
            left: left + own + more,
            corrected: own.abs() + more.abs(),
        });
    }

    /// The newest that is complete.
    pub(super) fn newest(&self) -> Option<Arrival> {
        self.complete.iter().next().copied()
    }

    /// The first to arrive of those that arrived after `sent` and left at `asked` or later.
    pub(super) fn first_after(&self, sent: Count, asked: Instant) -> Option<Arrival> {
        let fits =
            |arrival: &&Arrival| (arrival.received.count - sent).0 > 0 && arrival.left >= asked;
        self.complete
            .iter()
            .filter(fits)
            .min_by_key(|arrival| (arrival.received.count - sent).0)
            .copied()
    }
}
