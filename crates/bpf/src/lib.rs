//! BPF from Rust alone.
#![deny(unsafe_code)]
