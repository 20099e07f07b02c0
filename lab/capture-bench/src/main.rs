//! Cost, loss and worth of captures and stamps, beside tcpdump and dumpcap.
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

use std::process::ExitCode;

use clap::Parser;
use truechimer_outcome::program::{self, say};
use truechimer_outcome::{outcome, plot, stats};

use crate::args::{CommandLine, Measure, What};
use crate::outcome::Failure;

fn main() -> ExitCode {
    let line = CommandLine::parse();
    program::run(args::NAME, || run(&line))
}

/// Whether no goal was missed.
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
    let options = asked.options()?;
    let mut outcomes = Vec::new();
    for measure in measures {
        let outcome = match measure {
            Measure::Overhead => overhead::run(&options),
            Measure::Arrival => arrival::run(&options),
            Measure::Rate => rate::run(&options),
            Measure::Conversion => conversion::run(&options),
            Measure::Accuracy => accuracy::run(&options),
        }?;
        asked.files.print(&outcome)?;
        outcomes.push(outcome);
    }
    asked.files.finish(args::page(), &outcomes)
}
