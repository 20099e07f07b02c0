//! BPF: what is assembled, the kernel's types, and programs in the running kernel.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod btf;
mod encode;
mod run;
