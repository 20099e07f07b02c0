//! State behind a reading.

use truechimer_time::{Count, CountSpan, Instant, Rate, Span};
use truechimer_timehands::{Hand, Made, Status};

use crate::device::ReadBy;
use crate::reading::Reading;

/// The clock's state in full, for those who want to look behind a [`Reading`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct View {
    /// The count of all this.
    pub count: Count,
    /// The counter was within this of `count`: 0 where it was read itself.
    pub error: CountSpan,
    /// Way in which the count came about.
    pub read_by: ReadBy,
    /// The number of the hand in force.
    pub generation: u64,
    /// The hand in force.
    pub hand: Hand,
    /// When it was made, by the host's clocks.
    pub made: Made,
    /// The count at which the daemon last looked at the world.
    pub heartbeat: Count,
    /// Standard deviation of the difference clock's rate, as
    /// [`Clock::difference_deviation`](crate::Clock::difference_deviation) has it.
    pub difference_deviation: Option<Rate>,
    /// True if the hypervisor's word is heard with each reading that the machine was migrated or
    /// restored; `None` if the daemon hears none (no vmclock device), `false` if this process may
    /// not read the device.
    pub hypervisor: Option<bool>,
    /// Status of the clock now.
    pub status: Status,
    /// Reason, if that is not what the hand says, or nobody tends it.
    pub reason: Option<&'static str>,
}

impl View {
    /// The time at `count` by this hand, as a clock of this status gives it. The count is taken to
    /// be known no better than that of the view itself.
    #[must_use]
    pub fn reading(&self, count: Count, status: Status) -> Reading {
        self.reading_within(count, self.error, status)
    }

    /// Reading at a count that is known to within `error`.
    pub(crate) fn reading_within(&self, count: Count, error: CountSpan, status: Status) -> Reading {
        let best = self.hand.time_at(count);
        let [before, after] = self.hand.reach_at(count).map(|reach| reach + self.lasts(error));
        let (earliest, latest) = if status.bound_holds() {
            (best - before, best + after)
        } else {
            (Instant(i128::MIN), Instant(i128::MAX))
        };
        let leaps = self.hand.leaps.into();
        Reading { count, earliest, best, latest, status, leaps }
    }

    /// Length of an error of so many counts, at the most.
    pub(crate) fn lasts(&self, error: CountSpan) -> Span {
        // The two periods and the true one differ by far less than a part in a thousand.
        let span = self.hand.period.span(error);
        Span(span.0 + (span.0 >> 10))
    }

    /// Part of the bound of a [`Reading`] that is there only because a word that is held off has to
    /// be covered as well: a server's time has moved by more than it may, and is not believed yet.
    /// Zero if nothing is held off, or the daemon does not say; `None` while nothing is promised.
    #[must_use]
    pub fn disputed(&self) -> Option<Span> {
        self.status.bound_holds().then_some(self.hand.disputed)
    }

    /// Likely distance of `best` of a [`Reading`] from true time, either way, at the confidence
    /// that the daemon was told (`likely-confidence`, 1 − 10⁻⁶ unless set). `None` where nothing
    /// but the bound is known: nothing is promised, a word is held off, the sources have hardly
    /// been heard, or not for long, or statistics say no more than the bound.
    ///
    /// **This is no bound.** It is what statistics say if the path is as paths mostly are and the
    /// servers are right: what the filter knows of the noise, and a prior for what no exchange can
    /// show, how the round trip is shared between there and back. It is mostly narrower than the
    /// bound, and never wider. Code that is wrong if true time is outside (leases, ordering,
    /// anything that waits out an uncertainty) has to go by `earliest` and `latest`. It is for
    /// those who weigh, compare or show times. `docs/explanation/likely.md` says what it was calibrated on.
    #[must_use]
    pub fn likely(&self) -> Option<Span> {
        self.likely_at(self.count)
    }

    /// Likely error at another count by this hand.
    #[must_use]
    pub fn likely_at(&self, count: Count) -> Option<Span> {
        let likely = self.hand.likely_at(count).filter(|_| self.status.bound_holds())?;
        let bound = self.hand.bound_at(count);
        Some(likely + self.lasts(self.error)).filter(|likely| *likely < bound)
    }

    /// Status of the clock for a moment in the past or to come: a hand that is void by now still
    /// holds for the time that it was made for.
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

    /// Age of the daemon's last look at the world: up to a second while it tends the page. `None` if
    /// it has ended and said so.
    #[must_use]
    pub fn heartbeat_age(&self) -> Option<Span> {
        let counts = self.count - self.heartbeat;
        // A daemon that ends leaves a heartbeat as far from all counts as can be.
        (counts.0.unsigned_abs() < 1 << 62).then(|| self.hand.period.span(counts))
    }

    /// True if the counter is out of step while the hand does not know: its epoch is over.
    #[must_use]
    pub fn interrupted(&self) -> bool {
        self.status == Status::Disrupted && self.hand.status != Status::Disrupted
    }
}
