//! Names of clocks and of their ports.

use core::fmt;

/// Identity of a clock (5.3.4): eight bytes that no other clock has.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct ClockIdentity(pub [u8; 8]);

impl fmt::Display for ClockIdentity {
    /// Bytes in hexadecimal with a dash between each two, as 7.5.2.2 writes them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, byte) in self.0.iter().enumerate() {
            write!(f, "{}{byte:02x}", if place == 0 { "" } else { "-" })?;
        }
        Ok(())
    }
}

/// Identity of a port (5.3.5): its clock's, and the number of the port.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct PortIdentity {
    /// The clock.
    pub clock: ClockIdentity,
    /// The port, from 1; 0 and 0xFFFF are no port's number (7.5.2.3).
    pub port: u16,
}

impl fmt::Display for PortIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} port {}", self.clock, self.port)
    }
}

impl PortIdentity {
    pub(crate) fn decode(bytes: [u8; 10]) -> PortIdentity {
        let [a, b, c, d, e, f, g, h, high, low] = bytes;
        PortIdentity {
            clock: ClockIdentity([a, b, c, d, e, f, g, h]),
            port: u16::from_be_bytes([high, low]),
        }
    }

    pub(crate) fn encode(self) -> [u8; 10] {
        let [a, b, c, d, e, f, g, h] = self.clock.0;
        let [high, low] = self.port.to_be_bytes();
        [a, b, c, d, e, f, g, h, high, low]
    }
}
