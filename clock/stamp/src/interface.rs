//! Questions about network interfaces that rustix does not ask.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_ulong};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::net::netdevice::{index_to_name, name_to_index};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

/// `ETHTOOL_GFLAGS`, `ETHTOOL_GCHANNELS`, `ETHTOOL_GET_TS_INFO`.
const GET_FLAGS: u32 = 0x25;
const GET_CHANNELS: u32 = 0x3c;
const GET_STAMPING: u32 = 0x41;
/// The card takes VLAN tags out of packets.
const FLAG_STRIPS_TAGS: u32 = 1 << 8;

/// `struct ethtool_value`.
#[derive(Default)]
#[repr(C)]
struct Value {
    command: u32,
    data: u32,
}

/// `struct ethtool_channels`.
#[derive(Default)]
#[repr(C)]
struct Channels {
    command: u32,
    most: [u32; 4],
    receive: u32,
    send: u32,
    other: u32,
    combined: u32,
}

/// `struct ethtool_ts_info`.
#[derive(Default)]
#[repr(C)]
struct Info {
    command: u32,
    stamping: u32,
    clock: i32,
    transmit: u32,
    transmit_reserved: [u32; 3],
    receive_filters: u32,
    receive_reserved: [u32; 3],
}

/// Abilities of a card, of `struct ethtool_ts_info`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Abilities {
    /// `SOF_TIMESTAMPING_…`
    pub stamping: u32,
    /// The number of its clock; −1 for none.
    pub clock: i32,
    /// A bit for each `HWTSTAMP_FILTER_…`.
    pub receive_filters: u32,
}

/// Settings of a card: `struct hwtstamp_config`.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Setting {
    /// Zero: none are known yet.
    pub flags: c_int,
    /// `HWTSTAMP_TX_…`
    pub transmit: c_int,
    /// `HWTSTAMP_FILTER_…`
    pub receive_filter: c_int,
}

/// A socket to ask by. It belongs to the calling thread's network namespace.
#[derive(Debug)]
pub struct Asker(OwnedFd);

impl Asker {
    /// A socket in this thread's namespace.
    ///
    /// # Errors
    /// Where the system has none.
    pub fn new() -> io::Result<Asker> {
        let flags = SocketFlags::CLOEXEC;
        Ok(Asker(socket_with(AddressFamily::INET, SocketType::DGRAM, flags, None)?))
    }

    /// The longest packet without its Ethernet header, in bytes.
    ///
    /// # Errors
    /// Where the system says no, or knows of no such interface.
    pub fn mtu(&self, interface: &str) -> io::Result<u32> {
        let answer = ask(self.as_fd(), libc::SIOCGIFMTU, request(interface)?)?;
        // SAFETY: this request fills in this member; any bits are a number.
        u32::try_from(unsafe { answer.ifr_ifru.ifru_mtu })
            .map_err(|_| io::ErrorKind::InvalidData.into())
    }

    /// Number of receive queues in use, if the driver tells.
    ///
    /// # Errors
    /// Where the system says no, or knows of no such interface.
    pub fn queues(&self, interface: &str) -> io::Result<u32> {
        let mut channels = Channels { command: GET_CHANNELS, ..Channels::default() };
        self.fill(libc::SIOCETHTOOL, interface, &mut channels)?;
        Ok(channels.receive.saturating_add(channels.combined))
    }

    /// Says whether the card takes VLAN tags out of packets before an XDP program could see them.
    ///
    /// # Errors
    /// Where the system says no, or knows of no such interface.
    pub fn strips_tags(&self, interface: &str) -> io::Result<bool> {
        let mut flags = Value { command: GET_FLAGS, ..Value::default() };
        self.fill(libc::SIOCETHTOOL, interface, &mut flags)?;
        Ok(flags.data & FLAG_STRIPS_TAGS != 0)
    }

    /// Stamps that the interface's card can take.
    ///
    /// # Errors
    /// Where the system says no, or knows of no such interface.
    pub fn abilities(&self, interface: &str) -> io::Result<Abilities> {
        let mut info = Info { command: GET_STAMPING, ..Info::default() };
        self.fill(libc::SIOCETHTOOL, interface, &mut info)?;
        let Info { stamping, clock, receive_filters, .. } = info;
        Ok(Abilities { stamping, clock, receive_filters })
    }

    /// Stamps that it takes now.
    ///
    /// # Errors
    /// Where the system says no, or knows of no such interface.
    pub fn setting(&self, interface: &str) -> io::Result<Setting> {
        let mut setting = Setting::default();
        self.fill(libc::SIOCGHWTSTAMP, interface, &mut setting)?;
        Ok(setting)
    }

    /// Has it do that; what it made of it.
    ///
    /// # Errors
    /// Where the system says no, or knows of no such interface.
    pub fn set(&self, interface: &str, mut setting: Setting) -> io::Result<Setting> {
        self.fill(libc::SIOCSHWTSTAMP, interface, &mut setting)?;
        Ok(setting)
    }

    /// A request whose argument is a `T`, beginning with what is wished for.
    fn fill<T>(&self, number: c_ulong, interface: &str, argument: &mut T) -> io::Result<()> {
        let mut wish = request(interface)?;
        wish.ifr_ifru.ifru_data = (&raw mut *argument).cast();
        ask(self.as_fd(), number, wish).map(drop)
    }
}

impl AsFd for Asker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// The number of the interface of this name.
///
/// # Errors
/// If there is none.
pub fn index(socket: BorrowedFd<'_>, name: &str) -> io::Result<u32> {
    request(name)?;
    Ok(name_to_index(socket, name)?)
}

/// The name of the interface of this number.
///
/// # Errors
/// If there is none.
pub fn name(socket: BorrowedFd<'_>, index: u32) -> io::Result<String> {
    Ok(index_to_name(socket, index)?)
}

/// The flags (`IFF_…`, the lower 16) of the interface of this name.
///
/// # Errors
/// If there is none.
pub fn flags(socket: BorrowedFd<'_>, name: &str) -> io::Result<u32> {
    let answer = ask(socket, libc::SIOCGIFFLAGS, request(name)?)?;
    // SAFETY: this request fills in this member; any bits are a number.
    Ok(u32::from(unsafe { answer.ifr_ifru.ifru_flags } as u16))
}

/// The kind of hardware (`ARPHRD_…`) of the interface of this name.
///
/// # Errors
/// If there is none.
pub fn hardware(socket: BorrowedFd<'_>, name: &str) -> io::Result<u16> {
    let answer = ask(socket, libc::SIOCGIFHWADDR, request(name)?)?;
    // SAFETY: as above.
    Ok(unsafe { answer.ifr_ifru.ifru_hwaddr.sa_family })
}

/// The Ethernet address of the interface of this name; zeros where it has none.
///
/// # Errors
/// If there is none.
pub fn address(socket: BorrowedFd<'_>, name: &str) -> io::Result<[u8; 6]> {
    let answer = ask(socket, libc::SIOCGIFHWADDR, request(name)?)?;
    // SAFETY: as above.
    let bytes = unsafe { answer.ifr_ifru.ifru_hwaddr.sa_data };
    let [a, b, c, d, e, f, ..] = bytes.map(|byte| byte as u8);
    Ok([a, b, c, d, e, f])
}

/// A request about the interface of this name; no interface has one that does not fit.
fn request(name: &str) -> io::Result<libc::ifreq> {
    // SAFETY: zeros are a value of this structure of numbers and a pointer.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    // One byte stays 0.
    if name.is_empty() || name.len() >= request.ifr_name.len() || name.contains('\0') {
        return Err(io::Error::from_raw_os_error(libc::ENODEV));
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as c_char;
    }
    Ok(request)
}

fn ask(
    socket: BorrowedFd<'_>,
    number: c_ulong,
    mut request: libc::ifreq,
) -> io::Result<libc::ifreq> {
    // SAFETY: the requests of this file read and write an `ifreq`, and what its pointer points to
    // (if it has one) is alive and what its number and command say.
    let done = unsafe { libc::ioctl(socket.as_raw_fd(), number as libc::Ioctl, &raw mut request) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(request) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_are_as_long_as_the_kernel_s() {
        assert_eq!((size_of::<Info>(), size_of::<Setting>()), (44, 12));
        assert_eq!((size_of::<Value>(), size_of::<Channels>()), (8, 36));
    }

    #[test]
    fn loopback_tells_its_size_and_nobody_else_does() {
        let asker = Asker::new().unwrap();
        assert!(asker.mtu("lo").unwrap() >= 68);
        let lo = index(asker.as_fd(), "lo").unwrap();
        assert_eq!(name(asker.as_fd(), lo).unwrap(), "lo");
        for name in ["", "no-such-one", "a-name-of-sixteen", "lo\0b"] {
            let missing = index(asker.as_fd(), name).unwrap_err();
            assert_eq!(missing.raw_os_error(), Some(libc::ENODEV), "{name:?}");
            assert!(asker.mtu(name).is_err() && asker.abilities(name).is_err());
            assert!(asker.queues(name).is_err() && asker.strips_tags(name).is_err());
        }
    }
}
