//! The units of an interface's times.

/// Scale of an interface's times: units per second, and seconds to be added.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Resolution {
    /// Units per second.
    per_second: u128,
    /// Seconds to be added.
    offset: i64,
}

impl Default for Resolution {
    fn default() -> Resolution {
        Resolution { per_second: 1_000_000, offset: 0 }
    }
}

const NANOS: i128 = 1_000_000_000;

impl Resolution {
    /// From the option's byte: a negative power of ten, or of two if the top bit is set. `None`
    /// beyond 10⁻³⁸ and 2⁻¹²⁶, which no time of 64 bits means.
    #[must_use]
    pub fn new(byte: u8, offset: i64) -> Option<Resolution> {
        let per_second = match (byte & 0x80 != 0, u32::from(byte & 0x7f)) {
            (false, power) => 10u128.checked_pow(power)?,
            (true, power @ ..=126) => 1 << power,
            (true, _) => return None,
        };
        Some(Resolution { per_second, offset })
    }

    /// True if a unit is a nanosecond since 1970.
    #[must_use]
    pub fn is_nanoseconds(&self) -> bool {
        self.per_second == NANOS.unsigned_abs() && self.offset == 0
    }

    /// Length of a unit, ns, rounded up.
    #[must_use]
    pub fn unit_ns(&self) -> u64 {
        u64::try_from(NANOS.unsigned_abs().div_ceil(self.per_second)).unwrap_or(u64::MAX)
    }

    /// Unix time in ns, rounded down; `None` beyond the years 1677 … 2262.
    #[must_use]
    pub fn nanos(&self, ticks: u64) -> Option<i64> {
        let (whole, part) =
            (u128::from(ticks) / self.per_second, u128::from(ticks) % self.per_second);
        // Less than 2⁶⁴ by 10⁹.
        let fraction = (part * NANOS.unsigned_abs()) / self.per_second;
        let seconds = i128::try_from(whole).ok()? + i128::from(self.offset);
        i64::try_from(seconds * NANOS + fraction as i128).ok()
    }

    /// The units of a Unix time in ns, to the nearest; `None` where they cannot hold it.
    #[must_use]
    pub fn ticks(&self, unix_ns: i64) -> Option<u64> {
        let nanos = i128::from(unix_ns) - i128::from(self.offset).checked_mul(NANOS)?;
        let nanos = u128::try_from(nanos).ok()?;
        let per_nano = NANOS.unsigned_abs();
        let ticks = nanos.checked_mul(self.per_second)?.checked_add(per_nano / 2)? / per_nano;
        u64::try_from(ticks).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn nanoseconds_go_there_and_back(ns in 0..i64::MAX, offset in -1_000_000_000i64..0) {
            let plain = Resolution::new(9, 0).unwrap();
            prop_assert!(plain.is_nanoseconds());
            prop_assert_eq!(plain.ticks(ns), Some(ns as u64));
            prop_assert_eq!(plain.nanos(ns as u64), Some(ns));
            let shifted = Resolution::new(9, offset).unwrap();
            prop_assert_eq!(shifted.ticks(ns).and_then(|t| shifted.nanos(t)), Some(ns));
        }

        #[test]
        fn nothing_panics(byte: u8, offset: i64, ticks: u64, ns: i64) {
            if let Some(any) = Resolution::new(byte, offset) {
                let _ = (any.nanos(ticks), any.ticks(ns));
            }
        }
    }

    #[test]
    fn other_units_are_told_right() {
        let micro = Resolution::default();
        assert_eq!(micro.nanos(1_700_000_000_123_456), Some(1_700_000_000_123_456_000));
        assert_eq!(micro.ticks(1_700_000_000_123_456_600), Some(1_700_000_000_123_457));
        let binary = Resolution::new(0x80 | 32, 0).unwrap();
        assert_eq!(binary.nanos(3 << 31), Some(1_500_000_000));
        assert_eq!(binary.ticks(1_500_000_000), Some(3 << 31));
        let seconds = Resolution::new(0, -10).unwrap();
        assert_eq!(seconds.nanos(15), Some(5_000_000_000));
        assert_eq!(Resolution::new(127, 0), None);
        assert_eq!(Resolution::new(255, 0), None);
        // 10⁻³⁸ s: the largest time there is lasts no nanosecond.
        assert_eq!(Resolution::new(38, 0).and_then(|finest| finest.nanos(u64::MAX)), Some(0));
    }
}
