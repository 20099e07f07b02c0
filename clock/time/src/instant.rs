//! Points on the leap-free time scale.

use core::ops::{Add, AddAssign, Sub};

use crate::Span;

/// A point in time on a scale without leap seconds: seconds of 2⁻⁶⁴ resolution since
/// 1970-01-01T00:00:00, such that UTC (as Unix time) = `Instant` − (TAI − UTC).
///
/// Where TAI − UTC is known this is TAI counted from 1970; where it is not, the scale is UTC as of
/// the daemon's start, continued without leaps (see [`crate::Leaps::known`]).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(transparent))]
pub struct Instant(pub i128);

impl Instant {
    /// From whole seconds and a fraction in 2⁻⁶⁴ s.
    #[must_use]
    pub const fn new(secs: i64, frac: u64) -> Instant {
        Instant(((secs as i128) << 64) | frac as i128)
    }

    /// Whole seconds, rounded towards −∞.
    #[must_use]
    pub const fn secs(self) -> i64 {
        (self.0 >> 64) as i64
    }

    /// The fraction of the second, in 2⁻⁶⁴ s.
    #[must_use]
    pub const fn frac(self) -> u64 {
        self.0 as u64
    }

    /// The instant `nanos` nanoseconds after the scale's origin.
    #[must_use]
    pub const fn from_nanos(nanos: i128) -> Instant {
        Instant(Span::from_nanos_wide(nanos).0)
    }

    /// Nanoseconds since the scale's origin, rounded to the nearest.
    #[must_use]
    pub const fn as_nanos(self) -> i128 {
        Span(self.0).as_nanos()
    }
}

impl Sub for Instant {
    type Output = Span;
    #[inline]
    fn sub(self, rhs: Instant) -> Span {
        Span(self.0.saturating_sub(rhs.0))
    }
}

impl Add<Span> for Instant {
    type Output = Instant;
    #[inline]
    fn add(self, rhs: Span) -> Instant {
        Instant(self.0.saturating_add(rhs.0))
    }
}

impl AddAssign<Span> for Instant {
    fn add_assign(&mut self, rhs: Span) {
        *self = *self + rhs;
    }
}

impl Sub<Span> for Instant {
    type Output = Instant;
    #[inline]
    fn sub(self, rhs: Span) -> Instant {
        Instant(self.0.saturating_sub(rhs.0))
    }
}
