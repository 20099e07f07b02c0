//! `truechimer-lab simulate figures`: the figures of one estimator in every scenario, to be kept,
//! or beside those that were kept.

mod compare;

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use truechimer_estimators::Kind;
use truechimer_sim::figures::{Case, Figures, Record, cases, measure, parse};

use super::jobs::{self, Progress};
use super::{affordable, rows_of};
use truechimer_command::show::json;
use truechimer_command::{Ended, Failure, Outcome};

/// Seeds if the user has not said, and no file has another number of them.
const SEEDS: usize = 5;
/// An exchange takes as long to simulate as so many readings of the clock.
const EXCHANGE: f64 = 15.0;

/// Options of `truechimer-lab simulate figures`.
#[derive(Args, Debug)]
#[command(after_help = "\
It writes a line of JSON for each scenario under one estimator; with --against it sets the same
beside those of a file, with their ratio. A reference figure may be 1.05 times what it was, any
other 1.3 times, and the bound has to hold wherever it did. The ratio has an interval, by how far
the seeds scatter: where the limit lies in it, the answer is 'cannot judge', and no failure.

Examples:
  truechimer-lab simulate figures > then.jsonl
  truechimer-lab simulate figures --against then.jsonl --headline --seeds 2
  truechimer-lab simulate figures --against then.jsonl --estimator published --markdown

Exit status: 0, 1 if a figure is worse than in the file it is compared with, 2 on an error.")]
pub struct Options {
    /// Under which estimator
    #[arg(long, value_name = "NAME", value_parser = crate::estimator(), default_value = "ours")]
    pub estimator: Kind,
    /// Run with so many seeds [default: 5, or as many as the FILE of --against has]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub seeds: Option<u32>,
    /// Compare with the figures in FILE, seed by seed, instead of printing figures to keep
    #[arg(long, value_name = "FILE")]
    pub against: Option<PathBuf>,
    /// Only scenarios with one of these in their names, separated by commas
    #[arg(long, value_name = "PART", value_delimiter = ',')]
    pub only: Vec<String>,
    /// Only the reference figures: LAN, bursts, WAN, polls, routes, outage and the like
    #[arg(long)]
    pub headline: bool,
    /// Print the comparison as one JSON object; figures to keep are JSON in any case
    #[arg(long)]
    pub json: bool,
    /// Print the comparison as Markdown
    #[arg(long, conflicts_with = "json", requires = "against")]
    pub markdown: bool,
    /// Number of runs that go on side by side [default: as many as there are cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub jobs: Option<u32>,
}

/// Runs the study.
pub fn run(args: &Options, out: &mut dyn Write) -> Ended {
    let cases = chosen(args)?;
    let Some(file) = &args.against else {
        for record in records(&cases, args, args.seeds.map_or(SEEDS, |n| n as usize))? {
            writeln!(out, "{}", json(&record)?)?;
        }
        return Ok(Outcome::Good);
    };
    let old = rows_of(file, parse)?;
    let kept = seeds_in(&old, file)?;
    let seeds = args.seeds.map_or(kept, |n| n as usize);
    if seeds > kept {
        let why = format!("{} has {kept} of them", file.display());
        return Err(Failure::new("--seeds", why));
    }
    let new = records(&cases, args, seeds)?;
    let whole = args.only.is_empty() && !args.headline;
    let comparison = compare::of(&cases, &old, &new, whole);
    if args.json {
        writeln!(out, "{}", json(&comparison.to_json())?)?;
    } else if args.markdown {
        write!(out, "{}", comparison.markdown())?;
    } else {
        write!(out, "{}", comparison.text())?;
    }
    Ok(Outcome::of(comparison.is_met()))
}

/// The cases that the user means.
fn chosen(args: &Options) -> Result<Vec<Case>, Failure> {
    let named = |case: &Case| {
        let name = &case.scenario.name;
        args.only.is_empty() || args.only.iter().any(|part| name.contains(part.as_str()))
    };
    let mut cases = cases().map_err(|why| Failure::new("figures", why))?;
    cases.retain(|case| named(case) && (case.is_headline || !args.headline));
    if cases.is_empty() {
        let why =
            "no scenario has that in its name; 'truechimer-lab simulate --list' has all of them";
        return Err(Failure::new("--only", why));
    }
    Ok(cases)
}

/// Number of seeds that a file was made with.
fn seeds_in(records: &[Record], file: &Path) -> Result<usize, Failure> {
    let fewest = records.iter().map(|record| record.seeds).min();
    fewest.filter(|seeds| *seeds > 0).ok_or_else(|| {
        Failure::new(
            file.display(),
            "no figures in it; 'truechimer-lab simulate figures' writes some",
        )
    })
}

/// The figures of these cases.
fn records(cases: &[Case], args: &Options, seeds: usize) -> Result<Vec<Record>, Failure> {
    let mut runs: Vec<(usize, u64)> = Vec::new();
    for (index, case) in cases.iter().enumerate() {
        affordable(&case.scenario, 1)?;
        runs.extend(case.seeds(seeds).map(|seed| (index, seed)));
    }
    // The longest first: none is left over at the end.
    let cost = |run: &(usize, u64)| cases.get(run.0).map_or(0.0, cost);
    runs.sort_by(|a, b| cost(b).total_cmp(&cost(a)));
    let mut results: Vec<Vec<(u64, Figures)>> = vec![Vec::new(); cases.len()];
    let mut progress = Progress::of("runs", runs.len());
    jobs::each(
        &runs,
        jobs::width(args.jobs),
        |(index, seed)| cases.get(*index).map(|case| measure(case, args.estimator, *seed)),
        |(index, seed), figures| {
            let (Some(case), Some(figures)) = (cases.get(*index), figures) else { return Ok(()) };
            let name = &case.scenario.name;
            let figures = figures.map_err(|why| Failure::new(name, why))?;
            progress.one_more();
            if let Some(results) = results.get_mut(*index) {
                results.push((*seed, figures));
            }
            Ok::<(), Failure>(())
        },
    )?;
    let record = |(case, mut runs): (&Case, Vec<(u64, Figures)>)| {
        runs.sort_by_key(|(seed, _)| *seed);
        let figures: Vec<Figures> = runs.into_iter().map(|(_, figures)| figures).collect();
        Record::new(case, args.estimator, &figures)
    };
    Ok(cases.iter().zip(results).map(record).collect())
}

/// Work of a run, roughly, in readings of the clock.
fn cost(case: &Case) -> f64 {
    let scenario = &case.scenario;
    let seconds = scenario.hours * 3600.0;
    let exchange = |poll: Option<u32>| seconds / f64::from(poll.unwrap_or(scenario.poll));
    let exchanges: f64 = scenario.servers.iter().map(|server| exchange(server.poll)).sum();
    let edges = seconds * scenario.pulses.len() as f64;
    seconds + EXCHANGE * (exchanges + edges)
}
