//! PCs: the TSC, and what the kernel uses in its place.

use super::{Advice, Sure, cost_of_clock};
use crate::inventory::{Inventory, Unstable};

const STABILITY: &str = "truechimer counters stability --against ntp:HOST, over some hours";

pub(super) fn advise(inventory: &Inventory, advice: &mut Vec<Advice>) {
    disagreement(inventory, advice);
    stops_in_idle(inventory, advice);
    match inventory.current() {
        Some("tsc") => on_tsc(inventory, advice),
        Some("tsc-early") => advice.push(
            Advice::note(
                Sure::Certain,
                "The kernel has not settled on its clocksource yet",
                "tsc-early is the TSC before its frequency is refined, in the first seconds after \
                 boot.",
            )
            .act("Look again in a few seconds."),
        ),
        Some(current @ ("hpet" | "acpi_pm" | "pit" | "jiffies" | "refined-jiffies")) => {
            not_on_tsc(inventory, current, advice);
        }
        _ => {}
    }
    firmware(inventory, advice);
    disturbed(inventory, advice);
}

/// True if processor and kernel call the TSC constant and non-stop; `None` if neither is known.
pub(super) fn steady(inventory: &Inventory) -> Option<bool> {
    let flags = inventory.cpus.flag("constant_tsc").zip(inventory.cpus.flag("nonstop_tsc"));
    let flags = flags.map(|(constant, nonstop)| constant && nonstop);
    flags.or(inventory.cpuid.as_ref().map(|cpuid| cpuid.invariant))
}

/// Features that are missing, in the kernel's words.
fn missing(inventory: &Inventory) -> String {
    let lacks = |flag: &&&str| inventory.cpus.flag(flag) == Some(false);
    let flags: Vec<&str> = ["constant_tsc", "nonstop_tsc"].iter().filter(lacks).copied().collect();
    if flags.is_empty() { "invariant TSC (CPUID)".to_owned() } else { flags.join(" and ") }
}

/// The kernel gave the TSC up.
pub(super) fn given_up(inventory: &Inventory) -> Option<&Unstable> {
    inventory.log.as_ref().and_then(|log| log.given_up("tsc").or(log.given_up("tsc-early")))
}

/// Differences below this are no matter, ns: processors round readings, and some add a count to
/// one that would repeat the last.
const APART_NS: f64 = 20.0;

/// True if the CPUs' counters differ for certain.
fn differ(inventory: &Inventory) -> bool {
    inventory.agreement.as_ref().is_some_and(|agreement| agreement.least_ns > APART_NS)
}

fn on_tsc(inventory: &Inventory, advice: &mut Vec<Advice>) {
    if differ(inventory) {
        return; // said already, and worse than anything below
    }
    let Some(steady) = steady(inventory) else {
        advice.push(
            Advice::note(
                Sure::Possible,
                "The kernel keeps time by the TSC; whether that is steady cannot be seen here",
                "Neither the processor's flags nor CPUID can be read, so that only the kernel's \
                 choice speaks for it.",
            )
            .verify(STABILITY),
        );
        return;
    };
    if !steady {
        advice.push(
            Advice::problem(
                Sure::Certain,
                "The kernel keeps time by a TSC that may change its rate or stop",
                format!(
                    "The processor lacks {}: its TSC follows the processor's clock or stops in \
                     idle states, and time goes wrong with it. That it is used all the same is \
                     due to a boot parameter (tsc=reliable, clocksource=tsc) or to the \
                     hypervisor's word.",
                    missing(inventory)
                ),
            )
            .act("Boot without these parameters, or with clocksource=hpet (acpi_pm).")
            .price("Reading the clock becomes a system call and takes some µs instead of ns.")
            .verify(STABILITY),
        );
        return;
    }
    let compared = match &inventory.agreement {
        Some(agreement) => format!(
            " The TSCs of {} CPUs were compared: they differ by at most {:.0} ns, and may be equal.",
            agreement.cpus, agreement.most_ns
        ),
        None => String::new(),
    };
    advice.push(
        Advice::good(
            if inventory.is_guest() { Sure::Likely } else { Sure::Certain },
            "The kernel keeps time by the TSC, as it should",
            format!(
                "It has one rate in all power states and runs on in idle ones, takes one \
                 instruction to read, and programs can read it without a system call.{compared}{}",
                trusted(inventory)
            ),
        )
        .verify(STABILITY),
    );
}

fn not_on_tsc(inventory: &Inventory, current: &str, advice: &mut Vec<Advice>) {
    let boot = inventory.boot.clone().unwrap_or_default();
    let slow = format!(
        "{} Every reading of the clock is a system call{}.{}",
        what_it_is(current),
        if inventory.is_guest() {
            " in which the virtual machine must wait for the hypervisor's emulation of the timer"
        } else {
            " and an access to the chipset, a µs or so"
        },
        cost_of_clock(inventory)
    );
    if matches!(current, "jiffies" | "refined-jiffies" | "pit") {
        advice.push(
            Advice::problem(
                Sure::Certain,
                "The kernel has found no better clock than its timer interrupt",
                format!(
                    "'{current}' moves on once per interrupt, every 1 to 10 ms, and loses time \
                     when interrupts are late. High-resolution timers do not work with it."
                ),
            )
            .act(
                "Look in the kernel's log for what became of tsc, hpet and acpi_pm; in a virtual \
                 machine ask for a clock of the hypervisor's. Take out notsc, tsc=unstable, \
                 hpet=disable and pmtmr=0 if they are among the boot parameters.",
            )
            .verify("truechimer counters bench; truechimer counters latency"),
        );
        return;
    }
    let forced_by = if boot.tsc_is("unstable") {
        Some("tsc=unstable")
    } else if boot.notsc {
        Some("notsc")
    } else {
        None
    };
    if let Some(word) = forced_by {
        advice.push(
            Advice::note(
                Sure::Certain,
                "A boot parameter keeps the kernel off the TSC",
                format!("'{word}' is among the boot parameters. {slow}"),
            )
            .act(format!("If nobody knows why it is there, boot without '{word}'."))
            .price(
                "It may have been put there for a reason: TSCs that differ between sockets, or \
                 jump. Then time would go wrong.",
            )
            .verify(format!("after that, truechimer counters list, and {STABILITY}")),
        );
        return;
    }
    if let Some(unstable) = given_up(inventory) {
        advice.push(unstable_tsc(inventory, unstable, &slow));
        return;
    }
    if inventory.offers("tsc") {
        let forced = boot.clocksource.as_deref() == Some(current);
        let why = if forced {
            format!("'clocksource={current}' among the boot parameters keeps the kernel off it.")
        } else {
            changed_from_tsc(inventory)
        };
        if steady(inventory) == Some(true) && !differ(inventory) {
            let mut switch = Advice::problem(
                Sure::Certain,
                "The TSC is there and steady, but the kernel does not keep time by it",
                format!("{why} {slow}"),
            )
            .act(if forced {
                format!(
                    "Now: truechimer counters select tsc. For good: boot without \
                     'clocksource={current}'."
                )
            } else {
                "truechimer counters select tsc".to_owned()
            })
            .price("None that is known, unless it was chosen so for a reason.")
            .verify("truechimer counters bench --switch");
            if inventory.log.is_none() {
                switch.sure = Sure::Likely;
            }
            advice.push(switch);
        } else {
            advice.push(rightly_not(inventory, current, &slow));
        }
        return;
    }
    if steady(inventory) == Some(false) {
        advice.push(rightly_not(inventory, current, &slow));
        return;
    }
    advice.push(
        Advice::problem(
            Sure::Likely,
            "The kernel does not offer the TSC",
            format!(
                "It does on every machine but where it found it unreliable, and the part of its \
                 log that would say why cannot be read. {slow}"
            ),
        )
        .act("As root: dmesg | grep -i -e tsc -e clocksource, and run this again.")
        .verify(STABILITY),
    );
}

/// Sentence on how far the trust goes, or nothing.
fn trusted(inventory: &Inventory) -> &'static str {
    if inventory.is_guest() {
        " In a virtual machine all this is the hypervisor's promise, which holds until it is moved \
         or restored."
    } else if inventory.cpus.flag("tsc_adjust") == Some(true) {
        " As it also has the register TSC_ADJUST, which shows tampering by firmware, kernels from \
         5.17 on do without the watchdog over it on machines of few sockets."
    } else {
        ""
    }
}

/// Sentence on how the kernel came to use something else than a TSC that it offers.
fn changed_from_tsc(inventory: &Inventory) -> String {
    let switches = inventory.log.as_ref().map(|log| log.switches.as_slice()).unwrap_or_default();
    match switches {
        [.., before, last] if before.to == "tsc" => format!(
            "It did until {:.0} s after boot, when somebody changed it to {}.",
            last.at_us as f64 * 1e-6,
            last.to
        ),
        _ => "Somebody has chosen the other, or the TSC has come only lately (it does a second or \
              two after boot)."
            .to_owned(),
    }
}

fn what_it_is(current: &str) -> &'static str {
    match current {
        "hpet" => "The HPET is a timer of the chipset.",
        "acpi_pm" => {
            "The ACPI PM timer is a counter of the chipset with 24 bits, 3.58 MHz (steps of \
             279 ns)."
        }
        _ => "It is a timer outside the processor.",
    }
}

fn rightly_not(inventory: &Inventory, current: &str, slow: &str) -> Advice {
    Advice::note(
        Sure::Certain,
        &format!("{current} is the right choice on this processor, though a slow one"),
        format!(
            "The TSC would not do: the processor lacks {}, so it changes its rate or stops. {slow}",
            missing(inventory)
        ),
    )
    .act(
        "Leave it. Programs that read the clock very often can use the daemon's clock over \
         --counter hpet where they may map the device.",
    )
    .verify("truechimer counters bench")
}

fn unstable_tsc(inventory: &Inventory, unstable: &Unstable, slow: &str) -> Advice {
    let at = unstable.at_us as f64 * 1e-6;
    let found = format!("{at:.0} s after boot the kernel gave it up: {}.", unstable.why);
    let why = unstable.why.to_ascii_lowercase();
    let halts = why.contains("halt") || why.contains("idle") || why.contains("c2");
    let apart = ["warp", "sync", "sockets"].iter().any(|word| why.contains(word));
    let title = "The kernel found the TSC unstable and does not use it";
    if halts {
        return Advice::problem(
            Sure::Certain,
            title,
            format!("{found} It stops while the processor idles deeply. {slow}"),
        )
        .act(
            "If the cost of reading the clock matters: boot with processor.max_cstate=1 (and \
             intel_idle.max_cstate=0 where that driver is in use), or idle=poll.",
        )
        .price(
            "Power and heat: idle processors no longer sleep deeply, with idle=poll not at all, \
             which also takes turbo frequencies and shared core time from the busy ones.",
        )
        .verify(STABILITY);
    }
    if apart {
        return Advice::problem(
            Sure::Certain,
            title,
            format!("{found} Its readings differ between CPUs. {slow}"),
        )
        .act(
            "Firmware is to keep them together: update it. Do not use tsc=reliable here, which \
             would only hide it: time would jump back and forth as programs move between CPUs.",
        )
        .verify("truechimer counters list -v shows how far the CPUs' counters are apart");
    }
    let disturbed = if inventory.is_guest() {
        "In a virtual machine it is often not the TSC that fails but the comparison: the virtual \
         CPU was stopped between two readings."
    } else {
        "On processors with a constant, non-stop TSC it is often not the TSC that fails but the \
         comparison, disturbed by firmware (system management interrupts), overload, or an HPET \
         that stops in deep idle states."
    };
    if steady(inventory) == Some(true) {
        Advice::problem(Sure::Possible, title, format!("{found} {disturbed} {slow}"))
            .act(
                "Update firmware and kernel first. If the TSC then proves good, boot with \
             tsc=nowatchdog (no comparison at run time) or tsc=reliable (no tests at boot either).",
            )
            .price(
                "The kernel no longer notices when the TSC does go wrong, and time goes wrong with \
             it in silence.",
            )
            .verify(format!("{STABILITY}, of --counter tsc: a good TSC is steady to below 1 ppm"))
    } else {
        Advice::problem(
            Sure::Certain,
            title,
            format!(
                "{found} The processor lacks {}: that is what such a TSC is like. {slow}",
                missing(inventory)
            ),
        )
        .act("Leave it so.")
    }
}

fn disagreement(inventory: &Inventory, advice: &mut Vec<Advice>) {
    let Some(agreement) = inventory.agreement.as_ref().filter(|_| differ(inventory)) else {
        return;
    };
    let sockets = inventory.cpus.sockets.filter(|sockets| *sockets > 1);
    let sockets = sockets.map(|n| format!(" in {n} sockets")).unwrap_or_default();
    let used = inventory.current() == Some("tsc");
    let mut found = Advice::problem(
        Sure::Certain,
        "The CPUs' counters do not agree",
        format!(
            "Measured here: among {} CPUs{sockets} the counters ({}) differ by at least {:.0} ns. A \
             program that moves between CPUs may see time go back by as much.",
            agreement.cpus, agreement.counter, agreement.least_ns
        ),
    )
    .act(
        if inventory.is_guest() {
            "Ask for a host whose hypervisor keeps the TSCs of the virtual CPUs together. Until \
             then use the hypervisor's own clock or another clocksource (boot with tsc=unstable), \
             and run truechimer with --counter raw."
        } else {
            "Update the firmware, which is to start the TSCs together. Until then boot with \
             clocksource=hpet (or tsc=unstable), and run truechimer with --counter raw."
        },
    )
    .price("Reading the clock becomes a system call and takes some µs instead of ns.")
    .verify("run this again while the machine is idle; dmesg | grep -i 'tsc'");
    if !used {
        found.what_to_do = Some(
            "The kernel does not use the TSC, which is right. Run truechimer with --counter raw."
                .to_owned(),
        );
        found.price = None;
    }
    advice.push(found);
}

/// A TSC without nonstop_tsc, used or offered, and deep idle states.
fn stops_in_idle(inventory: &Inventory, advice: &mut Vec<Advice>) {
    let Some(idle) = &inventory.idle else { return };
    let deep = idle.deep();
    let polls = inventory.boot.as_ref().is_some_and(|b| b.idle.as_deref() == Some("poll"));
    let stops = inventory.cpus.flag("nonstop_tsc") == Some(false);
    if deep.is_empty() || !stops || polls || inventory.is_guest() {
        return;
    }
    // Where the kernel uses another clock all is well, and said elsewhere.
    if inventory.current() != Some("tsc") {
        return;
    }
    let (word, of) = match idle.driver.as_str() {
        "intel_idle" => ("intel_idle.max_cstate=1", "intel_idle"),
        _ => ("processor.max_cstate=1", "acpi_idle"),
    };
    advice.push(
        Advice::problem(
            Sure::Certain,
            "The TSC stops in idle states that the CPUs may enter",
            format!(
                "The processor lacks nonstop_tsc, and the idle states {} are on (driver {}).",
                deep.join(", "),
                idle.driver
            ),
        )
        .act(format!(
            "Boot with {word}, which keeps {of} to the shallowest state, or use another \
             clocksource (clocksource=hpet). idle=poll keeps the CPUs from idling at all."
        ))
        .price(
            "Power and heat; with idle=poll also less turbo, and less for the other thread of \
             each core.",
        )
        .verify(
            "truechimer counters stability with the machine idle: the rate wanders if it stops",
        ),
    );
}

fn firmware(inventory: &Inventory, advice: &mut Vec<Advice>) {
    let bugs = inventory.log.as_ref().map(|log| log.firmware_bugs.as_slice()).unwrap_or_default();
    let Some(first) = bugs.first() else { return };
    let guest = inventory.is_guest();
    advice.push(
        Advice::note(
            Sure::Certain,
            "The kernel complains about the firmware's handling of the TSC",
            format!(
                "Its log says '{first}'{}.{}",
                if bugs.len() > 1 {
                    format!(" and more ({} lines)", bugs.len())
                } else {
                    String::new()
                },
                if guest {
                    " In a virtual machine the hypervisor stands for the firmware."
                } else {
                    ""
                }
            ),
        )
        .act(if guest {
            "Nothing, as long as the measured frequency is right."
        } else {
            "Update the firmware."
        })
        .verify("truechimer counters stability --against ntp:HOST"),
    );
}

fn disturbed(inventory: &Inventory, advice: &mut Vec<Advice>) {
    let times = inventory.log.as_ref().map_or(0, |log| log.watchdog_disturbed);
    if times == 0 {
        return;
    }
    advice.push(
        Advice::note(
            Sure::Likely,
            "The kernel's comparison of clocks was disturbed",
            format!(
                "{times} times it had to read again or to leave a check out, as something held the \
                 CPU up in between: the hypervisor, firmware, or a slow timer. Too many of these \
                 in a row, and older kernels give a good TSC up."
            ),
        )
        .verify("truechimer counters latency shows how long readings are held up"),
    );
}
