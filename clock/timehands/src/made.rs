//! When a hand was made, by clocks that do not depend on it.

use truechimer_time::{Count, CountSpan, Period, Rate, Span};

/// A pair is of no use after this long, ns: a hand is void sooner.
const LONGEST_NS: i128 = 1 << 53;

/// The host's own clocks at the count at which a hand was made.
///
/// They let a reader find out by itself, without a daemon, that the counter lost its continuity
/// since: the machine was suspended, or the counter and the kernel no longer agree on how much
/// time has passed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Made {
    /// The count at which the clocks below were read.
    pub count: Count,
    /// `CLOCK_MONOTONIC` then, ns.
    pub monotonic_ns: i64,
    /// `CLOCK_MONOTONIC_RAW` then, ns.
    pub raw_ns: i64,
    /// `CLOCK_BOOTTIME` − `CLOCK_MONOTONIC` then: all the time spent suspended since boot, ns.
    pub suspended_ns: i64,
    /// Means of reading the counter, if that is a device.
    pub device: Option<Device>,
}

/// Means by which others get counts of a counter that is a device: it may roll over, and not
/// everybody may read it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Device {
    /// Number of its bits that are read, 1 … 64; it rolls over every 2^`bits` counts.
    pub bits: u32,
    /// Conversion of `CLOCK_MONOTONIC_RAW` into its counts, if that is made of this very device.
    pub by_raw: Option<ByRaw>,
}

/// Conversion of `CLOCK_MONOTONIC_RAW` into counts of the device that it is made of, from the pair
/// of [`Made::count`] and [`Made::raw_ns`] on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ByRaw {
    /// Length of a count by `CLOCK_MONOTONIC_RAW`.
    pub period: Period,
    /// Bound of the relative error of `period`, ≥ 0.
    pub error: Rate,
    /// The raw clock read [`Made::raw_ns`] within this of [`Made::count`], ≥ 0.
    pub pair: CountSpan,
}

impl ByRaw {
    /// The count at which the raw clock reads `raw_ns`, and the bound of its error. `None` where
    /// that is before the pair, or so far from it that counts lose their meaning.
    #[must_use]
    pub fn count(&self, made: &Made, raw_ns: i64) -> Option<(Count, CountSpan)> {
        let passed = i128::from(raw_ns) - i128::from(made.raw_ns);
        if !(0..=LONGEST_NS).contains(&passed) {
            return None;
        }
        let span = Span::from_nanos_wide(passed);
        let counts = self.period.counts(span);
        // The clock shows whole nanoseconds at either end, and the count is rounded.
        let doubt = self.error.over(span) + Span::from_nanos(2);
        let error = self.period.counts(doubt).0.checked_add(self.pair.0)?.checked_add(2)?;
        Some((made.count + counts, CountSpan(error)))
    }
}
