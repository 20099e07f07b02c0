//! Figures for people, at most 100 columns wide.

use std::io::{self, Write};

use truechimer_command::show;
use truechimer_command::table::{Side, Table};
use truechimer_probe::{Direction, Quantile, Report};
use truechimer_qos::{LossReport, Spread};

use crate::qos::{bound, interval, span, voice_line};

/// All of it.
pub fn report(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let closing = match report.closing {
        0 => String::new(),
        n => format!(" ({n} of them to learn of losses)"),
    };
    writeln!(out, "sent {}{closing}, answered {}", report.sent, report.answered)?;
    if report.answered > 0 {
        writeln!(out)?;
        delays(report, out)?;
        writeln!(out)?;
        losses(report, out)?;
        writeln!(out)?;
        voices(report, out)?;
    }
    if !report.notes.is_empty() {
        writeln!(out)?;
    }
    for note in &report.notes {
        show::wrapped(&format!("note: {}", show::plain(note)), "      ", out)?;
        writeln!(out)?;
    }
    Ok(())
}

fn delays(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let names = ["", "least", "median", "median at 95 %", "p99", "greatest", "bound", "IPDV p99"];
    let mut table = Table::new(
        &names.map(|name| (name, if name.is_empty() { Side::Left } else { Side::Right })),
    );
    let round = &report.round_trip;
    for (name, way) in ways(report) {
        match &way.delay {
            Some(delay) => {
                table.row(row(
                    name,
                    &delay.spread,
                    &delay.quantiles,
                    Some(delay.bound_max_ns),
                    way,
                ));
            }
            None => table.row(row(&format!("{name}, variation"), &way.pdv, &[], None, way)),
        }
    }
    let interval = interval(&round.quantiles);
    let mut cells = cells("round trip", &round.time, interval);
    cells.extend([bound(round.bound_max_ns), span(round.ipdv.p99_ns)]);
    table.row(cells);
    table.write(out)
}

fn ways(report: &Report) -> [(&'static str, &Direction); 2] {
    [("there", &report.forward), ("back", &report.backward)]
}

fn row(
    name: &str,
    spread: &Spread,
    quantiles: &[Quantile],
    bound_ns: Option<u64>,
    way: &Direction,
) -> Vec<String> {
    let mut cells = cells(name, spread, interval(quantiles));
    cells.extend([bound(bound_ns), span(way.ipdv.p99_ns)]);
    cells
}

fn cells(name: &str, spread: &Spread, interval: String) -> Vec<String> {
    let [least, median, p99, greatest] =
        [spread.min_ns, spread.median_ns, spread.p99_ns, spread.max_ns].map(span);
    vec![name.into(), least, median, interval, p99, greatest]
}

fn losses(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let names = ["", "lost", "share", "bursts", "longest", "reordered", "copies"];
    let mut table = Table::new(
        &names.map(|name| (name, if name.is_empty() { Side::Left } else { Side::Right })),
    );
    for (name, way) in ways(report) {
        let copies = way.duplicates.map_or_else(|| "-".into(), |copies| copies.to_string());
        let reordered = way.reordering.reordered.to_string();
        table.row(loss_cells(name, way.loss.as_ref(), reordered, copies));
    }
    let whole = Some(&report.round_trip.loss);
    table.row(loss_cells("there and back", whole, "-".into(), "-".into()));
    table.write(out)?;
    if report.undetermined > 0 {
        writeln!(out, "without an answer at the end: {}", report.undetermined)?;
    }
    Ok(())
}

fn loss_cells(
    name: &str,
    loss: Option<&LossReport>,
    reordered: String,
    copies: String,
) -> Vec<String> {
    let share = |loss: &LossReport| format!("{:.2} %", loss.ratio.unwrap_or(0.0) * 100.0);
    let mut cells = vec![name.to_owned()];
    match loss {
        Some(loss) => cells.extend([
            loss.lost.to_string(),
            share(loss),
            loss.runs.to_string(),
            loss.longest_run.unwrap_or(0).to_string(),
        ]),
        None => cells.extend(["-"; 4].map(String::from)),
    }
    cells.extend([reordered, copies]);
    cells
}

fn voices(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    for (name, way) in ways(report) {
        if let Some(voice) = &way.voice {
            writeln!(out, "voice {name}: {}", voice_line(voice))?;
        }
    }
    Ok(())
}
