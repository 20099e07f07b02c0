//! The recent past of `CLOCK_REALTIME`, and stamps by it turned into counts.

use std::fmt;

use truechimer_counter::{Counter, HostPair, realtime_pair};
use truechimer_time::{Count, CountSpan, Period, Stamp, StampMethod};

use crate::interval::{Interval, Region};

/// Number of pairs that are kept. When full, every second one of the older half is dropped: however
/// many come, there is always one from before.
const PAIRS: usize = 64;
/// Number of readings that the narrowest pair is taken of: 1 µs in all.
const TRIES: u32 = 8;

/// Within which counts something happened, as far as causality says: both included.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Window {
    /// A count known to be before it.
    pub earliest: Count,
    /// A count known to be after it.
    pub latest: Count,
}

impl Window {
    /// The stamp of something of which nothing else is known than that it happened in here, most
    /// likely at `count`.
    #[must_use]
    pub fn stamp(&self, count: Count, resolution: CountSpan) -> Stamp {
        let error = (count - self.earliest).abs().max((self.latest - count).abs());
        Stamp { count, error: error + resolution, method: StampMethod::User }
    }
}

/// Reasons why a kernel stamp could not be turned into a count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NoStamp {
    /// The window does not lie between pairs of the log, or is empty.
    OutOfLog,
    /// Nowhere in the window can the clock have shown that time: it is not of this packet, or the
    /// clock did what no rule covers.
    NotCausal,
    /// Step of the clock, or a change of rate beyond all measure, between the pairs around the stamp.
    Stepped,
}

impl fmt::Display for NoStamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NoStamp::OutOfLog => "no pairs around the stamp",
            NoStamp::NotCausal => "the stamp contradicts the order of events",
            NoStamp::Stepped => "its clock was stepped about then",
        })
    }
}

impl std::error::Error for NoStamp {}

/// A rule for what a clock did between two pairs: one of the ways to make an [`Interval`].
pub(crate) type Stretch<'s> =
    &'s dyn for<'a> Fn(Count, Period, &'a HostPair, &'a HostPair) -> Interval<'a>;

/// The pairs of the recent past, in the order of their counts.
#[derive(Clone, Debug)]
pub struct PairLog {
    period: Period,
    resolution: CountSpan,
    pairs: Vec<HostPair>,
}

impl PairLog {
    /// An empty log of pairs by a counter whose counts last `period` and which counts in steps of
    /// `resolution`, as [`nominal`](truechimer_counter::nominal) and
    /// [`resolution`](truechimer_counter::resolution) have it: what a server says of the period
    /// has no place here, as the kernel's clock is what it must agree with, to 100 ppm.
    #[must_use]
    pub fn new(period: Period, resolution: CountSpan) -> PairLog {
        PairLog { period, resolution: resolution.abs(), pairs: Vec::with_capacity(PAIRS) }
    }

    /// Length of a count.
    #[must_use]
    pub fn period(&self) -> Period {
        self.period
    }

    /// The smallest step of the counter: part of every error.
    #[must_use]
    pub fn resolution(&self) -> CountSpan {
        self.resolution
    }

    /// Takes a pair now and keeps it.
    pub fn take(&mut self, counter: Counter) -> HostPair {
        let pair = realtime_pair(counter, TRIES);
        self.push(pair);
        pair
    }

    /// Keeps a pair. One that is not later than the last, as after a jump of the counter, makes
    /// the log forget everything before it.
    pub fn push(&mut self, pair: HostPair) {
        let ordered = pair.after.at_or_after(pair.before) && pair.end.at_or_after(pair.after);
        if !ordered || self.pairs.last().is_some_and(|last| !pair.before.at_or_after(last.after)) {
            self.clear();
        }
        if !ordered {
            return;
        }
        if self.pairs.len() >= PAIRS {
            let mut index = 0;
            self.pairs.retain(|_| {
                index += 1;
                index > PAIRS / 2 || index % 2 == 1
            });
        }
        self.pairs.push(pair);
    }

    /// Forgets everything: for when the counter lost its continuity.
    pub fn clear(&mut self) {
        self.pairs.clear();
    }

    /// The count within `window` at which `CLOCK_REALTIME` showed `unix_ns`, with a bound of the
    /// error that holds as long as the clock did nothing but what is written at the top of
    /// `interval.rs`: it ran within 0.1 % of its rate, was slewed in one direction, or was stepped
    /// no more than once between two pairs. Where that leaves several counts (a clock stepped
    /// back shows a time twice) the bound covers them all.
    ///
    /// # Errors
    /// If there is no such count, or nothing to tell it by.
    pub fn invert(&self, unix_ns: i64, window: Window) -> Result<Stamp, NoStamp> {
        let stretch: Stretch<'_> =
            &|origin, period, left, right| Interval::new(origin, period, left, right);
        self.find(unix_ns, window, stretch, StampMethod::Kernel)
    }

    /// The count within `window` at which the clock of these pairs, between each two of which it did as `stretch` has
    /// it, showed `shown_ns`.
    pub(crate) fn find(
        &self,
        shown_ns: i64,
        window: Window,
        stretch: Stretch<'_>,
        method: StampMethod,
    ) -> Result<Stamp, NoStamp> {
        let origin = window.earliest;
        let lo = 0;
        let hi = i128::from((window.latest - origin).0);
        let covered = |first: &HostPair, last: &HostPair| {
            origin.at_or_after(first.before) && last.after.at_or_after(window.latest)
        };
        match (self.pairs.first(), self.pairs.last()) {
            (Some(first), Some(last)) if hi >= lo && covered(first, last) => {}
            _ => return Err(NoStamp::OutOfLog),
        }
        let mut found: Option<Region> = None;
        for pair in self.pairs.windows(2) {
            let [left, right] = pair else { continue };
            let interval = stretch(origin, self.period, left, right);
            let (first, last) = interval.extent();
            if last < lo || first > hi {
                continue;
            }
            if interval.is_torn() {
                return Err(NoStamp::Stepped);
            }
            for place in interval.places(shown_ns).into_iter().flatten() {
                if let Some(place) = place.within(lo, hi) {
                    found = Some(found.map_or(place, |known| known.hull(place)));
                }
            }
        }
        let Region { lo, best, hi } = found.ok_or(NoStamp::NotCausal)?;
        let span = |counts: i128| CountSpan(i64::try_from(counts).unwrap_or(i64::MAX));
        Ok(Stamp {
            count: origin + span(best),
            error: span((best - lo).max(hi - best)) + self.resolution,
            method,
        })
    }

    /// All pairs, the oldest first.
    pub(crate) fn pairs(&self) -> &[HostPair] {
        &self.pairs
    }

    /// Counts last this long from now on.
    pub(crate) fn set_period(&mut self, period: Period) {
        self.period = period;
    }
}
