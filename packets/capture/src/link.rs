//! Properties of an interface, and what becomes of it while it is captured from.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, bind, recvfrom, socket_with};
use truechimer_stamp::interface::{self, Asker};

pub(crate) mod drops;
mod message;

use message::Seen;

/// An interface.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Link {
    /// Name of the interface.
    pub name: String,
    /// Number of the interface; 0 stands for all of them.
    pub index: u32,
    /// The kind of hardware (`ARPHRD_…` of `linux/if_arp.h`): 1 is Ethernet.
    pub hardware: u16,
    /// True if it is up (administratively; a cable may yet be missing).
    pub is_up: bool,
    /// True if it is a loopback interface.
    pub is_loopback: bool,
}

impl Link {
    /// The interface of this name in this thread's network namespace.
    ///
    /// # Errors
    /// `NotFound` if there is none; else as the kernel has it.
    pub fn named(name: &str) -> io::Result<Link> {
        let missing = |why: io::Error| match why.raw_os_error() {
            Some(libc::ENODEV | libc::ENXIO) => io::ErrorKind::NotFound.into(),
            _ => why,
        };
        let socket = Asker::new()?;
        let index = interface::index(socket.as_fd(), name).map_err(missing)?;
        let flags = interface::flags(socket.as_fd(), name).map_err(missing)?;
        let hardware = interface::hardware(socket.as_fd(), name).map_err(missing)?;
        Ok(Link {
            name: name.to_owned(),
            index,
            hardware,
            is_up: flags & libc::IFF_UP as u32 != 0,
            is_loopback: flags & libc::IFF_LOOPBACK as u32 != 0,
        })
    }
}

/// A socket that hears of changes of links, and does not block.
fn link_socket() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    // Of netlink's protocols the one that is none to rustix: `NETLINK_ROUTE`.
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
    bind(&socket, &SocketAddrNetlink::new(0, libc::RTMGRP_LINK as u32))?;
    Ok(socket)
}

/// Changes of an interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// Went down.
    Down,
    /// Came up.
    Up,
    /// Deleted, or moved to another network namespace. It will not come back: one of the same name
    /// would be another one.
    Gone,
}

/// Hears from the kernel (rtnetlink) what becomes of one interface. Needs no privilege. Belongs to
/// the network namespace of the thread that opened it.
#[derive(Debug)]
pub struct Watcher {
    socket: OwnedFd,
    index: u32,
    is_up: bool,
    is_gone: bool,
    buffer: Vec<u8>,
    /// Heard and not told yet, oldest first.
    changes: std::collections::VecDeque<Change>,
}

/// More than a message about a link takes, of which several may come in one datagram.
const BUFFER: usize = 32 << 10;
/// Number of changes remembered for someone who does not ask: beyond that the last state counts.
const REMEMBERED: usize = 64;

impl Watcher {
    /// Watches the interface of this number from now on. [`Watcher::is_up`] says how it stands.
    ///
    /// # Errors
    /// Where the kernel gives no such socket.
    pub fn open(index: u32) -> io::Result<Watcher> {
        let socket = link_socket()?;
        let mut watcher = Watcher {
            socket,
            index,
            is_up: false,
            is_gone: false,
            buffer: vec![0; BUFFER],
            changes: std::collections::VecDeque::new(),
        };
        // Asked after the socket listens, so that no change falls between the two.
        watcher.look()?;
        watcher.changes.clear();
        Ok(watcher)
    }

    /// True if the interface is up, as far as has been heard.
    #[must_use]
    pub fn is_up(&self) -> bool {
        self.is_up
    }

    /// True if it is gone.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.is_gone
    }

    /// Tells what became of the interface since it was last asked, the oldest first; `None` if
    /// nothing. Does not wait: its file descriptor is readable when there is news.
    ///
    /// # Errors
    /// Where the kernel does not tell.
    #[expect(clippy::should_implement_trait, reason = "no iterator: there may be more later")]
    pub fn next(&mut self) -> io::Result<Option<Change>> {
        if self.changes.is_empty() {
            self.hear()?;
        }
        Ok(self.changes.pop_front())
    }

    fn hear(&mut self) -> io::Result<()> {
        loop {
            match recvfrom(&self.socket, &mut self.buffer[..], RecvFlags::DONTWAIT) {
                Ok((bytes, _, from)) => {
                    // One from elsewhere than the kernel says nothing.
                    let is_kernels = from
                        .and_then(|from| SocketAddrNetlink::try_from(from).ok())
                        .is_some_and(|from| from.pid() == 0);
                    let bytes = if is_kernels { bytes } else { 0 };
                    let heard = self.buffer.get(..bytes).unwrap_or_default();
                    let seen: Vec<Seen> = message::links(heard, self.index).collect();
                    seen.into_iter().for_each(|seen| self.note(seen));
                }
                Err(Errno::AGAIN | Errno::INTR) => return Ok(()),
                // More than there was room for: some of it is lost, the state is not.
                Err(Errno::NOBUFS) => self.look()?,
                Err(why) => return Err(why.into()),
            }
        }
    }

    /// Asks how the interface stands.
    fn look(&mut self) -> io::Result<()> {
        let name = match interface::name(self.socket.as_fd(), self.index) {
            Ok(name) => name,
            Err(why) if matches!(why.raw_os_error(), Some(libc::ENODEV | libc::ENXIO)) => {
                self.note(Seen::Gone);
                return Ok(());
            }
            // It is called something that nobody has asked for.
            Err(why) if why.raw_os_error() == Some(libc::EILSEQ) => return Ok(()),
            Err(why) => return Err(why),
        };
        // Renamed or deleted meanwhile: there will be a message.
        if let Ok(flags) = interface::flags(self.socket.as_fd(), &name) {
            self.note(Seen::Flags(flags));
        }
        Ok(())
    }

    fn note(&mut self, seen: Seen) {
        let change = match seen {
            _ if self.is_gone => return,
            Seen::Gone => {
                (self.is_up, self.is_gone) = (false, true);
                Change::Gone
            }
            Seen::Flags(flags) => {
                let up = flags & libc::IFF_UP as u32 != 0;
                if std::mem::replace(&mut self.is_up, up) == up {
                    return;
                }
                if up { Change::Up } else { Change::Down }
            }
        };
        if self.changes.len() >= REMEMBERED {
            // A pair, so that what is told still alternates.
            self.changes.drain(..2);
        }
        self.changes.push_back(change);
    }
}

impl AsFd for Watcher {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_known() {
        let link = Link::named("lo").unwrap();
        assert!(link.index > 0 && link.is_loopback && link.hardware == libc::ARPHRD_LOOPBACK);
        let watcher = Watcher::open(link.index).unwrap();
        assert_eq!((watcher.is_up(), watcher.is_gone()), (link.is_up, false));
    }

    #[test]
    fn what_is_not_there_is_gone() {
        assert_eq!(Link::named("no-such-link").unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(Link::named(&"x".repeat(99)).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert!(Watcher::open(0x7fff_fff0).unwrap().is_gone());
    }

    #[test]
    fn changes_are_told_once_and_in_order() {
        let mut watcher = Watcher::open(Link::named("lo").unwrap().index).unwrap();
        watcher.is_up = true;
        for seen in [Seen::Flags(1), Seen::Flags(0), Seen::Flags(0), Seen::Flags(1), Seen::Gone] {
            watcher.note(seen);
        }
        watcher.note(Seen::Flags(1));
        let told: Vec<Change> = watcher.changes.iter().copied().collect();
        assert_eq!(told, [Change::Down, Change::Up, Change::Gone]);
    }
}
