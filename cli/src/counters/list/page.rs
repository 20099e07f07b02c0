//! The list as a section of a report.

use truechimer_report::{Cell, Section, Table, Tone, Unit};
use truechimer_survey::advice::Severity;
use truechimer_survey::inventory::{Access, Inventory, State};

use super::Listed;
use super::figures::span;
use super::screen::{by_vdso, details, path, properties};

/// The section of `truechimer counters report`: the machine, its clocksources and counters, what
/// the kernel's clocks cost, and advice.
pub fn section(listed: &Listed) -> Section {
    let inventory = &listed.inventory;
    let mut machine = Table::new("The machine").head(["", ""]);
    for (name, value) in properties(inventory, true) {
        machine = machine.row(name, [value]);
    }
    let mut section = Section::new("Counters and clocksources")
        .table(machine)
        .table(clocksources(inventory))
        .table(counters(inventory))
        .table(unusable(inventory));
    if inventory.counters.iter().any(|c| c.measured.is_some_and(|m| !m.independent)) {
        section = section.text(
            "Frequencies are measured against CLOCK_MONOTONIC_RAW. Where the kernel makes that \
             clock of the same hardware, the figure is what the kernel reckons with, and does not \
             show whether it is right.",
        );
    }
    section = section.table(calls(inventory)).table(unknown(inventory)).table(advice(listed));
    if let Some(log) = inventory.log.as_ref().filter(|log| !log.lines.is_empty()) {
        let lines = log.lines.iter();
        let lines =
            lines.map(|line| format!("{:>12.6}  {}\n", line.at_us as f64 * 1e-6, line.text));
        section = section.text("What the kernel's log says about clocks:");
        section = section.code(&lines.collect::<String>());
    }
    section
}

fn number(value: Option<f64>, unit: Unit, digits: usize) -> Cell {
    value.map_or_else(Cell::missing, |value| Cell::number(value, unit).digits(digits))
}

fn bits(bits: Option<u32>) -> Cell {
    bits.map_or_else(Cell::missing, |bits| Cell::count(bits.into()))
}

fn clocksources(inventory: &Inventory) -> Table {
    let mut table = Table::new("Clocksources: what the kernel keeps time by").head([
        "name",
        "what",
        "state",
        "bits",
        "nominal",
        "kernel's",
        "rolls over in",
        "vDSO",
        "watchdog",
    ]);
    for source in &inventory.clocksources {
        let tone = match source.state {
            State::Current => Tone::Good,
            State::GivenUp => Tone::Bad,
            State::Available => Tone::Plain,
            State::Registered => Tone::Quiet,
        };
        table = table.row(
            source.name.clone(),
            [
                Cell::text(source.what.clone().unwrap_or_else(|| "unknown".into())),
                Cell::text(source.state.name()).tone(tone),
                bits(source.bits),
                number(source.nominal.as_ref().map(|nominal| nominal.hz), Unit::Hertz, 7),
                number(source.kernel.as_ref().map(|kernel| kernel.hz), Unit::Hertz, 7),
                roll_over(source.rolls_over_s),
                Cell::text(by_vdso(source.by_vdso)),
                Cell::text(source.verdict.text()),
            ],
        );
    }
    table
}

fn counters(inventory: &Inventory) -> Table {
    let mut table = Table::new("Counters: what a program can read itself").head([
        "name",
        "what",
        "bits",
        "rolls over in",
        "frequency",
        "±",
        "step",
        "a reading",
        "by",
    ]);
    for counter in inventory.counters.iter().filter(|counter| counter.unusable.is_none()) {
        let measured = counter.measured;
        let nominal = counter.nominal.as_ref().map(|nominal| nominal.hz);
        table = table.row(
            counter.name.clone(),
            [
                Cell::text(counter.what.clone()),
                bits(counter.bits),
                roll_over(counter.rolls_over_s),
                number(measured.map(|m| m.hz).or(nominal), Unit::Hertz, 10),
                number(measured.map(|m| m.error_hz / m.hz), Unit::Rate, 2),
                number(counter.step.map(|step| step.ns * 1e-9), Unit::Seconds, 3),
                number(counter.read_ns.map(|ns| ns * 1e-9), Unit::Seconds, 3),
                Cell::text(counter.access.map_or("", Access::name)),
            ],
        );
    }
    table
}

/// Counters that this process cannot read, and why.
fn unusable(inventory: &Inventory) -> Table {
    let mut table = Table::new("Counters that cannot be read here").head(["name", "what", "why"]);
    for counter in &inventory.counters {
        if let Some(why) = &counter.unusable {
            let cells = [Cell::text(counter.what.clone()), Cell::text(why.clone())];
            table = table.row(counter.name.clone(), cells);
        }
    }
    table
}

fn roll_over(seconds: Option<f64>) -> Cell {
    seconds.map_or_else(Cell::missing, |seconds| Cell::text(span(seconds)))
}

fn calls(inventory: &Inventory) -> Table {
    let mut table = Table::new("The kernel's clocks by clock_gettime").head([
        "clock",
        "a reading",
        "as a system call",
        "read",
    ]);
    for call in &inventory.clock_calls {
        table = table.row(
            call.clock.clone(),
            [
                number(Some(call.libc_ns * 1e-9), Unit::Seconds, 3),
                number(Some(call.system_call_ns * 1e-9), Unit::Seconds, 3),
                Cell::text(path(call.path)),
            ],
        );
    }
    table
}

fn unknown(inventory: &Inventory) -> Table {
    let table = Table::new("Not found out").head(["what", "why"]);
    inventory
        .unknown
        .iter()
        .fold(table, |table, unknown| table.row(unknown.what.clone(), [unknown.why.clone()]))
}

fn advice(listed: &Listed) -> Table {
    let mut table = Table::new("Advice").head(["", "what was found", "what to do"]);
    for advice in &listed.advice {
        let tone = match advice.severity {
            Severity::Problem => Tone::Bad,
            Severity::Note => Tone::Warning,
            Severity::Good => Tone::Good,
        };
        let found = format!("{}. {}", advice.title, advice.why);
        let rest = details(advice).into_iter().map(|(name, text)| format!("{name}: {text}"));
        let rest = rest.collect::<Vec<_>>().join("; ");
        let name = advice.severity.name();
        table = table.row(name, [Cell::text(found).tone(tone), Cell::text(rest)]);
    }
    table
}

#[cfg(test)]
mod tests {
    use truechimer_report::Page;
    use truechimer_survey::inventory::Sources;

    use super::*;
    use crate::counters::list::measure;

    #[test]
    fn a_section_of_what_is_known() {
        let here = measure(&Sources::here(), 0.05);
        let page = Page::new("test").section(section(&here)).render();
        for part in ["Clocks", "CLOCK_MONOTONIC_RAW", "raw", "Advice"] {
            assert!(page.contains(part), "{part} is missing");
        }
        let nothing = measure(&Sources::under("/nonexistent".as_ref()), 1.0);
        let page = Page::new("test").section(section(&nothing)).render();
        assert!(page.contains("Not found out") && page.contains("cannot be seen here"));
    }
}
