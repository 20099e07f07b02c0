//! Rounds per second and memory, for a long time.

use std::time::{Duration, Instant};

use serde_json::json;
use truechimer_outcome::outcome::{Failure, Figure, Goal, Grid, Outcome};
use truechimer_outcome::plot::{Axis, Plot};
use truechimer_outcome::stats::median;
use truechimer_outcome::verdict::Verdict;
use truechimer_testbed::ring::Settings;

use crate::bench::group::bed::{Bed, How, MEMBERS};
use crate::bench::group::load::Load;
use crate::bench::group::options::Options;

/// Logical threads of each program.
const THREADS: u64 = 4;
/// Number of looks in all.
const LOOKS: u32 = 240;
/// The share of the time after which everything is warm.
const WARM: f64 = 0.2;
/// In less than this, s, an agent that has just been started is still warming up.
const LEAST_TIME: f64 = 120.0;
/// Largest ratio of memory at the end to memory once all is warm.
const MOST_GROWTH: f64 = 1.05;

/// Length of the soak.
#[derive(clap::Args, Clone, Debug)]
pub struct Wanted {
    /// Length of the soak
    #[arg(long, value_name = "S", default_value_t = 600)]
    #[arg(value_parser = clap::value_parser!(u32).range(10..=1_000_000))]
    seconds: u32,
}

/// One look.
#[derive(Clone, PartialEq, Debug)]
struct Look {
    seconds: f64,
    rounds: u64,
    /// Of each agent, KiB.
    agents: Vec<u64>,
    /// Of each Corosync, KiB.
    corosyncs: Vec<u64>,
}

/// Measures it.
///
/// # Errors
/// Where the machine lacks what that takes, or the group fails.
pub fn run(options: &Options, wanted: &Wanted) -> Result<Outcome, Failure> {
    let time = if options.quick { 20.0 } else { f64::from(wanted.seconds) };
    let mut bed = Bed::up(How { ring: Settings::default(), ..How::usual(&options.truechimer) })?;
    let load = Load {
        first: 1000,
        threads: THREADS,
        rounds: u64::MAX,
        pause_us: (500, 1500),
        seed: options.seed,
        ..Load::default()
    };
    let mut programs = Vec::new();
    for node in 1..=MEMBERS {
        programs.push((node, bed.start_load(node, &load)?.0));
    }
    bed.wait_for_programs(MEMBERS)?;
    let began = Instant::now();
    let mut looks = Vec::new();
    let between = Duration::from_secs_f64(time / f64::from(LOOKS));
    while began.elapsed().as_secs_f64() < time {
        let rounds = bed.report(1)?.pointer("/counts/rounds").and_then(|n| n.as_u64());
        let mut agents = Vec::new();
        let mut corosyncs = Vec::new();
        for node in 1..=MEMBERS {
            agents.push(resident(bed.agent(node)?.pid())?);
            corosyncs.push(resident(bed.ring().process(node).pid())?);
        }
        let seconds = began.elapsed().as_secs_f64();
        let rounds = rounds.ok_or_else(|| Failure("the agent does not count rounds".to_owned()))?;
        looks.push(Look { seconds, rounds, agents, corosyncs });
        for (node, process) in &mut programs {
            if !process.is_running() {
                let said = process.output();
                return Err(Failure(format!("the program at node {node} ended: {}", said.trim())));
            }
        }
        std::thread::sleep(between);
    }
    Ok(outcome(&looks, time))
}

/// Resident memory, KiB.
fn resident(pid: u32) -> Result<u64, Failure> {
    let path = format!("/proc/{pid}/status");
    let text = std::fs::read_to_string(&path).map_err(|error| Failure::of(&path, error))?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
    number.ok_or_else(|| Failure(format!("{path}: no VmRSS")))
}

/// Rounds per second from look to look.
fn rates(looks: &[Look]) -> Vec<(f64, f64)> {
    let rate = |pair: &[Look]| match pair {
        [a, b] => Some((
            b.seconds,
            b.rounds.saturating_sub(a.rounds) as f64 / (b.seconds - a.seconds).max(1e-9),
        )),
        _ => None,
    };
    looks.windows(2).filter_map(rate).collect()
}

/// The median of what is greatest, in the last tenth over the tenth after the warming up.
fn growth(looks: &[Look], of: fn(&Look) -> &[u64]) -> f64 {
    let part = |from: f64, to: f64| {
        let count = looks.len() as f64;
        let range = (count * from) as usize..((count * to) as usize).min(looks.len());
        let greatest = |look: &Look| of(look).iter().copied().max().unwrap_or(0) as f64;
        median(looks.get(range).unwrap_or_default().iter().map(greatest))
    };
    part(0.9, 1.0) / part(WARM, WARM + 0.1)
}

/// Memory is no matter of how busy a machine is, but of time.
fn grown(agents: f64, time: f64) -> Verdict {
    if time < LEAST_TIME || !agents.is_finite() {
        return Verdict::Open(format!("{time:.0} s are too short, it takes {LEAST_TIME:.0}"));
    }
    Verdict::of(agents <= MOST_GROWTH)
}

fn outcome(looks: &[Look], time: f64) -> Outcome {
    let rates = rates(looks);
    let half = |later: bool| {
        let mine = rates.iter().filter(|(at, _)| (*at > time / 2.0) == later);
        median(mine.map(|(_, rate)| rate))
    };
    let last = looks.last();
    let rounds = last.map_or(0, |look| look.rounds);
    let (agents, corosyncs) = (growth(looks, |l| &l.agents), growth(looks, |l| &l.corosyncs));
    let mut grid = Grid::new("In all", ["what", "figure"]);
    let kib = |all: Option<&Vec<u64>>| {
        let all: Vec<String> = all.into_iter().flatten().map(u64::to_string).collect();
        all.join(", ")
    };
    for (name, figure) in [
        ("time, s", format!("{time:.0}")),
        ("rounds", rounds.to_string()),
        ("rounds/s, first half, median", format!("{:.0}", half(false))),
        ("rounds/s, second half, median", format!("{:.0}", half(true))),
        ("agents' resident memory at the end, KiB", kib(last.map(|look| &look.agents))),
        ("Corosyncs' resident memory at the end, KiB", kib(last.map(|look| &look.corosyncs))),
        ("Corosync's growth", format!("{corosyncs:.3}")),
    ] {
        grid.row([name.to_owned(), figure]);
    }
    let memory = |name: &str, node: usize, of: fn(&Look) -> &[u64]| {
        let points = looks
            .iter()
            .filter_map(|look| Some((look.seconds, *of(look).get(node)? as f64 / 1024.0)));
        (format!("{name} {}", node + 1), points.collect::<Vec<_>>())
    };
    let plot = |title: &str, y: &str, lines| {
        let (x, y) = (Axis::linear("time since the start, s"), Axis::linear(y));
        Figure::Plot(Plot { title: title.to_owned(), x, y, lines })
    };
    Outcome {
        headline: Vec::new(),
        name: "soak",
        title: "Rounds and memory over time".to_owned(),
        about: vec![format!(
            "Three members on udpu, {THREADS} logical threads each, with pauses of 0.5 to 1.5 ms \
             between readings, for {time:.0} s. Memory is what the kernel counts as resident. An \
             agent's growth is the last tenth of the time over a tenth after the first fifth."
        )],
        goals: vec![Goal {
            name: "growth of the largest agent".to_owned(),
            wanted: format!("≤ {MOST_GROWTH}"),
            measured: format!("{agents:.3}"),
            verdict: grown(agents, time),
        }],
        grids: vec![grid],
        figures: vec![
            plot(
                "Rounds per second",
                "rounds per second",
                vec![("rounds/s".to_owned(), rates.clone())],
            ),
            plot(
                "Resident memory of agents and Corosyncs, MiB",
                "resident memory, MiB",
                (0..MEMBERS as usize)
                    .flat_map(|node| {
                        [
                            memory("agent", node, |look| &look.agents),
                            memory("Corosync", node, |look| &look.corosyncs),
                        ]
                    })
                    .collect(),
            ),
        ],
        json: json!(
            looks
                .iter()
                .map(|l| json!({
                    "s": l.seconds, "rounds": l.rounds, "agents_kib": l.agents,
                    "corosyncs_kib": l.corosyncs,
                }))
                .collect::<Vec<_>>()
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_and_rates_are_of_the_right_parts() {
        let looks: Vec<Look> = (0..100)
            .map(|n| Look {
                seconds: f64::from(n),
                rounds: u64::from(n as u32) * 10,
                // Steep while it warms up, then 1 % in all.
                agents: vec![
                    5,
                    if n < 20 { 50 * n as u64 } else { 1000 + u64::from(n >= 60) * 10 },
                ],
                corosyncs: vec![7],
            })
            .collect();
        assert_eq!(growth(&looks, |look| &look.agents), 1.01);
        assert_eq!(growth(&looks, |look| &look.corosyncs), 1.0);
        assert_eq!(grown(1.01, 600.0), Verdict::Met);
        assert_eq!(grown(1.2, 600.0), Verdict::NotMet);
        assert_eq!(grown(1.2, 20.0).met(), None);
        assert!(rates(&looks).iter().all(|(_, rate)| (rate - 10.0).abs() < 1e-9));
        assert!(resident(std::process::id()).unwrap() > 100);
    }
}
