//! How stable an oscillator is, from samples of its phase: pure mathematics, no I/O.
//!
//! Phase is time error in seconds: the clock in question − the reference; positive means ahead.
#![forbid(unsafe_code)]

mod allan;

pub use allan::{allan_deviation, modified_allan_deviation};
