//! How well the stamps of each method keep a constant rate.
