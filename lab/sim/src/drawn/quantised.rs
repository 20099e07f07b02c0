//! Servers whose stamps are coarse.

use truechimer_feedforward::number::span;
use truechimer_time::Instant;

use super::part::US;
use super::range::{Drawing, Range, Values};
use crate::random::Random;

const QUANTUM: Range = Range {
    name: "quantum",
    unit: "µs",
    // Powers of ten and of two: 2⁻²⁰, 2⁻¹⁴ and 2⁻¹⁰ s.
    values: Values::OneOf(&[1.0, 10.0, 100.0, 1000.0, 0.953_674_316, 61.035_156_25, 976.562_5]),
    reason: "gettimeofday, logs and ticks; the precision field of RFC 5905, −20 to −10",
};
const KIND: Range = Range {
    name: "cut, rounded, blurred",
    unit: "",
    values: Values::OneOf(&[0.0, 1.0, 2.0]),
    reason: "0 cut, 1 to the nearest, 2 with random bits below the precision (RFC 5905, appendix \
             A.4)",
};

/// Parameters that are drawn.
pub(super) const RANGES: [Range; 2] = [QUANTUM, KIND];

/// Way in which a server makes stamps of its time. They are right to within the quantum.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Stamping {
    /// In 2⁻⁶⁴ s; not 0.
    quantum: i128,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Cut,
    Nearest,
    Blurred,
}

impl Stamping {
    /// NTP's own: cut to 2⁻³² s.
    pub(super) const FINE: Stamping = Stamping { quantum: 1 << 32, kind: Kind::Cut };

    /// Error that stamps may have, s.
    pub(super) fn quantum(self) -> f64 {
        truechimer_feedforward::number::seconds(truechimer_time::Span(self.quantum))
    }

    /// Earliest and latest time with the stamp that this time gets.
    pub(super) fn cell(self, at: Instant) -> (Instant, Instant) {
        let shift = if self.kind == Kind::Nearest { self.quantum / 2 } else { 0 };
        let begin = at.0 - (at.0 + shift).rem_euclid(self.quantum);
        (Instant(begin), Instant(begin + self.quantum))
    }

    /// The stamp at this time.
    pub(super) fn stamp(self, at: Instant, random: &mut Random) -> Instant {
        let cut = |at: i128, quantum: i128| at - at.rem_euclid(quantum);
        let stamp = match self.kind {
            Kind::Cut => cut(at.0, self.quantum),
            Kind::Nearest => cut(at.0 + self.quantum / 2, self.quantum),
            Kind::Blurred => {
                let below = (self.quantum as f64 * (1.0 - random.uniform())) as i128;
                cut(at.0, self.quantum) + below
            }
        };
        // As it goes out.
        Instant(cut(stamp, 1 << 32))
    }
}

pub(super) fn draw(d: &mut Drawing) -> Stamping {
    let kind = match d.draw("server", &KIND) as u8 {
        0 => Kind::Cut,
        1 => Kind::Nearest,
        _ => Kind::Blurred,
    };
    Stamping { quantum: span(d.draw("server", &QUANTUM) * US).0, kind }
}
