//! Which source is preferred where estimators go by the penalty of their path, as RADclock does
//! since 0.8: there is no test of agreement. A near liar wins; that is the published rule.

use truechimer_feedforward::Estimate;
use truechimer_time::{Count, Period, Span};

use crate::report::SourceStatus;
use crate::selection::Voter;

/// A source must have had so many exchanges, and all together so many each, before it is left or
/// taken (RADclock: 20 stamps).
const STAMPS: u64 = 20;
/// The best must be below this share (4/5) of the current one's penalty.
const BETTER: (i64, i64) = (4, 5);
/// A preferred source is kept at least so long (RADclock's `path_scale`: 5 h).
const PATH_SCALE: Span = Span::from_secs(18_000);

/// A source that has something to say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Candidate {
    /// Which one it is, for good.
    pub(crate) id: u32,
    /// How many of its exchanges were used.
    pub(crate) stamps: u64,
    /// The penalty of its path now.
    pub(crate) penalty: Span,
}

/// Who is preferred, and since when.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Preferred {
    id: Option<u32>,
    /// When it was switched to; `None` if it was the first.
    since: Option<Count>,
}

impl Preferred {
    /// Makes up its mind at `at`; `sources` is how many there are, silent ones included.
    pub(crate) fn choose(
        &mut self,
        candidates: &[Candidate],
        sources: usize,
        at: Count,
        nominal: Period,
    ) -> Option<u32> {
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

/// What the sources' paths cost, if all that have something to say are selected that way.
pub(crate) fn candidates(voters: &[Voter<'_>], at: Count) -> Option<Vec<Candidate>> {
    let usable = voters.iter().filter(|voter| voter.estimate.is_some());
    let candidate = |voter: &Voter<'_>| {
        let (penalty, stamps) = voter.peer.penalty(at)?;
        Some(Candidate { id: voter.peer.id.0, stamps, penalty })
    };
    let candidates: Option<Vec<Candidate>> = usable.map(candidate).collect();
    candidates.filter(|c| !c.is_empty())
}

/// Marks every source's part: all that say something are believed, one is followed. Returns it.
pub(crate) fn mark(voters: &mut [Voter<'_>], id: u32) -> Option<(usize, Estimate)> {
    let mut chosen = None;
    for (index, Voter { peer, estimate }) in voters.iter_mut().enumerate() {
        peer.trust.mark(match estimate {
            None => SourceStatus::Unreachable,
            Some(e) if peer.id.0 == id => {
                chosen = Some((index, *e));
                SourceStatus::Selected
            }
            Some(_) => SourceStatus::Truechimer,
        });
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::EstimatorKind;
    use crate::event::SourceId;
    use crate::peer::{Filter, Peer};
    use truechimer_feedforward::{RatePrior, Settings};
    use truechimer_time::{CountSpan, Instant, Rate};

    fn at(seconds: u64) -> Count {
        Count(seconds * 1_000_000_000)
    }

    fn candidate(id: u32, stamps: u64, micros: i64) -> Candidate {
        Candidate { id, stamps, penalty: Span::from_micros(micros) }
    }

    fn choose(p: &mut Preferred, t: u64, candidates: &[Candidate]) -> Option<u32> {
        p.choose(candidates, candidates.len(), at(t), Period::NANOSECOND)
    }

    #[test]
    fn twenty_stamps_of_each_come_before_a_switch() {
        let mut p = Preferred::default();
        assert_eq!(choose(&mut p, 0, &[]), None);
        assert_eq!(choose(&mut p, 1, &[candidate(1, 1, 1000)]), Some(1));
        let late = [candidate(1, 40, 1000), candidate(2, 19, 100)];
        assert_eq!(choose(&mut p, 2, &late), Some(1));
        let silent = [candidate(1, 20, 1000), candidate(2, 20, 100)];
        assert_eq!(p.choose(&silent, 3, at(3), Period::NANOSECOND), Some(1), "60 stamps for three");
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

    /// However it is preferred: what a source knows from an earlier daemon only is never fresh.
    #[test]
    fn one_that_has_said_nothing_itself_is_not_fresh() {
        let (period, error) = (Period::NANOSECOND, Rate::from_ppb(500_000));
        let settings = Settings {
            nominal: period,
            resolution: CountSpan(1),
            max_wander: Rate::from_ppb(500),
            accept_step_after: Span::from_secs(3600),
            asymmetry: None,
        };
        let rate = RatePrior { period, error };
        let filter = Filter::new(EstimatorKind::Published, settings, rate, None, 16);
        let peer = Peer::new(SourceId(1), "s1".into(), false, filter);
        let estimate = Estimate {
            base: at(100),
            time: Instant::default(),
            period,
            difference: period,
            difference_error: error,
            difference_deviation: error,
            bound: Span::ZERO,
            path_bound: Span::ZERO,
            growth: error,
            deviation: Span::ZERO,
            rtt_floor: Span::ZERO,
            last_used: at(99),
        };
        assert!(!peer.is_proven() && peer.left(&estimate, at(100)).is_negative());
        assert!(peer.filter.reach_timeout() > peer.age(&estimate, at(100)), "it would be fresh");
    }

    #[test]
    fn one_that_goes_is_replaced_at_once() {
        let mut p = Preferred::default();
        assert_eq!(choose(&mut p, 0, &[candidate(7, 1, 5)]), Some(7));
        assert_eq!(choose(&mut p, 1, &[candidate(8, 1, 900), candidate(9, 1, 5)]), Some(9));
    }
}
