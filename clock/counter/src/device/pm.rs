//! The ACPI power management timer.

use truechimer_time::{CountSpan, CounterKind, Period};

use super::Registers;
use crate::acpi::PmTimer;
use crate::error::{CounterError, Fault};
use crate::hardware::{Cost, Hardware};
use crate::measure::{Nominal, NominalSource};

/// The colour subcarrier of NTSC, 315/88 MHz, rounded as the specification has it (ACPI
/// Specification 6.5, section 4.8.2.1).
const HZ: u64 = 3_579_545;
/// Number of tries of the safe form before it takes what it has.
const TRIES: u32 = 10;

/// A timer that counts.
#[derive(Debug)]
pub(crate) struct Pm<R> {
    pub(super) registers: R,
    pub(super) bits: u32,
}

impl<R: Registers> Pm<R> {
    /// After making sure that it counts.
    ///
    /// A timer said to have 32 bits whose upper eight are zero is read as one of 24, which is
    /// right for either: firmware is known to promise bits that are not there, and such a timer,
    /// taken at its word, would seem to jump back every 4.7 s.
    pub(crate) fn new(registers: R, said: PmTimer) -> Result<Pm<R>, CounterError> {
        let fault = |fault| Err(CounterError::Faulty(CounterKind::AcpiPm, fault));
        let first = registers.word(0);
        if !super::moves(|| registers.word(0)) {
            return fault(if first == u32::MAX { Fault::Silent } else { Fault::Stopped });
        }
        let bits = if said.bits == 32 && first >> 24 != 0 { 32 } else { 24 };
        Ok(Pm { registers, bits })
    }

    fn mask(&self) -> u32 {
        u32::MAX >> (32 - self.bits)
    }

    /// One reading that can be believed.
    ///
    /// Some chipsets (Intel's PIIX4 is the known one, and the kernel distrusts two more) do not
    /// latch the count while it is read: a reading taken in the middle of a carry may be off by
    /// any power of two, either way. A wrong one stands alone between right ones, so of three in a
    /// row that go forward, by less than three quarters of a roll-over from the first to the third,
    /// the middle one is right: too low and it is behind the first, too high and the third is
    /// behind it, and either way round to where it should be takes nearly a roll-over or more.
    pub(super) fn believable(&self) -> u32 {
        let way = |from: u32, to: u32| u64::from(to.wrapping_sub(from) & self.mask());
        let most = (u64::from(self.mask()) + 1) / 4 * 3;
        let mut last = [0; 3].map(|_| self.registers.word(0));
        for _ in 0..TRIES {
            let [a, b, c] = last;
            if way(a, b) + way(b, c) < most {
                break;
            }
            last = [b, c, self.registers.word(0)];
        }
        last[1]
    }
}

/// A form of reading the timer.
#[derive(Debug)]
pub(crate) struct Read<R: 'static> {
    pub(crate) timer: &'static Pm<R>,
    pub(crate) safe: bool,
}

impl<R: Registers> Hardware for Read<R> {
    fn kind(&self) -> CounterKind {
        CounterKind::AcpiPm
    }

    fn description(&self) -> &'static str {
        match self.safe {
            false => "ACPI power management timer",
            true => "ACPI power management timer, read until it can be believed",
        }
    }

    fn raw(&self) -> u64 {
        let timer = self.timer;
        if self.safe { timer.believable().into() } else { timer.registers.word(0).into() }
    }

    fn bits(&self) -> u32 {
        self.timer.bits
    }

    fn cost(&self) -> Cost {
        Cost::Device
    }

    fn stated(&self) -> Option<Nominal> {
        Some(Nominal::stated(Period::from_hz(HZ), NominalSource::Definition))
    }

    fn step(&self) -> Option<CountSpan> {
        Some(CountSpan(1))
    }
}
