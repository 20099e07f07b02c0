//! `truechimer-lab simulate sync-limit`: behind a PTP master, beside the least error that is possible.

use std::io::Write;

use truechimer_estimators::OURS;
use truechimer_report::rms;
use truechimer_sim::sync::{Error, STAMPS_NS, SYNCS, error};

use super::{jobs, screen};
use truechimer_command::{Ended, Failure, Outcome};

/// Number of seeds if the user has not said.
const SEEDS: u32 = 5;
/// Goal of the ratio to the limit.
const GOAL: f64 = 1.3;

/// Runs the study.
pub fn run(args: &super::Simulate, out: &mut dyn Write) -> Ended {
    super::only_seeds(args, "sync-limit")?;
    let seeds = args.seeds.unwrap_or(SEEDS);
    let of_stamps = |stamp| SYNCS.map(|sync| (sync, stamp));
    let rows: Vec<(f64, f64)> = STAMPS_NS.into_iter().flat_map(of_stamps).collect();
    let runs: Vec<(f64, f64, u64)> = rows
        .iter()
        .flat_map(|(sync, stamp)| (1..=u64::from(seeds)).map(|seed| (*sync, *stamp, seed)))
        .collect();
    let mut errors: Vec<Error> = Vec::new();
    jobs::each(
        &runs,
        jobs::width(args.jobs),
        |(sync, stamp, seed)| error(OURS, *sync, *stamp, *seed),
        |_, run| {
            errors.push(run.map_err(|why| Failure::new("sync-limit", why))?);
            Ok::<(), Failure>(())
        },
    )?;
    writeln!(
        out,
        "An hour behind a PTP master, on a path that always takes 0.1 ms, an oscillator whose rate walks by\n\
         10⁻⁹ per √s; RMS error of ours over {seeds} seeds, and the least that is possible with the pairs of a\n\
         question and a Sync, one each second at the most, and with all questions and every Sync (goal: at most\n\
         {GOAL} × the latter).\n\n\
         | stamps, ns | Sync every, s | ours, ns | limit of the pairs | ours / limit | limit of all | ours / limit | goal | outside |\n\
         |---|---|---|---|---|---|---|---|---|"
    )?;
    for ((sync, stamp), of) in rows.iter().zip(errors.chunks(seeds as usize)) {
        row(*sync, *stamp, of, out)?;
    }
    Ok(Outcome::Good)
}

fn row(sync: f64, stamp: f64, of: &[Error], out: &mut dyn Write) -> Result<(), Failure> {
    let Some(first) = of.first() else { return Ok(()) };
    let clock = rms(of.iter().map(|error| error.clock));
    let outside: usize = of.iter().map(|error| error.outside).sum();
    let ns = |seconds: f64| screen::number(1e9 * seconds);
    let every = if sync < 1.0 { format!("1/{:.0}", 1.0 / sync) } else { format!("{sync:.0}") };
    let met = if clock <= GOAL * first.all { "met" } else { "NOT MET" };
    writeln!(
        out,
        "| {stamp:.0} | {every} | {} | {} | {:.2} | {} | {:.2} | {met} | {outside} |",
        ns(clock),
        ns(first.pairs),
        clock / first.pairs,
        ns(first.all),
        clock / first.all,
    )?;
    Ok(())
}
