//! Groups of receivers on one network interface, as PTP has them.

use std::ffi::CString;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::BorrowedFd;

use crate::name::Name;
use crate::sys;

/// A group of receivers, and what carries datagrams to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Group {
    /// A group of IPv4 or IPv6, and a port of UDP; the unspecified address: none, for datagrams to our own
    /// addresses alone.
    Udp(SocketAddr),
    /// A group of Ethernet, and the frames' type.
    Ethernet {
        /// Hardware address of the group.
        address: [u8; 6],
        /// The number that says what is in a frame (IEEE 802 numbers).
        ethertype: u16,
    },
}

impl Group {
    /// The group on that interface, to send to.
    ///
    /// # Errors
    /// `ENODEV` if there is no such interface.
    pub fn on(&self, interface: &str) -> io::Result<Name> {
        match self {
            Group::Udp(group) => Ok(group.into()),
            Group::Ethernet { address, ethertype } => {
                Ok(Name::ethernet(index(interface)?, address, *ethertype))
            }
        }
    }

    /// An address for a socket to be bound to, that hears all groups of this kind and port.
    pub(crate) fn everywhere(&self, interface: &str) -> io::Result<Name> {
        Ok(match self {
            Group::Udp(SocketAddr::V4(group)) => {
                (&SocketAddr::from((Ipv4Addr::UNSPECIFIED, group.port()))).into()
            }
            Group::Udp(SocketAddr::V6(group)) => {
                (&SocketAddr::from((Ipv6Addr::UNSPECIFIED, group.port()))).into()
            }
            Group::Ethernet { ethertype, .. } => {
                Name::ethernet(index(interface)?, &[0; 6], *ethertype)
            }
        })
    }

    /// Keeps a socket to the interface: nothing that it sends to a group comes back to this host or passes a router.
    pub(crate) fn confine(&self, fd: BorrowedFd<'_>, interface: &str) -> io::Result<()> {
        let Group::Udp(group) = self else { return Ok(()) };
        sys::set_option(fd, libc::SOL_SOCKET, libc::SO_REUSEADDR, 1)?;
        bind_to_device(fd, interface)?;
        if let SocketAddr::V4(group) = group {
            let level = libc::IPPROTO_IP;
            let member = member(interface, *group.ip())?;
            sys::set_option_bytes(fd, level, libc::IP_MULTICAST_IF, &member)?;
            sys::set_option(fd, level, libc::IP_MULTICAST_TTL, 1)?;
            sys::set_option(fd, level, libc::IP_MULTICAST_LOOP, 0)
        } else {
            let level = libc::IPPROTO_IPV6;
            // The port of IPv4 may be another socket's.
            sys::set_option(fd, level, libc::IPV6_V6ONLY, 1)?;
            sys::set_option(fd, level, libc::IPV6_MULTICAST_IF, index(interface)?)?;
            sys::set_option(fd, level, libc::IPV6_MULTICAST_HOPS, 1)?;
            sys::set_option(fd, level, libc::IPV6_MULTICAST_LOOP, 0)
        }
    }

    /// Has a socket hear what is sent to the group.
    pub(crate) fn join(&self, fd: BorrowedFd<'_>, interface: &str) -> io::Result<()> {
        match self {
            Group::Udp(none) if none.ip().is_unspecified() => Ok(()),
            Group::Udp(SocketAddr::V4(group)) => {
                let member = member(interface, *group.ip())?;
                sys::set_option_bytes(fd, libc::IPPROTO_IP, libc::IP_ADD_MEMBERSHIP, &member)
            }
            Group::Udp(SocketAddr::V6(group)) => {
                let index = index(interface)?.to_ne_bytes();
                let member = [group.ip().octets().as_slice(), &index].concat();
                sys::set_option_bytes(fd, libc::IPPROTO_IPV6, libc::IPV6_ADD_MEMBERSHIP, &member)
            }
            Group::Ethernet { address, .. } => {
                let index = index(interface)?.to_ne_bytes();
                let kind = (libc::PACKET_MR_MULTICAST as u16).to_ne_bytes();
                let length = 6_u16.to_ne_bytes();
                let member = [&index, &kind[..], &length, address, &[0; 2]].concat();
                sys::set_option_bytes(fd, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &member)
            }
        }
    }
}

/// A `struct ip_mreqn`: group, any address, interface.
fn member(interface: &str, group: Ipv4Addr) -> io::Result<[u8; 12]> {
    let [a, b, c, d] = group.octets();
    let [i, j, k, l] = index(interface)?.to_ne_bytes();
    Ok([a, b, c, d, 0, 0, 0, 0, i, j, k, l])
}

/// Has a socket send and hear by this interface alone.
///
/// # Errors
/// `ENODEV` if there is none, `EPERM` on Linux before 5.7 without `CAP_NET_RAW`.
pub fn bind_to_device(fd: BorrowedFd<'_>, interface: &str) -> io::Result<()> {
    sys::set_option_bytes(fd, libc::SOL_SOCKET, libc::SO_BINDTODEVICE, interface.as_bytes())
}

/// Number of an interface.
fn index(interface: &str) -> io::Result<i32> {
    let name = CString::new(interface).map_err(|_| io::ErrorKind::InvalidInput)?;
    sys::interface_index(&name)
}
