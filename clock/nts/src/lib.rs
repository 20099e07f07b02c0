//! Network Time Security for NTP (RFC 8915): who answers is who was asked, and nobody on the path
//! has changed it.
//!
//! * [`exchange`]: the records of the key exchange (NTS-KE, §4).
//! * [`Session`]: the client. It protects a request, and takes in exactly one authentic reply to it.
//! * [`Cookies`]: the server. It keeps nothing of its clients: their keys come back in the cookies.
//! * [`tls`]: the key exchange over TLS 1.3, both ends (feature `tls`). All else does no I/O.
//!
//! ```
//! use truechimer_nts::{Aead, Cookies, Keys, Session};
//!
//! let mut dice = 0u8;
//! let mut random = |bytes: &mut [u8]| bytes.iter_mut().for_each(|byte| { dice = dice.wrapping_add(77); *byte = dice });
//! let cookies = Cookies::new(&mut random); // must be random
//! let keys = Keys::new(Aead::SivCmac256, &[1; 32], &[2; 32]).unwrap();
//! let first = vec![cookies.bake(&keys, &mut random)];
//!
//! let mut session = Session::new(keys, first);
//! let request = session.protect(&[0x23; 48], &mut random).unwrap();
//! let opened = cookies.open(&request).unwrap();
//! let reply = cookies.protect(&[0x24; 48], &opened, &mut random);
//! assert_eq!(session.accept(&reply).unwrap(), [0x24; 48]);
//! ```
//!
//! Not supported: NTS for other modes of NTP than client and server; pools of servers by the drafts that
//! extend the key exchange.
#![forbid(unsafe_code)]

mod aead;
mod check;
mod cookies;
#[cfg(feature = "tls")]
mod dates;
pub mod exchange;
mod field;
mod refusal;
mod session;
#[cfg(feature = "tls")]
pub mod tls;

pub use aead::{Aead, Keys};
#[doc(hidden)]
pub use check::check_sealed;
pub use cookies::{Closed, Cookies, Opened, nak};
pub use refusal::{Refusal, Unprotected};
pub use session::{COOKIES, Session};

/// Bytes of an NTP header.
pub const HEADER: usize = truechimer_ntp::HEADER_LEN;
/// Longest packet that is made here, in bytes: it goes through a tunnel's MTU of 1280 with IPv6 and
/// UDP before it.
pub const LONGEST: usize = 1232;
