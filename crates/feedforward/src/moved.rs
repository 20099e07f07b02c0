//! A server whose time has moved, where causality is too wide to say so.
//!
//! A step of the server makes one direction earlier and the other later by as much, and leaves the
//! round trip as it is. Queueing makes nothing early; a shorter path shows in the round trip; an
//! oscillator goes no further in a moment than it may. What is earlier than all of these allow is
//! the server's doing, or a jump of the counter, or both directions have changed at once by
//! opposite amounts. In none of these cases is it the time that has moved.
//!
//! So that is one more account of a surprise. By it clock, floors and laws stay what they were, and
//! how far ahead the server is is a hidden state: nothing, or one of some steps, each believed as
//! far as both directions' packets are where it has them. One packet that is early for it rules it
//! out. So a server that is right again is known by the same means as one that is wrong, and as
//! soon.

#![allow(clippy::indexing_slicing)] // All indices run over arrays of a fixed length.

use crate::bank::{Bank, Seen};
use crate::delay::read;
use crate::filter::{BOTH_FLOORS, sums};
use crate::surprise::{Other, PATH};

/// Earlier by so many standard deviations than the floor: the accounts are weighed, after all ...
const EARLY: f64 = 4.0;
/// ... and than so many times what the oscillator may have strayed since the exchange before.
const ROOM: f64 = 4.0;
/// What is earlier by so many standard deviations is ruled out.
const NEVER: f64 = 6.0;
/// Logarithm of how unlikely it is beforehand that the server has moved, ...
const MOVED: f64 = 8.0;
/// ... and that it does so again: it may drift.
const AGAIN: f64 = 1.0;
/// The first early packet may have met a queue as well: of up to so many times what is typical, ...
const QUEUED: f64 = 4.0;
/// ... or of so many standard deviations of the clock; ...
const VAGUE: f64 = 12.0;
/// ... in so many steps.
const STEPS: usize = 24;
/// Probability that the server is right again by the next exchange.
const BACK: f64 = 1.0 / 64.0;
/// From here on it is right again for certain.
const RIGHT: f64 = 0.99;

/// How far ahead the server may be: nothing, or one of some steps.
#[derive(Clone, Copy, Debug)]
pub(super) struct Suspicion {
    /// The smallest of them, and from one to the next, s; negative if the server is behind.
    first: f64,
    step: f64,
    /// How likely each is, and that it is right again.
    ahead: [f64; STEPS],
    right: f64,
    /// When it was last where it belongs, s since the bank's first exchange, and how long before
    /// that exchange the one before was, s.
    since: f64,
    gap: f64,
    /// How far our rate may stray.
    strays: f64,
}

impl Suspicion {
    /// How far ahead the server is by the k-th, give or take half a step, s.
    fn by(&self, k: usize) -> (f64, f64) {
        (self.first + k as f64 * self.step, self.step / 2.0)
    }

    /// What is known after an exchange, of which `likely` says how likely it is (logarithm) if the
    /// server is so far ahead, give or take so much; and how likely it was by all that was known
    /// before.
    fn after(mut self, likely: impl Fn((f64, f64)) -> f64) -> (Suspicion, f64) {
        let logs: [f64; STEPS] = core::array::from_fn(|k| likely(self.by(k)));
        let log_right = likely((0.0, 0.0));
        let top = logs.iter().copied().fold(log_right, f64::max);
        let stays = |k: usize| (1.0 - BACK) * self.ahead[k] * libm::exp(logs[k] - top);
        // None is ever ruled out so far that nothing would be left.
        let shares: [f64; STEPS] = core::array::from_fn(|k| stays(k).max(f64::MIN_POSITIVE));
        let right = (self.right + BACK * (1.0 - self.right)) * libm::exp(log_right - top);
        let sum = right + shares.iter().sum::<f64>();
        self.ahead = shares.map(|share| share / sum);
        self.right = right / sum;
        (self, top + libm::log(sum))
    }

    /// How well that is known, s².
    fn variance(&self) -> f64 {
        let (mean, sum) = (self.mean(), self.ahead.iter().sum::<f64>());
        let by = |k: usize| (self.by(k).0 - mean) * (self.by(k).0 - mean);
        self.step * self.step / 12.0 + (0..STEPS).map(|k| self.ahead[k] * by(k)).sum::<f64>() / sum
    }

    /// How far ahead the server is if it is not right, s.
    fn mean(&self) -> f64 {
        let sum: f64 = (0..STEPS).map(|k| self.ahead[k] * self.by(k).0).sum();
        sum / (1.0 - self.right)
    }
}

impl Bank {
    /// What it would be if the server has moved, if an exchange is a sign of that.
    pub(super) fn with_another_server(&self, seen: Seen) -> Option<Bank> {
        let strays = self.strays?;
        let ahead = self.server_ahead(seen, EARLY, ROOM * strays * self.gap)?;
        let (suspicion, evidence) =
            self.suspicion_of(ahead, strays).after(|by| self.likely(seen, by));
        let mut bank = self.without_past();
        bank.suspicion = Some(suspicion);
        bank.set_evidence(evidence - MOVED);
        Some(bank)
    }

    /// Takes in an exchange while the server may have moved. What comes back is how likely it was
    /// (logarithm); nothing, if the server is right again, or it is something else: the exchange is
    /// one as any other then.
    pub(super) fn suspect(&mut self, seen: Seen) -> Option<f64> {
        let before = self.suspicion.take()?;
        let strayed = ROOM * before.strays * (self.time - before.since);
        let (mut suspicion, mut evidence) = before.after(|by| self.likely(seen, by));
        if let Some(ahead) = self.server_ahead(seen, NEVER, strayed) {
            let Suspicion { since, gap, strays, .. } = before;
            let again = Suspicion { since, gap, ..self.suspicion_of(ahead, strays) };
            let (again, likely) = again.after(|by| self.likely(seen, by));
            if likely - AGAIN > evidence {
                (suspicion, evidence) = (again, likely - AGAIN);
            }
        }
        let nowhere = (0..STEPS).all(|k| self.is_early(seen, suspicion.by(k)));
        if suspicion.right >= RIGHT || nowhere && self.is_early(seen, (0.0, 0.0)) {
            return None;
        }
        self.suspicion = Some(suspicion);
        Some(evidence)
    }

    /// The server has moved, and the path has become shorter besides, if the exchange is early for
    /// all that the server may have done.
    pub(super) fn on_a_shorter_path(&self, seen: Seen, suspicion: Suspicion) -> Option<Bank> {
        if suspicion.right >= RIGHT {
            return None;
        }
        let late = self.late(seen, (suspicion.mean(), 0.0));
        let by = late.map(|(late, deviation)| if late < -NEVER * deviation { -late } else { 0.0 });
        let mut bank = self.with_shorter_path(by, Other::Kept);
        let (suspicion, evidence) = suspicion.after(|by| bank.likely(seen, by));
        bank.suspicion = Some(suspicion);
        bank.set_evidence(evidence - PATH);
        by.iter().any(|by| *by > 0.0).then_some(bank)
    }

    /// Whether the server may have moved.
    pub(super) fn suspects(&self) -> bool {
        self.suspicion.is_some()
    }

    /// How far ahead the server is, s, if it has moved.
    pub(super) fn ahead(&self) -> Option<f64> {
        self.suspicion.filter(|suspicion| suspicion.right < 0.5).map(|suspicion| suspicion.mean())
    }

    /// How well that is known, s².
    pub(super) fn ahead_variance(&self) -> Option<f64> {
        self.suspicion.map(|suspicion| suspicion.variance())
    }

    /// How unlikely it is (logarithm) that our oscillator has gone where this bank has it, if it
    /// was where `steady` has it when the server was last where it belongs.
    ///
    /// It may have begun to go earlier than that: where queues are long they hide it. At a rate r
    /// it was x off after x / r seconds, and none of the packets of that time waited for less than
    /// that: with queues of the mean s, and one packet every g seconds, that has the probability
    /// exp(−x² / 2rgs).
    pub(super) fn strayed_from(&self, steady: &Bank) -> f64 {
        let Some(suspicion) = steady.suspicion else { return 0.0 };
        let (one, other) = (&self.now, &steady.now);
        let Suspicion { since, gap, strays, .. } = suspicion;
        let beyond = |by: f64, variance: f64, room: f64| {
            (by.abs() - room - NEVER * libm::sqrt(variance)).max(0.0)
        };
        let by = (one.rate - other.rate).abs();
        let rate = beyond(by, other.rate_var, strays) / (ROOM * strays);
        // It knows its own rate no better than it does.
        let likely = (by + libm::sqrt(one.rate_var)).min(ROOM * strays).max(strays);
        let gone = likely * (self.time - since) + libm::sqrt(one.theta_var);
        let theta = beyond(one.theta - other.theta, other.theta_var, gone);
        let hides = likely * gap * steady.idle();
        theta * theta / (2.0 * hides).max(f64::MIN_POSITIVE) + rate * rate / 2.0
    }

    /// How far ahead the server must be at least, s (negative: behind), if an exchange is early by
    /// more than `sigmas` standard deviations and `room`, and its round trip is not.
    fn server_ahead(&self, seen: Seen, sigmas: f64, room: f64) -> Option<f64> {
        let rtt = seen.late[0] + seen.late[1] + self.now.rate * seen.duration;
        let short = (self.best().project(&BOTH_FLOORS).mean - rtt).max(0.0);
        let both = self.late(seen, (0.0, 0.0));
        let early = |d: usize| {
            let (late, deviation) = both[d];
            let least = (-late - short - NEVER * deviation).max(0.0);
            (-late - short > sigmas * deviation + room).then_some(least)
        };
        early(1).or_else(|| early(0).map(|least| -least))
    }

    /// That it has just moved, by that at least.
    fn suspicion_of(&self, ahead: f64, strays: f64) -> Suspicion {
        let deviation = libm::sqrt(self.now.theta_var);
        let range = (QUEUED * self.idle()).max(VAGUE * deviation).copysign(ahead);
        Suspicion {
            first: ahead,
            step: range / STEPS as f64,
            ahead: [1.0 / STEPS as f64; STEPS],
            right: 0.0,
            since: self.time - self.gap,
            gap: self.gap,
            strays,
        }
    }

    /// The typical delay on the idle path, s.
    fn idle(&self) -> f64 {
        (self.laws[0].idle() + self.laws[1].idle()) / 2.0
    }

    /// How late both directions are if the server is so far ahead, give or take so much, and how
    /// well that is known, s.
    fn late(&self, seen: Seen, (ahead, blur): (f64, f64)) -> [(f64, f64); 2] {
        let (sums, toward) = (sums(seen.duration), [ahead, -ahead]);
        [0, 1].map(|d| {
            let known = self.best().project(&sums[d]);
            let variance = known.variance + self.laws[d].noise + blur * blur;
            (seen.late[d] - known.mean - toward[d], libm::sqrt(variance))
        })
    }

    /// How likely they are then (logarithm).
    fn likely(&self, seen: Seen, by: (f64, f64)) -> f64 {
        let both = self.late(seen, by);
        let one = |d: usize| {
            let (late, deviation) = both[d];
            read(&self.laws[d].long_run(), late / deviation, deviation).log_density
        };
        one(0) + one(1)
    }

    /// Whether one of them is too early then.
    fn is_early(&self, seen: Seen, by: (f64, f64)) -> bool {
        self.late(seen, by).iter().any(|(late, deviation)| *late < -NEVER * deviation)
    }
}
