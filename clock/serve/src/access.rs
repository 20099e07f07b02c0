//! Permission to ask.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// All addresses that begin with the same bits: `192.0.2.0/24`, `2001:db8::/32`, a single address.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Prefix {
    address: IpAddr,
    length: u8,
}

/// Reason why a text is no prefix.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NoPrefix(String);

impl fmt::Display for NoPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NoPrefix {}

impl Prefix {
    /// The addresses whose first `length` bits are those of `address`; `None` where the rest of
    /// `address` is not 0, or it has no such number of bits.
    #[must_use]
    pub fn new(address: IpAddr, length: u8) -> Option<Prefix> {
        let prefix = Prefix { address, length };
        let (bits, width) = bits(address);
        (length <= width && bits & !prefix.mask() == 0).then_some(prefix)
    }

    /// True if it holds this address. An IPv4 address in an IPv6 one (`::ffff:192.0.2.1`) is the
    /// former.
    #[must_use]
    pub fn holds(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        address.is_ipv4() == self.address.is_ipv4()
            && bits(address).0 & self.mask() == bits(self.address).0
    }

    /// Ones where an address must agree.
    fn mask(&self) -> u128 {
        let width = bits(self.address).1;
        let free = u32::from(width.saturating_sub(self.length));
        u128::MAX.checked_shl(free).unwrap_or(0)
    }
}

/// The bits of an address, and how many there are.
fn bits(address: IpAddr) -> (u128, u8) {
    match address {
        IpAddr::V4(v4) => (u32::from(v4).into(), 32),
        IpAddr::V6(v6) => (v6.into(), 128),
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}

impl FromStr for Prefix {
    type Err = NoPrefix;

    fn from_str(text: &str) -> Result<Prefix, NoPrefix> {
        let (address, length) = match text.split_once('/') {
            Some((address, length)) => (address, Some(length)),
            None => (text, None),
        };
        let address: IpAddr =
            address.parse().map_err(|_| NoPrefix(format!("'{address}' is no IP address")))?;
        let address = address.to_canonical();
        let width = bits(address).1;
        let length = match length {
            None => width,
            Some(length) => length
                .parse()
                .ok()
                .filter(|length| *length <= width)
                .ok_or_else(|| NoPrefix(format!("'/{length}' is not from /0 to /{width}")))?,
        };
        Prefix::new(address, length).ok_or_else(|| {
            let mask = Prefix { address, length }.mask();
            let first = match address {
                IpAddr::V4(v4) => IpAddr::V4(Ipv4Addr::from(u32::from(v4) & mask as u32)),
                IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from(u128::from(v6) & mask)),
            };
            NoPrefix(format!("{text} has bits beyond its length: did you mean {first}/{length}?"))
        })
    }
}

/// Permission to ask: of the prefixes that hold an address the longest decides; of two alike the
/// one that denies.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Access {
    /// The longest first, and of those of one length the denials.
    rules: Vec<(Prefix, bool)>,
}

impl Access {
    /// This machine may ask, and whoever is allowed; nobody who is denied.
    #[must_use]
    pub fn new(allowed: &[Prefix], denied: &[Prefix]) -> Access {
        let loopback = [
            Prefix { address: Ipv4Addr::new(127, 0, 0, 0).into(), length: 8 },
            Prefix { address: Ipv6Addr::LOCALHOST.into(), length: 128 },
        ];
        let mut rules: Vec<_> = denied.iter().map(|prefix| (*prefix, false)).collect();
        rules.extend(allowed.iter().chain(&loopback).map(|prefix| (*prefix, true)));
        rules.sort_by_key(|(prefix, allow)| (std::cmp::Reverse(prefix.length), *allow));
        Access { rules }
    }

    /// True if this address may ask.
    #[must_use]
    pub fn allows(&self, address: IpAddr) -> bool {
        self.rules.iter().find(|(prefix, _)| prefix.holds(address)).is_some_and(|rule| rule.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn prefixes(texts: &[&str]) -> Vec<Prefix> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    fn allows(allowed: &[&str], denied: &[&str], address: &str) -> bool {
        Access::new(&prefixes(allowed), &prefixes(denied)).allows(address.parse().unwrap())
    }

    #[test]
    fn only_this_machine_unless_told_otherwise() {
        for address in ["127.0.0.1", "127.255.0.9", "::1", "::ffff:127.0.0.1"] {
            assert!(allows(&[], &[], address), "{address}");
        }
        for address in ["192.0.2.1", "0.0.0.0", "::2", "2001:db8::1", "128.0.0.1"] {
            assert!(!allows(&[], &[], address), "{address}");
        }
        assert!(!allows(&[], &["127.0.0.0/8"], "127.0.0.1"));
        assert!(!allows(&[], &["127.0.0.9"], "127.0.0.9"));
    }

    #[test]
    fn the_longest_prefix_decides() {
        let (allowed, denied) = (["192.0.2.0/24", "2001:db8::/32"], ["192.0.2.128/25"]);
        assert!(allows(&allowed, &denied, "192.0.2.127"));
        assert!(!allows(&allowed, &denied, "192.0.2.128"));
        assert!(allows(&allowed, &denied, "2001:db8:ffff::"));
        assert!(!allows(&allowed, &denied, "2001:db9::"));
        assert!(allows(&["192.0.2.130"], &denied, "192.0.2.130"));
        assert!(!allows(&["192.0.2.128/25"], &denied, "192.0.2.130"));
        assert!(allows(&["0.0.0.0/0"], &[], "203.0.113.7"));
        assert!(!allows(&["0.0.0.0/0"], &[], "2001:db8::1"));
        assert!(allows(&["::/0"], &[], "2001:db8::1"));
    }

    #[test]
    fn what_is_no_prefix_says_why() {
        for (text, why) in [
            ("host", "'host' is no IP address"),
            ("192.0.2.0/33", "'/33' is not from /0 to /32"),
            ("::/129", "'/129' is not from /0 to /128"),
            ("::/", "'/' is not from /0 to /128"),
            ("192.0.2.1/24", "192.0.2.1/24 has bits beyond its length: did you mean 192.0.2.0/24?"),
            (
                "2001:db8::1/32",
                "2001:db8::1/32 has bits beyond its length: did you mean 2001:db8::/32?",
            ),
        ] {
            assert_eq!(text.parse::<Prefix>().unwrap_err().to_string(), why);
        }
        assert_eq!("::ffff:192.0.2.1".parse::<Prefix>().unwrap().to_string(), "192.0.2.1/32");
    }

    proptest! {
        #[test]
        fn a_prefix_holds_what_begins_like_it(address: u128, other: u128, length in 0u8..=128) {
            let mask = u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0);
            let v6 = |bits: u128| IpAddr::V6(Ipv6Addr::from(bits | 1 << 127));
            let first = Ipv6Addr::from((address | 1 << 127) & mask);
            let prefix = Prefix::new(first.into(), length).unwrap();
            prop_assert!(prefix.holds(v6(address)));
            let alike = (address ^ other) & mask & !(1 << 127) == 0;
            prop_assert_eq!(prefix.holds(v6(other)), alike);
            prop_assert_eq!(prefix.to_string().parse::<Prefix>(), Ok(prefix));
        }
    }
}
