//! Configuration files in TOML: whatever is wrong with one is said all at once, each with the file,
//! the line, the key and the mend.
//!
//! A program walks the document by itself, key by key, and asks the [`Reader`] what a value means.
//!
//! ```
//! use truechimer_config::parse;
//!
//! const TABLES: [(&str, &[&str]); 1] = [("the top of the file", &["poll"])];
//! let read = |text: &str| {
//!     let mut poll = 16;
//!     parse(text, "clock.toml", &TABLES, |reader, document| {
//!         for (key, value) in document {
//!             match key.get_ref().as_ref() {
//!                 "poll" => match truechimer_config::whole(value) {
//!                     Some(seconds) => poll = seconds,
//!                     None => reader.kind("poll", value, "a whole number of seconds, as in 16"),
//!                 },
//!                 other => reader.unknown(other, key.span().start, TABLES[0]),
//!             }
//!         }
//!     })
//!     .map(|()| poll)
//! };
//! assert_eq!(read("poll = 64"), Ok(64));
//! let wrong = read("\npol = 64").unwrap_err().to_string();
//! assert_eq!(wrong, "clock.toml:2: unknown key `pol`; did you mean `poll`?");
//! ```
//!
//! What it does not do: it knows no program's keys, and has no defaults.
#![forbid(unsafe_code)]

mod nearest;
mod place;
mod problem;
mod reader;
mod syntax;
mod text;
mod unnamed;

pub use nearest::nearest;
pub use place::Place;
pub use problem::{ConfigError, Problem};
pub use reader::{DeTable, DeValue, Reader, Table, Value, parse, whole};
pub use text::{printable, read, read_own, read_secret};
pub use unnamed::unnamed;
