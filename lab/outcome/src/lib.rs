//! Outcome of a measurement: goals, tables and plots, for people, documents and programs.
//!
//! All benchmarks share it, and with it what "met", "NOT MET" and "cannot judge" mean.
//!
//! Not here: measuring itself.
#![forbid(unsafe_code)]

pub mod files;
pub mod interval;
pub mod outcome;
pub mod plot;
pub mod program;
pub mod stats;
pub mod verdict;
pub mod wakes;
