//! A thread for conversion against conversion inline.

use crate::options::Options;
use crate::outcome::{Failure, Outcome};

/// Measures it.
pub fn run(_options: &Options) -> Result<Outcome, Failure> {
    Err(Failure("not measured yet".to_owned()))
}
