//! Memory of what was known at counts of the last hours.
//!
//! An exchange may contradict what had gone wrong long before: a server that creeps away takes
//! the clock along until it has used up what the path hides. So what was known is kept for some
//! hours, for two questions.
//!
//! - What was open before the drift began? The bound covers that until it is known who is right.
//! - Where would the clock be if it had not followed the server of late? If a server steps back to
//!   just there, it was the server that had drifted: no lie would hit that by chance.

use alloc::collections::VecDeque;

use arrayvec::ArrayVec;
use truechimer_model::States;
use truechimer_time::{Count, Period};

use super::{Ours, SIGMAS};
use crate::causal_rate::{OLD_SECONDS, SLOT_SECONDS};
use crate::corridor::{BoundedRate, Corridor};
use crate::number::between;

/// Time between two memories, s, ...
const EVERY: f64 = 2.0 * SLOT_SECONDS;
/// ... or, while the oldest is young, this share of its age: what is known of the rate gets better
/// as fast.
const OLDER: f64 = 0.125;
/// Number of memories: as far back as exchanges are kept for the rate.
const MOST: usize = (OLD_SECONDS / EVERY) as usize;
/// A drift may have begun where what is open is narrower than this share of what it mostly is.
const NARROWER: f64 = 0.75;
/// A server comes back to where the clock would be within this share of its step: else it might be
/// chance.
pub(super) const SHARE: f64 = 0.5;

/// Memory of one count.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Memory {
    pub(super) at: Count,
    /// Where θ was by causality and what the oscillator promises, s.
    pub(super) corridor: Corridor,
    /// Mean rate of the time before, by causality.
    pub(super) rate: BoundedRate,
    /// States by the model.
    pub(super) clock: States,
}

impl Memory {
    /// This memory where θ is counted from `by` less, s.
    pub(crate) fn shifted(self, by: f64) -> Memory {
        let clock = States { offset: self.clock.offset + by, ..self.clock };
        Memory { corridor: self.corridor.shifted(by), clock, ..self }
    }
}

impl Ours {
    /// Where θ is at a count if all that has come since a memory is forgotten, and the rate by that.
    pub(super) fn recalled(&self, memory: &Memory, at: Count) -> (Corridor, BoundedRate) {
        let age = self.seconds(memory.at, at);
        let rate = memory.rate.wider(self.wander(age));
        (memory.corridor.later(age, rate), rate)
    }
}

/// See the module's text.
#[derive(Clone, Debug)]
pub(super) struct Past {
    /// Length of a count, nominally.
    nominal: Period,
    memories: VecDeque<Memory>,
}

impl Past {
    pub(super) fn new(nominal: Period) -> Past {
        Past { nominal, memories: VecDeque::new() }
    }

    fn seconds(&self, from: Count, to: Count) -> f64 {
        between(self.nominal, from, to)
    }

    /// Keeps what is known after an exchange that was used.
    pub(super) fn remember(&mut self, memory: Memory) {
        if let (Some(first), Some(last)) = (self.memories.front(), self.memories.back()) {
            let every = EVERY.min(OLDER * self.seconds(first.at, last.at));
            if self.seconds(last.at, memory.at) < every {
                return;
            }
        }
        if self.memories.len() >= MOST {
            self.memories.pop_front();
        }
        self.memories.push_back(memory);
    }

    /// θ is counted from elsewhere, or is another one, from now on.
    pub(super) fn forget(&mut self) {
        self.memories.clear();
    }

    /// Raises all memories by `by` on the scale of θ, s.
    pub(super) fn shift(&mut self, by: f64) {
        self.memories.iter_mut().for_each(|memory| *memory = memory.shifted(by));
    }

    /// The oldest memory.
    pub(super) fn oldest(&self) -> Option<&Memory> {
        self.memories.front()
    }

    /// Newest memory from before a drift that has lasted for `lasted` seconds or more at a count. A
    /// drift uses up what is open: where that was as wide as usual there was none.
    pub(super) fn before_drift(&self, lasted: f64, at: Count) -> Option<&Memory> {
        let mut widths: ArrayVec<f64, MOST> =
            self.memories.iter().map(|memory| memory.corridor.width()).collect();
        widths.sort_unstable_by(f64::total_cmp);
        let least = NARROWER * widths.get(widths.len() / 2).copied().unwrap_or(0.0);
        let before = |memory: &&Memory| {
            self.seconds(memory.at, at) >= lasted && memory.corridor.width() >= least
        };
        self.memories.iter().rev().find(before).or(self.oldest())
    }

    /// The likeliest memory of a clock to which a server comes back that says `theta` at the count
    /// `at`, by a `step`, where queues and stamps may have moved it by `queued`, all in s.
    pub(super) fn explains(
        &self,
        at: Count,
        theta: f64,
        step: f64,
        queued: f64,
    ) -> Option<&Memory> {
        let recalled = self.memories.iter().filter_map(|memory| {
            let clock = memory.clock.later(self.seconds(memory.at, at));
            let deviation = libm::sqrt(clock.offset_variance);
            let off = theta - clock.offset;
            let room = SIGMAS * deviation + queued;
            let likely = libm::log(deviation + queued)
                + off * off / (2.0 * (deviation + queued) * (deviation + queued));
            (off.abs() <= room && room <= SHARE * step.abs()).then_some((likely, memory))
        });
        recalled.min_by(|(a, _), (b, _)| a.total_cmp(b)).map(|(_, recalled)| recalled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HZ: u64 = 1_000_000;

    /// Knows the clock every 128 s, with these widths of what was open, s.
    fn past(widths: &[f64]) -> Past {
        let mut past = Past::new(Period::from_hz(HZ));
        for (k, width) in (0..).zip(widths) {
            let corridor = Corridor { low: -width / 2.0, high: width / 2.0 };
            let clock = States { offset_variance: 1e-12, ..States::default() };
            let rate = BoundedRate { rate: 0.0, error: 0.0 };
            let memory = Memory { at: Count(128 * k * HZ), corridor, rate, clock };
            past.remember(memory);
        }
        past
    }

    #[test]
    fn a_drift_began_after_what_is_open_was_as_wide_as_usual() {
        let past = past(&[1e-4, 1.1e-4, 1e-4, 1e-4, 0.7e-4, 0.3e-4]);
        let before =
            |lasted| past.before_drift(lasted, Count(640 * HZ)).map(|memory| memory.at.0 / HZ);
        assert_eq!(before(0.0), Some(384));
        assert_eq!(before(300.0), Some(256));
        assert_eq!(before(1e9), Some(0), "none is as old: the oldest");
        let nothing = Past::new(Period::from_hz(HZ));
        assert_eq!(nothing.before_drift(0.0, Count(0)).map(|memory| memory.at), None);
    }

    #[test]
    fn a_server_that_comes_back_is_told_from_one_that_lies() {
        let past = past(&[1e-4; 4]);
        let explains = |theta, step| past.explains(Count(512 * HZ), theta, step, 5e-6).is_some();
        assert!(explains(2e-6, -300e-6), "by a large step, to where the clock would be");
        assert!(!explains(20e-6, -300e-6), "to somewhere else");
        assert!(!explains(2e-6, -10e-6), "by a step that may be chance");
    }
}
