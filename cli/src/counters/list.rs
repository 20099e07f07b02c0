//! `truechimer counters list`: every counter and clocksource, and advice.

mod figures;
mod page;
mod screen;

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde::Serialize;
use truechimer_survey::advice::{Advice, advise};
use truechimer_survey::inventory::{self, Inventory, Sources};

use truechimer_command::show::json;
use truechimer_command::{Ended, Failure, Outcome};

pub use page::section;

/// Options of `truechimer counters list`.
#[derive(Args, Debug)]
#[command(after_help = "\
Shows what the kernel can keep time by (clocksources) and what a program can read itself
(counters), with their frequency, width, resolution and cost, what processor, hypervisor and
kernel say of them, and whether this is the right choice for the machine. Nothing is changed, and
no privilege is needed; root sees more: the kernel's log, and HPET and ACPI PM timer.

Examples:
  truechimer counters list
  sudo truechimer counters list -v --seconds 10
  truechimer counters list --json | jq '.advice[] | select(.severity == \"problem\")'
  truechimer counters list --root copied/    a machine described by files copied off it

The folder for --root holds any of sys/, proc/, dev/kmsg (what dmesg says) and cpuid (what
'cpuid -1 -r' says). Of sys/ it takes devices/system/clocksource, devices/system/cpu,
class/dmi/id and hypervisor; of proc/ cpuinfo, cmdline and sys/kernel/osrelease.

Exit status: 0 listed, whatever the advice, 2 error.")]
pub struct Options {
    /// Print one JSON object; frequencies are in Hz, fields end in their unit
    #[arg(long)]
    pub json: bool,
    /// Show more: idle states, what the kernel's log says, clocksources that are not to be had
    #[arg(short, long)]
    pub verbose: bool,
    /// Over how many seconds frequencies are measured, 0 to 3600; 0 measures nothing
    #[arg(long, value_name = "S", default_value_t = 1.0, value_parser = seconds)]
    pub seconds: f64,
    /// Describe another machine, by files copied off it into this folder, instead of this one
    #[arg(long, value_name = "DIR")]
    pub root: Option<PathBuf>,
}

/// Findings of the command: the counters, and what there is to say about them.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Listed {
    /// Facts that are known.
    pub inventory: Inventory,
    /// Advice, what matters most first.
    pub advice: Vec<Advice>,
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.0..=3600.0).contains(&seconds) => Ok(seconds),
        _ => Err("must be a number from 0 to 3600".into()),
    }
}

/// Finds it out, over about so many seconds.
pub fn measure(sources: &Sources, seconds: f64) -> Listed {
    let options =
        inventory::Options { measure: Duration::from_secs_f64(seconds.clamp(0.0, 3600.0)) };
    let inventory = inventory::measure(sources, &options);
    let advice = advise(&inventory);
    Listed { inventory, advice }
}

/// Runs the command.
pub fn run(options: &Options, out: &mut dyn Write) -> Ended {
    let sources = match &options.root {
        Some(root) if !root.is_dir() => {
            return Err(Failure::new(root.display(), "no such directory: --root takes one"));
        }
        Some(root) => Sources::under(root),
        None => Sources::here(),
    };
    let listed = measure(&sources, options.seconds);
    if options.json {
        writeln!(out, "{}", json(&listed)?)?;
    } else {
        screen::write(&listed, options.verbose, out)?;
    }
    Ok(Outcome::Good)
}
