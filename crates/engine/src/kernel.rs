//! What the kernel is told of the system clock that we steer, for those who ask it (`adjtimex(2)`,
//! `ntp_gettime(3)`): how far off it may be, that a leap second comes, and TAI − UTC.

use truechimer_time::{Count, Instant, Leap, Leaps, Span};
use truechimer_timehands::Hand;

use crate::event::{KernelWord, Steer};

/// A leap second is announced to the kernel so long before, s: it belongs to the day in course.
const AHEAD: i64 = 12 * 3600;
/// So long around a leap second, s, the system clock is left to itself.
const LEAPING: i64 = 2;

/// Whether a leap second is about to happen at `now`, or just has.
pub(crate) fn is_leaping(leaps: &Leaps, now: Instant) -> bool {
    let near = |leap: Leap| (leap.at.saturating_sub(now.secs())).abs() <= LEAPING;
    [leaps.last, leaps.next].into_iter().flatten().any(near)
}

/// What the kernel believes by our word.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Kernel {
    told: bool,
}

impl Kernel {
    /// Whether it takes its clock for synchronised.
    pub(crate) fn is_told(&self) -> bool {
        self.told
    }

    /// The word about a system clock that is `offset` ahead of `hand` at `count`.
    pub(crate) fn word(&mut self, hand: &Hand, count: Count, offset: Span) -> Steer {
        self.told = true;
        let now = hand.time_at(count);
        let bound = hand.bound_at(count);
        let off = offset.abs();
        let soon = |next: &Leap| (1..=AHEAD).contains(&next.at.saturating_sub(now.secs()));
        Steer::Tell(KernelWord {
            max_error: Some(Span(bound.0.saturating_add(off.0))),
            estimated_error: Span((bound - hand.path_bound).0.saturating_add(off.0)),
            leap: hand.leaps.next.filter(soon).map_or(0, |next| next.step),
            tai_offset: hand.leaps.known.then(|| hand.leaps.offset_at(now)),
        })
    }

    /// That nothing is known any more, unless it has been told.
    pub(crate) fn nothing(&mut self) -> Option<Steer> {
        std::mem::take(&mut self.told).then_some(Steer::Tell(KernelWord {
            max_error: None,
            estimated_error: Span::MAX,
            leap: 0,
            tai_offset: None,
        }))
    }
}
