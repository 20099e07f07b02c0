//! A packet socket that asks for every stamp of one packet, sent or received.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_uint, c_ushort};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use truechimer_stamp::{control, set_option};

use crate::ask::set;

/// Bytes of a frame that matter here.
const FRAME: usize = 256;
/// `struct sock_extended_err`: what a stamp is of, and the number of its packet.
const INFO: usize = 8;
const DATA: usize = 12;
/// `SCM_TSTAMP_SND`, `SCM_TSTAMP_SCHED`.
const SENT: u32 = 0;
const QUEUED: u32 = 1;

/// Stamp of a packet that was sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct SentStamp {
    /// Number of the packet, from 0.
    pub number: u32,
    /// Place of the stamp.
    pub by: Place,
    /// ns since 1970 by the clock of that place.
    pub unix_ns: i64,
}

/// Place that stamped a packet on its way out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Place {
    /// Entry into the queue of the interface.
    Queue,
    /// Handing over to the card by the driver.
    Driver,
    /// The card.
    Card,
}

/// Stamps of a packet that arrived: ns since 1970, by the system clock and by the card's.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Received {
    pub kernel: Option<i64>,
    pub card: Option<i64>,
}

/// The socket.
#[derive(Debug)]
pub(super) struct Socket(pub(super) OwnedFd);

impl Socket {
    /// On the interface of this number: sees what arrives there, and not what is sent.
    pub(super) fn open(index: u32) -> io::Result<Socket> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = Socket(socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None)?);
        let wanted = libc::SOF_TIMESTAMPING_TX_SCHED
            | libc::SOF_TIMESTAMPING_TX_SOFTWARE
            | libc::SOF_TIMESTAMPING_TX_HARDWARE
            | libc::SOF_TIMESTAMPING_RX_SOFTWARE
            | libc::SOF_TIMESTAMPING_RX_HARDWARE
            | libc::SOF_TIMESTAMPING_SOFTWARE
            | libc::SOF_TIMESTAMPING_RAW_HARDWARE
            | libc::SOF_TIMESTAMPING_OPT_ID
            | libc::SOF_TIMESTAMPING_OPT_TSONLY
            | libc::SOF_TIMESTAMPING_OPT_TX_SWHW;
        set_option(socket.as_fd(), libc::SOL_SOCKET, libc::SO_TIMESTAMPING, wanted as c_int)?;
        set(socket.as_fd(), libc::PACKET_IGNORE_OUTGOING, &(1 as c_int))?;
        // SAFETY: all zeros is a valid `sockaddr_ll`.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as c_ushort;
        address.sll_protocol = (libc::ETH_P_ALL as c_ushort).to_be();
        address.sll_ifindex = c_int::try_from(index).map_err(|_| io::ErrorKind::InvalidInput)?;
        let length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        // SAFETY: a valid address of that length.
        let bound =
            unsafe { libc::bind(socket.0.as_raw_fd(), (&raw const address).cast(), length) };
        if bound < 0 { Err(io::Error::last_os_error()) } else { Ok(socket) }
    }

    /// Sends a frame as it is.
    pub(super) fn send(&self, frame: &[u8]) -> io::Result<()> {
        rustix::io::write(&self.0, frame)?;
        Ok(())
    }

    /// The next packet that arrived; `None` if there is none.
    pub(super) fn arrived(&self) -> io::Result<Option<Received>> {
        let mut buffer = Control([0; 512]);
        let Some(control) = self.receive(&mut buffer, 0)? else { return Ok(None) };
        let stamps = messages(control)
            .find(|(level, kind, _)| (*level, *kind) == (libc::SOL_SOCKET, libc::SCM_TIMESTAMPING));
        Ok(Some(stamps.map(|(_, _, data)| stamps_in(data)).unwrap_or_default()))
    }

    /// The stamps in the next report on a packet that was sent; `None` if there is none.
    pub(super) fn reported(&self) -> io::Result<Option<Vec<SentStamp>>> {
        let mut buffer = Control([0; 512]);
        let flags = libc::MSG_ERRQUEUE;
        Ok(self.receive(&mut buffer, flags)?.map(report))
    }

    /// Control messages of the next message; `None` if there is none.
    fn receive<'b>(&self, control: &'b mut Control, flags: c_int) -> io::Result<Option<&'b [u8]>> {
        let mut frame = [0u8; FRAME];
        let mut iovec = libc::iovec { iov_base: frame.as_mut_ptr().cast(), iov_len: frame.len() };
        // SAFETY: a msghdr of zeros is a valid one without buffers.
        let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
        header.msg_iov = &raw mut iovec;
        header.msg_iovlen = 1;
        header.msg_control = control.0.as_mut_ptr().cast();
        header.msg_controllen = control.0.len() as _;
        // SAFETY: one iovec and a control buffer, each valid for the length beside it, which nobody
        // else uses during the call.
        let size = unsafe { libc::recvmsg(self.0.as_raw_fd(), &raw mut header, flags) };
        if size < 0 {
            let why = io::Error::last_os_error();
            return match why.kind() {
                io::ErrorKind::WouldBlock => Ok(None),
                _ => Err(why),
            };
        }
        let length = header.msg_controllen as usize;
        Ok(Some(control.0.get(..length).unwrap_or_default()))
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Room for control messages, aligned as their headers must be.
#[repr(C, align(8))]
struct Control([u8; 512]);

/// Level, type and data of each control message.
fn messages(mut bytes: &[u8]) -> impl Iterator<Item = (i32, i32, &[u8])> {
    std::iter::from_fn(move || {
        let (level, kind, data, rest) = control::split(bytes)?;
        bytes = rest;
        Some((level, kind, data))
    })
}

/// The first and the third of three `timespec`s.
fn stamps_in(data: &[u8]) -> Received {
    let card = data.get(2 * size_of::<libc::timespec>()..).and_then(control::stamp);
    Received { kernel: control::stamp(data), card }
}

/// Stamps in the control messages of a report.
fn report(bytes: &[u8]) -> Vec<SentStamp> {
    let (mut stamps, mut of) = (Received::default(), None);
    for (level, kind, data) in messages(bytes) {
        match (level, kind) {
            (libc::SOL_SOCKET, libc::SCM_TIMESTAMPING) => stamps = stamps_in(data),
            (libc::SOL_PACKET, libc::PACKET_TX_TIMESTAMP) => {
                let word = |offset| control::at(data, offset).map(u32::from_ne_bytes);
                of = word(INFO).zip(word(DATA));
            }
            _ => {}
        }
    }
    let Some((info, number)) = of else { return Vec::new() };
    let by_system = match info {
        SENT => Some(Place::Driver),
        QUEUED => Some(Place::Queue),
        _ => None,
    };
    let system = by_system.zip(stamps.kernel);
    let card = stamps.card.filter(|_| info == SENT).map(|unix_ns| (Place::Card, unix_ns));
    let all = system.into_iter().chain(card);
    all.map(|(by, unix_ns)| SentStamp { number, by, unix_ns }).collect()
}

const _: () = assert!(size_of::<c_uint>() == 4);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_control_messages_do_no_harm(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = report(&bytes);
            let _ = stamps_in(&bytes);
        }
    }
}
