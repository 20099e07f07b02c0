//! The ring of blocks that the kernel and we share, and whose each block is.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use memmap2::{MmapOptions, MmapRaw};

/// Where a block's status is in it (`block_status` of `struct tpacket_block_desc`).
const STATUS: usize = 8;

/// The memory, mapped as long as anybody holds a block of it.
#[derive(Debug)]
pub(super) struct Ring {
    memory: MmapRaw,
    block_size: usize,
    /// For each block whether one of us holds it. The kernel's status alone does not tell: when
    /// the ring has gone round, it says "yours" of a block that is still being read.
    held: Box<[AtomicBool]>,
}

impl Ring {
    /// Maps a socket's ring of so many blocks of so many bytes (a multiple of the page).
    pub(super) fn map(
        socket: BorrowedFd<'_>,
        blocks: usize,
        block_size: usize,
    ) -> io::Result<Ring> {
        let length = blocks
            .checked_mul(block_size)
            .filter(|length| *length > 0 && block_size >= 4096)
            .ok_or(io::ErrorKind::InvalidInput)?;
        let memory = MmapOptions::new().len(length).map_raw(&socket)?;
        let held = (0..blocks).map(|_| AtomicBool::new(false)).collect();
        Ok(Ring { memory, block_size, held })
    }

    /// Number of blocks.
    pub(super) fn blocks(&self) -> usize {
        self.held.len()
    }

    /// True if somebody holds the block of this number.
    pub(super) fn is_held(&self, index: usize) -> bool {
        self.held.get(index).is_some_and(|held| held.load(Ordering::Relaxed))
    }

    /// The block of this number, if the kernel has handed it over and nobody holds it.
    pub(super) fn take(ring: &Arc<Ring>, index: usize) -> Option<Held> {
        let held = ring.held.get(index)?;
        // Acquire: whoever held it before has given it to the kernel by now.
        if held.swap(true, Ordering::Acquire) {
            return None;
        }
        // Acquire: what the kernel wrote into the block comes before its status.
        if ring.status(index).load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
            held.store(false, Ordering::Release);
            return None;
        }
        Some(Held { ring: Arc::clone(ring), index })
    }

    fn block(&self, index: usize) -> *mut u8 {
        assert!(index < self.held.len());
        // SAFETY: within the mapping, as there are so many blocks.
        unsafe { self.memory.as_mut_ptr().add(index * self.block_size) }
    }

    fn status(&self, index: usize) -> &AtomicU32 {
        // SAFETY: within the block, aligned as blocks begin at pages, and mapped as long as `self`.
        // We and the kernel access it atomically only, but for `Held::bytes`, while which exists
        // nobody writes it. A block is reached through `Held` alone, of which there is one at a time.
        unsafe { AtomicU32::from_ptr(self.block(index).add(STATUS).cast()) }
    }
}

/// A block that is ours; dropping it gives it back to the kernel.
#[derive(Debug)]
pub(super) struct Held {
    ring: Arc<Ring>,
    index: usize,
}

impl Held {
    /// The block.
    pub(super) fn bytes(&self) -> &[u8] {
        let block = self.ring.block(self.index);
        // SAFETY: so long a block is mapped there; the kernel leaves a block alone that it handed
        // over, and of us only the one `Held` of it reaches it.
        unsafe { std::slice::from_raw_parts(block, self.ring.block_size) }
    }

    /// The block, to change.
    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        let block = self.ring.block(self.index);
        // SAFETY: as above, and `self` is not shared now.
        unsafe { std::slice::from_raw_parts_mut(block, self.ring.block_size) }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // Release: what we read of the block was read before the kernel writes to it again.
        self.ring.status(self.index).store(libc::TP_STATUS_KERNEL, Ordering::Release);
        // Only now: who finds it free must not find the old status.
        if let Some(held) = self.ring.held.get(self.index) {
            held.store(false, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

    use super::*;

    const BLOCK: usize = 65_536;

    /// A ring of two blocks in ordinary memory; we are the kernel.
    fn ring() -> Arc<Ring> {
        let file = memfd_create("ring", MemfdFlags::empty()).unwrap();
        ftruncate(&file, 2 * BLOCK as u64).unwrap();
        Arc::new(Ring::map(file.as_fd(), 2, BLOCK).unwrap())
    }

    fn hand_over(ring: &Ring, index: usize) {
        ring.status(index).store(libc::TP_STATUS_USER, Ordering::Release);
    }

    #[test]
    fn a_block_is_in_one_pair_of_hands() {
        let ring = ring();
        assert!(Ring::take(&ring, 0).is_none() && Ring::take(&ring, 2).is_none());
        hand_over(&ring, 0);
        let held = Ring::take(&ring, 0).unwrap();
        // The kernel's word stands, but somebody has it.
        assert!(ring.is_held(0) && Ring::take(&ring, 0).is_none() && !ring.is_held(1));
        drop(held);
        assert_eq!(ring.status(0).load(Ordering::Acquire), libc::TP_STATUS_KERNEL);
        assert!(!ring.is_held(0) && Ring::take(&ring, 0).is_none());
    }

    #[test]
    fn a_block_outlives_everything_else() {
        let ring = ring();
        hand_over(&ring, 1);
        let mut held = Ring::take(&ring, 1).unwrap();
        drop(ring);
        held.bytes_mut()[BLOCK - 1] = 7;
        let there = std::thread::spawn(move || held.bytes()[BLOCK - 1]);
        assert_eq!(there.join().unwrap(), 7);
    }

    #[test]
    fn nonsense_is_not_mapped() {
        let file = std::fs::File::open("/dev/null").unwrap();
        for (blocks, size) in [(0, 4096), (1, 100), (usize::MAX, 4096), (1, 4096)] {
            assert!(Ring::map(file.as_fd(), blocks, size).is_err());
        }
    }
}
