//! A small NTP server whose time is known exactly: for demonstrations and tests.
//!
//! It serves a [`ServedClock`]: the system clock with an offset and a skew of its own. Whoever has
//! that value knows the served time at any moment without asking over the network, by a
//! [`Sandwich`] between two readings of a counter, and can judge a clock that follows the server.
//!
//! Requests are stamped by the kernel as they arrive; the transmit time is read as late as
//! possible. A server of the real clock comes later; this one promises nothing about true time.
#![deny(unsafe_code)]

mod clock;
mod server;
mod wait;

pub use clock::{Sandwich, ServedClock};
pub use server::{DEFAULT_STRATUM, Running, Server};
