//! Socket addresses as the kernel has them.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

/// A `sockaddr_in` or `sockaddr_in6`.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(8))]
pub struct Name {
    bytes: [u8; 28],
    /// How many of the bytes belong to the address.
    pub len: libc::socklen_t,
}

impl Name {
    /// Room for either.
    #[must_use]
    pub fn room() -> Name {
        Name { bytes: [0; 28], len: 28 }
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

    /// The address in it, if it is complete and of a known family.
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
            _ => None,
        }
    }
}

impl From<&SocketAddr> for Name {
    fn from(address: &SocketAddr) -> Name {
        let family = if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 } as u16;
        let mut name = Name { bytes: [0; 28], len: 0 };
        let mut put = |field: &[u8]| {
            let start = name.len as usize;
            let end = start + field.len();
            if let Some(room) = name.bytes.get_mut(start..end) {
                room.copy_from_slice(field);
                name.len = end as u32;
            }
        };
        put(&family.to_ne_bytes());
        put(&address.port().to_be_bytes());
        match address {
            SocketAddr::V4(v4) => {
                put(&v4.ip().octets());
                put(&[0; 8]);
            }
            SocketAddr::V6(v6) => {
                put(&v6.flowinfo().to_be_bytes());
                put(&v6.ip().octets());
                put(&v6.scope_id().to_ne_bytes());
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
    }
}
