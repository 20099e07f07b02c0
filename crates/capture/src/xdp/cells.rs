//! How memory is parted into frames, and by which addresses the kernel knows them.
//!
//! The kernel's own frames (*chunks*) have 2 KiB at least. A driver that writes into our memory
//! itself may write anywhere in them, so there a frame is a chunk. Where the kernel copies packets
//! (`XDP_COPY`), it keeps to the chunk's end: it leaves `XDP_PACKET_HEADROOM` and the headroom that
//! was asked for free, but for the notes right before the packet, and puts what is too long for the
//! rest into further chunks. Chunks that may begin anywhere (`XDP_UMEM_UNALIGNED_CHUNK_FLAG`) and are
//! nearly all headroom may then overlap, as long as the parts that are written do not:
//!
//! ```text
//! chunk 0   [ headroom ··············|notes|packet ]
//! chunk 1         [ headroom ··············|notes|packet ]
//! memory                             [   frame 0   |   frame 1   | …
//! ```
//!
//! Short packets so take a tenth of the memory: the same ring holds ten times as many, and what is
//! written and read stays in the caches, which is worth more than anything else here (64-byte
//! packets took 1.8 times as long in frames of 2 KiB).

use super::memory::Descriptor;
use super::program::NOTES;

/// Bytes of a chunk: what the kernel takes at least.
pub(super) const CHUNK: u32 = 2048;
/// What the kernel keeps free in front of each packet (`XDP_PACKET_HEADROOM`).
const HEADROOM: u32 = 256;
/// The smallest frames: two cache lines.
const LEAST: u32 = 128;
/// In an address of an unaligned chunk, where the packet's distance from the chunk's start begins.
const DISTANCE: u32 = 48;

/// A way to part memory into frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Cells {
    /// Bytes of a frame: two to the power of this.
    power: u32,
    /// The first frame begins here.
    first: u64,
    /// So many bytes before each frame its chunk begins.
    lead: u64,
    /// Chunks may begin anywhere, and addresses have two parts.
    is_unaligned: bool,
}

/// Where in memory a descriptor's packet is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Found {
    /// The frame's number.
    pub number: u64,
    /// Where the frame begins.
    pub start: u64,
    /// Where the packet begins.
    pub at: u64,
}

impl Cells {
    /// Each frame a chunk.
    pub const WHOLE: Cells =
        Cells { power: CHUNK.trailing_zeros(), first: 0, lead: 0, is_unaligned: false };

    /// The smallest frames, for kernels that copy, that hold packets of `length` bytes with their
    /// notes; `None` if they would be no smaller than a chunk.
    pub fn holding(length: u32) -> Option<Cells> {
        let size = length.checked_add(NOTES as u32)?.checked_next_power_of_two()?.max(LEAST);
        (size < CHUNK - HEADROOM).then(|| {
            let lead = CHUNK - size;
            Cells {
                power: size.trailing_zeros(),
                first: u64::from(lead),
                lead: u64::from(lead),
                is_unaligned: true,
            }
        })
    }

    /// Bytes of a frame.
    pub fn size(self) -> u32 {
        1 << self.power
    }

    /// Bytes of a packet that one frame holds.
    pub fn room(self) -> u32 {
        if self.is_unaligned { self.size() - NOTES as u32 } else { CHUNK - HEADROOM }
    }

    /// The headroom to ask the kernel for.
    pub fn headroom(self) -> u32 {
        CHUNK - HEADROOM - self.room()
    }

    /// Whether chunks begin anywhere.
    pub fn is_unaligned(self) -> bool {
        self.is_unaligned
    }

    /// How much memory so many frames take.
    pub fn memory(self, frames: u32) -> usize {
        self.first as usize + ((frames as usize) << self.power)
    }

    /// How many frames there are in so much memory.
    pub fn count(self, memory: usize) -> u64 {
        (memory as u64).saturating_sub(self.first) >> self.power
    }

    /// By what address the kernel is given a frame.
    #[inline]
    pub fn address(self, number: u64) -> u64 {
        self.first + (number << self.power) - self.lead
    }

    /// Where a packet is; `None` if it does not lie inside one frame of `memory` bytes.
    #[inline]
    pub fn find(self, descriptor: &Descriptor, memory: usize) -> Option<Found> {
        let at = match self.is_unaligned {
            true => (descriptor.address & ((1 << DISTANCE) - 1)) + (descriptor.address >> DISTANCE),
            false => descriptor.address,
        };
        let number = at.checked_sub(self.first)? >> self.power;
        let start = self.first + (number << self.power);
        let end = start.checked_add(1 << self.power)?;
        (u64::from(descriptor.length) <= end - at && end <= memory as u64).then_some(Found {
            number,
            start,
            at,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What the kernel may write to when it copies a packet's part into a chunk (`__xsk_rcv`).
    fn written(cells: Cells, number: u64) -> std::ops::Range<u64> {
        let packet = cells.address(number) + u64::from(HEADROOM + cells.headroom());
        packet - NOTES as u64..cells.address(number) + u64::from(CHUNK)
    }

    #[test]
    fn frames_are_as_small_as_the_packets_allow() {
        let size = |length| Cells::holding(length).map(Cells::size);
        assert_eq!(size(14), Some(128));
        assert_eq!((size(112), size(113), size(240)), (Some(128), Some(256), Some(256)));
        assert_eq!((size(1008), size(1009), size(u32::MAX)), (Some(1024), None, None));
        assert_eq!((Cells::WHOLE.headroom(), Cells::WHOLE.room()), (0, 1792));
    }

    proptest! {
        /// What is written for one frame lies in that frame, and its chunk in the memory; and what
        /// the kernel says of it is understood.
        #[test]
        fn frames_do_not_overlap(length in 0_u32..1009, count in 1_u32..1000, part in 0.0..1.0_f64) {
            let cells = Cells::holding(length).unwrap();
            prop_assert!(cells.room() >= length);
            let memory = cells.memory(count);
            prop_assert_eq!(cells.count(memory), u64::from(count));
            let number = (f64::from(count) * part) as u64;
            let written = written(cells, number);
            prop_assert!(cells.address(number) + u64::from(CHUNK) <= memory as u64);
            prop_assert_eq!(written.end - written.start, u64::from(cells.size()));
            prop_assert_eq!(written.start % 64, 0, "whole cache lines");
            let distance = u64::from(HEADROOM + cells.headroom());
            let address = cells.address(number) | distance << DISTANCE;
            let descriptor = Descriptor { address, length: cells.room(), options: 0 };
            let (start, at) = (written.start, written.start + NOTES as u64);
            prop_assert_eq!(cells.find(&descriptor, memory), Some(Found { number, start, at }));
            let longer = Descriptor { length: cells.room() + 1, ..descriptor };
            prop_assert_eq!(cells.find(&longer, memory), None);
            prop_assert_eq!(cells.find(&descriptor, memory - 1).is_some(), number + 1 < count.into());
        }

        /// Whatever the kernel says, nothing outside of one frame is found.
        #[test]
        fn wild_descriptors_stay_inside(address: u64, length: u32, packet in 0_u32..2000) {
            let cells = Cells::holding(packet).unwrap_or(Cells::WHOLE);
            let memory = cells.memory(100);
            for address in [address, address % (memory as u64)] {
                let descriptor = Descriptor { address, length, options: 0 };
                if let Some(Found { number, start, at }) = cells.find(&descriptor, memory) {
                    prop_assert!(number < 100 && start <= at);
                    let end = start + u64::from(cells.size());
                    prop_assert!(at + u64::from(length) <= end && end <= memory as u64);
                }
            }
        }
    }
}
