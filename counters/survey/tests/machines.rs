//! Whole machines, from the files that describe them: what is found, and what is advised.
//!
//! Each file in `machines/` is what `tail -n +1` prints of the files of one machine, after a line
//! that says what it is, and before the advice expected: `SEVERITY: TITLE`, one a line.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use truechimer_survey::advice::{Advice, Severity, Sure, advise};
use truechimer_survey::inventory::{
    Agreement, ByVdso, ClockCall, CounterReport, Frequency, Hypervisor, Inventory, Measured, Path,
    Realtime, Sources, State, Step, Verdict, facts,
};

/// A machine's files in a folder of their own, and the advice expected.
struct Machine {
    root: PathBuf,
    expected: Vec<String>,
}

impl Machine {
    fn new(name: &str) -> Machine {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let root = format!("truechimer-machine-{}-{n}", std::process::id());
        let root = std::env::temp_dir().join(root);
        fs::create_dir(&root).unwrap();
        let mut machine = Machine { root, expected: Vec::new() };
        let file = format!("{}/tests/machines/{name}.txt", env!("CARGO_MANIFEST_DIR"));
        let text = fs::read_to_string(file).unwrap();
        for part in text.split("==> ").skip(1) {
            let (path, contents) = part.split_once(" <==\n").unwrap();
            if path == "advice" {
                machine.expected = contents.lines().map(str::to_owned).collect();
                continue;
            }
            let path = machine.root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, contents).unwrap();
        }
        machine
    }

    fn inventory(&self) -> Inventory {
        facts(&Sources::under(&self.root))
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.root);
    }
}

fn inventory(name: &str) -> Inventory {
    Machine::new(name).inventory()
}

fn titles(advice: &[Advice]) -> Vec<String> {
    advice.iter().map(|one| format!("{}: {}", one.severity.name(), one.title)).collect()
}

/// All of it, as one would read it.
fn whole(advice: &Advice) -> String {
    let mut text = format!("{}: {}\n{}\n", advice.severity.name(), advice.title, advice.why);
    for (name, part) in
        [("do", &advice.what_to_do), ("price", &advice.price), ("verify", &advice.verify)]
    {
        if let Some(part) = part {
            text += &format!("{name}: {part}\n");
        }
    }
    text + advice.sure.name()
}

#[test]
fn every_machine_gets_the_advice_it_should() {
    let mut names: Vec<String> =
        fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/machines"))
            .unwrap()
            .map(|entry| entry.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned())
            .collect();
    names.sort_unstable();
    assert!(names.len() >= 20, "{names:?}");
    let mut wrong = Vec::new();
    for name in names {
        let machine = Machine::new(&name);
        assert!(!machine.expected.is_empty(), "{name} expects nothing");
        let found = titles(&advise(&machine.inventory()));
        if found != machine.expected {
            wrong.push(format!("{name}:\n  found {found:#?}\n  expected {:#?}", machine.expected));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn all_advice_is_whole_sentences_and_says_how_to_verify() {
    for entry in fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/machines")).unwrap() {
        let name = entry.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned();
        for one in advise(&inventory(&name)) {
            assert!(!one.title.ends_with('.') && one.title.len() < 80, "{name}: {one:?}");
            let whole = whole(&one);
            assert!(!whole.contains("  ") && !whole.contains(".."), "{name}: {whole}");
            assert!(one.why.ends_with(['.', ':']), "{name}: {one:?}");
            if one.severity == Severity::Problem {
                assert!(one.what_to_do.is_some() || one.price.is_none(), "{name}: {one:?}");
            }
            if one.sure != Sure::Certain {
                assert!(one.verify.is_some() || one.severity == Severity::Good, "{name}: {one:?}");
            }
        }
    }
}

#[test]
fn a_good_pc_in_full() {
    let inventory = inventory("good-pc");
    assert_eq!(inventory.current(), Some("tsc"));
    let tsc = inventory.clocksource("tsc").unwrap();
    assert_eq!((tsc.state, tsc.bits, tsc.by_vdso), (State::Current, Some(64), ByVdso::Yes));
    assert_eq!(tsc.verdict, Verdict::NoComplaint);
    let kernel = Frequency { hz: 2_399_981_000.0, from: "the kernel's log, refined".into() };
    assert_eq!(tsc.kernel, Some(kernel));
    let pm = inventory.clocksource("acpi_pm").unwrap();
    assert_eq!((pm.state, pm.bits), (State::Available, Some(24)));
    assert!((pm.rolls_over_s.unwrap() - 4.687).abs() < 0.001, "{pm:?}");
    let hpet = inventory.clocksource("hpet").unwrap();
    assert!((hpet.kernel.as_ref().unwrap().hz / 24e6 - 1.0).abs() < 1e-6, "{hpet:?}");
    let idle = inventory.idle.as_ref().unwrap();
    assert_eq!((idle.driver.as_str(), idle.deep()), ("intel_idle", vec!["C6"]));
    assert_eq!(idle.states[3].latency_us, Some(133));
    assert_eq!((inventory.host.hypervisor, inventory.is_guest()), (None, false));
    assert!(inventory.unknown.is_empty(), "{:?}", inventory.unknown);
    assert_eq!(
        whole(&advise(&inventory)[0]),
        "good: The kernel keeps time by the TSC, as it should\n\
         It has one rate in all power states and runs on in idle ones, takes one instruction to \
         read, and programs can read it without a system call. As it also has the register \
         TSC_ADJUST, which shows tampering by firmware, kernels from 5.17 on do without the \
         watchdog over it on machines of few sockets.\n\
         verify: truechimer counters stability --against ntp:HOST, over some hours\n\
         certain"
    );
}

#[test]
fn an_unstable_tsc_in_full() {
    let mut inventory = inventory("tsc-unstable");
    assert_eq!(inventory.clocksource("tsc").unwrap().state, State::GivenUp);
    let call = ClockCall {
        clock: "CLOCK_REALTIME".into(),
        libc_ns: 1312.0,
        system_call_ns: 1290.0,
        path: Path::SystemCall,
    };
    inventory.clock_calls.push(call);
    assert_eq!(
        whole(&advise(&inventory)[0]),
        "problem: The kernel found the TSC unstable and does not use it\n\
         61 s after boot the kernel gave it up: the skew is too large. On processors with a \
         constant, non-stop TSC it is often not the TSC that fails but the comparison, disturbed \
         by firmware (system management interrupts), overload, or an HPET that stops in deep idle \
         states. The HPET is a timer of the chipset. Every reading of the clock is a system call \
         and an access to the chipset, a µs or so. Measured here: CLOCK_REALTIME takes 1312 ns, \
         by a system call.\n\
         do: Update firmware and kernel first. If the TSC then proves good, boot with \
         tsc=nowatchdog (no comparison at run time) or tsc=reliable (no tests at boot either).\n\
         price: The kernel no longer notices when the TSC does go wrong, and time goes wrong with \
         it in silence.\n\
         verify: truechimer counters stability --against ntp:HOST, over some hours, of --counter tsc: a \
         good TSC is steady to below 1 ppm\n\
         possible"
    );
}

#[test]
fn a_choice_made_by_the_command_line_in_full() {
    let machine = Machine::new("forced-acpi-pm");
    let inventory = machine.inventory();
    let log = inventory.unknown.iter().find(|unknown| unknown.what == "the kernel's log").unwrap();
    assert!(log.why.contains("dev/kmsg: No such file"), "{log:?}");
    assert_eq!(
        whole(&advise(&inventory)[0]),
        "problem: The TSC is there and steady, but the kernel does not keep time by it\n\
         'clocksource=acpi_pm' among the boot parameters keeps the kernel off it. The ACPI PM \
         timer is a counter of the chipset with 24 bits, 3.58 MHz (steps of 279 ns). Every reading \
         of the clock is a system call and an access to the chipset, a µs or so.\n\
         do: Now: truechimer counters select tsc. For good: boot without 'clocksource=acpi_pm'.\n\
         price: None that is known, unless it was chosen so for a reason.\n\
         verify: truechimer counters bench --switch\n\
         likely"
    );
}

#[test]
fn guests_are_known_for_what_they_are() {
    for (name, hypervisor, nominal) in [
        ("kvm-invariant", Hypervisor::Kvm, Some(2_445_406_000.0)),
        ("kvm-movable", Hypervisor::Kvm, Some(2_445_406_000.0)),
        ("hyperv", Hypervisor::HyperV, None),
        ("xen", Hypervisor::Xen, None),
        ("qemu-hpet", Hypervisor::Emulation, None),
    ] {
        let inventory = inventory(name);
        assert_eq!(inventory.host.hypervisor, Some(hypervisor), "{name}");
        let tsc = inventory.clocksource("tsc").and_then(|tsc| tsc.nominal.clone());
        assert_eq!(tsc.map(|nominal| nominal.hz), nominal, "{name}");
    }
    let vouched = |name| inventory(name).clocksource("kvm-clock").unwrap().by_vdso;
    assert_eq!((vouched("kvm-movable"), vouched("kvm-unvouched")), (ByVdso::Yes, ByVdso::No));
    let readable =
        |name| inventory(name).clocksource("hyperv_clocksource_tsc_page").map(|s| s.by_vdso);
    assert_eq!(readable("hyperv"), Some(ByVdso::Yes));
    assert_eq!(readable("arm-hyperv"), Some(ByVdso::No));
    let xen = inventory("xen").cpuid.unwrap().hypervisor.unwrap();
    assert_eq!((xen.tsc_hz, xen.xen_tsc_mode), (Some(2.3e9), Some(0)));
}

#[test]
fn a_guest_with_an_invariant_tsc_in_full() {
    assert_eq!(
        whole(&advise(&inventory("kvm-invariant"))[0]),
        "note: The TSC would do as well as kvm-clock, and is simpler\n\
         The hypervisor promises an invariant TSC, and the kernel offers it. kvm-clock is the same \
         counter times a factor of the host's, a little dearer to read, and its rate changes when \
         the host corrects the factor.\n\
         do: truechimer counters select tsc; for good, boot with clocksource=tsc. The daemon reads \
         the TSC itself in either case (--counter auto).\n\
         price: On migration to a host with another TSC frequency and no scaling in hardware the \
         TSC changes its rate, which the host's factor would have made up for.\n\
         verify: truechimer counters bench --switch; truechimer counters stability\n\
         likely"
    );
}

#[test]
fn a_container_says_what_it_cannot_see() {
    let inventory = inventory("container");
    let whats: Vec<&str> = inventory.unknown.iter().map(|unknown| unknown.what.as_str()).collect();
    let expected =
        ["the processor's own word on the TSC", "idle states", "the kernel's log", "clocksources"];
    assert_eq!(whats, expected);
    assert_eq!(inventory.cpus.flag("nonstop_tsc"), Some(true));
    // And with nothing at all it still answers.
    let nothing = facts(&Sources::under("/nonexistent".as_ref()));
    assert_eq!(nothing.unknown.len(), 5, "{:?}", nothing.unknown);
    assert_eq!(titles(&advise(&nothing)).len(), 1);
}

fn counter(name: &str, hz: f64, by_realtime: f64) -> CounterReport {
    let measured = |hz: f64| Measured { hz, error_hz: hz * 2e-8, over_s: 10.0, independent: true };
    CounterReport {
        name: name.into(),
        what: String::new(),
        unusable: None,
        bits: Some(64),
        access: None,
        nominal: None,
        measured: (name != "raw").then(|| measured(hz)),
        by_realtime: Some(measured(by_realtime)),
        step: None,
        read_ns: Some(10.0),
        rolls_over_s: None,
    }
}

#[test]
fn a_wrong_idea_of_the_frequency_shows() {
    let mut arm = inventory("arm-server");
    let frequency = arm.clocksource("arch_sys_counter").unwrap().kernel.clone().unwrap();
    assert!((frequency.hz / 25e6 - 1.0).abs() < 1e-6, "{frequency:?}");
    arm.realtime = Some(Realtime { synchronised: true, max_error_us: 5000, correction_ppm: 0.0 });
    // The firmware says 25 MHz, and it is 24: by seconds there are 4 % fewer counts.
    arm.counters = vec![counter("arm-generic", 25e6, 24e6), counter("raw", 1e9, 0.96e9)];
    let advice = advise(&arm);
    assert_eq!(
        whole(&advice[0]),
        "problem: The kernel has a wrong idea of the frequency of 'arm-generic'\n\
         By the synchronised system clock it is -40000 ppm (±0) from what the kernel reckons with, \
         which is what the firmware wrote into CNTFRQ_EL0.\n\
         do: Update the firmware, which is to set CNTFRQ_EL0; a device tree can override it \
         (clock-frequency of the timer).\n\
         price: None for the daemon, which measures the rate itself; the system clock needs it.\n\
         verify: truechimer counters stability --against ntp:HOST\n\
         likely"
    );
    assert_eq!(advice.iter().filter(|one| one.severity == Severity::Problem).count(), 1);

    // 50 ppm is a crystal.
    arm.counters = vec![counter("arm-generic", 25e6, 25e6 * 1.00005)];
    assert!(advise(&arm).iter().all(|one| one.severity == Severity::Good));

    // A rate correction of 300 ppm is worth a look, whatever the counters say.
    arm.realtime =
        Some(Realtime { synchronised: true, max_error_us: 5000, correction_ppm: -300.0 });
    let titles = titles(&advise(&arm));
    assert!(titles[0].starts_with("note: The system clock's rate is corrected"), "{titles:?}");
}

#[test]
fn cpus_that_disagree_are_a_problem_where_it_matters() {
    let mut pc = inventory("good-pc");
    pc.agreement = Some(Agreement { counter: "tsc".into(), cpus: 2, least_ns: 0.0, most_ns: 80.0 });
    let good = &advise(&pc)[0];
    assert_eq!(good.severity, Severity::Good);
    assert!(
        good.why.contains(
            " The TSCs of 2 CPUs were compared: they differ by at most 80 ns, and may be equal."
        ),
        "{good:?}"
    );
    if let Some(agreement) = &mut pc.agreement {
        agreement.least_ns = 1234.4;
    }
    let advice = advise(&pc);
    assert_eq!(titles(&advice), ["problem: The CPUs' counters do not agree"]);
    assert!(advice[0].why.contains("at least 1234 ns"), "{advice:?}");
    assert!(advice[0].what_to_do.as_ref().unwrap().contains("clocksource=hpet"), "{advice:?}");

    let mut sockets = inventory("two-sockets");
    assert_eq!(sockets.cpus.sockets, Some(2));
    let before = advise(&sockets);
    assert!(before[0].what_to_do.as_ref().unwrap().contains("Do not use tsc=reliable"));
    sockets.agreement = pc.agreement;
    let advice = advise(&sockets);
    assert_eq!(advice.len(), 2);
    assert!(advice.iter().all(|one| one.price.is_none()), "the kernel keeps off it: {advice:?}");
}

#[test]
fn readings_by_system_call_and_coarse_steps_are_said() {
    let mut arm = inventory("arm-server");
    let call = ClockCall {
        clock: "CLOCK_REALTIME".into(),
        libc_ns: 400.0,
        system_call_ns: 390.0,
        path: Path::SystemCall,
    };
    arm.clock_calls.push(call.clone());
    assert_eq!(titles(&advise(&arm)), ["note: The generic timer is read by system calls"]);

    let mut container = inventory("container");
    container.clock_calls.push(call);
    assert!(advise(&container)[0].why.contains("by system calls"));
    container.clock_calls[0].path = Path::Vdso;
    assert!(advise(&container)[0].why.contains("without a system call"));
    container.clock_calls[0].path = Path::Unclear;
    assert!(advise(&container)[0].why.ends_with("in some containers."));

    let mut pc = inventory("good-pc");
    pc.auto = Some("tsc".into());
    pc.counters = vec![counter("tsc", 2.4e9, 2.4e9)];
    pc.counters[0].step = Some(Step { counts: 24, ns: 10.0 });
    assert_eq!(advise(&pc).len(), 1);
    pc.counters[0].step = Some(Step { counts: 2400, ns: 1000.0 });
    assert_eq!(titles(&advise(&pc))[0], "note: The counter counts in coarse steps");
}

#[test]
fn the_inventory_is_json() {
    let json = serde_json::to_value(inventory("two-sockets")).unwrap();
    assert_eq!(json["clocksources"][0]["state"], "current");
    assert_eq!(json["clocksources"][0]["by_vdso"], "no");
    assert_eq!(json["log"]["unstable"][0]["name"], "tsc");
    assert_eq!(json["cpus"]["sockets"], 2);
}
