//! Times and spans as they are on the wire.

use truechimer_time::{Instant, Span};

const NANOS_PER_SEC: u32 = 1_000_000_000;

/// Time since the epoch of the sender's timescale (5.3.3), which for PTP's own is 1970-01-01
/// 00:00:00 TAI (7.2.3).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Timestamp {
    /// Seconds; the wire has room for 48 bits, higher ones are lost in encoding.
    pub seconds: u64,
    /// Nanoseconds; from 1 000 000 000 on they mean nothing.
    pub nanos: u32,
}

impl Timestamp {
    /// The instant on the sender's timescale; `None` if the nanoseconds are none.
    #[must_use]
    pub fn instant(self) -> Option<Instant> {
        if self.nanos >= NANOS_PER_SEC || self.seconds >> 48 != 0 {
            return None;
        }
        let seconds = i64::try_from(self.seconds).ok()?;
        Some(Instant::new(seconds, 0) + Span::from_nanos(i64::from(self.nanos)))
    }

    pub(crate) fn decode(bytes: [u8; 10]) -> Timestamp {
        let [a, b, c, d, e, f, nanos @ ..] = bytes;
        Timestamp {
            seconds: u64::from_be_bytes([0, 0, a, b, c, d, e, f]),
            nanos: u32::from_be_bytes(nanos),
        }
    }

    pub(crate) fn encode(self) -> [u8; 10] {
        let [_, _, a, b, c, d, e, f] = self.seconds.to_be_bytes();
        let [g, h, i, j] = self.nanos.to_be_bytes();
        [a, b, c, d, e, f, g, h, i, j]
    }
}

/// Correction field (13.3.2.9), in 2⁻¹⁶ ns: residence times on the way, and what a timestamp lacks
/// below a nanosecond. Positive: to be taken off the time that the message seems to have taken.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Correction(pub i64);

impl Correction {
    /// The value that stands for all that are too large for the field.
    pub const TOO_LARGE: Correction = Correction(i64::MAX);

    /// The correction, rounded down by less than 2⁻⁶⁴ s; `None` if it was too large for the field.
    #[must_use]
    pub fn span(self) -> Option<Span> {
        let scaled = i128::from(self.0) << 48;
        (self != Correction::TOO_LARGE).then(|| Span(scaled.div_euclid(i128::from(NANOS_PER_SEC))))
    }
}

/// Power of two of seconds (5.3.1 and 7.7.2.1), as intervals between messages are announced.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct LogInterval(pub i8);

impl LogInterval {
    /// Value of messages that announce no interval (table 42).
    pub const NONE: LogInterval = LogInterval(0x7f);

    /// The interval with its exponent brought into a range; `None` if none was announced.
    #[must_use]
    pub fn within(self, least: i8, most: i8) -> Option<Span> {
        if self == LogInterval::NONE {
            return None;
        }
        let exponent = self.0.max(least).min(most).clamp(-30, 30);
        let second = Span::from_secs(1).0;
        let shift = u32::from(exponent.unsigned_abs());
        Some(Span(if exponent < 0 { second >> shift } else { second << shift }))
    }
}
