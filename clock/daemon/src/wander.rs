//! Measure of how far the oscillator's rate has strayed.

use std::collections::VecDeque;

use truechimer_time::{Count, Period, Rate, Span};

/// Length of the past that is looked at: that over which `max-wander-ppm` speaks of a mean.
const PAST: Span = Span::from_secs(10_000);
/// Time from one rate that is kept to the next: a hundred of them are enough for the farthest.
const EVERY: Span = Span::from_secs(100);
/// Ratio of `max-wander-ppm` to the uncertainty of a rate that is kept, at least: with less, what is told
/// would be the error of measuring.
pub(crate) const MARGIN: i64 = 10;

/// Rates of the recent past.
#[derive(Debug, Default)]
pub(crate) struct Wander {
    kept: VecDeque<(Count, Rate)>,
}

impl Wander {
    /// Says if another rate is due at this count.
    pub(crate) fn is_due(&self, at: Count, nominal: Period) -> bool {
        self.kept.back().is_none_or(|(last, _)| nominal.span(at - *last) >= EVERY)
    }

    /// Keeps the rate that was measured at this count.
    pub(crate) fn keep(&mut self, at: Count, rate: Rate, nominal: Period) {
        while self.kept.front().is_some_and(|(first, _)| nominal.span(at - *first) > PAST) {
            self.kept.pop_front();
        }
        self.kept.push_back((at, rate));
    }

    /// Forgets all: the counts are another epoch's.
    pub(crate) fn forget(&mut self) {
        self.kept.clear();
    }

    /// Farthest that one of these rates is from their mean, ≥ 0; `None` before there are two.
    pub(crate) fn measured(&self) -> Option<Rate> {
        let count = i64::try_from(self.kept.len()).ok().filter(|count| *count > 1)?;
        let rates = || self.kept.iter().map(|(_, rate)| i128::from(rate.0));
        let mean = rates().sum::<i128>() / i128::from(count);
        let farthest = rates().map(|rate| (rate - mean).abs()).max()?;
        i64::try_from(farthest).ok().map(Rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_farthest_of_the_recent_past_from_its_mean() {
        let nominal = Period::NANOSECOND;
        let mut wander = Wander::default();
        let count = |secs: u64| Count(secs * 1_000_000_000);
        // Whether one is due, and what is told after it, rounded to ppb.
        let mut look = |secs: u64, ppb: i64| {
            let due = wander.is_due(count(secs), nominal);
            if due {
                wander.keep(count(secs), Rate::from_ppb(ppb), nominal);
            }
            (due, wander.measured().map(|rate| (rate.as_ppt() + 500) / 1_000))
        };
        assert_eq!(look(1, 40_000), (true, None), "one says nothing");
        assert_eq!(look(50, 90_000), (false, None), "too soon");
        assert_eq!(look(102, 40_010), (true, Some(5)));
        assert_eq!(look(203, 40_040), (true, Some(23)), "their mean is 40 016.7");
        // What is older than 10 000 s is forgotten.
        assert_eq!(look(10_202, 40_040), (true, Some(0)));
        wander.forget();
        assert_eq!(wander.measured(), None);
    }
}
