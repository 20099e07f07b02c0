//! Symmetric keys of NTP: a key that client and server share proves who made a packet, and that
//! nobody on the path has changed it (RFC 5905 §7.3, RFC 8573).
//!
//! * [`Keys`]: a file of keys, in chrony's format.
//! * [`Key`]: appends a message authentication code to a packet, and checks that of a reply.
//! * [`Keys::open`]: the key by which a request proves itself.
//!
//! ```
//! use truechimer_keys::Keys;
//!
//! let keys = Keys::parse("5 AES128 HEX:000102030405060708090A0B0C0D0E0F", "keys").unwrap();
//! let key = keys.get(5).unwrap();
//! let request = key.protect(&[0x23; 48]);
//! let by = keys.open(&request).unwrap();
//! let reply = by.protect(&[0x24; 48]);
//! assert_eq!(key.accept(&reply).unwrap(), [0x24; 48]);
//! ```
//!
//! That a reply is to *this* request is for the association to see (`truechimer_ntp::Association`): the
//! code covers the timestamp that the reply gives back.
//!
//! Not supported: MD5 and SHA-1, which RFC 8573 and NIST have given up; Autokey.
#![forbid(unsafe_code)]

mod file;
mod key;
mod packet;
mod refusal;

pub use file::Keys;
pub use key::{Algorithm, Key};
pub use packet::{Mac, nak};
pub use refusal::Refusal;
pub use truechimer_ntp::HEADER_LEN;
