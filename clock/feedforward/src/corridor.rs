//! Limits on θ by causality alone.
//!
//! A packet arrives after it left: true time at the count of the request's departure is before
//! the server's receive stamp, and true time at the count of the reply's arrival is after the
//! server's transmit stamp. Each exchange so gives a hard interval for θ, whatever the asymmetry
//! of the path, as long as the server is right to within the root distance that it claims. Kept
//! together, widened by what the oscillator may have strayed meanwhile, the intervals give an
//! interval that is narrower than any of them. It is what the error bound is made of.

/// A rate and the bound of its error.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct BoundedRate {
    pub(crate) rate: f64,
    pub(crate) error: f64,
}

impl BoundedRate {
    /// Rate that may be off by so much more.
    pub(crate) fn wider(self, by: f64) -> BoundedRate {
        BoundedRate { error: self.error + by, ..self }
    }
}

/// An interval for θ in seconds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Corridor {
    pub(crate) low: f64,
    pub(crate) high: f64,
}

impl Corridor {
    /// The corridor `dt` seconds later, or earlier.
    #[must_use]
    pub(crate) fn later(&self, dt: f64, rate: BoundedRate) -> Corridor {
        self.shifted(rate.rate * dt).widened(rate.error * dt.abs())
    }

    /// The corridor where θ is counted from `by` less, s.
    #[must_use]
    pub(crate) fn shifted(&self, by: f64) -> Corridor {
        Corridor { low: self.low + by, high: self.high + by }
    }

    /// The corridor with `by` more on either side, s.
    #[must_use]
    pub(crate) fn widened(&self, by: f64) -> Corridor {
        Corridor { low: self.low - by, high: self.high + by }
    }

    /// Part that both allow, if any.
    #[must_use]
    pub(crate) fn intersection(&self, other: &Corridor) -> Option<Corridor> {
        let both = Corridor { low: self.low.max(other.low), high: self.high.min(other.high) };
        (both.low <= both.high).then_some(both)
    }

    /// From its lower to its upper end.
    pub(crate) fn width(&self) -> f64 {
        self.high - self.low
    }

    /// Half-way between its ends.
    pub(crate) fn middle(&self) -> f64 {
        (self.low + self.high) / 2.0
    }

    /// The value nearest to `theta` that is allowed.
    pub(crate) fn clamp(&self, theta: f64) -> f64 {
        theta.max(self.low).min(self.high)
    }

    /// The smallest interval that holds both.
    #[must_use]
    pub(crate) fn hull(&self, other: &Corridor) -> Corridor {
        Corridor { low: self.low.min(other.low), high: self.high.max(other.high) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_meet_or_do_not() {
        let a = Corridor { low: 0.0, high: 2.0 };
        let b = Corridor { low: 1.0, high: 3.0 };
        assert_eq!(a.intersection(&b), Some(Corridor { low: 1.0, high: 2.0 }));
        assert_eq!(a.intersection(&Corridor { low: 2.5, high: 3.0 }), None);
        assert_eq!(
            a.later(10.0, BoundedRate { rate: 0.5, error: 0.1 }),
            Corridor { low: 4.0, high: 8.0 }
        );
        assert_eq!((a.clamp(5.0), a.hull(&b)), (2.0, Corridor { low: 0.0, high: 3.0 }));
    }
}
