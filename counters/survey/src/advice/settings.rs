//! Advice on what has been set, what was measured, and what cannot be seen.

use super::{Advice, Sure};
use crate::inventory::{Inventory, Path, known_clocksource};

/// A frequency so far from what was promised is a fault, not a crystal.
const FAULT_PPM: f64 = 500.0;
/// No crystal that is in order is further off than this.
const DOUBT_PPM: f64 = 100.0;

pub(super) fn advise(inventory: &Inventory, advice: &mut Vec<Advice>) {
    unseen(inventory, advice);
    parameters(inventory, advice);
    frequencies(inventory, advice);
    unknown_source(inventory, advice);
    coarse(inventory, advice);
}

/// Without /sys: what little can be said.
fn unseen(inventory: &Inventory, advice: &mut Vec<Advice>) {
    if inventory.current().is_some() {
        return;
    }
    let path = match inventory.clock_calls.first() {
        Some(call) if call.path == Path::Vdso => {
            " The clock is read without a system call, so it is one of those that programs can \
             read (on a PC the TSC or a clock made of it)."
        }
        Some(call) if call.path == Path::SystemCall => {
            " The clock is read by system calls, so it is none of those that programs can read: \
             on a PC most likely HPET or ACPI PM timer."
        }
        _ => "",
    };
    advice.push(
        Advice::note(
            Sure::Likely,
            "Which clocksource the kernel uses cannot be seen here",
            format!("/sys is missing or closed, as it is in some containers.{path}"),
        )
        .act("Run truechimer counters list on the host, or mount /sys (reading it is enough).")
        .verify("cat /sys/devices/system/clocksource/clocksource0/current_clocksource"),
    );
}

fn parameters(inventory: &Inventory, advice: &mut Vec<Advice>) {
    let Some(boot) = &inventory.boot else { return };
    let on_tsc = inventory.current() == Some("tsc");
    let off = ["reliable", "nowatchdog"].into_iter().find(|word| boot.tsc_is(word));
    if let Some(word) = off.filter(|_| on_tsc) {
        let what = match word {
            "reliable" => "neither tests the TSC at boot nor compares it at run time",
            _ => "does not compare the TSC with another counter at run time",
        };
        let guest = inventory.is_guest();
        advice.push(
            Advice::note(
                Sure::Certain,
                "The watchdog over the TSC is off",
                format!(
                    "With tsc={word} the kernel {what}: {}.",
                    if guest {
                        "usual in a virtual machine, where such comparisons often fail for \
                         nothing"
                    } else {
                        "if it stops, jumps or differs between CPUs, time goes wrong without a \
                         word. What is won is a reading every half second less, which matters \
                         where no CPU may be interrupted"
                    }
                ),
            )
            .act(if guest {
                "Leave it.".to_owned()
            } else {
                format!("Boot without tsc={word} unless its interrupts matter.")
            })
            .price(if guest {
                "A TSC that fails is not noticed by the kernel."
            } else {
                "Without it: an interrupt every half second, and perhaps a false alarm that costs \
                 the TSC."
            })
            .verify("truechimer counters stability --against ntp:HOST"),
        );
    }
    if let Some(name) = &boot.clocksource
        && inventory.current().is_some_and(|current| current != name)
    {
        advice.push(
            Advice::note(
                Sure::Certain,
                &format!("The boot parameter clocksource={name} has no effect"),
                format!(
                    "The kernel keeps time by '{}': there is no '{name}', it was found unfit, or \
                     somebody has changed it since.",
                    inventory.current().unwrap_or_default()
                ),
            )
            .act("Take it out, or use a name from the list."),
        );
    }
    idling(inventory, advice);
}

/// Parameters that keep the CPUs from sleeping.
fn idling(inventory: &Inventory, advice: &mut Vec<Advice>) {
    let Some(boot) = &inventory.boot else { return };
    let nonstop = inventory.cpus.flag("nonstop_tsc") == Some(true);
    let need = if nonstop {
        "The TSC does not need it: it runs on in all idle states (nonstop_tsc)."
    } else {
        "It keeps a TSC running that would stop in idle states."
    };
    if boot.idle.as_deref() == Some("poll") {
        advice.push(
            Advice::note(
                Sure::Certain,
                "idle=poll is set: the CPUs never rest",
                format!("{need} What it does give is the shortest time to wake up."),
            )
            .act(if nonstop {
                "Without it, unless wake-up times matter. A program can ask for the same while it \
                 runs, by holding /dev/cpu_dma_latency open with 0 written to it."
            } else {
                "Leave it if the TSC is needed; else another clocksource."
            })
            .price(
                "It costs power and heat all the time, takes turbo frequencies from the busy CPUs, \
                 and half a core from the other thread where threads share cores.",
            )
            .verify("truechimer counters latency, with and without"),
        );
    }
    let mut caps = Vec::new();
    if let Some(n) = boot.intel_idle_max_cstate {
        caps.push(format!("intel_idle.max_cstate={n}"));
    }
    if let Some(n) = boot.processor_max_cstate {
        caps.push(format!("processor.max_cstate={n}"));
    }
    if !caps.is_empty() {
        let zero = boot.intel_idle_max_cstate == Some(0) && boot.processor_max_cstate.is_none();
        advice.push(
            Advice::note(
                Sure::Certain,
                &format!("Idle states are limited by {}", caps.join(" and ")),
                format!(
                    "{need} Shallow states make for short and even wake-up times.{}",
                    if zero {
                        " intel_idle.max_cstate=0 alone does not limit them: it leaves the CPUs to \
                         the driver acpi_idle, which processor.max_cstate limits."
                    } else {
                        ""
                    }
                ),
            )
            .price("It costs power and heat, and turbo frequencies for the busy CPUs.")
            .verify("truechimer counters latency, with and without"),
        );
    }
}

/// Counters that run otherwise than promised.
fn frequencies(inventory: &Inventory, advice: &mut Vec<Advice>) {
    for counter in &inventory.counters {
        let Some(by_seconds) = counter.by_realtime else { continue };
        let Some(expected) =
            counter.measured.map(|m| m.hz).or_else(|| (counter.name == "raw").then_some(1e9))
        else {
            continue;
        };
        let ppm = (by_seconds.hz / expected - 1.0) * 1e6;
        let error = by_seconds.error_hz / by_seconds.hz * 1e6;
        // Of counters on the same hardware the first one says it for all.
        if ppm.abs() - error <= FAULT_PPM
            || counter.name.contains('-') && counter.name != "arm-generic"
        {
            continue;
        }
        let arm = inventory.architecture == "aarch64";
        advice.push(
            Advice::problem(
                Sure::Likely,
                &format!("The kernel has a wrong idea of the frequency of '{}'", counter.name),
                format!(
                    "By the synchronised system clock it is {ppm:+.0} ppm (±{error:.0}) from what \
                     the kernel reckons with, {}.",
                    if arm {
                        "which is what the firmware wrote into CNTFRQ_EL0"
                    } else {
                        "more than any crystal: a calibration at boot that went wrong, or a system \
                         clock that is just being moved"
                    }
                ),
            )
            .act(if arm {
                "Update the firmware, which is to set CNTFRQ_EL0; a device tree can override it \
                 (clock-frequency of the timer)."
            } else {
                "Boot again: calibrations differ. tsc=recalibrate (from 6.3 on) checks a frequency \
                 that firmware or hypervisor gave against HPET or ACPI PM timer, and warns in the \
                 log if it is off, but goes on with it; tsc_early_khz= sets the first guess."
            })
            .price(
                "None for the daemon, which measures the rate itself; the system clock needs it.",
            )
            .verify("truechimer counters stability --against ntp:HOST"),
        );
        break;
    }
    drift(inventory, advice);
    promised(inventory, advice);
}

/// The rate by which the system clock is corrected.
fn drift(inventory: &Inventory, advice: &mut Vec<Advice>) {
    let Some(clock) = inventory.realtime.as_ref().filter(|clock| clock.synchronised) else {
        return;
    };
    if clock.correction_ppm.abs() <= DOUBT_PPM {
        return;
    }
    advice.push(
        Advice::note(
            Sure::Possible,
            "The system clock's rate is corrected by more than crystals are off",
            format!(
                "{:+.0} ppm. Either it is being slewed at the moment, or the kernel's calibration \
                 of its clocksource is that far off.",
                clock.correction_ppm
            ),
        )
        .act("Look again in an hour. If it stays so, boot again: calibrations differ.")
        .verify("truechimer counters stability --against ntp:HOST"),
    );
}

/// Compares the word of processor or hypervisor with what the kernel reckons with.
fn promised(inventory: &Inventory, advice: &mut Vec<Advice>) {
    for source in &inventory.clocksources {
        let (Some(nominal), Some(kernel)) = (&source.nominal, &source.kernel) else { continue };
        // CPUID 16h is a marketing figure, whole MHz.
        if nominal.from == "CPUID 16h" || !source.state.usable() {
            continue;
        }
        let ppm = (kernel.hz / nominal.hz - 1.0) * 1e6;
        if ppm.abs() <= FAULT_PPM {
            continue;
        }
        advice.push(
            Advice::note(
                Sure::Likely,
                &format!(
                    "The kernel reckons with another frequency of '{}' than it has",
                    source.name
                ),
                format!(
                    "{:.6} MHz ({}) against {:.6} MHz ({}): {ppm:+.0} ppm.",
                    kernel.hz / 1e6,
                    kernel.from,
                    nominal.hz / 1e6,
                    nominal.from
                ),
            )
            .verify("truechimer counters stability --against ntp:HOST shows which is right"),
        );
    }
}

fn unknown_source(inventory: &Inventory, advice: &mut Vec<Advice>) {
    let Some(current) = inventory.current() else { return };
    if known_clocksource(current).is_some() || inventory.architecture == "aarch64" {
        return;
    }
    advice.push(
        Advice::note(
            Sure::Certain,
            &format!("Nothing is known here of the clocksource '{current}'"),
            "Its width, frequency and cost are for measuring.",
        )
        .verify("truechimer counters bench; truechimer counters stability"),
    );
}

/// A counter whose steps are the limit of what can be measured with it.
fn coarse(inventory: &Inventory, advice: &mut Vec<Advice>) {
    let auto = inventory.auto.as_deref().and_then(|name| inventory.counter(name));
    let Some((counter, step)) = auto.and_then(|counter| Some((counter, counter.step?))) else {
        return;
    };
    let read_ns = counter.read_ns.unwrap_or(0.0);
    if step.ns < 100.0 || step.ns < 2.0 * read_ns {
        return;
    }
    advice.push(
        Advice::note(
            Sure::Certain,
            "The counter counts in coarse steps",
            format!(
                "'{}' moves on by {:.0} ns at a time while a reading takes {read_ns:.0} ns: no \
                 stamp is better than that.",
                counter.name, step.ns
            ),
        )
        .verify("truechimer counters latency"),
    );
}
