//! The figures in plain tables.

use std::io::{self, Write};

use truechimer_outcome::outcome::wrapped;
use truechimer_outcome::verdict::Verdict;
use truechimer_report::Unit;

use super::clocks::{ALL, Subject};
use super::contest::{BUSY, CALM, Turn, Who};
use super::figures::{Figures, Measured};
use truechimer_command::table::{Side, Table};

/// Width of a terminal.
const WIDTH: usize = 80;
/// Where reasons begin.
const INDENT: usize = 14;

/// Writes all of it.
pub fn write(figures: &Figures, out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "counter {}, {} processors; medians of {} rounds with turns of {} ms",
        figures.counter, figures.processors, figures.rounds, figures.turn_ms
    )?;
    for (title, dummy, who) in [
        ("threads", false, Who::Threads),
        ("threads, a word of memory for a counter", true, Who::Threads),
        ("processes", false, Who::Processes),
    ] {
        writeln!(out, "\nmillion reads a second by so many {title}")?;
        scaling(figures, dummy, who).write(out)?;
    }
    writeln!(out, "\nmillion reads a second by {} threads under a writer of", figures.most())?;
    busy(figures).write(out)?;
    writeln!(out, "\nreaders' shares of the average of {} threads", figures.most())?;
    fairness(figures).write(out)?;
    writeln!(out, "\nthe lock of the old way (a reading of the counter in each part included)")?;
    lock(figures).write(out)?;
    let division = &figures.division;
    writeln!(
        out,
        "\ncounts to time: {:.1} ns by division in 64 bits, {:.1} ns in 128, {:.1} ns by\n\
         multiplication as timehands do it",
        division.divide_64_ns, division.divide_128_ns, division.multiply_ns
    )?;
    writeln!(out, "\nhow often FreeBSD's hands must be renewed, and how long ours last")?;
    renewals(figures).write(out)?;
    standing(figures, out)?;
    writeln!(out)?;
    writeln!(out, "goals: median of the rounds (interval that holds the true one with 95 %)")?;
    for goal in &figures.goals {
        writeln!(out, "{:<13} {}", goal.verdict.word(), goal.what)?;
        writeln!(out, "{:INDENT$}{}", "", goal.text())?;
        if let Verdict::Open(reason) = &goal.verdict {
            for line in wrapped(reason, WIDTH - INDENT).lines() {
                writeln!(out, "{:INDENT$}{line}", "")?;
            }
        }
    }
    Ok(())
}

/// One for threads or for processes.
fn scaling(figures: &Figures, dummy: bool, who: Who) -> Table {
    let mut columns = vec![("clock".to_owned(), Side::Left)];
    columns.extend(figures.readers.iter().map(|readers| (readers.to_string(), Side::Right)));
    columns.push(("scaling".to_owned(), Side::Right));
    columns.push(("of counter's".to_owned(), Side::Right));
    let mut table = table(&columns);
    for clock in ALL {
        let find = |readers| figures.find(Turn { clock, dummy, who, readers, writer_hz: CALM });
        let Some(most) = find(figures.most()) else { continue };
        let mut cells = vec![clock.name().to_owned()];
        cells.extend(figures.readers.iter().map(|readers| millions(find(*readers))));
        cells.push(number(most.scaling));
        cells.push(number(most.scaling_to_counter));
        table.row(cells);
    }
    table
}

fn busy(figures: &Figures) -> Table {
    let mut columns = vec![("clock".to_owned(), Side::Left)];
    let rates: Vec<u32> = [CALM].into_iter().chain(BUSY).collect();
    for rate in &rates {
        let made = figures.updates_hz.iter().find(|(hz, _)| hz == rate).map(|(_, made)| *made);
        let made = made.map_or(String::new(), |made| format!(" ({made:.0})"));
        let made = if *rate == CALM { String::new() } else { made };
        columns.push((format!("{rate} Hz{made}"), Side::Right));
    }
    columns.push(("last to first".to_owned(), Side::Right));
    let mut table = table(&columns);
    for clock in ALL {
        let find = |writer_hz| {
            let readers = figures.most();
            figures.find(Turn { clock, dummy: false, who: Who::Threads, readers, writer_hz })
        };
        let ends = rates.first().copied().and_then(find).zip(rates.last().copied().and_then(find));
        let Some((first, last)) = ends else { continue };
        let mut cells = vec![clock.name().to_owned()];
        cells.extend(rates.iter().map(|rate| millions(find(*rate))));
        cells.push(number(last.reads_per_second / first.reads_per_second));
        table.row(cells);
    }
    table
}

fn fairness(figures: &Figures) -> Table {
    let head = ["least", "quartile", "median", "quartile", "most"];
    let mut columns = vec![("clock".to_owned(), Side::Left)];
    columns.extend(head.map(|name| (name.to_owned(), Side::Right)));
    let mut table = table(&columns);
    for (clock, measured) in fairly(figures) {
        let mut cells = vec![clock.name().to_owned()];
        cells.extend(measured.fairness.map(number));
        table.row(cells);
    }
    table
}

/// Figures shown of the readers' shares: threads, over the counter, as many as there were.
pub fn fairly(figures: &Figures) -> impl Iterator<Item = (Subject, &Measured)> {
    let (readers, who) = (figures.most(), Who::Threads);
    let turn = move |clock| Turn { clock, dummy: false, who, readers, writer_hz: CALM };
    ALL.into_iter().filter_map(move |clock| Some((clock, figures.find(turn(clock))?)))
}

fn lock(figures: &Figures) -> Table {
    let right = |name| (name, Side::Right);
    let mut table = Table::new(&[
        right("threads"),
        right("taken"),
        right("contended"),
        right("wait, mean"),
        right("most"),
        right("held, mean"),
        right("most"),
    ]);
    for profile in &figures.lock {
        let share = 100.0 * profile.contended as f64 / profile.acquisitions.max(1) as f64;
        table.row(vec![
            profile.threads.to_string(),
            profile.acquisitions.to_string(),
            format!("{share:.1} %"),
            time(profile.acquire_mean_ns),
            time(profile.acquire_max_ns),
            time(profile.section_mean_ns),
            time(profile.section_max_ns),
        ]);
    }
    table
}

fn renewals(figures: &Figures) -> Table {
    let right = |name| (name, Side::Right);
    let mut table = Table::new(&[
        ("counter", Side::Left),
        right("bits"),
        right("overflow"),
        right("roll-over"),
        right("least rate"),
        right("ours"),
    ]);
    for one in &figures.renewals {
        table.row(vec![
            one.counter.to_owned(),
            one.bits.to_string(),
            format!("{:.3} s", one.overflows_after_s),
            format!("{:.3} s", one.rolls_over_after_s),
            format!("{:.1} Hz", one.least_hz),
            format!("{} years", one.ours_lasts_years),
        ]);
    }
    table
}

fn standing(figures: &Figures, out: &mut dyn Write) -> io::Result<()> {
    let seen = &figures.standing;
    writeln!(
        out,
        "\na writer stopped in the middle of writing hand {} (it took {} of\n\
         them, stopped at random); {} threads tried for {} ms:",
        seen.writing, seen.writers, seen.readers, seen.tried_ms
    )?;
    writeln!(
        out,
        "timehands    {} of {} threads read, {} times",
        seen.timehands_readers, seen.readers, seen.timehands_reads
    )?;
    let hang = |able: u16| match seen.readers - able.min(seen.readers) {
        0 => String::new(),
        held => format!(": {held} wait for the writer"),
    };
    writeln!(
        out,
        "seqlock      {} of {} threads read{}",
        seen.seqlock_readers,
        seen.readers,
        hang(seen.seqlock_readers)
    )?;
    writeln!(
        out,
        "ticket lock  {} of {} threads read{}",
        seen.ticket_lock_readers,
        seen.readers,
        hang(seen.ticket_lock_readers)
    )
}

fn table(columns: &[(String, Side)]) -> Table {
    let columns: Vec<_> = columns.iter().map(|(name, side)| (name.as_str(), *side)).collect();
    Table::new(&columns)
}

fn millions(measured: Option<&Measured>) -> String {
    measured.map_or_else(|| "-".into(), |one| format!("{:.2}", one.reads_per_second / 1e6))
}

fn number(value: f64) -> String {
    if value.is_nan() { "-".into() } else { format!("{value:.2}") }
}

fn time(nanos: f64) -> String {
    Unit::Seconds.show(nanos * 1e-9, 3)
}
