//! The metrics against packets of which everything is known.

#![allow(clippy::indexing_slicing, reason = "a panic is how a test fails")]

mod frames;
mod one_point;
mod parsing;
mod tshark;
mod two_points;
