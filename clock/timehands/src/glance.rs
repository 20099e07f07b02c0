//! The part of a hand that telling the time takes, in as few loads as it takes.

use core::sync::atomic::Ordering::Relaxed;

use truechimer_time::{Count, CountSpan, Epoch, Instant, Span};

use crate::Status;
use crate::cell::Cell;
use crate::hand::share;
use crate::packed::{self, BESIDE, PackedLeaps, State, WORDS, join};

/// The words of a [`crate::Hand`] where they lie, for telling the time from two cache lines, and
/// those beside them if there are any, one line more.
///
/// The words are not checked. They are for use under a generation whose words
/// [`crate::unpack`] found right; on any others nothing here panics, and sums wrap.
pub struct Glance<'a, W>(pub &'a [W; WORDS], pub Option<&'a [W; BESIDE]>);

// Sums and products wrap deliberately: the checks of [`crate::unpack`] keep them in range.
impl<W: Cell> Glance<'_, W> {
    #[inline(always)]
    fn word(&self, at: usize) -> u64 {
        self.0.get(at).map_or(0, |cell| cell.load(Relaxed))
    }

    #[inline(always)]
    fn two(&self, at: usize) -> i128 {
        join([self.word(at), self.word(at + 1)])
    }

    /// The epoch of the counts.
    #[inline(always)]
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        State(self.word(packed::STATE)).epoch()
    }

    /// The status of a hand that promises a bound.
    #[inline(always)]
    #[must_use]
    pub fn status(&self) -> Status {
        // Of the two that promise one, by the bit in which they differ: it takes half the instructions.
        const { assert!(Status::Synchronised as u8 == 1 && Status::Holdover as u8 == 2) };
        match State(self.word(packed::STATE)).status() & Status::Holdover as u8 {
            0 => Status::Synchronised,
            _ => Status::Holdover,
        }
    }

    /// True if the hand can be used as it is at `count`, without a look at the host: it is not
    /// void, and the writer looked at the world, at count `heartbeat`, no longer ago than
    /// [`crate::PATIENCE`] (nor that far in the future, as it seems after the counter went back).
    #[inline(always)]
    #[must_use]
    pub fn stands_at(&self, count: Count, heartbeat: u64) -> bool {
        let patience = self.word(packed::PATIENCE_COUNTS);
        let silence = count.0.wrapping_sub(heartbeat);
        let void_after = Count(self.word(packed::VOID_AFTER));
        silence.wrapping_add(patience) <= patience.wrapping_mul(2) && void_after.at_or_after(count)
    }

    /// The best estimate of time at `count`, with the bound of its error: what
    /// [`crate::Hand::time_at`] and [`crate::Hand::bound_at`] say.
    #[inline(always)]
    #[must_use]
    pub fn at(&self, count: Count) -> (Instant, Span) {
        let span = self.span(packed::PERIOD, count - Count(self.word(packed::BASE)));
        let time = self.two(packed::TIME).wrapping_add(span);
        let bound = self.two(packed::BOUND).wrapping_add(share(span, self.word(packed::GROWTH)));
        (Instant(time), Span(bound))
    }

    /// The best estimate of time at `count`, with how far true time may be before it and after it:
    /// what [`crate::Hand::time_at`] and [`crate::Hand::reach_at`] say.
    #[inline(always)]
    #[must_use]
    pub fn between(&self, count: Count) -> (Instant, [Span; 2]) {
        // Before the rest, whose loads and sums are then one piece, and need fewer registers.
        let word = self.1.and_then(|beside| beside.get(packed::IMBALANCE));
        let imbalance = word.map_or(0, |cell| cell.load(Relaxed)) as i64;
        let (time, Span(bound)) = self.at(count);
        // In one word as long as can be: this is what a reading waits for.
        let before = imbalance.max(0);
        let after = before.wrapping_sub(imbalance);
        let less = |by: i64| Span(bound.wrapping_sub(i128::from(by as u64) << packed::COARSE));
        (time, [less(before), less(after)])
    }

    /// Length of `counts` by the difference clock, with the bound of the error that its period
    /// makes in that: what [`crate::Hand::elapsed`] says.
    #[inline(always)]
    #[must_use]
    pub fn elapsed(&self, counts: CountSpan) -> (Span, Span) {
        let span = self.span(packed::DIFFERENCE, counts);
        (Span(span), Span(share(span, self.word(packed::DIFFERENCE_ERROR))))
    }

    /// The upper half of the product of `counts` and the period at `at`.
    #[inline(always)]
    fn span(&self, at: usize, counts: CountSpan) -> i128 {
        let counts = i128::from(counts.0);
        let [high, low] = [self.word(at), self.word(at + 1)].map(i128::from);
        counts.wrapping_mul(high).wrapping_add(counts.wrapping_mul(low) >> 64)
    }

    /// True if the hand can have been made under a disruption marker of this value: it was made
    /// under that one, or does not say.
    #[inline(always)]
    #[must_use]
    pub fn is_under(&self, marker: u64) -> bool {
        let Some(beside) = self.1 else { return true };
        let word = |at: usize| beside.get(at).map_or(0, |cell| cell.load(Relaxed));
        word(packed::MARKER) == marker || word(packed::VMCLOCK) == 0
    }

    /// Leap seconds as far as known.
    #[inline(always)]
    #[must_use]
    pub fn leaps(&self) -> PackedLeaps {
        PackedLeaps([
            self.word(packed::LEAPS),
            self.word(packed::LAST_LEAP),
            self.word(packed::NEXT_LEAP),
        ])
    }
}
