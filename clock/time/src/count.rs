//! The raw side: counter readings, their identity, and stamps made of them.

use core::fmt;
use core::ops::{Add, Neg, Sub};

/// One reading of a counter, widened to 64 bits so that it never rolls over in practice
/// (a 5 GHz counter takes 117 years).
///
/// Arithmetic is modular: subtracting two counts gives the signed [`CountSpan`] between them,
/// right as long as they lie within 2⁶³ counts of each other.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(transparent))]
pub struct Count(pub u64);

/// A signed number of counts. Positive means later.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(transparent))]
pub struct CountSpan(pub i64);

impl Count {
    /// True if `self` was read at or after `other`, in the modular sense.
    #[must_use]
    #[inline]
    pub fn at_or_after(self, other: Count) -> bool {
        (self - other).0 >= 0
    }

    /// The later of two counts, in the modular sense.
    #[must_use]
    pub fn latest(self, other: Count) -> Count {
        if self.at_or_after(other) { self } else { other }
    }

    /// The count half-way between `self` and `later`, rounded down.
    #[must_use]
    pub fn midpoint(self, later: Count) -> Count {
        self + CountSpan((later - self).0 >> 1)
    }
}

impl Sub for Count {
    type Output = CountSpan;
    #[inline]
    fn sub(self, rhs: Count) -> CountSpan {
        CountSpan(self.0.wrapping_sub(rhs.0) as i64)
    }
}

impl Add<CountSpan> for Count {
    type Output = Count;
    #[inline]
    fn add(self, rhs: CountSpan) -> Count {
        Count(self.0.wrapping_add_signed(rhs.0))
    }
}

impl Sub<CountSpan> for Count {
    type Output = Count;
    #[inline]
    fn sub(self, rhs: CountSpan) -> Count {
        Count(self.0.wrapping_sub(rhs.0 as u64))
    }
}

impl CountSpan {
    /// No counts at all.
    pub const ZERO: CountSpan = CountSpan(0);

    /// The magnitude.
    #[must_use]
    pub fn abs(self) -> CountSpan {
        CountSpan(self.0.saturating_abs())
    }
}

impl Add for CountSpan {
    type Output = CountSpan;
    fn add(self, rhs: CountSpan) -> CountSpan {
        CountSpan(self.0.saturating_add(rhs.0))
    }
}

impl Sub for CountSpan {
    type Output = CountSpan;
    fn sub(self, rhs: CountSpan) -> CountSpan {
        CountSpan(self.0.saturating_sub(rhs.0))
    }
}

impl Neg for CountSpan {
    type Output = CountSpan;
    fn neg(self) -> CountSpan {
        CountSpan(self.0.saturating_neg())
    }
}

/// Kind of counter that a count was read from. The numbers are part of the page layout
/// (`docs/reference/clock-page.md`) and never change.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
#[repr(u8)]
pub enum CounterKind {
    /// The x86 time stamp counter.
    Tsc = 1,
    /// The 64-bit Arm generic timer (`CNTVCT_EL0`).
    ArmGeneric = 2,
    /// The kernel's `CLOCK_MONOTONIC_RAW` in nanoseconds: any clocksource, widened and unsteered.
    Raw = 3,
    /// The main counter of the PC's High Precision Event Timer.
    Hpet = 4,
    /// The ACPI power management timer, 3.579545 MHz.
    AcpiPm = 5,
    /// A counter that a simulation makes up.
    Simulated = 255,
}

impl CounterKind {
    /// The kind with this number, if there is one.
    #[must_use]
    pub fn from_u8(n: u8) -> Option<CounterKind> {
        match n {
            1 => Some(CounterKind::Tsc),
            2 => Some(CounterKind::ArmGeneric),
            3 => Some(CounterKind::Raw),
            4 => Some(CounterKind::Hpet),
            5 => Some(CounterKind::AcpiPm),
            255 => Some(CounterKind::Simulated),
            _ => None,
        }
    }

    /// The name that `--counter` takes.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            CounterKind::Tsc => "tsc",
            CounterKind::ArmGeneric => "arm-generic",
            CounterKind::Raw => "raw",
            CounterKind::Hpet => "hpet",
            CounterKind::AcpiPm => "acpi-pm",
            CounterKind::Simulated => "simulated",
        }
    }
}

impl fmt::Display for CounterKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The boot of the machine, as `/proc/sys/kernel/random/boot_id` gives it: counts of different
/// boots (or machines) have nothing to do with each other.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(transparent))]
pub struct BootId(pub [u8; 16]);

/// A stretch in which the counter ran without a break. A suspend, a migration, a jump of the
/// counter or another clocksource under it begins the next one; spans of counts across two epochs
/// mean nothing.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(transparent))]
pub struct Epoch(pub u32);

/// Everything that must agree before two counts may be compared.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct CounterId {
    /// Which counter.
    pub kind: CounterKind,
    /// In which boot.
    pub boot: BootId,
    /// In which unbroken stretch.
    pub epoch: Epoch,
}

/// Ways in which the count of a packet's departure or arrival came about.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum StampMethod {
    /// The network card stamped the packet as it passed the wire; the reading of its clock was turned into a count.
    Hardware,
    /// The kernel stamped the packet; its clock reading was turned into a count by a pair log.
    Kernel,
    /// Read in user space around the system call: everything the scheduler does is in its error.
    User,
}

impl StampMethod {
    /// A short name for tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            StampMethod::Hardware => "hardware",
            StampMethod::Kernel => "kernel",
            StampMethod::User => "user",
        }
    }
}

/// The count at which a packet left or arrived, with the bound of its own error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Stamp {
    /// The count; the packet passed within `error` counts of it.
    pub count: Count,
    /// Bound of |`count` − true count|, never negative.
    pub error: CountSpan,
    /// Method by which it was taken.
    pub method: StampMethod,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn distance_survives_the_wrap(start: u64, span: i64) {
            let a = Count(start);
            let b = a + CountSpan(span);
            prop_assert_eq!(b - a, CountSpan(span));
            prop_assert_eq!(b - CountSpan(span), a);
        }

        #[test]
        fn midpoint_lies_between(start: u64, span in 0..i64::MAX) {
            let a = Count(start);
            let b = a + CountSpan(span);
            let m = a.midpoint(b);
            prop_assert!(m.at_or_after(a) && b.at_or_after(m));
        }
    }

    #[test]
    fn kinds_keep_their_numbers() {
        for (number, kind) in [
            (1, CounterKind::Tsc),
            (2, CounterKind::ArmGeneric),
            (3, CounterKind::Raw),
            (4, CounterKind::Hpet),
            (5, CounterKind::AcpiPm),
            (255, CounterKind::Simulated),
        ] {
            assert_eq!((kind as u8, CounterKind::from_u8(number)), (number, Some(kind)));
        }
        for none in [0, 6, 254] {
            assert_eq!(CounterKind::from_u8(none), None);
        }
    }
}
