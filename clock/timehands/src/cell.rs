//! Memory that a writer and its readers share, one word at a time.

use core::sync::atomic::{AtomicU32, Ordering, fence};

/// A word of shared memory.
///
/// The ring is generic over it so that a model checker can stand in for the machine; the only
/// implementations meant for use are those of the standard atomics here.
pub trait Cell {
    /// The largest value that is stored and loaded in one piece.
    const LARGEST: u64;

    /// A cell that holds `value`.
    fn new(value: u64) -> Self;
    /// The value.
    fn load(&self, order: Ordering) -> u64;
    /// Another value.
    fn store(&self, value: u64, order: Ordering);
    /// The fence that belongs to these cells.
    fn fence(order: Ordering);
}

#[cfg(target_has_atomic = "64")]
impl Cell for core::sync::atomic::AtomicU64 {
    const LARGEST: u64 = u64::MAX;

    fn new(value: u64) -> Self {
        Self::new(value)
    }

    #[inline(always)]
    fn load(&self, order: Ordering) -> u64 {
        self.load(order)
    }

    #[inline(always)]
    fn store(&self, value: u64, order: Ordering) {
        self.store(value, order);
    }

    #[inline(always)]
    fn fence(order: Ordering) {
        fence(order);
    }
}

/// The low half of a word only.
impl Cell for AtomicU32 {
    const LARGEST: u64 = u32::MAX as u64;

    fn new(value: u64) -> Self {
        Self::new(value as u32)
    }

    fn load(&self, order: Ordering) -> u64 {
        self.load(order).into()
    }

    fn store(&self, value: u64, order: Ordering) {
        self.store(value as u32, order);
    }

    fn fence(order: Ordering) {
        fence(order);
    }
}

/// A 64-bit value in two 32-bit words, for machines that cannot store it in one piece.
///
/// A reader may see half of one value and half of another. The ring does not mind: what a reader
/// gathered while the writer was at it is thrown away.
pub struct Halves {
    low: AtomicU32,
    high: AtomicU32,
}

impl Cell for Halves {
    const LARGEST: u64 = u32::MAX as u64;

    fn new(value: u64) -> Self {
        Halves { low: Cell::new(value), high: Cell::new(value >> 32) }
    }

    fn load(&self, order: Ordering) -> u64 {
        Cell::load(&self.low, order) | (Cell::load(&self.high, order) << 32)
    }

    fn store(&self, value: u64, order: Ordering) {
        Cell::store(&self.low, value, order);
        Cell::store(&self.high, value >> 32, order);
    }

    fn fence(order: Ordering) {
        fence(order);
    }
}

/// Cell for a hand's words: a 64-bit atomic where there is such.
#[cfg(target_has_atomic = "64")]
pub type Word = core::sync::atomic::AtomicU64;
/// Cell for generations: a 64-bit atomic where there is such.
#[cfg(target_has_atomic = "64")]
pub type Mark = core::sync::atomic::AtomicU64;

/// Cell for a hand's words: a 64-bit atomic where there is such.
#[cfg(not(target_has_atomic = "64"))]
pub type Word = Halves;
/// Cell for generations: 32 bits here, which last 136 years at one hand a second.
#[cfg(not(target_has_atomic = "64"))]
pub type Mark = AtomicU32;
