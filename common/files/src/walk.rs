//! From a path to its last directory, a name at a time.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{self, CWD, Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{getegid, geteuid};

use crate::Entry;

/// Links that are followed on one way; the kernel's own limit.
const MAX_LINKS: u32 = 40;
/// Of directories that are made on the way.
const MODE: u32 = 0o755;

/// Treatment of the last name of a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Last {
    /// A link is followed, if it may be.
    Followed,
    /// Taken as it stands, be it a link.
    Itself,
}

/// A directory by its descriptor.
#[derive(Debug)]
pub(crate) struct Folder {
    pub fd: OwnedFd,
    /// Somebody who is neither root nor this user can put names into it.
    pub shared: bool,
    /// In /proc: its links are the kernel's, and lead to what is open, which need not have a name.
    kernels: bool,
}

impl Folder {
    fn open(at: impl AsFd, name: impl rustix::path::Arg, flags: OFlags) -> io::Result<Folder> {
        let flags = flags | OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let file = File::from(fs::openat(at, name, flags, Mode::empty())?);
        let meta = file.metadata()?;
        let user = geteuid().as_raw();
        let group = getegid().as_raw();
        let shared = (meta.uid() != 0 && meta.uid() != user)
            || meta.mode() & 0o002 != 0
            || (meta.mode() & 0o020 != 0 && meta.gid() != 0 && meta.gid() != group);
        let kernels = fs::fstatfs(&file)?.f_type == fs::PROC_SUPER_MAGIC;
        Ok(Folder { fd: file.into(), shared, kernels })
    }

    /// Gives the same directory by another descriptor.
    pub fn try_clone(&self) -> io::Result<Folder> {
        let Folder { fd, shared, kernels } = self;
        Ok(Folder { fd: fd.try_clone()?, shared: *shared, kernels: *kernels })
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Makes a directory in it unless one is there; whether it is new.
    pub fn make(&self, name: &OsStr, mode: u32) -> io::Result<bool> {
        match fs::mkdirat(self.fd(), name, Mode::from_raw_mode(mode)) {
            Ok(()) => Ok(true),
            Err(Errno::EXIST) => Ok(false),
            Err(why) => Err(why.into()),
        }
    }
}

/// A step on the way.
enum Step {
    Root,
    Up,
    Down(OsString),
}

fn steps(path: &Path) -> impl DoubleEndedIterator<Item = Step> {
    path.components().filter_map(|component| match component {
        Component::RootDir => Some(Step::Root),
        Component::ParentDir => Some(Step::Up),
        Component::Normal(name) => Some(Step::Down(name.to_owned())),
        Component::CurDir | Component::Prefix(_) => None,
    })
}

/// Walks to the last directory of a path; missing ones are made if `make` says so.
pub(crate) fn walk(path: &Path, last: Last, make: bool) -> io::Result<Entry> {
    let mut left: VecDeque<Step> = steps(path).collect();
    // The working directory may be one that this user cannot look into.
    let start = if path.is_absolute() { "/" } else { "." };
    let mut here = Folder::open(CWD, start, OFlags::empty())?;
    // Where that is, if all of the way belongs to nobody else: then the path itself is safe too.
    let mut known = path.is_absolute().then(PathBuf::new);
    let mut links = 0;
    while let Some(step) = left.pop_front() {
        let name = match step {
            Step::Root => {
                here = Folder::open(CWD, "/", OFlags::empty())?;
                known = known.map(|_| PathBuf::from("/"));
                continue;
            }
            Step::Up => {
                here = Folder::open(here.fd(), "..", OFlags::empty())?;
                known = None;
                continue;
            }
            Step::Down(name) => name,
        };
        known = known.filter(|_| !here.shared);
        let is_last = left.is_empty();
        if is_last && last == Last::Itself {
            return Ok(Entry::new(here, name, false, known));
        }
        match fs::readlinkat(here.fd(), &name, Vec::new()) {
            Ok(_) if here.kernels && is_last => return Ok(Entry::new(here, name, true, None)),
            Ok(_) if here.kernels => {
                here = Folder::open(here.fd(), &name, OFlags::empty())?;
                known = None;
            }
            Ok(_) if here.shared => return Err(refused(&name)),
            Ok(target) => {
                links += 1;
                if links > MAX_LINKS {
                    return Err(Errno::LOOP.into());
                }
                let target = PathBuf::from(OsString::from_vec(target.into_bytes()));
                for step in steps(&target).rev() {
                    left.push_front(step);
                }
            }
            Err(Errno::INVAL | Errno::NOENT) if is_last => {
                return Ok(Entry::new(here, name, false, known));
            }
            Err(why @ (Errno::INVAL | Errno::NOENT)) => {
                if why == Errno::NOENT && make {
                    here.make(&name, MODE)?;
                }
                here = Folder::open(here.fd(), &name, OFlags::NOFOLLOW)?;
                known.iter_mut().for_each(|known| known.push(&name));
            }
            Err(why) => return Err(why.into()),
        }
    }
    Err(io::ErrorKind::IsADirectory.into())
}

/// Makes a directory and those above it; the directory, if it is new.
pub(crate) fn make(path: &Path, mode: u32) -> io::Result<Option<File>> {
    match walk(path, Last::Followed, true) {
        // It ends in `..`, or is `/` or `.`: it is there.
        Err(why) if why.kind() == io::ErrorKind::IsADirectory => Ok(None),
        entry => entry?.make_folder(mode),
    }
}

/// Error for a link that is not followed.
pub(crate) fn refused(name: &OsStr) -> io::Error {
    io::Error::new(
        io::ErrorKind::PermissionDenied,
        format!(
            "'{}' is a symbolic link in a directory that other users can change, and is not \
             followed: name the file itself",
            name.to_string_lossy().escape_debug()
        ),
    )
}
