//! `truechimer counters select`: changing the kernel's clocksource.

use std::io::{self, BufRead, IsTerminal, Write};
use std::path::PathBuf;

use clap::Args;
use truechimer_survey::clocksource::{ClocksourceError, Clocksources, FOLDER};

use truechimer_command::show::wrapped;
use truechimer_command::{Ended, Failure, Outcome};

/// Options of `truechimer counters select`.
#[derive(Args, Debug)]
#[command(after_help = "\
Without NAME it shows the clocksource in use, and those that could be. With NAME it says what will
change, asks, changes it, and makes sure that the kernel followed. This lasts until the next boot.

Examples:
  truechimer counters select
  sudo truechimer counters select hpet
  sudo truechimer counters select tsc --yes

Exit status: 0, 1 if the answer was no, 2 on an error.")]
pub struct Options {
    /// The clocksource to use: tsc, hpet, acpi_pm, kvm-clock, … as the kernel calls it
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
    /// Do not ask
    #[arg(short, long, requires = "name")]
    pub yes: bool,
    /// Where the kernel's clocksources are: for tests
    #[arg(long, hide = true, value_name = "DIR", default_value = FOLDER)]
    pub clocksources: PathBuf,
}

/// Runs the command.
pub fn run(options: &Options, out: &mut dyn Write) -> Ended {
    let sources = Clocksources::at(&options.clocksources);
    let failed = |why: ClocksourceError| Failure::Said(why.to_string());
    let current = sources.current().map_err(failed)?;
    let Some(name) = &options.name else {
        let others: Vec<String> =
            sources.available().map_err(failed)?.into_iter().filter(|n| *n != current).collect();
        writeln!(out, "current    {current}")?;
        let others = if others.is_empty() { "none".to_owned() } else { others.join(" ") };
        writeln!(out, "available  {others}")?;
        return Ok(Outcome::Good);
    };
    sources.check(name).map_err(failed)?;
    if *name == current {
        writeln!(out, "{name} is the clocksource already: nothing was changed")?;
        return Ok(Outcome::Good);
    }
    // Rather than after the question.
    sources.writable().map_err(failed)?;
    let stderr = &mut io::stderr();
    // Whoever cannot be told cannot be asked either, which is noticed there.
    let _ = consequences(&current, name, stderr);
    if !options.yes {
        if !io::stdin().is_terminal() {
            let why = "there is no terminal to ask on: add --yes";
            return Err(Failure::new("nothing was changed", why));
        }
        let _ = write!(stderr, "change it? [y/N] ");
        let mut answer = String::new();
        let read = io::stdin().lock().read_line(&mut answer);
        read.map_err(|why| Failure::new("standard input", why))?;
        if !is_yes(&answer) {
            writeln!(out, "nothing was changed: {current} is the clocksource")?;
            return Ok(Outcome::Bad);
        }
    }
    sources.select(name).map_err(failed)?;
    done(&current, name, out)?;
    Ok(Outcome::Good)
}

fn is_yes(answer: &str) -> bool {
    matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes")
}

/// Consequences of a change.
fn consequences(from: &str, to: &str, out: &mut dyn Write) -> io::Result<()> {
    let mut say = |text: &str| wrapped(text, "  ", out);
    say(&format!("from {from} to {to}, for the whole machine and until the next boot:"))?;
    say("- Every clock and timer of every program is made of it from then on. The clocks go on \
         without a step that matters (some microseconds at most), but reading them may cost more: \
         'truechimer counters bench --switch' compares.")?;
    say(&format!(
        "- {to} is off by another rate: CLOCK_MONOTONIC_RAW gets another slope, and whatever \
         steers the system clock has to learn anew how fast it runs."
    ))?;
    say("- truechimer daemons on the counter raw begin a new epoch: their clock says 'disrupted' \
         until the next reply of a server. Those on tsc or another counter of the hardware go on.")
}

/// Tells what was done, and how to keep or undo it.
fn done(from: &str, to: &str, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "the clocksource is {to}")?;
    writeln!(out, "to go back      truechimer counters select {from}")?;
    writeln!(out, "to keep it      boot with the kernel parameter clocksource={to}")?;
    if to == "tsc" {
        wrapped(
            "to trust it     tsc=reliable besides ends the kernel's watch over it: only where it \
             is known to be sound",
            "                ",
            out,
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_clear_yes_is_one() {
        assert!(["y", "Y\n", "yes\n", " Yes "].into_iter().all(is_yes));
        assert!(!["", "\n", "n", "no", "yep", "j"].into_iter().any(is_yes));
    }

    #[test]
    fn what_is_said_fits_a_terminal_and_has_all() {
        let mut out = Vec::new();
        consequences("kvm-clock", "arch_sys_counter", &mut out).unwrap();
        done("kvm-clock", "tsc", &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        let words: Vec<&str> = text.split_whitespace().collect();
        let text = words.join(" ");
        for part in
            ["Every clock", "another slope", "new epoch", "clocksource=tsc", "select kvm-clock"]
        {
            assert!(text.contains(part), "{part:?} is missing in {text}");
        }
    }
}
