//! Which sources agree: the intersection of their intervals.
//!
//! Every source claims that true time lies within an interval. If fewer than half of n sources lie,
//! at least n − ⌊(n − 1) / 2⌋ intervals hold the truth, so it lies where that many overlap
//! (Marzullo; RFC 5905 §11.2.1). A source whose interval does not reach there is a falseticker and
//! has no say. Where nothing overlaps that much there is no majority, and no guess.

use crate::few::Few;

/// An interval on any common scale.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Claim {
    pub(crate) low: i128,
    pub(crate) high: i128,
}

impl Claim {
    pub(crate) fn around(middle: i128, half: i128) -> Claim {
        Claim { low: middle.saturating_sub(half), high: middle.saturating_add(half) }
    }

    pub(crate) fn intersection(&self, other: &Claim) -> Option<Claim> {
        let both = Claim { low: self.low.max(other.low), high: self.high.min(other.high) };
        (both.low <= both.high).then_some(both)
    }

    /// Gap between the two; 0 if they meet.
    pub(crate) fn gap(&self, other: &Claim) -> i128 {
        let low = self.low.saturating_sub(other.high);
        low.max(other.low.saturating_sub(self.high)).max(0)
    }

    /// From a place within it to the farther end.
    pub(crate) fn reach(&self, from: i128) -> i128 {
        self.high.saturating_sub(from).max(from.saturating_sub(self.low))
    }

    pub(crate) fn meets(&self, other: &Claim) -> bool {
        self.low <= other.high && other.low <= self.high
    }
}

/// The smallest interval that holds the truth if fewer than half of the claims are false, those to
/// come included. `None` if that cannot be, or not yet.
pub(crate) fn agreement(claims: &[Claim], to_come: usize) -> Option<Claim> {
    let each: Few<&[Claim]> = claims.iter().map(core::slice::from_ref).collect();
    agreement_among(&each, to_come)
}

/// Finds agreement where a source may claim that the truth is in one of several intervals.
pub(crate) fn agreement_among(sources: &[&[Claim]], to_come: usize) -> Option<Claim> {
    let all = sources.len() + to_come;
    let honest = all - all.saturating_sub(1) / 2;
    let holds = |claims: &[Claim], at: i128| claims.iter().any(|c| c.low <= at && at <= c.high);
    let vouchers = |at: i128| sources.iter().filter(|claims| holds(claims, at)).count();
    let edges = || sources.iter().flat_map(|claims| *claims).flat_map(|c| [c.low, c.high]);
    edges().find(|at| vouchers(*at) >= honest)?;
    // Those to come may vouch for anything: the truth may be wherever they could make up the
    // number.
    let enough = honest.saturating_sub(to_come).max(1);
    // Where enough intervals overlap begins at a lower edge and ends at an upper one.
    Some(Claim {
        low: edges().filter(|at| vouchers(*at) >= enough).min()?,
        high: edges().filter(|at| vouchers(*at) >= enough).max()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::slice::from_ref;
    use proptest::prelude::*;
    use std::vec::Vec;

    fn agree(edges: &[(i128, i128)]) -> Option<(i128, i128)> {
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
    fn one_that_is_in_two_minds_does_not_vouch_for_what_lies_between() {
        let claim = |low, high| Claim { low, high };
        let stepped = [claim(0, 10), claim(500, 510)];
        let agreed = |others: [Claim; 2]| {
            let [one, other] = &others;
            agreement_among(&[&stepped, from_ref(one), from_ref(other)], 0)
        };
        assert_eq!(agreed([claim(5, 12), claim(200, 210)]), Some(claim(5, 10)));
        assert_eq!(agreed([claim(505, 520), claim(200, 210)]), Some(claim(505, 510)));
        assert_eq!(agreed([claim(5, 12), claim(0, 600)]), Some(claim(0, 510)), "either may be");
        assert_eq!(
            agreement_among(&[&stepped], 0),
            Some(claim(0, 510)),
            "alone it is all there is"
        );
    }

    #[test]
    fn two_that_disagree_are_no_majority() {
        assert_eq!(agree(&[(0, 1), (5, 6)]), None);
        assert_eq!(agree(&[(0, 3), (2, 6)]), Some((2, 3)));
        assert_eq!(agree(&[(0, 1)]), Some((0, 1)));
        assert_eq!(agree(&[]), None);
        assert_eq!(agree(&[(0, 1), (0, 1), (5, 6), (5, 6)]), None, "two against two");
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
