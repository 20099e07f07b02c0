//! The counters that need no device: the processor's own, and the kernel's raw clock.

use truechimer_time::{CounterKind, Period};

use crate::hardware::{Cost, Hardware};
use crate::measure::{Nominal, NominalSource};
use crate::{machine, read};

/// The processor's own counter, if this architecture has one.
#[derive(Debug)]
pub(crate) struct Native {
    /// Each reading in order with the instructions around it.
    pub(crate) fenced: bool,
}

/// `CLOCK_MONOTONIC_RAW`.
#[derive(Debug)]
pub(crate) struct Raw;

/// Clocksources that the vDSO can read without the kernel: the processor's own counter, and the
/// hypervisors' pages over it.
const IN_VDSO: [&str; 5] =
    ["tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "xen", "arch_sys_counter"];

/// Which counter the processor has; only such are ever made.
fn native_kind() -> CounterKind {
    read::NATIVE.unwrap_or(CounterKind::Raw)
}

fn native_stated() -> Option<Nominal> {
    let hz = read::arm_hz()?;
    Some(Nominal::stated(Period::from_hz(hz), NominalSource::Register))
}

impl Hardware for Native {
    fn kind(&self) -> CounterKind {
        native_kind()
    }

    fn description(&self) -> &'static str {
        match (native_kind(), self.fenced) {
            (CounterKind::ArmGeneric, false) => "Arm generic timer",
            (CounterKind::ArmGeneric, true) => "Arm generic timer, fenced",
            (_, false) => "time stamp counter",
            (_, true) => "time stamp counter, fenced",
        }
    }

    fn raw(&self) -> u64 {
        if self.fenced { read::native_fenced() } else { read::native() }
    }

    fn raw_fenced(&self) -> u64 {
        read::native_fenced()
    }

    fn bits(&self) -> u32 {
        // The Arm architecture asks for 56 bits at least and for 40 years at least before a
        // roll-over: nobody need widen that either.
        64
    }

    fn cost(&self) -> Cost {
        Cost::Instruction
    }

    fn stated(&self) -> Option<Nominal> {
        native_stated()
    }
}

impl Hardware for Raw {
    fn kind(&self) -> CounterKind {
        CounterKind::Raw
    }

    fn description(&self) -> &'static str {
        "CLOCK_MONOTONIC_RAW"
    }

    fn raw(&self) -> u64 {
        read::raw()
    }

    fn bits(&self) -> u32 {
        64
    }

    fn cost(&self) -> Cost {
        match machine::clocksource() {
            Some(name) if !IN_VDSO.contains(&name.as_str()) => Cost::SystemCall,
            _ => Cost::Vdso,
        }
    }

    fn stated(&self) -> Option<Nominal> {
        Some(Nominal::stated(Period::NANOSECOND, NominalSource::Definition))
    }
}
