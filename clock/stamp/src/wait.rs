//! Waiting for packets.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// Events on a descriptor.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Ready {
    /// Something to receive.
    pub readable: bool,
    /// Something in the error queue, or an end.
    pub errors: bool,
}

/// Waits until there is something on any of these, for `patience` at most, and says what on each; a
/// signal ends it early.
///
/// # Errors
/// As ppoll(2).
pub fn any<'f>(
    fds: impl IntoIterator<Item = BorrowedFd<'f>>,
    ready: &mut [Ready],
    patience: Duration,
) -> io::Result<()> {
    let mut polled: Vec<_> =
        fds.into_iter().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
    ready.fill(Ready::default());
    wait(&mut polled, patience)?;
    for (ready, polled) in ready.iter_mut().zip(&polled) {
        let came = polled.revents();
        *ready = Ready {
            readable: came.contains(PollFlags::IN),
            errors: came.intersects(PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL),
        };
    }
    Ok(())
}

/// Waits until there is something to read on `fd`, be it an error, for `patience` at most; a
/// signal ends it early. Whether there is something.
///
/// # Errors
/// As ppoll(2).
pub fn readable(fd: impl AsFd, patience: Duration) -> io::Result<bool> {
    wait(&mut [PollFd::new(&fd, PollFlags::IN)], patience)
}

fn wait(fds: &mut [PollFd<'_>], patience: Duration) -> io::Result<bool> {
    let limit = Timespec::try_from(patience).unwrap_or(Timespec { tv_sec: i64::MAX, tv_nsec: 0 });
    match poll(fds, Some(&limit)) {
        Err(Errno::INTR) => Ok(false),
        came => Ok(came? > 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    #[test]
    fn it_ends_with_a_packet_or_with_patience() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        assert!(!readable(&socket, Duration::from_millis(1)).unwrap());
        socket.send_to(b"x", socket.local_addr().unwrap()).unwrap();
        assert!(readable(&socket, Duration::from_secs(10)).unwrap());
        assert!(readable(&socket, Duration::MAX).unwrap());
    }

    #[test]
    fn it_says_which_has_something() {
        let [one, two] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
        let mut ready = [Ready { readable: true, errors: true }; 2];
        let fds = || [one.as_fd(), two.as_fd()];
        any(fds(), &mut ready, Duration::from_millis(1)).unwrap();
        assert_eq!(ready, [Ready::default(); 2]);
        one.send_to(b"x", two.local_addr().unwrap()).unwrap();
        any(fds(), &mut ready, Duration::from_secs(10)).unwrap();
        assert_eq!(ready, [Ready::default(), Ready { readable: true, errors: false }]);
    }
}
