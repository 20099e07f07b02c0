//! The command line.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use truechimer_outcome::files::Files;
use truechimer_outcome::outcome::Failure;

use crate::compare::scenario::{self, Scenario};
use crate::compare::world;

/// Poll intervals that all can do, s.
const POLLS: [u32; 5] = [1, 2, 4, 8, 16];

/// Options of `truechimer-lab compare`.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
#[command(after_help = "\
chronyd (package chrony) and ip are needed, and root or user namespaces; everything happens in
namespaces that vanish with the program, and nobody touches the system clock. ClockBound takes part
where its daemon is found: `scripts/compare` gets both, and then does this.

Goals:
  RMS error      at most that of each other clock that has the time, over the readings that both
                 have; not asked in route-back, where no client can see what happens, and in
                 server-step
  the bound      all readings are within Truechimer's own bound; not asked in server-step
  server-step    Truechimer is never more than 100 µs from the truth
They are judged after the warm-up; --list says what happens in each scenario, and
docs/results/compare.md how the clocks are read and what is unfair to whom.

One round of minutes says little: the same clocks come out otherwise in the next. So a goal is met,
or not, only where an interval over the rounds says so that holds the true median with 95 %; else
this run cannot judge it. That takes six rounds; who is started first goes round.

Exit status: 0 no goal was missed, 1 one was, 2 error.")]
pub struct Compare {
    #[command(subcommand)]
    pub what: Option<What>,
    /// Only these scenarios (see --list)
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    scenario: Vec<String>,
    /// List the scenarios
    #[arg(long)]
    pub list: bool,
    /// Number of times that all of it is done
    #[arg(long, value_name = "N", default_value_t = 6)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=1000))]
    rounds: u16,
    /// Length of each scenario in each round
    #[arg(long, value_name = "MINUTES", default_value_t = 3.0)]
    minutes: f64,
    /// Beginning that is not judged, s [default: half, 60 at most]
    #[arg(long, value_name = "S")]
    warm_up: Option<f64>,
    /// Seconds between requests, for all: 1, 2, 4, 8 or 16. (ClockBound asks every 2 s, and 20
    /// times in the first second, whatever this says)
    #[arg(long, value_name = "S", default_value_t = 2)]
    poll: u32,
    /// One scenario after the other: undisturbed by each other, and it takes that much longer
    #[arg(long)]
    one_by_one: bool,
    /// Where random numbers begin in the first round; which packet draws which is up to the order
    /// in which they come
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// ClockBound's daemon, built with the features daemon and test-side-by-side
    /// [default: clockbound in PATH]
    #[arg(long, value_name = "PATH")]
    clockbound: Option<PathBuf>,
    /// Say nothing on the way
    #[arg(short, long)]
    quiet: bool,
    #[command(flatten)]
    pub files: Files,
}

/// Orders beside the comparison.
#[derive(Subcommand, Debug)]
pub enum What {
    /// Be the server and the path (what the program starts in its namespaces)
    #[command(hide = true)]
    World(world::Order),
}

/// Options of the comparison.
#[derive(Clone, Debug)]
pub struct Options {
    /// Scenarios to run.
    pub scenarios: Vec<Scenario>,
    /// Number of times that all of it is done.
    pub rounds: usize,
    /// Length of each scenario in a round, s.
    pub length: f64,
    /// Length of its beginning that is not judged, s.
    pub warm_up: f64,
    /// Between requests, s.
    pub poll: u32,
    /// True if each scenario has the machine to itself.
    pub one_by_one: bool,
    /// Where random numbers begin.
    pub seed: u64,
    /// ClockBound's daemon, if there is one.
    pub clockbound: Option<PathBuf>,
    /// True to say how far things are.
    pub progress: bool,
}

impl Compare {
    /// Turns the command line into options.
    ///
    /// # Errors
    /// Where it means nothing.
    pub fn options(&self) -> Result<Options, Failure> {
        let scenarios = if self.scenario.is_empty() {
            scenario::all()
        } else {
            let named = |name: &String| {
                Scenario::named(name).ok_or_else(|| {
                    let all: Vec<_> = scenario::all().iter().map(|s| s.name).collect();
                    Failure(format!("--scenario {name}: there are {}", all.join(", ")))
                })
            };
            self.scenario.iter().map(named).collect::<Result<_, _>>()?
        };
        let length = self.minutes * 60.0;
        if !(10.0..=1e6).contains(&length) {
            return Err(Failure(format!("--minutes {}: from 0.17 to 16666", self.minutes)));
        }
        let warm_up = self.warm_up.unwrap_or((length / 2.0).min(60.0));
        if !(0.0..length).contains(&warm_up) {
            return Err(Failure(format!("--warm-up {warm_up}: less than the {length} s in all")));
        }
        if !POLLS.contains(&self.poll) {
            return Err(Failure(format!("--poll {}: 1, 2, 4, 8 or 16", self.poll)));
        }
        Ok(Options {
            scenarios,
            rounds: self.rounds.into(),
            length,
            warm_up,
            poll: self.poll,
            one_by_one: self.one_by_one,
            seed: self.seed,
            clockbound: self.clockbound()?,
            progress: !self.quiet,
        })
    }

    fn clockbound(&self) -> Result<Option<PathBuf>, Failure> {
        if let Some(path) = &self.clockbound {
            let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
            return if path.is_file() {
                Ok(Some(path))
            } else {
                Err(Failure(format!("--clockbound {}: no such file", path.display())))
            };
        }
        let places = std::env::var_os("PATH").unwrap_or_default();
        let found = std::env::split_paths(&places).map(|place| place.join("clockbound"));
        Ok(found.into_iter().find(|path| Path::is_file(path)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Command;

    #[test]
    fn help_names_the_scenarios_that_are_judged_otherwise() {
        let help = Compare::augment_args(Command::new("compare")).render_long_help().to_string();
        let goals = help.split("Goals:").nth(1).and_then(|rest| rest.split("Exit status").next());
        let goals = goals.unwrap();
        for scenario in scenario::all() {
            let is_named = scenario.is_blind() || !scenario.is_honest();
            assert_eq!(goals.contains(scenario.name), is_named, "{}: {goals}", scenario.name);
        }
    }
}
