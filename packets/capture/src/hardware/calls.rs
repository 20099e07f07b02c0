//! The system calls around a card's stamps and clock, with everything unsafe kept inside.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_uint};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use super::card::Card;
use super::clock::Device;

/// What a card can do, of `struct ethtool_ts_info`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Abilities {
    /// `SOF_TIMESTAMPING_…`
    pub stamping: u32,
    /// The number of its clock; −1 for none.
    pub clock: i32,
    /// A bit for each `HWTSTAMP_FILTER_…`.
    pub receive_filters: u32,
}

/// What a card does: `struct hwtstamp_config`.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Setting {
    pub flags: c_int,
    /// `HWTSTAMP_TX_…`
    pub transmit: c_int,
    /// `HWTSTAMP_FILTER_…`
    pub receive_filter: c_int,
}

/// `struct ethtool_ts_info`.
#[repr(C)]
#[derive(Default)]
struct Info {
    command: u32,
    stamping: u32,
    clock: i32,
    transmit: u32,
    transmit_reserved: [u32; 3],
    receive_filters: u32,
    receive_reserved: [u32; 3],
}

/// `ETHTOOL_GET_TS_INFO`.
const GET_STAMPING: u32 = 0x41;

/// An interface's card.
pub(super) struct Interface {
    socket: OwnedFd,
    name: [c_char; libc::IFNAMSIZ],
}

impl Interface {
    pub(super) fn named(interface: &str) -> io::Result<Interface> {
        let mut name = [0; libc::IFNAMSIZ];
        if interface.len() >= name.len() {
            return Err(io::Error::from_raw_os_error(libc::ENODEV));
        }
        for (to, from) in name.iter_mut().zip(interface.bytes()) {
            *to = from as c_char;
        }
        // SAFETY: three numbers.
        let fd = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
        check(fd)?;
        // SAFETY: just opened, and nobody else's.
        Ok(Interface { socket: unsafe { OwnedFd::from_raw_fd(fd) }, name })
    }

    /// A request about the card whose argument is a `T`.
    fn ask<T>(&self, number: libc::c_ulong, argument: &mut T) -> io::Result<()> {
        // SAFETY: all zeros is a valid `ifreq`.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        request.ifr_name = self.name;
        request.ifr_ifru.ifru_data = (argument as *mut T).cast();
        let fd = self.socket.as_raw_fd();
        // SAFETY: the callers pair each number with the type that the kernel fills in for it.
        check(unsafe { libc::ioctl(fd, number as libc::Ioctl, &raw mut request) })
    }
}

impl Card for Interface {
    fn abilities(&self) -> io::Result<Abilities> {
        let mut info = Info { command: GET_STAMPING, ..Info::default() };
        self.ask(libc::SIOCETHTOOL, &mut info)?;
        let Info { stamping, clock, receive_filters, .. } = info;
        Ok(Abilities { stamping, clock, receive_filters })
    }

    fn setting(&self) -> io::Result<Setting> {
        let mut setting = Setting::default();
        self.ask(libc::SIOCGHWTSTAMP, &mut setting)?;
        Ok(setting)
    }

    fn set(&self, mut setting: Setting) -> io::Result<Setting> {
        self.ask(libc::SIOCSHWTSTAMP, &mut setting)?;
        Ok(setting)
    }
}

/// How many readings are asked for at once: the narrowest is used.
const READINGS: c_uint = 5;

impl Device for File {
    fn precise(&mut self) -> io::Result<[Option<i64>; 2]> {
        // SAFETY: all zeros is a valid `ptp_sys_offset_precise`.
        let mut answer: libc::ptp_sys_offset_precise = unsafe { std::mem::zeroed() };
        let pointer = &raw mut answer;
        // SAFETY: the request's number holds the size of that structure.
        check(unsafe { libc::ioctl(self.as_raw_fd(), libc::PTP_SYS_OFFSET_PRECISE, pointer) })?;
        Ok([ns(answer.device), ns(answer.sys_realtime)])
    }

    fn extended(&mut self) -> io::Result<Vec<[Option<i64>; 3]>> {
        // SAFETY: all zeros is a valid `ptp_sys_offset_extended`; its clock 0 is `CLOCK_REALTIME`.
        let mut answer: libc::ptp_sys_offset_extended = unsafe { std::mem::zeroed() };
        answer.n_samples = READINGS;
        let pointer = &raw mut answer;
        // SAFETY: the request's number holds the size of that structure.
        check(unsafe { libc::ioctl(self.as_raw_fd(), libc::PTP_SYS_OFFSET_EXTENDED, pointer) })?;
        Ok(answer.ts.iter().take(READINGS as usize).map(|three| three.map(ns)).collect())
    }

    fn read(&mut self) -> io::Result<i64> {
        // A clock behind a file descriptor has a number made of that: see clock_getres(2).
        let id = (!self.as_raw_fd() << 3) | 3;
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: room for a time.
        check(unsafe { libc::clock_gettime(id, &mut time) })?;
        time.tv_sec
            .checked_mul(1_000_000_000)
            .and_then(|seconds| seconds.checked_add(time.tv_nsec))
            .ok_or_else(|| io::ErrorKind::InvalidData.into())
    }
}

/// As nanoseconds; `None` for what no clock shows.
fn ns(time: libc::ptp_clock_time) -> Option<i64> {
    if time.nsec >= 1_000_000_000 {
        return None;
    }
    time.sec.checked_mul(1_000_000_000)?.checked_add(i64::from(time.nsec))
}

fn check(result: c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_are_as_long_as_the_kernel_s() {
        assert_eq!((size_of::<Info>(), size_of::<Setting>()), (44, 12));
    }

    #[test]
    fn a_file_is_no_hardware_clock() {
        let mut file = File::open("/dev/null").unwrap();
        assert_eq!(file.precise().unwrap_err().raw_os_error(), Some(libc::ENOTTY));
        assert_eq!(file.extended().unwrap_err().raw_os_error(), Some(libc::ENOTTY));
        assert!(file.read().is_err());
    }
}
