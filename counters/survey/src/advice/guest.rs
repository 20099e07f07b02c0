//! Virtual machines on x86: the hypervisor's clocks.

use super::pc::{given_up, steady};
use super::{Advice, Sure, cost_of_clock};
use crate::inventory::{Hypervisor, Inventory, Path};

pub(super) fn advise(inventory: &Inventory, advice: &mut Vec<Advice>) {
    if inventory.host.hypervisor == Some(Hypervisor::Emulation) {
        advice.push(
            Advice::note(
                Sure::Certain,
                "Every instruction of this machine is emulated",
                "It runs under QEMU without hardware support (TCG). Its counters are the \
                 emulator's: what is measured here says nothing about any hardware.",
            )
            .verify("run this on the machine that is meant"),
        );
    }
    match inventory.current() {
        Some("kvm-clock") => scaled(inventory, "kvm-clock", advice),
        Some("xen") => scaled(inventory, "xen", advice),
        Some("hyperv_clocksource_tsc_page") => hyperv(inventory, advice),
        Some("hyperv_clocksource_msr") => advice.push(
            Advice::problem(
                Sure::Certain,
                "Every reading of the clock is a trap into Hyper-V",
                format!(
                    "hyperv_clocksource_msr is read through a register that the hypervisor \
                     emulates, some µs each.{}",
                    cost_of_clock(inventory)
                ),
            )
            .act(
                "Use hyperv_clocksource_tsc_page (truechimer counters select) if it is \
                 available; else ask for a host or a configuration version that offers the \
                 reference TSC page.",
            )
            .verify("truechimer counters bench"),
        ),
        _ => {}
    }
}

/// A clock made of the TSC by factors of the host's.
fn scaled(inventory: &Inventory, name: &str, advice: &mut Vec<Advice>) {
    let by_call = inventory.clock_calls.iter().any(|call| call.path == Path::SystemCall);
    let vouched = match inventory.clocksource(name).map(|source| source.by_vdso) {
        _ if by_call => Some(false),
        Some(crate::inventory::ByVdso::Yes) => Some(true),
        Some(crate::inventory::ByVdso::No) => Some(false),
        _ => None,
    };
    if vouched == Some(false) {
        advice.push(
            Advice::problem(
                Sure::Certain,
                &format!("The host does not vouch for {name}: every reading is a system call"),
                format!(
                    "Without the flag that says that readings agree between virtual CPUs the \
                     kernel serves the clock itself.{}",
                    cost_of_clock(inventory)
                ),
            )
            .act(
                "On the host: have the kernel keep time by its TSC (truechimer counters list \
                 there). The flag comes from that.",
            )
            .verify("truechimer counters bench: vDSO against system call"),
        );
    }
    if let Some(unstable) = given_up(inventory) {
        advice.push(
            Advice::note(
                Sure::Certain,
                "The kernel found the guest's TSC unstable",
                format!(
                    "{}. {name} corrects for what it knows of, so it is the right choice.",
                    unstable.why
                ),
            )
            .verify("truechimer counters stability --against ntp:HOST"),
        );
        return;
    }
    let invariant = steady(inventory) == Some(true);
    if invariant && inventory.offers("tsc") {
        advice.push(
            Advice::note(
                Sure::Likely,
                &format!("The TSC would do as well as {name}, and is simpler"),
                format!(
                    "The hypervisor promises an invariant TSC, and the kernel offers it. {name} is \
                     the same counter times a factor of the host's, a little dearer to read, and \
                     its rate changes when the host corrects the factor."
                ),
            )
            .act(
                "truechimer counters select tsc; for good, boot with clocksource=tsc. The daemon \
                 reads the TSC itself in either case (--counter auto).",
            )
            .price(
                "On migration to a host with another TSC frequency and no scaling in hardware the \
                 TSC changes its rate, which the host's factor would have made up for.",
            )
            .verify("truechimer counters bench --switch; truechimer counters stability"),
        );
    } else if steady(inventory) == Some(false) {
        let how = if name == "xen" {
            "ask for an HVM or PVH guest with the TSC not emulated and migration off \
             (tsc_mode=native, nomigrate=1)"
        } else {
            "ask for invtsc: QEMU -cpu host,+invtsc, or in libvirt <feature policy='require' \
             name='invtsc'/>"
        };
        advice.push(
            Advice::note(
                Sure::Certain,
                &format!("{name} is the right choice as the hypervisor promises no invariant TSC"),
                format!(
                    "The guest is told that its TSC may change its rate or stop, as it would on a \
                     move to another host. {name} tells it the factor each time.{}",
                    cost_of_clock(inventory)
                ),
            )
            .act(format!("Leave it. For the bare TSC, {how}."))
            .price("Such a guest cannot be moved while it runs, or only to like hosts.")
            .verify("truechimer counters bench"),
        );
    } else {
        advice.push(Advice::good(
            Sure::Likely,
            &format!("The kernel keeps time by {name}, which the hypervisor provides"),
            "It is made for guests: the TSC times a factor that the host keeps right.",
        ));
    }
}

fn hyperv(inventory: &Inventory, advice: &mut Vec<Advice>) {
    let leaves = inventory.cpuid.as_ref().and_then(|cpuid| cpuid.hypervisor.as_ref());
    let promised = leaves.and_then(|leaves| leaves.hyperv_invariant);
    if promised == Some(true) && inventory.offers("tsc") && given_up(inventory).is_none() {
        advice.push(
            Advice::note(
                Sure::Likely,
                "The TSC would do as well as Hyper-V's clock page",
                "Hyper-V promises an invariant TSC to this guest, and keeps it right across moves; \
                 the kernel then prefers it itself. The page adds a multiplication, and its steps \
                 are 100 ns.",
            )
            .act(
                "truechimer counters select tsc; for good, boot without clocksource= if that is \
                 among the boot parameters.",
            )
            .price("None that is known.")
            .verify("truechimer counters bench --switch"),
        );
    } else {
        advice.push(
            Advice::good(
                Sure::Likely,
                "The kernel keeps time by Hyper-V's clock page, as it should",
                "Hyper-V does not promise an invariant TSC to this guest. The page is the TSC \
                 times a factor that the host keeps right, in steps of 100 ns, and is read without \
                 a system call.",
            )
            .verify("truechimer counters bench"),
        );
    }
}
