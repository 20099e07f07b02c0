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
//! | `auto` | the first of the above that the machine and its kernel vouch for | everywhere |
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
//! # What a counter may still do
//! It may jump when a virtual machine moves or is restored, stop in suspend, or (broken firmware)
//! run backwards. A single reading cannot show that. Whoever reads [`host_reading`] regularly and
//! compares the steps of `count`, `raw_ns` and `suspended_ns` can: the engine does, from its
//! `HostCheck` events. What nobody sees from inside is a jump that the kernel's clocks share, being
//! made of the same counter.
#![deny(unsafe_code)]

pub mod acpi;
mod affinity;
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
mod machine;
mod measure;
mod read;
mod width;

pub use agreement::{Agreement, AgreementError, CpuOffset, OffsetBounds, agreement, agreement_of};
pub use choose::Choice;
pub use counter::{Counter, counters};
pub use cpus::online_cpus;
pub use device::hpet::HpetRegisters;
pub use device::{HpetFacts, hpet, pm_timer};
pub use error::{Attempt, CounterError, Doing, Fault};
pub use hardware::{Cost, Hardware};
pub use host::{HostPair, HostReading, host_reading, realtime_pair};
pub use keeper::KeptAt;
pub use machine::{available_clocksources, boot_id, clocksource};
pub use measure::{Nominal, NominalSource, nominal, resolution};
