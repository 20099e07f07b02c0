//! `truechimer-lab simulate likely`: how often the truth is within likely intervals, and how much
//! narrower they are than the bound.

use std::collections::BTreeMap;
use std::io::Write;

use clap::Args;
use truechimer_estimators::OURS;
use truechimer_feedforward::number::seconds;
use truechimer_feedforward::{ACCEPT_STEP_AFTER, Ours};
use truechimer_sim::direct::Packets;
use truechimer_sim::drawn::{Day, HOURS, coverage};
use truechimer_sim::wrong::{WAYS, Way, cases, run_all};
use truechimer_sim::{Coverage, DOUBTS, Scenario, find, simulate_alike};

use super::jobs::{self, Progress};
use truechimer_command::{Ended, Failure, Outcome};

/// Scenarios of one server, and of several, and for how many hours.
const SCENARIOS: [(&str, f64); 16] = [
    ("lan", 12.0),
    ("lan-bursts-both", 12.0),
    ("heavy-tail", 12.0),
    ("wifi", 12.0),
    ("daily-load", 24.0),
    ("shift-up-both", 18.0),
    ("shift-up-forward", 18.0),
    ("wan", 12.0),
    (FAR, 12.0),
    (THREE_FAR, 12.0),
    ("near-and-far", 12.0),
    ("five-servers", 12.0),
    ("unlike-liar-1ms", 12.0),
    ("unlike-two-of-five", 12.0),
    ("liars-two-of-five", 12.0),
    ("shift-second-tells", 12.0),
];
/// A far server over a path of 36 ms that hardly queues, 3 % asymmetric: of the wide world there is
/// no scenario without queues of a millisecond.
const FAR: &str = "far, quiet";
/// Three of them, each asymmetric in its own way, over the same 4 ms of access network.
const THREE_FAR: &str = "three far, quiet";
/// Names of the far servers, and what each direction takes, ms.
const FAR_SERVERS: [(&str, f64, f64); 3] =
    [("a", 18.27, 17.73), ("b", 13.8, 14.2), ("c", 25.4, 24.6)];

/// Options of `truechimer-lab simulate likely`.
#[derive(Args, Debug)]
#[command(after_help = "\
Three tables in Markdown, read once a second: drawn paths (as 'truechimer-lab simulate drawn' has
them), lone servers that are wrong (as 'truechimer-lab simulate wrong-servers'), and scenarios, some
of them with several servers. Where there is no likely interval the bound counts for it.

Exit status: 0, 2 on an error.")]
pub struct Options {
    /// Number of path-days
    #[arg(long, value_name = "N", default_value_t = 240)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub days: u64,
    /// Where the days come from
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Number of seeds of each wrong server and scenario
    #[arg(long, value_name = "N", default_value_t = 5)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub seeds: u32,
    /// Only these tables, separated by commas
    #[arg(long, value_name = "TABLE", value_delimiter = ',', value_enum)]
    pub only: Vec<Part>,
    /// Number of them that are worked out side by side [default: as many as there are cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub jobs: Option<u32>,
}

/// A table of the study.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Part {
    /// Drawn paths
    Drawn,
    /// Lone servers that are wrong
    WrongServers,
    /// Scenarios
    Scenarios,
}

/// Runs the study.
pub fn run(args: &Options, out: &mut dyn Write) -> Ended {
    type Make = fn(&Options, &mut dyn Write) -> Result<(), Failure>;
    let parts: [(Part, Make); 3] =
        [(Part::Drawn, drawn), (Part::WrongServers, wrong), (Part::Scenarios, scenarios)];
    for (_, make) in parts.iter().filter(|(p, _)| args.only.is_empty() || args.only.contains(p)) {
        make(args, out)?;
    }
    Ok(Outcome::Good)
}

fn drawn(args: &Options, out: &mut dyn Write) -> Result<(), Failure> {
    let days: Vec<Day> = Day::numbers(args.days, None)
        .into_iter()
        .map(|number| Day::new(args.seed, number, 16, HOURS))
        .collect();
    let (mut found, mut all) = (BTreeMap::new(), Coverage::default());
    let mut progress = Progress::of("path-days", days.len());
    jobs::each(
        &days,
        jobs::width(args.jobs),
        |day| coverage(day, OURS).unwrap_or_default(),
        |day, one| {
            add(&mut found, day.technology, &one);
            all = all.plus(&one);
            progress.one_more();
            Ok::<(), Failure>(())
        },
    )?;
    let title = format!("Drawn paths: {} days of seed {}", args.days, args.seed);
    let rows = found.iter().map(|(technology, row)| (technology.name(), row));
    table(&title, rows.chain([("all", &all)]), out)
}

fn wrong(args: &Options, out: &mut dyn Write) -> Result<(), Failure> {
    let cases = cases();
    let seeds = 1..=u64::from(args.seeds);
    let work: Vec<(Way, u64)> =
        WAYS.iter().flat_map(|way| seeds.clone().map(|seed| (*way, seed))).collect();
    let mut found: Vec<(String, Coverage)> = Vec::new();
    let mut progress = Progress::of("runs", work.len());
    jobs::each(
        &work,
        jobs::width(args.jobs),
        |(way, seed)| run_all(&cases, way, seconds(ACCEPT_STEP_AFTER), OURS, *seed),
        |(way, _), outcomes| {
            let outcomes = outcomes.map_err(|why| Failure::new(way.name, why))?;
            for (case, outcome) in cases.iter().zip(&outcomes) {
                let name = format!("{}, {}", case.group.name(), way.name);
                match found.iter_mut().find(|(known, _)| *known == name) {
                    Some((_, row)) => *row = row.plus(&outcome.likely),
                    None => found.push((name, outcome.likely)),
                }
            }
            progress.one_more();
            Ok::<(), Failure>(())
        },
    )?;
    let title = format!("Lone servers that are wrong, {} seeds of each case", args.seeds);
    table(&title, found.iter().map(|(name, row)| (name.as_str(), row)), out)
}

fn scenarios(args: &Options, out: &mut dyn Write) -> Result<(), Failure> {
    let seeds = 1..=u64::from(args.seeds);
    let work: Vec<(&str, f64, u64)> = SCENARIOS
        .iter()
        .flat_map(|(name, hours)| seeds.clone().map(|seed| (*name, *hours, seed)))
        .collect();
    let mut found: Vec<(&str, Coverage)> = Vec::new();
    jobs::each(
        &work,
        jobs::width(args.jobs),
        |(name, hours, seed)| scenario(name, *hours, *seed),
        |(name, ..), one| {
            let one = one.map_err(|why| Failure::new(*name, why))?;
            match found.iter_mut().find(|(known, _)| known == name) {
                Some((_, row)) => *row = row.plus(&one),
                None => found.push((*name, one)),
            }
            Ok::<(), Failure>(())
        },
    )?;
    let title = format!("Scenarios, {} seeds; of several servers at 10⁻⁶ only", args.seeds);
    table(&title, found.iter().map(|(name, row)| (*name, row)), out)
}

/// One server's estimator by itself, at every doubt; several in the engine, at the one that is
/// published.
fn scenario(name: &str, hours: f64, seed: u64) -> Result<Coverage, String> {
    let scenario = match name {
        FAR => far(1)?,
        THREE_FAR => far(FAR_SERVERS.len())?,
        name => find(name).map_err(|why| why.to_string())?,
    };
    let scenario = scenario.with_hours(hours).map_err(|why| why.to_string())?;
    let run = simulate_alike(&scenario, OURS, seed).map_err(|why| why.to_string())?;
    let Some(packets) = Packets::of(&scenario, seed, &run) else {
        return Ok(Coverage::of_trace(&run.trace));
    };
    let (settings, prior) = packets.known();
    Ok(packets.coverage(&mut Ours::new(settings, prior, None)))
}

/// Scenario of so many of the far servers.
fn far(servers: usize) -> Result<Scenario, String> {
    let queue = "queue = [{ law.exponential.mean-ms = 0.05 }]";
    let mut toml = "name = \"far\"\nhours = 12\nwarm-up-hours = 1\n".to_owned();
    for (name, forward, backward) in FAR_SERVERS.iter().take(servers) {
        toml += &format!("[[server]]\nname = \"{name}\"\n");
        for (way, ms) in [("forward", forward), ("backward", backward)] {
            toml += &format!("{way}.floor-ms = {ms}\n{way}.{queue}\n");
        }
    }
    Scenario::from_toml(&toml).map_err(|why| why.to_string())
}

fn add<K: Ord>(rows: &mut BTreeMap<K, Coverage>, key: K, one: &Coverage) {
    let row = rows.entry(key).or_default();
    *row = row.plus(one);
}

/// A row for each: how often there is no likely interval, and at each doubt how often the truth is
/// outside, how far at most, and how many times narrower it is than the bound.
fn table<'r>(
    title: &str,
    rows: impl Iterator<Item = (&'r str, &'r Coverage)>,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    writeln!(
        out,
        "{title}\n\n| | hours | none, % | outside at 10⁻² | 10⁻⁴ | 10⁻⁶ | at most, half-widths | narrower \
         than the bound at 10⁻² | 10⁻⁴ | 10⁻⁶ |\n|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|"
    )?;
    for (name, row) in rows {
        let hours = row.seconds as f64 / 3600.0;
        let none = 100.0 * row.silent as f64 / row.seconds.max(1) as f64;
        // A published clock has one confidence.
        let cell = |k: usize, text: String| if row.is_read(k) { text } else { "–".into() };
        let of = |text: &dyn Fn(usize) -> String| -> Vec<String> {
            (0..DOUBTS.len()).map(|k| cell(k, text(k))).collect()
        };
        let outside = of(&|k| share(row.outside(k)));
        let narrower = of(&|k| format!("{:.1} ×", row.narrower(k)));
        let most = row.at.last().map_or(0.0, |at| at.most);
        let most = if most > 0.0 { format!("{most:.2}") } else { "–".into() };
        writeln!(
            out,
            "| {name} | {hours:.0} | {none:.1} | {} | {most} | {} |",
            outside.join(" | "),
            narrower.join(" | ")
        )?;
    }
    writeln!(out)?;
    Ok(())
}

/// A share as people read small ones.
fn share(share: f64) -> String {
    if share == 0.0 { "0".into() } else { format!("{share:.1e}") }
}
