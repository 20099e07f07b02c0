//! Word to the kernel on the system clock that we steer, for those who ask it (`adjtimex(2)`,
//! `ntp_gettime(3)`): how far off it may be, that a leap second comes, and TAI − UTC.

use truechimer_time::{Count, Instant, Leap, Leaps, Rate, Span};
use truechimer_timehands::Hand;

use crate::event::{KernelWord, Steer};

/// A leap second is announced to the kernel so long before, s: it belongs to the day in course.
const AHEAD: i64 = 12 * 3600;
/// So long around a leap second, s, the system clock is left to itself.
const LEAPING: i64 = 2;
/// The kernel lets its bound grow only where a second of its clock begins. Until then, and so for as
/// long as this, the word itself has to hold.
const TURN: Span = Span::from_secs(1);

/// True if a leap second is about to happen at `now`, or just has.
pub(crate) fn is_leaping(leaps: &Leaps, now: Instant) -> bool {
    let near = |leap: Leap| leap.at.abs_diff(now.secs()) <= LEAPING.unsigned_abs();
    [leaps.last, leaps.next].into_iter().flatten().any(near)
}

/// Belief of the kernel by our word.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Kernel {
    told: bool,
    /// True if it is to insert a second, or to leave one out.
    armed: bool,
    /// Last look at its clock.
    seen: Seen,
}

/// A system clock that was seen beside ours.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen {
    /// System clock − our clock.
    pub(crate) offset: Span,
    /// Rate at which that may grow by what is not known of its rate.
    pub(crate) drift: Rate,
}

impl Kernel {
    /// True if it takes its clock for synchronised.
    pub(crate) fn is_told(&self) -> bool {
        self.told
    }

    /// The word about a system clock that was `seen` beside `hand` at `count`.
    pub(crate) fn word(&mut self, hand: &Hand, count: Count, seen: Seen) -> Steer {
        self.told = true;
        let now = hand.time_at(count);
        let statistical = hand.bound_at(count) - hand.path_bound;
        let bound = hand.bound_at(count + hand.period.counts(TURN));
        let off = seen.offset.abs();
        let off_then = off.0.saturating_add(seen.drift.over(TURN).0);
        let soon = |next: &Leap| (1..=AHEAD).contains(&next.at.saturating_sub(now.secs()));
        let leap = hand.leaps.next.filter(soon).map_or(0, |next| next.step);
        (self.armed, self.seen) = (leap != 0, seen);
        Steer::Tell(KernelWord {
            max_error: Some(Span(bound.0.saturating_add(off_then))),
            estimated_error: Span(statistical.0.saturating_add(off.0)),
            leap,
            tai_offset: hand.leaps.known.then(|| hand.leaps.offset_at(now)),
        })
    }

    /// Nobody will be there to take a leap second back: it is disarmed, unless it is happening. The
    /// rest stands, and the kernel lets it age, as far as it is promised.
    pub(crate) fn disarm(&mut self, hand: &Hand, count: Count) -> Option<Steer> {
        if !self.armed || is_leaping(&hand.leaps, hand.time_at(count)) {
            return None;
        }
        if !hand.status.bound_holds() {
            return self.nothing();
        }
        let Steer::Tell(word) = self.word(hand, count, self.seen) else { return None };
        self.armed = false;
        Some(Steer::Tell(KernelWord { leap: 0, ..word }))
    }

    /// That nothing is known any more, unless it has been told.
    pub(crate) fn nothing(&mut self) -> Option<Steer> {
        self.armed = false;
        core::mem::take(&mut self.told).then_some(Steer::Tell(KernelWord {
            max_error: None,
            estimated_error: Span::MAX,
            leap: 0,
            tai_offset: None,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extreme_leaps_and_times_do_not_overflow() {
        for at in [i64::MIN, i64::MAX, 0] {
            let next = Some(Leap { at, step: 1 });
            let leaps = Leaps { tai_offset: 0, known: true, last: None, next };
            for secs in [i64::MIN, -1, i64::MAX] {
                let near = secs == at || secs == -1 && at == 0;
                assert_eq!(is_leaping(&leaps, Instant::new(secs, 0)), near, "{at} {secs}");
            }
        }
    }
}
