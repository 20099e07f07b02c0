//! `truechimer-lab bench capture`: cost, loss and worth of captures and stamps, beside tcpdump,
//! dumpcap and netsniff-ng.

mod accuracy;
mod args;
mod arrival;
mod bed;
mod contest;
mod conversion;
mod crossed;
mod frame;
mod generator;
mod keep;
mod options;
mod overhead;
mod peers;
mod rate;
mod search;
mod trial;
mod wire;

use truechimer_outcome::outcome::Failure;
use truechimer_outcome::program::say;

pub use args::BenchCapture;
use args::{Measure, What};

/// Runs the command; whether no goal was missed.
///
/// # Errors
/// Where it does not work.
pub fn run(line: &BenchCapture) -> Result<bool, Failure> {
    let (measures, asked): (&[_], &args::Asked) = match &line.what {
        What::Overhead(asked) => (&[Measure::Overhead], asked),
        What::Crossed(asked) => (&[Measure::Crossed], asked),
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
            Measure::Crossed => crossed::run(&options),
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
