//! Rules of what a process may do when.

use libc::{POLLERR, POLLIN, POLLPRI, c_int, c_long, c_short, pollfd};

/// A rule that was broken, in words.
pub type Broken = &'static str;

/// Record of what the process has done and may therefore do next.
#[derive(Debug, Default)]
pub struct Rules {
    /// Report of the last `poll`, as far as it has not been dealt with.
    reported: Option<(c_int, c_short)>,
    /// The socket of the last send, if nothing came after it.
    sent: Option<c_int>,
}

impl Rules {
    /// Nothing has been done yet.
    #[must_use]
    pub const fn new() -> Rules {
        Rules { reported: None, sent: None }
    }

    /// A new socket has this number, and nothing to do with one that had it before.
    pub fn opened(&mut self, fd: c_int) {
        self.reported = self.reported.filter(|(reported, _)| *reported != fd);
    }

    /// A datagram has left.
    pub fn sent(&mut self, fd: c_int) {
        self.sent = Some(fd);
    }

    /// `poll` has returned: leaves at most one descriptor reported, and says how many that are.
    pub fn polled(&mut self, fds: &mut [pollfd]) -> c_int {
        *self = Rules::new();
        for fd in fds {
            if self.reported.is_some() {
                fd.revents = 0;
            } else if fd.revents != 0 {
                self.reported = Some((fd.fd, fd.revents));
            }
        }
        c_int::from(self.reported.is_some())
    }

    /// A datagram is about to be received.
    ///
    /// # Errors
    /// Unless the last `poll` reported that there is one, and none has been received since.
    pub fn receive(&mut self, fd: c_int) -> Result<(), Broken> {
        self.take(fd, POLLIN).ok_or("receives only what poll has just reported, and that once")
    }

    /// The error queue is about to be read.
    ///
    /// # Errors
    /// Unless a datagram was sent just before or `poll` reported the queue, and it has not been
    /// read since.
    pub fn receive_error(&mut self, fd: c_int) -> Result<(), Broken> {
        match self.sent.take() {
            Some(sent) if sent == fd => Ok(()),
            _ => self
                .take(fd, POLLERR | POLLPRI)
                .ok_or("reads the error queue once, right after a send or when poll reports it"),
        }
    }

    fn take(&mut self, fd: c_int, events: c_short) -> Option<()> {
        let (reported, left) = self.reported.as_mut()?;
        if *reported != fd || *left & events == 0 {
            return None;
        }
        *left &= !events;
        Some(())
    }
}

/// The room that `recvmsg` is given.
///
/// # Errors
/// If a simulator would find it wanting.
pub fn room(iovecs: usize, control: usize) -> Result<(), Broken> {
    match (iovecs, control) {
        (1, 512..) => Ok(()),
        (1, _) => Err("gives recvmsg at least 512 bytes for control data"),
        _ => Err("gives recvmsg exactly one iovec"),
    }
}

/// True if a socket like this is to be had.
#[must_use]
pub fn is_plain(family: c_int, kind: c_int, protocol: c_int) -> bool {
    (family, kind, protocol) == (libc::AF_INET, libc::SOCK_DGRAM, 0)
}

/// A socket option of the level `SOL_SOCKET`.
///
/// # Errors
/// If it asks for stamps in a way that simulators do not know.
pub fn socket_option(name: c_int) -> Result<(), Broken> {
    /// `SO_TIMESTAMP_NEW` and `SO_TIMESTAMPNS_NEW`.
    const NEW: [c_int; 2] = [63, 64];
    if [libc::SO_TIMESTAMP, libc::SO_TIMESTAMPNS].contains(&name) || NEW.contains(&name) {
        return Err("asks for stamps with SO_TIMESTAMPING alone");
    }
    Ok(())
}

/// A call around libc; `timed` if its fifth argument, a futex's timeout, is not null.
///
/// # Errors
/// If it is not one of those that the standard library needs and that have nothing to do with
/// time.
pub fn system_call(number: c_long, operation: c_long, timed: bool) -> Result<(), Broken> {
    let waits = matches!(
        operation as c_int & libc::FUTEX_CMD_MASK,
        libc::FUTEX_WAIT | libc::FUTEX_WAIT_BITSET
    );
    match number {
        libc::SYS_futex if waits && timed => Err("waits for a time in poll alone"),
        libc::SYS_futex | libc::SYS_getrandom | libc::SYS_gettid => Ok(()),
        _ => Err("goes through libc"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn polled(rules: &mut Rules, fds: &[(c_int, c_short)]) -> (c_int, Vec<c_short>) {
        let made = fds.iter().map(|&(fd, revents)| pollfd { fd, events: POLLIN, revents });
        let mut fds: Vec<pollfd> = made.collect();
        (rules.polled(&mut fds), fds.iter().map(|fd| fd.revents).collect())
    }

    #[test]
    fn one_report_one_datagram() {
        let mut rules = Rules::new();
        assert!(rules.receive(4).is_err(), "without poll");
        let told = polled(&mut rules, &[(3, 0), (4, POLLIN), (5, POLLIN)]);
        assert_eq!(told, (1, vec![0, POLLIN, 0]));
        assert!(rules.receive(5).is_err(), "not reported");
        assert!(rules.receive_error(4).is_err(), "nor that");
        assert!(rules.receive(4).is_ok());
        assert!(rules.receive(4).is_err(), "twice");
        polled(&mut rules, &[(4, POLLIN)]);
        assert_eq!(polled(&mut rules, &[(4, 0)]), (0, vec![0]));
        assert!(rules.receive(4).is_err(), "reported by the one before");
        polled(&mut rules, &[(4, POLLIN)]);
        rules.opened(4);
        assert!(rules.receive(4).is_err(), "another socket");
    }

    #[test]
    fn the_error_queue_is_read_right_after_a_send_or_when_reported() {
        let mut rules = Rules::new();
        assert!(rules.receive_error(4).is_err());
        rules.sent(4);
        assert!(rules.receive_error(4).is_ok());
        assert!(rules.receive_error(4).is_err(), "twice");
        rules.sent(5);
        assert!(rules.receive_error(4).is_err(), "another socket");
        rules.sent(4);
        polled(&mut rules, &[]);
        assert!(rules.receive_error(4).is_err(), "too late");
        for event in [POLLERR, POLLPRI] {
            polled(&mut rules, &[(4, POLLIN | event)]);
            assert!(rules.receive_error(4).is_ok() && rules.receive(4).is_ok());
            assert!(rules.receive_error(4).is_err());
        }
    }

    #[test]
    fn sockets_and_rooms() {
        assert!(is_plain(libc::AF_INET, libc::SOCK_DGRAM, 0));
        for (family, kind, protocol) in [
            (libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0),
            (libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_NONBLOCK, 0),
            (libc::AF_INET, libc::SOCK_DGRAM, libc::IPPROTO_UDP),
            (libc::AF_INET6, libc::SOCK_DGRAM, 0),
            (libc::AF_UNIX, libc::SOCK_DGRAM, 0),
            (libc::AF_NETLINK, libc::SOCK_RAW, 0),
        ] {
            assert!(!is_plain(family, kind, protocol));
        }
        assert!(room(1, 512).is_ok() && room(1, 511).is_err());
        assert!(room(0, 512).is_err() && room(2, 512).is_err());
        assert!(socket_option(libc::SO_TIMESTAMPING).is_ok());
        assert!(socket_option(libc::SO_TIMESTAMPNS).is_err());
    }

    #[test]
    fn what_goes_around_libc() {
        let private_wait = c_long::from(libc::FUTEX_WAIT_BITSET | libc::FUTEX_PRIVATE_FLAG);
        assert!(system_call(libc::SYS_futex, private_wait, false).is_ok());
        assert!(system_call(libc::SYS_futex, private_wait, true).is_err());
        assert!(system_call(libc::SYS_futex, c_long::from(libc::FUTEX_WAKE), true).is_ok());
        assert!(system_call(libc::SYS_clock_gettime, 0, false).is_err());
    }
}
