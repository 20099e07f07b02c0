//! A server whose time has moved, where causality is too wide to say so.
//!
//! A step of the server makes one direction earlier and the other later by as much, and leaves the
//! round trip as it is. Queueing makes nothing early; a shorter path shows in the round trip; an
//! oscillator goes no further in a moment than it may. What is earlier than all of these allow is the
//! server's doing, or a jump of the counter, or both directions have changed at once by opposite
//! amounts. In none of these cases is it the time that has moved.

#![allow(clippy::indexing_slicing)] // All indices run over arrays of a fixed length.

use crate::bank::{Bank, Seen};
use crate::filter::{BOTH_FLOORS, sums};

/// Earlier by so many standard deviations than the floor ...
const EARLY: f64 = 6.0;
/// ... and than so many times what the oscillator may have strayed since the exchange before.
const ROOM: f64 = 4.0;

impl Bank {
    /// Whether an exchange that arrives `gap` seconds after the one before is earlier than anything
    /// explains but a step of the server's time.
    pub(crate) fn has_server_moved(&self, seen: Seen, gap: f64, slack: f64) -> bool {
        if !self.started() {
            return false;
        }
        let mut best = *self.best();
        best.predict(gap, 0.0);
        let rtt = seen.late[0] + seen.late[1] + self.now().rate * seen.duration;
        let short = (best.project(&BOTH_FLOORS).mean - rtt).max(0.0);
        sums(seen.duration).iter().enumerate().any(|(d, sum)| {
            let known = best.project(sum);
            let early = known.mean - seen.late[d] - short;
            early > EARLY * libm::sqrt(known.variance + self.laws[d].noise) + ROOM * slack * gap
        })
    }
}
