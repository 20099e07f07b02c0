//! The clock as a page of hands (work in progress).
mod hand;
pub use hand::{Hand, Status};
