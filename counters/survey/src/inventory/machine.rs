//! Kind of machine: processor, sockets, hypervisor.

use std::collections::BTreeSet;

use serde::Serialize;

use super::cpuid::Processor;
use super::sources::{Sources, cpu_list};

/// The processors, as `/proc/cpuinfo` has them.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Cpus {
    /// The model's name.
    pub model: Option<String>,
    /// Those online.
    pub online: Vec<u32>,
    /// Number of sockets that the online ones sit in.
    pub sockets: Option<u32>,
    /// Flags that bear on counters and that every CPU has; `None` where `/proc/cpuinfo` has none.
    pub flags: Option<Vec<String>>,
    /// The clock of the first CPU at the moment, MHz. Not the TSC's on processors that change it.
    pub mhz: Option<f64>,
    /// Half of the first CPU's bogomips, in MHz: x86 kernels work them out from the TSC's
    /// frequency, so that this is that, to 5 kHz.
    #[serde(rename = "half_bogomips_mhz")]
    pub half_bogomips: Option<f64>,
}

/// The flags that are kept.
pub const FLAGS: [&str; 9] = [
    "tsc",
    "rdtscp",
    "constant_tsc",
    "nonstop_tsc",
    "tsc_adjust",
    "tsc_known_freq",
    "tsc_reliable",
    "tsc_deadline_timer",
    "hypervisor",
];

impl Cpus {
    /// Reads them from the text of `/proc/cpuinfo`; `online` is what `/sys` says, if it does.
    #[must_use]
    pub fn parse(cpuinfo: &str, online: Option<Vec<u32>>) -> Cpus {
        let mut cpus = Cpus::default();
        let mut sockets = BTreeSet::new();
        let mut numbers = Vec::new();
        for line in cpuinfo.lines() {
            let Some((name, value)) = line.split_once(':') else { continue };
            let value = value.trim();
            match name.trim() {
                "processor" => numbers.extend(value.parse::<u32>().ok()),
                "model name" | "Model" | "cpu model" if cpus.model.is_none() => {
                    cpus.model = Some(value.chars().filter(|c| !c.is_control()).take(80).collect());
                }
                "physical id" => {
                    sockets.extend(value.parse::<u32>().ok());
                }
                "cpu MHz" if cpus.mhz.is_none() => cpus.mhz = value.parse().ok(),
                "bogomips" if cpus.half_bogomips.is_none() => {
                    let parsed = value.parse::<f64>().ok();
                    cpus.half_bogomips = parsed.map(|mips| mips / 2.0).filter(|mhz| *mhz > 0.0);
                }
                "flags" => {
                    let here: BTreeSet<&str> = value.split_whitespace().collect();
                    match &mut cpus.flags {
                        Some(flags) => flags.retain(|flag| here.contains(flag.as_str())),
                        none => {
                            let kept = FLAGS.iter().filter(|flag| here.contains(**flag));
                            *none = Some(kept.map(|flag| (*flag).to_owned()).collect());
                        }
                    }
                }
                _ => {}
            }
        }
        cpus.online = online.unwrap_or(numbers);
        cpus.sockets = u32::try_from(sockets.len()).ok().filter(|n| *n > 0);
        cpus
    }

    /// True if every CPU has this flag; `None` where none are listed.
    #[must_use]
    pub fn flag(&self, name: &str) -> Option<bool> {
        self.flags.as_ref().map(|flags| flags.iter().any(|flag| flag == name))
    }
}

/// Reads the processors.
pub(super) fn cpus(sources: &Sources) -> Result<Cpus, String> {
    let online = sources.sys("devices/system/cpu/online").ok();
    let online = online.and_then(|text| cpu_list(&text)).filter(|cpus| !cpus.is_empty());
    Ok(Cpus::parse(&sources.proc("cpuinfo")?, online))
}

/// The architecture, by Rust's name for it.
pub(super) fn architecture(sources: &Sources) -> String {
    if sources.live {
        return std::env::consts::ARCH.to_owned();
    }
    if let Ok(name) = sources.proc("sys/kernel/arch") {
        return name.trim().to_owned();
    }
    let cpuinfo = sources.proc("cpuinfo").unwrap_or_default();
    let has = |name: &str| cpuinfo.lines().any(|line| line.starts_with(name));
    let guess = match () {
        () if has("flags") => "x86_64",
        () if has("CPU implementer") => "aarch64",
        () if has("hart") => "riscv64",
        () => "unknown",
    };
    guess.to_owned()
}

/// Hypervisor that the machine runs under.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Hypervisor {
    /// Linux KVM.
    Kvm,
    /// Microsoft Hyper-V, and Azure.
    HyperV,
    /// Xen.
    Xen,
    /// VMware.
    Vmware,
    /// VirtualBox.
    VirtualBox,
    /// QEMU without hardware support: every instruction is emulated.
    Emulation,
    /// Some other one.
    Other,
}

impl Hypervisor {
    /// Name by which people call it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Hypervisor::Kvm => "KVM",
            Hypervisor::HyperV => "Hyper-V",
            Hypervisor::Xen => "Xen",
            Hypervisor::Vmware => "VMware",
            Hypervisor::VirtualBox => "VirtualBox",
            Hypervisor::Emulation => "QEMU, emulating (TCG)",
            Hypervisor::Other => "an unknown hypervisor",
        }
    }
}

/// The machine by the firmware's tables, and what it runs under.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Host {
    /// The firmware's name of who made it.
    pub vendor: Option<String>,
    /// The firmware's name of the product.
    pub product: Option<String>,
    /// The hypervisor; `None` if nothing hints at one.
    pub hypervisor: Option<Hypervisor>,
}

/// Reads that.
pub(super) fn host(sources: &Sources, cpus: &Cpus, cpuid: Option<&Processor>) -> Host {
    let dmi = |name: &str| {
        let text = sources.sys(&format!("class/dmi/id/{name}")).ok()?;
        let text: String = text.chars().filter(|c| !c.is_control()).take(80).collect();
        Some(text).filter(|text| !text.is_empty())
    };
    let (vendor, product) = (dmi("sys_vendor"), dmi("product_name"));
    let signatures = cpuid.and_then(|cpuid| cpuid.hypervisor.as_ref());
    let signatures = signatures.map(|leaves| leaves.signatures.as_slice()).unwrap_or_default();
    let xen = sources.sys("hypervisor/type").is_ok_and(|text| text == "xen");
    let guest = cpus.flag("hypervisor") == Some(true)
        || cpuid.is_some_and(|cpuid| cpuid.hypervisor.is_some());
    let words =
        format!("{} {}", vendor.clone().unwrap_or_default(), product.clone().unwrap_or_default());
    let hypervisor = by_signature(signatures)
        .or(xen.then_some(Hypervisor::Xen))
        .or_else(|| {
            let emulated = cpus.model.as_deref().is_some_and(|model| model.contains("TCG"));
            emulated.then_some(Hypervisor::Emulation)
        })
        .or_else(|| by_firmware(&words))
        .or(guest.then_some(Hypervisor::Other));
    Host { vendor, product, hypervisor }
}

/// KVM and Xen may offer Hyper-V's interface besides their own: then they are what it is.
fn by_signature(signatures: &[String]) -> Option<Hypervisor> {
    let known = [
        ("TCGTCGTCGTCG", Hypervisor::Emulation),
        ("KVMKVMKVM", Hypervisor::Kvm),
        ("XenVMMXenVMM", Hypervisor::Xen),
        ("VMwareVMware", Hypervisor::Vmware),
        ("VBoxVBoxVBox", Hypervisor::VirtualBox),
        ("Microsoft Hv", Hypervisor::HyperV),
    ];
    let found = known.iter().find(|(name, _)| signatures.iter().any(|given| given == name));
    found.map(|(_, hypervisor)| *hypervisor)
}

fn by_firmware(words: &str) -> Option<Hypervisor> {
    let known = [
        ("VMware", Hypervisor::Vmware),
        ("VirtualBox", Hypervisor::VirtualBox),
        ("Microsoft Corporation Virtual Machine", Hypervisor::HyperV),
        ("Xen", Hypervisor::Xen),
        ("KVM", Hypervisor::Kvm),
        ("Google Compute Engine", Hypervisor::Kvm),
        ("QEMU", Hypervisor::Other),
    ];
    known.iter().find(|(name, _)| words.contains(name)).map(|(_, hypervisor)| *hypervisor)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn flags_are_those_of_every_cpu() {
        let text = "processor\t: 0\nmodel name\t: A\u{1b}\nphysical id\t: 0\ncpu MHz\t\t: 800.000\n\
                    flags\t\t: fpu tsc constant_tsc nonstop_tsc\nbogomips\t: 4800.02\n\n\
                    processor\t: 1\nphysical id\t: 1\nflags\t\t: tsc constant_tsc\n";
        let cpus = Cpus::parse(text, None);
        assert_eq!((cpus.online.as_slice(), cpus.sockets), ([0, 1].as_slice(), Some(2)));
        assert_eq!(cpus.flags, Some(vec!["tsc".into(), "constant_tsc".into()]));
        assert_eq!((cpus.flag("nonstop_tsc"), cpus.half_bogomips), (Some(false), Some(2400.01)));
        assert_eq!(cpus.model.as_deref(), Some("A"));
        let arm = Cpus::parse("processor : 0\nFeatures : fp\nBogoMIPS : 50.00\n", Some(vec![0]));
        assert_eq!((arm.flag("tsc"), arm.half_bogomips), (None, None));
    }

    #[test]
    fn a_guests_own_interface_counts_more_than_hyper_vs() {
        let both = ["Microsoft Hv".to_owned(), "KVMKVMKVM".to_owned()];
        assert_eq!(by_signature(&both), Some(Hypervisor::Kvm));
        assert_eq!(by_firmware("Microsoft Corporation Surface"), None);
        assert_eq!(by_firmware("Amazon EC2 m5.metal"), None);
    }

    proptest! {
        #[test]
        fn any_cpuinfo_is_read(text in "((processor|flags|physical id|bogomips)[ \t]?:?[\\PC\n]{0,20}\n?){0,10}") {
            let _ = Cpus::parse(&text, None);
        }
    }
}
