//! Every counter and clocksource of the machine: what the kernel, the processor and the hypervisor
//! say of them, and what a short measurement finds.
//!
//! Facts come from files under [`Sources`] and from CPUID, so that another machine can be described
//! from copies of its files. What could not be found out is not an error: it is listed, with the
//! reason, in [`Inventory::unknown`].

mod boot;
mod clocks;
mod cpuid;
mod hardware;
mod idle;
mod known;
mod log;
mod machine;
mod sources;
mod tables;
mod trial;

use std::time::Duration;

use serde::Serialize;

pub use boot::Boot;
pub use clocks::{Clocksource, Frequency, State, Verdict, roll_over};
pub use cpuid::{Cpuid, HypervisorLeaves, Processor};
pub use hardware::{Access, Agreement, CounterReport, Measured, Step};
pub use idle::{Idle, State as IdleState};
pub use known::{ByVdso, KNOWN, Known, is_on_tsc, of as known_clocksource, same_hardware};
pub use log::{Line, Log, Registered, Switch, Unstable};
pub use machine::{Cpus, Host, Hypervisor};
pub use sources::Sources;
pub use tables::{TableTimer, Tables};
pub use trial::{ClockCall, Path, Realtime};

/// Options of what to measure.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Over how long frequencies are measured; nothing is measured at all if it is zero.
    pub measure: Duration,
}

impl Default for Options {
    fn default() -> Options {
        Options { measure: Duration::from_secs(1) }
    }
}

/// All that is known of a machine's counters and clocksources.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Inventory {
    /// The processor's architecture (`x86_64`, `aarch64`, …).
    pub architecture: String,
    /// The kernel's release.
    pub kernel: Option<String>,
    /// The processors.
    pub cpus: Cpus,
    /// CPUID's word.
    pub cpuid: Option<Processor>,
    /// Machine and hypervisor.
    pub host: Host,
    /// Clocksources that the kernel can use, those it can use first.
    pub clocksources: Vec<Clocksource>,
    /// Counters that a program can read.
    pub counters: Vec<CounterReport>,
    /// Counter that `--counter auto` stands for on this machine.
    pub auto: Option<String>,
    /// Ways in which `clock_gettime` comes by the time.
    pub clock_calls: Vec<ClockCall>,
    /// Agreement of the CPUs' counters.
    pub agreement: Option<Agreement>,
    /// The kernel's clock, as the yardstick of frequencies.
    pub realtime: Option<Realtime>,
    /// Timers that the firmware names.
    pub firmware: Tables,
    /// Boot parameters about clocks.
    pub boot: Option<Boot>,
    /// Idle states.
    pub idle: Option<Idle>,
    /// The kernel's log about clocks.
    pub log: Option<Log>,
    /// Facts that could not be found out, and why.
    pub unknown: Vec<Unknown>,
}

/// Something that could not be found out.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Unknown {
    /// Fact in question.
    pub what: String,
    /// Reason, naming the file.
    pub why: String,
}

impl Inventory {
    /// The clocksource in use.
    #[must_use]
    pub fn current(&self) -> Option<&str> {
        let current = self.clocksources.iter().find(|source| source.state == State::Current);
        current.map(|source| source.name.as_str())
    }

    /// The clocksource of this name, whatever its state.
    #[must_use]
    pub fn clocksource(&self, name: &str) -> Option<&Clocksource> {
        self.clocksources.iter().find(|source| source.name == name)
    }

    /// True if the kernel would keep time by this clocksource.
    #[must_use]
    pub fn offers(&self, name: &str) -> bool {
        self.clocksource(name).is_some_and(|source| source.state.usable())
    }

    /// The counter of this name.
    #[must_use]
    pub fn counter(&self, name: &str) -> Option<&CounterReport> {
        self.counters.iter().find(|counter| counter.name == name)
    }

    /// True if it runs under a hypervisor.
    #[must_use]
    pub fn is_guest(&self) -> bool {
        self.host.hypervisor.is_some()
    }

    fn note<T>(&mut self, what: &str, found: Result<T, String>) -> Option<T> {
        let why = match found {
            Ok(found) => return Some(found),
            Err(why) => why,
        };
        self.unknown.push(Unknown { what: what.to_owned(), why });
        None
    }
}

/// Gathers the facts and, on the machine itself, measures for as long as `options` say. Nothing
/// is changed; it never fails as a whole.
#[must_use]
pub fn measure(sources: &Sources, options: &Options) -> Inventory {
    let mut inventory = facts(sources);
    if !sources.live {
        let why = "the machine is described from files: nothing can be measured".to_owned();
        inventory.note::<()>("counters", Err(why));
    } else if options.measure.is_zero() {
        let why = "not asked for".to_owned();
        inventory.note::<()>("measurements", Err(why));
        hardware::survey(&mut inventory, Duration::ZERO);
    } else {
        inventory.clock_calls = trial::clock_calls();
        let realtime = inventory.note("state of the system clock", trial::realtime());
        inventory.realtime = realtime;
        hardware::survey(&mut inventory, options.measure);
    }
    inventory
}

/// All that files and CPUID say.
#[must_use]
pub fn facts(sources: &Sources) -> Inventory {
    let mut inventory = Inventory {
        architecture: machine::architecture(sources),
        kernel: sources.proc("sys/kernel/osrelease").ok().map(|text| text.trim().to_owned()),
        ..Inventory::default()
    };
    let cpus = inventory.note("processors and their flags", machine::cpus(sources));
    inventory.cpus = cpus.unwrap_or_default();
    if inventory.architecture == "x86_64" {
        let cpuid = sources.cpuid.read().ok_or_else(|| "no CPUID to ask".to_owned());
        inventory.cpuid = inventory.note("the processor's own word on the TSC", cpuid);
    }
    inventory.host = machine::host(sources, &inventory.cpus, inventory.cpuid.as_ref());
    let (tables, wrong) = tables::read(sources);
    inventory.firmware = tables;
    for why in wrong {
        inventory.note::<()>("the firmware's timers", Err(why));
    }
    let line = sources.proc("cmdline").map(|line| Boot::parse(&line));
    inventory.boot = inventory.note("boot parameters", line);
    let idle = Idle::read(sources, &inventory.cpus.online);
    inventory.idle = inventory.note("idle states", idle);
    let log = Log::read(&sources.kmsg);
    inventory.log = inventory.note("the kernel's log", log);
    let names = clocks::Names::read(sources);
    let names = inventory.note("clocksources", names);
    inventory.clocksources = clocks::list(names.as_ref(), &inventory);
    inventory
}
