//! What is known at the start: from the daemon before, from an earlier boot, or nothing.

use truechimer_feedforward::{RatePrior, TimePrior};
use truechimer_time::{Count, Instant, Period, Rate, Span};
use truechimer_timehands::{Hand, Status};

use crate::event::{Saved, Start};

/// A hand promises nothing after this long: four times the longest poll interval.
const VOID_AFTER: Span = Span::from_secs(4096);
/// What a rate may have lost that nobody watched since: ageing, temperature, and the hypervisor's
/// or kernel's own calibration at each boot.
const UNWATCHED: Rate = Rate::from_ppb(50_000);

/// When a hand that is made at `at` becomes void.
pub(crate) fn void_after(at: Count, period: Period) -> Count {
    at + period.counts(VOID_AFTER)
}

/// What a start gives to begin with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Beginning {
    /// The nominal rate.
    pub(crate) nominal: RatePrior,
    /// The rate as far as it is known.
    pub(crate) rate: RatePrior,
    /// The time, if it is known.
    pub(crate) time: Option<TimePrior>,
    /// The first hand.
    pub(crate) hand: Hand,
}

impl Beginning {
    pub(crate) fn of(start: &Start) -> Beginning {
        let nominal = RatePrior { period: start.nominal, error: start.nominal_error };
        let warm = start.warm.filter(|w| w.status.bound_holds() && w.counter == start.counter);
        // What a hand says of the time is void after a while. Its rate is not.
        let (in_force, void) = match warm {
            Some(warm) if warm.void_after.at_or_after(start.at) => (Some(warm), None),
            warm => (None, warm),
        };
        let rate = in_force
            .map(|w| RatePrior { period: w.period, error: w.growth })
            .or_else(|| trusted_rate(void?.period, void?.growth, start))
            .or_else(|| start.saved.as_ref().and_then(|saved| saved_rate(saved, start)))
            .unwrap_or(nominal);
        Beginning {
            nominal,
            rate,
            time: in_force.map(|w| TimePrior { count: w.base, time: w.time, bound: w.bound() }),
            hand: match in_force {
                // The old word stands until there is a new one, but nobody tends it yet.
                Some(warm) => Hand { status: Status::Holdover, ..warm },
                None => unknown_hand(start, rate),
            },
        }
    }
}

/// The rate that an earlier run saved, if it can be of this counter.
fn saved_rate(saved: &Saved, start: &Start) -> Option<RatePrior> {
    let same = saved.counter == start.counter.kind.name();
    trusted_rate(saved.period, saved.error, start).filter(|_| same)
}

/// A rate that was once known to `error`, if it can be of this counter and is of any use.
fn trusted_rate(period: Period, error: Rate, start: &Start) -> Option<RatePrior> {
    let apart = period.relative_to(start.nominal);
    let error = Rate(error.0.max(0).saturating_add(UNWATCHED.0));
    let limit = start.nominal_error.0.saturating_add(error.0);
    (apart.0.saturating_abs() <= limit && error < start.nominal_error)
        .then_some(RatePrior { period, error })
}

/// What is published before anything is known.
fn unknown_hand(start: &Start, rate: RatePrior) -> Hand {
    Hand {
        counter: start.counter,
        base: start.at,
        time: Instant::default(),
        period: rate.period,
        difference: rate.period,
        difference_error: rate.error,
        path_bound: Span::MAX,
        statistical_bound: Span::ZERO,
        growth: rate.error,
        status: Status::Unknown,
        leaps: start.leaps,
        void_after: void_after(start.at, rate.period),
    }
}
