//! Packets that came together, in their frames or copied out of them.

use truechimer_time::Count;

use super::frames::{Frame, Held};
use super::program::Notes;
use crate::filter::Filter;
use crate::tap::{Chunk, Direction, KernelClock, Packet, RawStamp};

/// Meaning of the stamp that a program noted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Reading {
    /// There are no notes: this is when the packets were taken out of the ring.
    Dequeue,
    /// `CLOCK_MONOTONIC`.
    Clock,
    /// Counts of a CPU's perf event since the count that is here at the CPU's number.
    Tsc(Vec<Option<u64>>),
}

impl Reading {
    /// The stamp of a packet with these notes.
    #[inline]
    pub fn stamp(&self, noted: u64, cpu: u16) -> RawStamp {
        match self {
            Reading::Clock => i64::try_from(noted)
                .map_or(RawStamp::Missing, |ns| RawStamp::Clock(KernelClock::Monotonic, ns)),
            Reading::Tsc(bases) => match bases.get(usize::from(cpu)) {
                // An error comes as a small negative number.
                Some(Some(base)) if noted.cast_signed() >= 0 => {
                    RawStamp::Count(Count(base.wrapping_add(noted)))
                }
                _ => RawStamp::Missing,
            },
            Reading::Dequeue => RawStamp::Missing,
        }
    }
}

/// Way to read a chunk's frames.
#[derive(Clone, Debug)]
pub(super) struct View {
    pub reading: std::sync::Arc<Reading>,
    /// When they were taken, where that is the stamp.
    pub taken: Option<Count>,
    pub snap: u32,
    pub queue: u16,
}

impl View {
    /// The notes on a packet. (Where it is not stamped, what is before it is left from earlier
    /// ones.)
    #[inline]
    fn notes(&self, before: &[u8]) -> Option<Notes> {
        if self.taken.is_none() { Notes::read(before) } else { None }
    }

    #[inline]
    fn packet<'a>(&self, before: &[u8], bytes: &'a [u8]) -> Packet<'a> {
        let there = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let notes = self.notes(before);
        let length = notes.map_or(there, |notes| notes.length.max(there));
        let stamp = match (self.taken, notes) {
            (Some(count), _) => RawStamp::Count(count),
            (None, Some(notes)) => self.reading.stamp(notes.stamp, notes.cpu),
            (None, None) => RawStamp::Missing,
        };
        let data = bytes.get(..self.snap as usize).unwrap_or(bytes);
        Packet { stamp, data, tag: None, length, direction: Direction::In, queue: self.queue }
    }

    /// True if a packet passes. The filter sees all of it that is there.
    fn passes(&self, filter: &Filter, before: &[u8], bytes: &[u8]) -> bool {
        let there = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let length = self.notes(before).map_or(there, |n| n.length.max(there));
        filter.matches(bytes, length)
    }
}

/// Packets where they are. Those that go over several frames are joined when they are looked at.
#[derive(Debug)]
pub(super) struct Framed {
    held: Held,
    packets: usize,
    view: View,
}

impl Framed {
    /// Those that pass; how many did not.
    pub fn new(mut held: Held, view: View, filter: Option<&Filter>) -> (Framed, u64) {
        let all = held.packets();
        let mut packets = all;
        if let Some(filter) = filter {
            let mut passing = Vec::with_capacity(all);
            join(&held, |before, bytes| passing.push(view.passes(filter, before, bytes)));
            packets = passing.iter().filter(|&&passes| passes).count();
            held.retain(&passing);
        }
        (Framed { held, packets, view }, (all - packets) as u64)
    }
}

impl Chunk for Framed {
    fn len(&self) -> usize {
        self.packets
    }

    fn for_each(&self, each: &mut dyn FnMut(&Packet<'_>)) {
        join(&self.held, |before, bytes| each(&self.view.packet(before, bytes)));
    }
}

/// Calls `each` with every packet's notes and bytes: in place, or joined if it has several frames.
#[inline]
fn join(held: &Held, mut each: impl FnMut(&[u8], &[u8])) {
    let mut whole: Vec<u8> = Vec::new();
    let mut notes: &[u8] = &[];
    let mut is_within = false;
    for Frame { before, bytes, continues } in held.iter() {
        if !is_within && !continues {
            each(before, bytes);
            continue;
        }
        if !is_within {
            notes = before;
        }
        whole.extend_from_slice(bytes);
        is_within = continues;
        if !is_within {
            each(notes, &whole);
            whole.clear();
        }
    }
}

/// Packets that were copied.
#[derive(Clone, Debug, Default)]
pub(super) struct Copied {
    bytes: Vec<u8>,
    packets: Vec<Place>,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    stamp: RawStamp,
    start: usize,
    captured: u32,
    length: u32,
    queue: u16,
}

impl Copied {
    /// None yet, with room for as many as `other` has.
    pub fn like(other: (usize, usize)) -> Copied {
        let (packets, bytes) = other;
        Copied { bytes: Vec::with_capacity(bytes), packets: Vec::with_capacity(packets) }
    }

    /// Number of packets, and of their bytes.
    pub fn size(&self) -> (usize, usize) {
        (self.packets.len(), self.bytes.len())
    }

    /// Stamps all of them.
    pub fn stamp(&mut self, stamp: RawStamp) {
        self.packets.iter_mut().for_each(|place| place.stamp = stamp);
    }

    /// Adds a packet.
    pub fn push(&mut self, packet: &Packet<'_>) {
        let Packet { stamp, data, tag: _, length, direction: _, queue } = *packet;
        let captured = u32::try_from(data.len()).unwrap_or(u32::MAX);
        self.packets.push(Place { stamp, start: self.bytes.len(), captured, length, queue });
        self.bytes.extend_from_slice(data);
    }
}

impl Chunk for Copied {
    fn len(&self) -> usize {
        self.packets.len()
    }

    fn for_each(&self, each: &mut dyn FnMut(&Packet<'_>)) {
        for &Place { stamp, start, captured, length, queue } in &self.packets {
            let rest = self.bytes.get(start..).unwrap_or_default();
            let data = rest.get(..captured as usize).unwrap_or_default();
            let direction = Direction::In;
            each(&Packet { stamp, data, tag: None, length, direction, queue });
        }
    }
}
