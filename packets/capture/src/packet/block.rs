//! Contents of a block: `struct tpacket_block_desc`, `struct tpacket3_hdr` and `struct sockaddr_ll`
//! of `linux/if_packet.h`, read with every offset checked.

use crate::tap::{Direction, KernelClock, Packet, RawStamp};

/// View of the packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct View {
    /// True if a cooked header stands before each, see [`cook`].
    pub is_cooked: bool,
    /// At most so much of each, its tag included.
    pub snap_length: u32,
}

/// Where the block says how many packets it has, and where the first is.
const PACKETS: usize = 12;
const FIRST: usize = 16;
/// Where it says how much of it is used.
const USED: usize = 20;
/// Length of `struct tpacket3_hdr`; the address follows.
const HEADER: usize = 48;
/// Length of `struct sockaddr_ll`.
const ADDRESS: usize = 20;
/// Length of the header of `LINUX_SLL2`.
pub(super) const COOKED: usize = 20;
/// Bytes of an Ethernet frame before a VLAN tag.
const ADDRESSES: u32 = 12;
/// Type of a VLAN tag where the kernel does not say: 802.1Q.
const TPID: u16 = 0x8100;

/// The fields of a packet's header and address that are used.
struct Entry {
    next: u32,
    seconds: u32,
    nanoseconds: u32,
    kept: u32,
    length: u32,
    status: u32,
    start: u16,
    tci: u16,
    tpid: u16,
    address: [u8; ADDRESS],
}

impl Entry {
    fn read(block: &[u8], at: usize) -> Option<Entry> {
        let bytes: &[u8; HEADER + ADDRESS] = block.get(at..)?.first_chunk()?;
        let (words, address) = bytes.split_at_checked(HEADER)?;
        let (words, _) = words.as_chunks::<4>();
        let &[next, seconds, nanoseconds, kept, length, status, offsets, _, tci, tpid, _, _] =
            words
        else {
            return None;
        };
        let word = u32::from_ne_bytes;
        let first = |[a, b, _, _]: [u8; 4]| u16::from_ne_bytes([a, b]);
        Some(Entry {
            next: word(next),
            seconds: word(seconds),
            nanoseconds: word(nanoseconds),
            kept: word(kept),
            length: word(length),
            status: word(status),
            start: first(offsets),
            tci: word(tci) as u16,
            tpid: first(tpid),
            address: *address.first_chunk()?,
        })
    }

    /// When; whether by the kernel at arrival or by the card.
    fn stamp(&self) -> (RawStamp, bool) {
        if self.nanoseconds >= 1_000_000_000 {
            return (RawStamp::Missing, false);
        }
        let ns = i64::from(self.seconds) * 1_000_000_000 + i64::from(self.nanoseconds);
        if self.status & libc::TP_STATUS_TS_RAW_HARDWARE != 0 {
            (RawStamp::Clock(KernelClock::Device, ns), true)
        } else {
            let early = self.status & libc::TP_STATUS_TS_SOFTWARE != 0;
            (RawStamp::Clock(KernelClock::Realtime, ns), early)
        }
    }

    fn tag(&self) -> Option<[u8; 4]> {
        if self.status & libc::TP_STATUS_VLAN_VALID == 0 {
            return None;
        }
        let known = self.status & libc::TP_STATUS_VLAN_TPID_VALID != 0;
        let [t0, t1] = if known { self.tpid } else { TPID }.to_be_bytes();
        let [c0, c1] = self.tci.to_be_bytes();
        Some([t0, t1, c0, c1])
    }

    fn direction(&self) -> Direction {
        let [.., kind, _, _, _, _, _, _, _, _, _] = self.address;
        match kind {
            libc::PACKET_OUTGOING => Direction::Out,
            libc::PACKET_HOST..=libc::PACKET_OTHERHOST => Direction::In,
            _ => Direction::Unknown,
        }
    }

    /// The header of `LINUX_SLL2` that says what the address says.
    fn cooked(&self) -> [u8; COOKED] {
        let [_, _, p0, p1, i0, i1, i2, i3, h0, h1, kind, length, address @ ..] = self.address;
        let [i0, i1, i2, i3] = i32::from_ne_bytes([i0, i1, i2, i3]).to_be_bytes();
        let [h0, h1] = u16::from_ne_bytes([h0, h1]).to_be_bytes();
        let mut header = [0; COOKED];
        let (words, rest) = header.split_at_mut(12);
        words.copy_from_slice(&[p0, p1, 0, 0, i0, i1, i2, i3, h0, h1, kind, length]);
        rest.copy_from_slice(&address);
        header
    }
}

fn word(block: &[u8], at: usize) -> Option<u32> {
    block.get(at..)?.first_chunk().map(|word| u32::from_ne_bytes(*word))
}

/// Number of packets that the block says it has; never more than fit in.
pub(super) fn packets(block: &[u8]) -> usize {
    let said = word(block, PACKETS).unwrap_or(0) as usize;
    said.min(block.len() / HEADER)
}

/// The part of the block that packets are in: all of it if what it says cannot be.
pub(super) fn used(block: &[u8]) -> &[u8] {
    word(block, USED).and_then(|used| block.get(..used as usize)).unwrap_or(block)
}

/// Calls `each` with one packet after the other; how many were stamped late. A packet that does
/// not lie in the block ends it.
pub(super) fn walk(block: &[u8], view: View, each: &mut dyn FnMut(&Packet<'_>)) -> u64 {
    let mut late = 0;
    entries(block, |block, at, entry| {
        let before = if view.is_cooked { COOKED } else { 0 };
        let found = entry.tag().filter(|_| !view.is_cooked);
        // Too little is kept for it to have a place: then it is only cut off, not unheard of.
        let tag = found.filter(|_| entry.kept >= ADDRESSES);
        let cut = if found.is_some() && tag.is_none() { 4 } else { 0 };
        let start = (at + usize::from(entry.start)).checked_sub(before)?;
        let room = match tag {
            // The tag counts; what it stands behind is kept even where it does not fit.
            Some(tag) => view.snap_length.saturating_sub(tag.len() as u32).max(ADDRESSES),
            None => view.snap_length,
        };
        let kept = entry.kept.saturating_add(before as u32).min(room);
        let data = block.get(start..)?.get(..kept as usize)?;
        let (stamp, early) = entry.stamp();
        late += u64::from(!early);
        let length = entry.length.saturating_add(before as u32 + cut).max(kept);
        let direction = entry.direction();
        each(&Packet { stamp, data, tag, length, direction, queue: 0 });
        Some(())
    });
    late
}

/// Writes a cooked header before each packet, where the kernel left room for it.
pub(super) fn cook(block: &mut [u8]) {
    let mut at = word(block, FIRST).unwrap_or(0) as usize;
    for _ in 0..packets(block) {
        let Some(entry) = Entry::read(block, at) else { return };
        let end = at + usize::from(entry.start);
        let place = end.checked_sub(COOKED).filter(|start| *start >= at + HEADER + ADDRESS);
        if let Some(place) = place.and_then(|start| block.get_mut(start..end)) {
            place.copy_from_slice(&entry.cooked());
        }
        if entry.next == 0 {
            return;
        }
        at = at.saturating_add(entry.next as usize);
    }
}

fn entries<'a>(block: &'a [u8], mut each: impl FnMut(&'a [u8], usize, Entry) -> Option<()>) {
    let mut at = word(block, FIRST).unwrap_or(0) as usize;
    for _ in 0..packets(block) {
        let Some(entry) = Entry::read(block, at) else { return };
        let next = entry.next as usize;
        if each(block, at, entry).is_none() || next == 0 {
            return;
        }
        at = at.saturating_add(next);
    }
}

#[cfg(test)]
mod tests;
