//! The hypervisor's own word on the counter: the page of a vmclock device.
//!
//! QEMU, Firecracker and EC2 offer a virtual machine one page of memory, `/dev/vmclock0` (Linux 6.13
//! or later), whose *disruption marker* changes when the counter may have lost its continuity: the
//! machine was migrated, or restored from a snapshot. It has changed before the machine's processors
//! run again. So a count that was read *before* the marker was found unchanged is of the same stretch
//! as the ones before, and the check costs one load of memory:
//!
//! ```no_run
//! use truechimer_counter::{Choice, Counter, vmclock::{self, Vmclock}};
//!
//! let (counter, vm) = (Counter::open(Choice::Auto)?, Vmclock::open(vmclock::place())?);
//! let before = vm.marker();
//! // … calibration, and everything that relies on it …
//! let count = counter.read();
//! let unbroken = vm.marker() == before;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Where the hypervisor also gives the time, [`Vmclock::snapshot`] has it with its rate and errors.

mod map;
mod page;

use std::env;
use std::fmt;
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use map::Mapping;
pub use page::{
    Expected, Fault, Snapshot, VmCounter, VmLeap, VmScale, VmTime, WORDS, Words, parse, settled,
    snapshot,
};

use crate::read::is_privileged;

/// Names a device elsewhere than in `/dev/vmclock0`, for programs that have no more rights than
/// whoever started them.
pub const VARIABLE: &str = "TRUECHIMER_VMCLOCK";
/// Number of a device that is not one of `/dev/vmclockN`.
pub const ELSEWHERE: u16 = u16::MAX - 1;
/// Beginning of a device's name.
const PREFIX: &str = "/dev/vmclock";

/// Path of the machine's device: `$TRUECHIMER_VMCLOCK` if that is set, else `/dev/vmclock0`.
#[must_use]
pub fn place() -> PathBuf {
    chosen().unwrap_or_else(|| format!("{PREFIX}0").into())
}

/// Path that `$TRUECHIMER_VMCLOCK` names, if it is set and counts.
#[must_use]
pub fn chosen() -> Option<PathBuf> {
    let chosen = || env::var_os(VARIABLE).filter(|path| !path.is_empty());
    if is_privileged() { None } else { chosen().map(PathBuf::from) }
}

/// Path of the device with this number: `/dev/vmclockN`, or `None` for [`ELSEWHERE`].
#[must_use]
pub fn path_of(number: u16) -> Option<PathBuf> {
    (number != ELSEWHERE).then(|| format!("{PREFIX}{number}").into())
}

/// Number of the device with this path, or [`ELSEWHERE`].
#[must_use]
pub fn number_of(path: &Path) -> u16 {
    let digits = path.to_str().and_then(|path| path.strip_prefix(PREFIX));
    let number = digits.filter(|digits| !digits.starts_with('+')).and_then(|d| d.parse().ok());
    number.filter(|number| *number < ELSEWHERE).unwrap_or(ELSEWHERE)
}

/// A vmclock device, open to be read.
#[derive(Debug)]
pub struct Vmclock {
    mapping: Mapping,
    has_generation: bool,
    number: u16,
    path: PathBuf,
}

impl Vmclock {
    /// Opens the device, or a file that looks like one, and looks whether it is.
    ///
    /// (A mapped *file* that somebody shortens ends its readers by `SIGBUS`; a device cannot be.)
    ///
    /// # Errors
    /// If it is not there, cannot be read or mapped, or is no vmclock page.
    pub fn open(path: impl AsRef<Path>) -> Result<Vmclock, VmclockError> {
        let path = path.as_ref();
        let error = |why| VmclockError { path: path.to_owned(), why };
        let system = |why| error(Why::System(why));
        // Without O_NONBLOCK a FIFO in its place would hold us up.
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_CLOEXEC | libc::O_NONBLOCK | libc::O_NOCTTY)
            .open(path)
            .map_err(system)?;
        let meta = file.metadata().map_err(system)?;
        let long = usize::try_from(meta.len()).unwrap_or(usize::MAX);
        if !meta.file_type().is_char_device() {
            if !meta.is_file() {
                return Err(error(Why::Fault(Fault::Foreign)));
            }
            if long < map::length() {
                return Err(error(Why::Fault(Fault::Short(long))));
            }
        }
        let mapping = Mapping::new(&file).map_err(system)?;
        let words = settled(|at| mapping.word(at)).map_err(|why| error(Why::Fault(why)))?;
        page::check(&words).map_err(|why| error(Why::Fault(why)))?;
        let has_generation = page::Has(page::size(&words)).word(page::GENERATION);
        let number = number_of(path);
        Ok(Vmclock { mapping, has_generation, number, path: path.to_owned() })
    }

    /// Disruption marker now, by one load. What it says of a count holds if the count was read before.
    #[inline(always)]
    #[must_use]
    pub fn marker(&self) -> u64 {
        self.mapping.word(page::MARKER)
    }

    /// Generation of the virtual machine now, where the hypervisor counts them.
    #[inline]
    #[must_use]
    pub fn generation(&self) -> Option<u64> {
        let counted =
            self.has_generation && self.mapping.word(page::FLAGS) & page::HAS_GENERATION != 0;
        counted.then(|| self.mapping.word(page::GENERATION))
    }

    /// All that the page says, at one moment.
    ///
    /// # Errors
    /// If the hypervisor never stops changing it, or it is no vmclock page any more.
    pub fn snapshot(&self) -> Result<Snapshot, Fault> {
        snapshot(&settled(|at| self.mapping.word(at))?)
    }

    /// Number of the device, or [`ELSEWHERE`].
    #[must_use]
    pub fn number(&self) -> u16 {
        self.number
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Reason why a vmclock device cannot be read.
#[derive(Debug)]
pub struct VmclockError {
    path: PathBuf,
    why: Why,
}

#[derive(Debug)]
enum Why {
    System(io::Error),
    Fault(Fault),
}

impl VmclockError {
    /// True if there is no such device at all.
    #[must_use]
    pub fn is_missing(&self) -> bool {
        let missing = [io::ErrorKind::NotFound, io::ErrorKind::NotADirectory];
        match &self.why {
            // A node without a driver behind it.
            Why::System(why) => {
                missing.contains(&why.kind())
                    || matches!(why.raw_os_error(), Some(libc::ENXIO | libc::ENODEV))
            }
            Why::Fault(_) => false,
        }
    }
}

impl fmt::Display for VmclockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.path.display())?;
        match &self.why {
            Why::System(why) if why.kind() == io::ErrorKind::PermissionDenied => {
                write!(f, "{why}: let this user read it (a udev rule with MODE=\"0444\")")
            }
            Why::System(why) => why.fmt(f),
            Why::Fault(why) => why.fmt(f),
        }
    }
}

impl std::error::Error for VmclockError {}
