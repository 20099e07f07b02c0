//! Source that the clock follows, for those who serve it on.

/// The source that the clock follows: what an NTP server of the clock has to say of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reference {
    /// Stratum: 0 for a reference clock, such as a pulse per second, 1 to 15 for a server.
    pub stratum: u8,
    /// Reference identifier (RFC 5905 §7.3): a server's address if that is of IPv4, the first bytes
    /// of a sum of it if not; of a reference clock four characters.
    pub id: [u8; 4],
    /// The server's UDP port; 0 for a reference clock.
    pub port: u16,
    /// The server's address is of IPv6.
    pub ipv6: bool,
}

/// That anything is said.
const SAID: u64 = 1 << 56;
const IPV6: u64 = 1 << 57;

impl Reference {
    /// Packs into a word: bits 0–31 the identifier, 32–47 the port, 48–55 the stratum, 56 set, 57
    /// IPv6.
    #[must_use]
    pub fn pack(reference: Option<Reference>) -> u64 {
        let Some(Reference { stratum, id, port, ipv6 }) = reference else { return 0 };
        let numbers = u64::from(u32::from_be_bytes(id)) | u64::from(port) << 32;
        numbers | u64::from(stratum) << 48 | SAID | if ipv6 { IPV6 } else { 0 }
    }

    /// Unpacks a word; `None` if nothing is said, or nothing that can be.
    #[must_use]
    pub fn unpack(word: u64) -> Option<Reference> {
        let stratum = (word >> 48) as u8;
        let said = word & SAID != 0 && word >> 58 == 0 && stratum < 16;
        said.then_some(Reference {
            stratum,
            id: (word as u32).to_be_bytes(),
            port: (word >> 32) as u16,
            ipv6: word & IPV6 != 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_is_unpacked_and_nothing_else() {
        for stratum in 0..=15 {
            for (port, ipv6) in [(0, false), (123, true), (u16::MAX, false)] {
                let reference = Reference { stratum, id: [192, 0, 2, 255], port, ipv6 };
                assert_eq!(Reference::unpack(Reference::pack(Some(reference))), Some(reference));
            }
        }
        assert_eq!((Reference::pack(None), Reference::unpack(0)), (0, None));
        let id = [0xff; 4];
        let most = Reference::pack(Some(Reference { stratum: 15, id, port: 0xffff, ipv6: true }));
        for wrong in [most | 1 << 52, most | 1 << 58, most | 1 << 63, most & !SAID, !0] {
            assert_eq!(Reference::unpack(wrong), None, "{wrong:x}");
        }
    }
}
