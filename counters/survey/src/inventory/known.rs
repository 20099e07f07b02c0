//! Clocksources that Linux has, by name: what they count, how wide they are, who can read them.

use serde::Serialize;

/// Ability of `clock_gettime` to read a clocksource without a system call.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ByVdso {
    /// Can be read.
    Yes,
    /// Can be read where the hypervisor vouches for it.
    IfVouched,
    /// Cannot be read: every reading of the clock is a system call.
    No,
    /// Not known.
    Unknown,
}

/// Facts known of a clocksource by its name.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Known {
    /// Name of the clocksource.
    pub name: &'static str,
    /// Description of it.
    pub what: &'static str,
    /// The kernel's preference: of those it trusts it takes the highest. Some get less where the
    /// TSC is the better choice.
    pub rating: u32,
    /// Number of bits that the kernel reads.
    pub bits: u32,
    /// The nominal frequency in Hz, where all have the same.
    pub hz: Option<f64>,
    /// Ability of programs to read it without a system call.
    pub vdso: ByVdso,
}

use ByVdso::{IfVouched, No, Yes};

const fn known(
    name: &'static str,
    what: &'static str,
    rating: u32,
    bits: u32,
    hz: Option<f64>,
    vdso: ByVdso,
) -> Known {
    Known { name, what, rating, bits, hz, vdso }
}

/// All that are known, from the kernel's sources.
#[rustfmt::skip]
pub const KNOWN: [Known; 20] = [
    known("tsc", "time stamp counter of the processor", 300, 64, None, Yes),
    known("tsc-early", "time stamp counter, until its frequency is refined", 299, 64, None, Yes),
    known("hpet", "high precision event timer of the chipset", 250, 32, None, No),
    known("acpi_pm", "ACPI power management timer of the chipset", 200, 24, Some(3_579_545.0), No),
    known("kvm-clock", "KVM's clock: the TSC scaled by the host", 400, 64, Some(1e9), IfVouched),
    known("hyperv_clocksource_tsc_page", "Hyper-V's clock: the TSC scaled by the host", 500, 64, Some(1e7), Yes),
    known("hyperv_clocksource_msr", "Hyper-V's reference counter, by a trap to the host", 495, 64, Some(1e7), No),
    known("xen", "Xen's clock: the TSC scaled by the host", 400, 64, Some(1e9), IfVouched),
    known("arch_sys_counter", "generic timer of the Arm architecture", 400, 56, None, Yes),
    known("arch_mem_counter", "generic timer of the Arm architecture, memory mapped", 400, 56, None, No),
    known("arch_mmio_counter", "generic timer of the Arm architecture, memory mapped", 300, 56, None, No),
    known("riscv_clocksource", "time counter of the RISC-V architecture", 400, 64, None, Yes),
    known("timebase", "time base of the Power architecture", 400, 64, None, Yes),
    known("tod", "time-of-day clock of z/Architecture", 400, 64, None, Yes),
    known("Constant", "stable counter of the LoongArch architecture", 400, 64, None, Yes),
    known("MIPS", "count register of the MIPS architecture", 300, 32, None, Yes),
    known("pit", "interval timer 8254 of the PC", 110, 32, Some(1_193_182.0), No),
    known("um_timer", "clock of the host, under user-mode Linux", 300, 64, Some(1e9), No),
    known("refined-jiffies", "the timer interrupt, counted", 2, 32, None, No),
    known("jiffies", "the timer interrupt, counted", 1, 32, None, No),
];

/// Finds what is known of this one.
#[must_use]
pub fn of(name: &str) -> Option<&'static Known> {
    KNOWN.iter().find(|known| known.name == name)
}

/// True if a clocksource is the TSC itself or the TSC scaled.
#[must_use]
pub fn is_on_tsc(name: &str) -> bool {
    matches!(name, "tsc" | "tsc-early" | "kvm-clock" | "hyperv_clocksource_tsc_page" | "xen")
}

/// True if a program's counter of this name and the clocksource are the same piece of hardware.
#[must_use]
pub fn same_hardware(counter: &str, clocksource: &str) -> bool {
    match counter.split("-fenced").next().unwrap_or(counter) {
        "raw" => true,
        "tsc" => is_on_tsc(clocksource),
        "hpet" => clocksource == "hpet",
        "acpi-pm" | "acpi-pm-safe" => clocksource == "acpi_pm",
        // On Arm, Hyper-V's page is made of the generic timer.
        "arm-generic" => clocksource.starts_with("arch_") || clocksource.starts_with("hyperv_"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_single_and_figures_sane() {
        for (n, known) in KNOWN.iter().enumerate() {
            assert!(KNOWN.iter().skip(n + 1).all(|other| other.name != known.name));
            assert!((24..=64).contains(&known.bits) && known.rating <= 500);
        }
        assert_eq!(of("acpi_pm").and_then(|known| known.hz), Some(3_579_545.0));
        assert_eq!(of("dw_apb_timer"), None);
        assert!(same_hardware("tsc-fenced", "kvm-clock") && !same_hardware("hpet", "tsc"));
    }
}
