//! `truechimer-lab simulate outage-end`: two hours without a server, beside a filter that is told
//! all.

use std::io::Write;

use truechimer_estimators::TABLE;
use truechimer_report::rms;
use truechimer_sim::outage::{Ends, ends, ratio};

use super::{jobs, screen};
use truechimer_command::{Ended, Failure, Outcome};

/// Number of seeds if the user has not said: fewer show little.
const SEEDS: u32 = 100;

/// Runs the study.
pub fn run(args: &super::Simulate, out: &mut dyn Write) -> Ended {
    super::only_seeds(args, "outage-end")?;
    table(args.seeds.unwrap_or(SEEDS), args, out)?;
    Ok(Outcome::Good)
}

/// Writes it for a page of several studies: with as many seeds as usual, or more.
pub fn section(args: &super::Simulate, out: &mut dyn Write) -> Result<(), Failure> {
    table(args.seeds.unwrap_or(SEEDS).max(SEEDS), args, out)
}

fn table(seeds: u32, args: &super::Simulate, out: &mut dyn Write) -> Result<(), Failure> {
    let mut runs: Vec<Ends> = Vec::new();
    jobs::each(
        &(1..=u64::from(seeds)).collect::<Vec<_>>(),
        jobs::width(args.jobs),
        |seed| ends(TABLE, *seed),
        |_, run| {
            runs.push(run.map_err(|why| Failure::new("outage-end", why))?);
            Ok::<(), Failure>(())
        },
    )?;
    let known: Vec<f64> = runs.iter().map(|run| run.omniscient).collect();
    writeln!(
        out,
        "Six hours on the LAN, then two without a server; error at the end of these, RMS over {seeds}\n\
         seeds. The filter beside it is told how the oscillator walks and how the packets are\n\
         delayed, and sees the same ones; the ratio is ± 95 % by leaving out one seed at a time.\n\
         (The walk alone, from a rate known exactly, makes 353 µs.)\n\n\
         | | error at the end, µs | of the filter that knows all |\n|---|---|---|"
    )?;
    for (index, clock) in TABLE.iter().enumerate() {
        let errors: Vec<f64> =
            runs.iter().filter_map(|run| run.clocks.get(index).copied()).collect();
        let (found, factor) = ratio(&errors, &known);
        writeln!(
            out,
            "| {} | {} | {found:.2} ({:.2} to {:.2}) |",
            clock.name(),
            screen::number(1e6 * rms(&errors)),
            found / factor,
            found * factor,
        )?;
    }
    writeln!(out, "| Kalman filter that knows all | {} | 1 |", screen::number(1e6 * rms(&known)))?;
    Ok(())
}
