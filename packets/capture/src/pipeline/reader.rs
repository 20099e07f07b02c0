//! Whether somebody still reads what is written.
#![allow(unsafe_code)]

use std::os::fd::{AsRawFd, BorrowedFd};

/// Whether the other end of a pipe or socket has been closed. Writing would tell, but while no
/// packets come there is nothing to write. Never of a file.
#[must_use]
pub fn is_unread(output: BorrowedFd<'_>) -> bool {
    // What is asked for is told whether it is asked for or not.
    let mut poll = libc::pollfd { fd: output.as_raw_fd(), events: 0, revents: 0 };
    // SAFETY: one element, and it returns at once.
    let ready = unsafe { libc::poll(&raw mut poll, 1, 0) };
    ready == 1 && poll.revents & (libc::POLLERR | libc::POLLHUP) != 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn a_pipe_is_unread_once_its_other_end_is_closed() {
        let (reader, writer) = std::io::pipe().unwrap();
        assert!(!is_unread(writer.as_fd()));
        drop(reader);
        assert!(is_unread(writer.as_fd()));
        let file = std::fs::File::open("/dev/null").unwrap();
        assert!(!is_unread(file.as_fd()));
    }
}
