//! Which estimator every source gets, and what the engine does with several of them.
//!
//! The daemon runs [`Standard`]. Simulations and replays put others in its place: then the same
//! engine asks the same servers, so that estimators can be compared on the same packets.

use alloc::boxed::Box;
use core::fmt;

use truechimer_feedforward::{Estimator, Ours, RatePrior, Settings, TimePrior};
use truechimer_time::{Count, Period, Span};

use crate::event::SourceId;

/// Span for which a hand stays good while no exchange comes: the rate of the oscillator strays
/// little from a straight line in that time.
pub const RENEW_AFTER: Span = Span::from_secs(64);

/// Beginning of an estimator.
#[derive(Clone, Copy, Debug)]
pub struct Beginning {
    /// Settings of the counter and the path.
    pub settings: Settings,
    /// Prior of the counter's rate.
    pub rate: RatePrior,
    /// Prior of the time, from an earlier clock.
    pub time: Option<TimePrior>,
    /// Seconds between requests.
    pub poll: u32,
}

/// A source that has an estimate, for [`Method::prefer`].
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    /// The source.
    pub source: SourceId,
    /// Number of its exchanges that were used.
    pub used: u64,
    /// Estimator of the source.
    pub estimator: &'a dyn Estimator,
}

/// Makes the estimators of an engine, and decides what differs between them in the engine.
pub trait Method: fmt::Debug + Send {
    /// A short name, as users know it.
    fn name(&self) -> &str;

    /// An estimator for one source.
    fn estimator(&self, beginning: &Beginning) -> Box<dyn Estimator>;

    /// True if sources are combined by the agreement of their bounds. Else one is followed at a
    /// time.
    fn combines(&self) -> bool {
        true
    }

    /// True if its estimators take the samples of reference clocks, as exchanges that take next to
    /// no time.
    fn takes_pulses(&self) -> bool {
        true
    }

    /// Span for which a hand that was made of this estimate stays good while no exchange comes.
    fn renew_after(&self, estimator: &dyn Estimator) -> Span {
        let _ = estimator;
        RENEW_AFTER
    }

    /// The source of this estimator is asked every `seconds` from now on.
    fn polls(&self, estimator: &mut dyn Estimator, seconds: u32) {
        let _ = (estimator, seconds);
    }

    /// The source to follow at `at`, of `sources` in all, whether they agree or not. `None`: the
    /// engine chooses, by agreement.
    fn prefer(
        &mut self,
        candidates: &[Candidate<'_>],
        sources: usize,
        at: Count,
        nominal: Period,
    ) -> Option<SourceId> {
        let _ = (candidates, sources, at, nominal);
        None
    }
}

/// The daemon's method: [`Ours`] for every source.
#[derive(Clone, Copy, Debug)]
pub struct Standard;

impl Method for Standard {
    fn name(&self) -> &str {
        "ours"
    }

    fn estimator(&self, beginning: &Beginning) -> Box<dyn Estimator> {
        let Beginning { settings, rate, time, .. } = *beginning;
        Box::new(Ours::new(settings, rate, time))
    }
}
