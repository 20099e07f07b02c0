//! What is behind a reading.

use truechimer_time::{Count, Instant};
use truechimer_timehands::{Hand, Made, Status};

use crate::reading::Reading;

/// The clock's state in full, for those who want to look behind a [`Reading`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct View {
    /// The count of all this.
    pub count: Count,
    /// The number of the hand in force.
    pub generation: u64,
    /// The hand in force.
    pub hand: Hand,
    /// When it was made, by the host's clocks.
    pub made: Made,
    /// The count at which the daemon last looked at the world.
    pub heartbeat: Count,
    /// What the clock is worth now.
    pub status: Status,
    /// Why, if that is not what the hand says.
    pub reason: Option<&'static str>,
}

impl View {
    /// The time at `count` by this hand, as a clock of this status gives it.
    #[must_use]
    pub fn reading(&self, count: Count, status: Status) -> Reading {
        let (best, bound) = (self.hand.time_at(count), self.hand.bound_at(count));
        let (earliest, latest) = if status.bound_holds() {
            (best - bound, best + bound)
        } else {
            (Instant(i128::MIN), Instant(i128::MAX))
        };
        let leaps = self.hand.leaps.into();
        Reading { count, earliest, best, latest, status, leaps }
    }

    /// What the clock is worth for a moment in the past or to come: a hand that is void by now
    /// still holds for the time that it was made for.
    #[must_use]
    pub fn status_at(&self, count: Count) -> Status {
        let void = |count| !self.hand.void_after.at_or_after(count);
        match self.status {
            Status::Disrupted => Status::Disrupted,
            _ if void(count) => Status::Unknown,
            Status::Unknown if self.hand.status.bound_holds() => Status::Holdover,
            status => status,
        }
    }

    /// Whether the counter is out of step while the hand does not know: its epoch is over.
    #[must_use]
    pub fn interrupted(&self) -> bool {
        self.status == Status::Disrupted && self.hand.status != Status::Disrupted
    }
}
