//! Which source is preferred where estimators go by the penalty of their path, as RADclock does
//! since 0.8: there is no test of agreement. A near liar wins; that is the published rule.

use truechimer_engine::SourceId;
use truechimer_time::{Count, Period, Span};

/// A source must have had so many exchanges, and all together so many each, before it is left or
/// taken (RADclock: 20 stamps).
const STAMPS: u64 = 20;
/// The best must be below this share (4/5) of the current one's penalty.
const BETTER: (i64, i64) = (4, 5);
/// A preferred source is kept at least so long (RADclock's `path_scale`: 5 h).
const PATH_SCALE: Span = Span::from_secs(18_000);

/// The path to a source that has an estimate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Path {
    /// Which one it is, for good.
    pub(crate) id: SourceId,
    /// Number of its exchanges that were used.
    pub(crate) stamps: u64,
    /// The penalty of its path now.
    pub(crate) penalty: Span,
}

/// Source that is preferred, and since when.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Preferred {
    id: Option<SourceId>,
    /// When it was switched to; `None` if it was the first.
    since: Option<Count>,
}

impl Preferred {
    /// Makes up its mind at `at`; `sources` is how many there are, silent ones included.
    pub(crate) fn choose(
        &mut self,
        candidates: &[Path],
        sources: usize,
        at: Count,
        nominal: Period,
    ) -> Option<SourceId> {
        let current = candidates.iter().find(|c| Some(c.id) == self.id);
        let Some(current) = current else {
            // Nobody yet, or the preferred one is gone: the least bad, without ceremony.
            let first = candidates.iter().min_by_key(|c| c.penalty)?;
            (self.id, self.since) = (Some(first.id), None);
            return self.id;
        };
        let total = candidates.iter().fold(0u64, |sum, c| sum.saturating_add(c.stamps));
        let enough = candidates.iter().all(|c| c.stamps >= STAMPS)
            && total >= STAMPS.saturating_mul(sources as u64);
        let settled = self.since.is_none_or(|since| nominal.span(at - since) >= PATH_SCALE);
        let best = candidates.iter().min_by_key(|c| c.penalty)?;
        let better = best.penalty < current.penalty / BETTER.1 * BETTER.0;
        if enough && settled && better {
            (self.id, self.since) = (Some(best.id), Some(at));
        }
        self.id
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Count {
        Count(seconds * 1_000_000_000)
    }

    fn candidate(id: u32, stamps: u64, micros: i64) -> Path {
        Path { id: SourceId(id), stamps, penalty: Span::from_micros(micros) }
    }

    fn choose(p: &mut Preferred, t: u64, candidates: &[Path]) -> Option<u32> {
        Some(p.choose(candidates, candidates.len(), at(t), Period::NANOSECOND)?.0)
    }

    #[test]
    fn twenty_stamps_of_each_come_before_a_switch() {
        let mut p = Preferred::default();
        assert_eq!(choose(&mut p, 0, &[]), None);
        assert_eq!(choose(&mut p, 1, &[candidate(1, 1, 1000)]), Some(1));
        let late = [candidate(1, 40, 1000), candidate(2, 19, 100)];
        assert_eq!(choose(&mut p, 2, &late), Some(1));
        let silent = [candidate(1, 20, 1000), candidate(2, 20, 100)];
        assert_eq!(
            p.choose(&silent, 3, at(3), Period::NANOSECOND),
            Some(SourceId(1)),
            "60 stamps for three"
        );
        assert_eq!(choose(&mut p, 3, &silent), Some(2));
    }

    #[test]
    fn a_switch_needs_a_fifth_less_and_five_hours() {
        let mut p = Preferred::default();
        let pair = |a, b| [candidate(1, 100, a), candidate(2, 100, b)];
        assert_eq!(choose(&mut p, 0, &[candidate(1, 100, 1000)]), Some(1));
        assert_eq!(choose(&mut p, 1, &pair(1000, 801)), Some(1));
        assert_eq!(choose(&mut p, 2, &pair(1000, 799)), Some(2), "the first need not wait");
        assert_eq!(choose(&mut p, 10_000, &pair(10, 1000)), Some(2));
        assert_eq!(choose(&mut p, 18_001, &pair(10, 1000)), Some(2));
        assert_eq!(choose(&mut p, 18_003, &pair(10, 1000)), Some(1));
    }

    #[test]
    fn one_that_goes_is_replaced_at_once() {
        let mut p = Preferred::default();
        assert_eq!(choose(&mut p, 0, &[candidate(7, 1, 5)]), Some(7));
        assert_eq!(choose(&mut p, 1, &[candidate(8, 1, 900), candidate(9, 1, 5)]), Some(9));
    }
}
