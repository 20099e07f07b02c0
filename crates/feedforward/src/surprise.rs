//! A packet that came too early for what is known.
//!
//! Queueing makes packets late, never early. One that is early by some standard deviations may be
//! mere chance, or the path became shorter, or the oscillator changed. Each explanation that the
//! exchange leaves open is worked out, and what the next ones say decides (see
//! [`accounts`](crate::accounts)).

#![allow(clippy::indexing_slicing)] // All indices run over arrays of a fixed length.

use alloc::vec::Vec;

use crate::bank::{Bank, Seen};
use crate::filter::{BOTH_FLOORS, FLOORS, STATES, sums};

/// So many standard deviations early is a surprise where floors are sharp and proven: it need not
/// be beyond doubt, as accounts are weighed, and most are soon given up ...
const EARLY: f64 = 3.0;
/// ... but elsewhere, since every account is poor there.
const EARLY_ELSEWHERE: f64 = 6.0;
/// Logarithm of how unlikely it is beforehand that the oscillator has changed just now, beyond what
/// the bank allows for ...
const CLOCK: f64 = 20.0;
/// ... or if it is that or the server (what it would have to have done is charged besides), ...
const INSTEAD: f64 = 10.0;
/// ... and that the path became shorter, ...
pub(super) const PATH: f64 = 13.0;
/// ... where what looks like it may be chance ...
const PATH_ELSEWHERE: f64 = 15.0;
/// ... and where it did so a moment ago, so that its floors are hardly known: it is the same
/// change.
const PATH_AGAIN: f64 = 8.0;
/// That nothing has changed, and a restless oscillator strayed so far, is less likely by so much
/// than the bank thinks where floors are sharp and proven: routes change more often than crystals
/// run away.
const STRAYED: f64 = 1.0;
/// That must show in the round trip, by so many standard deviations, or be hidden by a queue.
const SHORT: f64 = 2.0;
/// That the oscillator changes just after the path is less likely by so much (logarithm).
const BOTH: f64 = 15.0;
/// The floor of another path is known from one packet to so many times what is typical.
const QUEUED: f64 = 3.0;
/// By so many times that, a queue of the other direction may have hidden that it became shorter,
/// too.
const HIDES: f64 = 4.0;
/// After so many exchanges (an hour at 16 s) the floor is no longer thought to be hidden.
const PROVEN: u32 = 256;

/// What becomes of the floor of a direction that was not early.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Other {
    /// It may be another one as well, as this packet may have met a queue.
    Opened,
    /// It is what it was.
    Kept,
}

impl Bank {
    /// What else may have happened than `after`, which is this bank after the exchange: banks for
    /// which something has changed. None, if the exchange is no surprise.
    pub(super) fn surprise(&self, seen: Seen, slack: f64, after: &mut Bank) -> Vec<Bank> {
        let mut others = Vec::new();
        if !self.parts.surprises {
            return others;
        }
        let proven = self.count >= PROVEN;
        let sure = proven && self.sharp;
        let surprising = if sure { EARLY } else { EARLY_ELSEWHERE };
        let settling = self.settling();
        let path = match (settling, sure) {
            (true, _) => PATH_AGAIN,
            (false, true) => PATH,
            (false, false) => PATH_ELSEWHERE,
        };
        let (mut early, mut ahead) = ([0.0; 2], [0.0; 2]);
        for (d, sum) in sums(seen.duration).iter().enumerate() {
            let known = self.best().project(sum);
            let by = known.mean - seen.late[d];
            ahead[d] = by.max(0.0);
            if by > surprising * libm::sqrt(known.variance + self.laws[d].noise) {
                early[d] = by;
            }
        }
        let floors = self.best().project(&BOTH_FLOORS);
        let short = floors.mean - (seen.late[0] + seen.late[1] + self.now.rate * seen.duration);
        let short_by = short
            / libm::sqrt(floors.variance + self.laws.iter().map(|law| law.noise).sum::<f64>());
        // No clock makes a round trip shorter.
        let both = short_by > surprising && ahead[0] > 0.0 && ahead[1] > 0.0;
        if early == [0.0; 2] && !both {
            return others;
        }
        // That the clock moved after all, by a restless oscillator, is as unlikely as that it
        // changed.
        let mut doubt = match (settling, sure) {
            (true, _) => BOTH,
            (false, true) => STRAYED,
            (false, false) => 0.0,
        };
        if short_by > surprising {
            // Such an oscillator finds room for both packets, as a normal law knows no hard edge:
            // what the round trip says against it has to be added.
            doubt += short_by * short_by / 2.0;
        }
        after.evidence_less(doubt);
        let mut consider = |other: Bank, cost: f64| {
            let mut other = other.tried(seen);
            other.evidence_less(cost);
            others.push(other);
        };
        if both {
            consider(self.with_shorter_path(ahead, Other::Kept), path);
        }
        if early == [0.0; 2] {
            return others;
        }
        // Where it is the server or the clock, it is for what the clock does then to tell.
        let server = self.with_another_server(seen);
        let clock = if server.is_some() { INSTEAD } else { CLOCK + doubt };
        consider(self.with_another_clock(early[0].max(early[1]), slack), clock);
        // A queue of the other direction may hide what the round trip does not show, but what
        // waited long hides everything.
        let hidden = sure && !self.held;
        if short_by > SHORT {
            let share = short / (early[0] + early[1]);
            let shorter = early.map(|by| by.min(share * by));
            consider(self.with_shorter_path(shorter, Other::Kept), path);
            // Or a queue of the other direction hides the rest.
            if share < 1.0 {
                consider(self.with_shorter_path(early, Other::Kept), path);
            }
        } else if settling || hidden {
            consider(self.with_shorter_path(early, Other::Kept), path);
        }
        if hidden && !settling && (0..2).any(|d| early[d] == 0.0 && self.hides(d, early)) {
            consider(self.with_shorter_path(early, Other::Opened), path);
        }
        others.extend(server);
        others
    }

    /// Whether a queue of direction `d` may hide that it became shorter, where the other did so
    /// `by` this.
    fn hides(&self, d: usize, by: [f64; 2]) -> bool {
        by[1 - d] < HIDES * self.laws[d].idle()
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
    /// offset. What remains cannot be told from a floor that was hidden by queueing so far; at
    /// first the path is then taken to be symmetric, and half of it goes to the offset. After an
    /// hour of packets at the old floor it is a change of route rather: the clock is where it was,
    /// and knows enough to go on by itself until the new floors are found.
    pub(super) fn with_shorter_path(&self, by: [f64; 2], other: Other) -> Bank {
        let mut bank = self.without_past();
        bank.changed = Some(bank.count);
        let hidden = self.count < PROVEN;
        for d in 0..2 {
            let opened = other == Other::Opened && bank.hides(d, by);
            if by[d] <= 0.0 && (hidden || !opened) {
                continue;
            }
            let longer = bank.now.floors[d] - bank.now.floors[1 - d];
            let held = if hidden { by[d].min(longer.max(0.0)) } else { by[d].max(0.0) };
            let rest = by[d].max(0.0) - held;
            let mut floor = [0.0; STATES];
            floor[FLOORS[d]] = 1.0;
            let toward = if d == 0 { 0.5 } else { -0.5 };
            let halves = [toward, 0.0, 0.5, 0.5];
            // This packet, too, may have met a queue.
            let queued = QUEUED * bank.laws[d].idle();
            let blur = if hidden { queued.min(held) } else { queued };
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
