//! How fast the clock can go by what its counter did so far: the part of its rate that is beyond
//! that is the servers' doing.

use truechimer_time::{Count, Period, Rate, Span};
use truechimer_timehands::Hand;

use super::STRAYS;

/// It is widened when it is so old.
const WIDENED: Span = Span::from_secs(64);

/// The rates that the counter may have, relative to its nominal period: where those of all hands
/// meet that were published, but for what an oscillator strays meanwhile.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Course {
    low: Rate,
    high: Rate,
    /// As of then.
    at: Count,
}

impl Course {
    /// By the first hand.
    pub(super) fn of(hand: &Hand, nominal: Period, at: Count) -> Course {
        let (Rate(rate), Rate(error)) = (hand.period.relative_to(nominal), hand.growth);
        Course { low: Rate(rate.saturating_sub(error)), high: Rate(rate.saturating_add(error)), at }
    }

    /// By one more. One that goes faster or slower than it can changes nothing.
    pub(super) fn and(self, hand: &Hand, nominal: Period, max_wander: Rate, at: Count) -> Course {
        let mut course = self;
        let age = nominal.span(at - self.at);
        if age >= WIDENED {
            let strayed = i128::from(max_wander.0).saturating_mul((age.0 >> 64) + 1);
            let strayed = (strayed / (STRAYS.0 >> 64) + 1).min(i64::MAX.into()) as i64;
            course.low = Rate(course.low.0.saturating_sub(strayed));
            course.high = Rate(course.high.0.saturating_add(strayed));
            course.at = at;
        }
        let Course { low, high, .. } = Course::of(hand, nominal, at);
        let (low, high) = (course.low.max(low), course.high.min(high));
        if low <= high { Course { low, high, ..course } } else { course }
    }

    /// How much faster a hand goes than it can; negative: slower.
    pub(super) fn beyond(&self, hand: &Hand, nominal: Period) -> Rate {
        let rate = hand.period.relative_to(nominal);
        Rate(rate.0.saturating_sub(rate.clamp(self.low, self.high).0))
    }
}
