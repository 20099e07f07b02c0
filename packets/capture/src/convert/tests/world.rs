//! A machine that is made up: the truth is known.

use truechimer_counter::HostPair;
use truechimer_time::{BootId, Count, CountSpan, CounterKind, Period};

use crate::convert::Identity;

/// Counts a second.
pub const HZ: i64 = 2_600_000_000;
/// The counter goes in steps of 10 ns.
pub const RESOLUTION: i64 = 26;
/// Time of `CLOCK_REALTIME` at first, ns.
pub const START: i64 = 1_790_000_000_000_000_000;
/// Counts in a millisecond.
pub const MS: i64 = HZ / 1000;

/// Counts in so many ns.
pub const fn counts(ns: i64) -> i64 {
    ns * 26 / 10
}

/// Random numbers from a seed (SplitMix64).
pub struct Dice(pub u64);

impl Dice {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub fn between(&mut self, lo: i64, hi: i64) -> i64 {
        lo + (self.next() % (hi - lo + 1) as u64) as i64
    }

    /// Draws a number, as likely in each factor of two.
    pub fn log_between(&mut self, lo: i64, hi: i64) -> i64 {
        let share = self.next() as f64 / u64::MAX as f64;
        ((lo as f64) * ((hi as f64) / (lo as f64)).powf(share)) as i64
    }

    pub fn one_in(&mut self, n: i64) -> bool {
        self.between(1, n) == 1
    }

    pub fn sign(&mut self) -> i64 {
        if self.one_in(2) { 1 } else { -1 }
    }
}

/// The kernel's clocks. Time runs in counts since the test began.
#[derive(Clone, Debug)]
pub struct World {
    /// From this count on, ascending, this rate in ppm against nominal.
    pub bends: Vec<(i64, i64)>,
    /// At these counts `CLOCK_REALTIME` goes so many ns forward.
    pub steps: Vec<(i64, i64)>,
    /// Counter at the beginning.
    pub origin: u64,
    /// One time in how many reading a clock is held up by up to 20 µs; 0: never.
    pub held_up: i64,
}

impl World {
    pub fn steady(origin: u64) -> World {
        World { bends: vec![(0, 0)], steps: vec![], origin, held_up: 0 }
    }

    fn quantised(at: i64) -> i64 {
        at.div_euclid(RESOLUTION) * RESOLUTION
    }

    pub fn count(&self, at: i64) -> Count {
        Count(self.origin.wrapping_add_signed(Self::quantised(at)))
    }

    /// Count of a perfect counter.
    pub fn truth(&self, at: i64) -> Count {
        Count(self.origin.wrapping_add_signed(at))
    }

    pub fn monotonic(&self, at: i64) -> i64 {
        let at = Self::quantised(at);
        // In units of 10⁻⁶ counts.
        let mut shown = 0i128;
        for (index, (from, ppm)) in self.bends.iter().enumerate() {
            let until = self.bends.get(index + 1).map_or(at, |next| next.0.min(at));
            shown += i128::from((until - from).max(0)) * i128::from(1_000_000 + ppm);
        }
        (shown * 10 / 26_000_000) as i64
    }

    pub fn realtime(&self, at: i64) -> i64 {
        let stepped = |(when, by): &(i64, i64)| if at >= *when { *by } else { 0 };
        START + self.monotonic(at) + self.steps.iter().map(stepped).sum::<i64>()
    }

    /// A pair that begins at `at`, and when it is done.
    pub fn pair(&self, dice: &mut Dice, at: i64) -> (HostPair, i64) {
        let mut now = at;
        let mut pass = |lo, hi| {
            let held_up = self.held_up > 0 && dice.one_in(self.held_up);
            now += counts(dice.between(lo, if held_up { 20_000 } else { hi }));
            now
        };
        let read = pass(15, 40);
        let after = pass(30, 60);
        let again = pass(15, 40);
        let end = pass(15, 40);
        let pair = HostPair {
            before: self.count(at),
            unix_ns: self.realtime(read),
            after: self.count(after),
            monotonic_ns: self.monotonic(again),
            end: self.count(end),
        };
        (pair, end)
    }

    pub fn identity() -> Identity {
        Identity {
            kind: CounterKind::Tsc,
            boot: BootId([7; 16]),
            period: Period::from_hz(HZ as u64),
            resolution: CountSpan(RESOLUTION),
        }
    }
}
