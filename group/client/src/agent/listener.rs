//! The socket that programs connect to.

use std::fmt;
use std::fs::{self, File, Permissions, TryLockError};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown, lchown};
use std::path::{Path, PathBuf};

use rustix::fs::FileType;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, listen, socket_with};
use rustix::process::{getegid, geteuid};
use truechimer_files::{Access, Bound, Entry, make_folder};

use super::Settings;
use crate::link::{Address, Refused};
use crate::place::{socket_in, valid_group};
use crate::sys;

/// Connections that wait to be accepted.
const BACKLOG: i32 = 64;

/// Reason why there is no door.
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
        /// User that owns it.
        owner: u32,
        /// Permissions of it.
        mode: u32,
    },
    /// The system refused something.
    System {
        /// Action tried, as in "cannot …".
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// Reason.
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
                match (error.kind(), *action) {
                    (io::ErrorKind::PermissionDenied, "give away") => out.write_str(
                        ": only root may give it to another user, and only to a group that it is \
                         in another user (SupplementaryGroups= and SystemCallFilter=@chown of its \
                         unit)",
                    ),
                    (io::ErrorKind::PermissionDenied, _) => {
                        out.write_str("; name another --directory")
                    }
                    _ => Ok(()),
                }
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
    pub fn open(settings: &Settings) -> Result<Listener, DoorError> {
        let Settings { directory, group, member, permissions, .. } = settings;
        if !valid_group(group) || member.0 == 0 {
            return Err(DoorError::Name(group.clone()));
        }
        let path = socket_in(directory, group, *member);
        let address = Address::of(&path).ok_or_else(|| DoorError::TooLong(path.clone()))?;
        make_directory(&directory.join(group), settings)?;
        let lock = take_lock(&path)?;
        remove_stale(&path, &address, settings.owner)?;
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
        if settings.owner.is_some() || settings.access_group.is_some() {
            lchown(&path, settings.owner, settings.access_group)
                .map_err(|error| system("give away", &path, error))?;
        }
        listen(&socket, BACKLOG).map_err(fail("listen at"))?;
        Ok(Listener { socket, path, _name: name, _lock: lock })
    }
}

fn system(action: &'static str, path: &Path, error: io::Error) -> DoorError {
    DoorError::System { action, path: path.into(), error }
}

/// The group's directory: whoever may use the socket may enter it, and nobody else.
fn make_directory(path: &Path, settings: &Settings) -> Result<(), DoorError> {
    if let Some(above) = path.parent() {
        make_folder(above, 0o755).map_err(|error| system("make the directory", above, error))?;
        // Whoever may rename what is in there could put a directory of his own in our place.
        let there = fs::metadata(above).map_err(|error| system("look at", above, error))?;
        let (owner, mode) = (there.uid(), there.mode() & 0o7777);
        if !is_trusted(owner) || mode & 0o1002 == 0o002 {
            return Err(DoorError::Directory { path: above.into(), owner, mode });
        }
    }
    let mode = directory_mode(settings);
    make_folder(path, mode & 0o777).map_err(|error| system("make the directory", path, error))?;
    let there = fs::symlink_metadata(path).map_err(|error| system("look at", path, error))?;
    let (owner, now) = (there.uid(), there.mode() & 0o7777);
    // Where others may make files they may at least not take the socket away.
    if !there.is_dir() || !is_trusted(owner) || (now & 0o022 != 0 && now & 0o1000 == 0) {
        return Err(DoorError::Directory { path: path.into(), owner, mode: now });
    }
    // The umask took some of these, and an agent of before may have had other settings.
    if owner == geteuid().as_raw() {
        let folder = File::open(path).map_err(|error| system("open", path, error))?;
        let group = settings.access_group.unwrap_or_else(|| getegid().as_raw());
        if there.gid() != group {
            fchown(&folder, None, Some(group)).map_err(|error| system("give away", path, error))?;
        }
        folder
            .set_permissions(Permissions::from_mode(mode))
            .map_err(|error| system("set the permissions of", path, error))?;
    }
    Ok(())
}

fn directory_mode(settings: &Settings) -> u32 {
    let Settings { permissions, owner, access_group, .. } = settings;
    let enter = |who: u32, may: u32| if permissions & who != 0 { may } else { 0 };
    let write = if access_group.is_some() && permissions & 0o020 != 0 { 0o1020 } else { 0 };
    // Another owner of the socket comes as one of all users: the directory stays the agent's.
    let others = if owner.is_some() { 0o005 } else { 0 };
    // Others see its name, so that they are told what they may not.
    0o700 | enter(0o060, 0o054) | enter(0o006, 0o005) | write | others
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

/// Removes a socket that an agent has left behind, and may have given to this user.
fn remove_stale(path: &Path, address: &Address, owner: Option<u32>) -> Result<(), DoorError> {
    let entry = Entry::itself(path).map_err(|error| system("look at", path, error))?;
    let there = entry.status().map_err(|error| system("look at", path, error))?;
    let Some(there) = there else { return Ok(()) };
    let given = there.kind == FileType::Socket && Some(there.owner) == owner;
    if !given && !entry.is_socket().map_err(|error| system("look at", path, error))? {
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
