//! Fates of packets, counted by several, so that every one of them is accounted for.

use std::time::{Duration, Instant};

use crate::tap::Losses;

/// More packets than can be between the program and the rings of one queue: what the driver takes
/// before it lets user space know.
const IN_FLIGHT: u64 = 256;

/// Packets that the program sent to a socket and that nobody has counted since: those on their way,
/// and those lost in between.
#[derive(Clone, Copy, Debug)]
pub(super) struct Astray {
    lost: u64,
    seen: u64,
    since: Instant,
}

/// Fates of the packets so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct XdpCounts {
    /// The program sent them to a socket.
    pub seen: u64,
    /// They were taken out of the rings.
    pub taken: u64,
    /// Of those: refused by the filter.
    pub refused: u64,
    /// Frames in the rings, not taken yet.
    pub waiting: u64,
    /// Dropped by the kernel: a receive ring was full.
    pub ring_full: u64,
    /// Dropped by the kernel: no frame was free, or the packet was too long for one.
    pub dropped: u64,
    /// Of those, as a rule: how often no frame was free.
    pub fill_empty: u64,
    /// Frames whose description made no sense.
    pub invalid: u64,
    /// Passed on to the host: their queue is not captured from.
    pub elsewhere: u64,
    /// Passed on to the host: the driver leaves no room for a stamp.
    pub unnoted: u64,
}

impl XdpCounts {
    /// Seen, and neither in the rings nor taken nor known to be dropped.
    fn unaccounted(&self) -> u64 {
        let known = self.taken + self.waiting + self.dropped + self.ring_full + self.invalid;
        self.seen.saturating_sub(known)
    }

    /// Losses, with those that were lost in between.
    pub(super) fn losses(&self, astray: u64) -> Losses {
        let no_frame = self.dropped.min(self.fill_empty);
        let ring = self.ring_full + no_frame;
        let kernel = self.dropped - no_frame + self.invalid + self.unnoted + astray;
        Losses { received: self.taken - self.refused + ring + kernel, ring, kernel, interface: 0 }
    }
}

impl Astray {
    pub fn new() -> Astray {
        Astray { lost: 0, seen: 0, since: Instant::now() }
    }

    /// Number of packets lost in between. Exact once packets have stopped coming, as they have when
    /// the program `is_gone`; before, it is what is more than can be on the way.
    pub fn note(&mut self, counts: &XdpCounts, queues: u64, is_gone: bool) -> u64 {
        let between = counts.unaccounted();
        let unchanged =
            counts.seen == self.seen && self.since.elapsed() > Duration::from_millis(20);
        let at_rest = is_gone || unchanged;
        if counts.seen != self.seen {
            (self.seen, self.since) = (counts.seen, Instant::now());
        }
        let on_the_way = if at_rest { 0 } else { IN_FLIGHT.saturating_mul(queues) };
        self.lost = self.lost.max(between.saturating_sub(on_the_way));
        self.lost
    }
}

#[cfg(test)]
#[path = "counts_tests.rs"]
mod tests;
