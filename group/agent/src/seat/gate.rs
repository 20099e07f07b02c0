//! Gate where programs' requests wait while no time is to be had that is tied to UTC.
//!
//! A group whose members do not know UTC runs on their physical clocks, from 1970 for one. Programs
//! get none of that unless the user says so.

use std::collections::VecDeque;

use truechimer_group::{Call, Event, Order, Phase, Reading, Refusal, Rejection, Thread};
use truechimer_group_client::agent::News;

use super::{Crossing, FOREIGN, Seat, Turn};
use crate::clocks::Clocks;
use crate::notices::Level;

/// Most that may wait.
const MOST: usize = 1 << 16;
const MOST_BYTES: usize = 16 << 20;

/// Remedy, in a sentence.
const MEND: &str = "run `truechimer run` on the nodes, or start the agents with --system-clock BOUND \
                    (or, for a clock that is not tied to UTC, with --without-utc)";

/// Requests to the engine.
pub(super) enum Asked {
    Start { together: u8 },
    Read { thread: Thread, call: Call },
    Abandon { thread: Thread },
    Multicast { token: u64, payload: Vec<u8>, stamp: Option<i64> },
}

impl Asked {
    fn event(&self) -> Event<'_> {
        match self {
            Asked::Start { together } => Event::Start { together: *together },
            Asked::Read { thread, call } => Event::Read { thread: *thread, call: *call },
            Asked::Abandon { thread } => Event::Abandon { thread: *thread },
            Asked::Multicast { token, payload, stamp } => {
                Event::Multicast { token: *token, payload, stamp: *stamp }
            }
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Asked::Multicast { payload, .. } => payload.len(),
            Asked::Start { .. } | Asked::Read { .. } | Asked::Abandon { .. } => 0,
        }
    }

    fn is_message(&self) -> bool {
        matches!(self, Asked::Multicast { .. })
    }
}

/// Requests that wait, in the order in which they were asked.
#[derive(Default)]
pub(super) struct Gate {
    waiting: VecDeque<Asked>,
    bytes: usize,
    /// True once it was said that something waits.
    said: bool,
    /// Refusals that are to be told.
    refused: Vec<u64>,
}

impl Gate {
    /// Numbers of readings and of messages that wait.
    pub(super) fn len(&self) -> (usize, usize) {
        let messages = self.waiting.iter().filter(|asked| asked.is_message()).count();
        let reads = self.waiting.iter().filter(|asked| matches!(asked, Asked::Read { .. })).count();
        (reads, messages)
    }

    /// No reads wait any more but those of the time at present.
    pub(super) fn forget_reads(&mut self) {
        self.waiting.retain(|asked| match asked {
            Asked::Read { thread, .. } | Asked::Abandon { thread } => thread.is_now(),
            Asked::Start { .. } | Asked::Multicast { .. } => true,
        });
    }

    /// Reads by these threads wait no more.
    pub(super) fn forget(&mut self, threads: &[Thread]) {
        self.waiting.retain(
            |asked| !matches!(asked, Asked::Read { thread, .. } if threads.contains(thread)),
        );
    }

    /// The program has ended: nothing that it asked waits any more.
    pub(super) fn forget_program(&mut self) {
        self.waiting.retain(Asked::is_message);
    }

    fn takes(&self, asked: &Asked) -> bool {
        self.waiting.len() < MOST && self.bytes.saturating_add(asked.bytes()) <= MOST_BYTES
    }
}

impl Seat {
    /// True if the group's clock, or this member's own that it agrees with, is tied to UTC; or need
    /// not be.
    pub(super) fn is_timed(&self, now: &Reading) -> bool {
        if self.membership.without_utc
            || self.engine.is_tied()
            || self.membership.group.order == Order::Published
        {
            return true;
        }
        // Only some members know UTC, and this is one: good as long as the group's clock is there,
        // and nobody has another.
        if !self.engine.is_unopposed() {
            return false;
        }
        let Some((utc, view)) = now.utc.zip(self.engine.view(*now)) else { return false };
        let slack = self.membership.group.horizon_ns;
        let low = utc.bound.earliest.saturating_sub_unsigned(slack);
        let high = utc.bound.latest.saturating_add_unsigned(slack);
        self.phase == Phase::Live && (low..=high).contains(&view.0)
    }

    /// Asks the engine, now or when there is time to be had.
    pub(super) fn ask(&mut self, asked: Asked, clocks: &Clocks) {
        let now = clocks.read();
        // Where there is no majority a message is refused at once.
        let passes = asked.is_message() && self.engine.phase() != Phase::Live;
        if passes || (self.gate.waiting.is_empty() && self.is_timed(&now)) {
            self.engine.handle(now, asked.event());
        } else if self.gate.takes(&asked) {
            self.gate.bytes += asked.bytes();
            self.gate.waiting.push_back(asked);
        } else {
            match asked {
                Asked::Read { thread, .. } if self.is_now(thread) => {
                    self.reject_now(Rejection::Full, clocks);
                }
                Asked::Read { thread, .. } => {
                    if let Some(waiting) = self.reads.remove(&thread) {
                        self.door.complete(waiting.ticket, Err(Rejection::Full));
                    }
                }
                // Then it does not count as read: nobody has had its value.
                Asked::Abandon { thread } => self.gate.forget(&[thread]),
                Asked::Multicast { token, .. } => self.gate.refused.push(token),
                // Its reads will bring it about.
                Asked::Start { together } => self.together = Some(together),
            }
        }
    }

    /// Lets through what waits, if there is time to be had.
    pub(super) fn open_gate(&mut self, turn: &mut Turn<'_>) {
        for token in std::mem::take(&mut self.gate.refused) {
            let why = Refusal::TooMuch;
            if token & FOREIGN == 0 {
                self.tell_program(&News::Refused { token, why });
            } else if let Some(to) = self.foreign.remove(&token) {
                turn.crossings.push(Crossing::Refused { to, why });
            }
        }
        if self.gate.waiting.is_empty() {
            self.gate.said = false;
            return;
        }
        let now = turn.clocks.read();
        let timed = self.is_timed(&now);
        if timed && self.gate.said {
            self.speak(Level::Info, "there is time that is tied to UTC: programs go on", turn);
        } else if !timed && !self.gate.said && self.engine.phase() == Phase::Live {
            self.gate.said = true;
            let text = format!("programs wait: the group's clock is not tied to UTC; {MEND}");
            self.speak(Level::Warning, &text, turn);
        }
        let live = self.engine.phase() == Phase::Live;
        for asked in std::mem::take(&mut self.gate.waiting) {
            if timed || (asked.is_message() && !live) {
                self.gate.bytes = self.gate.bytes.saturating_sub(asked.bytes());
                self.engine.handle(now, asked.event());
            } else {
                self.gate.waiting.push_back(asked);
            }
        }
        self.act(turn);
    }
}
