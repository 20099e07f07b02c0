//! chronyd, ClockBound and Truechimer behind the same path to the same server, each against the
//! truth.
#![deny(unsafe_code)]

mod args;
mod bed;
mod figures;
mod followers;
mod goals;
mod line;
mod moment;
mod scenario;
mod show;
mod trial;
mod world;

use std::process::ExitCode;

use clap::Parser;
use truechimer_outcome::outcome::Failure;
use truechimer_outcome::program;

use crate::args::{CommandLine, What};

fn main() -> ExitCode {
    let line = CommandLine::parse();
    program::run(args::NAME, || run(&line))
}

/// Whether no goal was missed.
fn run(line: &CommandLine) -> Result<bool, Failure> {
    if let Some(What::World(order)) = &line.what {
        return world::run(order).map(|()| true);
    }
    if line.list {
        for scenario in scenario::all() {
            program::say(&format!("{:<16} {}", scenario.name, scenario.about))?;
        }
        return Ok(true);
    }
    let options = line.options()?;
    let all = trial::run_all(&options)?;
    let outcomes = show::outcomes(&options, &all);
    for outcome in &outcomes {
        line.files.print(outcome)?;
    }
    line.files.finish(show::page(), &outcomes)
}
