//! The socket that programs connect to.

use std::fmt;
use std::fs::{self, File, TryLockError};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, listen, socket_with};
use rustix::process::geteuid;
use truechimer_files::{Access, Bound, Entry, make_folder};
use truechimer_group::Member;

use crate::link::{Address, Refused};
use crate::place::{socket_in, valid_group};
use crate::sys;

/// Connections that wait to be accepted.
const BACKLOG: i32 = 64;

/// Why there is no door.
#[derive(Debug)]
#[non_exhaustive]
pub enum DoorError {
    /// Not a name for a group.
    Name(String),
    /// The path is longer than the 107 bytes that a socket's may have.
    TooLong(PathBuf),
    /// Another agent has this member of this group.
    Served(PathBuf),
    /// No socket at that path.
    NotASocket(PathBuf),
    /// The directory belongs to somebody else, or others may write it.
    Directory {
        /// Which.
        path: PathBuf,
        /// Whose it is.
        owner: u32,
        /// Its permissions.
        mode: u32,
    },
    /// The system refused something.
    System {
        /// Action tried, as in "cannot …".
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
}

impl fmt::Display for DoorError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DoorError::Name(name) => {
                write!(out, "'{}' is no name for a group", name.escape_debug())
            }
            DoorError::TooLong(path) => write!(
                out,
                "{} is longer than a socket's path may be (107 bytes); name a shorter --directory",
                path.display()
            ),
            DoorError::Served(path) => write!(
                out,
                "another agent listens at {}; end it, or name another --directory",
                path.display()
            ),
            DoorError::NotASocket(path) => write!(
                out,
                "{} is not a socket; remove it, or name another --directory",
                path.display()
            ),
            DoorError::Directory { path, owner, mode } => write!(
                out,
                "{} (of user {owner}, mode {mode:04o}) could be changed by others; it must belong \
                 to this user or root, and nobody else may write it",
                path.display()
            ),
            DoorError::System { action, path, error } => {
                write!(out, "cannot {action} {}: {error}", path.display())?;
                if error.kind() == io::ErrorKind::PermissionDenied {
                    out.write_str("; name another --directory")?;
                }
                Ok(())
            }
        }
    }
}

impl std::error::Error for DoorError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            DoorError::System { error, .. } => Some(error),
            _ => None,
        }
    }
}

/// The listening socket of one member. It goes, with its file, when this is dropped.
pub(super) struct Listener {
    pub socket: OwnedFd,
    pub path: PathBuf,
    /// Removes the socket's name in the end.
    _name: Bound,
    /// Held as long as the door is open, so that two agents do not take each other's socket away.
    _lock: File,
}

impl Listener {
    pub fn open(
        directory: &Path,
        group: &str,
        member: Member,
        permissions: u32,
    ) -> Result<Listener, DoorError> {
        if !valid_group(group) || member.0 == 0 {
            return Err(DoorError::Name(group.into()));
        }
        let path = socket_in(directory, group, member);
        let address = Address::of(&path).ok_or_else(|| DoorError::TooLong(path.clone()))?;
        let place = directory.join(group);
        make_directory(&place, permissions)?;
        let lock = take_lock(&path)?;
        remove_stale(&path, &address)?;
        let fail = |action| {
            let path = path.clone();
            move |error: Errno| DoorError::System { action, path, error: error.into() }
        };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
            .map_err(fail("make the socket"))?;
        // Whoever connects before it listens is refused.
        let name = Entry::itself(&path).and_then(|name| name.bind(&socket, permissions & 0o777));
        let name = name.map_err(|error| system("make the socket", &path, error))?;
        listen(&socket, BACKLOG).map_err(fail("listen at"))?;
        Ok(Listener { socket, path, _name: name, _lock: lock })
    }
}

fn system(action: &'static str, path: &Path, error: io::Error) -> DoorError {
    DoorError::System { action, path: path.into(), error }
}

/// The group's directory: whoever may use the socket may enter it, and nobody else.
fn make_directory(path: &Path, permissions: u32) -> Result<(), DoorError> {
    if let Some(above) = path.parent() {
        make_folder(above, 0o755).map_err(|error| system("make the directory", above, error))?;
        // Whoever may rename what is in there could put a directory of his own in our place.
        let there = fs::metadata(above).map_err(|error| system("look at", above, error))?;
        let (owner, mode) = (there.uid(), there.mode() & 0o7777);
        if !is_trusted(owner) || mode & 0o1002 == 0o002 {
            return Err(DoorError::Directory { path: above.into(), owner, mode });
        }
    }
    let enter =
        |who: u32| if permissions & who != 0 { 0o055 & (who | who >> 1 | who >> 2) } else { 0 };
    let mode = 0o700 | enter(0o060) | enter(0o006);
    make_folder(path, mode).map_err(|error| system("make the directory", path, error))?;
    let there = fs::symlink_metadata(path).map_err(|error| system("look at", path, error))?;
    let (owner, mode) = (there.uid(), there.mode() & 0o7777);
    if !there.is_dir() || !is_trusted(owner) || mode & 0o022 != 0 {
        return Err(DoorError::Directory { path: path.into(), owner, mode });
    }
    Ok(())
}

fn is_trusted(owner: u32) -> bool {
    owner == geteuid().as_raw() || owner == 0
}

fn take_lock(socket: &Path) -> Result<File, DoorError> {
    let path = socket.with_extension("lock");
    let file = Entry::itself(&path)
        .and_then(|entry| entry.open(Access::Write, 0o600))
        .map_err(|error| system("open the lock", &path, error))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(DoorError::Served(socket.into())),
        Err(TryLockError::Error(error)) => Err(system("lock", &path, error)),
    }
}

/// Removes a socket that an agent has left behind.
fn remove_stale(path: &Path, address: &Address) -> Result<(), DoorError> {
    let entry = Entry::itself(path).map_err(|error| system("look at", path, error))?;
    if entry.status().map_err(|error| system("look at", path, error))?.is_none() {
        return Ok(());
    }
    if !entry.is_socket().map_err(|error| system("look at", path, error))? {
        return Err(DoorError::NotASocket(path.into()));
    }
    match address.connect() {
        Ok(socket) => {
            sys::close(socket);
            Err(DoorError::Served(path.into()))
        }
        Err(Refused::NoAgent) => {
            entry.remove().map_err(|error| system("remove the old socket", path, error))
        }
        Err(_) => Err(DoorError::Served(path.into())),
    }
}
