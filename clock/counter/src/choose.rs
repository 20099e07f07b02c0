//! Which counter to use: a decision about facts, so that every machine's can be tested on any.

use std::fmt;
use std::str::FromStr;

use truechimer_time::CounterKind;

use crate::counter::{Device, Source};
use crate::error::CounterError;

/// Wish of the user.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Choice {
    /// The TSC if processor and kernel vouch for it, else the Arm generic timer, else raw.
    #[default]
    Auto,
    /// The x86 time stamp counter.
    Tsc {
        /// True if every reading is fenced.
        fenced: bool,
    },
    /// The Arm generic timer.
    ArmGeneric,
    /// `CLOCK_MONOTONIC_RAW`.
    Raw,
    /// The main counter of the High Precision Event Timer, by memory.
    Hpet,
    /// The ACPI power management timer.
    AcpiPm {
        /// True if it is read until it can be believed, for chipsets that do not latch it: three
        /// reads instead of one.
        safe: bool,
    },
}

impl Choice {
    /// All of them but [`Choice::Auto`].
    pub const EVERY: [Choice; 7] = [
        Choice::Tsc { fenced: false },
        Choice::Tsc { fenced: true },
        Choice::ArmGeneric,
        Choice::Raw,
        Choice::Hpet,
        Choice::AcpiPm { safe: false },
        Choice::AcpiPm { safe: true },
    ];

    /// The name that `--counter` takes.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Choice::Auto => "auto",
            Choice::Tsc { fenced: false } => "tsc",
            Choice::Tsc { fenced: true } => "tsc-fenced",
            Choice::ArmGeneric => "arm-generic",
            Choice::Raw => "raw",
            Choice::Hpet => "hpet",
            Choice::AcpiPm { safe: false } => "acpi-pm",
            Choice::AcpiPm { safe: true } => "acpi-pm-safe",
        }
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Choice {
    type Err = CounterError;

    fn from_str(name: &str) -> Result<Choice, CounterError> {
        [Choice::Auto]
            .into_iter()
            .chain(Choice::EVERY)
            .find(|choice| choice.name() == name)
            .ok_or_else(|| CounterError::UnknownChoice(name.to_owned()))
    }
}

/// Facts about this machine's counters. `None` stands for what could not be found out (no `/proc`
/// or `/sys`, say).
#[derive(Clone, Debug, Default)]
pub(crate) struct Facts {
    /// The architecture's own counter.
    pub native: Option<CounterKind>,
    /// CPUID: the TSC is invariant.
    pub invariant: bool,
    /// The kernel's flags `constant_tsc` and `nonstop_tsc`.
    pub flags: Option<Flags>,
    /// `CNTFRQ_EL0` in Hz.
    pub arm_hz: Option<u64>,
    /// The clocksource in use.
    pub clocksource: Option<String>,
    /// The clocksources that could be used. One that its watchdog found unstable is not listed.
    pub available: Option<Vec<String>>,
    /// `CLOCK_MONOTONIC_RAW` cannot be read: errno.
    pub raw_error: Option<i32>,
    /// By how many ns this process's time namespace shifts the kernel's monotonic clocks.
    pub raw_shift: i64,
}

/// Flags of the TSC in `/proc/cpuinfo`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Flags {
    pub constant: bool,
    pub nonstop: bool,
}

/// The kernel's name of the Arm generic timer.
const ARM_CLOCKSOURCE: &str = "arch_sys_counter";

/// Clocksources that show that the kernel itself reckons with the TSC: the TSC itself, and the
/// hypervisors' clock pages, which are the guest's TSC times a factor.
const ON_TSC: [&str; 4] = ["tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "xen"];

/// Frequencies, in Hz, that an Arm generic timer may have: the architecture asks for 1 to 50 MHz
/// up to Armv8.5 and 1 GHz from Armv8.6 on; boards stray a little.
const ARM_HZ: std::ops::RangeInclusive<u64> = 10_000..=10_000_000_000;

/// Function that opens a device: hardware, and so not a fact to be decided upon.
pub(crate) type Open<'a> = &'a dyn Fn(Choice) -> Result<Device, CounterError>;

/// The counter for `choice`.
pub(crate) fn choose(
    choice: Choice,
    facts: &Facts,
    open: Open<'_>,
) -> Result<Source, CounterError> {
    match choice {
        Choice::Tsc { fenced } => {
            readable(CounterKind::Tsc, facts, open)?;
            tsc_is_steady(facts)?;
            Ok(if fenced { Source::NativeFenced } else { Source::Native })
        }
        Choice::ArmGeneric => {
            let source = readable(CounterKind::ArmGeneric, facts, open)?;
            offered(CounterKind::ArmGeneric, ARM_CLOCKSOURCE, facts)?;
            Ok(source)
        }
        Choice::Raw => readable(CounterKind::Raw, facts, open),
        Choice::Hpet | Choice::AcpiPm { .. } => narrow(choice, facts, open),
        Choice::Auto => {
            let current = facts.clocksource.as_deref();
            let tsc = current.is_some_and(|name| ON_TSC.contains(&name));
            let arm = current == Some(ARM_CLOCKSOURCE);
            tsc.then(|| choose(Choice::Tsc { fenced: false }, facts, open))
                .or_else(|| arm.then(|| choose(Choice::ArmGeneric, facts, open)))
                .and_then(Result::ok)
                .map_or_else(|| choose(Choice::Raw, facts, open), Ok)
        }
    }
}

/// Way to read a counter of `kind`, if this process can and would get the same counts as others.
pub(crate) fn readable(
    kind: CounterKind,
    facts: &Facts,
    open: Open<'_>,
) -> Result<Source, CounterError> {
    match kind {
        CounterKind::Raw => match (facts.raw_error, facts.raw_shift) {
            (Some(errno), _) => Err(CounterError::NoRaw(errno)),
            (None, 0) => Ok(Source::Raw),
            (None, ns) => Err(CounterError::Shifted(ns)),
        },
        CounterKind::Hpet => narrow(Choice::Hpet, facts, open),
        CounterKind::AcpiPm => narrow(Choice::AcpiPm { safe: true }, facts, open),
        _ if facts.native != Some(kind) => Err(CounterError::NotHere(kind)),
        CounterKind::ArmGeneric => match facts.arm_hz {
            Some(hz) if ARM_HZ.contains(&hz) => Ok(Source::Native),
            hz => Err(CounterError::NoFrequency(hz.unwrap_or(0))),
        },
        _ => Ok(Source::Native),
    }
}

/// A device, whose keeping has an age only where all processes see the same monotonic clock.
fn narrow(choice: Choice, facts: &Facts, open: Open<'_>) -> Result<Source, CounterError> {
    match facts.raw_shift {
        0 => open(choice).map(Source::Device),
        ns => Err(CounterError::Shifted(ns)),
    }
}

/// Checks that processor and kernel say that the TSC keeps its rate in all power states.
fn tsc_is_steady(facts: &Facts) -> Result<(), CounterError> {
    if !facts.invariant {
        return Err(CounterError::NotInvariant);
    }
    if let Some(flags) = facts.flags {
        for (set, name) in [(flags.constant, "constant_tsc"), (flags.nonstop, "nonstop_tsc")] {
            if !set {
                return Err(CounterError::NoFlag(name));
            }
        }
    }
    offered(CounterKind::Tsc, "tsc", facts)
}

/// Checks that the kernel offers this clocksource; it gets the benefit of the doubt where `/sys`
/// cannot be read.
fn offered(kind: CounterKind, name: &str, facts: &Facts) -> Result<(), CounterError> {
    match &facts.available {
        Some(list) if !list.iter().any(|entry| entry == name) => {
            Err(CounterError::NotOffered(kind, list.clone()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(names: &str) -> Option<Vec<String>> {
        Some(names.split_whitespace().map(str::to_owned).collect())
    }

    /// A PC on which nothing is wrong.
    fn pc() -> Facts {
        Facts {
            native: Some(CounterKind::Tsc),
            invariant: true,
            flags: Some(Flags { constant: true, nonstop: true }),
            clocksource: Some("tsc".into()),
            available: list("tsc hpet acpi_pm"),
            ..Facts::default()
        }
    }

    /// An Arm server on which nothing is wrong.
    fn arm() -> Facts {
        Facts {
            native: Some(CounterKind::ArmGeneric),
            arm_hz: Some(25_000_000),
            clocksource: Some("arch_sys_counter".into()),
            available: list("arch_sys_counter"),
            ..Facts::default()
        }
    }

    fn choose(choice: Choice, facts: &Facts) -> Result<Source, CounterError> {
        super::choose(choice, facts, &|_| Err(CounterError::Stuck))
    }

    fn readable(kind: CounterKind, facts: &Facts) -> Result<Source, CounterError> {
        super::readable(kind, facts, &|_| Err(CounterError::Stuck))
    }

    const TSC: Choice = Choice::Tsc { fenced: false };

    #[test]
    fn auto_and_explicit_choices_by_machine() {
        use CounterError::*;
        use Source::{Native, Raw};
        let no_flag = |constant, nonstop| Some(Flags { constant, nonstop });
        #[rustfmt::skip]
        let machines = [
            ("a good PC", pc(), Native, Ok(Native)),
            ("a KVM guest on kvm-clock",
             Facts { clocksource: Some("kvm-clock".into()), available: list("kvm-clock tsc"), ..pc() },
             Native, Ok(Native)),
            ("a KVM guest whose TSC is unstable",
             Facts { clocksource: Some("kvm-clock".into()), available: list("kvm-clock"), ..pc() },
             Raw, Err(NotOffered(CounterKind::Tsc, vec!["kvm-clock".into()]))),
            ("a Hyper-V guest",
             Facts { clocksource: Some("hyperv_clocksource_tsc_page".into()),
                     available: list("hyperv_clocksource_tsc_page tsc"), ..pc() },
             Native, Ok(Native)),
            ("the user prefers the HPET",
             Facts { clocksource: Some("hpet".into()), ..pc() }, Raw, Ok(Native)),
            ("the watchdog gave up on the TSC",
             Facts { clocksource: Some("hpet".into()), available: list("hpet acpi_pm"), ..pc() },
             Raw, Err(NotOffered(CounterKind::Tsc, vec!["hpet".into(), "acpi_pm".into()]))),
            ("an old processor", Facts { invariant: false, ..pc() }, Raw, Err(NotInvariant)),
            ("the kernel doubts its rate", Facts { flags: no_flag(false, true), ..pc() },
             Raw, Err(NoFlag("constant_tsc"))),
            ("the TSC stops in deep sleep", Facts { flags: no_flag(true, false), ..pc() },
             Raw, Err(NoFlag("nonstop_tsc"))),
            ("a container without /sys",
             Facts { clocksource: None, available: None, ..pc() }, Raw, Ok(Native)),
            ("a container without /proc", Facts { flags: None, ..pc() }, Native, Ok(Native)),
            ("an Arm server", arm(), Native, Err(NotHere(CounterKind::Tsc))),
            ("an Arm board without a frequency", Facts { arm_hz: Some(0), ..arm() },
             Raw, Err(NotHere(CounterKind::Tsc))),
            ("an Arm board on another timer",
             Facts { clocksource: Some("timer".into()), available: list("timer"), ..arm() },
             Raw, Err(NotHere(CounterKind::Tsc))),
            ("any other machine", Facts { clocksource: Some("riscv_clocksource".into()), ..Facts::default() },
             Raw, Err(NotHere(CounterKind::Tsc))),
            ("nothing known", Facts::default(), Raw, Err(NotHere(CounterKind::Tsc))),
        ];
        for (machine, facts, auto, tsc) in machines {
            assert_eq!(choose(Choice::Auto, &facts), Ok(auto), "{machine}");
            assert_eq!(choose(TSC, &facts), tsc, "{machine}");
            assert_eq!(choose(Choice::Raw, &facts), Ok(Raw), "{machine}");
        }
    }

    #[test]
    fn arm_by_name() {
        use CounterError::*;
        assert_eq!(choose(Choice::ArmGeneric, &arm()), Ok(Source::Native));
        assert_eq!(choose(Choice::ArmGeneric, &pc()), Err(NotHere(CounterKind::ArmGeneric)));
        for hz in [0, 100, u64::MAX] {
            let facts = Facts { arm_hz: Some(hz), ..arm() };
            assert_eq!(choose(Choice::ArmGeneric, &facts), Err(NoFrequency(hz)));
            assert_eq!(readable(CounterKind::ArmGeneric, &facts), Err(NoFrequency(hz)));
        }
        let hidden = Facts { available: list("timer"), ..arm() };
        assert!(matches!(choose(Choice::ArmGeneric, &hidden), Err(NotOffered(..))));
    }

    #[test]
    fn the_fence_is_a_choice() {
        assert_eq!(choose(Choice::Tsc { fenced: true }, &pc()), Ok(Source::NativeFenced));
    }

    #[test]
    fn a_reader_takes_what_the_writer_judged() {
        // Unstable or not: the writer of the page has decided, the reader only has to read it.
        let doubtful = Facts { invariant: false, available: list("hpet"), ..pc() };
        assert_eq!(readable(CounterKind::Tsc, &doubtful), Ok(Source::Native));
        assert_eq!(
            readable(CounterKind::Simulated, &pc()),
            Err(CounterError::NotHere(CounterKind::Simulated))
        );
    }

    #[test]
    fn raw_must_be_the_machines_own() {
        let shifted = Facts { raw_shift: 7, ..pc() };
        assert_eq!(choose(Choice::Raw, &shifted), Err(CounterError::Shifted(7)));
        assert_eq!(readable(CounterKind::Raw, &shifted), Err(CounterError::Shifted(7)));
        let blind = Facts { raw_error: Some(libc::EINVAL), ..Facts::default() };
        assert_eq!(choose(Choice::Auto, &blind), Err(CounterError::NoRaw(libc::EINVAL)));
    }

    #[test]
    fn devices_are_opened_where_their_age_can_be_told() {
        let asked = std::cell::Cell::new(None);
        let open = |choice| {
            asked.set(Some(choice));
            Err(CounterError::Stuck)
        };
        let shifted = Facts { raw_shift: -3, ..pc() };
        for (kind, choice, its) in [
            (CounterKind::Hpet, Choice::Hpet, Choice::Hpet),
            (CounterKind::AcpiPm, Choice::AcpiPm { safe: false }, Choice::AcpiPm { safe: true }),
        ] {
            assert_eq!(super::choose(choice, &shifted, &open), Err(CounterError::Shifted(-3)));
            assert_eq!(super::readable(kind, &shifted, &open), Err(CounterError::Shifted(-3)));
            assert_eq!(asked.take(), None);
            assert_eq!(super::choose(choice, &pc(), &open), Err(CounterError::Stuck));
            assert_eq!(asked.take(), Some(choice));
            assert_eq!(super::readable(kind, &pc(), &open), Err(CounterError::Stuck));
            assert_eq!(asked.take(), Some(its));
        }
        assert!(super::choose(Choice::Auto, &pc(), &open).is_ok() && asked.take().is_none());
    }

    #[test]
    fn names_are_read_and_errors_say_what_to_do() {
        for (name, choice) in [
            ("auto", Choice::Auto),
            ("tsc", TSC),
            ("tsc-fenced", Choice::Tsc { fenced: true }),
            ("arm-generic", Choice::ArmGeneric),
            ("raw", Choice::Raw),
            ("hpet", Choice::Hpet),
            ("acpi-pm", Choice::AcpiPm { safe: false }),
            ("acpi-pm-safe", Choice::AcpiPm { safe: true }),
        ] {
            assert_eq!((name.parse(), choice.name()), (Ok(choice), name));
        }
        let error = "pit".parse::<Choice>().unwrap_err().to_string();
        assert!(error.contains("'pit'"), "{error}");
        for choice in Choice::EVERY {
            assert!(error.contains(choice.name()), "{choice}: {error}");
        }
        let unstable = Facts { available: list("hpet"), ..pc() };
        let error = choose(TSC, &unstable).unwrap_err().to_string();
        assert!(error.contains("available: hpet") && error.contains("--counter raw"), "{error}");
    }
}
