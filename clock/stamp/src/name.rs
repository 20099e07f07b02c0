//! Socket addresses as the kernel has them.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

/// A `sockaddr_in`, `sockaddr_in6` or `sockaddr_ll`.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(8))]
pub struct Name {
    bytes: [u8; 28],
    /// Number of bytes that belong to the address.
    pub len: libc::socklen_t,
}

impl Name {
    /// Room for any.
    #[must_use]
    pub fn room() -> Name {
        Name { bytes: [0; 28], len: 28 }
    }

    /// A hardware address on the interface with this number, for frames of this type.
    #[must_use]
    pub fn ethernet(interface: i32, address: &[u8; 6], ethertype: u16) -> Name {
        let mut name = Name { bytes: [0; 28], len: 0 };
        name.put(&(libc::AF_PACKET as u16).to_ne_bytes());
        name.put(&ethertype.to_be_bytes());
        name.put(&interface.to_ne_bytes());
        // Kind of hardware and kind of packet, which the kernel alone fills in; the address's length.
        name.put(&[0, 0, 0, 6]);
        name.put(address);
        name.put(&[0; 2]);
        name
    }

    /// Adds a field.
    fn put(&mut self, field: &[u8]) {
        let start = self.len as usize;
        let end = start + field.len();
        if let Some(room) = self.bytes.get_mut(start..end) {
            room.copy_from_slice(field);
            self.len = end as u32;
        }
    }

    /// Where it begins: `len` bytes are valid.
    #[must_use]
    pub fn as_ptr(&self) -> *const libc::sockaddr {
        self.bytes.as_ptr().cast()
    }

    /// Pointer to be written to: there is room for as much as [`Name::room`] says.
    #[must_use]
    pub fn as_mut_ptr(&mut self) -> *mut libc::sockaddr {
        self.bytes.as_mut_ptr().cast()
    }

    /// The address in it, if it is complete and of a known family. A hardware address of Ethernet is shown
    /// as the link-local address of IPv6 that is made of it (RFC 4291, appendix A).
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        let bytes = self.bytes.get(..self.len as usize)?;
        let (family, rest) = bytes.split_first_chunk::<2>()?;
        let (port, rest) = rest.split_first_chunk::<2>()?;
        let port = u16::from_be_bytes(*port);
        match i32::from(u16::from_ne_bytes(*family)) {
            libc::AF_INET => {
                let ip = Ipv4Addr::from(*rest.first_chunk::<4>()?);
                Some(SocketAddrV4::new(ip, port).into())
            }
            libc::AF_INET6 => {
                let (flow, rest) = rest.split_first_chunk::<4>()?;
                let (ip, rest) = rest.split_first_chunk::<16>()?;
                let scope = u32::from_ne_bytes(*rest.first_chunk::<4>()?);
                let ip = Ipv6Addr::from(*ip);
                Some(SocketAddrV6::new(ip, port, u32::from_be_bytes(*flow), scope).into())
            }
            libc::AF_PACKET => {
                let (interface, rest) = rest.split_first_chunk::<4>()?;
                // Kind of hardware, kind of packet, length of the address.
                let [_, _, _, 6] = *rest.first_chunk::<4>()? else { return None };
                let ip = link_local(*rest.get(4..)?.first_chunk::<6>()?);
                Some(SocketAddrV6::new(ip, 0, 0, u32::from_ne_bytes(*interface)).into())
            }
            _ => None,
        }
    }
}

/// The link-local address of an interface with that hardware address (RFC 4291, appendix A).
fn link_local([a, b, c, d, e, f]: [u8; 6]) -> Ipv6Addr {
    let pair = |high, low| u16::from_be_bytes([high, low]);
    Ipv6Addr::new(0xfe80, 0, 0, 0, pair(a ^ 2, b), pair(c, 0xff), pair(0xfe, d), pair(e, f))
}

impl From<&SocketAddr> for Name {
    fn from(address: &SocketAddr) -> Name {
        let family = if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 } as u16;
        let mut name = Name { bytes: [0; 28], len: 0 };
        name.put(&family.to_ne_bytes());
        name.put(&address.port().to_be_bytes());
        match address {
            SocketAddr::V4(v4) => {
                name.put(&v4.ip().octets());
                name.put(&[0; 8]);
            }
            SocketAddr::V6(v6) => {
                name.put(&v6.flowinfo().to_be_bytes());
                name.put(&v6.ip().octets());
                name.put(&v6.scope_id().to_ne_bytes());
            }
        }
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_survive_the_way_there_and_back() {
        for text in ["127.0.0.1:123", "255.1.2.3:65535", "[::1]:123", "[fe80::1%7]:4123"] {
            let address: SocketAddr = text.parse().unwrap();
            assert_eq!(Name::from(&address).address(), Some(address), "{text}");
        }
        let card = Name::ethernet(7, &[0x02, 0x11, 0x22, 0x33, 0x44, 0x55], 0x88f7);
        assert_eq!(card.address(), "[fe80::11:22ff:fe33:4455%7]:0".parse().ok());
        let odd = Name { len: 17, ..card };
        assert_eq!(odd.address(), None);
        assert_eq!(Name::room().address(), None);
        let mut short = Name::from(&"[::1]:123".parse().unwrap());
        short.len = 27;
        assert_eq!(short.address(), None);
        short.len = u32::MAX;
        assert_eq!(short.address(), None);
    }

    #[test]
    fn the_layout_is_libcs() {
        assert_eq!(
            size_of::<libc::sockaddr_in>(),
            Name::from(&"1.2.3.4:5".parse().unwrap()).len as usize
        );
        assert_eq!(
            size_of::<libc::sockaddr_in6>(),
            Name::from(&"[::1]:5".parse().unwrap()).len as usize
        );
        assert_eq!(size_of::<libc::sockaddr_ll>(), Name::ethernet(1, &[0; 6], 2).len as usize);
    }
}
