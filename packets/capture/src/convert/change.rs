//! Facts to keep with packets so that their times can be told again: the counter, the hands, the
//! host's clocks.

use serde::{Deserialize, Serialize};
use truechimer_counter::HostReading;
use truechimer_time::{BootId, Count, CountSpan, CounterKind, Epoch, Period, Rate, Span};
use truechimer_timehands::{Allowed, Hand, Made, Passed, Status};

/// Limits within which the host's clocks may differ without the counter being broken: as readers of
/// the clock allow it.
const ALLOWED: Allowed = Allowed {
    suspended: Span::from_millis(10),
    back: Span::from_micros(100),
    apart: Span::from_micros(100),
    rate: Rate::from_ppb(1_000_000),
};

/// The counter that counts are of.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Identity {
    /// Which counter.
    pub kind: CounterKind,
    /// In which boot of which machine.
    pub boot: BootId,
    /// Length of a count, to 500 ppm: nominal, not what a clock says of it.
    pub period: Period,
    /// The smallest step of the counter, ≥ 1: part of every count's error.
    pub resolution: CountSpan,
}

/// The host's clocks at one count. Two of these show whether the counter ran on in between.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Continuity {
    /// The count.
    pub count: Count,
    /// `CLOCK_MONOTONIC_RAW` then, ns.
    pub raw_ns: i64,
    /// `CLOCK_MONOTONIC` then, ns.
    pub monotonic_ns: i64,
    /// The time spent suspended since boot (`CLOCK_BOOTTIME` − `CLOCK_MONOTONIC`), ns.
    pub suspended_ns: i64,
    /// Time that reading all that took, in counts.
    pub width: CountSpan,
}

/// A hand as the clock page had it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Used {
    /// Generation of the hand; [`Stamped::generation`](crate::Stamped::generation) refers to it.
    pub generation: u64,
    /// The clock parameters.
    pub hand: Hand,
    /// When they were made, by the host's clocks.
    pub made: Made,
}

/// Change of the clock, and so what whoever keeps packets must keep with them: all packets that are
/// converted after this are by what it says, until the next one.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// The count at which it was seen.
    pub at: Count,
    /// The counter that the packets' counts are of. The same all through.
    pub counter: Identity,
    /// The epoch that packets are counted in from here on;
    /// [`Counted::NO_EPOCH`](crate::Counted::NO_EPOCH) where no clock page says.
    pub epoch: Epoch,
    /// Status of the clock; `None` where there is none that can be used.
    pub status: Option<Status>,
    /// Reason why the status is no better, for people.
    pub reason: Option<String>,
    /// The hand that packets are converted by from here on, if that is another one.
    pub hand: Option<Used>,
    /// The host's clocks at about that count.
    pub continuity: Continuity,
}

impl From<HostReading> for Continuity {
    fn from(reading: HostReading) -> Continuity {
        let HostReading { count, raw_ns, suspended_ns, monotonic_ns, width } = reading;
        Continuity { count, raw_ns, monotonic_ns, suspended_ns, width }
    }
}

impl Continuity {
    /// True if the counter, whose counts last `period`, cannot have run on without a break since
    /// `earlier`.
    #[must_use]
    pub fn broken_since(&self, earlier: &Continuity, period: Period) -> bool {
        let width = period.span(self.width).abs() + period.span(earlier.width).abs();
        let passed = Passed::new(
            period,
            self.count - earlier.count,
            [earlier.raw_ns, self.raw_ns],
            [earlier.suspended_ns, self.suspended_ns],
        );
        let broken = passed.broken(&Allowed {
            suspended: ALLOWED.suspended + width,
            back: ALLOWED.back + width,
            apart: ALLOWED.apart + width,
            rate: ALLOWED.rate,
        });
        broken.is_some()
    }
}
