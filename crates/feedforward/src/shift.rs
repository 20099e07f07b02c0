//! A path that has become longer.
//!
//! Nothing is early then; everything is late, as in a burst. But after a change of route the
//! delays are as close together as they were before, at a new floor: each of them is far likelier
//! under the path's usual law with that floor than it was as a late packet. Evidence, not time,
//! decides: six packets will do for a shift that is large beside the queueing.
//!
//! A direction's floor is moved under an offset that stays. If only one direction became longer,
//! no measurement shows that it was not the clock; but the clock was where it was.

#![allow(clippy::indexing_slicing)] // All indices run over arrays of a fixed length.

use crate::bank::{Bank, Seen};
use crate::filter::{BOTH_FLOORS, FLOORS, STATES, Vector};

/// The newest so many exchanges are looked at.
const WINDOWS: [usize; 8] = [6, 8, 12, 16, 24, 32, 48, 64];
/// A new floor is so many standard deviations of the clock above the old at least ...
const HIGH: f64 = 6.0;
/// ... and the delays above it are no more than so many times what is typical.
const SCATTER: f64 = 6.0;
/// Logarithm of how much likelier a shift must make what was seen.
const NEEDED: f64 = 20.0;
/// If both directions shift, each must contribute so much.
const EACH: f64 = 3.0;
/// One direction alone needs so many exchanges: the other may be about to follow.
const ALONE: usize = 12;
/// ... over so long, s: a queue that breathes raises one direction for minutes.
const ALONE_SECONDS: f64 = 180.0;
/// Two shifts are the same if they differ by less than so many times their errors.
const SAME: f64 = 6.0;

/// An exchange, and how likely it was when it came.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Recent {
    time: f64,
    seen: Seen,
    densities: [f64; 2],
}

/// A new floor of one direction: how far it is above the old one, how well that is known, s, and
/// the logarithm of how much likelier it makes what was seen.
#[derive(Clone, Copy, Debug)]
struct Risen {
    by: f64,
    error: f64,
    odds: f64,
}

impl Bank {
    /// Remembers the newest exchange, and looks whether the path has become longer. If so, what
    /// comes back is by how much the round trip has, s.
    pub(super) fn shifted(&mut self, seen: Seen) -> Option<f64> {
        if !self.parts.shifts {
            return None;
        }
        self.recent.push_back(Recent { time: self.time, seen, densities: self.densities });
        if self.recent.len() > WINDOWS[WINDOWS.len() - 1] {
            self.recent.pop_front();
        }
        let windows = WINDOWS.iter().take_while(|n| **n <= self.recent.len());
        let risen = windows.copied().find_map(|n| self.risen_over(n))?;
        self.raise(risen);
        self.recent.clear();
        Some(risen.iter().flatten().map(|risen| risen.by).sum())
    }

    /// The directions whose floor has risen, by the evidence of the newest `n` exchanges.
    fn risen_over(&self, n: usize) -> Option<[Option<Risen>; 2]> {
        let both = [0, 1].map(|d| self.risen(d, n));
        if let [Some(a), Some(b)] = both
            && a.odds > EACH
            && b.odds > EACH
            && a.odds + b.odds > NEEDED
        {
            return Some(both);
        }
        let enough = |risen: &Option<Risen>| risen.is_some_and(|r| r.odds > NEEDED);
        let no = |risen: &Option<Risen>| risen.is_none_or(|r| r.odds < 0.0);
        match &both {
            _ if n < ALONE || self.spans(n) < ALONE_SECONDS => None,
            [a, b] if enough(a) && no(b) => Some([*a, None]),
            [a, b] if no(a) && enough(b) => Some([None, *b]),
            _ => None,
        }
    }

    /// How long the newest `n` exchanges took, s.
    fn spans(&self, n: usize) -> f64 {
        let mut window = self.recent.range(self.recent.len() - n..);
        let first = window.next().map_or(0.0, |recent| recent.time);
        window.next_back().map_or(0.0, |last| last.time - first)
    }

    fn risen(&self, d: usize, n: usize) -> Option<Risen> {
        let window = || self.recent.range(self.recent.len() - n..);
        let excess = |recent: &Recent| {
            let then = self.now.later(recent.time - self.time);
            let Seen { late, duration } = recent.seen;
            let theta = if d == 0 { then.rate * duration - then.theta } else { then.theta };
            late[d] + theta - self.now.floors[d]
        };
        let least = window().map(excess).fold(f64::INFINITY, f64::min);
        if least < HIGH * libm::sqrt(self.now.theta_var + self.laws[d].noise) {
            return None;
        }
        let (mut odds, mut scatter, mut fastest) = (0.0, 0.0, true);
        for recent in window() {
            let above = excess(recent) - least;
            // The fastest was spent on finding the floor.
            if above == 0.0 && core::mem::take(&mut fastest) {
                continue;
            }
            odds += libm::log(self.laws[d].density(above)) - recent.densities[d];
            scatter += above / (n - 1) as f64;
        }
        let error = scatter / n as f64;
        (scatter <= SCATTER * self.laws[d].idle()).then_some(Risen {
            by: least - error,
            error,
            odds,
        })
    }

    /// Moves the floors.
    fn raise(&mut self, risen: [Option<Risen>; 2]) {
        self.changed = Some(self.count);
        for (law, _) in self.laws.iter_mut().zip(risen).filter(|(_, risen)| risen.is_some()) {
            law.forget_now();
        }
        if let [Some(a), Some(b)] = risen
            && (a.by - b.by).abs() < SAME * (a.error + b.error + libm::sqrt(self.now.theta_var))
        {
            let variance = a.error * a.error + b.error * b.error;
            self.raise_along(BOTH_FLOORS, (a.by + b.by) / 2.0, variance);
            return;
        }
        for (floor, risen) in FLOORS.into_iter().zip(risen) {
            if let Some(risen) = risen {
                let mut direction = [0.0; STATES];
                direction[floor] = 1.0;
                self.raise_along(direction, risen.by, risen.error * risen.error);
            }
        }
    }

    fn raise_along(&mut self, direction: Vector, by: f64, variance: f64) {
        for filter in &mut self.members {
            filter.shift(&direction, by);
            filter.inflate(&direction, variance);
        }
        self.combine();
    }
}
