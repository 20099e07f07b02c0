//! One hand: everything that turns a count into time, with the bound of its error.

use core::fmt;
use truechimer_time::{Count, CountSpan, CounterId, Instant, Leaps, Period, Rate, Span};

/// State of a clock by its own word.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
#[repr(u8)]
pub enum Status {
    /// Never synchronised, or too old to say: no bound is promised.
    #[default]
    Unknown = 0,
    /// Following its sources; the bound holds.
    Synchronised = 1,
    /// No fresh word from any source; the bound holds and grows.
    Holdover = 2,
    /// The counter lost its continuity (suspend, migration, jump): the bound is void until the
    /// clock has synchronised again.
    Disrupted = 3,
}

impl Status {
    /// The status with this number, if there is one.
    #[must_use]
    pub const fn from_u8(n: u8) -> Option<Status> {
        match n {
            0 => Some(Status::Unknown),
            1 => Some(Status::Synchronised),
            2 => Some(Status::Holdover),
            3 => Some(Status::Disrupted),
            _ => None,
        }
    }

    /// True if the bound is promised to hold.
    #[must_use]
    pub const fn bound_holds(self) -> bool {
        matches!(self, Status::Synchronised | Status::Holdover)
    }

    /// The name, in lower case.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Status::Unknown => "unknown",
            Status::Synchronised => "synchronised",
            Status::Holdover => "holdover",
            Status::Disrupted => "disrupted",
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The clock parameters: what the engine publishes and readers apply.
///
/// At count `c` the clock shows `time + period · (c − base)`, and true time lies within
/// `bound + growth · |that span|` of it while `status` says that the bound holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Hand {
    /// The counter that the counts are of.
    pub counter: CounterId,
    /// The count at which the rest was true.
    pub base: Count,
    /// The best estimate of time at `base`.
    pub time: Instant,
    /// Length of a count, for the absolute clock.
    pub period: Period,
    /// Length of a count, for the difference clock: slower to change than `period`, and blind to
    /// corrections of the offset.
    pub difference: Period,
    /// Bound of the relative error of `difference`, ≥ 0.
    pub difference_error: Rate,
    /// The part of the bound at `base` that no filtering removes: half the minimum round trip
    /// (asymmetry) and the server's own root distance, ≥ 0.
    pub path_bound: Span,
    /// The rest of the bound at `base`: stamping, queueing, drift, ≥ 0.
    pub statistical_bound: Span,
    /// Part of `statistical_bound` that is there only because a word that is held off has to be
    /// covered as well: the server's time has moved by more than it may, and it is not believed
    /// yet. ≥ 0; the page keeps it to 2⁻³² s, rounded down.
    #[cfg_attr(feature = "serde", serde(default))]
    pub disputed: Span,
    /// Rate at which the bound grows away from `base`, in either direction, ≥ 0.
    pub growth: Rate,
    /// Span that true time may be after `time` − span that it may be before it. The bound is the
    /// larger of the two. The page keeps it to 2⁻³² s, rounded towards 0.
    #[cfg_attr(feature = "serde", serde(default))]
    pub imbalance: Span,
    /// Likely error of `time`, if statistics may say anything of that.
    #[cfg_attr(feature = "serde", serde(default))]
    pub likely: Option<Likely>,
    /// The status when the hand was made.
    pub status: Status,
    /// Leap seconds, to get from the leap-free scale to UTC.
    pub leaps: Leaps,
    /// After this count the hand promises nothing: readers report [`Status::Unknown`].
    pub void_after: Count,
}

/// Likely error of a time: what statistics say at a confidence that the daemon was told, with a
/// prior for what no exchange shows. It is no bound, and nothing is promised by it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Likely {
    /// Half of its width at `base`, > 0. The page keeps it to 2⁻³² s, rounded up.
    pub half: Span,
    /// Rate at which that grows away from `base`, in either direction, ≥ 0.
    pub growth: Rate,
}

impl Hand {
    /// Hand of a clock that is right: each part of the bound is 0, and no leap second is known. What differs is
    /// written before `..Hand::exact(…)`.
    #[must_use]
    pub fn exact(
        counter: CounterId,
        base: Count,
        time: Instant,
        period: Period,
        void_after: Count,
    ) -> Hand {
        Hand {
            counter,
            base,
            time,
            period,
            difference: period,
            difference_error: Rate::ZERO,
            path_bound: Span::ZERO,
            statistical_bound: Span::ZERO,
            disputed: Span::ZERO,
            growth: Rate::ZERO,
            imbalance: Span::ZERO,
            likely: None,
            status: Status::Synchronised,
            leaps: Leaps::default(),
            void_after,
        }
    }

    /// The whole bound at `base`.
    #[must_use]
    pub fn bound(&self) -> Span {
        self.path_bound + self.statistical_bound
    }

    /// The bound at `base` by what was known before a word came that is held off: the whole bound
    /// without its disputed part.
    #[must_use]
    pub fn undisputed_bound(&self) -> Span {
        self.bound() - self.disputed.min(self.statistical_bound).max(Span::ZERO)
    }

    /// The best estimate of time at `count`.
    #[must_use]
    #[inline]
    pub fn time_at(&self, count: Count) -> Instant {
        self.time + self.period.span(count - self.base)
    }

    /// Bound of the error of [`Hand::time_at`].
    #[must_use]
    #[inline]
    pub fn bound_at(&self, count: Count) -> Span {
        let away = self.period.span(count - self.base).0;
        self.bound() + Span(share(away, self.growth.0 as u64))
    }

    /// Spans that true time may be before [`Hand::time_at`] and after it: the larger of the two is
    /// [`Hand::bound_at`].
    #[must_use]
    pub fn reach_at(&self, count: Count) -> [Span; 2] {
        let Span(bound) = self.bound_at(count);
        reach(bound, self.imbalance.0).map(Span)
    }

    /// Likely error of [`Hand::time_at`], never more than its bound. `None` where nothing but the
    /// bound is known.
    #[must_use]
    pub fn likely_at(&self, count: Count) -> Option<Span> {
        let Likely { half, growth } = self.likely?;
        let away = self.period.span(count - self.base).0;
        Some((half + Span(share(away, growth.0 as u64))).min(self.bound_at(count)))
    }

    /// Length of `counts` by the difference clock, with the bound of the error that its period
    /// makes in that.
    #[must_use]
    #[inline]
    pub fn elapsed(&self, counts: CountSpan) -> (Span, Span) {
        let span = self.difference.span(counts);
        (span, Span(share(span.0, self.difference_error.0 as u64)))
    }
}

/// Sides that a `bound` and an `imbalance` leave: before, after.
#[inline(always)]
fn reach(bound: i128, imbalance: i128) -> [i128; 2] {
    let (before, after) = (imbalance.max(0), imbalance.wrapping_neg().max(0));
    [bound.wrapping_sub(before), bound.wrapping_sub(after)]
}

/// Product of |`span`| and `rate` (of which there is never as much as 1), rounded down to 2⁻⁶⁴ s.
#[inline(always)]
pub(crate) fn share(span: i128, rate: u64) -> i128 {
    let (away, rate) = (span.unsigned_abs(), u128::from(rate));
    let (high, low) = (away >> 64, away & u128::from(u64::MAX));
    // Each product of two 64-bit numbers fits, and the sum is less than |span|.
    (high * rate + ((low * rate) >> 64)) as i128
}
