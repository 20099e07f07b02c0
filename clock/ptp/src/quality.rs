//! Claims of a grandmaster on its own clock.

use truechimer_time::Span;

use crate::ClockQuality;

/// Accuracies of table 5 from 0x17 on, in ps.
const ACCURACIES_PS: [i64; 26] = [
    1,
    3, // 2.5, rounded up
    10,
    25,
    100,
    250,
    1_000,
    2_500,
    10_000,
    25_000, // 0x20
    100_000,
    250_000,
    1_000_000,
    2_500_000,
    10_000_000,
    25_000_000,
    100_000_000,
    250_000_000,
    1_000_000_000, // 0x29: 1 ms
    2_500_000_000,
    10_000_000_000,
    25_000_000_000,
    100_000_000_000,
    250_000_000_000,
    1_000_000_000_000,
    10_000_000_000_000, // 0x30: 10 s
];
const FIRST: u8 = 0x17;

impl ClockQuality {
    /// Most that the clock is off, by its accuracy (table 5); `None` where it states none (0xFE:
    /// unknown), or none that a bound could be made of.
    #[must_use]
    pub fn accuracy(&self) -> Option<Span> {
        let place = usize::from(self.accuracy.checked_sub(FIRST)?);
        let ps = *ACCURACIES_PS.get(place)?;
        // Whole nanoseconds, rounded up: an accuracy is a bound.
        Some(Span::from_nanos(ps.saturating_add(999) / 1000))
    }

    /// True if the class says that the clock's time is a primary reference's (6), or was until
    /// lately and is held to specification (7) (table 4).
    #[must_use]
    pub const fn is_reference(&self) -> bool {
        matches!(self.class, 6 | 7)
    }
}
