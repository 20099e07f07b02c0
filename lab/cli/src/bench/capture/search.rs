//! The highest rate without loss, by bisection.

/// Looks for the highest rate at which nothing is lost: on a logarithmic scale, by halving what is
/// left of it. What loses at one rate is taken to lose at every higher one; what does not, to lose
/// at no lower one.
#[derive(Clone, PartialEq, Debug)]
pub struct Search {
    /// Nothing is lost at this rate, as far as is known; 0 before one is known.
    good: f64,
    /// Something is lost here.
    bad: f64,
    least: f64,
    tolerance: f64,
    /// Something was lost at this rate; it gets a second try.
    doubted: Option<f64>,
    /// Number of times that the sender may still be too slow at this rate.
    chances: u32,
    tries: u32,
    next: f64,
}

/// Number of times that a rate is asked for again because the sender was too slow.
const CHANCES: u32 = 3;
/// Slower than this share of what it was asked for is too slow.
const SLOW: f64 = 0.95;
/// Tries at most: what is known after them is the answer.
const MOST_TRIES: u32 = 40;

/// Result of a search.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Found {
    /// The highest rate without loss, packets a second, to within the tolerance.
    Rate(f64),
    /// Even the highest rate that was offered lost nothing.
    AtLeast(f64),
    /// Even the lowest lost something.
    Below(f64),
}

impl Found {
    /// Rate as a number; in truth it may be more (`AtLeast`) or less (`Below`).
    #[must_use]
    pub fn rate(self) -> f64 {
        match self {
            Found::Rate(rate) | Found::AtLeast(rate) => rate,
            Found::Below(_) => 0.0,
        }
    }
}

impl Search {
    /// Between `least` packets a second and `lost_at`, where something is known to be lost, until
    /// the highest good rate and the lowest bad one differ by at most the factor 1 + `tolerance`.
    #[must_use]
    pub fn below(lost_at: f64, least: f64, tolerance: f64) -> Search {
        Search {
            good: 0.0,
            bad: lost_at,
            least,
            tolerance,
            doubted: None,
            chances: CHANCES,
            tries: 0,
            next: (lost_at / 2.0).max(least),
        }
    }

    /// The rate to try next; `None` once it is found.
    #[must_use]
    pub fn next(&self) -> Option<f64> {
        self.found().is_none().then_some(self.next)
    }

    /// Says what came of a try of [`Search::next`]: packets were really sent at `rate`, and whether
    /// any was lost. A first loss at a rate is not believed until it has been seen twice: a machine
    /// that others share loses packets now and then at any rate. For the same reason a sender that
    /// was held up, and so showed nothing about the rate it was asked for, gets further chances.
    pub fn tried(&mut self, rate: f64, lost: bool) {
        if self.found().is_some() {
            return;
        }
        self.tries += 1;
        let asked = self.next;
        if lost && self.doubted != Some(asked) {
            self.doubted = Some(asked);
            return;
        }
        if !lost && rate < asked * SLOW && self.chances > 0 {
            self.chances -= 1;
            return;
        }
        (self.doubted, self.chances) = (None, CHANCES);
        if lost {
            self.bad = self.bad.min(asked).min(rate.max(self.good));
        } else {
            self.good = self.good.max(rate.min(asked));
        }
        self.next = match self.good > 0.0 {
            true => (self.good * self.bad).sqrt(),
            false => (self.bad / 2.0).max(self.least),
        };
    }

    /// Result, once there is one.
    #[must_use]
    pub fn found(&self) -> Option<Found> {
        if self.bad <= self.least {
            return Some(Found::Below(self.least));
        }
        let near = self.good > 0.0 && self.bad <= self.good * (1.0 + self.tolerance);
        (near || self.tries >= MOST_TRIES).then_some(Found::Rate(self.good))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn run(mut search: Search, loses: impl Fn(f64) -> bool, ceiling: f64) -> (Found, usize) {
        let mut tries = 0;
        while let Some(rate) = search.next() {
            let sent = rate.min(ceiling);
            search.tried(sent, loses(sent));
            tries += 1;
            assert!(tries < 100, "no end: {search:?}");
        }
        (search.found().unwrap(), tries)
    }

    proptest! {
        #[test]
        fn finds_the_edge(
            lost_at in 5e4..1e7_f64,
            share in 0.001..0.999_f64,
            tolerance in 0.01..0.2_f64,
        ) {
            let edge = lost_at * share;
            match run(Search::below(lost_at, 1e4, tolerance), |rate| rate > edge, f64::INFINITY).0 {
                Found::Rate(rate) => {
                    prop_assert!(rate <= edge && edge <= rate * (1.0 + tolerance));
                }
                Found::AtLeast(_) => prop_assert!(false),
                Found::Below(rate) => prop_assert!(edge < rate),
            }
        }

        #[test]
        fn a_sender_that_is_held_up_ends_it_with_what_was_shown(ceiling in 2e4..9e5_f64) {
            let (found, tries) = run(Search::below(2e6, 1e4, 0.05), |_| false, ceiling);
            prop_assert!(found.rate() <= ceiling && found.rate() > ceiling * 0.99, "{found:?}");
            prop_assert!(tries <= 40);
        }
    }

    #[test]
    fn a_sender_that_was_held_up_once_is_asked_again() {
        let mut search = Search::below(2e6, 1e4, 0.05);
        search.tried(3e5, false);
        assert_eq!(search.next(), Some(1e6));
        search.tried(1e6, false);
        assert!(search.next() > Some(1.4e6));
    }

    #[test]
    fn one_loss_that_is_not_repeated_is_no_edge() {
        let mut search = Search::below(2e6, 1e4, 0.05);
        search.tried(1e6, true);
        assert_eq!(search.next(), Some(1e6));
        search.tried(1e6, false);
        assert!(search.next() > Some(1e6));
    }

    #[test]
    fn goes_down_from_a_known_loss() {
        let (found, tries) = run(Search::below(2e6, 1e4, 0.05), |rate| rate > 0.9e6, f64::INFINITY);
        assert!((0.85e6..=0.9e6).contains(&found.rate()), "{found:?}");
        assert!(tries < 14, "{tries}");
        let (found, _) = run(Search::below(2e6, 1e4, 0.05), |_| false, f64::INFINITY);
        assert!(found.rate() > 1.9e6, "{found:?}");
    }

    #[test]
    fn what_loses_at_any_rate_is_below_the_least() {
        let (found, _) = run(Search::below(1e7, 1e4, 0.05), |_| true, f64::INFINITY);
        assert_eq!(found, Found::Below(1e4));
    }
}
