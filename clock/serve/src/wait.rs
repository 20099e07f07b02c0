//! Waiting for a packet: the only unsafe code of this crate.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::RawFd;
use std::time::Duration;

/// Waits until there is something to read on `fd`, be it an error, for `patience` at most; a
/// signal ends it early. Whether there is something.
pub(crate) fn readable(fd: RawFd, patience: Duration) -> io::Result<bool> {
    let mut fds = [libc::pollfd { fd, events: libc::POLLIN, revents: 0 }];
    let timeout = i32::try_from(patience.as_millis()).unwrap_or(i32::MAX);
    // SAFETY: pointer and length are those of an array of `pollfd` that outlives the call.
    let n = unsafe { libc::poll(fds.as_mut_ptr(), 1, timeout) };
    match (n, fds) {
        (0, _) => Ok(false),
        (1, [polled]) if polled.revents & libc::POLLNVAL == 0 => Ok(true),
        (1, _) => Err(io::Error::other("the socket is gone")),
        _ => match io::Error::last_os_error() {
            error if error.kind() == io::ErrorKind::Interrupted => Ok(false),
            error => Err(error),
        },
    }
}

/// What there is on a descriptor.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Ready {
    /// Something to receive.
    pub readable: bool,
    /// Something in the error queue.
    pub errors: bool,
}

/// Waits until there is something on any of `fds`, for `patience` at most, and says what on each.
pub(crate) fn any(fds: &[RawFd], ready: &mut [Ready], patience: Duration) -> io::Result<()> {
    let mut polled: Vec<_> =
        fds.iter().map(|&fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 }).collect();
    let timeout = i32::try_from(patience.as_millis()).unwrap_or(i32::MAX);
    // SAFETY: pointer and length are those of a vector of `pollfd` that outlives the call.
    let n = unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, timeout) };
    if n < 0 {
        let error = io::Error::last_os_error();
        ready.fill(Ready::default());
        return if error.kind() == io::ErrorKind::Interrupted { Ok(()) } else { Err(error) };
    }
    for (ready, polled) in ready.iter_mut().zip(&polled) {
        if polled.revents & libc::POLLNVAL != 0 {
            return Err(io::Error::other("a socket is gone"));
        }
        let (readable, errors) =
            (polled.revents & libc::POLLIN != 0, polled.revents & libc::POLLERR != 0);
        *ready = Ready { readable, errors };
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::os::fd::AsRawFd;

    #[test]
    fn it_ends_with_a_packet_or_with_patience() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        assert!(!readable(socket.as_raw_fd(), Duration::from_millis(1)).unwrap());
        socket.send_to(b"x", socket.local_addr().unwrap()).unwrap();
        assert!(readable(socket.as_raw_fd(), Duration::from_secs(10)).unwrap());
        assert!(readable(-1, Duration::from_millis(1)).is_ok_and(|ready| !ready));
    }
}
