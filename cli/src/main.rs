//! `truechimer`: the daemon, its clock and its sources, and what is made of them, in one command.
#![forbid(unsafe_code)]

mod accept;
mod audit;
#[cfg(feature = "packets")]
mod capture;
mod completions;
#[cfg(feature = "counters")]
mod counters;
mod daemon;
mod demo;
#[cfg(feature = "packets")]
mod extcap;
#[cfg(feature = "group")]
mod group;
mod import;
mod interval;
mod now;
#[cfg(feature = "packets")]
mod probe;
#[cfg(feature = "packets")]
mod qos;
#[cfg(feature = "packets")]
mod restamp;
mod run;
mod serve;
mod sources;
mod status;
mod waitsync;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use truechimer_command::program::{self, Group, Late};
use truechimer_command::{Ended, man};

const NAME: &str = "truechimer";

/// A feed-forward clock: follows NTP servers without ever touching a counter, and tells any
/// program the time with the bound of its error.
#[derive(Parser, Debug)]
#[command(name = NAME, bin_name = NAME, version, max_term_width = 100)]
#[command(subcommand_required = true, arg_required_else_help = true)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Follow NTP servers and publish the clock (the daemon, in the foreground)
    Run(Late<run::Run>),
    /// Believe a server that is held off, now
    Accept(Late<accept::Accept>),
    /// Print a configuration made from chrony's, with what has no counterpart
    ImportChrony(Late<import::ImportChrony>),
    /// Print the time: earliest, latest, best, and what the bound is made of
    Now(Late<now::Now>),
    /// Show the state of the clock and of the daemon behind it
    Status(Late<status::Status>),
    /// List the servers that the daemon follows
    Sources(Late<sources::Sources>),
    /// Account for a day: how well the clock was known, by which sources, and what happened
    Audit(Late<audit::Audit>),
    /// Wait until the clock is synchronised
    Waitsync(Late<waitsync::Waitsync>),
    /// Tell how long it was from one moment of a script to another, with a bound
    Interval(Late<interval::Interval>),
    /// Watch a clock synchronise to a server of our own and check it against the truth
    Demo(Late<demo::Demo>),
    /// Serve the clock over NTP, or a time of its own for demonstrations and tests
    Serve(Late<serve::Serve>),
    /// Know the machine's counters: list, compare, select, latency, stability
    #[cfg(feature = "counters")]
    Counters(Late<counters::Counters>),
    /// Capture packets with the time at which they passed, and how well it is known
    #[cfg(feature = "packets")]
    Capture(Late<capture::Capture>),
    /// Work out the times in a capture anew, from its raw counts
    #[cfg(feature = "packets")]
    Restamp(Late<restamp::Restamp>),
    /// Measure delay, jitter, loss and reordering, live or from captures
    #[cfg(feature = "packets")]
    Qos(Late<qos::Qos>),
    /// Measure the path to another host: delay each way with its bound, loss, voice
    #[cfg(feature = "packets")]
    Probe(Late<probe::Probe>),
    /// One clock for a group of replicas: agree on each reading of time
    #[cfg(feature = "group")]
    Group(Late<group::Group>),
    /// Capture for Wireshark, which calls this itself
    #[command(hide = true)]
    #[cfg(feature = "packets")]
    Extcap(Late<extcap::Extcap>),
    /// Write the manual pages
    Man(Late<man::Man>),
    /// Write what a shell needs to complete command lines
    Completions(Late<completions::Completions>),
}

/// Configurations that commands read, each with a manual page of its own.
const CONFIGURATIONS: &[man::Configuration] = &[
    man::Configuration {
        name: "truechimer.toml",
        about: "configuration of the daemon",
        command: "truechimer-run",
        text: include_str!("../../docs/reference/truechimer.toml"),
    },
    #[cfg(feature = "group")]
    man::Configuration {
        name: "truechimer-group.toml",
        about: "configuration of the agent of a group",
        command: "truechimer-group-agent",
        text: include_str!("../../docs/reference/truechimer-group.toml"),
    },
];

/// Which command stands under which heading in `truechimer --help`.
const GROUPS: &[Group] = &[
    ("Keep a clock", &["run", "accept", "import-chrony"]),
    ("Read it", &["now", "status", "sources", "audit", "waitsync", "interval"]),
    ("Try it", &["demo", "serve"]),
    #[cfg(feature = "counters")]
    ("Know the machine", &["counters"]),
    #[cfg(feature = "packets")]
    ("Stamp packets", &["capture", "restamp", "qos", "probe"]),
    #[cfg(feature = "group")]
    ("Agree on time", &["group"]),
    ("Read about it", &["man", "completions"]),
];

fn command() -> clap::Command {
    const EXAMPLES: &str = "Examples:\n  \
        truechimer demo                              no root, no network, one minute\n  \
        truechimer run --server ntp.example.org      no root either; stays in the foreground\n  \
        truechimer waitsync && truechimer now\n";
    const NOTES: &str = "Spans of time are written 1.5s, 20ms, 250us or 10ns; rates are in ppm.\n\
        Simulations, replays and benchmarks: 'truechimer-lab --help' (of the sources: make lab).\n";
    program::grouped(CommandLine::command(), GROUPS, EXAMPLES, NOTES)
}

fn main() -> ExitCode {
    let line: Vec<_> = std::env::args_os().collect();
    #[cfg(feature = "packets")]
    let line = extcap::line(line);
    if let Some(name) = line.get(1).filter(|name| MOVED.iter().any(|moved| *name == *moved)) {
        program::complain(&format!(
            "that is 'truechimer-lab {}' now, which 'make lab' builds of the sources",
            name.display()
        ));
        return ExitCode::from(2);
    }
    let known =
        |name: &OsString| OF_CHRONYC.iter().find(|(names, _)| names.iter().any(|n| name == n));
    if let Some((name, (_, ours))) = line.get(1).and_then(|name| Some((name, known(name)?))) {
        program::complain(&format!("'{}' is a command of chronyc's: {ours}", name.display()));
        return ExitCode::from(2);
    }
    if let Some(hint) = sources::key_as_option(&line) {
        program::complain(&hint);
        return ExitCode::from(2);
    }
    program::main(NAME, command(), line, |line: CommandLine| dispatch(line.command))
}

/// Commands of chronyc's that are none here, and what stands for them. (`docs/use/chrony.md` has more.)
const OF_CHRONYC: [(&[&str], &str); 9] = [
    (&["tracking"], "here it is 'truechimer status'"),
    (
        &["sourcestats", "selectdata", "ntpdata", "authdata", "activity", "sourcename"],
        "here it is 'truechimer sources -v'",
    ),
    (&["add", "delete", "online", "offline"], "here it is a command of 'truechimer sources'"),
    (&["reload"], "here it is 'truechimer sources reload'"),
    (
        &["makestep"],
        "here 'step' in [system-clock] says when the system clock is stepped; a server that is held \
         off is believed by 'truechimer accept'",
    ),
    (
        &["clients", "serverstats", "accheck", "allow", "deny", "local"],
        "here 'truechimer serve' is the server, by its options and metrics",
    ),
    (
        &[
            "burst",
            "reselect",
            "refresh",
            "maxdelay",
            "minpoll",
            "maxpoll",
            "polltarget",
            "onoffline",
            "dump",
            "cyclelogs",
        ],
        "here that comes by itself, or is set in the configuration",
    ),
    (
        &["settime", "manual", "smoothing", "rtcdata"],
        "there is nothing like it here (docs/use/chrony.md says what stands beside it)",
    ),
    (&["shutdown", "rekey"], "here the daemon takes signals, as 'truechimer run --help' says"),
];

/// Commands of before that are in the laboratory.
const MOVED: [&str; 3] = ["simulate", "replay", "bench"];

fn dispatch(command: Command) -> Ended {
    let out = &mut std::io::stdout().lock();
    match command {
        Command::Run(Late(args)) => run::run(args, out),
        Command::Now(Late(args)) => now::run(&args, out),
        Command::Status(Late(args)) => status::run(&args, out),
        Command::Sources(Late(args)) => sources::run(&args, out),
        Command::Audit(Late(args)) => audit::run(&args, out),
        Command::Accept(Late(args)) => accept::run(&args, out),
        Command::Interval(Late(args)) => interval::run(&args, out),
        Command::Waitsync(Late(args)) => waitsync::run(&args, out),
        Command::Demo(Late(args)) => demo::run(&args, out),
        Command::Serve(Late(args)) => serve::run(&args, out),
        #[cfg(feature = "counters")]
        Command::Counters(Late(args)) => counters::run(&args, out),
        #[cfg(feature = "packets")]
        Command::Capture(Late(args)) => capture::run(&args, out),
        #[cfg(feature = "packets")]
        Command::Restamp(Late(args)) => restamp::run(&args, out),
        #[cfg(feature = "packets")]
        Command::Qos(Late(args)) => qos::run(&args, out),
        #[cfg(feature = "packets")]
        Command::Probe(Late(args)) => probe::run(&args, out),
        #[cfg(feature = "group")]
        Command::Group(Late(args)) => group::run(args, out),
        #[cfg(feature = "packets")]
        Command::Extcap(Late(args)) => extcap::run(&args, out),
        Command::ImportChrony(Late(args)) => import::run(&args, out),
        Command::Man(Late(args)) => man::run(&args, self::command(), CONFIGURATIONS, out),
        Command::Completions(Late(args)) => completions::run(&args, &self::command(), out),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        truechimer_command::check::command_line(&command(), GROUPS);
    }

    /// Names in the table of others' commands are none of ours.
    #[test]
    fn no_command_of_ours_is_sent_elsewhere() {
        let ours = command();
        let names = OF_CHRONYC.iter().flat_map(|(names, _)| *names).chain(&MOVED);
        names.for_each(|name| assert!(ours.find_subcommand(name).is_none(), "{name}"));
    }

    #[test]
    fn commands_that_are_shown_are_commands() {
        truechimer_command::check::shown_commands(&command(), &[]);
    }

    #[test]
    fn negative_offsets_and_skews_are_taken() {
        let line = ["truechimer", "serve", "--offset", "-1.5s", "--skew-ppm", "-37"];
        let Command::Serve(serve) = CommandLine::parse_from(line).command else { panic!() };
        assert_eq!(serve.0.offset, "-1.5s".parse().ok());
        assert_eq!(serve.0.skew_ppm, "-37".parse().ok());
    }
}
