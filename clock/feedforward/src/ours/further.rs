//! Replies between exchanges: what a master says of its own accord, after it has answered a question.
//!
//! They move no bound. The model takes them in behind the exchange that follows, which has shown by then that
//! nothing has happened.

use alloc::vec::Vec;

use truechimer_model::Reply;
use truechimer_time::{Count, Period};

use super::Ours;
use crate::Exchange;
use crate::corridor::{BoundedRate, Corridor};
use crate::number::between;

/// Number kept at most, which is what the fastest masters say between two questions, up to 1.5 s: of more, every other one goes.
const MOST: usize = 256;

/// Time after which a reply is of no use, s: the rate may have changed since.
const LONGEST: f64 = 16.0;

/// A reply as it came.
#[derive(Clone, Copy, Debug)]
struct Came {
    at: Count,
    /// Delay − θ, s.
    above: f64,
    /// Least θ that it allows, s.
    low: f64,
}

/// Replies since the last exchange, the oldest first. Without any it holds no memory.
#[derive(Clone, Default, Debug)]
pub(super) struct Further {
    came: Vec<Came>,
    /// Those that may be true, as the model sees them.
    replies: Vec<Reply>,
}

impl Further {
    fn push(&mut self, one: Came) {
        if self.came.is_empty() {
            self.came.reserve_exact(MOST);
            self.replies.reserve_exact(MOST);
        }
        if self.came.len() >= MOST {
            let mut other = false;
            self.came.retain(|_| {
                other = !other;
                other
            });
        }
        self.came.push(one);
    }

    /// Forgets them.
    pub(super) fn clear(&mut self) {
        self.came.clear();
    }

    /// Replies that may be true where θ is in `open` at the arrival of an exchange.
    pub(super) fn replies(
        &mut self,
        at: Count,
        open: &Corridor,
        rate: BoundedRate,
        nominal: Period,
    ) -> &[Reply] {
        self.replies.clear();
        for one in &self.came {
            let ago = between(nominal, one.at, at);
            // One that came at that moment is the exchange's own.
            let is_recent = ago > 0.0 && ago < LONGEST;
            if is_recent && one.low + (rate.rate - rate.error) * ago <= open.high {
                self.replies.push(Reply { ago, above: one.above });
            }
        }
        &self.replies
    }
}

impl Ours {
    /// See [`Estimator::further`](crate::Estimator::further).
    pub(super) fn keep(&mut self, x: &Exchange) {
        let Some(mut state) = self.state.take() else { return };
        let m = self.measure(state.anchor, x);
        let now = *state.model.now();
        if !self.elsewhere && !m.impossible(now.rate) {
            let rate = self.bounded_rate(&now, 0.0);
            let low = m.corridor(rate).low;
            state.further.push(Came { at: x.received.count, above: m.reply(), low });
        }
        self.state = Some(state);
    }
}
