//! `truechimer serve`: an NTP server of the clock in the page, or of a time of its own.

pub mod args;
mod metrics;
pub mod page;

use std::io::Write;
use std::path::{Path, PathBuf};

use serde::Serialize;
use truechimer_confine::{CapabilitySet, Confined, Rules, Unlisted};
use truechimer_serve::{DEFAULT_STRATUM, ServedClock, Server};
use truechimer_time::{Rate, Span};

pub use args::{Base, Serve};

use truechimer_command::log::{self, Form, Priority};
use truechimer_command::show::{json, ppb};
use truechimer_command::signals;
use truechimer_command::{Ended, Failure, Outcome};

/// Facts that a test needs in order to know the truth.
#[derive(Serialize)]
struct Ready {
    listen: String,
    origin_raw_ns: i64,
    offset_ns: i64,
    skew_ppb: f64,
    stratum: u8,
}

/// Runs the command.
pub fn run(args: &Serve, out: &mut dyn Write) -> Ended {
    args.check()?;
    match args.clock {
        Base::Page => page::run(args, out),
        Base::System => system(args, out),
    }
}

/// The embedded server by itself.
fn system(args: &Serve, out: &mut dyn Write) -> Ended {
    let stop = signals::stop()?;
    let listen = args.one_listen()?;
    let stratum = args.stratum.unwrap_or(DEFAULT_STRATUM);
    let clock = clock(args.offset.unwrap_or(Span::ZERO), args.skew_ppm.unwrap_or(Rate::ZERO))?;
    let mut server = Server::bind(listen, clock, stratum)
        .map_err(|why| Failure::Said(page::unbound(listen, &why)))?;
    let sandbox = if args.no_sandbox {
        None
    } else {
        confine(&[], &[], std::iter::empty(), CapabilitySet::empty(), args.seccomp)
    };
    let address = server.address();
    if args.json {
        let ready = Ready {
            listen: address.to_string(),
            origin_raw_ns: clock.origin_raw_ns,
            offset_ns: clock.offset.as_nanos_i64(),
            skew_ppb: ppb(clock.skew),
            stratum,
        };
        writeln!(out, "{}", json(&ready)?)?;
    } else {
        writeln!(
            out,
            "serving on {address}: the system clock {:+}, gaining {} on it, as stratum {stratum}",
            clock.offset, clock.skew
        )?;
    }
    out.flush()?;
    log::begin();
    tell_sandbox(sandbox);
    server.run(&stop).map_err(|why| Failure::new(format!("serving on {address}"), why))?;
    page::tell(&server.tally(), args.json, Form::Bare, out)?;
    Ok(Outcome::Good)
}

/// Gives up all rights but to read these clock pages and what comes in place of these files, and to write where others are;
/// in words what is left. These capabilities are kept, if the process has them.
/// Where system calls are a simulator's, nothing.
pub fn confine<'a>(
    pages: &[PathBuf],
    read: &[&Path],
    written: impl Iterator<Item = &'a Path>,
    kept: CapabilitySet,
    unlisted: Unlisted,
) -> Option<Confined> {
    if truechimer_counter::is_simulated() {
        return None;
    }
    let mut rules = Rules::service();
    pages.iter().for_each(|page| rules.read_folder_of(page));
    read.iter().for_each(|path| rules.read_folder_of(path));
    written.for_each(|path| rules.write_folder_of(path));
    rules.keep(kept);
    rules.filter_calls(unlisted);
    Some(rules.apply())
}

/// Tells what is left of the process's rights, after the line that says where it listens.
pub fn tell_sandbox(sandbox: Option<Confined>) {
    if let Some(sandbox) = sandbox {
        log::say(Priority::Info, &format!("truechimer: info: {sandbox}"));
    }
}

/// A served time that begins now.
pub fn clock(offset: Span, skew: Rate) -> Result<ServedClock, Failure> {
    ServedClock::starting_now(offset, skew).map_err(|why| Failure::new("cannot serve a time", why))
}
