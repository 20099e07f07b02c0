//! Which sources agree: the intersection of their intervals.
//!
//! Every source claims that true time lies within an interval. The largest set of intervals that
//! share a point is found (Marzullo's algorithm, RFC 5905 §11.2.1 in its simplest form); if it is a
//! majority, its members are truechimers and the rest have no say. There is no guess where there
//! is no majority.

/// An interval that a source claims, on any common scale.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Claim {
    pub(crate) low: i128,
    pub(crate) high: i128,
}

impl Claim {
    fn meets(&self, other: &Claim) -> bool {
        self.low <= other.high && other.low <= self.high
    }
}

/// For each claim whether it belongs to the majority; all false if there is none.
pub(crate) fn truechimers(claims: &[Claim]) -> Vec<bool> {
    // The intersection of a largest set begins at one of its lower edges.
    let votes = |point: i128| claims.iter().filter(|c| c.low <= point && point <= c.high).count();
    let best = claims.iter().map(|c| (votes(c.low), c.low)).max_by_key(|(n, _)| *n);
    let Some((count, low)) = best.filter(|(n, _)| n * 2 > claims.len()) else {
        return vec![false; claims.len()];
    };
    let members = || claims.iter().filter(move |c| c.low <= low && low <= c.high);
    let shared = Claim {
        low: members().map(|c| c.low).max().unwrap_or(low),
        high: members().map(|c| c.high).min().unwrap_or(low),
    };
    debug_assert!(count > 0);
    claims.iter().map(|c| c.meets(&shared)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn claims(edges: &[(i128, i128)]) -> Vec<Claim> {
        edges.iter().map(|&(low, high)| Claim { low, high }).collect()
    }

    #[test]
    fn a_liar_among_three_is_found_out() {
        assert_eq!(truechimers(&claims(&[(0, 10), (5, 12), (100, 101)])), [true, true, false]);
        assert_eq!(truechimers(&claims(&[(100, 101), (0, 10), (5, 12)])), [false, true, true]);
    }

    #[test]
    fn two_that_disagree_are_no_majority() {
        assert_eq!(truechimers(&claims(&[(0, 1), (5, 6)])), [false, false]);
        assert_eq!(truechimers(&claims(&[(0, 1)])), [true]);
        assert!(truechimers(&[]).is_empty());
    }

    proptest! {
        #[test]
        fn honest_majorities_are_never_called_false(
            honest in prop::collection::vec((0i128..1000, 0i128..1000), 1..6),
            liars in prop::collection::vec((-5000i128..5000, 0i128..1000), 0..6),
        ) {
            prop_assume!(liars.len() < honest.len());
            // Truth is 0: every honest interval holds it.
            let mut all: Vec<(i128, i128)> = honest.iter().map(|&(a, b)| (-a, b)).collect();
            all.extend(liars.iter().map(|&(at, width)| (at, at + width)));
            let verdict = truechimers(&claims(&all));
            // A majority exists, for the honest share a point; members of the largest set agree.
            prop_assert!(verdict.iter().filter(|v| **v).count() * 2 > all.len());
        }
    }
}
