//! IEEE 1588-2019 (PTP) without I/O: the wire format, the best master clock algorithm, and a port
//! that is slave only.
//!
//! * [`Message`], [`Tlv`]: what is on the wire, clauses 13 and 14.
//! * [`DataSet`]: which of two masters is the better, 9.3.4.
//! * [`Slave`]: an ordinary clock's one port. It chooses its master, asks it with `Delay_Req`, and
//!   makes an [`Exchange`] of each question and the next `Sync`: four times as those of NTP are, two
//!   of them raw counts. Masters that are known by address are asked for their messages (16.1).
//!
//! ```
//! use truechimer_ptp::{Body, Header, Message, Timestamp};
//!
//! let time = Timestamp { seconds: 1_800_000_037, nanos: 5 };
//! let sync = Message { header: Header::default(), body: Body::Sync(time), rest: &[] };
//! let mut buffer = [0; 64];
//! let bytes = sync.encode(&mut buffer).unwrap();
//! assert_eq!(bytes.len(), 44);
//! assert_eq!(Message::decode(bytes), Ok(sync));
//! ```
//!
//! Numbers of clauses, tables and figures are those of IEEE 1588-2019. Nothing here has a clock, a
//! socket or a source of random numbers, and nothing panics or allocates, whatever the bytes.
//!
//! Not supported: being a master, management (passed over), and the peer-to-peer delay mechanism with a
//! neighbour that is not the master.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

mod compare;
mod identity;
mod masters;
mod message;
mod quality;
mod refusal;
mod slave;
mod time;
mod tlv;

pub use compare::DataSet;
pub use identity::{ClockIdentity, PortIdentity};
pub use masters::{MASTERS, Master};
pub use message::{
    Announce, Body, ClockQuality, Flags, HEADER_LEN, Header, Kind, Malformed, Message, VERSION,
};
pub use refusal::{Refusal, Tally};
pub use slave::{Change, DelayMechanism, Exchange, Grant, Heard, Packet, Slave};
pub use time::{Correction, LogInterval, Timestamp};
pub use tlv::{Tlv, Tlvs, Wire};
