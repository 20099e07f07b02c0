//! `truechimer-lab bench timehands`: how reading the clock scales, beside other ways to publish
//! one.

mod arithmetic;
mod children;
mod clocks;
mod contest;
mod figures;
mod lock;
mod pages;
mod plot;
mod stage;
mod stopped;
mod tables;

use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use clap::Args;

use contest::Contest;
use figures::Figures;
use stage::Stage;
use truechimer_command::output::{save, save_report};
use truechimer_command::show::json;
use truechimer_command::signals;
use truechimer_command::{Ended, Failure, Outcome};

/// Options of `truechimer-lab bench timehands`.
#[derive(Args, Debug)]
#[command(after_help = "\
Reads the clock as often as it can, from one thread to as many as there are processors, and from
as many processes, and puts beside it: the bare counter, the same hand behind a seqlock,
nanoseconds in 64 bits under a mutex and under a ticket lock (the way it was done before), and the
system's clocks by way of the vDSO. Once over the counter, and once over a word of memory in its
place, which shows what the scheme itself costs. A writer updates all of them, once a second, and
in the end 100 and 10000 times a second. Each reader has a processor of its own while there are
enough. Every round gives each clock its turn; figures are medians of rounds, and ratios medians
of ratios within a round.

Then: what the lock costs those who wait for it, what a division costs, how often the scheme of
FreeBSD has to be updated lest it overflows, and what readers do while a writer stands still in the
middle of an update. The page and all else is in a directory of its own for as long as it runs.

The goals, on all processors that were asked for: timehands scale at least 0.95 times as well as the
bare counter; a writer of 10 kHz costs them no more than 5 % beyond what it costs the bare counter;
with two threads they are read at least 10 times as often as the clock behind a mutex; and nobody
waits for a writer that stands still. The first three are judged by an interval over the rounds that
holds the true median with 95 %, which takes six rounds, and only where the bare counter itself
scales as it must: a busy machine cannot judge, and this says so.

Examples:
  truechimer-lab bench timehands
  truechimer-lab bench timehands --threads 1,2,4,8,16 --rounds 50 --json
  truechimer-lab bench timehands --report timehands.html --plot timehands.svg

Exit status: 0 no goal was missed, 1 one was, 2 error.")]
pub struct BenchTimehands {
    /// Number of threads, and of processes, that read at once, one number after the other [default:
    /// 1, 2, 4, 8 … up to the number of processors]
    #[arg(long, value_name = "N,...", value_delimiter = ',')]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Vec<u16>,
    /// Number of turns of each clock
    #[arg(long, value_name = "N", default_value_t = 15)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=10_000))]
    pub rounds: u16,
    /// Length of a turn, ms
    #[arg(long, value_name = "MS", default_value_t = 20)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub turn: u32,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
    /// Write all of it, with plots, to one HTML page
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Write a plot of the reads a second against the threads, as SVG
    #[arg(long, value_name = "FILE")]
    pub plot: Option<PathBuf>,
    /// Role in which this program starts itself: a reader or a writer of the files in a directory.
    #[arg(long, hide = true, num_args = 2, value_names = ["ROLE", "DIR"])]
    pub child: Option<Vec<PathBuf>>,
}

/// Runs the command.
pub fn run(args: &BenchTimehands, out: &mut dyn Write) -> Ended {
    if let Some([role, directory]) = args.child.as_deref() {
        return children::run(role, directory, out);
    }
    let stop = signals::stop()?;
    let figures = measure(args, &stop)?;
    if let Some(path) = &args.plot {
        save(path, &plot::svg(&figures))?;
    }
    if let Some(path) = &args.report {
        save_report(path, &pages::page(&figures))?;
    }
    if args.json {
        writeln!(out, "{}", json(&figures)?)?;
    } else {
        tables::write(&figures, out)?;
    }
    Ok(Outcome::of(!figures.goals.iter().any(|goal| goal.verdict.is_missed())))
}

/// Measures everything.
fn measure(args: &BenchTimehands, stop: &AtomicBool) -> Result<Figures, Failure> {
    let processors = thread::available_parallelism().map_or(1, usize::from);
    let mut threads = args.threads.clone();
    if threads.is_empty() {
        threads = up_to(u16::try_from(processors).unwrap_or(u16::MAX).min(1024));
    }
    threads.sort_unstable();
    threads.dedup();
    let stage = Stage::new()?;
    let turn = Duration::from_millis(args.turn.into());
    let contest = Contest::run(&stage, &threads, args.rounds, turn, stop)?;
    let most = threads.last().copied().unwrap_or(1);
    let locks = lock::profiles(stage.clocks(), &threads, 10 * turn);
    let division = arithmetic::division(args.rounds);
    not_stopped(stop)?;
    let standing = stopped::show(stage.directory(), most, 10 * turn)?;
    Ok(Figures::of(&contest, &stage, processors, args, locks, division, standing))
}

/// 1, 2, 4, 8 … and `most`.
fn up_to(most: u16) -> Vec<u16> {
    let doubling = std::iter::successors(Some(1_u16), |n| n.checked_mul(2));
    doubling.take_while(|n| *n < most).chain([most]).collect()
}

/// An error once somebody wants it to end.
fn not_stopped(stop: &AtomicBool) -> Result<(), Failure> {
    match stop.load(Ordering::Relaxed) {
        true => Err(Failure::Said("interrupted: nothing was measured".into())),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_double_up_to_the_processors() {
        assert_eq!(up_to(1), [1]);
        assert_eq!(up_to(2), [1, 2]);
        assert_eq!(up_to(6), [1, 2, 4, 6]);
        assert_eq!(up_to(16), [1, 2, 4, 8, 16]);
    }
}
