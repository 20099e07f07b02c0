//! `truechimer-lab bench`: what things cost.

mod capture;
mod daemon;
mod estimator;
pub(crate) mod group;
mod read;
mod serve;
mod timehands;
mod usage;

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
    /// Cost of reading the clock, beside other ways to tell the time
    Read(read::ReadArgs),
    /// Scaling of reading with threads and processes, beside other designs
    Timehands(timehands::BenchTimehands),
    /// Resources that the daemon uses: resident memory and share of a core
    Daemon(daemon::BenchDaemon),
    /// Cost of an exchange with a server, by poll interval, and one server's memory
    Estimator(estimator::BenchEstimator),
    /// Requests that 'truechimer serve --clock page' answers, beside chronyd
    Serve(serve::BenchServe),
    /// Cost, loss and worth of captures and stamps, beside tcpdump, dumpcap and netsniff-ng
    Capture(capture::BenchCapture),
    /// Cost of the group's clock, and what it survives, on a real Corosync ring
    Group(group::BenchGroup),
}

/// Runs the command.
pub fn run(args: &Bench) -> Ended {
    let out = || std::io::stdout().lock();
    match &args.what {
        What::Read(args) => read::read(args, &mut out()),
        What::Timehands(args) => timehands::run(args, &mut out()),
        What::Daemon(args) => daemon::run(args, &mut out()),
        What::Estimator(args) => estimator::run(args, &mut out()),
        What::Serve(args) => serve::run(args, &mut out()),
        What::Capture(args) => crate::judged(|| capture::run(args)),
        What::Group(args) => crate::judged(|| group::run(args)),
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
