//! `truechimer-lab`: for those who examine Truechimer. Simulations, replays, benchmarks.
#![forbid(unsafe_code)]

mod bench;
mod compare;
mod replay;
mod simulate;
mod soak;

use std::process::ExitCode;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{CommandFactory, Parser, Subcommand};
use truechimer_command::program::{self, Group};
use truechimer_command::{Ended, Failure, Outcome, man};
use truechimer_estimators::{Kind, TABLE};

const NAME: &str = "truechimer-lab";

/// The laboratory of Truechimer: its clock in simulated networks, its decisions once more, and what
/// they cost. Nothing of it is needed to run a clock.
#[derive(Parser, Debug)]
#[command(name = NAME, bin_name = NAME, version, max_term_width = 100)]
#[command(disable_help_subcommand = true)]
#[command(subcommand_required = true, arg_required_else_help = true)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
#[allow(clippy::large_enum_variant)] // There is one of them.
enum Command {
    /// Put the clock into simulated networks and see how far it is from the truth
    Simulate(simulate::Simulate),
    /// Repeat every decision of a daemon from its log, or run a clock over a file of stamps
    Replay(replay::Replay),
    /// Compare with chronyd and ClockBound behind the same path to the same server
    Compare(compare::Compare),
    /// Measure what things cost: reading, the daemon, the server, captures, groups
    Bench(bench::Bench),
    /// Put daemon, server, capture and group under random faults, and check what must hold
    Soak(soak::Soak),
    /// Write the manual pages
    Man(man::Man),
}

/// Which command stands under which heading in `truechimer-lab --help`.
const GROUPS: [Group; 2] = [
    ("Examine the clock", &["simulate", "replay", "compare", "bench", "soak"]),
    ("Read about it", &["man"]),
];

fn command() -> clap::Command {
    const EXAMPLES: &str = "Examples:\n  \
        truechimer-lab simulate lan\n  \
        truechimer-lab replay /var/log/truechimer.replay\n  \
        truechimer-lab bench read\n";
    const NOTES: &str = "Spans of time are written 1.5s, 20ms, 250us or 10ns; rates are in ppm.\n";
    program::grouped(CommandLine::command(), &GROUPS, EXAMPLES, NOTES)
}

/// Takes the name of an estimator that can be compared.
fn estimator() -> impl TypedValueParser<Value = Kind> {
    let names = TABLE.iter().map(|kind| PossibleValue::new(kind.name()).help(kind.about()));
    PossibleValuesParser::new(names)
        .try_map(|name| Kind::find(&name).ok_or("no estimator has that name"))
}

fn main() -> ExitCode {
    let line = std::env::args_os().collect();
    program::main(NAME, command(), line, |line: CommandLine| dispatch(line.command))
}

fn dispatch(command: Command) -> Ended {
    let out = || std::io::stdout().lock();
    match command {
        Command::Simulate(args) => simulate::run(&args, &mut out()),
        Command::Replay(args) => replay::run(&args, &mut out()),
        Command::Compare(args) => judged(|| compare::run(&args)),
        Command::Bench(args) => bench::run(&args),
        Command::Soak(args) => judged(|| soak::run(&args)),
        Command::Man(args) => man::run(&args, self::command(), &[], &mut out()),
    }
}

/// Runs what measures on a test bed and judges its goals.
fn judged(measure: impl FnOnce() -> Result<bool, truechimer_outcome::outcome::Failure>) -> Ended {
    match truechimer_outcome::program::caught(measure) {
        Ok(met) => Ok(Outcome::of(met)),
        Err(truechimer_outcome::outcome::Failure(text)) => Err(Failure::Said(text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        truechimer_command::check::command_line(&command(), &GROUPS);
    }

    #[test]
    fn commands_that_are_shown_are_commands() {
        truechimer_command::check::shown_commands(&command(), &["line", "ours,line"]);
    }
}
