//! The same number of readings of every clock and counter.
