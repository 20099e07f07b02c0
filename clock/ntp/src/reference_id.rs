//! The reference identifier.

use core::fmt;
use core::net::IpAddr;

/// Source of a server's time, in four bytes whose meaning hangs on the stratum (RFC 5905 §7.3): see
/// [`RefId::text`].
///
/// Shown by itself it is eight hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct RefId(pub [u8; 4]);

impl RefId {
    /// Reference that a server names which follows the one at `address` (RFC 5905 §7.3): an IPv4
    /// address as it is, of an IPv6 address the first four bytes of its MD5 sum.
    #[must_use]
    pub fn of_address(address: IpAddr) -> RefId {
        match address {
            IpAddr::V4(v4) => RefId(v4.octets()),
            IpAddr::V6(v6) => {
                let [a, b, c, d, ..] = md5::compute(v6.octets()).0;
                RefId([a, b, c, d])
            }
        }
    }

    /// The identifier as text, if it is one to four printable ASCII characters, the rest zeros
    /// or spaces.
    #[must_use]
    pub fn ascii(&self) -> Option<&str> {
        let text = core::str::from_utf8(&self.0).ok()?.trim_end_matches(['\0', ' ']);
        (!text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic())).then_some(text)
    }

    /// Text of it for a server of that stratum: 0 and 1, the kiss code or the kind of clock
    /// (`RATE`, `GPS`); above, an IPv4 address (`192.0.2.1`), which for a server that follows over
    /// IPv6 is the beginning of a hash and no address. What is not printable is shown in
    /// hexadecimal: nothing that a server sends can upset a terminal.
    #[must_use]
    pub const fn text(self, stratum: u8) -> RefIdText {
        RefIdText { id: self, stratum }
    }
}

impl fmt::Display for RefId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08X}", u32::from_be_bytes(self.0))
    }
}

/// A [`RefId`] shown as its stratum has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RefIdText {
    id: RefId,
    stratum: u8,
}

impl fmt::Display for RefIdText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.stratum, self.id.ascii()) {
            (0 | 1, Some(text)) => f.write_str(text),
            (0 | 1, None) => self.id.fmt(f),
            _ => core::net::Ipv4Addr::from(self.id.0).fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::string::ToString;

    #[test]
    fn shown_by_stratum() {
        for (bytes, stratum, shown) in [
            (*b"GPS\0", 1, "GPS"),
            (*b"PPS ", 1, "PPS"),
            (*b"RATE", 0, "RATE"),
            ([192, 0, 2, 1], 2, "192.0.2.1"),
            (*b"GPS\0", 15, "71.80.83.0"),
            ([0, 0, 0, 0], 0, "00000000"),
            ([0x1b, b'[', b'2', b'J'], 1, "1B5B324A"),
            ([b'A', 0, b'B', 0], 1, "41004200"),
            ([0xc3, 0xa9, 0, 0], 1, "C3A90000"),
        ] {
            assert_eq!(RefId(bytes).text(stratum).to_string(), shown);
        }
        assert_eq!(RefId(*b"GPS\0").to_string(), "47505300");
    }

    #[test]
    fn addresses_become_identifiers() {
        let of = |text: &str| RefId::of_address(text.parse().unwrap());
        assert_eq!(of("192.0.2.1"), RefId([192, 0, 2, 1]));
        // printf '\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x01' | md5sum
        assert_eq!(of("2001:db8::1"), RefId([0x39, 0xab, 0x9b, 0x37]));
    }

    proptest! {
        #[test]
        fn only_printable_characters_are_shown(bytes: [u8; 4], stratum: u8) {
            let shown = RefId(bytes).text(stratum).to_string();
            prop_assert!(shown.bytes().all(|b| b.is_ascii_graphic()));
        }
    }
}
