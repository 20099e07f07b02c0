//! The list as text, 80 columns wide.

use std::io::{self, Write};

use truechimer_survey::advice::Advice;
use truechimer_survey::inventory::{
    Access, ByVdso, Clocksource, CounterReport, Inventory, Measured, Path, State,
};

use super::Listed;
use super::figures::{WIDTH, hang, hertz, printable, span, trimmed, wrap};
use truechimer_command::show::many;
use truechimer_command::table::{Side, Table};

/// Where the values of the first part begin.
const INDENT: usize = 12;

/// Writes it all.
pub fn write(listed: &Listed, verbose: bool, out: &mut dyn Write) -> io::Result<()> {
    let inventory = &listed.inventory;
    machine(inventory, verbose, out)?;
    clocksources(inventory, verbose, out)?;
    counters(inventory, out)?;
    calls(inventory, out)?;
    if verbose {
        log(inventory, out)?;
    }
    unknown(inventory, out)?;
    writeln!(out, "\nAdvice")?;
    if listed.advice.is_empty() {
        writeln!(out, "  none: too little is known")?;
    }
    for advice in &listed.advice {
        paragraphs(advice, out)?;
    }
    Ok(())
}

/// A name and what belongs to it, wrapped.
fn pair(name: &str, value: &str, out: &mut dyn Write) -> io::Result<()> {
    let mut first = true;
    for line in wrap(value, WIDTH - INDENT) {
        let name = if first { name } else { "" };
        writeln!(out, "{name:<INDENT$}{line}")?;
        first = false;
    }
    Ok(())
}

fn machine(inventory: &Inventory, verbose: bool, out: &mut dyn Write) -> io::Result<()> {
    for (name, value) in properties(inventory, verbose) {
        pair(name, &value, out)?;
    }
    Ok(())
}

/// Facts about the machine as a whole, by name.
pub fn properties(inventory: &Inventory, verbose: bool) -> Vec<(&'static str, String)> {
    let mut properties = Vec::new();
    let cpus = &inventory.cpus;
    let mut parts = Vec::new();
    parts.extend(cpus.model.clone());
    if !cpus.online.is_empty() {
        let sockets = cpus.sockets.map(|n| format!(" in {}", many(n.into(), "socket", "sockets")));
        let online = many(cpus.online.len() as u64, "CPU", "CPUs");
        parts.push(online + &sockets.unwrap_or_default());
    }
    parts.push(inventory.architecture.clone());
    parts.extend(inventory.kernel.as_ref().map(|release| format!("Linux {release}")));
    properties.push(("machine", parts.join(", ")));
    let host = &inventory.host;
    let firmware: Vec<&str> =
        [&host.vendor, &host.product].into_iter().flatten().map(String::as_str).collect();
    let hypervisor = host.hypervisor.map_or("none seen", |hypervisor| hypervisor.name());
    properties.push((
        "hypervisor",
        match firmware.is_empty() {
            true => hypervisor.to_owned(),
            false => format!("{hypervisor} (firmware: {})", firmware.join(" ")),
        },
    ));
    if let Some(flags) = flags(inventory) {
        properties.push(("TSC", flags));
    }
    let tables = [("HPET", &inventory.firmware.hpet), ("PM timer", &inventory.firmware.pm_timer)];
    let timers = tables.iter().filter_map(|(name, timer)| Some((name, timer.as_ref()?)));
    let timers: Vec<String> = timers
        .map(|(name, timer)| format!("{name} ({} bits, {})", timer.bits, timer.place))
        .collect();
    if !timers.is_empty() {
        properties.push(("firmware", timers.join(", ")));
    }
    if let Some(agreement) = &inventory.agreement {
        let most = trimmed(agreement.most_ns);
        let found = match agreement.least_ns > 0.0 {
            true => format!("differ by {} to {most} ns", trimmed(agreement.least_ns)),
            false => format!("may be equal, differ by at most {most} ns"),
        };
        let (counter, cpus) = (&agreement.counter, agreement.cpus);
        properties.push(("agreement", format!("{counter} of {cpus} CPUs: {found}")));
    }
    if let Some(idle) = &inventory.idle {
        let states = idle.states.iter().map(|state| {
            let latency = state.latency_us.filter(|_| verbose);
            let latency = latency.map(|us| format!(" ({us} µs)")).unwrap_or_default();
            let off = match state.off {
                0 => String::new(),
                off if off == state.of => " off".to_owned(),
                off => format!(" off on {off}"),
            };
            format!("{}{latency}{off}", state.name)
        });
        let states: Vec<String> = states.collect();
        let states = if states.is_empty() { "no states".to_owned() } else { states.join(", ") };
        properties.push(("idle", format!("{}: {states}", idle.driver)));
    }
    if let Some(boot) = &inventory.boot {
        let words = if boot.words.is_empty() {
            "nothing about clocks".to_owned()
        } else {
            boot.words.iter().map(|word| printable(word)).collect::<Vec<_>>().join(" ")
        };
        properties.push(("boot line", words));
    }
    if let Some(clock) = &inventory.realtime {
        let kept = if clock.synchronised {
            format!(
                "synchronised to ±{} ms by its own account",
                trimmed(clock.max_error_us as f64 / 1e3)
            )
        } else {
            "not synchronised".to_owned()
        };
        properties
            .push(("clock", format!("{kept}, rate corrected by {:+.3} ppm", clock.correction_ppm)));
    }
    if let Some(auto) = &inventory.auto {
        properties.push(("truechimer", format!("--counter auto is {auto}")));
    }
    properties
}

/// Words of processor and kernel on the TSC.
fn flags(inventory: &Inventory) -> Option<String> {
    if inventory.architecture != "x86_64" {
        return None;
    }
    let has = |name: &str| inventory.cpus.flag(name);
    let word = |yes: &str, flag: Option<bool>| match flag {
        Some(true) => yes.to_owned(),
        Some(false) => format!("not {yes}"),
        None => format!("{yes}?"),
    };
    let invariant = inventory.cpuid.as_ref().map(|cpuid| cpuid.invariant);
    let mut words = vec![
        word("constant", has("constant_tsc")),
        word("non-stop", has("nonstop_tsc")),
        word("invariant", invariant),
    ];
    for (flag, text) in [
        ("tsc_known_freq", "frequency known"),
        ("tsc_reliable", "called reliable by the hypervisor"),
        ("tsc_adjust", "TSC_ADJUST"),
        ("rdtscp", "rdtscp"),
    ] {
        if has(flag) == Some(true) {
            words.push(text.to_owned());
        }
    }
    let leaves = inventory.cpuid.as_ref().and_then(|cpuid| cpuid.hypervisor.as_ref());
    if let Some(vouched) = leaves.and_then(|leaves| leaves.kvm_clock) {
        let by = if vouched { "vouched for" } else { "not vouched for" };
        words.push(format!("kvm-clock {by}"));
    }
    if leaves.and_then(|leaves| leaves.hyperv_invariant) == Some(true) {
        words.push("invariant by Hyper-V's word".to_owned());
    }
    Some(words.join(", "))
}

fn clocksources(inventory: &Inventory, verbose: bool, out: &mut dyn Write) -> io::Result<()> {
    let shown = |source: &&Clocksource| verbose || source.state != State::Registered;
    let sources: Vec<&Clocksource> = inventory.clocksources.iter().filter(shown).collect();
    if sources.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nClocksources: what the kernel keeps time by")?;
    let mut table = Table::new(&[
        ("", Side::Left),
        ("name", Side::Left),
        ("bits", Side::Right),
        ("nominal", Side::Right),
        ("kernel's", Side::Right),
        ("rolls in", Side::Right),
        ("vDSO", Side::Left),
    ]);
    for source in &sources {
        let nominal = source.nominal.as_ref().map(|nominal| hertz(nominal.hz, 4));
        let kernel = source.kernel.as_ref().map(|kernel| hertz(kernel.hz, 6));
        table.row(vec![
            mark(source.state).to_owned(),
            printable(&source.name),
            source.bits.map_or("-".into(), |bits| bits.to_string()),
            nominal.unwrap_or_else(|| "-".into()),
            kernel.unwrap_or_else(|| "-".into()),
            source.rolls_over_s.map_or("-".into(), span),
            by_vdso(source.by_vdso).to_owned(),
        ]);
    }
    table.write(out)?;
    writeln!(
        out,
        "* in use, + available, - not to be had, x given up. vDSO: whether programs can"
    )?;
    writeln!(out, "read it without a system call; ? if the hypervisor vouches for it.")?;
    for source in sources {
        let shown = match source.state {
            State::Current | State::GivenUp => true,
            State::Available => verbose,
            State::Registered => false,
        };
        if shown {
            let what = source.what.as_ref().filter(|_| verbose);
            let what = what.map(|what| format!("{what}; ")).unwrap_or_default();
            let rating = source.rating.filter(|_| verbose);
            let rating = rating.map(|rating| format!("rating {rating}; ")).unwrap_or_default();
            let text = format!("{}: {what}{rating}{}", source.name, source.verdict.text());
            for line in hang("  ", &printable(&text)) {
                writeln!(out, "{line}")?;
            }
        }
    }
    Ok(())
}

/// One character for the state.
fn mark(state: State) -> &'static str {
    match state {
        State::Current => "*",
        State::Available => "+",
        State::Registered => "-",
        State::GivenUp => "x",
    }
}

/// Word that says whether programs can read it.
pub fn by_vdso(by: ByVdso) -> &'static str {
    match by {
        ByVdso::Yes => "yes",
        ByVdso::IfVouched => "?",
        ByVdso::No => "no",
        ByVdso::Unknown => "-",
    }
}

fn counters(inventory: &Inventory, out: &mut dyn Write) -> io::Result<()> {
    if inventory.counters.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nCounters: what a program can read itself")?;
    let mut table = Table::new(&[
        ("name", Side::Left),
        ("bits", Side::Right),
        ("rolls in", Side::Right),
        ("frequency", Side::Right),
        ("±", Side::Right),
        ("step", Side::Right),
        ("read", Side::Right),
        ("by", Side::Left),
    ]);
    let mut same = false;
    for counter in inventory.counters.iter().filter(|counter| counter.unusable.is_none()) {
        let (frequency, error) = frequency(counter);
        same |= counter.measured.is_some_and(|measured| !measured.independent);
        table.row(vec![
            counter.name.clone(),
            counter.bits.map_or("-".into(), |bits| bits.to_string()),
            counter.rolls_over_s.map_or("-".into(), span),
            frequency,
            error,
            counter.step.map_or("-".into(), |step| format!("{} ns", trimmed(step.ns))),
            counter.read_ns.map_or("-".into(), |ns| format!("{} ns", trimmed(ns))),
            counter.access.map_or("-", Access::name).to_owned(),
        ]);
    }
    table.write(out)?;
    if same {
        let makes = if inventory.current().is_some() { "makes" } else { "may make" };
        let text = format!(
            "= against CLOCK_MONOTONIC_RAW, which the kernel {makes} of the same hardware: what it \
             reckons with, not whether that is right."
        );
        for line in wrap(&text, WIDTH) {
            writeln!(out, "{line}")?;
        }
    }
    for counter in &inventory.counters {
        if let Some(by) = counter.by_realtime {
            let expected = counter.measured.map_or(1e9, |measured| measured.hz);
            writeln!(
                out,
                "{} by the synchronised system clock: {}, {:+.3} ppm ± {:.3}",
                counter.name,
                hertz(by.hz, digits(&by)),
                (by.hz / expected - 1.0) * 1e6,
                by.error_hz / by.hz * 1e6
            )?;
        }
    }
    for counter in &inventory.counters {
        if let Some(why) = &counter.unusable {
            for line in hang(&format!("{:<14}", counter.name), &printable(why)) {
                writeln!(out, "{line}")?;
            }
        }
    }
    Ok(())
}

/// The frequency and its error: measured, or as it is by definition. An equals sign says that the
/// yardstick is the same piece of hardware.
fn frequency(counter: &CounterReport) -> (String, String) {
    match (&counter.measured, &counter.nominal) {
        (Some(measured), _) => {
            let sign = if measured.independent { "" } else { "=" };
            (format!("{sign}{}", hertz(measured.hz, digits(measured))), relative(measured))
        }
        (None, Some(nominal)) => (hertz(nominal.hz, 7), "-".into()),
        (None, None) => ("-".into(), "-".into()),
    }
}

/// Number of digits that the error leaves.
fn digits(measured: &Measured) -> usize {
    let digits = -(measured.error_hz / measured.hz).log10();
    if digits.is_finite() { (digits.ceil() as usize).clamp(4, 12) } else { 12 }
}

/// The error as a ratio.
fn relative(measured: &Measured) -> String {
    let ppb = measured.error_hz / measured.hz * 1e9;
    if ppb < 999.5 { format!("{ppb:.0} ppb") } else { format!("{} ppm", trimmed(ppb / 1e3)) }
}

fn calls(inventory: &Inventory, out: &mut dyn Write) -> io::Result<()> {
    if inventory.clock_calls.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nThe kernel's clocks by clock_gettime")?;
    let mut table = Table::new(&[
        ("clock", Side::Left),
        ("reading", Side::Right),
        ("system call", Side::Right),
        ("read", Side::Left),
    ]);
    for call in &inventory.clock_calls {
        table.row(vec![
            call.clock.clone(),
            format!("{} ns", trimmed(call.libc_ns)),
            format!("{} ns", trimmed(call.system_call_ns)),
            path(call.path).to_owned(),
        ]);
    }
    table.write(out)
}

/// The way of a reading.
pub fn path(path: Path) -> &'static str {
    match path {
        Path::Vdso => "by vDSO",
        Path::SystemCall => "by system call",
        Path::Unclear => "unclear: the figures are too close",
    }
}

fn log(inventory: &Inventory, out: &mut dyn Write) -> io::Result<()> {
    let Some(log) = &inventory.log else { return Ok(()) };
    let from = if log.complete { "" } else { " (its beginning is lost)" };
    writeln!(out, "\nThe kernel's log about clocks{from}")?;
    for line in &log.lines {
        let at = format!("{:>12.6}  ", line.at_us as f64 * 1e-6);
        for line in hang(&at, &printable(&line.text)) {
            writeln!(out, "{line}")?;
        }
    }
    Ok(())
}

fn unknown(inventory: &Inventory, out: &mut dyn Write) -> io::Result<()> {
    if inventory.unknown.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nNot found out")?;
    for unknown in &inventory.unknown {
        for line in hang("  ", &printable(&format!("{}: {}", unknown.what, unknown.why))) {
            writeln!(out, "{line}")?;
        }
    }
    Ok(())
}

fn paragraphs(advice: &Advice, out: &mut dyn Write) -> io::Result<()> {
    let head = format!("{:<9} ", advice.severity.name().to_uppercase());
    for line in hang(&head, &printable(&advice.title)) {
        writeln!(out, "{line}")?;
    }
    for line in hang("  ", &printable(&advice.why)) {
        writeln!(out, "{line}")?;
    }
    for (name, text) in details(advice) {
        for line in hang(&format!("  {name:<8}"), &printable(&text)) {
            writeln!(out, "{line}")?;
        }
    }
    writeln!(out)
}

/// Details of a piece of advice, by name.
pub fn details(advice: &Advice) -> Vec<(&'static str, String)> {
    let mut details = Vec::new();
    let mut add = |name, text: &Option<String>| {
        if let Some(text) = text {
            details.push((name, text.clone()));
        }
    };
    add("do", &advice.what_to_do);
    add("price", &advice.price);
    add("sure", &Some(advice.sure.name().to_owned()));
    add("verify", &advice.verify);
    details
}
