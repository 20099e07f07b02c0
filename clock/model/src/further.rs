//! Replies between exchanges: no request goes with them.
//!
//! They measure one direction, and come so fast that queues and stamps may be alike in several of them. How much
//! each is worth is a matter of how often neighbours lie on the same side of their median: half of them, if
//! they have nothing to do with one another.

use crate::constants::Constants;
use crate::delay::Law;
use crate::gaussian::{RATE, Vector};
use crate::hypothesis::{Hypothesis, sums};

/// A reply between exchanges.
#[derive(Clone, Copy, Debug)]
pub struct Reply {
    /// Time from its arrival to that of the newest exchange, s.
    pub ago: f64,
    /// Delay − θ at the arrival, s.
    pub above: f64,
}

impl Reply {
    /// Linear combination of the states at the exchange that it measures from above.
    #[must_use]
    pub fn sum(&self) -> Vector {
        let [_, mut sum] = sums(0.0);
        sum[RATE] = self.ago;
        sum
    }
}

/// Likeness of neighbours among the replies.
#[derive(Clone, Copy, Default, Debug)]
pub struct Likeness {
    /// Median of the delays above the floor, s.
    median: f64,
    /// Side of it that the newest lay on: 1 or −1; 0 before the first.
    side: f64,
    /// Mean product of the sides of neighbours.
    alike: f64,
    /// Neighbours seen.
    count: f64,
}

impl Likeness {
    /// Takes in replies as the likeliest hypothesis sees them. Returns the worth of each: 1 if they have nothing to do with
    /// one another; none if that is next to nothing, or not known yet.
    pub fn take(&mut self, replies: &[Reply], by: &Hypothesis, c: &Constants) -> Option<f64> {
        let law: &Law = &by.laws[1];
        let step = (law.idle(c) + libm::sqrt(by.noise)) / c.law_memory;
        for reply in replies {
            let late = reply.above - by.filter.now().project(&reply.sum()).mean - self.median;
            // On the median itself, as where all take as long: like the one before.
            let side = if late.abs() > step { late.signum() } else { self.side };
            self.median += if late.abs() > step { side * step } else { 0.0 };
            if self.side != 0.0 {
                self.count += 1.0;
                let gain = (1.0 / self.count).max(1.0 / c.law_memory);
                self.alike += gain * (side * self.side - self.alike);
            }
            self.side = side;
        }
        // That of a normal process of the first order, by the correlation of neighbours.
        let correlation = libm::sin(core::f64::consts::FRAC_PI_2 * self.alike.clamp(0.0, 1.0));
        let worth = (1.0 - correlation) / (1.0 + correlation);
        // As many as the laws remember are not worth one exchange.
        (self.count >= c.law_memory && worth > 1.0 / c.law_memory).then_some(worth)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::delay::{Law, fitted};
    use crate::gaussian::Gaussian;

    /// Worth of replies whose delays stay the same for so many in a row.
    fn worth(together: u64) -> f64 {
        let c = Constants::DEFAULT;
        let law = Law::new(fitted(core::iter::empty(), 1e-3, &c), 0);
        let states = Gaussian::new([0.0, 0.0, 1e-4, 1e-4, 0.0], [1e-7; 5]);
        let by = Hypothesis::new(states, [law; 2], 1e-12, &c);
        let mut likeness = Likeness::default();
        let delay = |n: u64| {
            let mixed = (n / together).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            1e-4 + 1e-9 * ((mixed >> 33) % 10_000) as f64
        };
        let first = Reply { ago: 0.5, above: delay(0) };
        assert_eq!(likeness.take(&[first; 16], &by, &c), None, "not known yet");
        let mut worth = None;
        for n in 0..8000 {
            worth = likeness.take(&[Reply { ago: 0.5, above: delay(n) }], &by, &c);
        }
        worth.unwrap_or(0.0)
    }

    #[test]
    fn replies_are_worth_as_much_as_they_differ() {
        let [alone, some, alike, same] = [1, 3, 32, u64::MAX].map(worth);
        assert!(alone > 0.7 && some < 0.5 && alike < some.max(0.05), "{alone} {some} {alike}");
        assert_eq!(same, 0.0, "all take as long");
    }
}
