//! Sockets, and many datagrams with one system call: the only unsafe code of this crate.
#![allow(unsafe_code)]

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd};
use std::{mem, ptr};

use rustix::net::{self, AddressFamily, SocketFlags, SocketType, sockopt};
use truechimer_ntp::{HEADER_LEN, Timestamp};
use truechimer_stamp::control::{Via, write};
use truechimer_stamp::{Name, set_option};

use crate::control::{self, Said};

/// Datagrams received, or sent, with one call.
pub(crate) const BATCH: usize = 32;
/// Bytes kept of a datagram, and at most sent: a request with all that NTS adds to it.
const ROOM: usize = 1280;
/// Where in a packet the transmit timestamp begins.
const TRANSMIT: usize = 40;

/// Manner in which a socket is to be opened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Manner {
    /// Several sockets share the address, and the kernel spreads the clients over them.
    pub shared: bool,
    /// Number of bytes that may wait in it.
    pub queue: usize,
}

/// A socket bound to `address` that stamps what comes in, says to which address it came, and can
/// stamp what goes out.
pub(crate) fn bind(address: &SocketAddr, manner: Manner) -> io::Result<UdpSocket> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let fd = net::socket_with(family, SocketType::DGRAM, flags, None)?;
    let set = |level, name, value| set_option(fd.as_fd(), level, name, value);
    if manner.shared {
        sockopt::set_socket_reuseport(&fd, true)?;
    }
    if address.is_ipv4() {
        set(libc::IPPROTO_IP, libc::IP_PKTINFO, 1)?;
    } else {
        // IPv4 has a socket of its own.
        sockopt::set_ipv6_v6only(&fd, true)?;
        set(libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, 1)?;
    }
    // Without any of these the server works all the same, only less well.
    let stamps = libc::SOF_TIMESTAMPING_SOFTWARE | libc::SOF_TIMESTAMPING_RX_SOFTWARE;
    let _ = set(libc::SOL_SOCKET, libc::SO_TIMESTAMPING, stamps as i32);
    let _ = set(libc::SOL_SOCKET, libc::SO_RXQ_OVFL, 1);
    let _ = sockopt::set_socket_recv_buffer_size(&fd, manner.queue);
    let _ = sockopt::set_socket_send_buffer_size(&fd, manner.queue);
    net::bind(&fd, address)?;
    Ok(UdpSocket::from(fd))
}

/// A datagram that came.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Incoming<'b> {
    /// The first bytes of it.
    pub bytes: &'b [u8],
    /// From where; `None` for a message of the error queue, or an address of no known family.
    pub from: Option<SocketAddr>,
    /// Word of the kernel on it.
    pub said: Said,
}

/// Room for datagrams, and for what the kernel says of each.
pub(crate) struct Received {
    bytes: Box<[[u8; ROOM]; BATCH]>,
    names: Box<[Name; BATCH]>,
    controls: Box<[ControlBytes; BATCH]>,
    /// Of each: its length, and that of the control messages.
    lengths: [(usize, usize); BATCH],
    len: usize,
}

#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct ControlBytes([u8; 192]);

impl Received {
    pub fn new() -> Received {
        Received {
            bytes: Box::new([[0; ROOM]; BATCH]),
            names: Box::new([Name::room(); BATCH]),
            controls: Box::new([ControlBytes([0; 192]); BATCH]),
            lengths: [(0, 0); BATCH],
            len: 0,
        }
    }

    /// Receives what there is, up to [`BATCH`] datagrams, without waiting: how many.
    pub fn receive(&mut self, socket: &UdpSocket, errors: bool) -> usize {
        self.len = 0;
        // SAFETY: null pointers and lengths of 0 make valid headers and buffers of no room.
        let (mut iovecs, mut headers): ([libc::iovec; BATCH], [libc::mmsghdr; BATCH]) =
            unsafe { (mem::zeroed(), mem::zeroed()) };
        let parts = self.bytes.iter_mut().zip(self.names.iter_mut()).zip(self.controls.iter_mut());
        for ((((bytes, name), control), iovec), header) in parts.zip(&mut iovecs).zip(&mut headers)
        {
            iovec.iov_base = bytes.as_mut_ptr().cast();
            iovec.iov_len = ROOM;
            let header = &mut header.msg_hdr;
            header.msg_name = name.as_mut_ptr().cast();
            header.msg_namelen = Name::room().len;
            header.msg_iov = iovec;
            header.msg_iovlen = 1;
            header.msg_control = control.0.as_mut_ptr().cast();
            header.msg_controllen = control.0.len() as _;
        }
        let flags = libc::MSG_DONTWAIT | if errors { libc::MSG_ERRQUEUE } else { 0 };
        // SAFETY: each of the `BATCH` headers points to a name, one iovec and control messages,
        // which are valid for the lengths beside them and borrowed mutably until after the call.
        let got = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                headers.as_mut_ptr(),
                BATCH as u32,
                flags as _,
                ptr::null_mut(),
            )
        };
        self.len = usize::try_from(got).unwrap_or(0).min(BATCH);
        for ((lengths, name), header) in
            self.lengths.iter_mut().zip(self.names.iter_mut()).zip(&headers)
        {
            let (h, len) = (&header.msg_hdr, header.msg_len as usize);
            #[allow(clippy::unnecessary_cast)] // it has 32 bits in some libcs
            let control = h.msg_controllen as usize;
            *lengths = (len, control);
            name.len = h.msg_namelen;
        }
        self.len
    }

    /// Datagrams received, in their order.
    pub fn iter(&self) -> impl Iterator<Item = Incoming<'_>> {
        let parts = self.bytes.iter().zip(self.names.iter()).zip(self.controls.iter());
        parts.zip(&self.lengths).take(self.len).map(|(((bytes, name), control), lengths)| {
            let (len, control_len) = *lengths;
            Incoming {
                bytes: bytes.get(..len.min(ROOM)).unwrap_or_default(),
                from: name.address(),
                said: control.0.get(..control_len).map(control::parse).unwrap_or_default(),
            }
        })
    }
}

/// Packets to send.
pub(crate) struct Outgoing {
    bytes: Box<[[u8; ROOM]; BATCH]>,
    sizes: [usize; BATCH],
    names: Box<[Name; BATCH]>,
    controls: Box<[(ControlBytes, usize); BATCH]>,
    len: usize,
}

impl Outgoing {
    pub fn new() -> Outgoing {
        Outgoing {
            bytes: Box::new([[0; ROOM]; BATCH]),
            sizes: [HEADER_LEN; BATCH],
            names: Box::new([Name::room(); BATCH]),
            controls: Box::new([(ControlBytes([0; 192]), 0); BATCH]),
            len: 0,
        }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn clear(&mut self) {
        self.len = 0;
    }

    /// Adds a packet to `to`, to be sent from where `via` has it, and to be stamped as it leaves
    /// if so wished. Beyond [`BATCH`] none is taken.
    pub fn push(
        &mut self,
        packet: [u8; HEADER_LEN],
        to: &SocketAddr,
        via: Option<Via>,
        stamp: bool,
    ) {
        let i = self.len;
        if let (Some(bytes), Some(name), Some((control, len))) =
            (self.bytes.get_mut(i), self.names.get_mut(i), self.controls.get_mut(i))
        {
            *name = Name::from(to);
            *len = write(&mut control.0, via, stamp);
            let header = bytes.first_chunk_mut::<HEADER_LEN>();
            header.into_iter().for_each(|header| *header = packet);
            self.sizes.iter_mut().skip(i).take(1).for_each(|size| *size = HEADER_LEN);
            self.len += 1;
        }
    }

    /// Puts these bytes in the place of packet `i`; none that are too many.
    pub fn replace(&mut self, i: usize, packet: &[u8]) {
        if let (Some(bytes), Some(size)) = (self.bytes.get_mut(i), self.sizes.get_mut(i)) {
            let room = bytes.get_mut(..packet.len());
            *size = room.map_or(0, |room| {
                room.copy_from_slice(packet);
                packet.len()
            });
        }
    }

    /// The header of packet `i`.
    pub fn header(&self, i: usize) -> Option<&[u8; HEADER_LEN]> {
        self.bytes.get(i)?.first_chunk()
    }

    /// Puts in when packet `i` leaves.
    pub fn set_transmit(&mut self, i: usize, at: Timestamp) {
        let field = self.bytes.get_mut(i).and_then(|bytes| bytes.get_mut(TRANSMIT..TRANSMIT + 8));
        if let Some(field) = field {
            field.copy_from_slice(&at.0.to_be_bytes());
        }
    }

    /// Sends all; how many were not taken by the system.
    pub fn send(&mut self, socket: &UdpSocket) -> usize {
        self.send_some(0..self.len, socket)
    }

    /// Sends packet `i` alone, likewise.
    pub fn send_only(&mut self, i: usize, socket: &UdpSocket) -> usize {
        self.send_some(i..i + 1, socket)
    }

    fn send_some(&mut self, which: Range<usize>, socket: &UdpSocket) -> usize {
        // SAFETY: null pointers and lengths of 0 make valid headers and buffers of no room.
        let (mut iovecs, mut headers): ([libc::iovec; BATCH], [libc::mmsghdr; BATCH]) =
            unsafe { (mem::zeroed(), mem::zeroed()) };
        let parts = self.bytes.iter_mut().zip(self.names.iter_mut()).zip(self.controls.iter_mut());
        for (((((bytes, name), (control, len)), size), iovec), header) in
            parts.zip(&self.sizes).zip(&mut iovecs).zip(&mut headers)
        {
            iovec.iov_base = bytes.as_mut_ptr().cast();
            iovec.iov_len = *size;
            let header = &mut header.msg_hdr;
            header.msg_name = name.as_mut_ptr().cast();
            header.msg_namelen = name.len;
            header.msg_iov = iovec;
            header.msg_iovlen = 1;
            if *len > 0 {
                header.msg_control = control.0.as_mut_ptr().cast();
                header.msg_controllen = *len as _;
            }
        }
        let mut failed = 0;
        let mut left = headers.get_mut(which).unwrap_or_default();
        while !left.is_empty() {
            // SAFETY: each of the headers points to a name, one iovec and control messages, which
            // are valid for the lengths beside them until after the call, and which the kernel
            // only reads.
            let sent = unsafe {
                libc::sendmmsg(
                    socket.as_raw_fd(),
                    left.as_mut_ptr(),
                    left.len() as u32,
                    (libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) as _,
                )
            };
            // The first of them is at fault where none was sent: the others have their turn.
            let done = match usize::try_from(sent) {
                Ok(sent) if sent > 0 => sent,
                _ => {
                    failed += 1;
                    1
                }
            };
            left = left.get_mut(done..).unwrap_or_default();
        }
        failed
    }
}

/// True if the address stands for all addresses of the machine.
pub(crate) fn is_wildcard(address: &SocketAddr) -> bool {
    address.ip().is_unspecified()
}
