//! `truechimer qos`: what packets say of a path.

use std::io::Write;

use crate::failure::{Ended, Failure};

/// Options of `truechimer qos`.
#[derive(clap::Args, Debug)]
pub struct Qos {}

/// Runs the command.
pub fn run(_args: &Qos, _out: &mut dyn Write) -> Ended {
    Err(Failure::Said("not built yet".into()))
}
