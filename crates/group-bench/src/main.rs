//! What the group's clock costs and survives, on a real ring.
#![forbid(unsafe_code)]

mod args;

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use truechimer_group_bench::bare::Bare;
use truechimer_group_bench::options::Options;
use truechimer_group_bench::{failover, latency, load, messages, read, serve, skew, soak};
use truechimer_outcome::outcome::{Failure, Outcome};

use crate::args::{Asked, CommandLine, What};

fn main() -> ExitCode {
    match run(&CommandLine::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(failure) => {
            eprintln!("truechimer-group-bench: {failure}");
            ExitCode::from(2)
        }
    }
}

/// Whether all goals were met.
fn run(line: &CommandLine) -> Result<bool, Failure> {
    match &line.what {
        What::Latency(asked) => measure(asked, &[latency::run]),
        What::Messages(asked) => measure(asked, &[messages::run]),
        What::Skew(asked) => measure(asked, &[skew::run]),
        What::Read(asked) => measure(asked, &[read::run]),
        What::All(asked) => measure(asked, &[latency::run, messages::run, skew::run, read::run]),
        What::Soak(long) => {
            show(&long.asked, vec![soak::run(&long.asked.options(), &long.wanted)?])
        }
        What::Failover(campaign) => {
            let asked = &campaign.asked;
            show(asked, vec![failover::run(&asked.options(), &campaign.wanted)?])
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

fn measure(asked: &Asked, measures: &[Measure]) -> Result<bool, Failure> {
    let options = asked.options();
    show(asked, measures.iter().map(|measure| measure(&options)).collect::<Result<_, _>>()?)
}

fn show(asked: &Asked, outcomes: Vec<Outcome>) -> Result<bool, Failure> {
    if asked.files.json {
        let all: Vec<_> = outcomes.iter().map(Outcome::to_json).collect();
        say(&serde_json::to_string_pretty(&all).map_err(|e| Failure::of("the figures", e))?)?;
    } else {
        for outcome in &outcomes {
            say(&outcome.text())?;
        }
    }
    asked.write(&outcomes)?;
    Ok(outcomes.iter().all(Outcome::is_met))
}

fn say(text: &str) -> Result<(), Failure> {
    writeln!(std::io::stdout(), "{text}").map_err(|error| Failure::of("standard output", error))
}
