//! The metrics against packets of which everything is known.

mod frames;
mod one_point;
mod parsing;
mod tshark;
mod two_points;
