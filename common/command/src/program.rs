//! Beginning and end of a program of several commands.

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::builder::Resettable::{Reset, Value};
use clap::builder::StyledStr;
use clap::{ArgMatches, Args, FromArgMatches};

use crate::log::{self, Priority};
use crate::{Ended, Failure, Outcome};

/// Name of the program that runs.
static NAME: OnceLock<&'static str> = OnceLock::new();

/// Unix ns by the system clock as it was started.
static BEGUN: OnceLock<i64> = OnceLock::new();

/// Commands under the heading that they stand under in the program's help.
pub type Group = (&'static str, &'static [&'static str]);

/// Arguments of a command, whose parser is made when somebody gives that command: to make those of
/// all others took half of the time of a short one.
#[derive(Debug)]
pub struct Late<A>(pub A);

impl<A: Args> Args for Late<A> {
    fn augment_args(command: clap::Command) -> clap::Command {
        command.defer(|command| {
            // Text of the command, not that of the arguments as a type.
            let text = |text: Option<&StyledStr>| text.cloned().map_or(Reset, Value);
            let (about, long) = (text(command.get_about()), text(command.get_long_about()));
            A::augment_args(command).about(about).long_about(long)
        })
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        A::augment_args_for_update(command)
    }
}

impl<A: FromArgMatches> FromArgMatches for Late<A> {
    fn from_arg_matches(found: &ArgMatches) -> Result<Self, clap::Error> {
        A::from_arg_matches(found).map(Late)
    }

    fn update_from_arg_matches(&mut self, found: &ArgMatches) -> Result<(), clap::Error> {
        self.0.update_from_arg_matches(found)
    }
}

/// Runs the program `name`: takes the command line apart by `parser`, and hands it to `run`. The
/// exit status is 0 if all is well, 1 if the answer is no, and 2 on an error, which is told in one
/// line on standard error.
pub fn main<L: FromArgMatches>(
    name: &'static str,
    mut parser: clap::Command,
    line: Vec<OsString>,
    run: impl FnOnce(L) -> Ended,
) -> ExitCode {
    let _ = NAME.set(name);
    let _ = BEGUN.set(now_ns());
    let found = parser.try_get_matches_from_mut(&line);
    match found.and_then(|found| L::from_arg_matches(&found)).map(run) {
        Err(error) => usage(&error, &meant(&parser, &line)),
        Ok(Ok(Outcome::Good)) => ExitCode::SUCCESS,
        Ok(Ok(Outcome::Bad)) => ExitCode::from(1),
        Ok(Err(Failure::Unread)) => ExitCode::from(2),
        Ok(Err(Failure::Said(text))) => {
            complain(&text);
            ExitCode::from(2)
        }
    }
}

/// One line on standard error; there is nobody to tell if that fails.
pub fn complain(text: &str) {
    log::say(Priority::Error, &format!("{}: {text}", name()));
}

/// One line on standard error that is no complaint.
pub fn tell(text: &str) {
    log::say(Priority::Info, &format!("{}: {text}", name()));
}

/// Unix time by the system clock, ns.
#[must_use]
pub fn now_ns() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

/// Unix time by the system clock, ns, at which [`main`] was called; now where it was not.
#[must_use]
pub fn begun_ns() -> i64 {
    *BEGUN.get_or_init(now_ns)
}

/// The command as the user gave it, for reports.
#[must_use]
pub fn line() -> String {
    let words = std::env::args().skip(1).map(|word| {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_./,:=+@%".contains(c);
        if !word.is_empty() && word.chars().all(plain) {
            word
        } else {
            format!("'{}'", word.replace('\'', "'\\''"))
        }
    });
    std::iter::once(name().to_owned()).chain(words).collect::<Vec<_>>().join(" ")
}

/// The parser with its commands under headings in its help, and with `examples` and `notes` below.
#[must_use]
pub fn grouped(
    command: clap::Command,
    groups: &[Group],
    examples: &str,
    notes: &str,
) -> clap::Command {
    let width = groups.iter().flat_map(|(_, names)| *names).map(|n| n.len()).max().unwrap_or(0);
    let mut list = String::new();
    for (title, names) in groups {
        list.push_str(&format!("{title}:\n"));
        for name in *names {
            let about = command.find_subcommand(name).and_then(clap::Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            list.push_str(&format!("  {name:width$}  {about}\n"));
        }
        list.push('\n');
    }
    let name = command.get_name().to_owned();
    command.help_template(format!(
        "{{about-with-newline}}\nUsage: {{usage}}\n\n{list}Options:\n{{options}}\n\n{examples}\n\
         '{name} COMMAND --help' says more about each.\n{notes}"
    ))
}

fn name() -> &'static str {
    NAME.get().copied().unwrap_or("truechimer")
}

/// An error with numbers' ranges in words, rather than in Rust's.
fn in_words(text: &str) -> String {
    let told = |line: &str| -> Option<String> {
        const NO_NUMBER: [&str; 3] = [
            ": invalid digit found in string",
            ": cannot parse integer from empty string",
            ": number too large to fit in target type",
        ];
        if let Some(before) = NO_NUMBER.iter().find_map(|end| line.strip_suffix(end)) {
            return Some(format!("{before}: must be a whole number, and not too large"));
        }
        let (before, range) = line.rsplit_once(" is not in ")?;
        let (before, _) = before.rsplit_once(": ")?;
        let (least, most) = range.split_once("..")?;
        Some(match most.strip_prefix('=') {
            Some(most) => format!("{before}: must be {least} to {most}"),
            None => format!("{before}: must be {least} or more"),
        })
    };
    let lines = text.lines().map(|line| told(line).unwrap_or_else(|| line.to_owned()));
    lines.collect::<Vec<_>>().join("\n")
}

/// The command that a line means, as far as it names one: `truechimer sources add`.
fn meant(parser: &clap::Command, line: &[OsString]) -> String {
    let (mut at, mut path) = (parser, parser.get_name().to_owned());
    for word in line.iter().skip(1).take_while(|word| *word != "--" && *word != "help") {
        if let Some(next) = at.find_subcommand(word) {
            at = next;
            path = format!("{path} {}", next.get_name());
        }
    }
    path
}

/// Help and version go to standard output with status 0, everything else is a usage error.
fn usage(error: &clap::Error, command: &str) -> ExitCode {
    if !error.use_stderr() {
        // A reader that has gone away is no error.
        let _ = error.print();
        return ExitCode::SUCCESS;
    }
    let text =
        error.render().to_string().replace("try '--help'", &format!("try '{command} --help'"));
    match text.strip_prefix("error: ") {
        Some(text) => complain(in_words(text).trim_end()),
        // No command at all: the help itself.
        None => {
            let _ = error.print();
        }
    }
    ExitCode::from(2)
}
