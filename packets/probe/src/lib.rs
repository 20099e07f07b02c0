//! Measuring the path between two hosts by test packets: STAMP (RFC 8762, with the extensions' form of RFC 8972), so that
//! routers and other programs can be the other end, TWAMP Light's among them (RFC 5357 appendix I).
//!
//! * [`wire`], [`Estimate`], [`tlv`]: what is on the wire.
//! * [`Reflector`]: what becomes of a datagram at the far end. Never more bytes leave it than came.
//! * [`Session`]: the sender's account of its packets; [`Report`]: the figures that come of it.
//! * [`Keeper`]: stamps of the kernel as times of the Truechimer clock, with their bounds.
//! * [`serve`] and [`measure`]: both ends with sockets; nothing else here does I/O.
//!
//! ```
//! use truechimer_probe::wire::{Layout, Reply, Request};
//! use truechimer_probe::{Access, Estimate, Reflector};
//! # use truechimer_probe::Timed;
//!
//! let reflector = Reflector::new(Access { open: true, ..Access::default() }, &[862]);
//! let mut packet = [0; 44];
//! let estimate = Estimate::at_least(Some(truechimer_time::Span::from_micros(20)));
//! Request { sequence: 0, stamp: 0xe8 << 56, estimate, session: 0 }.write(&mut packet, Layout::Open);
//! # let (arrived, left) = (Timed::at_nanos(1_000, 7), Timed::at_nanos(2_000, 7));
//! let from = "192.0.2.1:40000".parse().unwrap();
//! let answer = reflector.answer(&packet, from, Some(64), &arrived, 0).unwrap().leave(&left);
//! let reply = Reply::read(&answer, Layout::Open).unwrap();
//! assert_eq!((reply.sequence, reply.hop_limit, answer.len()), (0, 64, 44));
//! ```
//!
//! Not supported: OWAMP's and TWAMP's control sessions, extensions beyond padding and their code, multicast.
#![forbid(unsafe_code)]

mod estimate;
mod figures;
mod keeper;
pub mod measure;
mod reflector;
pub mod serve;
mod session;
mod shares;
pub mod tlv;
pub mod wire;

pub use estimate::{Estimate, Format};
pub use figures::{Direction, Report, RoundTrip};
pub use keeper::{Keeper, Source, Timed};
pub use reflector::{Access, Ignored, Prepared, Reflector};
pub use session::{Departure, Echo, Probe, Refused, Session};
pub use shares::Shares;
pub use truechimer_qos::{Quantile, VoiceReport};
