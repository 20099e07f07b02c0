//! One writer, any number of readers, no locks: the newest complete record is always readable.
//!
//! Each record has a generation, 1, 2, 3 …, and lies in slot `generation mod SLOTS`. The ring's
//! `sequence` is the generation of the newest complete record, 0 while there is none.
//!
//! ```text
//! writer, g := sequence + 1                 reader
//!   slot(g).generation := 0                   s := sequence              (0: nothing yet)
//!   fence(release)                   ──╮  ╭── fence(acquire)
//!   slot(g).words      := …            │  │   … := slot(s).words
//!   slot(g).generation := g            │  ╰─  fence(acquire)
//!   sequence           := g  (release) ╯      slot(s).generation = s?    (else: again)
//! ```
//!
//! Why it is right. A reader that sees `sequence = s` also sees the words of s, for the release
//! store of `sequence` comes after them and the acquire fence before its own loads: it can see
//! words of s or later ones, never earlier. If any of them is later, the writer had come round to
//! the slot and had set its generation to 0 before; the two fences carry that to the reader's
//! check, which then finds 0 or a later generation. So words that pass the check are all of s.
//!
//! A release *store* would not do in place of the fence: it orders what came before it, not the
//! stores of the words after. `tests/loom.rs` shows that the four orderings are enough, and that
//! each of them is needed.
//!
//! A record has words beside its own, in a place apart: those that came to the layout later. They
//! are stored and loaded between the same fences, and bear the generation of their record, since a
//! writer of before knows nothing of them.
//!
//! Beside the newest record stands the *heartbeat*, the count of the writer's last look at the
//! world. For a counter that rolls over it is more than that: it is the 64-bit count from which
//! others continue, and `kept_at` says when it was kept.
//!
//! ```text
//! writer, to keep                             reader, of the record s
//!   heartbeat := wide  (release)                at   := kept_at     (acquire)
//!   kept_at   := at    (release)  ─────────     wide := heartbeat
//!                                         ╭──   fence(acquire)
//! before a wide count that is not of      │     … reads the counter, and how old `at` is now …
//! the same row as those before            │     sequence = s?       (else: again)
//!   kept_at   := 0                        │
//!   … publishes a record of the new row   │
//!   heartbeat := wide  (release)  ────────╯
//! ```
//!
//! Since `kept_at` is stored last and loaded first, `wide` may be newer than it says, never older:
//! an age worked out from it can only be too large. A count of the new row that meets a time of the
//! old one is found out by the sequence, which whoever sees the count sees changed.
//!
//! A heartbeat also vouches for a record: the writer has looked, and it still stands. So it is
//! stored after whatever the look made the writer publish, and a reader who takes it for that asks
//! last whether its record is the newest still ([`Ring::stands`]).
//!
//! The writer never waits. A reader begins again only if the writer published a whole ring of
//! records while it read one; if the writer has stopped, at whatever store, the newest complete
//! record stays where it is and is read at the first attempt.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::cell::{Cell, Mark, Word};
use crate::packed::{BESIDE, WORDS};

/// Number of hands that the ring holds: a reader begins again only if this many were published
/// while it read one.
pub const SLOTS: usize = 8;

/// Number of tries of a reader before it takes the memory to be damaged.
pub const TRIES: u32 = 1000;

/// A ring of hands in memory.
pub type HandRing = Ring<Word, Mark, SLOTS, WORDS, BESIDE>;

/// A ring of `SLOTS` records (a power of two, 2 or more) of `WORDS` words each, with `BESIDE` more
/// that stand apart, under the generation that they are of: a writer that knows nothing of these
/// leaves them to an earlier record.
///
/// `W` holds a word, `M` a generation. The layout is that of `docs/reference/clock-page.md`.
#[repr(C, align(64))]
pub struct Ring<W, M, const SLOTS: usize, const WORDS: usize, const BESIDE: usize = 0> {
    sequence: M,
    /// The count of the writer's last look at the world. Beside `sequence`, so that a reader gets
    /// both with one cache line. Seen in one piece only where `W` is a 64-bit atomic.
    heartbeat: W,
    /// When the heartbeat's count was kept; 0 while there is nothing to continue from. Seen in one
    /// piece, and so of use, only where `W` is a 64-bit atomic.
    kept_at: W,
    slots: [Slot<W, M, WORDS>; SLOTS],
    beside: [Slot<W, M, BESIDE>; SLOTS],
}

#[repr(C, align(64))]
struct Slot<W, M, const WORDS: usize> {
    generation: M,
    words: [W; WORDS],
}

impl<W: Cell, M: Cell, const WORDS: usize> Slot<W, M, WORDS> {
    fn new() -> Self {
        Slot { generation: M::new(0), words: core::array::from_fn(|_| W::new(0)) }
    }

    fn store(&self, words: &[u64; WORDS], generation: u64) {
        for (cell, word) in self.words.iter().zip(words) {
            cell.store(*word, Relaxed);
        }
        self.generation.store(generation, Relaxed);
    }

    fn load(&self) -> [u64; WORDS] {
        let mut words = [0; WORDS];
        for (word, cell) in words.iter_mut().zip(&self.words) {
            *word = cell.load(Relaxed);
        }
        words
    }
}

/// Reasons why there is nothing to read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unreadable {
    /// Nothing has been published yet.
    Empty,
    /// No record agrees with its generation: the memory was damaged, or is none of ours.
    Damaged,
}

impl<W: Cell, M: Cell, const SLOTS: usize, const WORDS: usize, const BESIDE: usize> Default
    for Ring<W, M, SLOTS, WORDS, BESIDE>
{
    fn default() -> Self {
        Self::new()
    }
}

impl<W: Cell, M: Cell, const SLOTS: usize, const WORDS: usize, const BESIDE: usize>
    Ring<W, M, SLOTS, WORDS, BESIDE>
{
    const MASK: u64 = {
        assert!(SLOTS >= 2 && SLOTS.is_power_of_two());
        SLOTS as u64 - 1
    };

    /// An empty ring.
    #[must_use]
    pub fn new() -> Self {
        Ring {
            sequence: M::new(0),
            heartbeat: W::new(0),
            kept_at: W::new(0),
            slots: core::array::from_fn(|_| Slot::new()),
            beside: core::array::from_fn(|_| Slot::new()),
        }
    }

    /// The one writer, and the ring as its readers see it.
    pub fn split(&mut self) -> (Writer<'_, W, M, SLOTS, WORDS, BESIDE>, &Self) {
        let ring: &Self = self;
        (Writer { ring, generation: ring.generation() }, ring)
    }

    /// The generation of the newest record, 0 while there is none.
    #[must_use]
    #[inline]
    pub fn generation(&self) -> u64 {
        self.sequence.load(Relaxed)
    }

    /// The count of the writer's last look at the world, 0 before the first.
    #[must_use]
    #[inline]
    pub fn heartbeat(&self) -> u64 {
        self.heartbeat.load(Relaxed)
    }

    /// The count to continue from, and when it was kept: (wide count, time). `None` while there is
    /// nothing to continue from.
    ///
    /// Only worth anything if the newest record's [generation](Ring::generation) is the same before
    /// this and after the counter has been read.
    #[must_use]
    pub fn kept(&self) -> Option<(u64, u64)> {
        let at = self.kept_at.load(Acquire);
        if at == 0 {
            return None;
        }
        let wide = self.heartbeat.load(Relaxed);
        W::fence(Acquire);
        Some((wide, at))
    }

    /// A look at the newest record, if there is one.
    #[must_use]
    #[inline(always)]
    pub fn look(&self) -> Option<Look<'_, W, M, WORDS, BESIDE>> {
        let generation = self.sequence.load(Relaxed);
        if generation == 0 {
            return None;
        }
        M::fence(Acquire);
        let beside = self.beside.get((generation & Self::MASK) as usize)?;
        self.slot(generation).map(|slot| Look { generation, slot, beside })
    }

    /// True if the look held, and its record is the newest still: what a reader asks who takes the
    /// [heartbeat](Ring::heartbeat) it loaded meanwhile for a sign that this record stands. The
    /// writer publishes what it has to before it says that it looked at the world, so whoever has
    /// seen the heartbeat sees the newer record here.
    #[must_use]
    #[inline(always)]
    pub fn stands(&self, look: &Look<'_, W, M, WORDS, BESIDE>) -> bool {
        look.held() && self.sequence.load(Relaxed) == look.generation
    }

    /// The newest record's generation and words; looks again if the writer lapped it.
    ///
    /// # Errors
    /// Where nothing was published yet, or [`TRIES`] looks found nothing whole.
    pub fn newest(&self) -> Result<(u64, [u64; WORDS]), Unreadable> {
        self.newest_with_beside().map(|(generation, words, _)| (generation, words))
    }

    /// Newest record with the words beside it; zeros where there are none of this record.
    ///
    /// # Errors
    /// As [`Ring::newest`].
    #[allow(clippy::type_complexity)]
    pub fn newest_with_beside(&self) -> Result<(u64, [u64; WORDS], [u64; BESIDE]), Unreadable> {
        for _ in 0..TRIES {
            let look = self.look().ok_or(Unreadable::Empty)?;
            let words = look.slot.load();
            let beside = look.beside.load();
            let is_own = look.beside().is_some();
            if look.held() {
                let beside = if is_own { beside } else { [0; BESIDE] };
                return Ok((look.generation(), words, beside));
            }
        }
        Err(Unreadable::Damaged)
    }

    /// The slot of a generation.
    #[inline]
    fn slot(&self, generation: u64) -> Option<&Slot<W, M, WORDS>> {
        self.slots.get((generation & Self::MASK) as usize)
    }

    /// Publishes the record after generation `last`, and says under which generation. Only ever
    /// to be called by one writer at a time: two would mix their words.
    pub(crate) fn publish(&self, last: u64, words: &[u64; WORDS], beside: &[u64; BESIDE]) -> u64 {
        let generation = Self::after(last);
        let apart = self.beside.get((generation & Self::MASK) as usize);
        if let (Some(slot), Some(apart)) = (self.slot(generation), apart) {
            slot.generation.store(0, Relaxed);
            M::fence(Release);
            if BESIDE > 0 {
                apart.store(beside, generation);
            }
            slot.store(words, generation);
            self.sequence.store(generation, Release);
        }
        generation
    }

    /// Says that the writer looked at the world at this count.
    pub(crate) fn beat(&self, count: u64) {
        self.heartbeat.store(count, Release);
    }

    /// Says the same, and that others may continue from `wide`, which was read at or after the
    /// time `at`, not 0.
    pub(crate) fn keep(&self, wide: u64, at: u64) {
        self.beat(wide);
        self.kept_at.store(at, Release);
    }

    /// Says that there is nothing to continue from until the next [`Ring::keep`].
    pub(crate) fn unkeep(&self) {
        self.kept_at.store(0, Relaxed);
    }

    /// The generation after `generation`. 0 means "none" and is left out, along with the rest of
    /// its round, so that neighbours never share a slot.
    fn after(generation: u64) -> u64 {
        if generation >= M::LARGEST { SLOTS as u64 } else { generation + 1 }
    }
}

/// A look at one record while the writer may be busy: load the words, then ask whether the look
/// [`held`](Look::held).
pub struct Look<'a, W, M, const WORDS: usize, const BESIDE: usize = 0> {
    generation: u64,
    slot: &'a Slot<W, M, WORDS>,
    beside: &'a Slot<W, M, BESIDE>,
}

impl<'a, W, M: Cell, const WORDS: usize, const BESIDE: usize> Look<'a, W, M, WORDS, BESIDE> {
    /// The record's generation.
    #[must_use]
    #[inline(always)]
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Words of the record: until [`Look::held`] has said so they may be of different records.
    #[must_use]
    #[inline(always)]
    pub fn words(&self) -> &'a [W; WORDS] {
        &self.slot.words
    }

    /// The words beside them, if there are any of this record; as [`Look::words`].
    #[must_use]
    #[inline(always)]
    pub fn beside(&self) -> Option<&'a [W; BESIDE]> {
        let is_own = BESIDE > 0 && self.beside.generation.load(Relaxed) == self.generation;
        is_own.then_some(&self.beside.words)
    }

    /// True if all that was loaded so far was of this record.
    #[must_use]
    #[inline(always)]
    pub fn held(&self) -> bool {
        M::fence(Acquire);
        self.slot.generation.load(Relaxed) == self.generation
    }
}

/// The one that may publish.
pub struct Writer<'a, W, M, const SLOTS: usize, const WORDS: usize, const BESIDE: usize = 0> {
    ring: &'a Ring<W, M, SLOTS, WORDS, BESIDE>,
    /// Of the newest record. Not read back from the ring each time: what the writer does depends
    /// on nothing that it shares.
    generation: u64,
}

impl<W: Cell, M: Cell, const SLOTS: usize, const WORDS: usize, const BESIDE: usize>
    Writer<'_, W, M, SLOTS, WORDS, BESIDE>
{
    /// Publishes a record with nothing beside it, and says under which generation. Never waits.
    pub fn publish(&mut self, words: &[u64; WORDS]) -> u64 {
        self.publish_with_beside(words, &[0; BESIDE])
    }

    /// Publishes a record with words beside it.
    pub fn publish_with_beside(&mut self, words: &[u64; WORDS], beside: &[u64; BESIDE]) -> u64 {
        self.generation = self.ring.publish(self.generation, words, beside);
        self.generation
    }

    /// Goes on from what the ring says, as the successor of a writer that was stopped half-way
    /// does.
    pub fn resume(&mut self) {
        self.generation = self.ring.generation();
    }

    /// Says that the writer looked at the world at this count.
    pub fn heartbeat(&mut self, count: u64) {
        self.ring.beat(count);
    }

    /// Says the same, and that others may continue counting from `wide`, which was read at or after
    /// the time `at`, not 0. See [`Ring::kept`].
    pub fn keep(&mut self, wide: u64, at: u64) {
        self.ring.keep(wide, at);
    }

    /// Says that there is nothing to continue from: to be called before a count is published that
    /// does not continue those kept so far.
    pub fn unkeep(&mut self) {
        self.ring.unkeep();
    }
}
