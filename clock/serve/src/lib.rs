//! NTP servers: one of the clock in the page, and a small one whose time is known exactly.
//!
//! [`PageServer`] serves the clock that `truechimer run` publishes. Requests are stamped by the
//! kernel as they arrive, stamps become counts and counts the clock's own time; what is said of the
//! clock (leap indicator, stratum, root delay and dispersion) is such that a client's distance to
//! true time covers the clock's bound. What becomes of a datagram is decided by a [`Responder`],
//! which does no I/O; threads receive and send many of them with one system call.
//!
//! Those who ask for it are answered with proof: [`PageServer::prove`] by Network Time Security,
//! [`PageServer::share`] by symmetric keys.
//!
//! [`Server`] serves a [`ServedClock`], for demonstrations and tests: the system clock with an
//! offset and a skew of its own. Whoever has that value knows the served time at any moment without
//! asking over the network, by a [`Sandwich`] between two readings of a counter, and can judge a
//! clock that follows the server. It promises nothing about true time.
//!
//! [`Load`] asks a server as fast as it answers: how fast that is, is what the benchmark tells.
#![deny(unsafe_code)]

mod access;
mod answer;
mod arrivals;
mod clock;
mod control;
mod face;
mod lag;
mod limit;
mod load;
#[cfg(feature = "nts")]
mod nts;
#[cfg(not(feature = "nts"))]
#[path = "nts/without.rs"]
mod nts;
mod proof;
mod server;
mod serving;
mod sys;
mod table;
mod tally;
mod upstream;
mod worker;

pub use access::{Access, NoPrefix, Prefix};
pub use answer::{Answer, Kind, Outcome, Responder, Sent, transmit};
pub use clock::{Sandwich, ServedClock};
pub use limit::{Limiter, Rate};
pub use load::{Load, Measured};
pub use nts::Nts;
pub use proof::NtsSettings;
pub use server::{DEFAULT_STRATUM, Running, Server};
pub use serving::{BindError, Listen, MOST_THREADS, PageServer, Serving};
pub use table::Table;
pub use tally::Tally;
pub use upstream::Upstream;
