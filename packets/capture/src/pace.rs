//! When to look again.
//!
//! Whoever waits in `poll` is woken up for every batch that the driver takes, 64 packets or fewer,
//! or for every block of a packet socket's ring, and the waking costs the processor that receives
//! several microseconds: as much as the packets themselves. It costs the processor that is woken no
//! less, where the thread that writes was at work there. While they come fast, it is better to
//! sleep for a while, and not to be waited for.

use std::time::{Duration, Instant};

/// Unit of counting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Unit {
    /// Those that come closer together than this, on average, come fast.
    pub fast: Duration,
    /// Fewer than this tell nothing about that.
    pub least: u64,
}

/// Packets, one by one.
pub(crate) const PACKETS: Unit = Unit { fast: Duration::from_micros(5), least: 32 };
/// Blocks of many packets.
pub(crate) const BLOCKS: Unit = Unit { fast: Duration::from_micros(250), least: 2 };
/// A sleep shorter than this costs more than it saves.
const SHORTEST: Duration = Duration::from_micros(20);

/// Pace at which packets, or blocks of them, come.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    unit: Unit,
    /// The longest sleep.
    most: Duration,
    /// Number of packets or blocks that may come meanwhile.
    room: u64,
    /// When it was waited last.
    since: Instant,
    taken: u64,
}

impl Pace {
    pub fn new(unit: Unit, most: Duration, room: u64) -> Pace {
        Pace { unit, most, room, since: Instant::now(), taken: 0 }
    }

    /// Notes that `more` have been taken.
    pub fn took(&mut self, more: u64) {
        self.taken += more;
    }

    /// There are no more at `now`: how long to sleep, if that is better than to be woken up.
    pub fn rest(&mut self, now: Instant) -> Option<Duration> {
        let passed = now.saturating_duration_since(self.since);
        let taken = std::mem::take(&mut self.taken);
        self.since = now;
        let taken =
            u32::try_from(taken).ok().filter(|&taken| u64::from(taken) >= self.unit.least)?;
        let each = passed / taken;
        if each > self.unit.fast {
            return None;
        }
        let full = each.saturating_mul(u32::try_from(self.room).unwrap_or(u32::MAX));
        Some(full.min(self.most)).filter(|&rest| rest >= SHORTEST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: Duration = Duration::from_micros(200);

    fn rest(packets: u64, micros: u64, room: u64) -> Option<Duration> {
        rest_of(PACKETS, packets, micros, room)
    }

    fn rest_of(unit: Unit, taken: u64, micros: u64, room: u64) -> Option<Duration> {
        let mut pace = Pace::new(unit, MOST, room);
        pace.took(taken);
        let then = pace.since + Duration::from_micros(micros);
        let rest = pace.rest(then);
        assert_eq!(pace.rest(then + Duration::from_micros(1)), None, "begins anew");
        rest
    }

    #[test]
    fn sleeps_only_while_packets_come_fast() {
        assert_eq!(rest(1000, 1000, 1 << 20), Some(MOST));
        assert_eq!(rest(100, 1000, 1 << 20), None, "10 µs apart");
        assert_eq!(rest(31, 1, 1 << 20), None, "too few to tell");
        assert_eq!(rest(0, 0, 1 << 20), None);
        assert_eq!(rest(u64::MAX, 5, 1 << 20), None, "not to be believed");
    }

    #[test]
    fn sleeps_no_longer_than_the_ring_has_room_for() {
        assert_eq!(rest(1000, 1000, 100), Some(Duration::from_micros(100)));
        assert_eq!(rest(1000, 1000, 10), None, "not worth it");
    }

    #[test]
    fn few_blocks_tell_how_fast_they_come() {
        assert_eq!(rest_of(BLOCKS, 2, 160, 64), Some(MOST));
        assert_eq!(rest_of(BLOCKS, 2, 160, 1), Some(Duration::from_micros(80)));
        assert_eq!(rest_of(BLOCKS, 2, 1000, 64), None, "handed over by time");
        assert_eq!(rest_of(BLOCKS, 1, 80, 64), None, "may be the last of many");
    }
}
