//! chronyd, ClockBound and Truechimer behind the same path to the same server, each against the
//! truth.
#![deny(unsafe_code)]

mod args;
mod bed;
mod figures;
mod followers;
mod line;
mod moment;
mod scenario;
mod show;
mod trial;
mod wait;
mod world;

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use truechimer_outcome::outcome::{Failure, Outcome};

use crate::args::{CommandLine, What};

fn main() -> ExitCode {
    match run(&CommandLine::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(failure) => {
            eprintln!("truechimer-compare: {failure}");
            ExitCode::from(2)
        }
    }
}

/// Whether all goals were met.
fn run(line: &CommandLine) -> Result<bool, Failure> {
    if let Some(What::World(order)) = &line.what {
        return world::run(order).map(|()| true);
    }
    if line.list {
        for scenario in scenario::all() {
            say(&format!("{:<16} {}", scenario.name, scenario.about))?;
        }
        return Ok(true);
    }
    let options = line.options()?;
    let trials = trial::run_all(&options)?;
    let outcomes = show::outcomes(&options, &trials);
    if line.files.json {
        let all: Vec<_> = outcomes.iter().map(Outcome::to_json).collect();
        say(&serde_json::to_string_pretty(&all).map_err(|e| Failure::of("the figures", e))?)?;
    } else {
        for outcome in &outcomes {
            say(&outcome.text())?;
        }
    }
    line.files.write(show::page(), &outcomes)?;
    Ok(outcomes.iter().all(Outcome::is_met))
}

fn say(text: &str) -> Result<(), Failure> {
    writeln!(std::io::stdout(), "{text}").map_err(|error| Failure::of("standard output", error))
}
