//! `truechimer-lab simulate case`: the paper's experiments in one report.

use std::io::{self, Write};
use std::time::Instant;

use truechimer_estimators::{Kind, TABLE};
use truechimer_report::Section;
use truechimer_sim::case::{Experiment, Measure, experiments, page};

use super::{affordable, estimators, jobs, screen, seeds};
use truechimer_command::output::{ready, save_report};
use truechimer_command::program;
use truechimer_command::report::placed;
use truechimer_command::table::{Side, Table};
use truechimer_command::{Ended, Failure, Outcome};

/// Hours that `--hours` is a share of: the length of most of the experiments.
const FULL_HOURS: f64 = 28.0;

/// Runs the study.
pub fn run(args: &super::Simulate, out: &mut dyn Write) -> Ended {
    for (given, option) in [
        (args.poll.is_some(), "--poll"),
        (args.stamps.is_some(), "--stamps"),
        (args.csv.is_some(), "--csv"),
        (args.print, "--print"),
        (args.json, "--json"),
    ] {
        if given {
            let why = "not for the study 'case', which has its own scenarios and polls; it takes \
                       --estimator, --hours (of the experiments that last 28 in full), --seed or \
                       --seeds, --jobs, --report";
            return Err(Failure::new(option, why));
        }
    }
    let Some(path) = &args.report else {
        return Err(Failure::new("simulate case", "needs --report FILE to write to"));
    };
    ready(path)?;
    let scale = args.hours.map_or(1.0, |hours| hours / FULL_HOURS);
    let all = experiments(scale).map_err(|why| Failure::new("--hours", why))?;
    let plan = Plan {
        clocks: match args.estimator.as_slice() {
            [] => TABLE.to_vec(),
            _ => estimators(args),
        },
        seeds: seeds(args),
        width: jobs::width(args.jobs),
    };
    for (_, scenario) in all.iter().flat_map(|experiment| &experiment.scenarios) {
        affordable(scenario, plan.seeds.len())?;
    }
    // How long it takes is a matter of the virtual hours; a terminal that cannot be written to is
    // nobody's loss.
    let hours: Vec<f64> = all.iter().map(Experiment::hours).collect();
    let whole: f64 = hours.iter().sum();
    let (begun, mut done) = (Instant::now(), 0.0);
    let progress = &mut io::stderr();
    let _ = writeln!(
        progress,
        "{} experiments, {whole:.0} virtual hours under {} clocks with {} seeds each; after the first it \
         is said how long the others will take",
        all.len(),
        plan.clocks.len(),
        plan.seeds.len()
    );
    let mut sections = Vec::new();
    for (number, (experiment, hours)) in all.iter().zip(&hours).enumerate() {
        sections.push(section(experiment, &plan, out)?);
        out.flush()?;
        done += hours;
        if number + 1 < all.len() {
            let left = begun.elapsed().as_secs_f64() * (whole - done) / done;
            let _ = writeln!(
                progress,
                "{} of {} done, some {} to go",
                number + 1,
                all.len(),
                about(left)
            );
        }
    }
    let page = page(sections, &plan.clocks, scale, &program::line(), env!("CARGO_PKG_VERSION"));
    save_report(path, &placed(page))?;
    Ok(Outcome::Good)
}

/// Duration in words, roughly.
fn about(seconds: f64) -> String {
    match seconds {
        s if s < 90.0 => format!("{:.0} s", s.max(1.0)),
        s if s < 5400.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.1} h", s / 3600.0),
    }
}

/// Clocks and seeds that each scenario is run with.
struct Plan {
    clocks: Vec<Kind>,
    seeds: Vec<u64>,
    /// Number of scenarios at once.
    width: usize,
}

fn section(experiment: &Experiment, plan: &Plan, out: &mut dyn Write) -> Result<Section, Failure> {
    writeln!(out, "{}", experiment.title)?;
    let clocks = plan.clocks.iter().map(|clock| (clock.name(), Side::Right));
    let head: Vec<_> =
        std::iter::once(("rms of the error, µs", Side::Left)).chain(clocks).collect();
    let mut table = Table::new(&head);
    let mut outcomes = Vec::new();
    jobs::each(
        &experiment.scenarios,
        plan.width,
        |(_, scenario)| experiment.run(scenario, &plan.clocks, &plan.seeds),
        |(label, scenario), clocks| {
            let clocks = clocks.map_err(|why| Failure::new(&scenario.name, why))?;
            let label = if label.is_empty() { &scenario.name } else { label };
            for measure in Measure::ALL {
                let first = match measure {
                    Measure::Absolute => format!("  {label}"),
                    other => format!("    {}", other.name()),
                };
                let cells = clocks.iter().map(|clock| screen::number(clock.rms_us(measure)));
                table.row(std::iter::once(first).chain(cells).collect());
            }
            outcomes.push(clocks);
            Ok::<(), Failure>(())
        },
    )?;
    table.write(out)?;
    writeln!(out)?;
    Ok(experiment.section(&outcomes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_said_roughly() {
        for (seconds, text) in [(0.2, "1 s"), (89.0, "89 s"), (150.0, "2 min"), (9000.0, "2.5 h")] {
            assert_eq!(about(seconds), text);
        }
    }
}
