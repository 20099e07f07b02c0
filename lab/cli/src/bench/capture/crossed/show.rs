//! The measurement as text, tables and pictures.

use serde_json::{Value, json};

use super::{CONTRASTS, Cell, Contrast, KINDS};
use crate::bench::capture::overhead::series::{Figures, Net, bootstrap, neighbours, net};
use crate::bench::capture::overhead::show::{plain, ratio, with_interval};
use truechimer_outcome::interval::Interval;
use truechimer_outcome::outcome::{Figure, Grid, Outcome};
use truechimer_outcome::plot::{Axis, Plot};
use truechimer_outcome::stats::{median, show_share, tail};

/// Lags of the autocorrelation.
const LAGS: [usize; 3] = [1, 2, 10];

/// Everything.
pub fn outcome(cells: &[Cell], refused: &[String], places: &str, rounds: usize) -> Outcome {
    let contrasts: Vec<Compared<'_>> = cells
        .iter()
        .flat_map(|cell| CONTRASTS.iter().map(move |contrast| (cell, contrast)))
        .filter_map(|(cell, contrast)| Compared::of(cell, contrast))
        .collect();
    let mut about: Vec<String> = found(&contrasts).into_iter().chain(losses(cells)).collect();
    about.extend(method(places, rounds));
    about.extend(refused.iter().map(|why| format!("Not measured here: {why}.")));
    let mut outcome = Outcome {
        name: "crossed",
        title: "The kernel's time against the raw count, by size and gap of packets".to_owned(),
        headline: headline(cells, &contrasts),
        about,
        ..Outcome::default()
    };
    outcome.grids.push(differences(&contrasts));
    for cell in cells {
        outcome.grids.push(grid(cell));
        outcome.figures.push(Figure::Plot(plot(cell)));
    }
    outcome.json = json!({
        "rounds": rounds, "not_available": refused,
        "cells": cells.iter().map(to_json).collect::<Value>(),
        "differences": contrasts.iter().map(Compared::to_json).collect::<Value>(),
    });
    outcome
}

/// One kind less another, at one size and gap.
struct Compared<'a> {
    cell: &'a Cell,
    contrast: &'a Contrast,
    cpu: Interval,
    variance: Net,
    core: Net,
    /// Of the times as written, without the largest hundredth.
    written: Net,
    lag1: Net,
}

impl Compared<'_> {
    fn of<'a>(cell: &'a Cell, contrast: &'a Contrast) -> Option<Compared<'a>> {
        let [of, ground] = [contrast.of, contrast.ground].map(|kind| cell.series(kind));
        let empty = |series: &[_]| series.iter().all(|b: &super::Block| b.cost.is_empty());
        if empty(&of) || empty(&ground) {
            return None;
        }
        let [a, b] = [contrast.of, contrast.ground].map(|kind| cell.figures(kind, |t| t.cpu_ns));
        let cpu = Interval::of(&a.iter().zip(&b).map(|(a, b)| a - b).collect::<Vec<_>>());
        let pairs: Vec<_> =
            of.iter().zip(&ground).map(|(a, b)| (neighbours(a, 1), neighbours(b, 1))).collect();
        let rounds: Vec<&_> = pairs.iter().collect();
        let lag1 = bootstrap(&rounds, |rounds| {
            correlated(rounds.iter().map(|pair| &pair.0))
                - correlated(rounds.iter().map(|pair| &pair.1))
        });
        Some(Compared {
            cell,
            contrast,
            cpu,
            variance: net(&of, &ground, |f| f.variance),
            core: net(&of, &ground, |f| f.core),
            written: {
                let [of, ground] = [contrast.of, contrast.ground].map(|kind| cell.written(kind));
                net(&of, &ground, |f| f.core)
            },
            lag1,
        })
    }

    fn to_json(&self) -> Value {
        let net = |net: &Net| json!({ "difference": net.value, "low": net.low, "high": net.high });
        json!({
            "bytes": self.cell.size, "gap_ns": self.cell.gap.ns, "of": name(self.contrast.of),
            "less": name(self.contrast.ground), "cpu_ns_a_packet": self.cpu,
            "variance_ns2": net(&self.variance),
            "variance_without_largest_hundredth_ns2": net(&self.core),
            "variance_as_written_without_largest_hundredth_ns2": net(&self.written),
            "autocorrelation_at_lag_1": net(&self.lag1),
        })
    }
}

fn name(kind: usize) -> &'static str {
    KINDS.get(kind).map_or("", |kind| kind.name)
}

/// Pearson's correlation of all these ranks.
fn correlated<'a>(rounds: impl Iterator<Item = &'a Vec<(f64, f64)>>) -> f64 {
    let pairs: Vec<(f64, f64)> = rounds.flatten().copied().collect();
    super::super::overhead::series::correlation(&pairs)
}

/// Numbers of these intervals that lie below nothing, hold it, and lie above it. An end that is no number decides nothing.
fn sides(ends: impl Iterator<Item = (f64, f64)>) -> [usize; 3] {
    let (mut below, mut between, mut above) = (0, 0, 0);
    for (low, high) in ends {
        match (high < 0.0, low > 0.0) {
            (true, _) => below += 1,
            (_, true) => above += 1,
            _ => between += 1,
        }
    }
    [below, between, above]
}

/// The result in sentences, one for each contrast.
fn found(contrasts: &[Compared<'_>]) -> Vec<String> {
    let mut said = Vec::new();
    for contrast in &CONTRASTS {
        let of: Vec<_> = contrasts.iter().filter(|one| one.contrast == contrast).collect();
        if of.is_empty() {
            continue;
        }
        let text = |what: &str, [below, between, above]: [usize; 3]| {
            format!("{what}: less in {below}, not told apart in {between}, more in {above}")
        };
        said.push(format!(
            "Found, {}, in {} of size × gap, by intervals of 95 %. {}; {}; {}; {}; {}.",
            contrast.name,
            of.len(),
            text("Processor time a packet", sides(of.iter().map(|c| (c.cpu.low, c.cpu.high)))),
            text(
                "variance of the stamp",
                sides(of.iter().map(|c| (c.variance.low, c.variance.high)))
            ),
            text(
                "without its largest hundredth",
                sides(of.iter().map(|c| (c.core.low, c.core.high)))
            ),
            text(
                "likewise of the time as written",
                sides(of.iter().map(|c| (c.written.low, c.written.high)))
            ),
            text("autocorrelation at lag 1", sides(of.iter().map(|c| (c.lag1.low, c.lag1.high)))),
        ));
    }
    said
}

/// The paper's contrast, and losses.
fn headline(cells: &[Cell], contrasts: &[Compared<'_>]) -> Vec<(String, String)> {
    let paper = || contrasts.iter().filter(|one| *one.contrast == CONTRASTS[0]);
    let of = |ends: [usize; 3]| format!("{} less, {} more, {} open", ends[0], ends[2], ends[1]);
    let time = sides(paper().map(|c| (c.cpu.low, c.cpu.high)));
    let variance = sides(paper().map(|c| (c.core.low, c.core.high)));
    let trials = || cells.iter().flat_map(|cell| cell.trials.iter().flatten().flatten());
    let lost: u64 = trials().map(|trial| trial.lost).sum();
    let sent: u64 = trials().map(|trial| trial.sent).sum();
    vec![
        ("count by a thread: processor time".to_owned(), of(time)),
        ("its variance, without the largest 1 %".to_owned(), of(variance)),
        ("lost".to_owned(), format!("{lost} of {sent}")),
    ]
}

/// Losses, in a sentence.
fn losses(cells: &[Cell]) -> Option<String> {
    let trials = || cells.iter().flat_map(|cell| cell.trials.iter().flatten().flatten());
    let (lost, sent) =
        trials().fold((0, 0), |(lost, sent), trial| (lost + trial.lost, sent + trial.sent));
    (sent > 0).then(|| format!("Lost: {lost} of {sent} packets, over all kinds, sizes and gaps."))
}

fn method(places: &str, rounds: usize) -> [String; 4] {
    [
        format!(
            "Method. Frames are made one by one by an XDP program on the capturing interface, which \
             writes the time (CLOCK_MONOTONIC) into each and hands it on as a driver would, in all \
             combinations of size and gap. They go through the pipeline of `truechimer capture`; a \
             time is as it would be written. {rounds} rounds; in each, all combinations have their \
             turn in an order drawn anew, and within one all kinds of stamp follow each other at \
             once, again in an order drawn anew: what else the machine does hits them alike, and \
             differences are within rounds. Intervals are 95 %: of processor time that of the sign \
             test for the median, of the others by bootstrap over rounds."
        ),
        "The delay of a stamp is the stamp as it was taken (a count by its nominal period) less the \
         time in the frame, less the line through its run, as rates differ. What lies between (the \
         generator's end, the way to the stamp) is the same for all kinds in XDP, and longer for the \
         kernel's stamp; the variance of the delay is theirs together, and only differences are of \
         the stamps. The time as written has the conversion in it as well, without a clock page: by \
         pairs of count and system clock. Autocorrelation is of the ranks of the delays within a run. Variances of a few giants depend on chance; those without the largest hundredth are \
         what is left."
            .to_owned(),
        "Processor time is of the threads that capture and convert, 0.3 s of rest included, by the \
         process's own clock: what the kernel spends on arrival, stamp included, is the sender's here, \
         and is measured by `overhead`. At long gaps it is mostly that of waking up."
            .to_owned(),
        places.to_owned(),
    ]
}

fn differences(contrasts: &[Compared<'_>]) -> Grid {
    let mut grid = Grid::new(
        "Differences within rounds, with 95 % intervals: processor time a packet (ns), variance of the stamp (ns²), \
         without its largest hundredth, likewise of the time as written, autocorrelation at lag 1",
        ["", "processor time", "variance", "without 1 %", "written", "autocorrelation"],
    );
    for contrast in &CONTRASTS {
        for one in contrasts.iter().filter(|one| one.contrast == contrast) {
            let cpu = Net { value: one.cpu.median, low: one.cpu.low, high: one.cpu.high };
            let lag1 = &one.lag1;
            grid.row([
                format!("{}; {}", contrast.name, one.cell.name()),
                with_interval(&cpu),
                with_interval(&one.variance),
                with_interval(&one.core),
                with_interval(&one.written),
                format!("{} [{} … {}]", ratio(lag1.value), ratio(lag1.low), ratio(lag1.high)),
            ]);
        }
    }
    grid
}

fn grid(cell: &Cell) -> Grid {
    let mut grid = Grid::new(
        &format!(
            "{}: as measured; ns and ns². Chance gives the autocorrelation ± 2/√n.",
            cell.name()
        ),
        [
            "",
            "packets",
            "lost",
            "ns a packet",
            "variance",
            "without 1 %",
            "p99 − p1",
            "written without 1 %",
            "lag 1",
            "2",
            "10",
            "2/√n",
        ],
    );
    for (n, kind) in KINDS.iter().enumerate() {
        let series = cell.series(n);
        let figures = Figures::of(&series);
        if figures.count == 0 {
            continue;
        }
        let lost: f64 = cell.figures(n, |t| t.lost as f64).iter().filter(|l| !l.is_nan()).sum();
        let sent: f64 = cell.figures(n, |t| t.sent as f64).iter().filter(|s| !s.is_nan()).sum();
        let lags = LAGS.map(|lag| {
            let pairs: Vec<_> = series.iter().map(|block| neighbours(block, lag)).collect();
            ratio(correlated(pairs.iter()))
        });
        let cells = [
            kind.name.to_owned(),
            figures.count.to_string(),
            show_share(lost / sent),
            plain(median(cell.figures(n, |t| t.cpu_ns))),
            plain(figures.variance),
            plain(figures.core),
            plain(figures.quantiles[4] - figures.quantiles[1]),
            plain(Figures::of(&cell.written(n)).core),
        ];
        let chance = format!("{:.2}", 2.0 / (figures.count as f64).sqrt());
        grid.row(cells.into_iter().chain(lags).chain([chance]));
    }
    grid
}

fn plot(cell: &Cell) -> Plot {
    let kinds = KINDS.iter().enumerate().map(|(n, kind)| (kind, cell.series(n)));
    Plot {
        title: format!("{}: |delay of the stamp − its median|, share that is larger", cell.name()),
        x: Axis::log("ns"),
        y: Axis::log("share"),
        lines: kinds
            .filter(|(_, series)| series.iter().any(|block| !block.cost.is_empty()))
            .map(|(kind, series)| {
                // Below 1 ns nothing is known.
                let sizes = series.iter().flat_map(|block| &block.cost).map(|cost| cost.abs());
                (kind.name.to_owned(), tail(sizes.filter(|size| *size >= 1.0)))
            })
            .collect(),
    }
}

fn to_json(cell: &Cell) -> Value {
    let kinds = KINDS.iter().enumerate().map(|(n, kind)| {
        let f = Figures::of(&cell.series(n));
        json!({
            "kind": kind.name, "packets": f.count, "variance_ns2": f.variance,
            "variance_without_largest_hundredth_ns2": f.core,
            "cpu_ns_a_packet": cell.figures(n, |t| t.cpu_ns),
            "lost": cell.figures(n, |t| t.lost as f64), "sent": cell.figures(n, |t| t.sent as f64),
        })
    });
    json!({ "bytes": cell.size, "gap_ns": cell.gap.ns, "kinds": kinds.collect::<Value>() })
}

#[cfg(test)]
mod tests {
    use super::super::trial::Trial;
    use super::super::{Block, COUNT_APART, GAPS, TIME};
    use super::*;

    fn trial(scale: f64, cpu_ns: f64, round: usize) -> Option<Trial> {
        let noise = |n: usize| ((n * 7919 + round * 31) % 101) as f64 - 50.0;
        let cost: Vec<f64> = (0..200).map(|n| scale * noise(n)).collect();
        let at = (0..200).map(|n| n as f64).collect();
        let delays = Block { cost, at };
        Some(Trial { written: delays.clone(), delays, cpu_ns, lost: 0, sent: 200 })
    }

    #[test]
    fn what_separates_is_said_and_what_overlaps_too() {
        let mut trials = vec![vec![None; 8]; KINDS.len()];
        trials[TIME] = (0..8).map(|round| trial(1.0, 500.0 + round as f64, round)).collect();
        trials[COUNT_APART] = (0..8).map(|round| trial(2.0, 900.0, round)).collect();
        let cells = [Cell { size: 140, gap: GAPS[0], trials }];
        let outcome = outcome(&cells, &["x: none".to_owned()], "Here.", 8);
        let said = outcome.about.join("\n");
        assert!(said.starts_with("Found, the paper's"), "{said}");
        assert!(
            said.contains("Processor time a packet: less in 0, not told apart in 0, more in 1")
        );
        assert!(said.contains("variance of the stamp: less in 0, not told apart in 0, more in 1"));
        assert!(
            said.contains("autocorrelation at lag 1: less in 0, not told apart in 1, more in 0")
        );
        assert!(
            said.contains("Lost: 0 of 3200 packets")
                && said.contains("Not measured here: x: none.")
        );
        assert_eq!(outcome.grids.len(), 2);
        assert_eq!(outcome.grids[0].rows.len(), 1, "the others were not measured");
        assert_eq!(outcome.json["differences"][0]["bytes"], 140);
    }

    #[test]
    fn few_rounds_tell_nothing_apart() {
        let nan = f64::NAN;
        assert_eq!(
            sides([(1.0, 2.0), (-2.0, -1.0), (-1.0, 1.0), (nan, nan)].into_iter()),
            [1, 2, 1]
        );
    }
}
