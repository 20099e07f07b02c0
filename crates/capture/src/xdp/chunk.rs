//! Packets that came together, in their frames or copied out of them.

use truechimer_time::Count;

use super::frames::{Frame, Held};
use super::program::Notes;
use crate::filter::Filter;
use crate::tap::{Chunk, Direction, KernelClock, Packet, RawStamp};

/// How the stamp that a program noted is to be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Reading {
    /// There are no notes: this is when the packets were taken out of the ring.
    Dequeue,
    /// `CLOCK_MONOTONIC`.
    Clock,
    /// What a CPU's perf event counts since the count that is here at the CPU's number.
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

/// How a chunk's frames are to be read.
#[derive(Clone, Debug)]
pub(super) struct View {
    pub reading: std::sync::Arc<Reading>,
    /// When they were taken, where that is the stamp.
    pub taken: Option<Count>,
    pub snap: u32,
    pub queue: u16,
}

impl View {
    #[inline]
    fn packet<'a>(&self, before: &[u8], bytes: &'a [u8]) -> Packet<'a> {
        let there = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let (stamp, length) = match self.taken {
            Some(count) => (RawStamp::Count(count), there),
            None => match Notes::read(before) {
                Some(notes) => {
                    (self.reading.stamp(notes.stamp, notes.cpu), notes.length.max(there))
                }
                None => (RawStamp::Missing, there),
            },
        };
        let data = bytes.get(..self.snap as usize).unwrap_or(bytes);
        Packet { stamp, data, tag: None, length, direction: Direction::In, queue: self.queue }
    }

    /// Whether a packet passes. The filter sees all of it that is there.
    fn passes(filter: &Filter, before: &[u8], bytes: &[u8]) -> bool {
        let there = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let length = Notes::read(before).map_or(there, |notes| notes.length.max(there));
        filter.matches(bytes, length)
    }
}

/// Packets of one frame each, where they are.
#[derive(Debug)]
pub(super) struct Framed {
    held: Held,
    view: View,
}

impl Framed {
    /// Those that pass; how many did not.
    pub fn new(mut held: Held, view: View, filter: Option<&Filter>) -> (Framed, u64) {
        let all = held.len();
        if let Some(filter) = filter {
            held.retain(|Frame { before, bytes, .. }| View::passes(filter, before, bytes));
        }
        let refused = (all - held.len()) as u64;
        (Framed { held, view }, refused)
    }
}

impl Chunk for Framed {
    fn len(&self) -> usize {
        self.held.len()
    }

    fn for_each(&self, each: &mut dyn FnMut(&Packet<'_>)) {
        for frame in self.held.iter() {
            each(&self.view.packet(frame.before, frame.bytes));
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
    /// Adds a packet.
    pub fn push(&mut self, packet: &Packet<'_>) {
        let Packet { stamp, data, tag: _, length, direction: _, queue } = *packet;
        let captured = u32::try_from(data.len()).unwrap_or(u32::MAX);
        self.packets.push(Place { stamp, start: self.bytes.len(), captured, length, queue });
        self.bytes.extend_from_slice(data);
    }

    /// Joins the packets that go over several frames; how many there were, and how many of them did
    /// not pass.
    pub fn join(held: &Held, view: &View, filter: Option<&Filter>) -> (Copied, u64, u64) {
        let mut copied = Copied::default();
        let (mut all, mut refused) = (0, 0);
        let mut whole: Vec<u8> = Vec::new();
        let mut before: &[u8] = &[];
        for frame in held.iter() {
            if whole.is_empty() {
                before = frame.before;
            }
            whole.extend_from_slice(frame.bytes);
            if frame.continues {
                continue;
            }
            all += 1;
            if filter.is_none_or(|filter| View::passes(filter, before, &whole)) {
                copied.push(&view.packet(before, &whole));
            } else {
                refused += 1;
            }
            whole.clear();
        }
        (copied, all, refused)
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
