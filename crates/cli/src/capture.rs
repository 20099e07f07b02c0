//! `truechimer capture`: packets with the time at which they passed.

use std::io::Write;

use crate::failure::{Ended, Failure};

/// Options of `truechimer capture`.
#[derive(clap::Args, Debug)]
pub struct Capture {}

/// Runs the command.
pub fn run(_args: &Capture, _out: &mut dyn Write) -> Ended {
    Err(Failure::Said("not built yet".into()))
}
