//! A packet that came too early for everything that is known.
//!
//! Queueing makes packets late, never early. One that is early by many standard deviations means
//! that the path became shorter, or that the oscillator changed. Each explanation is tried on the
//! exchange, and the likeliest stands; if the packet is early only a little, that may be neither.

#![allow(clippy::indexing_slicing)] // All indices run over arrays of a fixed length.

use crate::bank::{Bank, Seen};
use crate::filter::{BOTH_FLOORS, FLOORS, STATES, sums};

/// So many standard deviations early is a surprise.
const EARLY: f64 = 6.0;
/// Logarithm of how unlikely it is beforehand that something has changed just now.
const COST: f64 = 20.0;
/// A shorter path is likelier than another oscillator, by so much (logarithm) ...
const PATH_FIRST: f64 = 5.0;
/// ... but only if the round trip, too, is below its floor, by so many standard deviations.
const SHORT: f64 = 2.0;
/// That the oscillator changes just then, too, is less likely by so much (logarithm).
const BOTH: f64 = 15.0;
/// The floor of a shorter path is known from one packet to so many times what is typical.
const QUEUED: f64 = 3.0;
/// After so many exchanges (an hour at 16 s) the floor is no longer thought to be hidden.
const PROVEN: u32 = 256;

impl Bank {
    /// Replaces `after`, which is this bank after the exchange, by one for which something has
    /// changed, if that is likelier. Says whether there was a surprise at all.
    pub(super) fn surprise(&self, seen: Seen, slack: f64, after: &mut Bank) -> bool {
        if !self.parts.surprises {
            return false;
        }
        let (mut early, mut ahead) = ([0.0; 2], [0.0; 2]);
        for (d, sum) in sums(seen.duration).iter().enumerate() {
            let known = self.best().project(sum);
            let by = known.mean - seen.late[d];
            ahead[d] = by.max(0.0);
            if by > EARLY * libm::sqrt(known.variance + self.laws[d].noise) {
                early[d] = by;
            }
        }
        let floors = self.best().project(&BOTH_FLOORS);
        let short = floors.mean - (seen.late[0] + seen.late[1] + self.now.rate * seen.duration);
        let short_by = short
            / libm::sqrt(floors.variance + self.laws.iter().map(|law| law.noise).sum::<f64>());
        // No clock makes a round trip shorter.
        let both = short_by > EARLY && ahead[0] > 0.0 && ahead[1] > 0.0;
        if early == [0.0; 2] && !both {
            return false;
        }
        let settling = self.settling();
        let doubt = if settling { BOTH } else { 0.0 };
        // That the clock moved after all, by a restless oscillator, is as unlikely as that it changed.
        after.evidence_less(doubt);
        let mut consider = |other: Bank, cost: f64| {
            let mut other = other.tried(seen);
            other.evidence_less(cost);
            if other.evidence() > after.evidence() {
                *after = other;
            }
        };
        if both {
            consider(self.with_shorter_path(ahead), COST - PATH_FIRST);
        }
        if early == [0.0; 2] {
            return true;
        }
        consider(self.with_another_clock(early[0].max(early[1]), slack), COST + doubt);
        if short_by > SHORT {
            let share = short / (early[0] + early[1]);
            let shorter = early.map(|by| by.min(share * by));
            consider(self.with_shorter_path(shorter), COST - PATH_FIRST);
            // Or a queue of the other direction hides the rest.
            if share < 1.0 {
                consider(self.with_shorter_path(early), COST - PATH_FIRST);
            }
        } else if settling {
            consider(self.with_shorter_path(early), COST - PATH_FIRST);
        }
        true
    }

    /// The oscillator has changed since the exchange before, and θ is off by about `by`.
    fn with_another_clock(&self, by: f64, slack: f64) -> Bank {
        let mut bank = self.without_past();
        let rate = (by / self.gap.max(1.0)).min(slack);
        for filter in &mut bank.members {
            filter.inflate(&[by, rate, 0.0, 0.0], 1.0);
            filter.inflate(&[by / 2.0, 0.0, 0.0, 0.0], 1.0);
        }
        bank.count_surprise();
        bank.combine();
        bank
    }

    /// Each direction has become shorter by so much, or never was so long.
    ///
    /// First that undoes what made this direction longer than the other: the clock keeps its
    /// offset. What remains cannot be told from a floor that was hidden by queueing so far; at first
    /// the path is then taken to be symmetric, and half of it goes to the offset. After an hour of
    /// packets at the old floor it is a change of route rather: the clock is where it was.
    fn with_shorter_path(&self, by: [f64; 2]) -> Bank {
        let mut bank = self.without_past();
        bank.changed = Some(bank.count);
        for d in 0..2 {
            if by[d] <= 0.0 {
                continue;
            }
            let longer = bank.now.floors[d] - bank.now.floors[1 - d];
            let hidden = self.count < PROVEN;
            let held = if hidden { by[d].min(longer.max(0.0)) } else { by[d] };
            let rest = by[d] - held;
            let mut floor = [0.0; STATES];
            floor[FLOORS[d]] = 1.0;
            let toward = if d == 0 { 0.5 } else { -0.5 };
            let halves = [toward, 0.0, 0.5, 0.5];
            // This packet, too, may have met a queue.
            let blur = (QUEUED * bank.laws[d].idle()).min(held);
            for filter in &mut bank.members {
                filter.shift(&floor, -held);
                filter.inflate(&floor, blur * blur);
                // That was hidden, and the clock off, all the time.
                filter.correct(&halves, -rest, rest * rest / 16.0);
            }
            bank.laws[d].forget_now();
            bank.combine();
        }
        bank
    }
}
