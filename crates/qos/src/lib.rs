//! What packets say of a path.
#![forbid(unsafe_code)]
