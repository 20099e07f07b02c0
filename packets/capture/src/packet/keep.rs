//! Blocks that others hold on to.
//!
//! The kernel fills block after block, and stops at the first that has not come back. At low rates
//! a block is handed over with a packet or two in it: whoever keeps a few hundred packets, because
//! a disk is slow, would keep the whole ring. So what is in a nearly empty block is copied, and the
//! block goes back at once. There are no more such blocks than
//! [`PacketOptions::latency`](super::PacketOptions::latency) allows, as full ones are handed over
//! before: a thousand a second, of a few µs each.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::block;
use super::ring::Held;

/// Blocks with no more in them than their size by this are copied.
const NEARLY_EMPTY: usize = 4;
/// Bytes that a copy takes beyond its own, rounded up.
const OVERHEAD: usize = 256;

/// Memory that copies may take, in bytes: as much as the ring itself.
#[derive(Debug)]
pub(super) struct Spare {
    used: AtomicUsize,
    most: usize,
}

impl Spare {
    pub(super) fn new(most: u64) -> Spare {
        Spare { used: AtomicUsize::new(0), most: usize::try_from(most).unwrap_or(usize::MAX) }
    }
}

/// Content of a block.
pub(super) enum Kept {
    /// The block itself.
    Block(Held),
    /// Copy of its used part.
    Copy(Copy),
}

/// A copy, counted against the spare memory as long as it lives.
pub(super) struct Copy {
    bytes: Box<[u8]>,
    spare: Arc<Spare>,
}

impl Kept {
    /// The block, or what is in it if it had better go back.
    pub(super) fn of(held: Held, spare: &Arc<Spare>) -> Kept {
        let used = block::used(held.bytes());
        let copies = used.len() <= held.bytes().len() / NEARLY_EMPTY
            // One thread alone adds to it.
            && spare.used.load(Ordering::Relaxed) + used.len() + OVERHEAD <= spare.most;
        if !copies {
            return Kept::Block(held);
        }
        spare.used.fetch_add(used.len() + OVERHEAD, Ordering::Relaxed);
        Kept::Copy(Copy { bytes: used.into(), spare: Arc::clone(spare) })
    }

    /// The block, as far as there are packets in it at least.
    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Kept::Block(held) => held.bytes(),
            Kept::Copy(copy) => &copy.bytes,
        }
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        self.spare.used.fetch_sub(self.bytes.len() + OVERHEAD, Ordering::Relaxed);
    }
}
