//! The codec, the choice of the master and the slave, against bytes and messages of any kind.
#![allow(missing_docs, clippy::unwrap_used, clippy::indexing_slicing)]

mod best;
mod codec;
mod drive;
mod path;
mod slave;
mod unicast;
