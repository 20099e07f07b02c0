//! Uses of an interface by the host, and so whether its packets may be taken away.

use std::fmt;
use std::net::IpAddr;

mod ask;
mod message;

use super::rights;
use crate::link::Link;
use crate::tap::TapError;
use message::{Address, Described, Route};

/// Use of an interface by the host.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Use {
    /// Loopback interface.
    Loopback,
    /// Has this address. (The link-local one that IPv6 gives every interface does not count.)
    Address(IpAddr),
    /// A default route goes out by it.
    DefaultRoute,
    /// A route to this destination goes out by it. (IPv6's link-local and multicast ones do not
    /// count.)
    Route(IpAddr),
    /// Number of packet sockets that listen on it: DHCP, LLDP, another capture.
    PacketSockets(usize),
    /// Port of this bridge, bond, team or switch.
    PortOf(String),
    /// This interface stands on it: a VLAN, a macvlan, a tunnel.
    Below(String),
    /// Programs of tc look at what arrives, and may send it elsewhere.
    Inspected,
    /// Number of further addresses of the link layer to which it listens: somebody stands on it who
    /// does not show, like a container's macvlan.
    FurtherAddresses(usize),
}

impl fmt::Display for Use {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Use::Loopback => f.write_str("it is the loopback interface"),
            Use::Address(address) => write!(f, "it has the address {address}"),
            Use::DefaultRoute => f.write_str("a default route goes out by it"),
            Use::Route(to) => write!(f, "a route to {to} goes out by it"),
            Use::PacketSockets(1) => {
                f.write_str("a packet socket of another program listens on it")
            }
            Use::PacketSockets(count) => write!(f, "{count} packet sockets listen on it"),
            Use::PortOf(name) => write!(f, "it is a port of {name}"),
            Use::Below(name) => write!(f, "{name} stands on it"),
            Use::Inspected => f.write_str("programs of tc look at what arrives by it"),
            Use::FurtherAddresses(count) => {
                write!(
                    f,
                    "it listens to {count} further MAC addresses, as for a container's macvlan"
                )
            }
        }
    }
}

/// Uses of the interface by the host, by what the kernel says in this thread's network namespace.
/// Empty: none of these. What does not show: BPF programs that were attached by links (tcx), rules
/// of nftables for a device, and ipvlan interfaces in other network namespaces.
///
/// # Errors
/// Where there is no such interface, or the kernel does not tell.
pub fn uses(interface: &str) -> Result<Vec<Use>, TapError> {
    let link = Link::named(interface).map_err(doubt(interface))?;
    Ok(look(&link)?.uses(&link))
}

/// The uses, and whether there is a device behind the interface.
pub(crate) fn standing(link: &Link) -> Result<(Vec<Use>, bool), TapError> {
    let found = look(link)?;
    let is_physical = found.is_physical;
    Ok((found.uses(link), is_physical))
}

fn look(link: &Link) -> Result<Found, TapError> {
    let mut found = Found { packet_sockets: packet_sockets(link.index), ..Found::default() };
    for question in [libc::RTM_GETLINK, libc::RTM_GETADDR, libc::RTM_GETROUTE] {
        ask::dump(question, &[0; 16], &mut |kind, body| found.note(link, kind, body))
            .map_err(doubt(&link.name))?;
    }
    // Signs that kernels may be built without.
    let (mut bridged, classed) = ([0; 12], [0; 20]);
    bridged[0] = libc::AF_BRIDGE as u8;
    for (question, head) in [(libc::RTM_GETNEIGH, &bridged[..]), (libc::RTM_GETQDISC, &classed)] {
        match ask::dump(question, head, &mut |kind, body| found.note(link, kind, body)) {
            Err(error) if error.raw_os_error() != Some(libc::EOPNOTSUPP) => {
                return Err(doubt(&link.name)(error));
            }
            _ => {}
        }
    }
    Ok(found)
}

/// Number of packet sockets bound to the interface; 0 where that cannot be told.
fn packet_sockets(interface: u32) -> usize {
    let text = std::fs::read_to_string("/proc/thread-self/net/packet").unwrap_or_default();
    bound_to(&text, interface)
}

/// Number of lines of such a list that name the interface, in their fifth column.
fn bound_to(list: &str, interface: u32) -> usize {
    let columns = list.lines().skip(1).filter_map(|line| line.split_whitespace().nth(4));
    columns.filter(|column| column.parse() == Ok(interface)).count()
}

/// Refuses users whose right to take packets is only lent, and an interface that the host uses,
/// unless that is meant.
pub(super) fn check(link: &Link, take: bool) -> Result<(), TapError> {
    rights::check(&link.name)?;
    if take {
        return Ok(());
    }
    let uses = look(link)?.uses(link);
    if uses.is_empty() {
        return Ok(());
    }
    let uses: Vec<String> = uses.iter().map(Use::to_string).collect();
    Err(TapError {
        doing: format!("taking packets off {} by XDP", link.name),
        why: format!("the host uses it, and would get no packets any more: {}", uses.join(", ")),
        mend: Some(
            "let packets pass (`--method xdp-copy` or `packet`), or say that they may be taken \
             (`--take`)"
                .to_owned(),
        ),
    })
}

fn doubt(interface: &str) -> impl Fn(std::io::Error) -> TapError {
    let doing = format!("finding out whether the host uses {interface}");
    move |error| TapError { doing: doing.clone(), why: error.to_string(), mend: None }
}

#[derive(Debug, Default)]
struct Found {
    names: std::collections::BTreeMap<u32, String>,
    master: Option<u32>,
    above: Vec<String>,
    addresses: Vec<IpAddr>,
    default_route: bool,
    routes: Vec<IpAddr>,
    packet_sockets: usize,
    is_physical: bool,
    is_inspected: bool,
    further_addresses: usize,
}

/// More than this many routes are not listed.
const ROUTES: usize = 3;

impl Found {
    fn note(&mut self, link: &Link, kind: u16, body: &[u8]) {
        match kind {
            libc::RTM_NEWLINK => self.link(link, Described::read(body)),
            libc::RTM_NEWADDR => {
                let address = Address::read(body).filter(|address| address.interface == link.index);
                if let Some(Address { ip, .. }) = address
                    && !is_automatic(&ip)
                    && !self.addresses.contains(&ip)
                {
                    self.addresses.push(ip);
                }
            }
            libc::RTM_NEWROUTE => {
                match Route::read(body).filter(|route| route.out_by.contains(&link.index)) {
                    Some(Route { to: None, .. }) => self.default_route = true,
                    Some(Route { to: Some(to), .. })
                        if !is_automatic(&to)
                            && !to.is_multicast()
                            && self.routes.len() < ROUTES =>
                    {
                        self.routes.push(to);
                    }
                    _ => {}
                }
            }
            libc::RTM_NEWNEIGH if message::further_address(body) == Some(link.index) => {
                self.further_addresses += 1;
            }
            libc::RTM_NEWQDISC if message::inspected(body) == Some(link.index) => {
                self.is_inspected = true;
            }
            _ => {}
        }
    }

    fn link(&mut self, link: &Link, described: Option<Described>) {
        let Some(described) = described else { return };
        let Described { index, name, master, lower, is_elsewhere, kind, is_physical } = described;
        if index == link.index {
            (self.master, self.is_physical) = (master, is_physical);
        } else if lower == Some(link.index) && !is_elsewhere && kind.as_deref() != Some("veth") {
            // (The other end of a virtual wire calls this one its lower, but does not stand on it.)
            self.above.push(name.clone());
        }
        self.names.insert(index, name);
    }

    fn uses(self, link: &Link) -> Vec<Use> {
        let master = self.master.map(|index| {
            self.names.get(&index).cloned().unwrap_or_else(|| format!("interface {index}"))
        });
        let mut uses = Vec::new();
        uses.extend(link.is_loopback.then_some(Use::Loopback));
        uses.extend(self.addresses.into_iter().map(Use::Address));
        uses.extend(self.default_route.then_some(Use::DefaultRoute));
        uses.extend(self.routes.into_iter().map(Use::Route));
        let sockets = self.packet_sockets;
        uses.extend((sockets > 0).then_some(Use::PacketSockets(sockets)));
        uses.extend(master.map(Use::PortOf));
        uses.extend(self.above.into_iter().map(Use::Below));
        uses.extend(self.is_inspected.then_some(Use::Inspected));
        // Many of the others bring some with them.
        if uses.is_empty() {
            let further = self.further_addresses;
            uses.extend((further > 0).then_some(Use::FurtherAddresses(further)));
        }
        uses
    }
}

/// True if every interface with IPv6 has such an address without anybody's doing.
fn is_automatic(ip: &IpAddr) -> bool {
    matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_used_and_refused() {
        let link = Link::named("lo").unwrap();
        assert!(uses("lo").unwrap().contains(&Use::Loopback));
        let error = check(&link, false).unwrap_err().to_string();
        assert!(error.contains("loopback") && error.contains("--take"), "{error}");
        assert!(check(&link, true).is_ok());
    }

    #[test]
    fn what_is_not_there_is_an_error() {
        assert!(uses("no-such-link").unwrap_err().to_string().contains("no-such-link"));
    }

    #[test]
    fn packet_sockets_are_counted_by_interface() {
        let list = "sk               RefCnt Type Proto  Iface R Rmem   User   Inode\n\
                    0000000000000000 3      3    0003   2     1 0      0      123\n\
                    0000000000000000 3      3    88cc   12    1 0      0      124\n\
                    0000000000000000 3      3    0003   0     0 0      0      125\n\
                    0000 2\n";
        assert_eq!([2, 12, 1, 0].map(|interface| bound_to(list, interface)), [1, 1, 0, 1]);
    }

    #[test]
    fn the_automatic_address_is_no_use() {
        assert!(is_automatic(&"fe80::1".parse().unwrap()));
        assert!(!is_automatic(&"2001:db8::1".parse().unwrap()));
        assert!(!is_automatic(&"169.254.1.1".parse().unwrap()));
    }
}
