//! Real agents on threads of one process, with real programs' threads: what a group's members do together.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod bed;
mod dependence;
mod gaps;
mod now;
mod passive;
mod posts;
mod several;
mod shipped;
mod troubles;
mod utc;
