//! Words of the processor, and of the hypervisor behind it, on the time stamp counter: CPUID.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::sys;

/// Registers eax, ebx, ecx, edx.
type Registers = [u32; 4];

/// Whom to ask.
#[derive(Clone, Debug)]
pub enum Cpuid {
    /// This machine's processor, if it has the instruction.
    Here,
    /// A list of (leaf, subleaf) and what they hold, as printed elsewhere.
    Table(BTreeMap<(u32, u32), Registers>),
    /// Nobody.
    Nothing,
}

/// Facts of CPUID that bear on counters. Frequencies are in Hz.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Processor {
    /// The TSC runs at one rate in all power states (80000007h EDX bit 8).
    pub invariant: bool,
    /// The register by which a change of the TSC shows (07h EBX bit 1).
    pub tsc_adjust: bool,
    /// The TSC's frequency by the ratio to the crystal (15h).
    pub tsc_hz: Option<f64>,
    /// The processor's base frequency (16h), to 1 MHz; the TSC's as a rule.
    pub base_hz: Option<f64>,
    /// The hypervisor's word.
    pub hypervisor: Option<HypervisorLeaves>,
}

/// Leaves of a hypervisor, 40000000h and on.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct HypervisorLeaves {
    /// Signature of the hypervisor, and those of the interfaces that it also offers.
    pub signatures: Vec<String>,
    /// The TSC's frequency by the timing leaf (40000010h; on Xen the time leaf), to 1 kHz.
    pub tsc_hz: Option<f64>,
    /// KVM: the guest's clock (kvm-clock) is offered, and whether its readings are vouched for to
    /// agree between virtual CPUs, so that programs may read it without a system call.
    pub kvm_clock: Option<bool>,
    /// Hyper-V: the guest may rely on an invariant TSC.
    pub hyperv_invariant: Option<bool>,
    /// Xen: how the TSC is treated (0 by default, 1 always emulated, 2 never emulated).
    pub xen_tsc_mode: Option<u32>,
}

const KVM: &str = "KVMKVMKVM";
const HYPERV: &str = "Microsoft Hv";
const XEN: &str = "XenVMMXenVMM";
/// Hypervisors that have the timing leaf.
const TIMING: [&str; 5] = [KVM, "VMwareVMware", "ACRNACRNACRN", "bhyve bhyve ", "___ NVMM ___"];
/// All that are known; anything else in these leaves may be what another leaf holds.
const KNOWN: [&str; 11] = [
    KVM,
    HYPERV,
    XEN,
    "VMwareVMware",
    "TCGTCGTCGTCG",
    "ACRNACRNACRN",
    "bhyve bhyve ",
    "___ NVMM ___",
    "VBoxVBoxVBox",
    "prl hyperv  ",
    "QNXQVMBSQG",
];

impl Cpuid {
    /// Lines as `cpuid -r` prints them: `0x80000007 0x00: eax=0x… ebx=0x… ecx=0x… edx=0x…`; other
    /// lines are passed over.
    #[must_use]
    pub fn parse(text: &str) -> Cpuid {
        Cpuid::Table(text.lines().take(4096).filter_map(parse_line).collect())
    }

    fn leaf(&self, leaf: u32, sub: u32) -> Option<Registers> {
        match self {
            Cpuid::Here => sys::cpuid(leaf, sub),
            Cpuid::Table(table) => table.get(&(leaf, sub)).copied(),
            Cpuid::Nothing => None,
        }
    }

    /// All that it says; `None` without such an instruction.
    #[must_use]
    pub fn read(&self) -> Option<Processor> {
        let [highest, ..] = self.leaf(0, 0)?;
        let basic = |leaf| (highest >= leaf).then(|| self.leaf(leaf, 0)).flatten();
        let extended = self.leaf(0x8000_0000, 0).is_some_and(|[eax, ..]| eax >= 0x8000_0007);
        let power = extended.then(|| self.leaf(0x8000_0007, 0)).flatten();
        let guest = basic(1).is_some_and(|[_, _, ecx, _]| bit(ecx, 31));
        let tsc_hz = basic(0x15).and_then(|[per, times, crystal, _]| {
            let all = per != 0 && times != 0 && crystal != 0;
            all.then(|| f64::from(crystal) * f64::from(times) / f64::from(per))
        });
        let base_hz =
            basic(0x16).map(|[mhz, ..]| f64::from(mhz & 0xffff) * 1e6).filter(|base| *base > 0.0);
        Some(Processor {
            invariant: power.is_some_and(|[_, _, _, edx]| bit(edx, 8)),
            tsc_adjust: basic(7).is_some_and(|[_, ebx, _, _]| bit(ebx, 1)),
            tsc_hz,
            base_hz,
            hypervisor: guest.then(|| self.hypervisor()),
        })
    }

    /// Interfaces follow each other in steps of 100h, the one that the guest should prefer first
    /// or last: all are looked at, as the kernel does.
    fn hypervisor(&self) -> HypervisorLeaves {
        let mut leaves = HypervisorLeaves::default();
        for base in (0x4000_0000..0x4001_0000).step_by(0x100) {
            let Some(registers) = self.leaf(base, 0) else { continue };
            let [highest, ..] = registers;
            let name = signature(registers);
            let known = KNOWN.contains(&name.as_str());
            let first = base == 0x4000_0000 && !name.is_empty();
            if !(known || first) || leaves.signatures.contains(&name) {
                continue;
            }
            // Old KVM reports 0 for its highest leaf and has the one after it.
            let has = |n: u32| highest >= base + n || (name == KVM && highest == 0 && n == 1);
            let leaf = |n: u32, sub| has(n).then(|| self.leaf(base + n, sub)).flatten();
            match name.as_str() {
                KVM => {
                    leaves.kvm_clock = leaf(1, 0)
                        .filter(|[eax, ..]| bit(*eax, 0) || bit(*eax, 3))
                        .map(|[eax, ..]| bit(eax, 24));
                }
                HYPERV => {
                    leaves.hyperv_invariant = leaf(3, 0).map(|[eax, ..]| bit(eax, 15));
                }
                XEN => {
                    if let Some([_, mode, khz, _]) = leaf(3, 0) {
                        leaves.xen_tsc_mode = Some(mode);
                        leaves.tsc_hz = Some(f64::from(khz) * 1e3).filter(|hz| *hz > 0.0);
                    }
                }
                _ => {}
            }
            if TIMING.contains(&name.as_str())
                && let Some([khz, ..]) = leaf(0x10, 0).filter(|[khz, ..]| *khz > 0)
            {
                leaves.tsc_hz = Some(f64::from(khz) * 1e3);
            }
            leaves.signatures.push(name);
        }
        leaves
    }
}

fn bit(register: u32, bit: u32) -> bool {
    register & (1 << bit) != 0
}

/// The twelve bytes in ebx, ecx, edx, without the zeros at their end; nothing if they are no text.
fn signature([_, ebx, ecx, edx]: Registers) -> String {
    let bytes: Vec<u8> = [ebx, ecx, edx].iter().flat_map(|r| r.to_le_bytes()).collect();
    let text = String::from_utf8_lossy(&bytes);
    let text = text.trim_end_matches('\0');
    let is_text = text.chars().all(|c| c == ' ' || c.is_ascii_graphic());
    if is_text { text.to_owned() } else { String::new() }
}

fn parse_line(line: &str) -> Option<((u32, u32), Registers)> {
    let hex = |text: &str| u32::from_str_radix(text.trim().strip_prefix("0x")?, 16).ok();
    let (place, values) = line.split_once(':')?;
    let (leaf, sub) = place.trim().split_once(' ')?;
    let mut registers = [0; 4];
    for (name, register) in ["eax=", "ebx=", "ecx=", "edx="].iter().zip(&mut registers) {
        *register = values.split_whitespace().find_map(|word| hex(word.strip_prefix(name)?))?;
    }
    Some(((hex(leaf)?, hex(sub)?), registers))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_intel_processor() {
        let table = Cpuid::parse(
            "CPU 0:\n\
             \x20  0x00000000 0x00: eax=0x00000016 ebx=0x756e6547 ecx=0x6c65746e edx=0x49656e69\n\
             \x20  0x00000001 0x00: eax=0x000906ea ebx=0x00100800 ecx=0x7ffafbff edx=0xbfebfbff\n\
             \x20  0x00000007 0x00: eax=0x00000000 ebx=0x029c6fbf ecx=0x00000000 edx=0x00000000\n\
             \x20  0x00000015 0x00: eax=0x00000002 ebx=0x000000d8 ecx=0x016e3600 edx=0x00000000\n\
             \x20  0x00000016 0x00: eax=0x00000a28 ebx=0x00000ce4 ecx=0x00000064 edx=0x00000000\n\
             \x20  0x80000000 0x00: eax=0x80000008 ebx=0x00000000 ecx=0x00000000 edx=0x00000000\n\
             \x20  0x80000007 0x00: eax=0x00000000 ebx=0x00000000 ecx=0x00000000 edx=0x00000100\n",
        );
        let expected = Processor {
            invariant: true,
            tsc_adjust: true,
            tsc_hz: Some(2_592_000_000.0),
            base_hz: Some(2_600_000_000.0),
            hypervisor: None,
        };
        assert_eq!(table.read(), Some(expected));
        assert_eq!(Cpuid::parse("nonsense\n0x0 0x0: eax=1\n").read(), None);
        assert_eq!(Cpuid::Nothing.read(), None);
    }

    /// KVM that offers Hyper-V's interface first and its own after it, with a timing leaf.
    #[test]
    fn a_guest_of_two_interfaces() {
        let registers = |name: &[u8; 12], highest| {
            let word = |n: usize| u32::from_le_bytes(name[n..n + 4].try_into().unwrap());
            [highest, word(0), word(4), word(8)]
        };
        let table = BTreeMap::from([
            ((0, 0), [1, 0, 0, 0]),
            ((1, 0), [0, 0, 1 << 31, 0]),
            ((0x4000_0000, 0), registers(b"Microsoft Hv", 0x4000_0005)),
            ((0x4000_0003, 0), [1 << 15, 0, 0, 0]),
            ((0x4000_0100, 0), registers(b"KVMKVMKVM\0\0\0", 0x4000_0110)),
            ((0x4000_0101, 0), [1 << 3 | 1 << 24, 0, 0, 0]),
            ((0x4000_0110, 0), [2_400_000, 0, 0, 0]),
        ]);
        let leaves = Cpuid::Table(table).read().unwrap().hypervisor.unwrap();
        assert_eq!(leaves.signatures, ["Microsoft Hv", "KVMKVMKVM"]);
        assert_eq!((leaves.kvm_clock, leaves.hyperv_invariant), (Some(true), Some(true)));
        assert_eq!(leaves.tsc_hz, Some(2.4e9));
    }

    #[test]
    fn this_processor_answers_alike_twice() {
        assert_eq!(Cpuid::Here.read(), Cpuid::Here.read());
        assert_eq!(Cpuid::Here.read().is_some(), cfg!(target_arch = "x86_64"));
    }
}
