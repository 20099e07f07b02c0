//! PTP hardware clocks (`/dev/ptpN`) read beside a clock of the host's, in ns; `None` stands for what no
//! clock shows.
#![allow(unsafe_code)]

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd};

use rustix::time::{DynamicClockId, clock_gettime_dynamic};

/// A clock of the host's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Beside {
    /// `CLOCK_REALTIME`, which may be slewed or stepped meanwhile.
    Realtime,
    /// `CLOCK_MONOTONIC_RAW`, which is neither.
    Raw,
}

/// The clock and one of the host's at the very same moment, by hardware.
///
/// # Errors
/// Where it cannot do that, or is no such clock.
pub fn precise(clock: &File, beside: Beside) -> io::Result<[Option<i64>; 2]> {
    // SAFETY: all zeros is a valid `ptp_sys_offset_precise`.
    let mut answer: libc::ptp_sys_offset_precise = unsafe { std::mem::zeroed() };
    let pointer = &raw mut answer;
    // SAFETY: the request's number holds the size of that structure.
    check(unsafe { libc::ioctl(clock.as_raw_fd(), libc::PTP_SYS_OFFSET_PRECISE, pointer) })?;
    Ok(match beside {
        Beside::Realtime => [ns(answer.device), ns(answer.sys_realtime)],
        Beside::Raw => [ns(answer.device), ns(answer.sys_monoraw)],
    })
}

/// Readings of the clock, 25 at most, each between two of one of the host's.
///
/// # Errors
/// Where the driver cannot do that, or it is no such clock. Linux before 6.12 knows of `CLOCK_REALTIME` alone and
/// answers `EINVAL` to all else, as that field of the question had to be zero.
pub fn extended(clock: &File, readings: u32, beside: Beside) -> io::Result<Vec<[Option<i64>; 3]>> {
    // SAFETY: all zeros is a valid `ptp_sys_offset_extended`; its clock 0 is `CLOCK_REALTIME`.
    let mut answer: libc::ptp_sys_offset_extended = unsafe { std::mem::zeroed() };
    answer.n_samples = readings;
    if beside == Beside::Raw {
        answer.clockid = libc::CLOCK_MONOTONIC_RAW;
    }
    let pointer = &raw mut answer;
    // SAFETY: the request's number holds the size of that structure.
    check(unsafe { libc::ioctl(clock.as_raw_fd(), libc::PTP_SYS_OFFSET_EXTENDED, pointer) })?;
    Ok(answer.ts.iter().take(readings as usize).map(|three| three.map(ns)).collect())
}

/// The clock alone.
///
/// # Errors
/// Where it cannot be read.
pub fn read(clock: &File) -> io::Result<i64> {
    let time = clock_gettime_dynamic(DynamicClockId::Dynamic(clock.as_fd()))?;
    time.tv_sec
        .checked_mul(1_000_000_000)
        .and_then(|seconds| seconds.checked_add(time.tv_nsec))
        .ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// `PTP_ENABLE_FEATURE` and `PTP_RISING_EDGE`.
const STAMP_RISING: u32 = 0x1 | 0x2;
/// Bytes of a `ptp_extts_event`.
const EDGE: usize = 32;
/// Edges that are read at a time.
const EDGES: usize = 16;

/// Makes the card stamp the edges at the input of a channel, or no longer do so.
///
/// # Errors
/// If it has no such channel, or is no such clock.
pub fn stamp_edges(clock: &File, channel: u32, on: bool) -> io::Result<()> {
    // SAFETY: all zeros is a valid `ptp_extts_request`.
    let mut request: libc::ptp_extts_request = unsafe { std::mem::zeroed() };
    request.index = channel;
    request.flags = if on { STAMP_RISING } else { 0 };
    let pointer = &raw const request;
    // SAFETY: the request's number holds the size of that structure, which is only read.
    check(unsafe { libc::ioctl(clock.as_raw_fd(), libc::PTP_EXTTS_REQUEST, pointer) })
}

/// Makes a pin the input of a channel.
///
/// # Errors
/// If it has no such pin, or that cannot be made one.
pub fn make_input(clock: &File, pin: u32, channel: u32) -> io::Result<()> {
    // SAFETY: all zeros is a valid `ptp_pin_desc`.
    let mut request: libc::ptp_pin_desc = unsafe { std::mem::zeroed() };
    (request.index, request.func, request.chan) = (pin, libc::PTP_PF_EXTTS, channel);
    let pointer = &raw const request;
    // SAFETY: the request's number holds the size of that structure, which is only read.
    check(unsafe { libc::ioctl(clock.as_raw_fd(), libc::PTP_PIN_SETFUNC, pointer) })
}

/// Edges that the card has stamped, each with its channel, in order; waits for one if there is none.
///
/// # Errors
/// If the device is gone.
pub fn edges(clock: &mut File) -> io::Result<Vec<(u32, Option<i64>)>> {
    let mut bytes = [0; EDGE * EDGES];
    let length = clock.read(&mut bytes)?;
    let (all, _) = bytes.get(..length).unwrap_or_default().as_chunks::<EDGE>();
    Ok(all.iter().map(edge).collect())
}

/// Channel and time of a `ptp_extts_event`: seconds in 8 bytes, nanoseconds in 4, 4 unused, the channel in 4.
fn edge(bytes: &[u8; EDGE]) -> (u32, Option<i64>) {
    let (words, _) = bytes.as_chunks::<4>();
    let [low, high, nsec, _, channel, ..] = words else { return (0, None) };
    let mut sec = [0; 8];
    for (to, from) in sec.iter_mut().zip(low.iter().chain(high)) {
        *to = *from;
    }
    let nsec = u32::from_ne_bytes(*nsec);
    let time = libc::ptp_clock_time { sec: i64::from_ne_bytes(sec), nsec, reserved: 0 };
    (u32::from_ne_bytes(*channel), ns(time))
}

fn ns(time: libc::ptp_clock_time) -> Option<i64> {
    if time.nsec >= 1_000_000_000 {
        return None;
    }
    time.sec.checked_mul(1_000_000_000)?.checked_add(i64::from(time.nsec))
}

fn check(result: i32) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_have_the_kernel_s_numbers() {
        // As the kernel's header gives them on the common architectures.
        let sizes =
            (size_of::<libc::ptp_sys_offset_precise>(), size_of::<libc::ptp_sys_offset_extended>());
        assert_eq!(sizes, (64, 1216));
        #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
        assert_eq!(
            (libc::PTP_SYS_OFFSET_PRECISE as u32, libc::PTP_SYS_OFFSET_EXTENDED as u32),
            (0xc040_3d08, 0xc4c0_3d09)
        );
    }

    #[test]
    fn a_file_is_no_hardware_clock() {
        let file = File::open("/dev/null").unwrap();
        for beside in [Beside::Realtime, Beside::Raw] {
            assert_eq!(precise(&file, beside).unwrap_err().raw_os_error(), Some(libc::ENOTTY));
            assert_eq!(extended(&file, 5, beside).unwrap_err().raw_os_error(), Some(libc::ENOTTY));
        }
        for asked in [stamp_edges(&file, 0, true), make_input(&file, 0, 0)] {
            assert_eq!(asked.unwrap_err().raw_os_error(), Some(libc::ENOTTY));
        }
        assert!(read(&file).is_err());
    }

    #[test]
    fn edges_as_the_kernel_writes_them() {
        assert_eq!(size_of::<libc::ptp_extts_event>(), EDGE);
        let mut bytes = [0; EDGE];
        bytes[..8].copy_from_slice(&7_i64.to_ne_bytes());
        bytes[8..12].copy_from_slice(&5_u32.to_ne_bytes());
        bytes[16..20].copy_from_slice(&3_u32.to_ne_bytes());
        assert_eq!(edge(&bytes), (3, Some(7_000_000_005)));
        bytes[8..12].copy_from_slice(&u32::MAX.to_ne_bytes());
        assert_eq!(edge(&bytes), (3, None));
    }

    #[test]
    fn times() {
        let time = |sec, nsec| ns(libc::ptp_clock_time { sec, nsec, reserved: 0 });
        assert_eq!(time(1, 5), Some(1_000_000_005));
        assert_eq!(time(1, 1_000_000_000), None);
        assert_eq!(time(i64::MAX, 0), None);
    }
}
