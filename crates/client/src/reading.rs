//! What reading the clock gives.

use truechimer_time::{Count, CounterKind, Epoch, Instant, Leaps, Span, Utc};
use truechimer_timehands::{PackedLeaps, Status};

/// The time, and how well it is known.
///
/// While [`Status::bound_holds`] the true time lay within `earliest..=latest` at the moment of the
/// reading. Otherwise nothing is promised and those two are the ends of the scale, so that code
/// which looks at nothing else cannot be deceived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reading {
    /// The count that the time is of.
    pub count: Count,
    /// True time was not before this.
    pub earliest: Instant,
    /// The best estimate. Not necessarily half-way between the other two.
    pub best: Instant,
    /// True time was not after this.
    pub latest: Instant,
    /// What the clock says of itself.
    pub status: Status,
    pub(crate) leaps: PackedLeaps,
}

impl Reading {
    /// The farthest that true time may be from `best`; `None` if nothing is promised.
    #[must_use]
    pub fn bound(&self) -> Option<Span> {
        let bound = (self.latest - self.best).0.max((self.best - self.earliest).0);
        self.status.bound_holds().then_some(Span(bound))
    }

    /// The best estimate as UTC.
    #[must_use]
    pub fn utc(&self) -> Utc {
        self.leaps().utc(self.best)
    }

    /// What is known of leap seconds: how to get from the instants here to UTC, and whether they
    /// are TAI.
    #[must_use]
    pub fn leaps(&self) -> Leaps {
        self.leaps.into()
    }
}

/// A count that knows which counter it is of: what to keep of an event in order to ask later when
/// it was ([`Clock::time_of`](crate::Clock::time_of)) or how long ago
/// ([`Clock::elapsed`](crate::Clock::elapsed)).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Moment {
    /// The count.
    pub count: Count,
    /// Of which counter.
    pub kind: CounterKind,
    /// In which unbroken stretch of it.
    pub epoch: Epoch,
}

/// A length of time by the difference clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Elapsed {
    /// How long; negative if the second moment came first.
    pub span: Span,
    /// The true length is within this of `span`, ≥ 0.
    pub bound: Span,
}

impl Elapsed {
    /// A span with the error that its period makes in it, between two counts either of which may
    /// be old by up to one step of the counter.
    #[inline(always)]
    pub(crate) fn new((span, error): (Span, Span), step: Span) -> Elapsed {
        // One unit more for the rounding of each.
        Elapsed { span, bound: Span(error.0.wrapping_add(step.0).wrapping_add(3)) }
    }
}
