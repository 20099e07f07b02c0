//! `truechimer-lab simulate drawn`: the clock on paths that are drawn and not written down.

mod summary;
pub(super) use summary::{ranges as table_of_ranges, short, slashes};

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use clap::builder::PossibleValuesParser;
use serde::Serialize;
use truechimer_estimators::{Ablation, Kind, NTP_PLL, OURS, PI, PUBLISHED};
use truechimer_feedforward::Ours;
use truechimer_model::Constants;
use truechimer_sim::Trace;
use truechimer_sim::direct::Packets;
use truechimer_sim::drawn::{Day, HOURS, Judged, Realised, Technology};

use super::jobs::{self, Progress};
use super::{csv, each_once, screen, stamp_file};
use truechimer_command::output::{ready, save};
use truechimer_command::parse;
use truechimer_command::show::json;
use truechimer_command::table::{Side, Table};
use truechimer_command::{Ended, Failure, Outcome};

/// Clocks that each other one is compared with.
const COMPARED: [Kind; 3] = [PUBLISHED, NTP_PLL, PI];

/// Names of the limits: the one that is told all, and the one that learns what can be learnt.
const LIMITS: [&str; 2] = ["limit", "limit-learning"];

/// Number of a clock's reports and hold-offs that are listed.
const LISTED: usize = 20;

/// Options of `truechimer-lab simulate drawn`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  truechimer-lab simulate drawn --days 120               the clock beside others, goals, worst days
  truechimer-lab simulate drawn --technology lte         of one kind
  truechimer-lab simulate drawn --day 37 --stamps FILE   one of them: what was drawn, its packets

Exit status: 0, 1 if a goal was missed (of one day: if the truth was outside the bound), 2 on an
error.")]
pub struct Options {
    /// Which clocks to judge, separated by commas; published, ntp-pll and pi are beside them anyway
    #[arg(long, value_name = "NAME", value_parser = crate::estimator(), value_delimiter = ',')]
    #[arg(default_value = "ours")]
    pub estimator: Vec<Kind>,
    /// Where everything random comes from
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Number of path-days; the goals take 2000
    #[arg(long, value_name = "N", default_value_t = 120)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub days: u64,
    /// Only the path-days of this technology
    #[arg(long, value_name = "NAME", value_parser = Technology::named)]
    pub technology: Option<Technology>,
    /// The path-day of this number by itself, with what was drawn for it
    #[arg(long, value_name = "N", conflicts_with = "days")]
    pub day: Option<u64>,
    /// Hours of each path-day, at most 240
    #[arg(long, value_name = "H", default_value_t = HOURS, value_parser = hours)]
    pub hours: f64,
    /// Seconds between requests, 1 to 1024
    #[arg(long, value_name = "S", default_value_t = 16, value_parser = parse::poll)]
    pub poll: u32,
    /// Leave a part of the model of 'ours' out, by its name in 'simulate ablation'; as often as there
    /// are parts to leave out
    #[arg(long, value_name = "PART", value_parser = parts())]
    pub without: Vec<String>,
    /// Judge clocks that are told the law of each packet's delay as well: on path-days of ethernet,
    /// wifi, leo, jitter and quantised
    #[arg(long)]
    pub limit: bool,
    /// Print one JSON object a line for each path-day and clock, then the goals
    #[arg(long)]
    pub json: bool,
    /// Print Markdown, with all ranges
    #[arg(long, conflicts_with_all = ["json", "day"])]
    pub markdown: bool,
    /// Write the stamps of the one day to FILE, as 'truechimer-lab replay' reads them
    #[arg(long, value_name = "FILE", requires = "day")]
    pub stamps: Option<PathBuf>,
    /// Write every reading of the first clock on the one day to FILE: one line of CSV a second
    #[arg(long, value_name = "FILE", requires = "day")]
    pub csv: Option<PathBuf>,
    /// Number of days that are worked out side by side [default: as many as there are cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub jobs: Option<u32>,
}

/// The longest path-day, h.
const HOURS_MOST: f64 = 240.0;

fn hours(text: &str) -> Result<f64, String> {
    let hours = parse::hours(text)?;
    if hours <= HOURS_MOST { Ok(hours) } else { Err(format!("must be at most {HOURS_MOST}")) }
}

fn parts() -> PossibleValuesParser {
    Ablation::each().map(|ablation| ablation.part).collect::<Vec<_>>().into()
}

/// Results of all clocks on one day.
struct Line {
    day: Day,
    /// In the order of [`Plan::clocks`].
    clocks: Vec<Judged>,
    /// In the order of [`LIMITS`]; none if they are not asked for or the day has none.
    limits: Vec<Judged>,
}

/// Clocks and days to run.
struct Plan {
    /// Those that are judged, then the rest of those that they are compared with.
    clocks: Vec<Kind>,
    /// Number of them that are judged.
    judged: usize,
    /// True if the limits are asked for.
    limit: bool,
    days: Vec<Day>,
    /// Parts that the model of `ours` lacks, and the constants of the rest.
    without: Vec<String>,
    constants: Constants,
}

impl Plan {
    fn of(args: &Options) -> Plan {
        let mut clocks = each_once(&args.estimator);
        let judged = clocks.len();
        clocks
            .extend(COMPARED.into_iter().filter(|kind| !clocks.contains(kind)).collect::<Vec<_>>());
        let numbers = match args.day {
            Some(number) => vec![number],
            None => Day::numbers(args.days, args.technology),
        };
        let days =
            numbers.into_iter().map(|n| Day::new(args.seed, n, args.poll, args.hours)).collect();
        let without = args.without.clone();
        let constants = Ablation::without(without.iter().map(String::as_str));
        Plan { clocks, judged, limit: args.limit, days, without, constants }
    }

    /// Result of one clock on a day, and its readings.
    fn judge(&self, day: &Realised, kind: Kind, packets: &Packets) -> (Judged, Trace) {
        if kind != OURS {
            return day.judge(kind, packets);
        }
        let (settings, prior) = packets.known();
        let mut ours = Ours::new(settings, prior, None).with_constants(self.constants);
        day.judge_one(&mut ours, packets)
    }

    /// Results of the limits on a day.
    fn limits(&self, day: &Realised, packets: &Packets) -> Vec<Judged> {
        let limits = if self.limit { day.limits(packets) } else { Vec::new() };
        limits.into_iter().map(|mut limit| day.judge_one(&mut limit, packets).0).collect()
    }

    /// The numbers of the clocks that the one of this number is compared with.
    fn others(&self, clock: usize) -> impl Iterator<Item = usize> {
        let is_compared =
            move |(number, kind): &(usize, &Kind)| *number != clock && COMPARED.contains(kind);
        self.clocks.iter().enumerate().filter(is_compared).map(|(number, _)| number)
    }
}

/// Runs the study.
pub fn run(args: &Options, out: &mut dyn Write) -> Ended {
    for path in [&args.stamps, &args.csv].into_iter().flatten() {
        ready(path)?;
    }
    if !args.without.is_empty() && !args.estimator.contains(&OURS) {
        return Err(Failure::new("--without", "is for 'ours', which --estimator does not name"));
    }
    let plan = Plan::of(args);
    if let (Some(_), [day]) = (args.day, plan.days.as_slice()) {
        return one(day, &plan, args, out);
    }
    let lines = lines(&plan, args, out)?;
    let outcome = summary::outcome(&plan, &lines);
    if args.json {
        writeln!(out, "{}", json(&outcome.to_json())?)?;
    } else if args.markdown {
        write!(out, "{}", summary::page(&outcome))?;
    } else {
        write!(out, "{}", outcome.text())?;
    }
    Ok(Outcome::of(outcome.is_met()))
}

/// Runs all days, some at a time.
fn lines(plan: &Plan, args: &Options, out: &mut dyn Write) -> Result<Vec<Line>, Failure> {
    let mut lines: Vec<Line> = Vec::with_capacity(plan.days.len());
    let mut progress = Progress::of("path-days", plan.days.len());
    jobs::each(
        &plan.days,
        jobs::width(args.jobs),
        |day| line(day, plan),
        |_, line| {
            if args.json {
                let names = plan.clocks.iter().map(|kind| kind.name());
                let named = names.zip(&line.clocks).chain(LIMITS.into_iter().zip(&line.limits));
                for (name, judged) in named {
                    writeln!(out, "{}", json(&Row::new(&line.day, name, judged))?)?;
                }
            }
            lines.push(line);
            progress.one_more();
            Ok::<(), Failure>(())
        },
    )?;
    Ok(lines)
}

/// Results of each clock on a day.
fn line(day: &Day, plan: &Plan) -> Line {
    let realised = day.realise();
    let packets = realised.packets();
    let judged = |kind: &Kind| plan.judge(&realised, *kind, packets.as_ref()?).0.into();
    let clocks = plan.clocks.iter().filter_map(judged).collect();
    let limits = packets.as_ref().map(|packets| plan.limits(&realised, packets));
    Line { day: day.clone(), clocks, limits: limits.unwrap_or_default() }
}

/// One line of JSON.
#[derive(Serialize)]
struct Row<'a> {
    day: u64,
    seed: u64,
    technology: &'a str,
    estimator: &'a str,
    poll_s: u32,
    hours: f64,
    #[serde(flatten)]
    judged: &'a Judged,
}

impl<'a> Row<'a> {
    fn new(day: &'a Day, estimator: &'a str, judged: &'a Judged) -> Row<'a> {
        Row {
            day: day.number,
            seed: day.seed,
            technology: day.technology.name(),
            estimator,
            poll_s: day.poll,
            hours: day.seconds / 3600.0,
            judged,
        }
    }
}

/// One day by itself: what was drawn, what happened, and what the clocks made of it.
fn one(day: &Day, plan: &Plan, args: &Options, out: &mut dyn Write) -> Ended {
    if args.technology.is_some_and(|technology| technology != day.technology) {
        let why = format!("day {} is one of {}", day.number, day.technology.name());
        return Err(Failure::new("--technology", why));
    }
    let realised = day.realise();
    let packets = realised.packets();
    let packets = packets.ok_or_else(|| Failure::new("--day", "not a packet came back"))?;
    let ran: Vec<(Judged, Trace)> =
        plan.clocks.iter().map(|kind| plan.judge(&realised, *kind, &packets)).collect();
    if let Some(path) = &args.stamps {
        save(path, &stamps(&realised)?)?;
    }
    if let (Some(path), Some((_, trace))) = (&args.csv, ran.first()) {
        csv::save(trace, path)?;
    }
    let limits = plan.limits(&realised, &packets);
    let named = plan.clocks.iter().zip(&ran).map(|(kind, (judged, _))| (kind.name(), judged));
    let named: Vec<_> = named.chain(LIMITS.into_iter().zip(&limits)).collect();
    if args.json {
        for (name, judged) in named {
            writeln!(out, "{}", json(&Row::new(day, name, judged))?)?;
        }
    } else {
        show(&realised, &named, out)?;
    }
    let is_broken =
        |(kind, (judged, _)): (&Kind, &(Judged, Trace))| kind.is_bounded() && judged.outside_s > 0;
    Ok(Outcome::of(!plan.clocks.iter().zip(&ran).take(plan.judged).any(is_broken)))
}

/// The day's stamps, as `truechimer-lab replay` reads them.
fn stamps(realised: &Realised) -> Result<String, Failure> {
    let day = &realised.day;
    let title = format!(
        "path-day {} of seed {}, {}: poll {} s",
        day.number,
        day.seed,
        day.technology.name(),
        day.poll
    );
    stamp_file(&title, &realised.declared, &realised.stamps())
}

fn show(
    realised: &Realised,
    clocks: &[(&str, &Judged)],
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let Realised { day, drew, changes, exchanges, .. } = realised;
    writeln!(
        out,
        "path-day {} of seed {}, {}: {}\n{} h, poll {} s, {} exchanges\n",
        day.number,
        day.seed,
        day.technology.name(),
        day.technology.about(),
        day.seconds / 3600.0,
        day.poll,
        exchanges.len()
    )?;
    let columns =
        [("part", Side::Left), ("drawn", Side::Left), ("", Side::Right), ("", Side::Left)];
    let mut table = Table::new(&columns);
    for drawn in drew {
        let range = drawn.range;
        let value = summary::short(drawn.value);
        table.row(vec![drawn.part.clone(), range.name.into(), value, range.unit.into()]);
    }
    table.write(out)?;
    writeln!(out)?;
    let mut table = Table::new(&[
        ("path changes", Side::Left),
        ("at h", Side::Right),
        ("there ms", Side::Right),
        ("back ms", Side::Right),
    ]);
    let is_rare = |change: &&truechimer_sim::drawn::Change| {
        change.cause != truechimer_sim::drawn::Cause::Satellite
    };
    for change in changes.iter().filter(is_rare) {
        let [there, back] = change.by.map(|by| format!("{:+.3}", by * 1e3));
        let at = format!("{:.3}", change.at / 3600.0);
        table.row(vec![format!("{:?}", change.cause).to_lowercase(), at, there, back]);
    }
    table.write(out)?;
    writeln!(out)?;
    let mut table = Table::new(&[
        ("µs", Side::Left),
        ("rms", Side::Right),
        ("deviation", Side::Right),
        ("largest", Side::Right),
        ("bound", Side::Right),
        ("÷ best", Side::Right),
        ("outside s", Side::Right),
        ("held", Side::Right),
        ("for s", Side::Right),
        ("path changed", Side::Right),
        ("at nothing", Side::Right),
    ]);
    for (name, judged) in clocks {
        let r = &judged.reported;
        table.row(vec![
            (*name).into(),
            screen::number(judged.rms_us),
            screen::number(judged.deviation_us),
            screen::number(judged.largest_us),
            screen::number(judged.bound_us),
            screen::number(judged.bound_ratio),
            judged.outside_s.to_string(),
            judged.held.to_string(),
            screen::number(judged.held_s),
            (r.at_route + r.at_queue + r.at_satellite + r.at_nothing).to_string(),
            r.at_nothing.to_string(),
        ]);
    }
    table.write(out)?;
    for (name, judged) in clocks {
        let Judged { reports, hold_offs, .. } = judged;
        for (at, by) in reports.iter().take(LISTED) {
            let (hour, by) = (at / 3600.0, screen::number(*by));
            writeln!(out, "{name}: at {hour:.3} h the path had changed, by {by} µs")?;
        }
        for (from, to) in hold_offs.iter().take(LISTED) {
            let (hour, length) = (from / 3600.0, to - from);
            writeln!(out, "{name}: at {hour:.3} h held off for {length:.0} s")?;
        }
    }
    Ok(())
}
