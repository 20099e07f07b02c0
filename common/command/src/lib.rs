//! Parts that the commands of `truechimer` and `truechimer-lab` share: how they begin and end,
//! what values they take, how they show things.
//!
//! ```
//! use truechimer_command::{Outcome, parse, show};
//!
//! assert_eq!(parse::poll("16"), Ok(16));
//! assert_eq!(show::plain("not found (os error 2)"), "not found");
//! assert_eq!(Outcome::of(true), Outcome::Good);
//! ```
//!
//! What is *not* here: any command of its own.
#![forbid(unsafe_code)]

pub mod check;
pub mod clock;
mod failure;
pub mod log;
pub mod man;
pub mod output;
pub mod parse;
pub mod program;
pub mod report;
pub mod scratch;
pub mod show;
pub mod signals;
pub mod table;

pub use failure::{Ended, Failure, Outcome};
