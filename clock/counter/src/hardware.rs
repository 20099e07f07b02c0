//! Trait of every counter in this crate, whatever it is made of.

use std::fmt;

use truechimer_time::{CountSpan, CounterKind};

use crate::measure::Nominal;

/// A free-running counter as the hardware has it: as wide as it is, and nothing added.
///
/// [`Counter`](crate::Counter) makes 64-bit counts of its readings. The processor's own counters,
/// the kernel's raw clock and the devices are all behind this; so is whatever a test makes up.
pub trait Hardware: fmt::Debug + Send + Sync {
    /// Which counter it is.
    fn kind(&self) -> CounterKind;

    /// Description in a few words for people.
    fn description(&self) -> &'static str;

    /// One reading, in the lowest [`Hardware::bits`] bits; the others are ignored. It may come
    /// from any thread.
    fn raw(&self) -> u64;

    /// One reading, in order with the instructions around it. A device's always is: its
    /// processor waits for it.
    fn raw_fenced(&self) -> u64 {
        self.raw()
    }

    /// Number of bits that it counts in before it rolls over, 2 to 64.
    fn bits(&self) -> u32;

    /// Cost of a reading.
    fn cost(&self) -> Cost;

    /// Length of a count by specification or by what the firmware left in a register, with the
    /// bound of its error. `None`: nobody says, it has to be measured.
    fn stated(&self) -> Option<Nominal>;

    /// In what steps it counts, where that is known. `None`: to be measured.
    fn step(&self) -> Option<CountSpan> {
        None
    }
}

/// Cost of reading a counter, by class; the figures are orders of magnitude.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Cost {
    /// One instruction of the processor: about 10 ns.
    Instruction,
    /// A call of the kernel's code in user space, no change of mode: about 20 ns.
    Vdso,
    /// A system call: 0.1 µs and more, and the device's time where the kernel reads a device.
    SystemCall,
    /// An access to a device: 0.5 to 5 µs in which the processor waits; in a guest, an exit to
    /// the hypervisor.
    Device,
}

impl Cost {
    /// A short name for tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Cost::Instruction => "instruction",
            Cost::Vdso => "vdso",
            Cost::SystemCall => "system call",
            Cost::Device => "device",
        }
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
