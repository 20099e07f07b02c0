//! `truechimer-lab simulate`: the clock in simulated networks, beside the truth.

mod ablation;
mod accuracy;
mod attacks;
mod case;
mod csv;
mod drawn;
mod figures;
mod jobs;
mod likely;
mod outage;
mod screen;
mod sensitivity;
mod sync;
mod width;
mod wrong;

use std::fs;
use std::io::{self, Read, Write};
use std::path::Path;

use clap::Subcommand;
use serde::Serialize;
use truechimer_estimators::{Kind, OURS};
use truechimer_sim::stamps::{Declared, write_header};
use truechimer_sim::{
    Run, Scenario, Stamped, Statistics, Trace, catalogue, find, parse_delays, simulate_alike,
    write_stamps,
};
use truechimer_trace::report;

use crate::estimator;
use clap::Args;
use std::path::PathBuf;
use truechimer_command::output::{ready, save, save_report};
use truechimer_command::report::placed;
use truechimer_command::show::json;
use truechimer_command::{Ended, Failure, Outcome};
use truechimer_command::{parse, program};

/// Options of `truechimer-lab simulate`.
#[derive(Args, Debug)]
#[command(after_help = "\
The very engine of the daemon runs in virtual time, against simulated oscillators, paths and
servers. The published clock is read once a second, as a program would read it, and compared with
the truth. The same seed gives the same packets to every estimator, and the same output always.

Columns, in µs of |clock - truth| unless they say otherwise, without the time to settle but for
'<100' and 'inside', which are of all:
  rms        root mean square of the error
  median     of the error with its sign: positive, the clock is ahead
  iqr        from the 25th to the 75th percentile
  1 %, 99 %  percentiles
  max        the largest
  <100       seconds from the first request until the error stays below 100 µs for 300 s; - never
  inside     share of the seconds with the truth inside the bound, of all that promised one
  bound      median of the bound; stat. of its statistical part

Examples:
  truechimer-lab simulate lan
  truechimer-lab simulate lan-bursts-both --estimator ours,published --seeds 5
  truechimer-lab simulate wan --hours 6 --report wan.html
  truechimer-lab simulate lan --print > mine.toml; truechimer-lab simulate mine.toml
  truechimer-lab simulate case --report case.html       the paper's experiments, one after the other
  truechimer-lab simulate accuracy --seeds 5            every scenario, every estimator
  truechimer-lab simulate outage-end --seeds 100        two hours without, beside one that knows all
  truechimer-lab simulate wrong-servers --help          a study with options of its own

Exit status: 0, 1 if the truth was outside the bound of 'ours' although its conditions held (where
they do not, that is said), 2 on an error.")]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(disable_help_subcommand = true)]
pub struct Simulate {
    /// A study with options of its own.
    #[command(subcommand)]
    pub study: Option<Study>,
    /// Scenarios by name (see --list), scenario files ending in .toml, or one of the studies
    /// case (which needs --report), accuracy, outage-end, sync-limit, ablation, sensitivity and bound
    #[arg(value_name = "SCENARIO", required_unless_present = "list")]
    pub scenarios: Vec<String>,
    /// List the scenarios and what each is
    #[arg(long, exclusive = true)]
    pub list: bool,
    /// Which clocks to compare, separated by commas [default: ours; of the study case all]
    #[arg(long, value_name = "NAME", value_parser = estimator(), value_delimiter = ',')]
    pub estimator: Vec<Kind>,
    /// Where everything random comes from
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with = "seeds")]
    pub seed: u64,
    /// Run with the seeds 1 to N, and take the seconds of all together
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub seeds: Option<u32>,
    /// Hours to run, instead of the scenario's own. Where its time to settle is more than half of
    /// that, a seventh of it is
    #[arg(long, value_name = "H", value_parser = parse::hours)]
    pub hours: Option<f64>,
    /// Seconds between requests, 1 to 1024, instead of the scenario's own
    #[arg(long, value_name = "S", value_parser = parse::poll)]
    pub poll: Option<u32>,
    /// Print one JSON object a line for each scenario and estimator
    #[arg(long)]
    pub json: bool,
    /// Write a report to FILE: one HTML page with plots, of the first seed
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Write the stamps of the first seed to FILE, as 'truechimer-lab replay' reads them; with
    /// several servers those of the first to FILE.1, and so on
    #[arg(long, value_name = "FILE")]
    pub stamps: Option<PathBuf>,
    /// Write every reading of the first seed to FILE: one line of CSV a second
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// Print the scenario as a file to change, and end
    #[arg(long, conflicts_with_all = ["json", "report", "stamps", "csv"])]
    pub print: bool,
    /// Number of runs that go on side by side [default: as many as there are cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub jobs: Option<u32>,
}

/// Names that stand in place of a scenario and mean a series of them.
const STUDIES: [&str; 12] = [
    "attacks",
    "case",
    "accuracy",
    "outage-end",
    "sync-limit",
    "ablation",
    "sensitivity",
    "bound",
    "likely",
    "drawn",
    "figures",
    "wrong-servers",
];

/// A study with options of its own.
#[derive(Subcommand, Debug)]
pub enum Study {
    /// Attacks on the path and by bought servers, drawn from ranges
    Attacks(attacks::Options),
    /// Paths drawn from ranges, a day each
    Drawn(drawn::Options),
    /// Figures of every scenario, to be kept, or beside those that were kept
    Figures(figures::Options),
    /// Coverage of the truth by likely intervals
    Likely(likely::Options),
    /// Lone servers that are wrong, and how often honest ones are held off
    WrongServers(wrong::Options),
}

/// Memory for a second and an exchange of a run while it is kept, with what is made of them.
const SAMPLE_BYTES: f64 = 250.0;
const EXCHANGE_BYTES: f64 = 350.0;
/// Limit of all that memory.
const MOST_BYTES: f64 = 8e9;

/// The longest file that is read, bytes.
const MOST_TEXT: u64 = 100_000_000;

/// Runs the command.
pub fn run(args: &Simulate, out: &mut dyn Write) -> Ended {
    match &args.study {
        Some(Study::Attacks(options)) => return attacks::run(options, out),
        Some(Study::Drawn(options)) => return drawn::run(options, out),
        Some(Study::Figures(options)) => return figures::run(options, out),
        Some(Study::Likely(options)) => return likely::run(options, out),
        Some(Study::WrongServers(options)) => return wrong::run(options, out),
        None => {}
    }
    if args.list {
        screen::list(&catalogue(), out)?;
        return Ok(Outcome::Good);
    }
    match args.scenarios.as_slice() {
        [only] if only == "case" => return case::run(args, out),
        [only] if only == "accuracy" => return accuracy::run(args, out),
        [only] if only == "outage-end" => return outage::run(args, out),
        [only] if only == "sync-limit" => return sync::run(args, out),
        [only] if only == "ablation" => return ablation::run(args, out),
        [only] if only == "bound" => return width::run(args, out),
        [only] if only == "sensitivity" => return sensitivity::run(args, out),
        _ => {}
    }
    let scenarios = args.scenarios.iter().map(|name| scenario(name, args));
    let scenarios = scenarios.collect::<Result<Vec<_>, _>>()?;
    if args.print {
        if scenarios.len() > 1 {
            return Err(Failure::new("--print", "takes one scenario at a time"));
        }
        for scenario in &scenarios {
            write!(out, "{}", scenario.to_toml())?;
        }
        return Ok(Outcome::Good);
    }
    if args.stamps.is_some() && (scenarios.len() > 1 || estimators(args).len() > 1) {
        return Err(Failure::new("--stamps", "takes one scenario and one estimator at a time"));
    }
    if args.csv.is_some() && (scenarios.len() > 1 || estimators(args).len() > 1) {
        return Err(Failure::new("--csv", "takes one scenario and one estimator at a time"));
    }
    for scenario in &scenarios {
        affordable(scenario, seeds(args).len())?;
    }
    for path in [&args.report, &args.stamps, &args.csv].into_iter().flatten() {
        ready(path)?;
    }
    compare(args, &scenarios, out)
}

/// The scenario that the user means, with what was asked to be different.
fn scenario(name: &str, args: &Simulate) -> Result<Scenario, Failure> {
    let mut scenario = if name.ends_with(".toml") {
        read(Path::new(name))?
    } else if STUDIES.contains(&name) {
        return Err(Failure::new(
            name,
            "this is a study: run it by itself, with its options after it",
        ));
    } else {
        find(name).map_err(|why| Failure::Said(unknown(&why.to_string())))?
    };
    if let Some(poll) = args.poll {
        scenario = scenario.with_poll(poll).map_err(|why| Failure::new("--poll", why))?;
    }
    if let Some(hours) = args.hours {
        scenario = scenario.with_hours(hours).map_err(|why| Failure::new("--hours", why))?;
    }
    Ok(scenario)
}

fn unknown(why: &str) -> String {
    if why.contains("did you mean") {
        why.to_owned()
    } else {
        format!("{why}; 'truechimer-lab simulate --list' has all of them, and a file ends in .toml")
    }
}

/// Text of a file, unless it is far too long to be what it should be.
fn text_of(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    let read = fs::File::open(path)?.take(MOST_TEXT + 1).read_to_string(&mut text)?;
    if read as u64 > MOST_TEXT {
        let why = format!("longer than {} MB", MOST_TEXT / 1_000_000);
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, why));
    }
    Ok(text)
}

/// The rows that a study wrote to a file with an earlier run.
fn rows_of<T>(
    path: &Path,
    parse: impl Fn(&str) -> Result<Vec<T>, String>,
) -> Result<Vec<T>, Failure> {
    let text = text_of(path).map_err(|why| Failure::new(path.display(), why))?;
    parse(&text).map_err(|why| Failure::new(path.display(), why))
}

/// A scenario from a file; files of recorded delays that it names are sought beside it.
fn read(path: &Path) -> Result<Scenario, Failure> {
    let text = text_of(path).map_err(|why| Failure::new(path.display(), why))?;
    let beside = path.parent().unwrap_or(Path::new(""));
    Scenario::from_toml_with(&text, |file| {
        let file = beside.join(file);
        let text = text_of(&file).map_err(|why| format!("{}: {why}", file.display()))?;
        parse_delays(&text).map_err(|why| format!("{}: {why}", file.display()))
    })
    .map_err(|why| Failure::new(path.display(), why))
}

/// Refuses what would not fit into an ordinary machine's memory: all seeds of a scenario are pooled
/// second by second.
fn affordable(scenario: &Scenario, seeds: usize) -> Result<(), Failure> {
    let seconds = scenario.hours * 3600.0;
    let requests = seconds / f64::from(scenario.poll) * scenario.servers.len() as f64;
    let exchanges = requests + seconds * scenario.pulses.len() as f64;
    let bytes = (seconds * SAMPLE_BYTES + exchanges * EXCHANGE_BYTES) * seeds as f64;
    if bytes <= MOST_BYTES {
        return Ok(());
    }
    let why = format!(
        "{seeds} runs of {} h would take some {:.0} GB of memory; take fewer seeds or hours",
        scenario.hours,
        bytes / 1e9
    );
    Err(Failure::new(&scenario.name, why))
}

/// Refuses what a study that has its own scenarios and clocks has no use for.
fn only_seeds(args: &Simulate, study: &str) -> Result<(), Failure> {
    for (given, option) in [
        (args.poll.is_some(), "--poll"),
        (args.hours.is_some(), "--hours"),
        (args.stamps.is_some(), "--stamps"),
        (args.report.is_some(), "--report"),
        (args.csv.is_some(), "--csv"),
        (args.print, "--print"),
        (args.json, "--json"),
        (!args.estimator.is_empty(), "--estimator"),
    ] {
        if given {
            let why = format!(
                "not for the study '{study}', which has its own scenarios and estimators; it takes \
                 --seeds and --jobs"
            );
            return Err(Failure::new(option, why));
        }
    }
    Ok(())
}

/// The clocks to run, each once.
fn estimators(args: &Simulate) -> Vec<Kind> {
    if args.estimator.is_empty() { vec![OURS] } else { each_once(&args.estimator) }
}

/// The clocks that the user named, each once.
fn each_once(named: &[Kind]) -> Vec<Kind> {
    let mut all = Vec::new();
    for estimator in named {
        if !all.contains(estimator) {
            all.push(*estimator);
        }
    }
    all
}

/// The seeds to run with.
fn seeds(args: &Simulate) -> Vec<u64> {
    args.seeds.map_or_else(|| vec![args.seed], |n| (1..=u64::from(n)).collect())
}

/// Several clocks on the same packets, one scenario after the other.
fn compare(args: &Simulate, scenarios: &[Scenario], out: &mut dyn Write) -> Ended {
    let mut good = true;
    let mut first_runs: Vec<(Trace, Statistics)> = Vec::new();
    for scenario in scenarios {
        if !args.json {
            screen::heading(scenario, &seeds(args), out)?;
        }
        let mut rows = Vec::new();
        for estimator in estimators(args) {
            let (statistics, first) = pooled(scenario, estimator, args)?;
            good &= keeps_its_word(scenario, estimator, &statistics);
            if args.json {
                let row = Row::new(scenario, estimator, first.trace.honest, &statistics);
                writeln!(out, "{}", json(&row)?)?;
            }
            if let Some(path) = &args.csv {
                csv::save(&first.trace, path)?;
            }
            if let Some(path) = &args.stamps {
                save_stamps(scenario, &first, path)?;
            }
            if args.report.is_some() {
                first_runs.push((first.trace, statistics.clone()));
            }
            rows.push((estimator, statistics));
        }
        if !args.json {
            screen::table(&rows, out)?;
        }
    }
    if let Some(path) = &args.report {
        let shown: Vec<_> = first_runs.iter().map(|(trace, s)| (trace, s.clone())).collect();
        let page = placed(report::page(&shown, &program::line()));
        save_report(path, &page)?;
    }
    Ok(Outcome::of(good))
}

/// The verdict on a clock whose bound is a promise: where the conditions of its bound hold, the
/// truth is always inside.
fn keeps_its_word(scenario: &Scenario, estimator: Kind, statistics: &Statistics) -> bool {
    !estimator.is_bounded()
        || statistics.inside_bound.outside == 0
        || !scenario.broken_conditions().is_empty()
}

/// All seeds of one scenario under one estimator: their statistics together, and the first run.
fn pooled(
    scenario: &Scenario,
    estimator: Kind,
    args: &Simulate,
) -> Result<(Statistics, Run), Failure> {
    let mut runs: Vec<Run> = Vec::new();
    jobs::each(
        &seeds(args),
        jobs::width(args.jobs),
        |seed| simulate_alike(scenario, estimator, *seed),
        |_, run| {
            let mut run = run.map_err(|why| Failure::new(&scenario.name, why))?;
            if !runs.is_empty() {
                // Only the first run's are ever shown.
                (run.stamps, run.trace.notes) = (Vec::new(), Vec::new());
            }
            runs.push(run);
            Ok::<(), Failure>(())
        },
    )?;
    let traces: Vec<&Trace> = runs.iter().map(|run| &run.trace).collect();
    let statistics = Statistics::of(&traces);
    let first = runs.into_iter().next();
    first.map(|first| (statistics, first)).ok_or_else(|| Failure::new("--seeds", "none"))
}

/// The stamps of the only source into the file, or of each one into a file of its own, numbered.
fn save_stamps(scenario: &Scenario, run: &Run, path: &Path) -> Result<(), Failure> {
    let several = run.stamps.len() > 1;
    let all = run.stamps.iter().zip(&run.declared).zip(&scenario.servers);
    for (index, ((stamps, declared), server)) in all.enumerate() {
        let seed = run.trace.seed.unwrap_or_default();
        let title = format!("{}, seed {seed}: {}", scenario.name, server.name);
        let text = stamp_file(&title, declared, stamps)?;
        if several {
            let mut name = path.as_os_str().to_owned();
            name.push(format!(".{}", index + 1));
            save(Path::new(&name), &text)?;
        } else {
            save(path, &text)?;
        }
    }
    Ok(())
}

/// Stamps with a reference as `truechimer-lab replay` reads them.
fn stamp_file(title: &str, declared: &Declared, stamps: &[Stamped]) -> Result<String, Failure> {
    let mut text = format!("# {title}\n");
    write_header(declared, true, &mut text)
        .and_then(|()| write_stamps(stamps, &mut text))
        .map_err(|why| Failure::new("--stamps", why))?;
    Ok(text)
}

/// One line of JSON.
#[derive(Serialize)]
struct Row<'a> {
    scenario: &'a str,
    estimator: &'a str,
    honest: bool,
    /// Which conditions of the bound do not hold, in words.
    broken_conditions: Vec<String>,
    /// Beginnings, h, of what the scenario is about and its end comes before.
    not_reached_hours: Vec<f64>,
    hours: f64,
    poll_s: u32,
    #[serde(flatten)]
    statistics: &'a Statistics,
}

impl<'a> Row<'a> {
    fn new(
        scenario: &'a Scenario,
        estimator: Kind,
        honest: bool,
        statistics: &'a Statistics,
    ) -> Row<'a> {
        Row {
            scenario: &scenario.name,
            estimator: estimator.name(),
            honest,
            broken_conditions: scenario.broken_conditions(),
            not_reached_hours: scenario.not_reached(),
            hours: scenario.hours,
            poll_s: scenario.poll,
            statistics,
        }
    }
}
