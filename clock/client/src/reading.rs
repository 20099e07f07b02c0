//! Readings of the clock.

use truechimer_time::{Count, CountSpan, CounterKind, Epoch, Instant, Leaps, Span, Utc};
use truechimer_timehands::{PackedLeaps, Status};

/// The time, and how well it is known.
///
/// While [`Status::bound_holds`] the true time lay within `earliest..=latest` at the moment of the
/// reading. Otherwise nothing is promised and those two are the ends of the scale, so that code
/// which looks at nothing else cannot be deceived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reading {
    /// The count that the time is of.
    pub count: Count,
    /// True time was not before this.
    pub earliest: Instant,
    /// The best estimate. Not necessarily half-way between the other two. While nothing is
    /// promised it is only what the clock shows, in 1970 perhaps.
    pub best: Instant,
    /// True time was not after this.
    pub latest: Instant,
    /// Status of the clock, in its own words.
    pub status: Status,
    pub(crate) leaps: PackedLeaps,
}

impl Reading {
    /// The farthest that true time may be from `best`; `None` if nothing is promised.
    #[must_use]
    pub fn bound(&self) -> Option<Span> {
        let bound = (self.latest - self.best).0.max((self.best - self.earliest).0);
        self.status.bound_holds().then_some(Span(bound))
    }

    /// The best estimate as UTC.
    #[must_use]
    pub fn utc(&self) -> Utc {
        self.leaps().utc(self.best)
    }

    /// Leap seconds as far as known: how to get from the instants here to UTC, and whether they are
    /// TAI.
    #[must_use]
    pub fn leaps(&self) -> Leaps {
        self.leaps.into()
    }
}

/// A count that knows which counter it is of: what to keep of an event in order to ask later when
/// it was ([`Clock::time_of`](crate::Clock::time_of)) or how long ago
/// ([`Clock::elapsed`](crate::Clock::elapsed)).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Moment {
    /// The count.
    pub count: Count,
    /// Of which counter.
    pub kind: CounterKind,
    /// In which unbroken stretch of it.
    pub epoch: Epoch,
    /// Number of counts that the counter may have been from `count` then.
    pub(crate) doubt: Doubt,
}

impl Moment {
    /// The moment as two words, for other languages: the count, and in the other all else.
    /// [`Moment::from_words`] is the way back; what the bits of the second mean may change.
    #[must_use]
    #[inline]
    pub fn to_words(self) -> [u64; 2] {
        let Moment { count, kind, epoch, doubt } = self;
        [count.0, kind as u64 | u64::from(doubt.0) << 16 | u64::from(epoch.0) << 32]
    }

    /// The moment that [`Moment::to_words`] made these words of; `None` if they are of none.
    #[must_use]
    #[inline]
    pub fn from_words([count, rest]: [u64; 2]) -> Option<Moment> {
        let kind = CounterKind::from_u8(u8::try_from(rest & 0xffff).ok()?)?;
        let (doubt, epoch) = (Doubt((rest >> 16) as u16), Epoch((rest >> 32) as u32));
        Some(Moment { count: Count(count), kind, epoch, doubt })
    }
}

/// A number of counts, rounded up to eleven bits: small enough to leave a [`Moment`] as it is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Doubt(u16);

impl Doubt {
    /// No doubt: the counter was read.
    pub(crate) const NONE: Doubt = Doubt(0);

    /// Number of bits that are kept of it.
    const BITS: u32 = 11;

    /// At least `error`, ≥ 0; `None` if that is beyond all measure.
    pub(crate) fn of(error: CountSpan) -> Option<Doubt> {
        let error = u64::try_from(error.0).ok()?;
        let shift = (u64::BITS - error.leading_zeros()).saturating_sub(Doubt::BITS);
        let mantissa = (error >> shift) + u64::from(error & ((1 << shift) - 1) != 0);
        // Rounding up may have made it one bit longer.
        let carry = (mantissa >> Doubt::BITS) as u32;
        let (mantissa, shift) = (mantissa >> carry, shift + carry);
        (shift < 32).then_some(Doubt((shift << Doubt::BITS) as u16 | mantissa as u16))
    }

    /// Number of counts, ≥ 0.
    pub(crate) fn counts(self) -> CountSpan {
        CountSpan(i64::from(self.0 & ((1 << Doubt::BITS) - 1)) << (self.0 >> Doubt::BITS))
    }
}

/// A length of time by the difference clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Elapsed {
    /// Length; negative if the second moment came first.
    pub span: Span,
    /// The true length is within this of `span`, ≥ 0.
    pub bound: Span,
}

impl Elapsed {
    /// A span with the error that its period makes in it, between two counts either of which may
    /// be old by up to one step of the counter.
    #[inline(always)]
    pub(crate) fn new((span, error): (Span, Span), step: Span) -> Elapsed {
        // One unit more for the rounding of each.
        Elapsed { span, bound: Span(error.0.wrapping_add(step.0).wrapping_add(3)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_doubt_is_never_understated_and_not_by_far_overstated() {
        for error in (0..3000).chain((11..42).flat_map(|n| {
            let power = 1i64 << n;
            [power - 1, power, power + 1, power + power / 3]
        })) {
            let doubt = Doubt::of(CountSpan(error)).unwrap().counts().0;
            assert!((error..=error + error / 1000).contains(&doubt), "{error} became {doubt}");
        }
        assert_eq!(Doubt::of(CountSpan(0)), Some(Doubt::NONE));
        for error in [-1, 1 << 43, i64::MAX] {
            assert_eq!(Doubt::of(CountSpan(error)), None, "{error}");
        }
        assert_eq!(size_of::<Moment>(), 16);
    }

    #[test]
    fn a_moment_survives_as_words_and_nonsense_is_none() {
        for kind in (0..=255).filter_map(CounterKind::from_u8) {
            for (epoch, doubt) in [(0, 0), (7, 4100), (u32::MAX, 9_000_000)] {
                let doubt = Doubt::of(CountSpan(doubt)).unwrap();
                let moment =
                    Moment { count: Count(u64::MAX - 3), kind, epoch: Epoch(epoch), doubt };
                assert_eq!(Moment::from_words(moment.to_words()), Some(moment));
            }
        }
        for rest in [0, 6, 0x100, 0x101, 254, u64::MAX] {
            assert_eq!(Moment::from_words([1, rest]), None, "{rest:x}");
        }
    }
}
