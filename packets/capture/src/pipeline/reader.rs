//! Check that somebody still reads what is written.

use std::os::fd::BorrowedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// True if the other end of a pipe or socket has been closed. Writing would tell, but while no
/// packets come there is nothing to write. Never of a file.
#[must_use]
pub fn is_unread(output: BorrowedFd<'_>) -> bool {
    // What is asked for is told whether it is asked for or not.
    let mut polled = [PollFd::from_borrowed_fd(output, PollFlags::empty())];
    let ready = poll(&mut polled, Some(&Timespec::default()));
    let gone = PollFlags::ERR | PollFlags::HUP;
    ready.is_ok() && polled.iter().any(|polled| polled.revents().intersects(gone))
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
