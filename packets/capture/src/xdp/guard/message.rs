//! Contents of rtnetlink's messages about links, addresses and routes. What is cut short says
//! nothing.

use std::net::IpAddr;

const HEADER: usize = 16;

const IFLA_IFNAME: u16 = 3;
const IFLA_LINK: u16 = 5;
const IFLA_MASTER: u16 = 10;
const IFLA_LINKINFO: u16 = 18;
const IFLA_INFO_KIND: u16 = 1;
const IFLA_LINK_NETNSID: u16 = 37;
const IFLA_PARENT_DEV_NAME: u16 = 56;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const NDA_LLADDR: u16 = 2;
const TCA_KIND: u16 = 1;
const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const RTA_MULTIPATH: u16 = 9;
/// Marks that are no part of an attribute's type.
const MARKS: u16 = 0xc000;

/// Each message's type and body.
pub(super) fn messages(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = number(bytes, 0)? as usize;
        let kind = u16::from_ne_bytes(*bytes.get(4..)?.first_chunk()?);
        let body = bytes.get(HEADER..length)?;
        bytes = bytes.get(length.checked_next_multiple_of(4)?..).unwrap_or_default();
        Some((kind, body))
    })
}

/// Each attribute's type and value.
fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let (length, rest) = bytes.split_first_chunk::<2>()?;
        let length = usize::from(u16::from_ne_bytes(*length));
        let kind = u16::from_ne_bytes(*rest.first_chunk()?);
        let value = bytes.get(4..length)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind & !MARKS, value))
    })
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(bytes.get(..end).unwrap_or_default()).into_owned()
}

fn address(value: &[u8]) -> Option<IpAddr> {
    match value.len() {
        4 => value.first_chunk::<4>().map(|bytes| IpAddr::from(*bytes)),
        16 => value.first_chunk::<16>().map(|bytes| IpAddr::from(*bytes)),
        _ => None,
    }
}

/// A link.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Described {
    pub index: u32,
    pub name: String,
    /// Master that it is a port of.
    pub master: Option<u32>,
    /// Interface that it stands on.
    pub lower: Option<u32>,
    /// True if that is in another network namespace.
    pub is_elsewhere: bool,
    /// The kind of virtual link.
    pub kind: Option<String>,
    /// True if there is a device behind it (Linux 5.14 and later tell).
    pub is_physical: bool,
}

impl Described {
    pub fn read(body: &[u8]) -> Option<Described> {
        // struct ifinfomsg
        let index = number(body, 4)?;
        let mut link = Described {
            index,
            name: format!("interface {index}"),
            master: None,
            lower: None,
            is_elsewhere: false,
            kind: None,
            is_physical: false,
        };
        for (kind, value) in attributes(body.get(16..)?) {
            match kind {
                IFLA_IFNAME => link.name = text(value),
                IFLA_MASTER => link.master = number(value, 0).filter(|&master| master != 0),
                IFLA_LINK => link.lower = number(value, 0),
                IFLA_LINK_NETNSID => link.is_elsewhere = true,
                IFLA_PARENT_DEV_NAME => link.is_physical = true,
                IFLA_LINKINFO => {
                    let kind = attributes(value).find(|(kind, _)| *kind == IFLA_INFO_KIND);
                    link.kind = kind.map(|(_, value)| text(value));
                }
                _ => {}
            }
        }
        Some(link)
    }
}

/// An address of an interface.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Address {
    pub interface: u32,
    pub ip: IpAddr,
}

impl Address {
    pub fn read(body: &[u8]) -> Option<Address> {
        // struct ifaddrmsg
        let interface = number(body, 4)?;
        let mut ip = None;
        for (kind, value) in attributes(body.get(8..)?) {
            let address = address(value);
            match kind {
                // Where there is a peer, `IFA_ADDRESS` is the peer's.
                IFA_LOCAL => ip = address,
                IFA_ADDRESS => ip = ip.or(address),
                _ => {}
            }
        }
        Some(Address { interface, ip: ip? })
    }
}

/// A further unicast address of the link layer that an interface listens to: the interface's
/// number.
pub(super) fn further_address(body: &[u8]) -> Option<u32> {
    // struct ndmsg
    let interface = number(body, 4)?;
    let mut addresses = attributes(body.get(12..)?).filter(|(kind, _)| *kind == NDA_LLADDR);
    let (_, address) = addresses.next()?;
    (address.first()? & 1 == 0).then_some(interface)
}

/// The interface whose arriving packets programs of tc look at.
pub(super) fn inspected(body: &[u8]) -> Option<u32> {
    // struct tcmsg
    let interface = number(body, 4)?;
    let mut kinds = attributes(body.get(20..)?).filter(|(kind, _)| *kind == TCA_KIND);
    let kind = text(kinds.next()?.1);
    matches!(kind.as_str(), "ingress" | "clsact").then_some(interface)
}

/// A route to one or more hosts elsewhere.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Route {
    /// To whom; `None` for a default route.
    pub to: Option<IpAddr>,
    pub out_by: Vec<u32>,
}

impl Route {
    pub fn read(body: &[u8]) -> Option<Route> {
        // struct rtmsg
        let &[_, length, _, _, _, _, _, kind, ..] = body.first_chunk::<12>()?;
        if kind != libc::RTN_UNICAST {
            return None;
        }
        let (mut to, mut out_by) = (None, Vec::new());
        for (kind, value) in attributes(body.get(12..)?) {
            match kind {
                RTA_DST if length > 0 => to = address(value),
                RTA_OIF => out_by.extend(number(value, 0)),
                RTA_MULTIPATH => out_by.extend(hops(value)),
                _ => {}
            }
        }
        // (A destination that was left out is all zeros.)
        Some(Route { to, out_by })
    }
}

/// The interfaces of a route's next hops (`struct rtnexthop`).
fn hops(mut bytes: &[u8]) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let length = usize::from(u16::from_ne_bytes(*bytes.first_chunk()?));
        let interface = number(bytes, 4)?;
        bytes = if length < 8 {
            Default::default()
        } else {
            bytes.get(length.next_multiple_of(4)..).unwrap_or_default()
        };
        Some(interface)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let mut bytes = (value.len() as u16 + 4).to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    fn link(index: u32, attributes: &[Vec<u8>]) -> Vec<u8> {
        let mut body = vec![0; 4];
        body.extend(index.to_ne_bytes());
        body.extend([0; 8]);
        body.extend(attributes.concat());
        body
    }

    #[test]
    fn links_are_read() {
        let body = link(
            7,
            &[
                attribute(IFLA_IFNAME, b"port\0"),
                attribute(IFLA_MASTER, &9_u32.to_ne_bytes()),
                attribute(IFLA_LINK, &3_u32.to_ne_bytes()),
                attribute(IFLA_LINKINFO | 0x8000, &attribute(IFLA_INFO_KIND, b"vlan\0")),
            ],
        );
        let link = Described::read(&body).unwrap();
        assert_eq!((link.index, link.name.as_str(), link.master), (7, "port", Some(9)));
        assert_eq!((link.lower, link.kind.as_deref()), (Some(3), Some("vlan")));
        assert!(!link.is_elsewhere);
    }

    #[test]
    fn further_addresses_and_inspection_are_read() {
        let body = |length: usize, attributes: &[Vec<u8>]| {
            let mut body = vec![0, 0, 0, 0, 5, 0, 0, 0];
            body.resize(length, 0);
            body.extend(attributes.concat());
            body
        };
        let address = |first: u8| body(12, &[attribute(NDA_LLADDR, &[first, 0, 0, 0, 0, 1])]);
        assert_eq!(further_address(&address(2)), Some(5));
        assert_eq!(further_address(&address(0x33)), None, "multicast: everybody has some");
        let kind = |name: &[u8]| inspected(&body(20, &[attribute(TCA_KIND, name)]));
        assert_eq!(
            (kind(b"clsact\0"), kind(b"ingress\0"), kind(b"fq\0")),
            (Some(5), Some(5), None)
        );
    }

    #[test]
    fn addresses_are_read() {
        let body = |attributes: &[Vec<u8>]| {
            let mut body = vec![2, 24, 0, 0, 5, 0, 0, 0];
            body[4..8].copy_from_slice(&5_u32.to_ne_bytes());
            body.extend(attributes.concat());
            body
        };
        let (peer, own) =
            (attribute(IFA_ADDRESS, &[192, 0, 2, 1]), attribute(IFA_LOCAL, &[192, 0, 2, 9]));
        let own_ip: IpAddr = "192.0.2.9".parse().unwrap();
        for order in [[peer.clone(), own.clone()], [own, peer]] {
            let address = Address::read(&body(&order)).unwrap();
            assert_eq!((address.interface, address.ip), (5, own_ip));
        }
        assert_eq!(Address::read(&body(&[attribute(IFA_LOCAL, &[1, 2, 3])])), None);
    }

    #[test]
    fn routes_are_read() {
        let route = |length, kind, attributes: &[Vec<u8>]| {
            let mut body = vec![2, length, 0, 0, 254, 0, 0, kind, 0, 0, 0, 0];
            body.extend(attributes.concat());
            Route::read(&body)
        };
        let by_four = attribute(RTA_OIF, &4_u32.to_ne_bytes());
        let single = route(0, 1, std::slice::from_ref(&by_four)).unwrap();
        assert_eq!(single, Route { to: None, out_by: vec![4] });
        let host = route(32, 1, &[attribute(RTA_DST, &[10, 0, 0, 7]), by_four.clone()]).unwrap();
        assert_eq!(host, Route { to: Some([10, 0, 0, 7].into()), out_by: vec![4] });
        assert_eq!(route(32, libc::RTN_LOCAL, &[by_four]), None);
        let mut hops = Vec::new();
        for interface in [4_u32, 6] {
            hops.extend([16_u16.to_ne_bytes(), [0, 0]].concat());
            hops.extend(interface.to_ne_bytes());
            hops.extend(attribute(5, &[10, 0, 0, 1]));
        }
        let several = route(0, 1, &[attribute(RTA_MULTIPATH, &hops)]).unwrap();
        assert_eq!(several, Route { to: None, out_by: vec![4, 6] });
    }

    proptest! {
        #[test]
        fn whatever_comes_there_is_an_end(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(messages(&bytes).count() <= bytes.len() / HEADER);
            prop_assert!(attributes(&bytes).count() <= bytes.len() / 4);
            prop_assert!(hops(&bytes).count() <= bytes.len());
            let _ = (Described::read(&bytes), Address::read(&bytes), Route::read(&bytes));
            let _ = (further_address(&bytes), inspected(&bytes));
        }
    }
}
