//! Waiting for descriptors, of which few change from one wait to the next.
//!
//! poll(2) looks each descriptor up, enters itself at each and takes itself off again, on the way
//! of every reading. An epoll(7) set does so once. But the set forgets a descriptor that is closed
//! without a word, and whoever opens another may get the same number. So a set is good for one list
//! under one *edition* alone: the caller has another edition whenever it has opened anything.

use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;

use crate::sys;

/// Descriptors waited for, and the kernel's set of them if there is one.
#[derive(Default)]
pub(crate) struct Waiter {
    /// The list of the last wait, and its edition.
    list: Vec<(i32, i16)>,
    edition: u64,
    set: Option<OwnedFd>,
    /// The kernel has no such sets, or none with a limit in ns.
    without: bool,
}

impl Waiter {
    /// Waits as [`sys::poll`] does: what has happened is in the list then, if not all of it at
    /// once.
    ///
    /// # Errors
    /// As [`sys::poll`].
    pub(crate) fn wait(
        &mut self,
        fds: &mut [libc::pollfd],
        edition: u64,
        timeout_ns: i64,
    ) -> io::Result<()> {
        let same = self.edition == edition
            && self.list.len() == fds.len()
            && self.list.iter().zip(&*fds).all(|(old, new)| *old == (new.fd, new.events));
        if !same {
            // It may be another one next time as well: no set is made for a single wait.
            self.set = None;
            self.edition = edition;
            self.list.clear();
            self.list.extend(fds.iter().map(|one| (one.fd, one.events)));
            return sys::poll(fds, timeout_ns);
        }
        if self.set.is_none() && !self.without {
            match sys::wait_set(fds) {
                Ok(set) => self.set = Some(set),
                // There may be room for one next time.
                Err(why) => {
                    let full = [libc::EMFILE, libc::ENFILE, libc::ENOMEM, libc::ENOSPC];
                    self.without = !why.raw_os_error().is_some_and(|code| full.contains(&code));
                }
            }
        }
        let Some(set) = &self.set else { return sys::poll(fds, timeout_ns) };
        match sys::wait_for_set(set, fds, timeout_ns) {
            Err(why) if why.kind() != ErrorKind::Interrupted => {
                self.set = None;
                self.without = true;
                sys::poll(fds, timeout_ns)
            }
            waited => waited,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;

    const LONG: i64 = 10_000_000_000;

    fn list(all: &[&UnixStream]) -> Vec<libc::pollfd> {
        all.iter().map(|one| sys::readable(one.as_raw_fd())).collect()
    }

    fn ready(waiter: &mut Waiter, all: &[&UnixStream], edition: u64, ns: i64) -> Vec<bool> {
        let mut fds = list(all);
        waiter.wait(&mut fds, edition, ns).unwrap();
        fds.iter().map(|one| one.revents & libc::POLLIN != 0).collect()
    }

    #[test]
    fn it_says_what_poll_says_with_and_without_a_set() {
        let (mut a, far_a) = UnixStream::pair().unwrap();
        let (b, mut far_b) = UnixStream::pair().unwrap();
        let mut waiter = Waiter::default();
        for turn in 0..4 {
            assert_eq!(ready(&mut waiter, &[&far_a, &b], 1, 0), [false, false], "{turn}");
            assert_eq!(waiter.set.is_some(), turn > 0 && !waiter.without);
            a.write_all(b"x").unwrap();
            // It stays so until it has been read.
            for _ in 0..2 {
                assert_eq!(ready(&mut waiter, &[&far_a, &b], 1, LONG), [true, false], "{turn}");
            }
            far_b.write_all(b"y").unwrap();
            assert_eq!(ready(&mut waiter, &[&far_a, &b], 1, LONG), [true, true], "{turn}");
            (&far_a).read_exact(&mut [0]).unwrap();
            (&b).read_exact(&mut [0]).unwrap();
        }
        let began = std::time::Instant::now();
        assert_eq!(ready(&mut waiter, &[&far_a, &b], 1, 300_000), [false, false]);
        assert!(began.elapsed() >= std::time::Duration::from_micros(300));
        drop(a);
        let mut fds = list(&[&far_a, &b]);
        waiter.wait(&mut fds, 1, LONG).unwrap();
        assert!(fds[0].revents & libc::POLLHUP != 0 && fds[1].revents == 0);
    }

    #[test]
    fn a_number_that_is_another_file_by_now_is_waited_for_anew() {
        let mut waiter = Waiter::default();
        let (quiet, _far) = UnixStream::pair().unwrap();
        let number = quiet.as_raw_fd();
        for _ in 0..3 {
            assert_eq!(ready(&mut waiter, &[&quiet], 1, 0), [false]);
        }
        let (other, mut far) = UnixStream::pair().unwrap();
        // SAFETY: two descriptors of this test; the first is closed by it.
        #[allow(unsafe_code)]
        let same = unsafe { libc::dup2(other.as_raw_fd(), number) };
        assert_eq!(same, number);
        far.write_all(b"x").unwrap();
        for _ in 0..3 {
            assert_eq!(ready(&mut waiter, &[&quiet], 2, LONG), [true], "another edition");
        }
    }
}
