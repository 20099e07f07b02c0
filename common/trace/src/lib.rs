//! Runs of a clock beside the truth: readings ([`Trace`]), what they come to
//! ([`Statistics`]), and a page for people ([`report`]).
//!
//! ```
//! use truechimer_trace::{Statistics, Trace};
//!
//! let nothing = Trace::default();
//! assert_eq!(Statistics::of(&[&nothing]).error.rms_us.is_finite(), false);
//! ```
//!
//! What is *not* here: how a run is made. A simulation makes one, and so does the demo.
#![forbid(unsafe_code)]

pub mod report;
mod statistics;
mod trace;

pub use statistics::*;
pub use trace::*;
