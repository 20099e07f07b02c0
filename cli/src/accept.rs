//! `truechimer accept`: the user's word that a server is right.

use std::io::Write;

use crate::failure::{Ended, Outcome};
use crate::{args, daemon, show};

/// Runs the command.
pub fn run(args: &args::Accept, out: &mut dyn Write) -> Ended {
    let accepted = daemon::accept(&args.page, &args.control, args.source.as_deref())?;
    if args.json {
        writeln!(out, "{}", show::json(&accepted)?)?;
    } else {
        writeln!(out, "{} is believed", show::plain(&accepted.accepted))?;
        writeln!(out, "{}", show::plain(&accepted.status))?;
    }
    Ok(Outcome::Good)
}
