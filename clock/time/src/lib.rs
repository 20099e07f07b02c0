//! Time as Truechimer computes it: exact, integer, and with raw and cooked kept apart.
//!
//! ```
//! use truechimer_time::{Count, Period, Span};
//!
//! // Counts mean nothing in seconds until a period is applied.
//! let period = Period::from_hz(1 << 31);
//! let (before, after) = (Count(17), Count(17 + (3 << 30)));
//! assert_eq!(period.span(after - before), Span::from_millis(1500));
//! ```
//!
//! * **Raw**: a [`Count`] is one reading of a counter, widened to 64 bits; a [`CountSpan`] is the
//!   signed distance of two. Neither means anything in seconds until a [`Period`] is applied.
//! * **Cooked**: an [`Instant`] is a point on a leap-free time scale, a [`Span`] the signed
//!   distance of two, both in units of 2⁻⁶⁴ s held in an `i128`. [`Utc`] is what an `Instant`
//!   looks like once leap seconds are put back, at the edge of the stack.
//!
//! There is no floating point here. `Count` and `Instant` cannot be mixed or converted without a
//! `Period`, and nothing in this crate panics on extreme values: sums wrap for counts (a counter
//! is modular by nature) and saturate for time.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

mod count;
mod date;
mod decimal;
mod instant;
mod rate;
mod span;
mod utc;

pub use count::{BootId, Count, CountSpan, CounterId, CounterKind, Epoch, Stamp, StampMethod};
pub use date::Date;
pub use decimal::ParseError;
pub use instant::Instant;
pub use rate::{Period, Rate};
pub use span::Span;
pub use utc::{Leap, Leaps, Utc};

/// Examples of the page that registries show.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
