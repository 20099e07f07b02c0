//! `truechimer restamp`: the times of a capture, worked out anew.

use std::io::Write;

use crate::failure::{Ended, Failure};

/// Options of `truechimer restamp`.
#[derive(clap::Args, Debug)]
pub struct Restamp {}

/// Runs the command.
pub fn run(_args: &Restamp, _out: &mut dyn Write) -> Ended {
    Err(Failure::Said("not built yet".into()))
}
