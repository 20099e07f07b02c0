//! `truechimer-lab simulate bound`: how wide the interval is, over what causality makes necessary.

use std::io::Write;

use truechimer_sim::width::{AGAIN_S, Ratio, Widths, widths};
use truechimer_sim::{Scenario, find};

use super::{jobs, screen, seeds};
use truechimer_command::{Ended, Failure, Outcome};

/// The scenarios, at these polls.
const SCENARIOS: [(&str, u32); 14] = [
    ("lan", 1),
    ("lan", 2),
    ("lan", 4),
    ("lan", 16),
    ("lan", 64),
    ("lan-bursts-both", 16),
    ("heavy-tail", 16),
    ("wan", 16),
    ("shift-up-both", 16),
    ("shift-down-both", 16),
    ("shift-up-forward", 16),
    ("shift-up-backward", 16),
    ("shift-down-forward", 16),
    (BED, 2),
];
/// The path of `docs/results/compare.md`, whose route grows both ways after five minutes.
const BED: &str = "route-both-of-the-bed";
const BED_TOML: &str = "
name = \"route-both-of-the-bed\"
hours = 0.5
warm-up-hours = 0.02
poll = 2
[[server]]
name = \"a\"
forward.floor-ms = 0.31
forward.queue = [{ law.exponential.mean-ms = 0.01 }]
forward.shift = [{ at-s = 360, by-ms = 0.4 }]
backward.floor-ms = 0.31
backward.queue = [{ law.exponential.mean-ms = 0.01 }]
backward.shift = [{ at-s = 360, by-ms = 0.4 }]
";

/// Runs the study.
pub fn run(args: &super::Simulate, out: &mut dyn Write) -> Ended {
    super::only_seeds(args, "bound")?;
    let seeds = seeds(args);
    let mut cases: Vec<(&str, u32, Scenario)> = Vec::new();
    for (name, poll) in SCENARIOS {
        cases.push((name, poll, scenario(name, poll).map_err(|why| Failure::new(name, why))?));
    }
    writeln!(
        out,
        "Half of the interval's width and its larger side (the bound), over half the best round trip \
         + root distance\n+ stamp errors: on the path as it was, and from {AGAIN_S:.0} s after a change \
         of route on; {} seeds.\n",
        seeds.len()
    )?;
    writeln!(
        out,
        "| scenario | poll, s | least, µs | half-width | 90 % | bound | changed: least, µs | half-width \
         | 90 % | bound |\n|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|"
    )?;
    jobs::each(
        &cases,
        jobs::width(args.jobs),
        |(_, _, scenario)| {
            seeds.iter().map(|seed| widths(scenario, *seed)).collect::<Result<Vec<_>, _>>()
        },
        |(name, poll, _), found| {
            let found = found.map_err(|why| Failure::new(*name, why))?;
            let cells = |of: fn(&Widths) -> Option<Ratio>| cells(found.iter().filter_map(of));
            let (quiet, changed) = (cells(|w| w.quiet), cells(|w| w.changed));
            writeln!(out, "| `{name}` | {poll} | {quiet} | {changed} |")?;
            Ok::<(), Failure>(())
        },
    )?;
    Ok(Outcome::Good)
}

fn scenario(name: &str, poll: u32) -> Result<Scenario, String> {
    if name == BED {
        return Scenario::from_toml(BED_TOML).map_err(|why| why.to_string());
    }
    let scenario = find(name).map_err(|why| why.to_string())?;
    let scenario = scenario.with_poll(poll).map_err(|why| why.to_string())?;
    let hours = scenario.hours.min(24.0);
    scenario.with_hours(hours).map_err(|why| why.to_string())
}

/// The means over the seeds.
fn cells(ratios: impl Iterator<Item = Ratio>) -> String {
    let ratios: Vec<Ratio> = ratios.collect();
    if ratios.is_empty() {
        return "| | |".into();
    }
    let mean = |of: fn(&Ratio) -> f64| truechimer_report::mean(ratios.iter().map(of));
    format!(
        "{} | {:.3} | {:.3} | {:.3}",
        screen::number(mean(|r| r.least_us)),
        mean(|r| r.width),
        mean(|r| r.width_90),
        mean(|r| r.bound)
    )
}
