//! Where everything is in the file. `docs/reference/clock-page.md` describes it in full, and a test
//! compares the two.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicU32, AtomicU64, fence};

use truechimer_time::Rate;

use crate::ring::HandRing;
use crate::{BESIDE, Reference, SLOTS, WORDS};

/// The first eight bytes, as a number in the byte order of the machine: a page of a machine with
/// the other byte order is foreign. On little-endian machines they read `TChimer1`.
pub const MAGIC: u64 = u64::from_le_bytes(*b"TChimer1");
/// The version of the layout. Another number: another layout, not to be read by these rules.
pub const VERSION: u32 = 1;
/// The size of the file in bytes.
pub const SIZE: usize = 4096;
/// Where the hands begin.
pub const HANDS_OFFSET: usize = 128;
/// The size of a hand with its generation, in bytes.
pub const HAND_SIZE: usize = 8 * (WORDS + 1);

/// Where what stands beside the hands begins.
pub const BESIDE_OFFSET: usize = HANDS_OFFSET + SLOTS * HAND_SIZE;
/// The size of what stands beside one hand, with its generation, in bytes.
pub const BESIDE_SIZE: usize = 8 * (BESIDE + 1);

/// The file as it lies in memory. Every word that can change is atomic.
#[repr(C, align(64))]
pub(crate) struct Page {
    magic: AtomicU64,
    version: AtomicU32,
    size: AtomicU32,
    hands: AtomicU32,
    hand_size: AtomicU32,
    hands_offset: AtomicU64,
    /// The writer's process identifier, for people.
    writer: AtomicU64,
    /// Source that the clock follows, packed.
    reference: AtomicU64,
    /// Standard uncertainty of the difference clock's rate.
    deviation: AtomicU64,
    reserved: AtomicU64,
    pub ring: HandRing,
    tail: [AtomicU64; (SIZE - BESIDE_OFFSET - SLOTS * BESIDE_SIZE) / 8],
}

const _: () = {
    assert!(size_of::<Page>() == SIZE);
    assert!(core::mem::offset_of!(Page, ring) == 64);
    assert!(size_of::<HandRing>() == BESIDE_OFFSET - 64 + SLOTS * BESIDE_SIZE);
};

/// Kind of a header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// The magic is not there yet: nobody has finished making the page.
    Unfinished,
    /// Something else altogether.
    Foreign,
    /// Ours, of another version.
    Version(u32),
    /// Ours and of this version, yet the sizes in it are not those of this version.
    Damaged,
    /// Header in order.
    Right,
}

impl Page {
    /// Places of the sizes in the header, and their values in this version.
    fn sizes(&self) -> [(&AtomicU32, usize); 3] {
        [(&self.size, SIZE), (&self.hands, SLOTS), (&self.hand_size, HAND_SIZE)]
    }

    /// Fills in the header of a page of zeros, the magic last.
    pub fn initialise(&self) {
        self.version.store(VERSION, Relaxed);
        for (word, value) in self.sizes() {
            word.store(value as u32, Relaxed);
        }
        self.hands_offset.store(HANDS_OFFSET as u64, Relaxed);
        self.magic.store(MAGIC, Release);
    }

    /// Kind of the header.
    pub fn kind(&self) -> Kind {
        match self.magic.load(Relaxed) {
            0 => return Kind::Unfinished,
            MAGIC => fence(Acquire),
            _ => return Kind::Foreign,
        }
        match self.version.load(Relaxed) {
            VERSION if self.fits(|found, right| found == right) => Kind::Right,
            VERSION => Kind::Damaged,
            other => Kind::Version(other),
        }
    }

    /// True if all the sizes in the header are to the liking of `like(found, right)`.
    fn fits(&self, like: impl Fn(u64, u64) -> bool) -> bool {
        self.sizes().iter().all(|(word, right)| like(word.load(Relaxed).into(), *right as u64))
            && like(self.hands_offset.load(Relaxed), HANDS_OFFSET as u64)
    }

    /// True if the header holds nothing but what [`Page::initialise`] may have put there before it
    /// was cut short.
    pub fn is_blank(&self) -> bool {
        [0, VERSION].contains(&self.version.load(Relaxed))
            && self.fits(|found, right| found == 0 || found == right)
            && self.ring.generation() == 0
    }

    /// The process identifier that the last writer gave.
    pub fn writer(&self) -> u32 {
        self.writer.load(Relaxed) as u32
    }

    /// Source that the clock is said to follow.
    pub fn reference(&self) -> Option<Reference> {
        Reference::unpack(self.reference.load(Relaxed))
    }

    /// Says what the clock follows.
    pub fn set_reference(&self, reference: Option<Reference>) {
        self.reference.store(Reference::pack(reference), Relaxed);
    }

    /// The standard uncertainty of the difference clock's rate; `None` if nobody has said, or what
    /// is said is none.
    pub fn deviation(&self) -> Option<Rate> {
        let said = i64::try_from(self.deviation.load(Relaxed)).ok();
        said.filter(|said| *said > 0).map(Rate)
    }

    /// Says it. 0 is not said: it is rounded up.
    pub fn set_deviation(&self, deviation: Option<Rate>) {
        let word = deviation.map_or(0, |rate| rate.0.max(1));
        self.deviation.store(word as u64, Relaxed);
    }

    /// Says which process writes.
    pub fn set_writer(&self, pid: u32) {
        self.writer.store(pid.into(), Relaxed);
    }
}
