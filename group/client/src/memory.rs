//! The shared memory: its layout, making it, mapping it.
#![allow(unsafe_code)]

use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use truechimer_group::Phase;

use crate::lead::LeadWords;
use crate::slots::{Board, Slot};
use crate::sys;

/// The first word: "TCgroup" and a zero byte, little-endian.
pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"TCgroup\0");
/// Of layout and socket protocol alike.
pub(crate) const VERSION: u16 = 5;
/// Reads that can be in flight at once.
pub(crate) const SLOTS: usize = 1024;
/// Bytes before the slots.
pub(crate) const HEADER: usize = 4096;
/// Bytes in all.
pub(crate) const SIZE: usize = HEADER + SLOTS * size_of::<Slot<AtomicU64>>();

/// The memory's beginning.
#[repr(C, align(4096))]
pub(crate) struct Memory {
    /// [`MAGIC`].
    pub magic: AtomicU64,
    /// [`VERSION`], and how many slots there are in the upper half.
    pub version: AtomicU64,
    spare: [AtomicU64; 14],
    /// At 128.
    pub board: Board<AtomicU64, { SLOTS / 64 }>,
    /// At 384: where the member stands (bits 0–1), and how often that has changed (the rest).
    pub phase: AtomicU64,
    /// Reason why the agent has closed the link, a [`Closed`]; 0: it has not.
    pub closed: AtomicU64,
    /// `CLOCK_MONOTONIC` when the agent was last seen to be alive, ns.
    pub heartbeat: AtomicU64,
    /// Number of times that the program has missed part of the group's stream (bits 1–63), and mark
    /// that it has not said yet that it knows of the last one (bit 0).
    pub missed: AtomicU64,
    /// Start of the program: a [`Began`].
    pub began: AtomicU64,
    /// Which of the group's members this is, from 0.
    pub place: AtomicU64,
    /// The primary, at 432.
    pub lead: LeadWords,
    reserved: [AtomicU64; 455],
    /// At 4096.
    pub slots: [Slot<AtomicU64>; SLOTS],
}

const _: () = {
    assert!(size_of::<Memory>() == SIZE && SIZE == 135_168);
    assert!(std::mem::offset_of!(Memory, board) == 128);
    assert!(std::mem::offset_of!(Memory, phase) == 384);
    assert!(std::mem::offset_of!(Memory, missed) == 408);
    assert!(std::mem::offset_of!(Memory, began) == 416);
    assert!(std::mem::offset_of!(Memory, place) == 424);
    assert!(std::mem::offset_of!(Memory, lead) == 432);
    assert!(std::mem::offset_of!(Memory, slots) == HEADER);
    assert!(size_of::<Slot<AtomicU64>>() == 128);
    assert!(size_of::<Board<AtomicU64, 16>>() == 256);
};

/// Reason why an agent has closed a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u64)]
#[non_exhaustive]
pub enum Closed {
    /// The agent has ended.
    Ended = 1,
    /// The program did not read what was sent to it.
    Behind = 2,
    /// The program broke the protocol.
    Foul = 3,
    /// The agent's own choice.
    CutOff = 4,
    /// A program has come in the place of one that was [passing](crate::link::Role::Passing).
    GaveWay = 5,
}

impl Closed {
    fn from_word(word: u64) -> Option<Closed> {
        Some(match word {
            0 => return None,
            2 => Closed::Behind,
            3 => Closed::Foul,
            4 => Closed::CutOff,
            5 => Closed::GaveWay,
            _ => Closed::Ended,
        })
    }

    /// The reason in words.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Closed::Ended => "the agent has ended",
            Closed::Behind => "this program did not read what the agent sent it, and was cut off",
            Closed::Foul => "this program broke the link's protocol, and was cut off",
            Closed::CutOff => "the agent has cut this program off",
            Closed::GaveWay => "another program has come in the place of this one",
        }
    }
}

/// Start of a program among those of the other members.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u64)]
pub enum Began {
    /// Nothing is known of that (yet).
    #[default]
    Unknown = 0,
    /// Not started: it waits for the others.
    Waits = 1,
    /// With all others.
    Together = 2,
    /// Others were running already: they have read what it has not.
    Late = 3,
}

impl Began {
    fn from_word(word: u64) -> Began {
        match word {
            1 => Began::Waits,
            2 => Began::Together,
            3 => Began::Late,
            _ => Began::Unknown,
        }
    }
}

/// The phase as a number.
pub(crate) const fn phase_number(phase: Phase) -> u8 {
    match phase {
        Phase::Outside => 0,
        Phase::Joining => 1,
        Phase::Live => 2,
    }
}

/// The word of how often the program has missed something, and whether that is unsettled.
pub(crate) const fn missed_word(gap: u64, unsettled: bool) -> u64 {
    (gap << 1) | unsettled as u64
}

/// The phase of this number.
pub(crate) const fn phase_of(number: u64) -> Option<Phase> {
    Some(match number {
        0 => Phase::Outside,
        1 => Phase::Joining,
        2 => Phase::Live,
        _ => return None,
    })
}

impl Memory {
    /// Reason why the link is closed, if it is.
    pub fn why_closed(&self) -> Option<Closed> {
        Closed::from_word(self.closed.load(Acquire))
    }

    /// True if this is memory of our version.
    pub fn known(&self) -> bool {
        let version = u64::from(VERSION) | (SLOTS as u64) << 32;
        self.magic.load(Relaxed) == MAGIC && self.version.load(Relaxed) == version
    }

    /// The agent says where the member stands.
    pub fn set_phase(&self, phase: Phase) {
        let changes = self.phase.load(Relaxed) >> 2;
        let word = (changes.wrapping_add(1) << 2) | u64::from(phase_number(phase));
        self.phase.store(word, Release);
        sys::futex_wake(&self.phase);
    }

    /// The agent says how the program began.
    pub fn set_began(&self, began: Began) {
        self.began.store(began as u64, Release);
    }

    /// Start of the program.
    pub fn began(&self) -> Began {
        Began::from_word(self.began.load(Acquire))
    }

    /// The agent says how often the program has missed something, and whether that is unsettled.
    pub fn set_missed(&self, gap: u64, unsettled: bool) {
        self.missed.store(missed_word(gap, unsettled), Release);
        sys::futex_wake(&self.missed);
    }

    /// The agent closes the link: all that sleep are woken.
    pub fn close(&self, why: Closed) {
        // Whoever goes to sleep later looks every 100 ms.
        self.closed.store(why as u64, Release);
        sys::futex_wake(&self.phase);
        sys::futex_wake(&self.missed);
        for slot in &self.slots {
            if slot.now().state() == Some(crate::slots::State::Asleep) {
                sys::futex_wake(slot.control());
            }
        }
    }
}

/// The memory mapped into this process.
pub(crate) struct Mapping(NonNull<Memory>);

// SAFETY: the mapping belongs to the process, not to a thread, and all of `Memory` is atomics.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps a file that is long enough and sealed against being shortened; an error number if it
    /// is not, or cannot be mapped.
    pub fn of(descriptor: i32) -> Result<Mapping, sys::Errno> {
        let sealed = sys::seals(descriptor).is_some_and(|seals| seals & libc::F_SEAL_SHRINK != 0);
        if !sealed || sys::length(descriptor).is_none_or(|length| length < SIZE as u64) {
            return Err(libc::EINVAL);
        }
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory in use.
        let address = unsafe { sys::map(SIZE, descriptor) }?;
        NonNull::new(address.cast()).map(Mapping).ok_or(libc::ENOMEM)
    }
}

impl Deref for Mapping {
    type Target = Memory;

    #[inline]
    fn deref(&self) -> &Memory {
        // SAFETY: the mapping is SIZE = size_of::<Memory>() bytes long and aligned to a memory
        // page, the file behind it can get no shorter, and it stays until drop. `Memory` is all
        // AtomicU64, for which every bit pattern is valid and which others may change at any time.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this address and size, and no reference outlives `self`.
        unsafe { sys::unmap(self.0.as_ptr().cast(), SIZE) };
    }
}

/// Makes the memory of a new link: a file that stays as long as it is, and its mapping.
pub(crate) fn make() -> std::io::Result<(std::os::fd::OwnedFd, Mapping)> {
    use rustix::fs::{
        FallocateFlags, MemfdFlags, SealFlags, fallocate, fcntl_add_seals, memfd_create,
    };
    use std::os::fd::AsRawFd;
    let file = memfd_create("truechimer-group", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    // All of it is there from the start, so that no store can fail for want of memory.
    fallocate(&file, FallocateFlags::empty(), 0, SIZE as u64)?;
    fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
    let mapping = Mapping::of(file.as_raw_fd()).map_err(std::io::Error::from_raw_os_error)?;
    mapping.magic.store(MAGIC, Relaxed);
    mapping.version.store(u64::from(VERSION) | (SLOTS as u64) << 32, Relaxed);
    mapping.heartbeat.store(sys::monotonic(), Relaxed);
    Ok((file, mapping))
}
