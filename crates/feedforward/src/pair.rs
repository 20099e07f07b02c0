//! Two banks: one takes the floor under the delays for sharp, the other for blurred.
//!
//! On most paths some packets meet no queue at all, and the fastest are worth most. On some
//! (radio links, several queues in a row) hardly any does; then the fastest are stragglers, and
//! many ordinary packets are worth more.

use crate::bank::{Bank, Belief, Seen};
use crate::filter::Known;

/// Logarithm of how likely a blurred floor is beforehand, beside a sharp one.
const PRIOR: f64 = -2.0;
/// Memory of which of them foretold better, exchanges.
const MEMORY: f64 = 64.0;
/// However badly one foretold, it is soon believed again if it does better.
const MOST: f64 = 8.0;

/// See the module's text.
#[derive(Clone, Debug)]
pub(crate) struct Pair {
    sharp: Bank,
    soft: Bank,
    /// Logarithm of how much likelier the blurred floor is.
    log: f64,
    now: Belief,
}

impl Pair {
    /// Knows so much before the first exchange; `noise` is that of either direction's stamps, s.
    pub(crate) fn new(theta: Known, rate: Known, floor: Known, noise: [f64; 2]) -> Pair {
        let bank = |soft| Bank::new(theta, rate, floor, noise, soft);
        let (sharp, soft) = (bank(false), bank(true));
        Pair { now: sharp.now(), sharp, soft, log: PRIOR }
    }

    /// What is known now.
    pub(crate) fn now(&self) -> &Belief {
        &self.now
    }

    /// Moves on by `dt` seconds, to the arrival of the next exchange.
    pub(crate) fn predict(&mut self, dt: f64) {
        self.each(|bank| bank.predict(dt));
    }

    /// Takes in an exchange that has just arrived; the rate is known to `slack`. What comes back
    /// is the change of the round trip's floor, s, if it has shifted.
    pub(crate) fn take(&mut self, seen: Seen, slack: f64) -> Option<f64> {
        let shifts = (self.sharp.take(seen, slack), self.soft.take(seen, slack));
        let better = self.soft.evidence() - self.sharp.evidence();
        self.log = (self.log + (PRIOR - self.log) / MEMORY + better).clamp(-MOST, MOST);
        self.combine();
        if self.log > 0.0 { shifts.1 } else { shifts.0 }
    }

    /// See [`Bank::refute`].
    pub(crate) fn refute(&mut self, by: f64, slack: f64) {
        self.each(|bank| bank.refute(by, slack));
    }

    /// See [`Bank::confine`].
    pub(crate) fn confine(&mut self, low: f64, high: f64) {
        self.each(|bank| bank.confine(low, high));
    }

    /// See [`Bank::lost`].
    pub(crate) fn lost(&self) -> bool {
        if self.log > 0.0 { self.soft.lost() } else { self.sharp.lost() }
    }

    fn each(&mut self, mut f: impl FnMut(&mut Bank)) {
        f(&mut self.sharp);
        f(&mut self.soft);
        self.combine();
    }

    fn combine(&mut self) {
        let soft = 1.0 / (1.0 + libm::exp(-self.log));
        let both = [(1.0 - soft, self.sharp.now()), (soft, self.soft.now())];
        self.now = Belief::mixed(both.into_iter());
    }
}
