//! Conversion on machines that are made up, so that the truth is known.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may fail")]

mod clock;
mod stamps;
pub(crate) mod world;
