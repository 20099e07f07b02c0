//! Cost and survival of the group's clock, on a real ring.
#![forbid(unsafe_code)]

mod args;

use std::process::ExitCode;

use clap::Parser;
use truechimer_group_bench::bare::Bare;
use truechimer_group_bench::options::Options;
use truechimer_group_bench::{failover, latency, load, messages, read, serve, skew, soak};
use truechimer_outcome::outcome::{Failure, Outcome};
use truechimer_outcome::program::{self, say};

use crate::args::{Asked, CommandLine, Placed, What};

fn main() -> ExitCode {
    let line = CommandLine::parse();
    program::run(args::NAME, || run(&line))
}

/// Whether no goal was missed.
fn run(line: &CommandLine) -> Result<bool, Failure> {
    match &line.what {
        What::Latency(placed) => measure(placed, &[latency::run]),
        What::Messages(placed) => measure(placed, &[messages::run]),
        What::Skew(asked) => show(asked, vec![skew::run(&asked.options()?)?]),
        What::Read(placed) => measure(placed, &[read::run]),
        What::All(placed) => measure(placed, &[latency::run, messages::run, skew::run, read::run]),
        What::Soak(long) => {
            show(&long.asked, vec![soak::run(&long.asked.options()?, &long.wanted)?])
        }
        What::Failover(campaign) => {
            let asked = &campaign.asked;
            show(asked, vec![failover::run(&asked.options()?, &campaign.wanted)?])
        }
        What::Verify { folder } => {
            let verdict = failover::kept::verify(folder)?;
            for violation in &verdict.violations {
                say(&violation.to_string())?;
            }
            say(&format!("{:?}", verdict.tally))?;
            Ok(verdict.violations.is_empty())
        }
        What::Witness(orders) => failover::witness::run(orders).map(|()| true),
        What::Server(orders) => serve::server(orders).map(|()| true),
        What::Client(orders) => serve::client(orders).map(|()| true),
        What::Alone(orders) => serve::alone(orders).map(|()| true),
        What::Listener => Bare::join()?.listen().map(|()| true),
        What::Load(orders) => load::run(orders).map(|()| true),
    }
}

type Measure = fn(&Options) -> Result<Outcome, Failure>;

fn measure(placed: &Placed, measures: &[Measure]) -> Result<bool, Failure> {
    let options = placed.options()?;
    show(&placed.asked, measures.iter().map(|measure| measure(&options)).collect::<Result<_, _>>()?)
}

fn show(asked: &Asked, outcomes: Vec<Outcome>) -> Result<bool, Failure> {
    for outcome in &outcomes {
        asked.files.print(outcome)?;
    }
    asked.files.finish(args::page(), &outcomes)
}
