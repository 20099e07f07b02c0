//! Where everything is in the file. `docs/clock-page.md` describes it in full, and a test
//! compares the two.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::ring::HandRing;
use crate::{SLOTS, WORDS};

/// The first eight bytes, as a number in the byte order of the machine: a page of a machine with
/// the other byte order is foreign. In memory of a little-endian machine it reads `TChimer1`.
pub const MAGIC: u64 = u64::from_le_bytes(*b"TChimer1");
/// The version of the layout. Another number: another layout, not to be read by these rules.
pub const VERSION: u32 = 1;
/// The size of the file in bytes.
pub const SIZE: usize = 4096;
/// Where the hands begin.
pub const HANDS_OFFSET: usize = 128;
/// The size of a hand with its generation, in bytes.
pub const HAND_SIZE: usize = 8 * (WORDS + 1);

/// The file as it lies in memory. Every word that can change is atomic.
#[repr(C, align(64))]
pub(crate) struct Page {
    magic: AtomicU64,
    /// Version in the low half, file size in the high half.
    version_and_size: AtomicU64,
    /// Number of hands in the low half, size of one in the high half.
    hands: AtomicU64,
    /// Offset of the first hand.
    hands_offset: AtomicU64,
    /// The writer's process identifier, for people.
    writer: AtomicU64,
    reserved: [AtomicU64; 3],
    pub ring: HandRing,
    tail: [AtomicU64; (SIZE - HANDS_OFFSET - SLOTS * HAND_SIZE) / 8],
}

const _: () = {
    assert!(size_of::<Page>() == SIZE);
    assert!(core::mem::offset_of!(Page, ring) == 64);
    assert!(size_of::<HandRing>() == HANDS_OFFSET - 64 + SLOTS * HAND_SIZE);
};

/// What a header says.
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
    /// As it should be.
    Right,
}

const fn pair(low: u32, high: usize) -> u64 {
    low as u64 | ((high as u64) << 32)
}

const VERSION_AND_SIZE: u64 = pair(VERSION, SIZE);
const HANDS: u64 = pair(SLOTS as u32, HAND_SIZE);

impl Page {
    /// Fills in the header of a page of zeros, the magic last.
    pub fn initialise(&self) {
        self.version_and_size.store(VERSION_AND_SIZE, Relaxed);
        self.hands.store(HANDS, Relaxed);
        self.hands_offset.store(HANDS_OFFSET as u64, Relaxed);
        self.magic.store(MAGIC, Release);
    }

    /// What the header says.
    pub fn kind(&self) -> Kind {
        match self.magic.load(Relaxed) {
            0 => return Kind::Unfinished,
            MAGIC => core::sync::atomic::fence(Acquire),
            _ => return Kind::Foreign,
        }
        let version = self.version_and_size.load(Relaxed);
        if version as u32 != VERSION {
            return Kind::Version(version as u32);
        }
        let right = version == VERSION_AND_SIZE
            && self.hands.load(Relaxed) == HANDS
            && self.hands_offset.load(Relaxed) == HANDS_OFFSET as u64;
        if right { Kind::Right } else { Kind::Damaged }
    }

    /// Whether the header holds nothing but what [`Page::initialise`] may have put there before
    /// it was cut short.
    pub fn is_blank(&self) -> bool {
        let or_blank = |word: &AtomicU64, value| [0, value].contains(&word.load(Relaxed));
        or_blank(&self.version_and_size, VERSION_AND_SIZE)
            && or_blank(&self.hands, HANDS)
            && or_blank(&self.hands_offset, HANDS_OFFSET as u64)
            && self.ring.generation() == 0
    }

    /// The process identifier that the last writer gave.
    pub fn writer(&self) -> u32 {
        self.writer.load(Relaxed) as u32
    }

    /// Says which process writes.
    pub fn set_writer(&self, pid: u32) {
        self.writer.store(pid.into(), Relaxed);
    }
}
