//! Likely error of an estimate: statistics, where the bound is causality.
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
    /// Distance by which the estimate is off at most with a probability of 1 − `doubt`, and the
    /// growth of that. `None` if statistics may not say anything, or `doubt` is no probability.
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
}
