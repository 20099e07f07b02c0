//! The kernel's clocksources, and what is known of each.

use serde::Serialize;

use super::known::{self, ByVdso};
use super::sources::Sources;
use super::{Inventory, Registered};

/// A frequency and whose word it is.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Frequency {
    /// In Hz.
    pub hz: f64,
    /// Where it comes from.
    pub from: String,
}

impl Frequency {
    fn new(hz: f64, from: &str) -> Frequency {
        Frequency { hz, from: from.to_owned() }
    }
}

/// State of a clocksource in the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// Keeps the kernel's time.
    Current,
    /// Could be used.
    Available,
    /// Registered at boot and not to be had (any more).
    Registered,
    /// Found unstable.
    GivenUp,
}

impl State {
    /// True if the kernel keeps time by it or could.
    #[must_use]
    pub fn usable(self) -> bool {
        matches!(self, State::Current | State::Available)
    }

    /// In a word or two.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            State::Current => "in use",
            State::Available => "available",
            State::Registered => "not to be had",
            State::GivenUp => "given up",
        }
    }
}

/// Verdict of the kernel's watchdog, which compares the TSC with another counter twice a second,
/// and of its other tests on a clocksource.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case", tag = "is", content = "because")]
pub enum Verdict {
    /// Found unstable, for this reason.
    Unstable(String),
    /// A boot parameter keeps the kernel from testing it.
    NotTested(String),
    /// The log, which begins with the boot, holds nothing against it.
    NoComplaint,
    /// Nothing against it in what is left of the log.
    NoComplaintLately,
    /// The log cannot be read.
    Unknown,
}

impl Verdict {
    /// In a few words.
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            Verdict::Unstable(why) => format!("unstable: {why}"),
            Verdict::NotTested(why) => format!("not tested: {why}"),
            Verdict::NoComplaint => "no complaint since boot".into(),
            Verdict::NoComplaintLately => "no complaint in what is left of the log".into(),
            Verdict::Unknown => "the kernel's log cannot be read".into(),
        }
    }
}

/// A clocksource.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Clocksource {
    /// The kernel's name for it.
    pub name: String,
    /// Kind of clock, if the name is known.
    pub what: Option<String>,
    /// Use that the kernel makes of it.
    pub state: State,
    /// The kernel's preference for clocksources of this name, as a rule.
    pub rating: Option<u32>,
    /// Width in bits, as the kernel reads it.
    pub bits: Option<u32>,
    /// The nominal frequency: by definition, by the processor's or the hypervisor's word.
    pub nominal: Option<Frequency>,
    /// The frequency that the kernel reckons with.
    pub kernel: Option<Frequency>,
    /// After how many seconds it rolls over.
    pub rolls_over_s: Option<f64>,
    /// Ability of `clock_gettime` to read it without a system call.
    pub by_vdso: ByVdso,
    /// Verdict of the kernel.
    pub verdict: Verdict,
}

/// The names that `/sys` gives.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Names {
    available: Vec<String>,
    current: String,
}

impl Names {
    /// Reads them.
    pub(super) fn read(sources: &Sources) -> Result<Names, String> {
        const FOLDER: &str = "devices/system/clocksource/clocksource0";
        let available = sources.sys(&format!("{FOLDER}/available_clocksource"))?;
        let current = sources.sys(&format!("{FOLDER}/current_clocksource"))?;
        let available = available.split_whitespace().take(64);
        Ok(Names { available: available.map(clean).collect(), current: clean(&current) })
    }
}

fn clean(name: &str) -> String {
    name.chars().filter(|c| !c.is_control() && !c.is_whitespace()).take(64).collect()
}

/// Time that a counter of so many bits runs before it begins again, in seconds.
#[must_use]
pub fn roll_over(bits: u32, hz: f64) -> f64 {
    2f64.powi(i32::try_from(bits.min(64)).unwrap_or(64)) / hz
}

/// Every clocksource that `/sys` or the log names: the one in use, those available in the kernel's
/// order, and the rest.
pub(super) fn list(names: Option<&Names>, inventory: &Inventory) -> Vec<Clocksource> {
    let mut list: Vec<(String, State)> = Vec::new();
    let mut add = |name: &str, state: State| {
        if !name.is_empty() && list.iter().all(|(other, _)| other != name) {
            list.push((name.to_owned(), state));
        }
    };
    if let Some(names) = names {
        add(&names.current, State::Current);
        for name in &names.available {
            add(name, State::Available);
        }
    }
    if let Some(log) = &inventory.log {
        for unstable in &log.unstable {
            add(&unstable.name, State::GivenUp);
        }
        for name in log.registered.keys() {
            add(name, State::Registered);
        }
    }
    list.into_iter().map(|(name, state)| one(name, state, inventory)).collect()
}

fn one(name: String, state: State, inventory: &Inventory) -> Clocksource {
    let known = known::of(&name);
    let registered = inventory.log.as_ref().and_then(|log| log.registered.get(&name));
    let nominal = known
        .and_then(|known| known.hz)
        .map(|hz| Frequency::new(hz, "definition"))
        .or_else(|| nominal_tsc(&name, inventory));
    let kernel = kernel_tsc(&name, inventory)
        .or_else(|| registered.map(|registered| Frequency::new(registered.hz, "the kernel's log")));
    let bits =
        registered.map(|Registered { bits, .. }| *bits).or_else(|| known.map(|known| known.bits));
    let hz = kernel.as_ref().or(nominal.as_ref()).map(|frequency| frequency.hz);
    let rolls_over_s = bits.zip(hz).map(|(bits, hz)| roll_over(bits, hz));
    Clocksource {
        what: known.map(|known| known.what.to_owned()),
        rating: known.map(|known| known.rating),
        by_vdso: by_vdso(&name, inventory),
        verdict: verdict(&name, inventory),
        name,
        state,
        bits,
        nominal,
        kernel,
        rolls_over_s,
    }
}

/// A KVM guest's clock is readable where the host vouches for it.
fn by_vdso(name: &str, inventory: &Inventory) -> ByVdso {
    let leaves = inventory.cpuid.as_ref().and_then(|cpuid| cpuid.hypervisor.as_ref());
    let known = known::of(name).map_or(ByVdso::Unknown, |known| known.vdso);
    // What the vDSO can read of Hyper-V's it can on PCs only.
    if name.starts_with("hyperv") && inventory.architecture == "aarch64" {
        return ByVdso::No;
    }
    match leaves.and_then(|leaves| leaves.kvm_clock) {
        Some(true) if name == "kvm-clock" => ByVdso::Yes,
        Some(false) if name == "kvm-clock" => ByVdso::No,
        _ => known,
    }
}

fn nominal_tsc(name: &str, inventory: &Inventory) -> Option<Frequency> {
    if !matches!(name, "tsc" | "tsc-early") {
        return None;
    }
    let cpuid = inventory.cpuid.as_ref()?;
    let leaves = cpuid.hypervisor.as_ref();
    leaves
        .and_then(|leaves| leaves.tsc_hz)
        .map(|hz| Frequency::new(hz, "hypervisor"))
        .or_else(|| cpuid.tsc_hz.map(|hz| Frequency::new(hz, "CPUID 15h")))
        .or_else(|| cpuid.base_hz.map(|hz| Frequency::new(hz, "CPUID 16h")))
}

fn kernel_tsc(name: &str, inventory: &Inventory) -> Option<Frequency> {
    if name != "tsc" {
        return None;
    }
    let log = inventory.log.as_ref();
    let khz = |khz: f64, from: &str| Frequency::new(khz * 1e3, from);
    log.and_then(|log| log.tsc_refined_khz)
        .map(|hz| khz(hz, "the kernel's log, refined"))
        .or_else(|| log.and_then(|log| log.tsc_khz).map(|hz| khz(hz, "the kernel's log")))
        .or_else(|| inventory.cpus.half_bogomips.map(|mhz| khz(mhz * 1e3, "half of bogomips")))
}

fn verdict(name: &str, inventory: &Inventory) -> Verdict {
    let log = inventory.log.as_ref();
    if let Some(unstable) = log.and_then(|log| log.given_up(name)) {
        return Verdict::Unstable(unstable.why.clone());
    }
    let off = ["reliable", "nowatchdog"];
    let off = off.iter().find(|word| inventory.boot.as_ref().is_some_and(|b| b.tsc_is(word)));
    match (off, log) {
        (Some(word), _) if matches!(name, "tsc" | "tsc-early") => {
            Verdict::NotTested(format!("tsc={word}"))
        }
        (_, Some(log)) if log.complete => Verdict::NoComplaint,
        (_, Some(_)) => Verdict::NoComplaintLately,
        (_, None) => Verdict::Unknown,
    }
}
