//! How far an estimate is likely to be off: statistics, where the bound is causality.
//!
//! Noise is what the model says it is. What no exchange shows is how the round trip is shared
//! between there and back, and how far the server is off: for these there is a prior, which
//! `docs/explanation/likely.md` gives with what it was calibrated on. Three parts make up the error:
//!
//! | part | law | quantile at doubt ε, L = ln 1/ε |
//! |---|---|---|
//! | the route's asymmetry, and the model's noise | exponential, both ways | L · `route` |
//! | what delays packets at random delays them all | normal, bounded from above | √(2 L) · `access` |
//! | the server's own error | exponential, up to what it claims | min(1, L/8) · `server` |
//!
//! The quantiles are added up, as if all were off to the same side at once.

use truechimer_time::{Rate, Span};

use crate::number::{fraction, rate, seconds, span};

/// The confidence of likely intervals if the user has not said: 1 − 10⁻⁶.
pub const LIKELY_DOUBT: f64 = 1e-6;
/// A server is off by all that it claims with a probability of e⁻⁸: it claims a bound, and most
/// of it is reserve.
const RESERVE: f64 = 8.0;

/// Parts of an estimate's likely error; see the module's text.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Spread {
    /// Statistics may say anything here. Where they may not (a word is held off, hardly anything
    /// was heard yet, or nothing for long) there is no likely interval but the bound.
    pub is_known: bool,
    /// Scale of the exponential law of noise and of what the route's asymmetry may be, ≥ 0.
    pub route: Span,
    /// Scale of the normal law of what access networks, radio links and queues that never empty
    /// may add to one direction, ≥ 0.
    pub access: Span,
    /// Root distance of the server, and half of the error of a declared asymmetry, ≥ 0.
    pub server: Span,
    /// Scale of the exponential law of the rate's error, ≥ 0.
    pub rate: Rate,
}

impl Spread {
    /// How far the estimate is off at most with a probability of 1 − `doubt`, and how fast that
    /// grows. `None` if statistics may not say anything, or `doubt` is no probability.
    #[must_use]
    pub fn within(&self, doubt: f64) -> Option<(Span, Rate)> {
        let is_probability = doubt > 0.0 && doubt < 1.0;
        if !self.is_known || !is_probability {
            return None;
        }
        let exponent = -libm::log(doubt);
        let half = exponent * seconds(self.route)
            + libm::sqrt(2.0 * exponent) * seconds(self.access)
            + (exponent / RESERVE).min(1.0) * seconds(self.server);
        Some((span(half), rate(exponent * fraction(self.rate))))
    }

    /// Parts of it: first the one that another source over the same access network may have in
    /// common with this one, as much as `nearest` has in all; then the rest, which is this one's
    /// own.
    #[must_use]
    pub fn shared_with(&self, nearest: &Spread) -> (Spread, Spread) {
        let (route, access) = (self.route.min(nearest.route), self.access.min(nearest.access));
        let shared = Spread { route, access, server: Span::ZERO, ..*self };
        let (route, access) = (self.route - route, self.access - access);
        (shared, Spread { route, access, rate: Rate::ZERO, ..*self })
    }
}

/// A server is wrong beyond what it claims, and nobody has noticed yet, with this probability: an
/// hour in a year.
const WRONG: f64 = 1e-4;

/// The doubt that each of so many independent sources may leave where a majority of them is to be
/// wrong with a probability of `doubt` at most, its own servers being wrong now and then included:
/// that takes k = ⌊(n − 1) / 2⌋ + 1 of n, and C(n, k) ways to choose them. A majority of one or two
/// is one: nothing protects from its server.
#[must_use]
pub fn doubt_of_each(sources: usize, doubt: f64) -> f64 {
    let wrong = sources.saturating_sub(1) / 2 + 1;
    let ways: f64 = (0..wrong).map(|i| (sources - i) as f64 / (i + 1) as f64).product();
    let each = libm::pow(doubt / ways.max(1.0), 1.0 / wrong as f64);
    if each > 2.0 * WRONG { each - WRONG } else { each }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPREAD: Spread = Spread {
        is_known: true,
        route: Span::from_micros(100),
        access: Span::from_micros(50),
        server: Span::from_micros(800),
        rate: Rate::from_ppb(10),
    };

    #[test]
    fn more_confidence_is_wider_and_a_server_is_never_off_by_more_than_it_claims() {
        let half = |doubt| seconds(SPREAD.within(doubt).unwrap().0) * 1e6;
        // L = 4.605: 460.5 + 151.7 + 460.5.
        assert!((half(1e-2) - 1072.7).abs() < 0.2, "{}", half(1e-2));
        // L = 13.816: 1381.6 + 262.8 + 800.
        assert!((half(1e-6) - 2444.4).abs() < 0.2, "{}", half(1e-6));
        let growth = SPREAD.within(1e-6).unwrap().1;
        assert!((fraction(growth) - 138.2e-9).abs() < 1e-10);
    }

    #[test]
    fn where_statistics_may_not_speak_they_do_not() {
        assert_eq!(Spread { is_known: false, ..SPREAD }.within(1e-2), None);
        assert_eq!(Spread::default().within(1e-2), None);
        for doubt in [0.0, 1.0, -1.0, f64::NAN] {
            assert_eq!(SPREAD.within(doubt), None, "{doubt}");
        }
    }

    #[test]
    fn many_sources_may_each_be_doubted_more() {
        let each = |n| doubt_of_each(n, 1e-6);
        assert_eq!((each(1), each(2)), (1e-6, 0.5e-6));
        // 3 · (4.77 · 10⁻⁴ + 10⁻⁴)² = 10⁻⁶, and so on.
        assert!((each(3) - 4.774e-4).abs() < 1e-6, "{}", each(3));
        assert!((each(5) - 4.542e-3).abs() < 1e-5, "{}", each(5));
        assert!(each(4) < each(3), "a majority of four is wrong by two of them, as one of three");
    }

    #[test]
    fn what_is_shared_and_what_is_not_are_all_of_it() {
        let nearest =
            Spread { route: Span::from_micros(10), access: Span::from_millis(1), ..SPREAD };
        let (shared, own) = SPREAD.shared_with(&nearest);
        assert_eq!((shared.route, shared.route + own.route), (nearest.route, SPREAD.route));
        assert_eq!((shared.access, own.access), (SPREAD.access, Span::ZERO));
        assert_eq!((shared.server, own.server), (Span::ZERO, SPREAD.server));
        let (shared, own) = nearest.shared_with(&nearest);
        assert_eq!((shared.access, own.access), (nearest.access, Span::ZERO));
    }
}
