//! Waiting for packets on several sockets: the only unsafe code of this program.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::RawFd;
use std::time::Duration;

/// Waits until there is something to read on one of these sockets, for `patience` at most; a signal
/// ends it early. Which have something.
pub fn readable<const N: usize>(sockets: [RawFd; N], patience: Duration) -> io::Result<[bool; N]> {
    let mut fds = sockets.map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 });
    let timeout = libc::timespec {
        tv_sec: patience.as_secs().try_into().unwrap_or(libc::time_t::MAX),
        tv_nsec: patience.subsec_nanos().into(),
    };
    // SAFETY: pointer and length are those of an array of `pollfd`, and the timeout that of a
    // `timespec`, which outlive the call; without a mask of signals none is read.
    let n = unsafe {
        libc::ppoll(fds.as_mut_ptr(), N as libc::nfds_t, &raw const timeout, std::ptr::null())
    };
    if n < 0 {
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
        return Ok([false; N]);
    }
    if fds.iter().any(|polled| polled.revents & libc::POLLNVAL != 0) {
        return Err(io::Error::other("a socket is gone"));
    }
    Ok(fds.map(|polled| polled.revents != 0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::os::fd::AsRawFd;

    #[test]
    fn it_says_which_has_something() {
        let [one, two] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
        let fds = [one.as_raw_fd(), two.as_raw_fd()];
        assert_eq!(readable(fds, Duration::from_millis(1)).unwrap(), [false, false]);
        one.send_to(b"x", two.local_addr().unwrap()).unwrap();
        assert_eq!(readable(fds, Duration::from_secs(10)).unwrap(), [false, true]);
    }
}
