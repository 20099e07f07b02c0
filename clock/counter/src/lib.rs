//! The machine's free-running counters, and the host's own clocks read against them.
//!
//! A [`Counter`] is a small `Copy` value that knows how to take one reading. Nothing ever steers
//! it, and nothing here turns a reading into time: that takes the clock parameters.
//!
//! | `--counter` | what it reads | where |
//! |---|---|---|
//! | `tsc` | the time stamp counter, unfenced | x86-64 |
//! | `tsc-fenced` | the same between two `lfence` | x86-64 |
//! | `arm-generic` | `CNTVCT_EL0` | AArch64; built and unit-tested, never run on hardware yet |
//! | `raw` | `CLOCK_MONOTONIC_RAW` in ns: any clocksource, widened by the kernel and unsteered | everywhere |
//! | `hpet` | the low 32 bits of the HPET's main counter, mapped | PCs, as root or by a udev rule |
//! | `acpi-pm` | the ACPI power management timer, by port or memory; 24 or 32 bits | PCs, as root |
//! | `acpi-pm-safe` | the same, read until it can be believed: three reads at least | PCs, as root |
//! | `auto` | the TSC, the Arm timer or `raw`, whichever machine and kernel vouch for | everywhere |
//!
//! ```
//! use truechimer_counter::{Choice, Counter, resolution};
//!
//! let counter = Counter::open(Choice::Auto)?;
//! let before = counter.read();
//! // … something that takes a while …
//! let after = counter.read();
//! println!("{} took {:?}, ± {:?}", counter.description(), after - before, resolution(counter));
//! # Ok::<(), truechimer_counter::CounterError>(())
//! ```
//!
//! # Fences
//! An unfenced read may be executed a few dozen instructions early or late: tens of nanoseconds,
//! and never more than the processor's window of instructions in flight. That suits stamping an
//! event of one's own, and is the cheapest read there is. A fenced read happens after everything
//! before it has completed and before anything after it begins, which a sandwich (count, other
//! clock, count) needs to be one. Sandwiches made here always use [`Counter::fenced`].
//!
//! # Narrow counters
//! The devices roll over: 24 bits of ACPI timer every 4.7 s, 32 bits of HPET every 43 s to five
//! minutes. [`Counter::read`] makes 64-bit counts of them all the same, as long as the process
//! reads them once in half a roll-over; where it did not, [`Counter::lapses`] says that counts from
//! before and after do not compare. Such counts are a process's own. One that publishes where it is
//! ([`Counter::keep`]) lets others continue ([`Counter::read_from`]) or take over
//! ([`Counter::resume`]), and what is too old to be continued is an error, never a wrong count.
//! The age is told by `CLOCK_MONOTONIC_COARSE`, which reads no device; for 64-bit counters no
//! clock is asked. A suspend, in which such a device may be reset, does not show in that age: who
//! reads [`host_reading`] sees it.
//!
//! # What a counter may still do
//! It may jump when a virtual machine moves or is restored, stop in suspend, or (broken firmware)
//! run backwards. A single reading cannot show that. Whoever reads [`host_reading`] regularly and
//! compares the steps of `count`, `raw_ns` and `suspended_ns` can: the engine does, from its
//! `HostCheck` events. What nobody sees from inside is a jump that the kernel's clocks share, being
//! made of the same counter.
#![deny(unsafe_code)]

pub mod acpi;
pub mod affinity;
mod agreement;
mod builtin;
mod choose;
mod counter;
mod cpus;
mod device;
mod error;
mod hardware;
mod host;
mod keeper;
mod kept;
mod machine;
mod measure;
mod read;
mod timex;
pub mod vmclock;
mod width;

pub use agreement::{Agreement, AgreementError, CpuOffset, OffsetBounds, agreement, agreement_of};
pub use choose::Choice;
pub use counter::{Counter, NativeCounter, counters};
pub use cpus::{cpu_list, online_cpus};
pub use device::hpet::HpetRegisters;
pub use device::{HpetFacts, hpet, pm_timer};
pub use error::{Attempt, CounterError, Doing, Fault};
pub use hardware::{Cost, Hardware};
pub use host::{HostPair, HostReading, host_reading, is_simulated, raw_pair, realtime_pair};
pub use keeper::KeptAt;
pub use machine::{available_clocksources, boot_id, clocksource};
pub use measure::{Nominal, NominalSource, nominal, resolution};
pub use read::{clock, is_privileged};
pub use timex::{Discipline, adjtimex, discipline, timex};

/// Examples of the page that registries show.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
