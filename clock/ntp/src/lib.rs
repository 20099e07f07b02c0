//! NTPv4 without I/O: the wire format, and both ends of a client–server exchange as state
//! machines.
//!
//! * [`Packet`], [`Timestamp`], [`Short`], [`Log2`], [`RefId`]: what is on the wire, RFC 5905 §6
//!   and §7.3.
//! * [`Association`]: the client. It makes a request, and takes in exactly one reply to it; for
//!   everything else that comes it names a [`Refusal`].
//! * [`server`]: the server, its replies in basic and in interleaved mode (RFC 9769). It keeps
//!   nothing between requests.
//!
//! ```
//! use truechimer_ntp::{Association, LeapIndicator, Log2, RefId, Refusal, Short, Timestamp};
//! use truechimer_ntp::server::{ServerState, respond};
//!
//! let address = "192.0.2.1:123".parse().unwrap();
//! let mut association = Association::new(address);
//! let request = association.request(0x0123_4567_89ab_cdef); // must be random
//!
//! let clock = ServerState {
//!     leap: LeapIndicator::None,
//!     stratum: 1,
//!     precision: Log2(-24),
//!     root_delay: Short(0),
//!     root_dispersion: Short(1),
//!     reference_id: RefId(*b"GPS\0"),
//!     reference_timestamp: Timestamp::from_unix(1_800_000_000, 0),
//! };
//! let arrived = Timestamp::from_unix(1_800_000_010, 0);
//! let left = Timestamp::from_unix(1_800_000_010, 1 << 50);
//! let packet = respond(&request, arrived, left, &clock).unwrap();
//!
//! let reply = association.accept(&packet, address).unwrap();
//! assert_eq!((reply.receive, reply.transmit), (arrived, left));
//! assert_eq!(association.accept(&packet, address), Err(Refusal::Duplicate));
//! ```
//!
//! Nothing here has a clock, a socket or a source of random numbers, and nothing panics or
//! allocates, whatever the bytes.
//!
//! Not supported: symmetric and broadcast modes. Authentication is for
//! `truechimer-nts` and `truechimer-keys`; extension fields are passed over, and read by [`extension`]. A request of basic mode has a zero
//! origin, which no server can take for interleaved mode.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

mod client;
pub mod extension;
mod packet;
mod reference_id;
mod refusal;
pub mod server;
mod short;
mod timestamp;

pub use client::{Association, MAX_ROOT_DISTANCE, Reply, WAITING};
pub use packet::{HEADER_LEN, LeapIndicator, Mode, Packet, VERSION};
pub use reference_id::{RefId, RefIdText};
pub use refusal::{Demand, Refusal, Tally};
pub use short::{Log2, Short};
pub use timestamp::Timestamp;

/// UDP port of NTP servers.
pub const NTP_PORT: u16 = 123;
/// TCP port of the key exchange of Network Time Security (RFC 8915).
pub const NTS_PORT: u16 = 4460;
