//! Clocks that stand still until time is let pass.

use libc::{CLOCK_MONOTONIC, CLOCK_MONOTONIC_RAW, CLOCK_REALTIME, clockid_t};

/// Advance of the clocks by a reading before the first packet, ns: a program may measure how
/// finely they tick, and must not do so for ever.
const READING: i64 = 101;

/// The host's clocks at one moment, ns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Moment {
    /// `CLOCK_REALTIME`.
    pub realtime: i64,
    /// `CLOCK_MONOTONIC`.
    pub monotonic: i64,
    /// `CLOCK_MONOTONIC_RAW`.
    pub raw: i64,
}

/// Clocks as the process sees them.
#[derive(Debug, Default)]
pub struct Clocks {
    shown: Option<Moment>,
    /// A packet has been sent.
    sent: bool,
}

impl Clocks {
    /// None has been read yet.
    #[must_use]
    pub const fn new() -> Clocks {
        Clocks { shown: None, sent: false }
    }

    /// Lets the clocks catch up with the host's. They never go back for having been read too often.
    pub fn pass(&mut self, now: Moment) {
        let lead = self.shown.map_or(0, |shown| shown.raw.saturating_sub(now.raw).max(0));
        self.shown = Some(now.later(lead));
    }

    /// From now on a reading moves nothing.
    pub fn sent(&mut self) {
        self.sent = true;
    }

    /// Moment that the clocks show, which is that of `now` if none has been read before.
    pub fn shown(&mut self, now: impl FnOnce() -> Moment) -> Moment {
        *self.shown.get_or_insert_with(now)
    }

    /// A reading of one clock, ns; `None` if it is not one of the three.
    pub fn read(&mut self, clock: clockid_t, now: impl FnOnce() -> Moment) -> Option<i64> {
        let mut shown = self.shown(now);
        if !self.sent {
            shown = shown.later(READING);
            self.shown = Some(shown);
        }
        match clock {
            CLOCK_REALTIME => Some(shown.realtime),
            CLOCK_MONOTONIC => Some(shown.monotonic),
            CLOCK_MONOTONIC_RAW => Some(shown.raw),
            _ => None,
        }
    }
}

impl Moment {
    fn later(self, ns: i64) -> Moment {
        Moment {
            realtime: self.realtime.saturating_add(ns),
            monotonic: self.monotonic.saturating_add(ns),
            raw: self.raw.saturating_add(ns),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ns: i64) -> Moment {
        Moment { realtime: 1_000_000 + ns, monotonic: 2_000 + ns, raw: ns }
    }

    #[test]
    fn they_stand_still_once_a_packet_was_sent() {
        let mut clocks = Clocks::new();
        let raw = |clocks: &mut Clocks| clocks.read(CLOCK_MONOTONIC_RAW, || at(500));
        assert_eq!(raw(&mut clocks), Some(601));
        assert_eq!(raw(&mut clocks), Some(702));
        clocks.sent();
        assert_eq!(raw(&mut clocks), Some(702));
        assert_eq!(clocks.read(CLOCK_REALTIME, || at(0)), Some(1_000_702));
        assert_eq!(clocks.read(CLOCK_MONOTONIC, || at(0)), Some(2_702));
        clocks.pass(at(650));
        assert_eq!(raw(&mut clocks), Some(702), "back");
        clocks.pass(at(9_000));
        assert_eq!(raw(&mut clocks), Some(9_000));
    }

    #[test]
    fn there_are_three() {
        for other in [libc::CLOCK_BOOTTIME, libc::CLOCK_TAI, libc::CLOCK_REALTIME_COARSE] {
            assert_eq!(Clocks::new().read(other, || at(0)), None);
        }
    }
}
