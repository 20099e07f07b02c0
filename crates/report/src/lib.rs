//! Reports as one self-contained HTML page: tables, plots, notes.
#![forbid(unsafe_code)]
