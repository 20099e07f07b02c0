//! Windows, held in stamps and derived from seconds and the poll period.

use super::constants::{
    Class, HISTORY, LOCAL_ENDS, LOCAL_LEAST, LOCAL_OFFSET_WINDOWS, OFFSET_LEAST, POLL,
    SHIFT_DELTAS, SHIFT_LEAST, SHIFT_RATE, STAMP_LATENCY, WARM_UP_LEAST,
};

/// The windows at one poll period, in stamps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Windows {
    /// The poll period itself, s.
    pub(super) poll: u32,
    pub(super) history: u64,
    pub(super) shift: u64,
    pub(super) offset: u64,
    pub(super) local: u64,
    pub(super) warm_up: u64,
}

impl Windows {
    pub(super) fn new(poll: u32, class: &Class) -> Windows {
        let poll = poll.clamp(*POLL.start(), *POLL.end());
        let period = f64::from(poll);
        // In this order the quotient comes out a hair above 1500 s, and is rounded up to 1501
        // stamps at a poll period of 1 s, as the implementation has it.
        let shift = libm::ceil(SHIFT_DELTAS * STAMP_LATENCY / SHIFT_RATE / period) as u64;
        let shift = shift.max(SHIFT_LEAST);
        let offset = ((class.skm_scale / period) as u64).max(OFFSET_LEAST);
        let local = (LOCAL_OFFSET_WINDOWS * offset).max(LOCAL_LEAST);
        let warm_up = WARM_UP_LEAST.max(offset).max(shift).max(local * 3 / 2);
        let mut history = (HISTORY / period) as u64;
        if warm_up + shift > history / 2 {
            history = 3 * (2 * (warm_up + shift) + 1);
        }
        Windows { poll, history, shift, offset, local, warm_up }
    }

    /// Width of either end of the local rate.
    pub(super) fn local_end(&self) -> u64 {
        (self.local / LOCAL_ENDS).max(LOCAL_LEAST)
    }

    /// Number of stamps that a local rate reaches back.
    pub(super) fn local_reach(&self) -> u64 {
        self.local + self.local_end() / 2 + 1
    }
}

#[cfg(test)]
mod tests {
    use super::super::constants::HostClass;
    use super::*;

    /// The table of the implementation's windows in the default class.
    #[test]
    fn windows_are_those_of_the_implementation() {
        for (poll, shift, offset, local, warm_up, history) in [
            (1, 1501, 1024, 5120, 7680, 604_800),
            (4, 376, 256, 1280, 1920, 151_200),
            (16, 100, 64, 320, 480, 37_800),
            (64, 100, 16, 80, 120, 9450),
            (256, 100, 4, 20, 100, 2362),
            (1024, 100, 2, 10, 100, 590),
        ] {
            let windows = Windows { poll, history, shift, offset, local, warm_up };
            assert_eq!(Windows::new(poll, &HostClass::Good.values()), windows);
        }
        let poor = Windows::new(16, &HostClass::Poor.values());
        assert_eq!((poor.offset, poor.local, poor.warm_up), (32, 160, 240));
        assert_eq!(Windows::new(0, &HostClass::Good.values()).poll, 1);
        assert_eq!(Windows::new(u32::MAX, &HostClass::Good.values()).poll, 1024);
    }

    #[test]
    fn the_local_rate_never_reaches_back_before_the_warm_up() {
        for poll in POLL {
            for class in [HostClass::Excellent, HostClass::Good, HostClass::Poor] {
                let windows = Windows::new(poll, &class.values());
                assert!(windows.local_reach() < windows.warm_up, "{windows:?}");
            }
        }
    }
}
