//! Where the clock would be if it had not followed its server of late.
//!
//! A server that drifts away as slowly as an oscillator may is followed: its stamps look like those
//! of an honest one beside an oscillator whose rate has changed. When it is right again it steps
//! back, and that looks like an honest server that begins to lie; unless the step leads just to
//! where the clock would be now, had it gone on by the rate that it had before. No lie would hit
//! that by chance. So what the clock was is kept for an hour, and a server that comes back is
//! believed at once.

use alloc::collections::VecDeque;

use truechimer_model::States;
use truechimer_time::Count;

use super::inference::later;
use crate::slow::SlowRate;

/// So often what the clock is is remembered, s, ...
const EVERY: f64 = 128.0;
/// ... and so many times: 68 minutes, a little longer than a step is held off unless the user wants
/// it otherwise.
const MOST: usize = 32;
/// So many standard deviations from where it would be ...
const SIGMAS: f64 = 4.0;
/// ... and no more than this share of the step: else it might be chance.
const SHARE: f64 = 0.5;

/// What was known of the clock at a count, and of the mean rate by causality.
#[derive(Clone, Copy, Debug)]
struct Memory {
    at: Count,
    clock: States,
    causal: SlowRate,
}

/// Where an earlier clock would be now, and the mean rate as it was known then.
#[derive(Clone, Copy, Debug)]
pub(super) struct Recalled {
    pub(super) rate: f64,
    pub(super) causal: SlowRate,
    /// Since when it has not been followed.
    pub(super) at: Count,
}

/// See the module's text.
#[derive(Clone, Default, Debug)]
pub(super) struct Hindsight {
    memories: VecDeque<Memory>,
}

impl Hindsight {
    /// The clock at a count, after an exchange that was used.
    pub(super) fn remember(
        &mut self,
        at: Count,
        clock: &States,
        causal: SlowRate,
        seconds: impl Fn(Count, Count) -> f64,
    ) {
        if self.memories.back().is_some_and(|newest| seconds(newest.at, at) < EVERY) {
            return;
        }
        if self.memories.len() >= MOST {
            self.memories.pop_front();
        }
        self.memories.push_back(Memory { at, clock: *clock, causal });
    }

    /// θ is counted from elsewhere, or is another one, from now on.
    pub(super) fn forget(&mut self) {
        self.memories.clear();
    }

    /// What is known is `by` higher on the scale of θ, s.
    pub(super) fn shift(&mut self, by: f64) {
        self.memories.iter_mut().for_each(|memory| memory.clock.offset += by);
    }

    /// The earlier clock that a server comes back to which is `step` ahead of `theta` at the count
    /// `at`, where queues and stamps may have moved it by `queued`: the likeliest, if any.
    pub(super) fn explains(
        &self,
        at: Count,
        theta: f64,
        step: f64,
        queued: f64,
        seconds: impl Fn(Count, Count) -> f64,
    ) -> Option<Recalled> {
        let recalled = self.memories.iter().filter_map(|memory| {
            let clock = later(&memory.clock, seconds(memory.at, at));
            let deviation = libm::sqrt(clock.offset_variance);
            let off = theta + step - clock.offset;
            let room = SIGMAS * deviation + queued;
            let likely = libm::log(deviation + queued)
                + off * off / (2.0 * (deviation + queued) * (deviation + queued));
            let recalled = Recalled { rate: clock.rate, causal: memory.causal, at: memory.at };
            (off.abs() <= room && room <= SHARE * step.abs()).then_some((likely, recalled))
        });
        recalled.min_by(|(a, _), (b, _)| a.total_cmp(b)).map(|(_, recalled)| recalled)
    }
}
