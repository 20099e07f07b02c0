//! Why a counter cannot be had.

use std::fmt;

use truechimer_time::CounterKind;

/// Why a counter (or what is said about it) cannot be had. The text names the remedy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CounterError {
    /// No counter has this name.
    UnknownChoice(String),
    /// This machine has no such counter.
    NotHere(CounterKind),
    /// CPUID does not vouch for the TSC's rate.
    NotInvariant,
    /// The kernel does not list this flag among the processor's.
    NoFlag(&'static str),
    /// The kernel does not offer the counter as a clocksource; these it does.
    NotOffered(CounterKind, Vec<String>),
    /// The firmware names no sensible frequency (Hz) for the Arm generic timer.
    NoFrequency(u64),
    /// `CLOCK_MONOTONIC_RAW` cannot be read: errno.
    NoRaw(i32),
    /// This process sees `CLOCK_MONOTONIC_RAW` shifted by so many ns.
    Shifted(i64),
    /// The counter did not advance while its rate was measured.
    Stuck,
    /// The kernel's boot identifier cannot be read.
    NoBootId(String),
}

impl fmt::Display for CounterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use CounterError::*;
        match self {
            UnknownChoice(name) => write!(
                f,
                "no counter is called '{name}': use auto, tsc, tsc-fenced, arm-generic or raw"
            ),
            NotHere(CounterKind::Simulated) => {
                f.write_str("the counter is a simulation's: there is nothing to read")
            }
            NotHere(kind) => write!(
                f,
                "this machine ({}) has no counter '{kind}': use --counter auto or raw",
                std::env::consts::ARCH
            ),
            NotInvariant => f.write_str(
                "the TSC is not invariant (cpuid 80000007h EDX bit 8), so its rate may change: \
                 use --counter raw",
            ),
            NoFlag(flag) => write!(
                f,
                "the kernel does not count '{flag}' among the processor's flags (/proc/cpuinfo), \
                 so the TSC may change its rate or stop: use --counter raw"
            ),
            NotOffered(kind, available) => write!(
                f,
                "the kernel does not offer {} as a clocksource, which it does unless it found it \
                 unreliable (available: {}): use --counter raw",
                match kind {
                    CounterKind::Tsc => "the TSC",
                    _ => "the Arm generic timer",
                },
                if available.is_empty() { "none".to_owned() } else { available.join(" ") }
            ),
            NoFrequency(hz) => write!(
                f,
                "the firmware says that the Arm generic timer runs at {hz} Hz (CNTFRQ_EL0), which \
                 cannot be: use --counter raw"
            ),
            NoRaw(errno) => write!(
                f,
                "CLOCK_MONOTONIC_RAW cannot be read: {}",
                std::io::Error::from_raw_os_error(*errno)
            ),
            Shifted(ns) => write!(
                f,
                "this process is in a time namespace that shifts CLOCK_MONOTONIC_RAW by {ns} ns, \
                 so its counts are not the machine's: leave the namespace or use --counter tsc"
            ),
            Stuck => f.write_str("the counter does not advance: use --counter raw"),
            NoBootId(why) => write!(f, "/proc/sys/kernel/random/boot_id: {why}"),
        }
    }
}

impl std::error::Error for CounterError {}
