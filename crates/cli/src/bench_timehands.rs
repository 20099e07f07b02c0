//! `truechimer bench timehands`.

use std::io::Write;

use clap::Args;

use crate::failure::{Ended, Failure};

/// Options of `truechimer bench timehands`.
#[derive(Args, Debug)]
pub struct BenchTimehands {}

/// Runs the command.
pub fn run(_: &BenchTimehands, _: &mut dyn Write) -> Ended {
    Err(Failure::Said("not yet".into()))
}
