//! `truechimer-lab simulate wrong-servers`: how a lone server that is wrong is detected, and how
//! often an honest one is held off.

mod page;

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use truechimer_estimators::Kind;
use truechimer_feedforward::number::{seconds, span};
use truechimer_sim::wrong::{Case, Row, Rows, WAYS, Way, cases, recorded, run_all};
use truechimer_time::Span;

use super::jobs::{self, Progress};
use super::{each_once, rows_of, stamp_file};
use truechimer_command::output::{ready, save};
use truechimer_command::parse;
use truechimer_command::program;
use truechimer_command::show::json;
use truechimer_command::{Ended, Failure, Outcome};

/// Options of `truechimer-lab simulate wrong-servers`.
#[derive(Args, Debug)]
#[command(after_help = "\
A lone server is honest for two hours (or for accept-step-after, if that is more). Then its time
steps, runs away or comes back, or it stays honest and something else happens: the oscillator's
frequency steps, the route changes, queues begin and end, the counter jumps. Each case is run on a
LAN of 0.2 ms with queues of 10 µs, on 4 ms with 0.3 ms and on 36 ms with 1 ms, poll 16 s, on the
exchanges alone, without a daemon around the estimator. Odd seeds go ahead, even ones behind.

It prints tables in Markdown, a row for each case and path. With several values of
--accept-step-after it prints what each of them comes to instead: missed lies beside false holds.

With --case it shows single runs instead, a line for each thing that happened: seconds since the
case began, error of the clock, its bound.

Examples:
  truechimer-lab simulate wrong-servers --seeds 10 --only ramp,oscillator --path lan
  truechimer-lab simulate wrong-servers --accept-step-after 0,600s,3600s,14400s > dial.md
  truechimer-lab simulate wrong-servers --json > before.json
  truechimer-lab simulate wrong-servers --against before.json
  truechimer-lab simulate wrong-servers --case step-1ms --path 36ms --seed 7

Exit status: 0, 1 if something is worse than in the file of --against, 2 on an error.")]
pub struct Options {
    /// With which estimators, separated by commas
    #[arg(long, value_name = "NAME", value_parser = crate::estimator(), value_delimiter = ',')]
    #[arg(default_value = "ours")]
    pub estimator: Vec<Kind>,
    /// Run with the seeds 1 to N
    #[arg(long, value_name = "N", default_value_t = 100)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub seeds: u32,
    /// Only cases with one of these texts in their names, separated by commas
    #[arg(long, value_name = "TEXT", value_delimiter = ',')]
    pub only: Vec<String>,
    /// Only over these paths: lan, 4ms, 36ms
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = way)]
    pub path: Vec<Way>,
    /// Settings that the estimator is told, separated by commas
    #[arg(long, value_name = "SPAN", value_delimiter = ',', default_value = "3600s")]
    #[arg(value_parser = wait)]
    pub accept_step_after: Vec<Span>,
    /// Print one JSON object a line for each case, path, estimator and accept-step-after
    #[arg(long)]
    pub json: bool,
    /// Take the rows from FILES that --json printed, separated by commas, instead of running
    #[arg(long, value_name = "FILES", value_delimiter = ',', conflicts_with_all = ["json", "only"])]
    pub rows: Vec<PathBuf>,
    /// Compare with FILE, which --json printed before; what is worse by more than the seeds scatter
    /// is marked
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    pub against: Option<PathBuf>,
    /// Show a run of this case alone
    #[arg(long, value_name = "CASE", conflicts_with_all = ["seeds", "only", "json", "against"])]
    pub case: Option<String>,
    /// ... under this seed
    #[arg(long, value_name = "N", requires = "case", default_value_t = 1)]
    pub seed: u64,
    /// ... and write its stamps to FILE, as 'truechimer-lab replay' reads them; over one path
    #[arg(long, value_name = "FILE", requires = "case")]
    pub stamps: Option<PathBuf>,
    /// ... or print it as a scenario file, and end; over one path
    #[arg(long, requires = "case", conflicts_with = "stamps")]
    pub print: bool,
    /// Number of seeds that are worked out side by side [default: as many as there are cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub jobs: Option<u32>,
}

/// The path of this name.
fn way(text: &str) -> Result<Way, String> {
    let found = WAYS.iter().find(|way| way.name == text);
    found.copied().ok_or_else(|| {
        let names: Vec<&str> = WAYS.iter().map(|way| way.name).collect();
        format!("must be one of {}", names.join(", "))
    })
}

/// The longest `accept-step-after` that is simulated: runs are thrice as long.
const LONGEST_WAIT: Span = Span::from_secs(86_400);

fn wait(text: &str) -> Result<Span, String> {
    let span = parse::not_negative(text)?;
    if span <= LONGEST_WAIT { Ok(span) } else { Err("must be at most 86400s".into()) }
}

/// Runs the study.
pub fn run(options: &Options, out: &mut dyn Write) -> Ended {
    if let Some(name) = &options.case {
        return show(options, &one(name)?, out);
    }
    let before = options
        .against
        .as_ref()
        .map(|path| rows_of(path, Row::read).map(Rows::from))
        .transpose()?;
    let mut rows = if options.rows.is_empty() {
        let (json_lines, mut rows) = (options.json, Vec::new());
        work(options, |row| {
            if json_lines {
                writeln!(out, "{}", json(&row)?)?;
            }
            rows.push(row);
            Ok(())
        })?;
        rows
    } else {
        let files = options
            .rows
            .iter()
            .map(|path| rows_of(path, Row::read))
            .collect::<Result<Vec<_>, _>>()?;
        files.into_iter().flatten().collect()
    };
    // As they stand in the tables: case by case, path by path.
    let all = cases();
    rows.sort_by_cached_key(|row| {
        let case = all.iter().position(|case| case.name == row.case);
        (case, WAYS.iter().position(|way| way.name == row.path))
    });
    if options.json {
        return Ok(Outcome::Good);
    }
    if let Some(before) = &before {
        return Ok(Outcome::of(!page::comparison(&rows, before, out)?));
    }
    let made = if options.rows.is_empty() { program::line() } else { page::made(&rows) };
    page::tables(&rows, &made, out)?;
    Ok(Outcome::Good)
}

/// The case of this name.
fn one(name: &str) -> Result<Case, Failure> {
    let all = cases();
    let names: Vec<String> = all.iter().map(|case| case.name.clone()).collect();
    let found = all.into_iter().find(|case| case.name == name);
    found.ok_or_else(|| {
        Failure::new("--case", format!("{name:?}: must be one of {}", names.join(", ")))
    })
}

/// All of them, or those that were asked for.
fn ways(options: &Options) -> Vec<Way> {
    if options.path.is_empty() { WAYS.to_vec() } else { options.path.clone() }
}

fn waits(options: &Options) -> Vec<f64> {
    options.accept_step_after.iter().map(|wait| seconds(*wait)).collect()
}

/// One seed of all cases.
struct Work {
    way: Way,
    wait: f64,
    estimator: Kind,
    seed: u64,
}

/// Works out all rows, and hands each to `take` as soon as its last seed is done.
fn work(
    options: &Options,
    mut take: impl FnMut(Row) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut all = cases();
    if !options.only.is_empty() {
        all.retain(|case| options.only.iter().any(|text| case.name.contains(text.as_str())));
    }
    if all.is_empty() {
        return Err(Failure::new("--only", "no case has any of these in its name"));
    }
    let mut work = Vec::new();
    for wait in waits(options) {
        for way in ways(options) {
            for estimator in each_once(&options.estimator) {
                let seeds = 1..=u64::from(options.seeds);
                work.extend(seeds.map(|seed| Work { way, wait, estimator, seed }));
            }
        }
    }
    let (mut progress, mut outcomes) =
        (Progress::of("seeds", work.len()), vec![Vec::new(); all.len()]);
    jobs::each(
        &work,
        jobs::width(options.jobs),
        |Work { way, wait, estimator, seed }| run_all(&all, way, *wait, *estimator, *seed),
        |Work { way, wait, estimator, seed }, seeds| {
            let seeds = seeds.map_err(|why| Failure::new(way.name, why))?;
            outcomes.iter_mut().zip(seeds).for_each(|(all, one)| all.push(one));
            progress.one_more();
            if *seed < u64::from(options.seeds) {
                return Ok(());
            }
            let estimator = estimator.name();
            for (case, outcomes) in all.iter().zip(&mut outcomes) {
                take(Row::new(case, way.name, estimator, *wait, &std::mem::take(outcomes)))?;
            }
            Ok(())
        },
    )
}

/// Single runs, a line for each thing that happened.
fn show(options: &Options, case: &Case, out: &mut dyn Write) -> Ended {
    let ways = ways(options);
    let (waits, estimators) = (waits(options), each_once(&options.estimator));
    let single = ways.len() * waits.len() * estimators.len() == 1;
    if (options.print || options.stamps.is_some()) && !single {
        let why = "takes one --path, one estimator and one --accept-step-after at a time";
        return Err(Failure::new(if options.print { "--print" } else { "--stamps" }, why));
    }
    if let Some(path) = &options.stamps {
        ready(path)?;
    }
    for wait in waits {
        for way in &ways {
            let setup = case.setup(way, options.seed, wait);
            if options.print {
                write!(out, "{}", setup.scenario.to_toml())?;
                return Ok(Outcome::Good);
            }
            for estimator in &estimators {
                let run = recorded(&setup, *estimator, options.seed);
                let (outcome, record) = run.map_err(|why| Failure::new(&case.name, why))?;
                writeln!(
                    out,
                    "{} over {}, seed {}, {}, accept-step-after {}\n\
                     {}; it begins after {:.0} s and ends {:.0} s later",
                    case.name,
                    way.name,
                    options.seed,
                    estimator.name(),
                    span(wait),
                    case.group.about(),
                    setup.from,
                    setup.to - setup.from,
                )?;
                page::events(&record.events, &outcome, out)?;
                if let Some(path) = &options.stamps {
                    let title = format!("{}, seed {}", setup.scenario.name, options.seed);
                    save(path, &stamp_file(&title, &record.declared, &record.stamps)?)?;
                }
            }
        }
    }
    Ok(Outcome::Good)
}
