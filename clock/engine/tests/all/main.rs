//! Tests of the engine as its callers see it. One program, as each would have it linked anew; `heap` counts what is
//! allocated, and is by itself.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

extern crate alloc;

#[path = "../bed/mod.rs"]
mod bed;
mod world;

mod adapt;
mod arbitrary;
mod asymmetry;
mod continuity;
mod courtesy;
mod engine;
mod estimators;
mod fence;
mod held;
mod interleaved;
mod news;
mod panic;
mod pools;
mod preference;
mod ptp;
mod pulses;
mod refclocks;
mod silent;
mod sources;
mod story;
mod waiting;
mod warm;
