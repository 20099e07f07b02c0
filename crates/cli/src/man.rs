//! `truechimer man`: the manual pages, from the same text as `--help`.

use std::io::Write;

use crate::args::{self, Man};
use crate::failure::{Ended, Failure, Outcome};

/// Runs the command.
pub fn run(args: &Man, out: &mut dyn Write) -> Ended {
    let failed = |why| Failure::new(args.directory.display(), why);
    std::fs::create_dir_all(&args.directory).map_err(failed)?;
    clap_mangen::generate_to(args::command(), &args.directory).map_err(failed)?;
    writeln!(out, "manual pages written to {}", args.directory.display())?;
    Ok(Outcome::Good)
}
