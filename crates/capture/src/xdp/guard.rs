//! Whether the host uses an interface, and so whether its packets may be taken away.

use std::fmt;
use std::net::IpAddr;

mod ask;
mod message;

use crate::link::Link;
use crate::tap::TapError;
use message::{Address, Described, Route};

/// How the host uses an interface.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Use {
    /// It is the loopback interface.
    Loopback,
    /// It has this address. (The link-local one that IPv6 gives every interface does not count.)
    Address(IpAddr),
    /// A default route goes out by it.
    DefaultRoute,
    /// It is a port of this bridge, bond, team or switch.
    PortOf(String),
    /// This interface stands on it: a VLAN, a macvlan, a tunnel.
    Below(String),
}

impl fmt::Display for Use {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Use::Loopback => f.write_str("it is the loopback interface"),
            Use::Address(address) => write!(f, "it has the address {address}"),
            Use::DefaultRoute => f.write_str("a default route goes out by it"),
            Use::PortOf(name) => write!(f, "it is a port of {name}"),
            Use::Below(name) => write!(f, "{name} stands on it"),
        }
    }
}

/// How the host uses the interface, by what rtnetlink says in this thread's network namespace. Empty:
/// not at all. (Raw sockets of other programs do not show.)
///
/// # Errors
/// Where there is no such interface, or the kernel does not tell.
pub fn uses(interface: &str) -> Result<Vec<Use>, TapError> {
    let link = Link::named(interface).map_err(doubt(interface))?;
    of(&link)
}

fn of(link: &Link) -> Result<Vec<Use>, TapError> {
    let mut found = Found::default();
    for question in [libc::RTM_GETLINK, libc::RTM_GETADDR, libc::RTM_GETROUTE] {
        ask::dump(question, &mut |kind, body| found.note(link, kind, body))
            .map_err(doubt(&link.name))?;
    }
    Ok(found.uses(link))
}

/// Refuses an interface that the host uses, unless that is meant.
pub(super) fn check(link: &Link, take: bool) -> Result<(), TapError> {
    if take {
        return Ok(());
    }
    let uses = of(link)?;
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
}

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
                self.default_route |= Route::read(body)
                    .is_some_and(|route| route.is_default && route.out_by.contains(&link.index));
            }
            _ => {}
        }
    }

    fn link(&mut self, link: &Link, described: Option<Described>) {
        let Some(Described { index, name, master, lower, is_elsewhere, kind }) = described else {
            return;
        };
        if index == link.index {
            self.master = master;
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
        uses.extend(master.map(Use::PortOf));
        uses.extend(self.above.into_iter().map(Use::Below));
        uses
    }
}

/// Whether every interface with IPv6 has such an address without anybody's doing.
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
    fn the_automatic_address_is_no_use() {
        assert!(is_automatic(&"fe80::1".parse().unwrap()));
        assert!(!is_automatic(&"2001:db8::1".parse().unwrap()));
        assert!(!is_automatic(&"169.254.1.1".parse().unwrap()));
    }
}
