//! The system calls, through libc, with everything unsafe about them kept inside.
//!
//! Sockets are opened plainly and get their flags afterwards, one iovec is used, and the control
//! buffer is generous: clock simulators that stand in for libc ask for that.
#![allow(unsafe_code)]

use std::io;
use std::mem;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Room for control messages, aligned as their headers must be.
#[repr(C, align(8))]
pub(crate) struct ControlBuffer(pub [u8; 512]);

/// What came back from one `recvmsg`.
pub(crate) struct Message {
    /// The datagram's own length, which may be more than the buffer had room for.
    pub size: usize,
    /// From whom; in the error queue, to whom it had been sent.
    pub address: Option<SocketAddr>,
    /// How many bytes of control messages there are.
    pub control: usize,
}

/// A UDP socket of the same family as `address`: closed on exec and never blocking.
pub(crate) fn udp_socket(address: &SocketAddr) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    // SAFETY: no pointers; the descriptor is new and ours alone.
    let fd = unsafe {
        let fd = libc::socket(family, libc::SOCK_DGRAM, 0);
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        OwnedFd::from_raw_fd(fd)
    };
    // SAFETY: no pointers.
    let flags = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GETFL) };
    for (command, value) in
        [(libc::F_SETFD, libc::FD_CLOEXEC), (libc::F_SETFL, flags.max(0) | libc::O_NONBLOCK)]
    {
        // SAFETY: no pointers.
        check(unsafe { libc::fcntl(fd.as_raw_fd(), command, value) } as isize)?;
    }
    Ok(fd)
}

/// Binds the socket.
pub(crate) fn bind(fd: BorrowedFd<'_>, address: &SocketAddr) -> io::Result<()> {
    let name = Name::from(address);
    // SAFETY: `name` holds `name.len` valid bytes for the duration of the call.
    let result = unsafe { libc::bind(fd.as_raw_fd(), name.as_ptr(), name.len) };
    check(result as isize).map(drop)
}

/// The address that the socket is bound to.
pub(crate) fn local_address(fd: BorrowedFd<'_>) -> io::Result<SocketAddr> {
    let mut name = Name::room();
    // SAFETY: `name` has room for `name.len` bytes, and the kernel writes no more.
    let result = unsafe { libc::getsockname(fd.as_raw_fd(), name.as_mut_ptr(), &mut name.len) };
    check(result as isize)?;
    name.address().ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Sets a socket option that is an `int`.
pub(crate) fn set_option(fd: BorrowedFd<'_>, level: i32, name: i32, value: i32) -> io::Result<()> {
    let pointer: *const i32 = &value;
    // SAFETY: the option value is one valid int.
    let result = unsafe {
        libc::setsockopt(fd.as_raw_fd(), level, name, pointer.cast(), size_of::<i32>() as u32)
    };
    check(result as isize).map(drop)
}

/// Takes the socket's pending error, if there is one (and leaves none).
pub(crate) fn take_error(fd: BorrowedFd<'_>) -> Option<i32> {
    let (mut errno, mut len) = (0i32, size_of::<i32>() as u32);
    let pointer: *mut i32 = &mut errno;
    // SAFETY: there is room for one int, and `len` says so.
    let result = unsafe {
        libc::getsockopt(fd.as_raw_fd(), libc::SOL_SOCKET, libc::SO_ERROR, pointer.cast(), &mut len)
    };
    (result == 0 && errno != 0).then_some(errno)
}

/// Sends one datagram.
pub(crate) fn send_to(fd: BorrowedFd<'_>, bytes: &[u8], to: &SocketAddr) -> io::Result<()> {
    let name = Name::from(to);
    // SAFETY: `bytes` and `name` are valid for their lengths for the duration of the call.
    let result = unsafe {
        libc::sendto(
            fd.as_raw_fd(),
            bytes.as_ptr().cast(),
            bytes.len(),
            libc::MSG_NOSIGNAL,
            name.as_ptr(),
            name.len,
        )
    };
    check(result).map(drop)
}

/// Receives one datagram, from the error queue if `flags` say so.
pub(crate) fn receive(
    fd: BorrowedFd<'_>,
    bytes: &mut [u8],
    control: &mut ControlBuffer,
    flags: i32,
) -> io::Result<Message> {
    let mut name = Name::room();
    let mut iovec = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    // SAFETY: a msghdr of zeroes is a valid one without buffers (some libcs have private fields).
    let mut header: libc::msghdr = unsafe { mem::zeroed() };
    header.msg_name = name.as_mut_ptr().cast();
    header.msg_namelen = name.len;
    header.msg_iov = &mut iovec;
    header.msg_iovlen = 1;
    header.msg_control = control.0.as_mut_ptr().cast();
    header.msg_controllen = control.0.len() as _;
    // SAFETY: `header` points to a name, one iovec and a control buffer, each valid for the length
    // beside it and borrowed mutably for the duration of the call.
    let size = check(unsafe { libc::recvmsg(fd.as_raw_fd(), &mut header, flags) })?;
    name.len = header.msg_namelen;
    Ok(Message { size, address: name.address(), control: header.msg_controllen as usize })
}

/// A negative result means that errno says why.
fn check(result: isize) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

/// A `sockaddr_in` or `sockaddr_in6`.
#[repr(C, align(8))]
struct Name {
    bytes: [u8; 28],
    len: libc::socklen_t,
}

impl Name {
    /// Room for either.
    fn room() -> Name {
        Name { bytes: [0; 28], len: 28 }
    }

    fn as_ptr(&self) -> *const libc::sockaddr {
        self.bytes.as_ptr().cast()
    }

    fn as_mut_ptr(&mut self) -> *mut libc::sockaddr {
        self.bytes.as_mut_ptr().cast()
    }

    /// The address in it, if it is complete and of a known family.
    fn address(&self) -> Option<SocketAddr> {
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
