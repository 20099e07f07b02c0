//! System calls that the references need, with everything unsafe about them kept inside.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::time::Duration;

/// `struct ptp_clock_time` of `linux/ptp_clock.h`.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct ClockTime {
    pub secs: i64,
    pub nanos: u32,
    reserved: u32,
}

impl ClockTime {
    /// As nanoseconds; `None` for what no clock shows.
    pub(super) fn unix_ns(self) -> Option<i64> {
        if self.nanos >= 1_000_000_000 {
            return None;
        }
        self.secs.checked_mul(1_000_000_000)?.checked_add(i64::from(self.nanos))
    }

    #[cfg(test)]
    pub(super) fn new(secs: i64, nanos: u32) -> ClockTime {
        ClockTime { secs, nanos, reserved: 0 }
    }
}

/// How many readings of a hardware clock are asked for at once.
pub(super) const READINGS: usize = 10;
/// As many there is room for in the kernel's structure (`PTP_MAX_SAMPLES`).
const ROOM: usize = 25;

/// `struct ptp_sys_offset_extended`: system clock, hardware clock, system clock.
#[repr(C)]
#[derive(Debug)]
struct Extended {
    readings: u32,
    reserved: [u32; 3],
    times: [[ClockTime; 3]; ROOM],
}

/// `struct ptp_sys_offset_precise`: the two at the very same moment, by hardware.
#[repr(C)]
#[derive(Debug, Default)]
struct Precise {
    device: ClockTime,
    realtime: ClockTime,
    raw: ClockTime,
    reserved: [u32; 4],
}

const PRECISE: libc::Ioctl = libc::_IOWR::<Precise>(b'=' as u32, 8);
const EXTENDED: libc::Ioctl = libc::_IOWR::<Extended>(b'=' as u32, 9);

/// The hardware clock and `CLOCK_REALTIME` at the very same moment; an error where the hardware
/// cannot do that.
pub(super) fn precise(device: &File) -> io::Result<(ClockTime, ClockTime)> {
    let mut answer = Precise::default();
    let pointer: *mut Precise = &mut answer;
    // SAFETY: the request's number holds the size of `Precise`, and that is what there is room for.
    check(unsafe { libc::ioctl(device.as_raw_fd(), PRECISE, pointer) })?;
    Ok((answer.device, answer.realtime))
}

/// Readings of the hardware clock, each between two of `CLOCK_REALTIME`.
pub(super) fn extended(device: &File) -> io::Result<Vec<[ClockTime; 3]>> {
    let times = [[ClockTime::default(); 3]; ROOM];
    let mut answer = Extended { readings: READINGS as u32, reserved: [0; 3], times };
    let pointer: *mut Extended = &mut answer;
    // SAFETY: the request's number holds the size of `Extended`, and that is what there is room for.
    check(unsafe { libc::ioctl(device.as_raw_fd(), EXTENDED, pointer) })?;
    Ok(answer.times.into_iter().take(READINGS).collect())
}

/// Waits until there is something to read, or an error to hear of; whether there is. A signal ends
/// the wait as a timeout does.
pub(super) fn wait(fd: RawFd, timeout: Duration) -> io::Result<bool> {
    let mut entry = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    let ms = timeout.as_millis().min(60_000) as i32;
    // SAFETY: one valid entry, and the count says so.
    let n = unsafe { libc::poll(&mut entry, 1, ms) };
    match check(n) {
        Ok(n) => Ok(n > 0),
        Err(why) if why.kind() == io::ErrorKind::Interrupted => Ok(false),
        Err(why) => Err(why),
    }
}

/// Random bits that nobody can guess.
pub(super) fn random() -> io::Result<u64> {
    let mut bytes = [0_u8; 8];
    // SAFETY: there is room for as many bytes as are asked for.
    let n = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    if n == 8 { Ok(u64::from_ne_bytes(bytes)) } else { Err(io::Error::last_os_error()) }
}

/// Whether somebody keeps `CLOCK_REALTIME` synchronised, and by how many ppm it is corrected;
/// `None` where the kernel does not say. Nothing is changed.
pub(super) fn steering() -> Option<(bool, f64)> {
    // SAFETY: all zeros is a valid `timex`, and asks for nothing to be changed.
    let mut state: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: one valid `timex`.
    if unsafe { libc::adjtimex(&mut state) } < 0 {
        return None;
    }
    // In ppm, with 16 bits after the point.
    Some((state.status & libc::STA_UNSYNC == 0, state.freq as f64 / 65_536.0))
}

fn check(result: i32) -> io::Result<i32> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_have_the_kernel_s_numbers() {
        // As the kernel's header gives them on the common architectures.
        assert_eq!((size_of::<Precise>(), size_of::<Extended>()), (64, 1216));
        #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
        assert_eq!((PRECISE as u32, EXTENDED as u32), (0xc040_3d08, 0xc4c0_3d09));
    }

    #[test]
    fn a_file_is_no_hardware_clock() {
        let file = File::open("/dev/null").unwrap();
        assert_eq!(extended(&file).unwrap_err().raw_os_error(), Some(libc::ENOTTY));
        assert_eq!(precise(&file).unwrap_err().raw_os_error(), Some(libc::ENOTTY));
    }

    #[test]
    fn times() {
        assert_eq!(ClockTime::new(1, 5).unix_ns(), Some(1_000_000_005));
        assert_eq!(ClockTime::new(1, 1_000_000_000).unix_ns(), None);
        assert_eq!(ClockTime::new(i64::MAX, 0).unix_ns(), None);
    }

    #[test]
    fn random_bits_differ() {
        assert_ne!(random().unwrap(), random().unwrap());
    }
}
