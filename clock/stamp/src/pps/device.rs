//! The ioctls of a PPS device, with everything unsafe about them kept inside.
//!
//! Layouts and numbers are those of `linux/pps.h`. The numbers encode the size of a *pointer*,
//! an oversight that has become the interface.
#![allow(unsafe_code)]

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::time::Duration;

use super::{Edge, PpsError, failed, identity, open};

/// Assert edges are captured.
const CAPTURE_ASSERT: i32 = 0x01;
/// The offset in the parameters is added to the stamps of assert edges.
const OFFSET_ASSERT: i32 = 0x10;
/// The driver lets a process wait for an edge.
const CAN_WAIT: i32 = 0x100;
/// Stamps are seconds and nanoseconds.
const FORMAT_TIMESPEC: i32 = 0x1000;
/// The only version of the interface.
const VERSION: i32 = 1;

const GET_PARAMETERS: libc::Ioctl = libc::_IOR::<*const Parameters>(b'p' as u32, 0xa1);
const SET_PARAMETERS: libc::Ioctl = libc::_IOW::<*const Parameters>(b'p' as u32, 0xa2);
const GET_CAPABILITIES: libc::Ioctl = libc::_IOR::<*const i32>(b'p' as u32, 0xa3);
const FETCH: libc::Ioctl = libc::_IOWR::<*const Fetched>(b'p' as u32, 0xa4);

/// The longest wait that is asked for at once: what the kernel multiplies must not overflow.
const LONGEST: Duration = Duration::from_secs(3600);
/// The shortest: the kernel rounds down to its ticks (100 to 1000 a second), and none at all means
/// that it does not wait.
const SHORTEST: Duration = Duration::from_millis(10);

/// `struct pps_ktime`.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
struct Time {
    secs: i64,
    nanos: i32,
    flags: u32,
}

/// `struct pps_kinfo`.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
struct Info {
    assert_sequence: u32,
    clear_sequence: u32,
    assert: Time,
    clear: Time,
    mode: i32,
}

/// `struct pps_kparams`.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
struct Parameters {
    version: i32,
    mode: i32,
    assert_offset: Time,
    clear_offset: Time,
}

/// `struct pps_fdata`.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
struct Fetched {
    info: Info,
    timeout: Time,
}

/// Ends of a wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Waited {
    /// With an edge.
    Edge,
    /// With nothing.
    TimedOut,
    /// A signal came.
    Interrupted,
}

/// An open device that captures assert edges.
#[derive(Debug)]
pub(super) struct Device {
    file: File,
    identity: [u64; 3],
    capabilities: i32,
}

impl Device {
    /// Opens it and sees to it that assert edges are captured.
    pub(super) fn open(path: &Path) -> Result<Device, PpsError> {
        let file = open(path, false)?;
        let mut capabilities = 0;
        // SAFETY: PPS_GETCAP writes one int, which there is room for.
        let result = unsafe {
            let pointer: *mut i32 = &mut capabilities;
            libc::ioctl(file.as_raw_fd(), GET_CAPABILITIES, pointer)
        };
        check(result).map_err(|why| match why.raw_os_error() {
            Some(libc::ENOTTY | libc::EINVAL) => PpsError::NotPps { path: path.into() },
            _ => failed(path, "asked what it can do", why),
        })?;
        if capabilities & CAPTURE_ASSERT == 0 {
            return Err(PpsError::NoAssert { path: path.into() });
        }
        let metadata = file.metadata().map_err(|why| failed(path, "looked at", why))?;
        let device = Device { file, identity: identity(&metadata), capabilities };
        let mut parameters = device.parameters(path)?;
        if parameters.mode & CAPTURE_ASSERT == 0 {
            parameters.version = VERSION;
            parameters.mode |= CAPTURE_ASSERT | FORMAT_TIMESPEC;
            device
                .set(path, &parameters)
                .map_err(|why| PpsError::NotCapturing { path: path.into(), why })?;
        }
        Ok(device)
    }

    /// True if the kernel can wait for an edge.
    pub(super) fn can_wait(&self) -> bool {
        self.capabilities & CAN_WAIT != 0
    }

    /// The newest edge, if there was one. Never waits.
    pub(super) fn newest(&self, path: &Path) -> Result<Option<Edge>, PpsError> {
        // A device that is unplugged goes on showing its last edge for as long as it is open.
        let now = fs::metadata(path).map_err(|_| PpsError::Gone { path: path.into() })?;
        if identity(&now) != self.identity {
            return Err(PpsError::Gone { path: path.into() });
        }
        let mut fetched = Fetched::default();
        check(self.fetch(&mut fetched)).map_err(|why| gone_or_failed(path, why))?;
        let Info { assert_sequence, assert: Time { secs, nanos, .. }, .. } = fetched.info;
        if (assert_sequence, secs, nanos) == (0, 0, 0) {
            return Ok(None);
        }
        let offset = self.offset(path)?;
        let unix_ns = nanoseconds(secs, nanos)
            .and_then(|ns| ns.checked_sub(offset))
            .ok_or(PpsError::Stamp { path: path.into(), secs, nanos })?;
        Ok(Some(Edge { sequence: assert_sequence.into(), unix_ns }))
    }

    /// Waits for an edge that comes after this call.
    pub(super) fn wait(&self, path: &Path, timeout: Duration) -> Result<Waited, PpsError> {
        let timeout = timeout.clamp(SHORTEST, LONGEST);
        let mut fetched = Fetched {
            timeout: Time {
                secs: i64::try_from(timeout.as_secs()).unwrap_or(1),
                nanos: i32::try_from(timeout.subsec_nanos()).unwrap_or(0),
                flags: 0,
            },
            ..Fetched::default()
        };
        match check(self.fetch(&mut fetched)) {
            Ok(()) => Ok(Waited::Edge),
            Err(why) => match why.raw_os_error() {
                Some(libc::ETIMEDOUT) => Ok(Waited::TimedOut),
                Some(libc::EINTR) => Ok(Waited::Interrupted),
                _ => Err(gone_or_failed(path, why)),
            },
        }
    }

    /// Offset that the device adds to the stamps of its assert edges, ns.
    fn offset(&self, path: &Path) -> Result<i64, PpsError> {
        if self.capabilities & OFFSET_ASSERT == 0 {
            return Ok(0);
        }
        let parameters = self.parameters(path)?;
        if parameters.mode & OFFSET_ASSERT == 0 {
            return Ok(0);
        }
        let Time { secs, nanos, .. } = parameters.assert_offset;
        secs.checked_mul(1_000_000_000)
            .and_then(|ns| ns.checked_add(nanos.into()))
            .ok_or(PpsError::Stamp { path: path.into(), secs, nanos })
    }

    fn fetch(&self, fetched: &mut Fetched) -> i32 {
        let pointer: *mut Fetched = fetched;
        // SAFETY: PPS_FETCH reads and writes one pps_fdata, which `fetched` is laid out as.
        unsafe { libc::ioctl(self.file.as_raw_fd(), FETCH, pointer) }
    }

    fn parameters(&self, path: &Path) -> Result<Parameters, PpsError> {
        let mut parameters = Parameters::default();
        let pointer: *mut Parameters = &mut parameters;
        // SAFETY: PPS_GETPARAMS writes one pps_kparams, which `parameters` is laid out as.
        check(unsafe { libc::ioctl(self.file.as_raw_fd(), GET_PARAMETERS, pointer) })
            .map_err(|why| gone_or_failed(path, why))?;
        Ok(parameters)
    }

    /// Sets the parameters, by a descriptor of its own that may: the kernel wants CAP_SYS_TIME
    /// and, on some devices, the right to write.
    fn set(&self, path: &Path, parameters: &Parameters) -> io::Result<()> {
        let writable = open(path, true).ok();
        let file = writable.as_ref().unwrap_or(&self.file);
        let pointer: *const Parameters = parameters;
        // SAFETY: PPS_SETPARAMS reads one pps_kparams, which `parameters` is laid out as.
        check(unsafe { libc::ioctl(file.as_raw_fd(), SET_PARAMETERS, pointer) })
    }
}

fn nanoseconds(secs: i64, nanos: i32) -> Option<i64> {
    let nanos = i64::from(nanos);
    if secs < 0 || !(0..1_000_000_000).contains(&nanos) {
        return None;
    }
    secs.checked_mul(1_000_000_000)?.checked_add(nanos)
}

/// A negative result means that errno says why.
fn check(result: i32) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn gone_or_failed(path: &Path, why: io::Error) -> PpsError {
    match why.raw_os_error() {
        Some(libc::ENODEV | libc::ENXIO) => PpsError::Gone { path: path.into() },
        _ => failed(path, "asked for an edge", why),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    #[cfg(target_pointer_width = "64")]
    #[test]
    fn the_layout_is_the_kernels() {
        // As a C compiler has it, by linux/pps.h.
        assert_eq!(
            (size_of::<Time>(), size_of::<Info>(), size_of::<Parameters>(), size_of::<Fetched>()),
            (16, 48, 40, 64)
        );
        assert_eq!((offset_of!(Info, assert), offset_of!(Info, clear)), (8, 24));
        assert_eq!((offset_of!(Info, mode), offset_of!(Fetched, timeout)), (40, 48));
        assert_eq!(offset_of!(Parameters, assert_offset), 8);
    }

    #[cfg(all(target_pointer_width = "64", any(target_arch = "x86_64", target_arch = "aarch64")))]
    #[test]
    fn the_numbers_are_the_kernels() {
        let numbers = [GET_PARAMETERS, SET_PARAMETERS, GET_CAPABILITIES, FETCH];
        let expected = [0x8008_70a1_u32, 0x4008_70a2, 0x8008_70a3, 0xc008_70a4];
        assert_eq!(numbers.map(|number| number as u32), expected);
    }

    #[test]
    fn stamps_that_no_clock_shows() {
        assert_eq!(nanoseconds(1_700_000_000, 5), Some(1_700_000_000_000_000_005));
        for (secs, nanos) in
            [(-1, 0), (0, -1), (0, 1_000_000_000), (i64::MAX, 0), (9_223_372_036, 854_775_808)]
        {
            assert_eq!(nanoseconds(secs, nanos), None, "{secs} {nanos}");
        }
    }

    #[test]
    fn another_device_is_told_from_a_pps() {
        let why = Device::open(Path::new("/dev/null")).unwrap_err();
        assert!(matches!(why, PpsError::NotPps { .. }), "{why}");
    }
}
