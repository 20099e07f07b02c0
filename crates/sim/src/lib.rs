//! Oscillators, paths, servers and faults, all seeded, around the very engine that the daemon runs.
#![forbid(unsafe_code)]

pub mod trace;

pub use trace::{Exchanged, Interval, Noted, Sample, Trace};
