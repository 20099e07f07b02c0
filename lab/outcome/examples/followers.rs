//! Report of `tests/vm/followers`, made of its consoles: the errors of programs that follow a master, and of ours beside each of them.

#![allow(clippy::indexing_slicing)] // Of arrays of two and three clocks.
use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;

use clap::Parser;
use truechimer_outcome::files::Files;
use truechimer_outcome::interval::Interval;
use truechimer_outcome::outcome::{Failure, Figure, Goal, Grid, Outcome};
use truechimer_outcome::plot::{Axis, Plot};
use truechimer_outcome::program;
use truechimer_report::{median, rms};

/// Tables and a plot of consoles of tests/vm/guest/followers.sh.
#[derive(Parser)]
struct Line {
    /// Consoles
    #[arg(required = true)]
    consoles: Vec<std::path::PathBuf>,
    #[command(flatten)]
    files: Files,
}

/// Programs that follow by PTP, and those by NTP, as consoles call them, with their titles.
const PROGRAMS: [(&str, &str); 5] = [
    ("pi", "ptp4l, pi"),
    ("linreg", "ptp4l, linreg"),
    ("ptpd", "ptpd"),
    ("chronyd", "chronyd"),
    ("ntpd", "ntpd"),
];
/// Events of each row.
const ROWS: [(&str, &str); 6] = [
    ("quiet", "nothing"),
    ("queues", "queues on the wire, to 200 µs each way, mean 40 µs"),
    ("shifted", "the wire gets longer by 200 µs each way"),
    ("changed", "the master falls silent, and another takes its place"),
    ("lost", "the master falls silent"),
    ("loaded", "the host computes a fifth of the time and floods its loopback a tenth"),
];
/// Readings over which a point of the plot is taken.
const POINT: usize = 5;

/// Errors of one machine in one row, ns.
#[derive(Default)]
struct Errors {
    /// Of the system clock, and of ours by PTP and by NTP.
    clocks: [Vec<f64>; 3],
    /// Bounds of ours, and how many readings they did not cover.
    bounds: [Vec<f64>; 2],
    outside: usize,
}

/// By program, row and seed.
type All = BTreeMap<(String, String, u64), Errors>;

fn main() -> ExitCode {
    match run(&Line::parse()) {
        Ok(_) => ExitCode::SUCCESS,
        Err(Failure(why)) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

fn run(line: &Line) -> Result<bool, Failure> {
    let mut all = All::new();
    for console in &line.consoles {
        let text = std::fs::read_to_string(console);
        let text = text.map_err(|why| Failure::of(console.display(), why))?;
        for line in text.lines().filter_map(|line| line.strip_prefix("= ")) {
            read(&mut all, line).ok_or_else(|| Failure::of(console.display(), line))?;
        }
    }
    let outcome = outcome(&all);
    line.files.print(&outcome)?;
    line.files.finish(program::page("Followers of a master"), &[outcome])
}

/// Takes a line: `WHO SEED ROW MS SYSTEM ERROR:BOUND ERROR:BOUND`.
fn read(all: &mut All, line: &str) -> Option<()> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [who, seed, row, _, system, by_ptp, by_ntp] = words.as_slice() else { return None };
    let key = ((*who).to_owned(), (*row).to_owned(), seed.parse().ok()?);
    let errors = all.entry(key).or_default();
    errors.clocks[0].push(system.parse().ok()?);
    for (n, ours) in [by_ptp, by_ntp].into_iter().enumerate() {
        let (error, bound) = ours.split_once(':')?;
        let (error, bound): (f64, f64) = (error.parse().ok()?, bound.parse().ok()?);
        errors.clocks[n + 1].push(error);
        errors.bounds[n].push(bound);
        errors.outside += usize::from(error.abs() > bound);
    }
    Some(())
}

/// Of a row, the RMS error of one of the three clocks over all readings of the machines, µs; NaN of none. `but` is a
/// seed whose machines are left out.
fn of(all: &All, row: &str, who: Option<&str>, clock: usize, but: Option<u64>) -> f64 {
    let found = all.iter().filter(|((of, at, seed), _)| {
        at == row && who.is_none_or(|who| who == of) && but != Some(*seed)
    });
    rms(found.flat_map(|(_, errors)| errors.clocks[clock].iter().map(|ns| ns * 1e-3)))
}

fn us(us: f64) -> String {
    match us.abs() {
        _ if !us.is_finite() => "–".to_owned(),
        small if small < 10.0 => format!("{us:.2}"),
        middle if middle < 100.0 => format!("{us:.1}"),
        _ => format!("{us:.0}"),
    }
}

/// Programs that have a machine.
fn there(all: &All) -> Vec<(&'static str, &'static str)> {
    let has = |program: &(&str, &str)| all.keys().any(|(of, ..)| of == program.0);
    PROGRAMS.into_iter().filter(has).collect()
}

fn outcome(all: &All) -> Outcome {
    let programs = there(all);
    let titles = || programs.iter().map(|(_, title)| *title);
    let head = || ["", "Truechimer, PTP", "Truechimer, NTP"].into_iter().chain(titles());
    let mut errors = Grid::new("RMS error, µs; of ours, in all machines", head());
    let mut most = Grid::new("Most, µs; of ours, with the median of the bound", head());
    let mut machines = Grid::new(
        "Ours in each program's machine: RMS error by PTP; by NTP, µs",
        std::iter::once("").chain(titles()),
    );
    let mut goals = Vec::new();
    for (row, about) in ROWS.iter().filter(|(row, _)| all.keys().any(|(_, of, _)| of == row)) {
        let ours = [1, 2].map(|clock| of(all, row, None, clock, None));
        let theirs: Vec<f64> =
            programs.iter().map(|(who, _)| of(all, row, Some(who), 0, None)).collect();
        let cells = ours.iter().chain(&theirs).map(|error| us(*error));
        errors.row(std::iter::once(format!("{row}: {about}")).chain(cells));
        most.row(std::iter::once((*row).to_owned()).chain(mosts(all, row, &programs)));
        for (by, clock) in [("PTP", 1), ("NTP", 2)] {
            goals.push(beside(all, row, (by, clock), programs.iter().zip(&theirs)));
        }
        let of_machine = |who: &str| {
            let ours = [1, 2].map(|clock| us(of(all, row, Some(who), clock, None)));
            format!("{}; {}", ours[0], ours[1])
        };
        let cells = programs.iter().map(|(who, _)| of_machine(who));
        machines.row(std::iter::once((*row).to_owned()).chain(cells));
    }
    let readings: usize =
        all.values().map(|errors| errors.bounds.iter().map(Vec::len).sum::<usize>()).sum();
    let outside: usize = all.values().map(|errors| errors.outside).sum();
    let held = format!("{} of {readings}", readings - outside);
    goals.push(Goal::counted("readings of ours within their bounds", "all", held, outside == 0));
    Outcome {
        name: "followers",
        title: "Programs that follow a master, and ours beside each of them".to_owned(),
        goals,
        grids: vec![errors, machines, most],
        figures: vec![Figure::Plot(plot(all))],
        ..Outcome::default()
    }
}

/// The goal to be no worse than the best of the programs, in that one's machines; judged over the seeds.
fn beside<'a>(
    all: &All,
    row: &str,
    (by, clock): (&str, usize),
    theirs: impl Iterator<Item = (&'a (&'a str, &'a str), &'a f64)>,
) -> Goal {
    let known = theirs.filter(|(_, error)| error.is_finite());
    let best = known.min_by(|a, b| a.1.total_cmp(b.1));
    let ((who, name), error) = best.unwrap_or((&("", "nobody"), &f64::NAN));
    let ratio = |but| of(all, row, Some(who), clock, but) / of(all, row, Some(who), 0, but);
    let seeds: BTreeSet<u64> =
        all.keys().filter(|(of, at, _)| of == who && at == row).map(|key| key.2).collect();
    let without: Vec<f64> = seeds.iter().map(|seed| ratio(Some(*seed))).collect();
    let what = format!("{row}: by {by}: RMS error beside the best, in its machines");
    let mut goal = Goal::at_most(&what, 1.0, &Interval::jackknife(ratio(None), &without));
    let ours = of(all, row, Some(who), clock, None);
    goal.measured += &format!("; {} µs, {name} {} µs", us(ours), us(*error));
    goal
}

/// The largest error of each clock in a row.
fn mosts(all: &All, row: &str, programs: &[(&str, &str)]) -> Vec<String> {
    let most = |who: Option<&str>, clock: usize| {
        let found =
            all.iter().filter(|((of, at, _), _)| at == row && who.is_none_or(|who| who == of));
        found
            .flat_map(|(_, errors)| &errors.clocks[clock])
            .fold(f64::NAN, |most: f64, ns| most.max(ns.abs() * 1e-3))
    };
    let ours = [0, 1].map(|n| {
        let of_row = all.iter().filter(|((_, at, _), _)| at == row);
        let bound =
            median(of_row.flat_map(|(_, errors)| errors.bounds[n].iter().map(|ns| ns * 1e-3)));
        format!("{}; ± {}", us(most(None, n + 1)), us(bound))
    });
    ours.into_iter().chain(programs.iter().map(|(who, _)| us(most(Some(who), 0)))).collect()
}

/// The errors over the rows, one after the other.
fn plot(all: &All) -> Plot {
    let seed = all.keys().map(|(.., seed)| *seed).min().unwrap_or(1);
    let line = |who: &str, clock: usize| {
        let mut points = Vec::new();
        let mut from = 0.0;
        for (row, _) in ROWS {
            let key = (who.to_owned(), row.to_owned(), seed);
            let Some(errors) = all.get(&key) else { continue };
            let of_row = &errors.clocks[clock];
            for (n, some) in of_row.chunks(POINT).enumerate() {
                let error = rms(some.iter().map(|ns| ns * 1e-3));
                points.push((from + (n * POINT) as f64, error));
            }
            from += of_row.len() as f64;
        }
        points
    };
    let programs = there(all);
    // Ours in the machine of the one that is most like it, or of any.
    let host = programs.iter().find(|(who, _)| *who == "chronyd").or(programs.first());
    let ours = host
        .into_iter()
        .flat_map(|(who, _)| [("Truechimer, PTP", *who, 1), ("Truechimer, NTP", *who, 2)]);
    let theirs = programs.iter().map(|(who, title)| (*title, *who, 0));
    Plot {
        title: format!("RMS error of {POINT} readings, one each second, row after row"),
        x: Axis::linear("seconds of the rows"),
        y: Axis::log("µs"),
        lines: ours
            .chain(theirs)
            .map(|(title, who, clock)| (title.to_owned(), line(who, clock)))
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_without_a_machine_are_not_named() {
        for alone in ["chronyd", "ptpd"] {
            let mut all = All::new();
            for second in 0..20 {
                let line = format!("{alone} 1 quiet {second} 300 200:25000 -100:40000");
                read(&mut all, &line).unwrap();
            }
            let outcome = outcome(&all);
            let Figure::Plot(plot) = &outcome.figures[0] else { panic!("a plot") };
            let names: Vec<&str> = plot.lines.iter().map(|(name, _)| name.as_str()).collect();
            assert_eq!(names, ["Truechimer, PTP", "Truechimer, NTP", alone]);
            assert!(plot.lines.iter().all(|(_, points)| points.len() == 4));
            for (grid, columns) in outcome.grids.iter().zip([4, 2, 4]) {
                assert_eq!((grid.head.len(), grid.rows[0].len()), (columns, columns));
            }
        }
    }
}
