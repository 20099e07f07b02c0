//! `truechimer counters bench`: the classic comparison of clocksources.

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use clap::Args;
use truechimer_report::{Cell, Chart, Page, Section, Series, Table as HtmlTable, Unit};
use truechimer_survey::bench::{
    self, Bench, By, Clock, Cost, OfSource, Plan, Progress, Unreadable, parse_reads,
};
use truechimer_survey::clocksource::{Clocksources, FOLDER};

use truechimer_command::output::{ready, save_report};
use truechimer_command::report::{self, Watch};
use truechimer_command::show::{json, wrapped};
use truechimer_command::signals;
use truechimer_command::table::{Side, Table};
use truechimer_command::{Ended, Failure, Outcome};

/// Time after which a user who waits is told so.
const LONG: Duration = Duration::from_secs(1);

/// Options of `truechimer counters bench`.
#[derive(Args, Debug)]
#[command(after_help = "\
Reads every clock so many times by the vDSO (as programs do) and by real system calls, and every
counter directly. With --switch it does so under each clocksource that the kernel offers: for that
time all programs on the machine use it. The one before is put back at the end, and also on an
error, Ctrl-C, TERM and HUP; Ctrl-Z does nothing meanwhile. If the process is killed (KILL, QUIT),
the command that it printed before puts it back.

Columns:
  real   the time that passed for all readings, s
  user   the processor time that they took in the program, s
  sys    the processor time that they took in the kernel, s; kernels that account by ticks know
         user and sys to some ms
  each   what one takes, ns: the median of up to 100 batches
  ratio  to the cheapest that reads a counter; the coarse clocks read none

Examples:
  truechimer counters bench
  sudo truechimer counters bench --switch --reads 1M

Exit status: 0, 2 on an error, or interrupted.")]
pub struct Options {
    /// Number of readings of each: 10000000, 10M, 500k, 1e6
    #[arg(long, value_name = "N", default_value = "10M", value_parser = parse_reads)]
    pub reads: u64,
    /// Change the clocksource, to compare all that the kernel offers; needs root
    #[arg(long)]
    pub switch: bool,
    /// Print one JSON object; times end in _s or _ns
    #[arg(long)]
    pub json: bool,
    /// Write a report to FILE: one HTML page with plots
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Where the kernel's clocksources are: for tests
    #[arg(long, hide = true, value_name = "DIR", default_value = FOLDER)]
    pub clocksources: PathBuf,
}

/// Runs the command.
pub fn run(options: &Options, out: &mut dyn Write) -> Ended {
    if let Some(path) = &options.report {
        ready(path)?;
    }
    let stop = signals::interrupted()?;
    if options.switch {
        // Stopped, the whole machine would be left with another clocksource until it goes on.
        signals::no_stop()?;
    }
    let plan = Plan {
        reads: options.reads,
        switch: options.switch,
        clocksources: Clocksources::at(&options.clocksources),
    };
    let clock = Watch::usual();
    let found = measure(&plan, &stop)?;
    if options.json {
        writeln!(out, "{}", json(&found)?)?;
    } else {
        write(&found, out)?;
    }
    if let Some(path) = &options.report {
        let page = report::page("What reading a clock costs")
            .about("Every clock and counter, read the same number of times on this machine.")
            .fact("clock", &clock.told());
        save_report(path, &highlights(page, &found).section(section(&found)))?;
    }
    Ok(Outcome::Good)
}

/// Makes the comparison, and says on standard error what is going on.
pub fn measure(plan: &Plan, stop: &AtomicBool) -> Result<Bench, Failure> {
    let mut tell = |progress: Progress<'_>| {
        // There is nobody to tell if that fails.
        let _ = say(progress, &mut io::stderr());
    };
    bench::run(plan, &mut tell, stop).map_err(|why| Failure::Said(why.to_string()))
}

fn say(progress: Progress<'_>, out: &mut dyn Write) -> io::Result<()> {
    match progress {
        Progress::Warning { original, others, mend } => wrapped(
            &format!(
                "now the clocksource of the whole machine is changed from {original} to {}, and \
                 back at the end; meanwhile every clock of every program is made of it, its \
                 readings may be slower, CLOCK_MONOTONIC_RAW has another slope, and truechimer \
                 daemons on the counter raw begin a new epoch. Should this process be killed \
                 before: {mend}",
                others.join(", ")
            ),
            "",
            out,
        ),
        Progress::Begin { clocksource, ways, about } if about >= LONG => {
            let what = clocksource.unwrap_or("directly");
            writeln!(out, "{what}: {ways} ways to read, about {:.0} s", about.as_secs_f64())
        }
        Progress::Begin { .. } => Ok(()),
    }
}

/// The terminal's view.
fn write(found: &Bench, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{} readings of each", grouped(found.reads))?;
    for of in &found.sources {
        writeln!(out, "\n{}", heading(of))?;
        match &of.refused {
            Some(why) => wrapped(why, "  ", out)?,
            None => table(&of.costs).write(out)?,
        }
    }
    if !found.direct.is_empty() {
        writeln!(out, "\ndirectly, whatever the clocksource:")?;
        table(&found.direct).write(out)?;
    }
    if found.sources.len() > 1 {
        writeln!(out, "\nCLOCK_MONOTONIC as programs read it, by clocksource:")?;
        summary(found).write(out)?;
    }
    writeln!(out)?;
    for remark in remarks(found) {
        wrapped(&remark, "  ", out)?;
    }
    Ok(())
}

fn heading(of: &OfSource) -> String {
    let name = match &of.clocksource {
        Some(name) => format!("clocksource {name}"),
        None => "the kernel's clocksource, whichever it is".to_owned(),
    };
    match of.in_vdso {
        Some(false) => format!("{name}; the vDSO cannot read it and makes system calls:"),
        _ => format!("{name}:"),
    }
}

const COLUMNS: [(&str, Side); 7] = [
    ("by", Side::Left),
    ("what", Side::Left),
    ("real s", Side::Right),
    ("user s", Side::Right),
    ("sys s", Side::Right),
    ("each ns", Side::Right),
    ("ratio", Side::Right),
];

fn table(costs: &[Cost]) -> Table {
    let mut table = Table::new(&COLUMNS);
    for cost in costs {
        table.row(row([cost.by.name(), &cost.what], cost));
    }
    table
}

fn row<const N: usize>(names: [&str; N], cost: &Cost) -> Vec<String> {
    let figures = [
        format!("{:.3}", cost.real_s),
        format!("{:.3}", cost.user_s),
        format!("{:.3}", cost.system_s),
        format!("{:.1}", cost.ns),
        format!("{:.2}", cost.ratio),
    ];
    names.into_iter().map(str::to_owned).chain(figures).collect()
}

/// Cost of the usual clock to a program, clocksource by clocksource.
fn summary(found: &Bench) -> Table {
    let [_, _, figures @ ..] = COLUMNS;
    let columns: Vec<_> = std::iter::once(("clocksource", Side::Left)).chain(figures).collect();
    let mut table = Table::new(&columns);
    for of in &found.sources {
        let usual = of.costs.iter().find(|cost| cost.what == Clock::Monotonic.name());
        let name = of.clocksource.as_deref().unwrap_or("-");
        match usual {
            Some(cost) => table.row(row([name], cost)),
            None => table.row(vec![name.to_owned(), "refused".to_owned()]),
        }
    }
    table
}

/// Remarks below the figures.
fn remarks(found: &Bench) -> Vec<String> {
    let mut remarks = not_read(&found.unreadable);
    if !found.not_selected.is_empty() {
        remarks.push(format!(
            "also available, but not compared without --switch: {}",
            found.not_selected.join(", ")
        ));
    }
    for step in &found.coarse {
        let ms = |ns: u64| format!("{:.3} ms", ns as f64 / 1e6);
        let seen = match step.seen_ns {
            Some(ns) => format!("{} as seen", ms(ns)),
            None => "no step seen".to_owned(),
        };
        remarks.push(format!(
            "{} steps by {} (clock_getres), {seen}",
            step.clock,
            ms(step.said_ns)
        ));
    }
    if let Some(share) = busy(found) {
        remarks.push(format!(
            "the thread had a processor for only {:.0} % of the time: others kept it waiting, so \
             take 'each' rather than 'real'",
            share * 100.0
        ));
    }
    remarks.extend(found.notes.iter().cloned());
    remarks
}

/// Words on what is not read, and why; those with the same reason together.
pub(super) fn not_read(unreadable: &[Unreadable]) -> Vec<String> {
    let alike = unreadable.chunk_by(|a, b| a.why == b.why);
    let said = alike.filter_map(|group| {
        let names: Vec<&str> = group.iter().map(|one| one.what.as_str()).collect();
        let are = if names.len() == 1 { "is" } else { "are" };
        Some(format!("{} {are} not read: {}", names.join(" and "), group.first()?.why))
    });
    said.collect()
}

/// The share of the time in which the thread ran, if it is far from all.
fn busy(found: &Bench) -> Option<f64> {
    let costs = || found.sources.iter().flat_map(|of| &of.costs).chain(&found.direct);
    let real: f64 = costs().map(|cost| cost.real_s).sum();
    let used: f64 = costs().map(|cost| cost.user_s + cost.system_s).sum();
    // In a short time the kernel's account is too coarse for that.
    (real > 0.5 && used < 0.9 * real).then_some(used / real)
}

/// A whole number with its thousands apart.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (nth, digit) in digits.chars().enumerate() {
        if nth > 0 && (digits.len() - nth).is_multiple_of(3) && digits.len() > 4 {
            out.push(' ');
        }
        out.push(digit);
    }
    out
}

/// Fastest way to read a counter, by any clock of the kernel and directly.
fn fastest(found: &Bench) -> [Option<&Cost>; 2] {
    let least = |a: &&Cost, b: &&Cost| a.ns.total_cmp(&b.ns);
    let kernels = found.sources.iter().flat_map(|of| &of.costs).filter(|cost| !cost.coarse);
    [kernels.min_by(least), found.direct.iter().min_by(least)]
}

/// Adds what one wants to know first: the fastest clock, the fastest counter, and how many readings.
fn highlights(page: Page, found: &Bench) -> Page {
    let named = ["fastest clock", "fastest counter"].into_iter().zip(fastest(found));
    let page = named.fold(page, |page, (name, cost)| match cost {
        Some(cost) => page.highlight(
            &format!("{name}: {}", cost.what),
            Cell::number(cost.ns * 1e-9, Unit::Seconds),
        ),
        None => page,
    });
    page.highlight("readings of each", grouped(found.reads))
}

/// The part of a report.
pub fn section(found: &Bench) -> Section {
    let reads = grouped(found.reads);
    let mut section = Section::new("What reading a clock costs").text(&format!(
        "{reads} readings of each clock in a row, by the vDSO (as programs read it), by real \
         system calls, and of each counter directly. Each: the median of up to 100 batches. Ratio: \
         to the cheapest that reads a counter; the coarse clocks read none."
    ));
    section = section.chart(chart(found));
    for of in &found.sources {
        let heading = heading(of);
        section = match &of.refused {
            Some(why) => section.text(&format!("{heading} {why}")),
            None => section.table(html_table(heading.trim_end_matches(':'), &of.costs)),
        };
    }
    section = section.table(html_table("Directly, whatever the clocksource", &found.direct));
    remarks(found).iter().fold(section, |section, remark| section.text(remark))
}

fn html_table(caption: &str, costs: &[Cost]) -> HtmlTable {
    let mut table =
        HtmlTable::new(caption).head(["what", "by", "real", "user", "sys", "each", "ratio"]);
    for cost in costs {
        let seconds = |value| Cell::number(value, Unit::Seconds);
        table = table.row(
            cost.what.as_str(),
            [
                Cell::text(cost.by.name()),
                seconds(cost.real_s),
                seconds(cost.user_s),
                seconds(cost.system_s),
                seconds(cost.ns * 1e-9),
                Cell::number(cost.ratio, Unit::None),
            ],
        );
    }
    table
}

/// One point for each way, a series for each clocksource.
fn chart(found: &Bench) -> Chart {
    let name = |cost: &Cost| {
        let what = cost.what.replace("CLOCK_", "");
        // Few letters: there is little room below the chart.
        if cost.by == By::SystemCall { format!("call {what}") } else { what }
    };
    let mut places: Vec<String> = Vec::new();
    for cost in found.sources.iter().flat_map(|of| &of.costs).chain(&found.direct) {
        if !places.contains(&name(cost)) {
            places.push(name(cost));
        }
    }
    let points = |costs: &[Cost]| -> Vec<(f64, f64)> {
        let place = |cost: &Cost| places.iter().position(|place| *place == name(cost));
        let at = |cost: &Cost| Some((place(cost)? as f64, cost.ns * 1e-9));
        costs.iter().filter_map(at).collect()
    };
    let mut chart =
        Chart::places("What one reading takes", places.clone()).y("each", Unit::Seconds).log_y();
    for of in &found.sources {
        let name = of.clocksource.as_deref().unwrap_or("the clocksource");
        chart = chart.with(Series::points(name, points(&of.costs)));
    }
    chart.with(Series::points("directly", points(&found.direct)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(by: By, what: &str, ns: f64) -> Cost {
        Cost {
            by,
            what: what.to_owned(),
            coarse: false,
            real_s: ns * 1e-2,
            user_s: ns * 1e-2,
            system_s: 0.0,
            ns,
            ratio: ns / 9.0,
        }
    }

    fn found() -> Bench {
        let of = |name: &str, ns| OfSource {
            clocksource: Some(name.to_owned()),
            in_vdso: Some(ns < 100.0),
            costs: vec![
                cost(By::Vdso, "CLOCK_MONOTONIC", ns),
                cost(By::SystemCall, "CLOCK_MONOTONIC_COARSE", 99_999.9),
            ],
            refused: None,
        };
        let refused = OfSource {
            clocksource: Some("acpi_pm".to_owned()),
            in_vdso: None,
            costs: Vec::new(),
            refused: Some("the kernel did not accept it".to_owned()),
        };
        Bench {
            reads: 100_000_000_000,
            clocksource: Some("tsc".to_owned()),
            not_selected: vec!["kvm-clock".to_owned()],
            sources: vec![of("tsc", 21.0), of("hpet", 1071.0), refused],
            direct: vec![cost(By::Direct, "tsc", 9.0)],
            unreadable: Vec::new(),
            coarse: Vec::new(),
            notes: vec!["a note".to_owned()],
        }
    }

    #[test]
    fn the_tables_are_no_wider_than_a_terminal() {
        let mut out = Vec::new();
        write(&found(), &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        for part in [
            "100 000 000 000 readings",
            "clocksource tsc:\n",
            "clocksource hpet; the vDSO cannot",
            "the kernel did not accept it",
            "acpi_pm      refused",
            "without --switch: kvm-clock",
            "a note",
        ] {
            assert!(text.contains(part), "{part:?} is missing in {text}");
        }
    }

    #[test]
    fn the_warning_is_said_with_the_mend() {
        let mut out = Vec::new();
        let others = ["hpet".to_owned(), "acpi_pm".to_owned()];
        let mend = "echo tsc > /sys/x".to_owned();
        say(Progress::Warning { original: "tsc", others: &others, mend }, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap().replace('\n', " ");
        for part in ["from tsc to hpet, acpi_pm", "every program", "killed", "echo tsc > /sys/x"] {
            assert!(text.contains(part), "{part:?} is missing in {text}");
        }
    }

    #[test]
    fn a_thread_that_was_kept_waiting_is_told() {
        let mut found = found();
        assert_eq!(busy(&found), None);
        found.direct[0].real_s = 1e6;
        assert!(busy(&found).unwrap() < 0.1);
        assert!(remarks(&found).iter().any(|remark| remark.contains("kept it waiting")));
    }

    #[test]
    fn one_reason_is_given_once() {
        let all = [("hpet", "none"), ("acpi-pm", "no port"), ("acpi-pm-safe", "no port")];
        let all = all.map(|(what, why)| Unreadable { what: what.into(), why: why.into() });
        let wanted = ["hpet is not read: none", "acpi-pm and acpi-pm-safe are not read: no port"];
        assert_eq!(not_read(&all), wanted);
    }

    #[test]
    fn thousands_stand_apart() {
        assert_eq!(
            [1, 1024, 10_000, 10_000_000].map(grouped),
            ["1", "1024", "10 000", "10 000 000"]
        );
    }
}
