//! Time scales of captures of others: UTC, TAI, or a free-running card's own, told from what
//! stands in the file itself.
//!
//! A stamp of an unknown clock is a number. It becomes a time by [`Anchor`]s, moments at which the
//! file shows what true time was:
//!
//! * NTP: a request passed before the server received it, a reply after the server sent it. The
//!   server's own times, and its root distance, bound true time from both sides ([`Ntp`]). Servers
//!   are believed while they agree; where they do not, bounds cover all that they say.
//! * Packets that another interface saw as well, whose times are known: with the longest time that
//!   the two sightings can be apart, which only the user can know ([`Scales::solve`]).
//!
//! * A [`log`] of the clock that somebody kept beside a clock that knows its bound.
//!
//! Between anchors a clock's rate is within [`Limits`]; a [`Line`] is all that both leave open.
//! Nothing is guessed: where a side is open, or anchors contradict each other, it says so.
//!
//! Stamps and times are ns since 1970; true time is UTC as POSIX counts it. A leap second within
//! a file shows as a break.
//!
//! ```
//! use truechimer_scale::{Anchor, Limits, Line};
//!
//! // A clock 37 s ahead, seen twice, a second apart.
//! let anchor = |at: i64, true_ns: i64| Anchor::between(at, true_ns - 1_000, true_ns + 1_000);
//! let anchors = vec![anchor(37_000_000_000, 0), anchor(38_000_000_000, 1_000_000_000)];
//! let line = Line::new(anchors, Limits::default());
//! let told = line.at(37_500_000_000);
//! assert!(told.earliest < Some(500_000_000) && told.latest > Some(500_000_000));
//! assert!(!told.contradicted);
//! ```
#![forbid(unsafe_code)]

mod line;
mod lines;
pub mod log;
mod ntp;
mod scales;

pub use line::{Anchor, Limits, Line, Told};
pub use ntp::Ntp;
pub use scales::{By, LeftOut, Scale, Scales, Sighting};
