//! `truechimer-lab compare`: chronyd, ClockBound and Truechimer behind the same path to the same
//! server, each against the truth.

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

use truechimer_outcome::outcome::Failure;
use truechimer_outcome::program;

pub use args::Compare;
use args::What;

/// Runs the command; whether no goal was missed.
///
/// # Errors
/// Where it does not work.
pub fn run(line: &Compare) -> Result<bool, Failure> {
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
