//! `truechimer-lab bench`: what things cost.

mod daemon;
mod estimator;
mod read;
mod serve;
mod timehands;
mod usage;

use std::io::Write;

use clap::{Args, Subcommand};
use truechimer_command::Ended;

/// Options of `truechimer-lab bench`.
#[derive(Args, Debug)]
pub struct Bench {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand, Debug)]
enum What {
    /// What reading the clock costs, beside other ways to tell the time
    Read(read::ReadArgs),
    /// How reading scales with threads and processes, beside other designs
    Timehands(timehands::BenchTimehands),
    /// What the daemon uses: resident memory and share of a core
    Daemon(daemon::BenchDaemon),
    /// What an exchange with a server costs, by poll interval, and one server's memory
    Estimator(estimator::BenchEstimator),
    /// How many requests 'truechimer serve --clock page' answers, beside chronyd
    Serve(serve::BenchServe),
}

/// Runs the command.
pub fn run(args: &Bench, out: &mut dyn Write) -> Ended {
    match &args.what {
        What::Read(args) => read::read(args, out),
        What::Timehands(args) => timehands::run(args, out),
        What::Daemon(args) => daemon::run(args, out),
        What::Estimator(args) => estimator::run(args, out),
        What::Serve(args) => serve::run(args, out),
    }
}

/// The program `truechimer` itself, which lies beside this one.
fn truechimer() -> std::io::Result<std::path::PathBuf> {
    let beside = std::env::current_exe()?.with_file_name("truechimer");
    if beside.is_file() {
        return Ok(beside);
    }
    Err(std::io::Error::other(format!(
        "{} is missing: build it with 'cargo build --release'",
        beside.display()
    )))
}
