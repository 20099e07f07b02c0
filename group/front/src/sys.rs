//! poll(2), and connections whose port is known before they are made.
#![allow(unsafe_code)]

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
#[cfg(test)]
use std::os::fd::AsRawFd;
use std::os::fd::{FromRawFd, RawFd};
use std::time::Duration;

/// What is waited for, and what came.
#[derive(Debug, Default)]
pub struct Poll {
    set: Vec<libc::pollfd>,
}

impl Poll {
    /// Nothing.
    pub fn clear(&mut self) {
        self.set.clear();
    }

    /// Waits for this descriptor too. Returns where [`Poll::came`] has its answer.
    pub fn add(&mut self, fd: RawFd, read: bool, write: bool) -> usize {
        let events = if read { libc::POLLIN } else { 0 } | if write { libc::POLLOUT } else { 0 };
        self.set.push(libc::pollfd { fd, events, revents: 0 });
        self.set.len() - 1
    }

    /// Waits at most so long. A signal ends it early.
    pub fn wait(&mut self, patience: Duration) {
        let patience = patience.as_micros().div_ceil(1000).min(60_000) as libc::c_int;
        let count = self.set.len() as libc::nfds_t;
        // SAFETY: as many entries as the vector has, for the time of the call.
        let some = unsafe { libc::poll(self.set.as_mut_ptr(), count, patience) };
        if some <= 0 {
            self.set.iter_mut().for_each(|entry| entry.revents = 0);
        }
    }

    /// Whether anything came for that one (data, room, an end or an error).
    pub fn came(&self, at: usize) -> bool {
        self.set.get(at).is_some_and(|entry| entry.revents != 0)
    }
}

/// CLOCK_MONOTONIC, ns.
pub fn monotonic_ns() -> i64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a place for the answer.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    now.tv_sec.saturating_mul(1_000_000_000).saturating_add(now.tv_nsec)
}

/// Connects to a program on this host. `ready` is told our port before the other side can see it.
///
/// # Errors
/// What the system says.
pub fn connect(to: SocketAddr, ready: impl FnOnce(u16)) -> io::Result<TcpStream> {
    let family = if to.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    // SAFETY: no memory of ours.
    let fd = unsafe { libc::socket(family, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a new descriptor that nobody else has.
    let stream = unsafe { TcpStream::from_raw_fd(fd) };
    let any: IpAddr =
        if to.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let from = if to.ip().is_loopback() { to.ip() } else { any };
    let (from, length) = address(SocketAddr::new(from, 0));
    // SAFETY: an address of that length that outlives the call.
    if unsafe { libc::bind(fd, (&raw const from).cast(), length) } != 0 {
        return Err(io::Error::last_os_error());
    }
    ready(stream.local_addr()?.port());
    let (to, length) = address(to);
    // SAFETY: as above.
    if unsafe { libc::connect(fd, (&raw const to).cast(), length) } != 0 {
        return Err(io::Error::last_os_error());
    }
    stream.set_nodelay(true)?;
    stream.set_nonblocking(true)?;
    Ok(stream)
}

/// An address in the kernel's form. All members of the union's structures are plain numbers.
fn address(of: SocketAddr) -> (libc::sockaddr_storage, libc::socklen_t) {
    // SAFETY: all zeros is a valid value of this structure of numbers.
    let mut storage: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
    let length = match of {
        SocketAddr::V4(of) => {
            let address = libc::sockaddr_in {
                sin_family: libc::AF_INET as libc::sa_family_t,
                sin_port: of.port().to_be(),
                sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(of.ip().octets()) },
                sin_zero: [0; 8],
            };
            // SAFETY: the storage is larger than, and aligned for, every kind of address.
            unsafe { (&raw mut storage).cast::<libc::sockaddr_in>().write(address) };
            size_of::<libc::sockaddr_in>()
        }
        SocketAddr::V6(of) => {
            let address = libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as libc::sa_family_t,
                sin6_port: of.port().to_be(),
                sin6_flowinfo: 0,
                sin6_addr: libc::in6_addr { s6_addr: of.ip().octets() },
                sin6_scope_id: of.scope_id(),
            };
            // SAFETY: as above.
            unsafe { (&raw mut storage).cast::<libc::sockaddr_in6>().write(address) };
            size_of::<libc::sockaddr_in6>()
        }
    };
    (storage, length as libc::socklen_t)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpListener;

    #[test]
    fn the_port_is_known_before_the_connection() {
        for any in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(any) else { continue };
            let mut port = 0;
            let mut stream = connect(listener.local_addr().unwrap(), |ours| port = ours).unwrap();
            let (mut accepted, peer) = listener.accept().unwrap();
            assert_eq!(peer.port(), port);
            stream.write_all(b"x").unwrap();
            let mut byte = [0];
            accepted.read_exact(&mut byte).unwrap();
            drop(listener);
            let mut poll = Poll::default();
            let at = poll.add(stream.as_raw_fd(), true, false);
            poll.wait(Duration::ZERO);
            assert!(!poll.came(at));
            drop(accepted);
            poll.wait(Duration::from_secs(60));
            assert!(poll.came(at));
        }
    }

    #[test]
    fn nobody_there() {
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let refused = connect(address, |_| {}).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
    }
}
