//! The command as a user has it: what it says, what it returns, and that the whole works.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod errors;
mod help;
mod live;
mod replay;
mod simulate;
mod support;
