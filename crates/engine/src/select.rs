//! Which sources agree: the intersection of their intervals.
//!
//! Every source claims that true time lies within an interval. If fewer than half of n sources lie,
//! at least n − ⌊(n − 1) / 2⌋ intervals hold the truth, so it lies where that many overlap
//! (Marzullo; RFC 5905 §11.2.1). A source whose interval does not reach there is a falseticker and
//! has no say. Where nothing overlaps that much there is no majority, and no guess.

use truechimer_feedforward::Estimate;
use truechimer_time::{Count, Rate, Span};

use crate::report::Selection;
use crate::source::Source;

/// Another source must be this much better, as a fraction of the bound (5/8), to be selected
/// instead.
const SWITCH: (i64, i64) = (5, 8);

/// An interval on any common scale.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Claim {
    pub(crate) low: i128,
    pub(crate) high: i128,
}

impl Claim {
    pub(crate) fn meets(&self, other: &Claim) -> bool {
        self.low <= other.high && other.low <= self.high
    }
}

/// The smallest interval that holds the truth if fewer than half of the claims are false, those to
/// come included. `None` if that cannot be, or not yet.
pub(crate) fn agreement(claims: &[Claim], to_come: usize) -> Option<Claim> {
    let all = claims.len() + to_come;
    let honest = all - all.saturating_sub(1) / 2;
    let vouched =
        |at: i128| claims.iter().filter(|c| c.low <= at && at <= c.high).count() >= honest;
    // Where enough intervals overlap begins at a lower edge and ends at an upper one.
    Some(Claim {
        low: claims.iter().map(|c| c.low).filter(|at| vouched(*at)).min()?,
        high: claims.iter().map(|c| c.high).filter(|at| vouched(*at)).max()?,
    })
}

/// Marks every source's part. Returns the selected one and its estimate, which is brought to what
/// the majority vouches for: the bound reaches to the ends of where they agree, however little the
/// selected source claims for itself.
///
/// Sources that answer go before those that no longer do, smaller bounds before larger ones.
pub(crate) fn choose(sources: &mut [Source], at: Count) -> Option<(usize, Estimate)> {
    let estimates: Vec<Option<Estimate>> = sources.iter().map(|s| s.claim(at)).collect();
    let awaited = sources.iter().filter(|s| s.is_awaited(at)).count();
    let origin = estimates.iter().flatten().map(|e| e.time).next().unwrap_or_default();
    let claim = |e: &Estimate| {
        let middle = (e.time - origin).0;
        Claim { low: middle.saturating_sub(e.bound.0), high: middle.saturating_add(e.bound.0) }
    };
    let claims: Vec<Claim> = estimates.iter().flatten().map(claim).collect();
    let agreed = agreement(&claims, awaited);
    let mut truechimers = Vec::new();
    for (index, (source, estimate)) in sources.iter_mut().zip(&estimates).enumerate() {
        let was_selected = source.selection == Selection::Selected;
        source.selection = match (estimate, agreed) {
            (None, _) => Selection::Unusable,
            // Not enough have answered to tell.
            (Some(_), None) if awaited > 0 => Selection::Unusable,
            (Some(e), Some(agreed)) if claim(e).meets(&agreed) => {
                let handicap = if was_selected { SWITCH.0 } else { SWITCH.1 };
                let rank = (!source.is_fresh(at, e), e.bound / SWITCH.1 * handicap);
                truechimers.push((rank, index, *e));
                Selection::Truechimer
            }
            (Some(_), _) => Selection::Falseticker,
        };
    }
    let agreed = agreed?;
    let (_, index, best) = *truechimers.iter().min_by_key(|(rank, ..)| *rank)?;
    sources.get_mut(index)?.selection = Selection::Selected;
    let time = (best.time - origin).0.clamp(agreed.low, agreed.high);
    let bound = Span(agreed.high.saturating_sub(time).max(time.saturating_sub(agreed.low)));
    // Any of them may be the honest one whose rate is right: the others' rates may be off by as
    // much as they differ from its own, and that by what it claims.
    let farthest = |reach: &dyn Fn(&Estimate) -> Rate| {
        truechimers.iter().map(|(_, _, e)| reach(e)).max().unwrap_or_default()
    };
    let growth = farthest(&|e| beside(e.growth, e.period.relative_to(best.period)));
    let difference_error =
        farthest(&|e| beside(e.difference_error, e.difference.relative_to(best.difference)));
    Some((
        index,
        Estimate {
            time: origin + Span(time),
            bound,
            path_bound: best.path_bound.min(bound),
            growth,
            difference_error,
            ..best
        },
    ))
}

/// How far something may be off that is `apart` from what is right to within `error`.
fn beside(error: Rate, apart: Rate) -> Rate {
    Rate(error.0.saturating_add(apart.0.saturating_abs()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn agree(edges: &[(i128, i128)]) -> Option<(i128, i128)> {
        agree_with(edges, 0)
    }

    fn agree_with(edges: &[(i128, i128)], awaited: usize) -> Option<(i128, i128)> {
        let claims: Vec<Claim> = edges.iter().map(|&(low, high)| Claim { low, high }).collect();
        agreement(&claims, 0).map(|c| (c.low, c.high))
    }

    #[test]
    fn a_liar_among_three_is_found_out() {
        assert_eq!(agree(&[(0, 10), (5, 12), (100, 101)]), Some((5, 10)));
        assert_eq!(agree(&[(100, 101), (0, 10), (5, 12)]), Some((5, 10)));
    }

    #[test]
    fn a_liar_with_a_tiny_interval_does_not_narrow_the_truth() {
        // Truth may be anywhere in 0..=8: the small one has no more weight than the others.
        assert_eq!(agree(&[(-10, 8), (0, 20), (3, 3)]), Some((0, 8)));
    }

    #[test]
    fn the_first_to_speak_is_no_majority() {
        let claim = Claim { low: 0, high: 1 };
        assert_eq!(agreement(&[claim], 2), None);
        assert_eq!(agreement(&[claim, claim], 1), Some(claim));
        assert_eq!(agreement(&[claim], 0), Some(claim));
    }

    #[test]
    fn two_that_disagree_are_no_majority() {
        assert_eq!(agree(&[(0, 1), (5, 6)]), None);
        assert_eq!(agree(&[(0, 3), (2, 6)]), Some((2, 3)));
        assert_eq!(agree(&[(0, 1)]), Some((0, 1)));
        assert_eq!(agree(&[]), None);
        assert_eq!(agree(&[(0, 1), (0, 1), (5, 6), (5, 6)]), None, "two against two");
    }

    #[test]
    fn those_still_to_come_count() {
        assert_eq!(agree_with(&[(0, 1)], 1), None);
        assert_eq!(agree_with(&[(0, 3), (2, 6)], 1), Some((2, 3)));
        assert_eq!(agree_with(&[(0, 3), (2, 6)], 2), None);
    }

    proptest! {
        #[test]
        fn truth_is_never_lost_to_a_minority(
            honest in prop::collection::vec((0i128..1000, 0i128..1000), 1..6),
            liars in prop::collection::vec((-2000i128..2000, 0i128..1000), 0..6),
        ) {
            prop_assume!(liars.len() < honest.len());
            // Truth is 0: every honest interval holds it.
            let mut all: Vec<(i128, i128)> = honest.iter().map(|&(a, b)| (-a, b)).collect();
            all.extend(liars.iter().map(|&(at, width)| (at, at + width)));
            let (low, high) = agree(&all).expect("the honest overlap at the truth");
            prop_assert!(low <= 0 && 0 <= high);
        }
    }
}
