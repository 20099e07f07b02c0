//! The analysis of samples of phase: against what others published, noise made to order, any samples.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod made;
mod noise;
mod properties;
mod published;
