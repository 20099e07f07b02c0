//! What captures and stamps cost, lose and are worth, beside tcpdump and dumpcap.
#![deny(unsafe_code)]

mod accuracy;
mod args;
mod arrival;
mod bed;
mod contest;
mod conversion;
mod frame;
mod generator;
mod options;
mod overhead;
mod peers;
mod rate;
mod search;
mod trial;

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use truechimer_outcome::{outcome, plot, stats};

use crate::args::{CommandLine, Measure, What};
use crate::outcome::{Failure, Outcome};

fn main() -> ExitCode {
    match run(&CommandLine::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(failure) => {
            eprintln!("truechimer-capture-bench: {failure}");
            ExitCode::from(2)
        }
    }
}

/// Whether all goals were met.
fn run(line: &CommandLine) -> Result<bool, Failure> {
    let (measures, asked): (&[_], &args::Asked) = match &line.what {
        What::Overhead(asked) => (&[Measure::Overhead], asked),
        What::Arrival(asked) => (&[Measure::Arrival], asked),
        What::Rate(asked) => (&[Measure::Rate], asked),
        What::Conversion(asked) => (&[Measure::Conversion], asked),
        What::Accuracy(asked) => (&[Measure::Accuracy], asked),
        What::All(asked) => (&Measure::ALL, asked),
        What::Relay(relay) => return relay.run().map(|()| true),
        What::Once(once) => return once.run().map(|()| true),
        What::Generate(order) => {
            let sent = generator::generate(order)?;
            say(&serde_json::to_string(&sent).map_err(|e| Failure::of("what was sent", e))?)?;
            return Ok(true);
        }
    };
    let options = asked.options();
    let mut outcomes = Vec::new();
    for measure in measures {
        let outcome = match measure {
            Measure::Overhead => overhead::run(&options),
            Measure::Arrival => arrival::run(&options),
            Measure::Rate => rate::run(&options),
            Measure::Conversion => conversion::run(&options),
            Measure::Accuracy => accuracy::run(&options),
        }?;
        if !asked.files.json {
            say(&outcome.text())?;
        }
        outcomes.push(outcome);
    }
    if asked.files.json {
        let all: Vec<_> = outcomes.iter().map(Outcome::to_json).collect();
        say(&serde_json::to_string_pretty(&all).map_err(|e| Failure::of("the figures", e))?)?;
    }
    asked.write(&outcomes)?;
    Ok(outcomes.iter().all(Outcome::is_met))
}

fn say(text: &str) -> Result<(), Failure> {
    writeln!(std::io::stdout(), "{text}").map_err(|error| Failure::of("standard output", error))
}
