//! The words of the shared memory, with a model checker in the machine's place if need be.

use core::sync::atomic::{AtomicU64, Ordering, fence};

/// Side that needs a fence: to a machine it is all the same, to a model checker that leaves one out
/// not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// A thread that has asked for something, before it looks whether the agent sleeps.
    Thread,
    /// The agent that goes to sleep, before it looks whether somebody has asked.
    Agent,
}

/// A word of 64 bits that both sides may change at any time.
///
/// The slots' protocol is generic over it so that a model checker can run it; the one
/// implementation meant for use is that of `AtomicU64`.
pub trait Word {
    /// A word that holds `value`.
    fn new(value: u64) -> Self;
    /// The value.
    fn load(&self, order: Ordering) -> u64;
    /// Another value.
    fn store(&self, value: u64, order: Ordering);
    /// Another value; returns the one before.
    fn swap(&self, value: u64, order: Ordering) -> u64;
    /// With these bits set as well; returns the value before.
    fn fetch_or(&self, bits: u64, order: Ordering) -> u64;
    /// `new` if it is `current`; the value before, as an error if it was another.
    ///
    /// # Errors
    /// If it was another.
    fn replace(&self, current: u64, new: u64, success: Ordering) -> Result<u64, u64>;
    /// The full (sequentially consistent) fence that belongs to these words.
    fn fence(side: Side);
}

impl Word for AtomicU64 {
    fn new(value: u64) -> Self {
        Self::new(value)
    }

    #[inline]
    fn load(&self, order: Ordering) -> u64 {
        self.load(order)
    }

    #[inline]
    fn store(&self, value: u64, order: Ordering) {
        self.store(value, order);
    }

    #[inline]
    fn swap(&self, value: u64, order: Ordering) -> u64 {
        self.swap(value, order)
    }

    #[inline]
    fn fetch_or(&self, bits: u64, order: Ordering) -> u64 {
        self.fetch_or(bits, order)
    }

    #[inline]
    fn replace(&self, current: u64, new: u64, success: Ordering) -> Result<u64, u64> {
        self.compare_exchange(current, new, success, Ordering::Relaxed)
    }

    #[inline]
    fn fence(_: Side) {
        fence(Ordering::SeqCst);
    }
}
