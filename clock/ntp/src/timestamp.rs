//! The 64-bit NTP timestamp.

use truechimer_time::{Instant, Leaps, Span};

/// From 1900-01-01, where NTP era 0 begins, to 1970-01-01, in seconds (RFC 5905 §6, Figure 4).
const UNIX_ORIGIN: i64 = 2_208_988_800;

/// The NTP timestamp format (RFC 5905 §6): seconds in the upper 32 bits, the fraction in 2⁻³² s
/// (0.23 ns) in the lower.
///
/// The seconds count from the beginning of an era of 2³² s (136 years); era 0 began in 1900, era 1
/// begins on 2036-02-07. The era itself is not on the wire: whoever wants a date must know the
/// time to within 68 years (the *pivot*).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// Zero, which means that the time is not known.
    pub const UNKNOWN: Timestamp = Timestamp(0);

    /// True if this is [`Timestamp::UNKNOWN`].
    #[must_use]
    pub const fn is_unknown(self) -> bool {
        self.0 == 0
    }

    /// The timestamp of a Unix time: `secs` since 1970 and `frac` in 2⁻⁶⁴ s, rounded down to the
    /// resolution.
    ///
    /// The one moment in an era that would come out as [`Timestamp::UNKNOWN`] is given as 2⁻³² s
    /// later.
    #[must_use]
    pub const fn from_unix(secs: i64, frac: u64) -> Timestamp {
        // The era is what the cast to 32 bits cuts off.
        let seconds = secs.wrapping_add(UNIX_ORIGIN) as u32;
        let bits = ((seconds as u64) << 32) | (frac >> 32);
        Timestamp(if bits == 0 { 1 } else { bits })
    }

    /// The Unix time of this timestamp, in the era that puts it nearest to `pivot` (Unix seconds,
    /// right to within 68 years): seconds since 1970, and the fraction in 2⁻⁶⁴ s. Exact.
    #[must_use]
    pub const fn to_unix(self, pivot: i64) -> (i64, u64) {
        let from_pivot =
            ((self.0 >> 32) as u32).wrapping_sub(pivot.wrapping_add(UNIX_ORIGIN) as u32) as i32;
        (pivot.wrapping_add(from_pivot as i64), self.0 << 32)
    }

    /// The timestamp of a leap-free instant. NTP counts UTC seconds: within an inserted leap
    /// second the second before it repeats.
    #[must_use]
    pub fn from_instant(at: Instant, leaps: &Leaps) -> Timestamp {
        let utc = leaps.utc(at);
        Timestamp::from_unix(utc.unix, utc.frac)
    }

    /// The leap-free instant of this timestamp; `pivot` as in [`Timestamp::to_unix`]. Of the
    /// second that an inserted leap second shows again, the first showing: [`Leaps::again`] has the
    /// other.
    #[must_use]
    pub fn to_instant(self, pivot: i64, leaps: &Leaps) -> Instant {
        let (secs, frac) = self.to_unix(pivot);
        leaps.instant(secs, frac)
    }

    /// The signed span from `earlier` to `self`, exact; right as long as the two lie within
    /// 68 years of each other, of whatever eras.
    #[must_use]
    pub const fn since(self, earlier: Timestamp) -> Span {
        Span((self.0.wrapping_sub(earlier.0) as i64 as i128) << 32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// 2036-02-07T06:28:16Z, where era 1 begins.
    const ERA_1: i64 = (1 << 32) - UNIX_ORIGIN;

    #[test]
    fn known_dates() {
        // RFC 5905 §6, Figure 4, and the IANA list of leap seconds.
        for (unix, seconds) in [
            (0, 2_208_988_800u32),
            (63_072_000, 2_272_060_800),
            (1_483_228_800, 3_692_217_600),
            (ERA_1 - 1, u32::MAX),
            (ERA_1, 0),
        ] {
            let stamp = Timestamp::from_unix(unix, 1 << 63);
            assert_eq!(stamp.0, (u64::from(seconds) << 32) | 1 << 31);
            assert_eq!(stamp.to_unix(unix), (unix, 1 << 63));
        }
    }

    #[test]
    fn zero_is_never_made() {
        assert_eq!(Timestamp::from_unix(ERA_1, 0), Timestamp(1));
        assert_eq!(Timestamp::from_unix(ERA_1, (1 << 32) - 1), Timestamp(1));
        assert!(Timestamp::UNKNOWN.is_unknown());
    }

    #[test]
    fn extreme_pivots_do_not_panic() {
        for pivot in [i64::MIN, i64::MAX] {
            for bits in [0, 1, u64::MAX] {
                let _ = Timestamp(bits).to_instant(pivot, &Leaps::default());
            }
        }
        let _ = Timestamp::from_instant(Instant(i128::MIN), &Leaps::default());
        let _ = Timestamp::from_instant(Instant(i128::MAX), &Leaps::default());
    }

    /// Unix seconds in eras 0, 1 and 2.
    fn any_second() -> impl Strategy<Value = i64> {
        -UNIX_ORIGIN..(3 << 32) - UNIX_ORIGIN
    }

    proptest! {
        #[test]
        fn dates_round_trip_in_every_era(
            secs in any_second(),
            fraction: u32,
            pivot_error in -(1i64 << 31) + 1..(1 << 31),
        ) {
            let frac = u64::from(fraction) << 32;
            let stamp = Timestamp::from_unix(secs, frac);
            prop_assume!(stamp != Timestamp(1));
            prop_assert_eq!(stamp.to_unix(secs + pivot_error), (secs, frac));
        }

        #[test]
        fn bits_round_trip_at_every_pivot(bits in 1u64.., pivot in any_second()) {
            let (secs, frac) = Timestamp(bits).to_unix(pivot);
            prop_assert!((secs - pivot).abs() <= 1 << 31);
            prop_assert_eq!(Timestamp::from_unix(secs, frac), Timestamp(bits));
        }

        #[test]
        fn instants_round_trip_to_the_resolution(secs in any_second(), frac: u64, tai in 0..100i32) {
            let leaps = Leaps { tai_offset: tai, known: true, ..Leaps::default() };
            let at = Instant::new(secs, frac);
            let error = at - Timestamp::from_instant(at, &leaps).to_instant(secs, &leaps);
            prop_assert!(error.0.abs() < 1 << 32);
        }

        #[test]
        fn spans_cross_eras(secs in any_second(), frac: u32, span: i64) {
            let start = Timestamp::from_unix(secs, u64::from(frac) << 32);
            let end = Timestamp(start.0.wrapping_add_signed(span));
            prop_assert_eq!(end.since(start), Span(i128::from(span) << 32));
        }
    }
}
