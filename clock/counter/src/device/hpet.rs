//! The main counter of the High Precision Event Timer.

use truechimer_time::{CountSpan, CounterKind, Period, Span};

use super::Registers;
use crate::error::{CounterError, Fault};
use crate::hardware::{Cost, Hardware};
use crate::measure::{Nominal, NominalSource};

/// Where the registers are (IA-PC HPET Specification 1.0a, section 2.3.1).
const CAPABILITIES: usize = 0x00;
const PERIOD: usize = 0x04;
const CONFIGURATION: usize = 0x10;
const MAIN_COUNTER: usize = 0xf0;
/// Number of bytes of them that are of use here.
pub(crate) const LENGTH: usize = MAIN_COUNTER + 4;

/// Periods that there can be, in fs: the specification's largest is 100 ns; no HPET counts at
/// 10 GHz.
const PERIODS: std::ops::RangeInclusive<u32> = 100_000..=100_000_000;

/// Contents of an HPET's registers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HpetRegisters {
    /// The file that they were read by: `/dev/hpet` or `/dev/mem`.
    pub path: &'static str,
    /// Length of a count, fs.
    pub period_fs: u32,
    /// The PCI identifier of its maker.
    pub vendor: u16,
    /// Number of comparators.
    pub comparators: u8,
    /// True if the main counter has 64 bits, else 32.
    pub wide: bool,
    /// True if it counts.
    pub enabled: bool,
}

impl HpetRegisters {
    /// Reads them.
    ///
    /// # Errors
    /// Where nothing answers, or the period is none.
    pub(crate) fn read(
        registers: &impl Registers,
        path: &'static str,
    ) -> Result<HpetRegisters, CounterError> {
        let capabilities = registers.word(CAPABILITIES);
        let period_fs = registers.word(PERIOD);
        let fault = |fault| Err(CounterError::Faulty(CounterKind::Hpet, fault));
        if capabilities == u32::MAX || (capabilities, period_fs) == (0, 0) {
            return fault(Fault::Silent);
        }
        if !PERIODS.contains(&period_fs) {
            return fault(Fault::Period(period_fs));
        }
        Ok(HpetRegisters {
            path,
            period_fs,
            vendor: (capabilities >> 16) as u16,
            comparators: (capabilities >> 8 & 0x1f) as u8 + 1,
            wide: capabilities >> 13 & 1 == 1,
            enabled: registers.word(CONFIGURATION) & 1 == 1,
        })
    }
}

/// An HPET that counts.
#[derive(Debug)]
pub(crate) struct Hpet<R> {
    registers: R,
    period: Period,
}

impl<R: Registers> Hpet<R> {
    /// After making sure that it counts.
    pub(crate) fn new(registers: R, said: &HpetRegisters) -> Result<Hpet<R>, CounterError> {
        let fault = |fault| CounterError::Faulty(CounterKind::Hpet, fault);
        if !said.enabled {
            return Err(fault(Fault::Disabled));
        }
        // So many fs are as many ns as a million counts last.
        let million = Span::from_nanos(said.period_fs.into());
        let period = Period::from_ratio(million, CountSpan(1_000_000))
            .ok_or(fault(Fault::Period(said.period_fs)))?;
        if !super::moves(|| registers.word(MAIN_COUNTER)) {
            return Err(fault(Fault::Stopped));
        }
        Ok(Hpet { registers, period })
    }
}

impl<R: Registers> Hardware for Hpet<R> {
    fn kind(&self) -> CounterKind {
        CounterKind::Hpet
    }

    fn description(&self) -> &'static str {
        "high precision event timer, mapped"
    }

    /// The low half alone, whatever the width, as the kernel does it: there are chipsets and
    /// hypervisors that answer a read of 64 bits with two of 32, and the halves then do not belong
    /// together.
    fn raw(&self) -> u64 {
        self.registers.word(MAIN_COUNTER).into()
    }

    fn bits(&self) -> u32 {
        32
    }

    fn cost(&self) -> Cost {
        Cost::Device
    }

    /// The register's period. The specification's 500 ppm over a millisecond or more is also what
    /// an uncorrected clock may be off by here.
    fn stated(&self) -> Option<Nominal> {
        Some(Nominal::stated(self.period, NominalSource::Register))
    }

    fn step(&self) -> Option<CountSpan> {
        Some(CountSpan(1))
    }
}
