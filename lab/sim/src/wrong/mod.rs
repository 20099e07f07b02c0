//! A lone server that is wrong, and one that is honest: how soon the first is detected, how often
//! the second is held off.
//!
//! Each [`Case`] is run on each of [`WAYS`] under many seeds, on exchanges alone, and what the runs
//! come to is a [`Row`]. Rows under several `accept-step-after` are the points of a curve: false
//! holds against missed lies.

mod cases;
mod exchanges;
mod figures;
mod run;

pub use cases::{Case, Group, Setup, WAYS, Way, cases};
pub use exchanges::{Exchanges, Heard};
pub use figures::{Compared, Quantile, Row, Rows, Share, Spread};
pub use run::{Event, Outcome, Record, recorded, run, run_all};
