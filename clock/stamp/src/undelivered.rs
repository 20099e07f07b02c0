//! Word of the network about a datagram that it could not deliver.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};

/// A datagram that did not arrive, as an ICMP message or the system itself reports. Whoever can
/// guess ports can forge the former: a hint for people, never a reason to act.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Undelivered {
    /// Number of the error: errno.
    pub errno: i32,
    /// Where the datagram was to go, if that is known.
    pub to: Option<SocketAddr>,
    /// Sender of the ICMP message, if it came by one.
    pub by: Option<IpAddr>,
}

impl fmt::Display for Undelivered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", io::Error::from_raw_os_error(self.errno))?;
        if let Some(by) = self.by {
            write!(f, ", says {by}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Undelivered {}

impl From<Undelivered> for io::Error {
    fn from(undelivered: Undelivered) -> io::Error {
        let kind = io::Error::from_raw_os_error(undelivered.errno).kind();
        io::Error::new(kind, undelivered)
    }
}
