//! Error Estimate field: how far a time may be off.

use truechimer_time::Span;

/// Format of the timestamps of whoever sent a packet (the Z bit, RFC 8186).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Format {
    /// NTP's 64 bits (RFC 5905 section 6).
    #[default]
    Ntp,
    /// PTPv2's, truncated: 32 bits of seconds, 32 of nanoseconds.
    Ptp,
}

/// Error estimate of a packet's timestamps (RFC 4656 section 4.1.2, RFC 8762 section 4.2.1): multiplier · 2⁻³² · 2^scale
/// seconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Estimate {
    /// The clock is synchronised to UTC by an external source (the S bit).
    pub synchronised: bool,
    /// Format of the timestamps.
    pub format: Format,
    /// Scale, 0 to 63.
    pub scale: u8,
    /// Multiplier; 0 says nothing, and must not be sent.
    pub multiplier: u8,
}

/// Bits of the error beyond the unit of 2⁻³² s, in a [`Span`].
const UNIT: u32 = 32;
/// Largest scale.
const SCALE: u8 = 63;

impl Estimate {
    /// Estimate of a clock of which nothing is promised: as large as can be said.
    pub const NONE: Estimate =
        Estimate { synchronised: false, format: Format::Ntp, scale: SCALE, multiplier: u8::MAX };

    /// The least that is no less than this bound; [`Estimate::NONE`] without one, or beyond the largest.
    #[must_use]
    pub fn at_least(bound: Option<Span>) -> Estimate {
        let Some(bound) = bound else { return Estimate::NONE };
        let rounded =
            |span: u128, bits: u32| (span >> bits) + u128::from(span & ((1u128 << bits) - 1) != 0);
        let units = rounded(bound.0.max(1).unsigned_abs(), UNIT);
        (0..=SCALE)
            .find_map(|scale| {
                let multiplier = u8::try_from(rounded(units, scale.into())).ok()?;
                Some(Estimate { synchronised: true, format: Format::Ntp, scale, multiplier })
            })
            .unwrap_or(Estimate::NONE)
    }

    /// Bound that it promises; `None` if the clock is not synchronised, or the field says nothing.
    #[must_use]
    pub fn bound(self) -> Option<Span> {
        let promised = self.synchronised && self.multiplier > 0;
        promised
            .then(|| Span(i128::from(self.multiplier) << (UNIT + u32::from(self.scale & SCALE))))
    }

    /// Bits of the wire.
    #[must_use]
    pub fn to_bits(self) -> u16 {
        u16::from(self.synchronised) << 15
            | u16::from(self.format == Format::Ptp) << 14
            | u16::from(self.scale & SCALE) << 8
            | u16::from(self.multiplier)
    }

    /// From the wire.
    #[must_use]
    pub fn from_bits(bits: u16) -> Estimate {
        let [high, multiplier] = bits.to_be_bytes();
        let format = if high & 0x40 != 0 { Format::Ptp } else { Format::Ntp };
        Estimate { synchronised: high & 0x80 != 0, format, scale: high & SCALE, multiplier }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn bits_are_what_they_were(bits: u16) {
            prop_assert_eq!(Estimate::from_bits(bits).to_bits(), bits);
        }

        #[test]
        fn a_bound_is_never_understated_and_not_by_far_overstated(
            mantissa in 0i128..1 << 40, shift in 0u32..62,
        ) {
            let bound = Span(mantissa << shift);
            let said = Estimate::at_least(Some(bound)).bound().unwrap();
            prop_assert!(said >= bound);
            // By one in 128 of itself, and one unit of 2⁻³² s.
            prop_assert!(said.0 <= bound.0 + (bound.0 >> 7) + (1 << 32), "{bound:?} {said:?}");
        }
    }

    #[test]
    fn what_promises_nothing() {
        assert_eq!(Estimate::at_least(None), Estimate::NONE);
        assert_eq!(Estimate::NONE.bound(), None);
        assert_eq!(Estimate::at_least(Some(Span::MAX)), Estimate::NONE);
        assert_eq!(Estimate::from_bits(0x8000).bound(), None);
        // RFC 4656's own example of a field: multiplier 1, scale 0 is 2⁻³² s.
        assert_eq!(Estimate::from_bits(0x8001).bound(), Some(Span(1 << 32)));
        assert_eq!(Estimate::at_least(Some(Span::from_nanos(-5))).bound(), Some(Span(1 << 32)));
    }
}
