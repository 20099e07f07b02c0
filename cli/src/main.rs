//! `truechimer`: the daemon, its clock and its sources, and a demonstration, in one command.
#![forbid(unsafe_code)]

mod accept;
mod args;
mod bench;
mod bench_daemon;
mod bench_estimator;
mod bench_serve;
mod bench_timehands;
mod capture;
mod clock;
mod counters;
mod daemon;
mod demo;
mod extcap;
mod failure;
mod group;
mod man;
mod now;
mod qos;
mod replay;
mod restamp;
mod run;
mod scratch;
mod serve;
mod show;
mod signals;
mod simulate;
mod sources;
mod status;
mod table;
mod usage;
mod waitsync;

use std::io::Write;
use std::process::ExitCode;

use clap::FromArgMatches;

use args::{BenchWhat, Command, CommandLine};
use failure::{Ended, Failure, Outcome};

fn main() -> ExitCode {
    let line =
        match args::command().try_get_matches_from(extcap::line(std::env::args_os().collect())) {
            Ok(matches) => CommandLine::from_arg_matches(&matches),
            Err(error) => Err(error),
        };
    let ended = match line {
        Ok(line) => dispatch(line.command),
        Err(error) => return usage(&error),
    };
    match ended {
        Ok(Outcome::Good) => ExitCode::SUCCESS,
        Ok(Outcome::Bad) => ExitCode::from(1),
        Err(Failure::Unread) => ExitCode::from(2),
        Err(Failure::Said(text)) => {
            complain(&text);
            ExitCode::from(2)
        }
    }
}

fn dispatch(command: Command) -> Ended {
    let out = &mut std::io::stdout().lock();
    match command {
        Command::Run(args) => run::run(args, out),
        Command::Now(args) => now::run(&args, out),
        Command::Status(args) => status::run(&args, out),
        Command::Sources(args) => sources::run(&args, out),
        Command::Accept(args) => accept::run(&args, out),
        Command::Waitsync(args) => waitsync::run(&args, out),
        Command::Demo(args) => demo::run(&args, out),
        Command::Serve(args) => serve::run(&args, out),
        Command::Simulate(args) => simulate::run(&args, out),
        Command::Replay(args) => replay::run(&args, out),
        Command::Counters(args) => counters::run(&args, out),
        Command::Capture(args) => capture::run(&args, out),
        Command::Restamp(args) => restamp::run(&args, out),
        Command::Qos(args) => qos::run(&args, out),
        Command::Group(args) => group::run(args, out),
        Command::Extcap(args) => extcap::run(&args, out),
        Command::Bench(args) => match args.what {
            BenchWhat::Read(args) => bench::read(&args, out),
            BenchWhat::Timehands(args) => bench_timehands::run(&args, out),
            BenchWhat::Daemon(args) => bench_daemon::run(&args, out),
            BenchWhat::Estimator(args) => bench_estimator::run(&args, out),
            BenchWhat::Serve(args) => bench_serve::run(&args, out),
        },
        Command::Man(args) => man::run(&args, out),
    }
}

/// One line on standard error; there is nobody to tell if that fails.
fn complain(text: &str) {
    let _ = writeln!(std::io::stderr(), "truechimer: {}", show::plain(text));
}

/// Help and version go to standard output with status 0, everything else is a usage error.
fn usage(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        // A reader that has gone away is no error.
        let _ = error.print();
        return ExitCode::SUCCESS;
    }
    let text = error.render().to_string();
    match text.strip_prefix("error: ") {
        Some(text) => complain(text.trim_end()),
        // No command at all: the help itself.
        None => {
            let _ = error.print();
        }
    }
    ExitCode::from(2)
}
