//! Survival of the group's clock: a campaign of seeded fail-overs on a real ring, with programs
//! that read all the time, and everything they saw held against what was promised.

pub mod campaign;
pub mod kept;
pub mod plan;
pub mod record;
mod show;
pub mod verify;
pub mod witness;

use std::path::{Path, PathBuf};
use std::time::Duration;

use truechimer_outcome::outcome::{Failure, Outcome};
use truechimer_outcome::program;
use truechimer_testbed::ring::Settings;

use crate::bench::group::bed::{How, MEMBERS};
use crate::bench::group::options::Options;
use campaign::{Campaign, Recovery, Work};
use show::Report;
use verify::{Tally, Verdict, Violation};

/// Settings of the campaign, beside what all measurements are asked.
#[derive(clap::Args, Clone, Debug)]
pub struct Wanted {
    /// After how long the ring takes a silent node for lost, ms
    #[arg(long, value_name = "MS", default_value_t = 400)]
    #[arg(value_parser = clap::value_parser!(u32).range(50..=10_000))]
    token: u32,
    /// Rings side by side, each with its share of the fail-overs
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=16))]
    rings: u32,
    /// Threads that read, at each node
    #[arg(long, value_name = "N", default_value_t = 4)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=64))]
    threads: u64,
    /// Pause of each of them between two readings, µs
    #[arg(long, value_name = "US", default_value_t = 5000)]
    pause: u64,
    /// Only these fail-overs of the plan, the first being 0: FROM..TO
    #[arg(long, value_name = "FROM..TO")]
    #[arg(value_parser = range)]
    steps: Option<(usize, usize)>,
    /// The group's mode
    #[arg(long, value_enum, default_value_t = Mode::Active)]
    mode: Mode,
    /// By knet instead of udpu
    #[arg(long)]
    knet: bool,
    /// Keep all records in this folder, whatever comes of it (violations keep them in any case)
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
}

/// Modes in which all members' programs read.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum Mode {
    /// All propose
    Active,
    /// The primary alone proposes
    SemiActive,
}

impl Mode {
    const fn name(self) -> &'static str {
        match self {
            Mode::Active => "active",
            Mode::SemiActive => "semi-active",
        }
    }
}

fn range(text: &str) -> Result<(usize, usize), String> {
    let (from, to) = text.split_once("..").ok_or("two numbers with .. between them")?;
    let number = |text: &str| text.parse::<usize>().map_err(|error| error.to_string());
    Ok((number(from)?, number(to)?))
}

/// Result of one ring's campaign.
struct Ran {
    recoveries: Vec<Recovery>,
    verdict: Option<Verdict>,
    broken: Option<String>,
}

/// Runs it.
///
/// # Errors
/// Where this machine lacks what that takes.
pub fn run(options: &Options, wanted: &Wanted) -> Result<Outcome, Failure> {
    let count = options.count(1000, 30) as u32;
    let token = Duration::from_millis(u64::from(wanted.token));
    let work = Work { threads: wanted.threads, pause_us: wanted.pause, message_us: 20_000 };
    let dir = match &wanted.keep {
        Some(dir) => dir.clone(),
        None => std::env::temp_dir().join(format!("truechimer-fail-overs-{}", std::process::id())),
    };
    let per_ring = count.div_ceil(wanted.rings);
    let runs: Vec<Ran> = std::thread::scope(|scope| {
        let start = |ring: u32| {
            let dir = dir.join(format!("ring{ring}"));
            scope.spawn(move || one(options, wanted, ring, per_ring, token, work, &dir))
        };
        let rings: Vec<_> = (0..wanted.rings).map(start).collect();
        rings.into_iter().map(program::joined).collect()
    });
    let mut tally = Tally::default();
    let mut violations: Vec<Violation> = Vec::new();
    let mut broken = Vec::new();
    let mut recoveries = Vec::new();
    for ran in runs {
        if let Some(verdict) = ran.verdict {
            tally.add(&verdict.tally);
            violations.extend(verdict.violations);
        }
        broken.extend(ran.broken);
        recoveries.extend(ran.recoveries);
    }
    let steps = wanted.steps.map_or(per_ring as usize, |(from, to)| to.saturating_sub(from));
    let report = Report {
        seed: options.seed,
        token,
        rings: wanted.rings,
        work,
        wanted: steps as u32 * wanted.rings,
        recoveries,
        tally,
        violations,
        mode: wanted.mode.name(),
        broken,
    };
    let well = report.violations.is_empty() && report.broken.is_empty();
    if well && wanted.keep.is_none() {
        std::fs::remove_dir_all(&dir).map_err(|error| Failure::of(dir.display(), error))?;
    } else {
        eprintln!("records and logs are kept in {}", dir.display());
    }
    for violation in &report.violations {
        eprintln!("seed {}: {violation}", options.seed);
    }
    Ok(report.outcome())
}

/// One ring's share.
fn one(
    options: &Options,
    wanted: &Wanted,
    ring: u32,
    count: u32,
    token: Duration,
    work: Work,
    dir: &Path,
) -> Ran {
    let mut ran = Ran { recoveries: Vec::new(), verdict: None, broken: None };
    if let Err(failure) = campaign(options, wanted, ring, count, token, work, dir, &mut ran) {
        let done = ran.recoveries.len();
        eprintln!("seed {} ring {ring} after {done} fail-overs: {failure}", options.seed);
        ran.broken = Some(failure.0);
    }
    ran
}

#[expect(clippy::too_many_arguments, reason = "all of it is one ring's campaign")]
fn campaign(
    options: &Options,
    wanted: &Wanted,
    ring: u32,
    count: u32,
    token: Duration,
    work: Work,
    dir: &Path,
    ran: &mut Ran,
) -> Result<(), Failure> {
    let settings = Settings {
        nodes: MEMBERS,
        knet: wanted.knet,
        token_ms: Some(wanted.token),
        ..Settings::default()
    };
    std::fs::create_dir_all(dir).map_err(|error| Failure::of(dir.display(), error))?;
    let group = format!("mode = {:?}", wanted.mode.name());
    let environment = campaign::clocks(dir)?;
    let how = How { ring: settings, group, environment, ..How::usual(&options.truechimer) };
    let mut campaign = Campaign::start(how, work, dir, options.progress)?;
    let plan = plan::plan(options.seed + u64::from(ring), count, MEMBERS, token);
    let (from, to) = wanted.steps.unwrap_or((0, plan.len()));
    let mut failed = None;
    for step in plan.get(from..to.min(plan.len())).unwrap_or_default() {
        match campaign.step(step) {
            Ok(recovery) => {
                options.say(&format!(
                    "ring {ring} {step}: gap {} ms, back after {} ms{}",
                    recovery.survivors_ns / 1_000_000,
                    recovery.back_ns / 1_000_000,
                    if recovery.disturbed { "; disturbed" } else { "" }
                ));
                ran.recoveries.push(recovery);
            }
            Err(failure) => {
                failed = Some(failure);
                break;
            }
        }
    }
    // Where all is well the folder goes with them.
    campaign.keep_logs()?;
    let online = campaign.finish()?;
    let verdict = kept::verify(dir)?;
    // The same records in the same order of lives must come to the same counts.
    if failed.is_none() && verdict.tally.values != online.tally.values {
        return Err(Failure(format!(
            "{} values came in while it ran, {} are in the files",
            online.tally.values, verdict.tally.values
        )));
    }
    if !verdict.violations.is_empty() && failed.is_none() {
        options.say("violations: see below");
    }
    ran.verdict = Some(verdict);
    failed.map_or(Ok(()), Err)
}
