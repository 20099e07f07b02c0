//! Rates that the clock can have by what its counter did so far: the part of its rate that is
//! beyond them is the servers' doing.
//!
//! An oscillator strays, so what it can do grows as time passes; but not without end: temperature
//! and age leave it near a rate of its own, its *home*.

use truechimer_time::{Count, Period, Rate, Span};
use truechimer_timehands::Hand;

use super::STRAYS;

/// Age at which it is widened.
const WIDENED: Span = Span::from_secs(64);
/// Most that an oscillator may stray from its home in all, in terms of what it may in [`STRAYS`]:
/// 8 ppm where that is 0.5.
const STRAYS_IN_ALL: i64 = 16;

/// Rates relative to the counter's nominal period, from the least to the greatest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Rates {
    low: i64,
    high: i64,
}

impl Rates {
    fn of(hand: &Hand, nominal: Period) -> Rates {
        let (Rate(rate), Rate(error)) = (hand.period.relative_to(nominal), hand.growth);
        Rates { low: rate.saturating_sub(error), high: rate.saturating_add(error) }
    }

    fn widened(self, by: i64) -> Rates {
        Rates { low: self.low.saturating_sub(by), high: self.high.saturating_add(by) }
    }

    /// Rates that both have in common.
    fn and(self, other: Rates) -> Option<Rates> {
        let both = Rates { low: self.low.max(other.low), high: self.high.min(other.high) };
        (both.low <= both.high).then_some(both)
    }
}

/// The rates that the counter may have: where those of all hands meet that were published, but for
/// what an oscillator strays meanwhile.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Course {
    rates: Rates,
    /// Count of that.
    at: Count,
    /// Where those of all hands meet, however old: the oscillator's own.
    home: Rates,
}

impl Course {
    /// By the first hand.
    pub(super) fn of(hand: &Hand, nominal: Period, at: Count) -> Course {
        let rates = Rates::of(hand, nominal);
        Course { rates, at, home: rates }
    }

    /// By one more. One that goes faster or slower than it can changes nothing.
    pub(super) fn and(self, hand: &Hand, nominal: Period, max_wander: Rate, at: Count) -> Course {
        let Course { mut rates, at: mut since, mut home } = self;
        let said = Rates::of(hand, nominal);
        home = home.and(said).unwrap_or(home);
        let age = nominal.span(at - since);
        if age >= WIDENED {
            let strayed = i128::from(max_wander.0).saturating_mul((age.0 >> 64) + 1);
            let strayed = (strayed / (STRAYS.0 >> 64) + 1).min(i64::MAX.into()) as i64;
            rates = rates.widened(strayed);
            since = at;
        }
        let all = home.widened(max_wander.0.saturating_mul(STRAYS_IN_ALL));
        rates = rates.and(all).unwrap_or(rates);
        Course { rates: rates.and(said).unwrap_or(rates), at: since, home }
    }

    /// Part of a hand's rate that the counter cannot have; negative: too slow.
    pub(super) fn beyond(&self, hand: &Hand, nominal: Period) -> Rate {
        let rate = hand.period.relative_to(nominal);
        Rate(rate.0.saturating_sub(rate.0.clamp(self.rates.low, self.rates.high)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::gate::tests::hand;
    use truechimer_time::CountSpan;

    /// (By as much as an oscillator may each time, it could go anywhere: 85 ppm in ten days.)
    #[test]
    fn a_rate_that_creeps_is_left_behind() {
        let (wander, nominal) = (Rate::from_ppb(500), Period::NANOSECOND);
        let mut at = Count(0);
        let mut course = Course::of(&hand(), nominal, at);
        let mut beyond = Rate::ZERO;
        for ppb in (0..40_000).step_by(10) {
            at = at + CountSpan(101 * 1_000_000_000);
            let hand = Hand { period: nominal.scaled(Rate::from_ppb(ppb)), ..hand() };
            course = course.and(&hand, nominal, wander, at);
            beyond = course.beyond(&hand, nominal);
            assert!(ppb > 8_000 || beyond == Rate::ZERO, "{ppb} ppb: {beyond:?}");
        }
        assert!(beyond > Rate::from_ppb(30_000), "{beyond:?}");
    }
}
