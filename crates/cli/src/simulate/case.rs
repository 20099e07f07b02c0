//! `truechimer simulate case`: the paper's experiments in one report.

use std::io::Write;

use truechimer_report::Section;
use truechimer_sim::case::{Experiment, experiments, page};

use super::{command, jobs, ready, save, screen};
use crate::args;
use crate::failure::{Ended, Failure, Outcome};
use crate::table::{Side, Table};

/// What `--hours` is a share of: the length of most of the experiments.
const FULL_HOURS: f64 = 28.0;

/// Runs the study.
pub fn run(args: &args::Simulate, out: &mut dyn Write) -> Ended {
    for (given, option) in [
        (args.poll.is_some(), "--poll"),
        (args.stamps.is_some(), "--stamps"),
        (args.csv.is_some(), "--csv"),
        (args.print, "--print"),
        (args.json, "--json"),
        (args.seeds.is_some(), "--seeds"),
        (!args.estimator.is_empty(), "--estimator"),
    ] {
        if given {
            let why = "not for the study 'case', which has its own scenarios, estimators and polls; it \
                       takes --hours (of the experiments that last 28 in full), --seed, --jobs, --report";
            return Err(Failure::new(option, why));
        }
    }
    let Some(path) = &args.report else {
        return Err(Failure::new("simulate case", "needs --report FILE to write to"));
    };
    ready(path)?;
    let scale = args.hours.map_or(1.0, |hours| hours / FULL_HOURS);
    let all = experiments(scale).map_err(|why| Failure::new("--hours", why))?;
    let mut sections = Vec::new();
    for experiment in &all {
        sections.push(section(experiment, args, out)?);
        out.flush()?;
    }
    save(path, &page(sections, scale, &command(), env!("CARGO_PKG_VERSION")).render())?;
    writeln!(out, "report written to {}", path.display())?;
    Ok(Outcome::Good)
}

fn section(
    experiment: &Experiment,
    args: &args::Simulate,
    out: &mut dyn Write,
) -> Result<Section, Failure> {
    writeln!(out, "{}", experiment.title)?;
    let mut table = Table::new(&[
        ("rms of the error, µs", Side::Left),
        ("ours", Side::Right),
        ("published", Side::Right),
        ("ntp-pll", Side::Right),
        ("pi", Side::Right),
    ]);
    let mut outcomes = Vec::new();
    jobs::each(
        &experiment.scenarios,
        jobs::width(args.jobs),
        |(_, scenario)| experiment.run(scenario, args.seed),
        |(label, scenario), clocks| {
            let clocks = clocks.map_err(|why| Failure::new(&scenario.name, why))?;
            let label = if label.is_empty() { &scenario.name } else { label };
            let rms = clocks.iter().map(|clock| screen::number(clock.rms_us()));
            table.row(std::iter::once(format!("  {label}")).chain(rms).collect());
            outcomes.push(clocks);
            Ok::<(), Failure>(())
        },
    )?;
    table.write(out)?;
    writeln!(out)?;
    Ok(experiment.section(&outcomes))
}
