//! `truechimer counters`: the machine's clock hardware, known, measured and chosen.

pub mod bench;
pub mod latency;
pub mod list;
pub mod report;
pub mod select;
pub mod stability;

use std::io::Write;
use std::str::FromStr;

use clap::{Args, Subcommand};
use truechimer_survey::stress::Stress;

use truechimer_command::{Ended, parse};

/// Parser of a load.
fn stress() -> parse::OneOf<Stress, String> {
    parse::one_of(["none", "cpu", "net", "all"], Stress::from_str)
}

/// Options of `truechimer counters`.
#[derive(Args, Debug)]
pub struct Counters {
    /// Command to run.
    #[command(subcommand)]
    pub what: What,
}

/// Commands of `truechimer counters`.
#[derive(Subcommand, Debug)]
pub enum What {
    /// List every counter and clocksource, and say whether this machine uses the right one
    List(list::Options),
    /// Read every clock and counter the same number of times, and compare what that takes
    Bench(bench::Options),
    /// Change the kernel's clocksource
    Select(select::Options),
    /// Measure how long readings take, as a distribution, at rest and under load
    Latency(latency::Options),
    /// Measure how stable a counter is against a reference: Allan deviation and noise types
    Stability(stability::Options),
    /// All of it in one HTML page
    Report(report::Options),
}

/// Runs the command.
pub fn run(args: &Counters, out: &mut dyn Write) -> Ended {
    match &args.what {
        What::List(options) => list::run(options, out),
        What::Bench(options) => bench::run(options, out),
        What::Select(options) => select::run(options, out),
        What::Latency(options) => latency::run(options, out),
        What::Stability(options) => stability::run(options, out),
        What::Report(options) => report::run(options, out),
    }
}
