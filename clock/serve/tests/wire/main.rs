//! The server's decisions under any datagrams.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod drive;
mod mutations;
