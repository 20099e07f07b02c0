//! The Truechimer clock for C and C++: `libtruechimer`, whose header is `include/truechimer.h`.
//!
//! A thin layer over the client `truechimer`: structures that C knows, times as Unix time rounded
//! outwards, errors as numbers. `docs/use/c.md` shows how it is used.
//!
//! # Rules
//! * Pointers are taken as `Option` of a reference, so that a null pointer is an error and no
//!   crash. What a pointer points to has to be as large as the structure it is declared as.
//! * No panic leaves the library: a function that is `extern "C"` ends the process instead. None is
//!   known to be possible.
//! * A structure or a constant, once published, stays as it is: `tests/interface.txt` holds them to
//!   that.
//!
//! Not here: what the daemon does, and captures and groups; for C there is the clock alone.

mod code;
mod exports;
mod give;
mod memory;
mod types;
mod unix;
