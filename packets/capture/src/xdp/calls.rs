//! System calls that ask about an interface, or make it listen to all packets.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_int};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

const GET_FLAGS: u32 = 0x25;
const GET_CHANNELS: u32 = 0x3c;
/// The card takes VLAN tags out of packets.
const FLAG_STRIPS_TAGS: u32 = 1 << 8;

/// `struct ethtool_channels`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
struct Channels {
    command: u32,
    most: [u32; 4],
    receive: u32,
    send: u32,
    other: u32,
    combined: u32,
}

/// `struct ethtool_value`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
struct Value {
    command: u32,
    data: u32,
}

/// A socket to ask by. It belongs to the calling thread's network namespace.
#[derive(Debug)]
pub(super) struct Asker(OwnedFd);

impl Asker {
    pub fn new() -> io::Result<Asker> {
        // SAFETY: it takes numbers only.
        let fd = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
        owned(fd).map(Asker)
    }

    fn ask(&self, what: libc::c_ulong, mut request: libc::ifreq) -> io::Result<libc::ifreq> {
        // SAFETY: the requests made here read and write an `ifreq`, and what its pointer points to
        // (if it has one) is alive and as long as its command says.
        let done =
            unsafe { libc::ioctl(self.0.as_raw_fd(), what as libc::Ioctl, &raw mut request) };
        if done < 0 { Err(io::Error::last_os_error()) } else { Ok(request) }
    }

    /// The longest packet without its Ethernet header, in bytes.
    pub fn mtu(&self, interface: &str) -> io::Result<u32> {
        let answer = self.ask(libc::SIOCGIFMTU, request(interface)?)?;
        // SAFETY: this request fills in this member; any bits are a number.
        u32::try_from(unsafe { answer.ifr_ifru.ifru_mtu }).map_err(|_| invalid())
    }

    /// How many receive queues are in use, if the driver tells.
    pub fn queues(&self, interface: &str) -> io::Result<u32> {
        let mut channels = Channels { command: GET_CHANNELS, ..Channels::default() };
        self.ethtool(interface, &raw mut channels)?;
        Ok(channels.receive.saturating_add(channels.combined))
    }

    /// Whether the card takes VLAN tags out of packets before an XDP program could see them.
    pub fn strips_tags(&self, interface: &str) -> io::Result<bool> {
        let mut flags = Value { command: GET_FLAGS, data: 0 };
        self.ethtool(interface, &raw mut flags)?;
        Ok(flags.data & FLAG_STRIPS_TAGS != 0)
    }

    fn ethtool<T>(&self, interface: &str, question: *mut T) -> io::Result<()> {
        let mut wish = request(interface)?;
        wish.ifr_ifru.ifru_data = question.cast();
        self.ask(libc::SIOCETHTOOL, wish).map(drop)
    }
}

/// Lets an interface hear packets for everybody until it is dropped, or the process ends. (The
/// kernel counts those who want that: others' wishes are left alone.)
#[derive(Debug)]
pub(super) struct Promiscuous {
    _socket: OwnedFd,
}

impl Promiscuous {
    pub fn on(interface: u32) -> io::Result<Promiscuous> {
        // SAFETY: it takes numbers only. Protocol 0: this socket itself gets no packets.
        let socket = owned(unsafe {
            libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0)
        })?;
        let wish = libc::packet_mreq {
            mr_ifindex: c_int::try_from(interface).map_err(|_| invalid())?,
            mr_type: libc::PACKET_MR_PROMISC as u16,
            mr_alen: 0,
            mr_address: [0; 8],
        };
        // SAFETY: the kernel reads a structure that is alive, with its size.
        let done = unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_ADD_MEMBERSHIP,
                (&raw const wish).cast(),
                size_of_val(&wish) as libc::socklen_t,
            )
        };
        if done < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Promiscuous { _socket: socket })
    }
}

fn request(interface: &str) -> io::Result<libc::ifreq> {
    // SAFETY: zeros are a value of this structure of numbers and a pointer.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    let name = interface.as_bytes();
    // One byte stays 0.
    if name.is_empty() || name.len() >= request.ifr_name.len() || name.contains(&0) {
        return Err(io::ErrorKind::NotFound.into());
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name) {
        *to = *from as c_char;
    }
    Ok(request)
}

fn owned(fd: c_int) -> io::Result<OwnedFd> {
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has just made it, and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn invalid() -> io::Error {
    io::ErrorKind::InvalidData.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_tells_its_size_and_nobody_else_does() {
        let asker = Asker::new().unwrap();
        assert!(asker.mtu("lo").unwrap() >= 68);
        for name in ["", "no-such-one", "a-name-of-sixteen", "a\0b"] {
            assert!(asker.mtu(name).is_err(), "{name:?}");
            assert!(asker.queues(name).is_err() && asker.strips_tags(name).is_err());
        }
    }
}
