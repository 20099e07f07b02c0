//! `truechimer accept`: the user's word that a server is right.

use std::io::Write;

use crate::daemon;
use crate::daemon::Control;
use clap::Args;
use truechimer_command::clock::Page;
use truechimer_command::show;
use truechimer_command::{Ended, Outcome};

/// Options of `truechimer accept`.
#[derive(Args, Debug)]
#[command(after_help = "\
A server whose time has moved by more than it may is held off for an hour (accept-step-after), or
for as long as it had been right, if that is less; and for ever if that is more than max-step or if
too few say so (min-sources). Where you know that it is right, say so: the clock goes there at once.
Servers that contradict it have no vote until they agree, also when the daemon is started again, but
not after a boot or --fresh: take those that are wrong out of its configuration.
Only root and the daemon's own user may do that. The daemon's log and its replay log have it.

The other remedy is to start the daemon with --fresh: it forgets what was known before, and
believes what the servers say then.

Exit status: 0 it is believed, 2 error (no daemon, no such server, nothing held off).")]
pub struct Accept {
    /// The server, as 'truechimer sources' calls it [default: the one that is held off, if it is
    /// one]
    #[arg(value_name = "SOURCE")]
    pub source: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub page: Page,
    #[command(flatten)]
    pub control: Control,
}

/// Runs the command.
pub fn run(args: &Accept, out: &mut dyn Write) -> Ended {
    let accepted = daemon::accept(&args.page, &args.control, args.source.as_deref())?;
    if args.json {
        writeln!(out, "{}", show::json(&accepted)?)?;
    } else {
        writeln!(out, "{} is believed", show::plain(&accepted.accepted))?;
        writeln!(out, "{}", show::plain(&accepted.status))?;
    }
    Ok(Outcome::Good)
}
