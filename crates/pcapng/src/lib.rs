//! Capture files.
#![forbid(unsafe_code)]
