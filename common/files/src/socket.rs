//! Unix sockets with a name, and with the right mode from the first moment on.

use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rustix::fs::{self, FileType, Mode};
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use rustix::process::{geteuid, umask};

use crate::Entry;

/// The name of a bound socket. Dropped, it removes that name, if it is still this socket's.
#[derive(Debug)]
pub struct Bound {
    entry: Entry,
    inode: (u64, u64),
}

/// Connections that wait to be accepted.
const BACKLOG: i32 = 128;

/// The umask belongs to the whole process.
static UMASK: Mutex<()> = Mutex::new(());

/// True if the umask takes nothing from this mode, as far as the kernel tells.
fn is_left_whole(mode: u32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let umask = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    let umask = umask.and_then(|umask| u32::from_str_radix(umask.trim(), 8).ok());
    umask.is_some_and(|umask| umask & mode == 0)
}

/// Listens at `path`, with exactly this mode and without ever waiting for a connection. A socket
/// that a dead daemon left there is replaced, and nothing else is.
///
/// # Errors
/// If somebody answers there ([`ErrorKind::AddrInUse`]), if something else has that name
/// ([`ErrorKind::AlreadyExists`]), or as [`Entry::listen`].
pub fn listen(path: &Path, mode: u32) -> io::Result<(UnixListener, Bound)> {
    let (listener, name) = match Entry::itself(path)?.listen(mode) {
        Err(error) if error.kind() == ErrorKind::AddrInUse => {
            clear(path, SocketType::STREAM)?;
            Entry::itself(path)?.listen(mode)?
        }
        result => result?,
    };
    listener.set_nonblocking(true)?;
    Ok((listener, name))
}

/// Takes datagrams at `path`, with exactly this mode and without ever waiting for one. A socket that a
/// dead daemon left there is replaced, and nothing else is.
///
/// # Errors
/// Likewise, see [`listen`].
pub fn receive(path: &Path, mode: u32) -> io::Result<(UnixDatagram, Bound)> {
    let bind = || -> io::Result<(UnixDatagram, Bound)> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = net::socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None)?;
        let name = Entry::itself(path)?.bind(&socket, mode)?;
        Ok((socket.into(), name))
    };
    match bind() {
        Err(error) if error.kind() == ErrorKind::AddrInUse => {
            clear(path, SocketType::DGRAM)?;
            bind()
        }
        result => result,
    }
}

/// Removes what a dead daemon left at `path`.
fn clear(path: &Path, kind: SocketType) -> io::Result<()> {
    let entry = Entry::itself(path)?;
    if !entry.is_socket()? {
        return Err(io::Error::new(ErrorKind::AlreadyExists, "something else is in its place"));
    }
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let caller = net::socket_with(AddressFamily::UNIX, kind, flags, None)?;
    match net::connect(&caller, &SocketAddrUnix::new(path)?) {
        // One that does not get round to its connections is alive as well.
        Ok(()) | Err(Errno::AGAIN) => {
            Err(io::Error::new(ErrorKind::AddrInUse, "another daemon answers there"))
        }
        Err(Errno::CONNREFUSED) => entry.remove(),
        Err(why) => Err(why.into()),
    }
}

impl Entry {
    /// Binds a Unix socket to this name, with exactly this mode: it never has another one, and
    /// nothing is changed by name afterwards. Nothing may be there.
    ///
    /// The kernel makes the name with the mode of the socket's descriptor less the umask. Where that
    /// would take something away it is 0 for that moment: a thread that makes a file just then must
    /// say which mode it shall have.
    ///
    /// # Errors
    /// If something is there ([`io::ErrorKind::AddrInUse`]), if the path is too long for a socket
    /// (107 bytes), or if the system refuses.
    pub fn bind(self, socket: impl AsFd, mode: u32) -> io::Result<Bound> {
        let address = SocketAddrUnix::new(self.path()?)?;
        let socket = socket.as_fd();
        fs::fchmod(socket, Mode::from_raw_mode(mode))?;
        {
            let _one_at_a_time = UMASK.lock().unwrap_or_else(PoisonError::into_inner);
            let before = (!is_left_whole(mode)).then(|| umask(Mode::empty()));
            let bound = net::bind(socket, &address);
            before.map(umask);
            bound?;
        }
        let made = self
            .status()?
            .filter(|made| made.kind == FileType::Socket && made.owner == geteuid().as_raw());
        let made = made.ok_or_else(|| io::Error::other("somebody has replaced it"))?;
        Ok(Bound { inode: made.inode, entry: self })
    }

    /// Makes a listening stream socket of this name, with exactly this mode, as [`Entry::bind`].
    ///
    /// # Errors
    /// As [`Entry::bind`].
    pub fn listen(self, mode: u32) -> io::Result<(UnixListener, Bound)> {
        let flags = SocketFlags::CLOEXEC;
        let socket = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        let bound = self.bind(&socket, mode)?;
        net::listen(&socket, BACKLOG)?;
        Ok((socket.into(), bound))
    }

    /// A path to bind to that leads into the directory that is held: by its own path where nobody
    /// else can change that (it is what `ss -x` shows), else by the descriptor.
    fn path(&self) -> io::Result<PathBuf> {
        Ok(match self.known() {
            Some(known) => known.join(&self.name),
            None => {
                let held = self.folder.fd().as_raw_fd();
                PathBuf::from(format!("/proc/self/fd/{held}")).join(&self.name)
            }
        })
    }

    /// True if a socket is there that may be removed: in a directory that others can change, one
    /// of this user's or root's.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn is_socket(&self) -> io::Result<bool> {
        Ok(self.status()?.is_some_and(|there| {
            there.kind == FileType::Socket
                && (!self.is_shared() || there.owner == geteuid().as_raw() || there.owner == 0)
        }))
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        let there = self.entry.status().ok().flatten();
        if there.is_some_and(|there| there.inode == self.inode) {
            // If it is gone already, so much the better.
            let _ = self.entry.remove();
        }
    }
}
