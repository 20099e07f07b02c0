//! `truechimer simulate figures`: the figures of one estimator in every scenario, to be kept, or
//! beside those that were kept.

mod compare;

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use truechimer_sim::figures::{Case, Figures, Record, cases, measure, parse};

use super::{affordable, estimators, jobs};
use crate::args;
use crate::failure::{Ended, Failure, Outcome};
use crate::show::json;

/// Seeds if the user has not said, and no file has another number of them.
const SEEDS: usize = 5;
/// An exchange takes as long to simulate as so many readings of the clock.
const EXCHANGE: f64 = 15.0;

/// Refuses the study's options where they mean nothing.
pub fn refuse_options(args: &args::Simulate) -> Result<(), Failure> {
    for (given, option) in [
        (args.against.is_some(), "--against"),
        (!args.only.is_empty(), "--only"),
        (args.headline, "--headline"),
        (args.markdown, "--markdown"),
    ] {
        if given {
            return Err(Failure::new(option, "is for the study 'figures'"));
        }
    }
    Ok(())
}

/// Runs the study.
pub fn run(args: &args::Simulate, out: &mut dyn Write) -> Ended {
    check(args)?;
    let cases = chosen(args)?;
    let Some(file) = &args.against else {
        for record in records(&cases, args, args.seeds.map_or(SEEDS, |n| n as usize))? {
            writeln!(out, "{}", json(&record)?)?;
        }
        return Ok(Outcome::Good);
    };
    let old = read(file)?;
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

/// Refuses what has no meaning here.
fn check(args: &args::Simulate) -> Result<(), Failure> {
    for (given, option) in [
        (args.poll.is_some(), "--poll"),
        (args.hours.is_some(), "--hours"),
        (args.stamps.is_some(), "--stamps"),
        (args.report.is_some(), "--report"),
        (args.csv.is_some(), "--csv"),
        (args.print, "--print"),
        (args.seed != 1, "--seed"),
        (args.estimator.len() > 1, "--estimator"),
        (args.markdown && args.against.is_none(), "--markdown"),
    ] {
        if given {
            let why = "the study runs scenarios as they are, under one estimator; it takes \
                       --estimator, --seeds, --jobs, --only, --headline, --against (and with that \
                       --markdown or --json)";
            return Err(Failure::new(option, why));
        }
    }
    Ok(())
}

/// The cases that the user means.
fn chosen(args: &args::Simulate) -> Result<Vec<Case>, Failure> {
    let named = |case: &Case| {
        let name = &case.scenario.name;
        args.only.is_empty() || args.only.iter().any(|part| name.contains(part.as_str()))
    };
    let mut cases = cases().map_err(|why| Failure::new("figures", why))?;
    cases.retain(|case| named(case) && (case.is_headline || !args.headline));
    if cases.is_empty() {
        let why = "no scenario has that in its name; 'truechimer simulate --list' has all of them";
        return Err(Failure::new("--only", why));
    }
    Ok(cases)
}

fn read(file: &Path) -> Result<Vec<Record>, Failure> {
    let text = fs::read_to_string(file).map_err(|why| Failure::new(file.display(), why))?;
    parse(&text).map_err(|why| Failure::new(file.display(), why))
}

/// How many seeds a file was made with.
fn seeds_in(records: &[Record], file: &Path) -> Result<usize, Failure> {
    let fewest = records.iter().map(|record| record.seeds).min();
    fewest.filter(|seeds| *seeds > 0).ok_or_else(|| {
        Failure::new(file.display(), "no figures in it; 'truechimer simulate figures' writes some")
    })
}

/// The figures of these cases.
fn records(cases: &[Case], args: &args::Simulate, seeds: usize) -> Result<Vec<Record>, Failure> {
    let estimator = estimators(args).first().copied().unwrap_or_default();
    let mut runs: Vec<(usize, u64)> = Vec::new();
    for (index, case) in cases.iter().enumerate() {
        affordable(&case.scenario, 1)?;
        runs.extend(case.seeds(seeds).map(|seed| (index, seed)));
    }
    // The longest first: none is left over at the end.
    let cost = |run: &(usize, u64)| cases.get(run.0).map_or(0.0, cost);
    runs.sort_by(|a, b| cost(b).total_cmp(&cost(a)));
    let mut results: Vec<Vec<(u64, Figures)>> = vec![Vec::new(); cases.len()];
    let mut done = 0;
    let progress = &mut io::stderr();
    jobs::as_done(
        &runs,
        jobs::width(args.jobs),
        |(index, seed)| cases.get(*index).map(|case| measure(case, estimator, *seed)),
        |(index, seed), figures| {
            let (Some(case), Some(figures)) = (cases.get(*index), figures) else { return Ok(()) };
            let name = &case.scenario.name;
            let figures = figures.map_err(|why| Failure::new(name, why))?;
            done += 1;
            if let Some(results) = results.get_mut(*index) {
                results.push((*seed, figures));
                if results.len() == case.seeds(seeds).count() {
                    // Minutes pass; a terminal that cannot be written to is nobody's loss.
                    let _ = writeln!(progress, "{name} ({done} of {} runs)", runs.len());
                }
            }
            Ok::<(), Failure>(())
        },
    )?;
    let record = |(case, mut runs): (&Case, Vec<(u64, Figures)>)| {
        runs.sort_by_key(|(seed, _)| *seed);
        let figures: Vec<Figures> = runs.into_iter().map(|(_, figures)| figures).collect();
        Record::new(case, estimator, &figures)
    };
    Ok(cases.iter().zip(results).map(record).collect())
}

/// How long a run takes, roughly, in readings of the clock.
fn cost(case: &Case) -> f64 {
    let scenario = &case.scenario;
    let seconds = scenario.hours * 3600.0;
    let exchange = |poll: Option<u32>| seconds / f64::from(poll.unwrap_or(scenario.poll));
    let exchanges: f64 = scenario.servers.iter().map(|server| exchange(server.poll)).sum();
    let edges = seconds * scenario.pulses.len() as f64;
    seconds + EXCHANGE * (exchanges + edges)
}
