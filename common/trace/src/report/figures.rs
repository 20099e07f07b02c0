//! Tables.

use truechimer_report::{Cell, Share, Table, Tone, Unit};

use super::{Shown, name};
use crate::statistics::{Differences, Errors, Inside, Statistics};

/// The statistics, run beside run.
pub(super) fn table(runs: &[Shown<'_>]) -> Table {
    let head = std::iter::once("").chain(runs.iter().map(|(trace, _)| name(trace)));
    let mut rows = Rows {
        runs,
        table: Table::new("Errors are clock less truth, after the warm-up.")
            .head(head)
            .share(Share::Rows),
    };
    rows.errors("error", |s| &s.error);
    rows.time("bound, median", |s| s.bound_median_us);
    rows.time("its statistical part, median", |s| s.statistical_median_us);
    rows.add("inside the bound", |(trace, s)| inside(&s.inside_bound, trace.honest));
    rows.add("readings outside of it", |(_, s)| Cell::count(s.inside_bound.outside as u64));
    rows.time("by up to", |s| match s.inside_bound.outside {
        0 => f64::NAN,
        _ => s.inside_bound.exceeded_us,
    });
    for (n, threshold) in thresholds(runs).into_iter().enumerate() {
        let label = format!("error stays under {} after", Unit::Seconds.show(threshold, 1));
        rows.add(&label, move |(_, s)| {
            let time = s.converged_s.get(n).and_then(|c| c.median_s);
            time.map_or_else(|| Cell::text("never"), |s| Cell::number(s, Unit::Seconds))
        });
    }
    for (what, of) in [
        ("1 s difference", (|s| &s.one_second) as fn(&Statistics) -> &Differences),
        ("1000 s difference", |s| &s.thousand_seconds),
    ] {
        rows.time(&format!("{what}: median error"), move |s| of(s).error.median_us);
        rows.time(&format!("{what}: 1 %"), move |s| of(s).error.p1_us);
        rows.time(&format!("{what}: 99 %"), move |s| of(s).error.p99_us);
        rows.time(&format!("{what}: RMS"), move |s| of(s).error.rms_us);
        rows.time(&format!("{what}: bound, median"), move |s| of(s).bound_median_us);
        rows.add(&format!("{what}: inside the bound"), move |(trace, s)| {
            inside(&of(s).inside_bound, trace.honest)
        });
    }
    rows.add("exchanges", |(_, s)| Cell::count(s.exchanges.seen as u64));
    rows.add("of these used", |(_, s)| Cell::count(s.exchanges.used as u64));
    let seconds = |n: usize| Cell::count(n as u64);
    rows.add("readings synchronised", move |(_, s)| seconds(s.seconds_by_status.synchronised));
    rows.add("readings in holdover", move |(_, s)| seconds(s.seconds_by_status.holdover));
    rows.add("readings disrupted", move |(_, s)| seconds(s.seconds_by_status.disrupted));
    rows.add("readings unknown", move |(_, s)| seconds(s.seconds_by_status.unknown));
    rows.add("readings that count", move |(_, s)| seconds(s.error.seconds));
    rows.add("runs pooled", move |(_, s)| seconds(s.runs));
    rows.table
}

/// A table in the making.
struct Rows<'r, 't> {
    runs: &'r [Shown<'t>],
    table: Table,
}

impl Rows<'_, '_> {
    fn add(&mut self, label: &str, cell: impl Fn(&Shown<'_>) -> Cell) {
        let table = std::mem::replace(&mut self.table, Table::new(""));
        self.table = table.row(label, self.runs.iter().map(cell));
    }

    fn time(&mut self, label: &str, us: impl Fn(&Statistics) -> f64) {
        self.add(label, |(_, statistics)| Cell::number(us(statistics) * 1e-6, Unit::Seconds));
    }

    fn errors(&mut self, what: &str, of: fn(&Statistics) -> &Errors) {
        self.time(&format!("{what}, median"), move |s| of(s).median_us);
        self.time("from 25 % to 75 %", move |s| of(s).iqr_us);
        self.time("1 %", move |s| of(s).p1_us);
        self.time("25 %", move |s| of(s).p25_us);
        self.time("75 %", move |s| of(s).p75_us);
        self.time("99 %", move |s| of(s).p99_us);
        self.time("largest", move |s| of(s).max_us);
        self.time("RMS", move |s| of(s).rms_us);
        self.time("mean", move |s| of(s).mean_us);
    }
}

/// The thresholds of convergence, s.
fn thresholds(runs: &[Shown<'_>]) -> Vec<f64> {
    let first = runs.first().map(|(_, statistics)| statistics.converged_s.as_slice());
    first.unwrap_or_default().iter().map(|c| c.threshold_us * 1e-6).collect()
}

/// Share of seconds with the truth inside: with honest servers, anything but always is bad.
pub fn inside(inside: &Inside, honest: bool) -> Cell {
    let tone = match (inside.seconds, inside.outside) {
        (0, _) => return Cell::missing(),
        (_, 0) => Tone::Good,
        _ if honest => Tone::Bad,
        _ => Tone::Warning,
    };
    // All but one second of a year is not all.
    let digits = if inside.outside == 0 { 3 } else { 7 };
    Cell::number(inside.share, Unit::Share).digits(digits).tone(tone)
}

/// The sources, and what became of their exchanges.
pub(super) fn sources(runs: &[Shown<'_>]) -> Table {
    let mut table = Table::new("Sources and their exchanges");
    let Some((first, _)) = runs.first() else { return table };
    let share = |part: usize, all: usize| match all {
        0 => Cell::missing(),
        _ => Cell::number(part as f64 / all as f64, Unit::Share),
    };
    let several = runs.len() > 1;
    let clock = several.then_some("clock").into_iter();
    let columns = ["exchanges", "used", "followed", "floor at the end"];
    table = table.head(std::iter::once("").chain(clock).chain(columns));
    for (n, label) in first.sources.iter().enumerate() {
        for (trace, _) in runs {
            let of = || trace.exchanges.iter().filter(|e| e.source == n);
            let all = of().count();
            let floor = of().next_back().map_or(f64::NAN, |e| e.floor);
            let cells = [
                Cell::count(all as u64),
                share(of().filter(|e| e.used).count(), all),
                share(of().filter(|e| e.selected).count(), all),
                Cell::number(floor, Unit::Seconds),
            ];
            let clock = several.then(|| Cell::text(name(trace)));
            table = table.row(label.as_str(), clock.into_iter().chain(cells));
        }
    }
    table
}

/// Parameters that decided each run.
pub(super) fn parameters(runs: &[Shown<'_>]) -> Table {
    let head = std::iter::once("").chain(runs.iter().map(|(trace, _)| name(trace)));
    let mut table = Table::new("Parameters").head(head);
    let seed = |n: Option<u64>| n.map_or_else(Cell::missing, |n| Cell::text(n.to_string()));
    table = table
        .row("scenario", runs.iter().map(|(trace, _)| trace.title.as_str()))
        .row("estimator", runs.iter().map(|(trace, _)| trace.estimator.as_str()))
        .row("seed", runs.iter().map(|(trace, _)| seed(trace.seed)))
        .row("first request, Unix s", runs.iter().map(|(trace, _)| trace.begun.to_string()))
        .row("warm-up", runs.iter().map(|(trace, _)| Unit::Seconds.show(trace.warm_up, 5)))
        .row("servers honest", runs.iter().map(|(t, _)| if t.honest { "yes" } else { "no" }));
    let mut known: Vec<&str> = Vec::new();
    for (label, _) in runs.iter().flat_map(|(trace, _)| &trace.parameters) {
        if !known.contains(&label.as_str()) {
            known.push(label);
        }
    }
    for label in known {
        let cells = runs.iter().map(|(trace, _)| {
            let mut values = trace.parameters.iter().filter(|(l, _)| l == label);
            values.next().map_or_else(Cell::missing, |(_, value)| Cell::text(value.as_str()))
        });
        table = table.row(label, cells);
    }
    table
}
