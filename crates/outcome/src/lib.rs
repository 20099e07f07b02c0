//! What a measurement comes to: goals, tables and plots, for people, documents and programs.
//!
//! The benchmarks that need a test bed of their own share it.
#![forbid(unsafe_code)]

pub mod files;
pub mod outcome;
pub mod plot;
pub mod program;
pub mod stats;
