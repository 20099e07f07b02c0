//! Capturing on one thread, conversion and writing on another.
