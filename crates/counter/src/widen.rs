//! Narrow counters made 64 bits wide.
//!
//! A pure state machine: it is told readings and keeps the wide count. HPETs of 32 bits, ACPI PM
//! timers of 24 and generic timers of 56 roll over every so often; someone has to read them at
//! least once in between.

use std::fmt;

use truechimer_time::{Count, Period, Span};

/// Follows a counter of `bits` bits through its roll-overs.
///
/// Readings must come in the order they were taken, the next one less than a whole roll-over after
/// the last. One that is taken late by a roll-over cannot be told from one that is in time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Widener {
    bits: u32,
    kept: Kept,
}

/// Where a counter was: what one process hands to another that continues widening it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Kept {
    /// The counter's own reading.
    pub raw: u64,
    /// The same, widened.
    pub wide: Count,
}

/// Why widening cannot begin or go on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WidenError {
    /// No counter has so many bits: 1 to 63 can be widened, 64 need not be.
    Bits(u32),
    /// What was kept is no reading of such a counter, or does not fit the wide count.
    Inconsistent,
    /// What was kept is too old, or from the future: half a roll-over is the most.
    Age {
        /// How old it is.
        age: Span,
        /// Half a roll-over.
        limit: Span,
    },
}

impl fmt::Display for WidenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WidenError::Bits(bits) => write!(f, "a counter of {bits} bits cannot be widened"),
            WidenError::Inconsistent => f.write_str("the kept state is not of this counter"),
            WidenError::Age { age, limit } => write!(
                f,
                "the counter's state was kept {age} ago, which is not within half a roll-over \
                 ({limit}): the process that keeps it has stopped"
            ),
        }
    }
}

impl std::error::Error for WidenError {}

impl Widener {
    /// Begins with the first reading, `raw`, which is also the first wide count. Bits of `raw`
    /// beyond `bits` are ignored, here and later.
    ///
    /// # Errors
    /// Unless `bits` is 1 to 63.
    pub fn new(bits: u32, raw: u64) -> Result<Widener, WidenError> {
        if !(1..=63).contains(&bits) {
            return Err(WidenError::Bits(bits));
        }
        let raw = raw & mask(bits);
        Ok(Widener { bits, kept: Kept { raw, wide: Count(raw) } })
    }

    /// Continues from what another process kept `age` ago, of a counter whose counts last
    /// `period`.
    ///
    /// Half a roll-over is the limit, not a whole one, so that an `age` or a `period` that is off
    /// by a little can never hide a roll-over.
    ///
    /// # Errors
    /// If it was kept too long ago or is not of such a counter.
    pub fn resume(bits: u32, kept: Kept, age: Span, period: Period) -> Result<Widener, WidenError> {
        let fresh = Widener::new(bits, kept.raw)?;
        if kept.raw & !mask(bits) != 0 || kept.wide.0 & mask(bits) != kept.raw {
            return Err(WidenError::Inconsistent);
        }
        let limit = period.span(truechimer_time::CountSpan(1i64 << (bits - 1)));
        if age.is_negative() || age >= limit {
            return Err(WidenError::Age { age, limit });
        }
        Ok(Widener { kept, ..fresh })
    }

    /// The wide count of the next reading.
    pub fn widen(&mut self, raw: u64) -> Count {
        let raw = raw & mask(self.bits);
        let step = raw.wrapping_sub(self.kept.raw) & mask(self.bits);
        self.kept = Kept { raw, wide: Count(self.kept.wide.0.wrapping_add(step)) };
        self.kept.wide
    }

    /// The last reading, for another process to continue from.
    #[must_use]
    pub fn kept(&self) -> Kept {
        self.kept
    }

    /// How many bits the counter has.
    #[must_use]
    pub fn bits(&self) -> u32 {
        self.bits
    }
}

/// The largest reading of a counter of `bits` bits, 1 to 63.
fn mask(bits: u32) -> u64 {
    u64::MAX >> (64 - bits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A counter that only shows its lowest bits, and what it would show if it had all of them.
    struct Narrow {
        bits: u32,
        truth: u64,
    }

    impl Narrow {
        fn raw(&self) -> u64 {
            self.truth & mask(self.bits)
        }
    }

    fn some_bits() -> impl Strategy<Value = u32> {
        prop_oneof![Just(24u32), Just(32), Just(56), 1u32..=63]
    }

    proptest! {
        #[test]
        fn every_step_below_a_roll_over_is_followed(
            bits in some_bits(),
            start: u64,
            steps in prop::collection::vec(any::<u64>(), 1..200),
        ) {
            let mut counter = Narrow { bits, truth: start & mask(bits) };
            let mut widener = Widener::new(bits, counter.raw()).unwrap();
            for step in steps {
                counter.truth = counter.truth.wrapping_add(step & mask(bits));
                prop_assert_eq!(widener.widen(counter.raw()), Count(counter.truth));
            }
        }

        #[test]
        fn another_process_continues_without_a_seam(
            bits in some_bits(),
            start: u64,
            ages in prop::collection::vec(any::<u64>(), 1..50),
        ) {
            let period = Period::from_hz(14_318_180);
            let half = 1u64 << (bits - 1);
            let mut counter = Narrow { bits, truth: start & mask(bits) };
            let mut widener = Widener::new(bits, counter.raw()).unwrap();
            for age in ages {
                let age = age % half;
                counter.truth = counter.truth.wrapping_add(age);
                let kept_ago = period.span(truechimer_time::CountSpan(age as i64));
                let mut reader = Widener::resume(bits, widener.kept(), kept_ago, period).unwrap();
                prop_assert_eq!(reader.widen(counter.raw()), Count(counter.truth));
                prop_assert_eq!(widener.widen(counter.raw()), Count(counter.truth));
            }
        }

        #[test]
        fn an_old_state_is_refused(bits in some_bits(), late in 0u64..=u64::from(u32::MAX)) {
            let period = Period::from_hz(3_579_545);
            let kept = Widener::new(bits, 0).unwrap().kept();
            let age = (1u64 << (bits - 1)) + late.min(i64::MAX as u64 >> 1);
            let age = period.span(truechimer_time::CountSpan(age.min(i64::MAX as u64) as i64));
            prop_assert!(matches!(
                Widener::resume(bits, kept, age, period), Err(WidenError::Age { .. })
            ), "{age}");
        }
    }

    #[test]
    fn an_acpi_timer_is_kept_for_two_seconds() {
        let period = Period::from_hz(3_579_545);
        let kept = Kept { raw: 0xff_ffff, wide: Count(0x7_00ff_ffff) };
        let mut reader = Widener::resume(24, kept, Span::from_millis(2300), period).unwrap();
        assert_eq!(reader.widen(4), Count(0x7_0100_0004));
        let error = Widener::resume(24, kept, Span::from_millis(2400), period).unwrap_err();
        assert!(error.to_string().contains("half a roll-over (2.343 s)"), "{error}");
    }

    #[test]
    fn foreign_states_are_refused() {
        let period = Period::from_hz(1_000_000);
        for bits in [0, 64, u32::MAX] {
            assert_eq!(Widener::new(bits, 0), Err(WidenError::Bits(bits)));
        }
        let resume =
            |raw, wide| Widener::resume(24, Kept { raw, wide: Count(wide) }, Span::ZERO, period);
        assert!(resume(5, 0x0100_0005).is_ok());
        assert_eq!(resume(5, 0x0100_0006), Err(WidenError::Inconsistent));
        assert_eq!(resume(0x0100_0005, 0x0100_0005), Err(WidenError::Inconsistent));
        assert!(matches!(
            Widener::resume(24, Kept { raw: 5, wide: Count(5) }, Span::from_nanos(-1), period),
            Err(WidenError::Age { .. })
        ));
    }

    #[test]
    fn high_bits_of_a_reading_are_ignored() {
        let mut widener = Widener::new(24, 0xabff_fffe).unwrap();
        assert_eq!(widener.widen(0xcd00_0001), Count(0x100_0001));
        assert_eq!(widener.bits(), 24);
    }
}
