//! `truechimer counters bench`.

use std::io::Write;

use clap::Args;

use crate::failure::{Ended, Failure};

/// Options of `truechimer counters bench`.
#[derive(Args, Debug)]
pub struct Options {}

/// Runs the command.
pub fn run(_: &Options, _: &mut dyn Write) -> Ended {
    Err(Failure::Said("not yet".into()))
}
