//! Vote on who drifts: the source that moves against a majority of the others, however slowly.
//!
//! What a source leans by hardly changes. If one drifts, its offset moves against all the others;
//! if our oscillator does, all move alike. So every source has a vote on how far the time has moved
//! against what all were used to: where it stands now against its mean over a day, give or take
//! some standard deviations. Whoever is not where a majority of these overlap has moved by itself,
//! however near it is and whatever interval it claims.
//!
//! Two paths may change together: what far servers have in common is our own uplink, say. A queue
//! that grows or a longer route shows in the round trip, so that a source votes for as much more as
//! its round trip has changed. What keeps the round trip, one direction longer and the other
//! shorter by as much for a majority of the sources alike, looks as if the others had drifted.

use truechimer_feedforward::number::span;

use crate::few::Few;
use crate::select::{Claim, agreement};

/// Deviations off ...
const SIGMAS: f64 = 5.0;
/// ... and so much beside, s.
const LEAST: f64 = 3e-6;
/// Factor by which one that was outvoted has to come nearer than it had to leave.
const NEARER: f64 = 0.75;
/// Fewer than these are no majority against anybody.
pub(crate) const CROWD: usize = 3;
/// Time for which the smallest of the recent round trips is remembered, s: half of that at least.
const RECENT: f64 = 2048.0;
/// Over how long a round trip becomes the usual one, s.
const USUAL: f64 = 14_400.0;

/// Movement of a source.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Movement {
    /// Against where it was in the long run, s.
    pub(crate) by: f64,
    /// Standard deviation of that, s.
    pub(crate) deviation: f64,
    /// Movement that its path may hide, s.
    pub(crate) hidden: f64,
    /// Outvoted until now.
    pub(crate) outvoted: bool,
}

impl Movement {
    fn claim(&self, hidden: f64) -> Claim {
        let sigmas = if self.outvoted { SIGMAS * NEARER } else { SIGMAS };
        Claim::around(span(self.by).0, span(LEAST + sigmas * self.deviation + hidden).0)
    }
}

/// Tells of each whether it has moved by itself.
pub(crate) fn outvoted(all: &[Movement]) -> Few<bool> {
    let is_out = |one: usize| {
        // Its own path is no excuse: then it is its path that has changed.
        let claim = |(i, m): (usize, &Movement)| m.claim(if i == one { 0.0 } else { m.hidden });
        let claims: Few<Claim> = all.iter().enumerate().map(claim).collect();
        let (most, own) = (agreement(&claims, 0), claims.get(one));
        most.zip(own).is_some_and(|(most, own)| !own.meets(&most))
    };
    (0..all.len()).map(|one| all.len() >= CROWD && is_out(one)).collect()
}

/// The round trips of a source: what is usual, and what is so now.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Path {
    usual: f64,
    /// Over how long that was averaged, s.
    averaged: f64,
    /// The most of late that it was off that, s.
    change: f64,
    older: Option<f64>,
    newer: Option<f64>,
    age: f64,
}

impl Path {
    /// One more, s, so many seconds after the one before.
    pub(crate) fn take(&mut self, rtt: f64, dt: f64) {
        self.age += dt;
        if self.age >= RECENT / 2.0 {
            (self.older, self.newer, self.age) = (self.newer, None, 0.0);
        }
        self.newer = Some(self.newer.map_or(rtt, |least| least.min(rtt)));
        // The first ones say little of the smallest.
        let (Some(now), Some(_)) = (self.now(), self.older) else { return };
        self.averaged = (self.averaged + dt).min(USUAL);
        if self.averaged > 0.0 {
            self.usual += (now - self.usual) * (dt / self.averaged).min(1.0);
            let change = (now - self.usual).abs();
            self.change = change.max(self.change * (1.0 - (dt / USUAL).min(1.0)));
        }
    }

    fn now(&self) -> Option<f64> {
        let newer = self.newer?;
        Some(self.older.map_or(newer, |older| older.min(newer)))
    }

    /// By how much the round trip has been off what it usually is, of late, s.
    pub(crate) fn change(&self) -> f64 {
        self.change
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moved(by: f64, deviation: f64) -> Movement {
        Movement { by: by * 1e-6, deviation: deviation * 1e-6, hidden: 0.0, outvoted: false }
    }

    #[test]
    fn the_one_that_moves_alone_has_drifted_however_near_it_is() {
        let (near, mid, far) = (moved(0.0, 1.0), moved(-150.0, 4.0), moved(-160.0, 20.0));
        assert_eq!(*outvoted(&[near, mid, far]), [true, false, false]);
        assert_eq!(*outvoted(&[far, near, mid]), [false, true, false]);
        assert_eq!(*outvoted(&[near, mid]), [false, false], "two are no crowd");
        let still = moved(-5.0, 20.0);
        assert_eq!(*outvoted(&[near, mid, still]), [false, true, false]);
        let vague = moved(-100.0, 30.0);
        assert_eq!(*outvoted(&[near, mid, vague]), [false; 3], "it agrees with both");
    }

    #[test]
    fn two_that_moved_with_their_round_trips_outvote_nobody() {
        let (near, far) = (moved(0.0, 1.0), moved(-500.0, 20.0));
        assert_eq!(*outvoted(&[near, far, far]), [true, false, false]);
        let hidden = Movement { hidden: 1e-3, ..far };
        assert_eq!(*outvoted(&[near, hidden, hidden]), [false; 3]);
        let excuse = Movement { hidden: 1e-3, ..near };
        assert_eq!(*outvoted(&[excuse, far, far]), [true, false, false], "its own is none");
    }

    #[test]
    fn a_round_trip_becomes_the_usual_one() {
        let mut path = Path::default();
        (0..1000).for_each(|_| path.take(0.01, 16.0));
        assert!(path.change() < 1e-9);
        (0..100).for_each(|_| path.take(0.012, 16.0));
        assert!((1.5e-3..2e-3).contains(&path.change()), "{}", path.change());
        (0..9000).for_each(|_| path.take(0.012, 16.0));
        assert!(path.change() < 0.1e-3, "{}", path.change());
    }
}
