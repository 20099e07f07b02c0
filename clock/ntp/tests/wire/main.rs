//! The crate from outside: whole exchanges, and hostile bytes.
// Here a panic is what a test is for.
#![allow(clippy::indexing_slicing, clippy::unwrap_used)]

mod drive;
mod exchange;
mod mutations;
