//! Learns at once when somebody sets `CLOCK_REALTIME`; the kernel does so itself after a suspend.
//!
//! The daemon looks at the host's clocks every 0.9 s anyway. This makes it look within milliseconds
//! of a resume, when readers would else take the counter of before for the one of now.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use crate::sys;

/// A timer that never comes, but is cancelled when the clock is set.
#[derive(Debug)]
pub(crate) struct ClockSet(OwnedFd);

impl ClockSet {
    /// Begins to watch. Without it nothing is wrong, only later: in clock simulators, say, where
    /// the clock is not the kernel's and such timers are not to be had.
    pub(crate) fn watch() -> Option<ClockSet> {
        if truechimer_counter::is_simulated() {
            return None;
        }
        sys::clock_timer().and_then(ClockSet::over).ok()
    }

    fn over(timer: OwnedFd) -> io::Result<ClockSet> {
        sys::await_clock_set(&timer)?;
        Ok(ClockSet(timer))
    }

    /// File descriptor to wait for.
    pub(crate) fn interest(&self) -> sys::pollfd {
        sys::pollfd { fd: self.0.as_raw_fd(), events: sys::POLLIN, revents: 0 }
    }

    /// Waits for the next time. `None` if that cannot be had any more.
    pub(crate) fn again(self) -> Option<ClockSet> {
        // Arming it anew takes the place of reading what happened.
        ClockSet::over(self.0).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_nobody_sets_wakes_nobody() {
        let Some(watch) = ClockSet::watch() else { return };
        let mut fds = [watch.interest()];
        assert!(!sys::poll(&mut fds, 20).unwrap());
        let watch = watch.again().unwrap();
        assert!(!sys::poll(&mut [watch.interest()], 1).unwrap());
    }
}
