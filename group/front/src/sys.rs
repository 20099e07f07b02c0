//! poll(2), and connections whose port is known before they are made.
#![allow(unsafe_code)]

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
#[cfg(test)]
use std::os::fd::AsRawFd;
use std::os::fd::RawFd;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SocketFlags, SocketType};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};

/// Descriptors that a front may want: far more make programs slow that close all that they may have when they start, as
/// one that a command of this front starts.
const DESCRIPTORS: u64 = 65_536;

/// Descriptors waited for, and what came.
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

    /// True if anything came for that one (data, room, an end or an error).
    pub fn came(&self, at: usize) -> bool {
        self.set.get(at).is_some_and(|entry| entry.revents != 0)
    }
}

/// CLOCK_MONOTONIC, ns.
pub fn monotonic_ns() -> i64 {
    read_clock(ClockId::Monotonic)
}

/// CLOCK_BOOTTIME, which goes on while the host is suspended.
pub fn boot_time() -> Duration {
    Duration::from_nanos(read_clock(ClockId::Boottime).unsigned_abs())
}

/// Nanoseconds by that clock.
fn read_clock(clock: ClockId) -> i64 {
    let now = clock_gettime(clock);
    now.tv_sec.saturating_mul(1_000_000_000).saturating_add(now.tv_nsec)
}

/// Lets this process have more descriptors, if it may. Returns how many it may have then.
pub fn more_descriptors() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let wanted = limit.maximum.unwrap_or(u64::MAX).min(DESCRIPTORS);
    let current = limit.current.unwrap_or(u64::MAX);
    let more = Rlimit { current: Some(wanted), ..limit };
    if current < wanted && setrlimit(Resource::Nofile, more).is_ok() { wanted } else { current }
}

/// A socket that is to be connected to a program on this host, with a port of its own already, so that nothing of it
/// is seen before that is known. Nothing done with it waits.
///
/// # Errors
/// The error that the system says.
pub fn socket(to: SocketAddr) -> io::Result<TcpStream> {
    let family = if to.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = net::socket_with(family, SocketType::STREAM, flags, None)?;
    let any: IpAddr =
        if to.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let from = if to.ip().is_loopback() { to.ip() } else { any };
    net::bind(&socket, &SocketAddr::new(from, 0))?;
    let stream = TcpStream::from(socket);
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Connects a socket, or sees how far that has come: true once it is connected. It is not while the program's queue of
/// connections to accept is full.
///
/// # Errors
/// Errors of the system: nobody listens, say.
pub fn connects(stream: &TcpStream, to: SocketAddr) -> io::Result<bool> {
    match net::connect(stream, &to) {
        Ok(()) | Err(Errno::ISCONN) => Ok(true),
        Err(Errno::INPROGRESS | Errno::ALREADY | Errno::INTR) => Ok(false),
        Err(why) => Err(why.into()),
    }
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
            let to = listener.local_addr().unwrap();
            let mut stream = socket(to).unwrap();
            let port = stream.local_addr().unwrap().port();
            while !connects(&stream, to).unwrap() {}
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
        let stream = socket(address).unwrap();
        let refused = loop {
            if let Err(why) = connects(&stream, address) {
                break why;
            }
        };
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
    }
}
