//! The system calls that rustix lacks, through libc, with everything unsafe about them kept inside.
//!
//! Sockets are opened plainly and get their flags afterwards, one iovec is used, and the control
//! buffer is generous: clock simulators that stand in for libc ask for that.
#![allow(unsafe_code)]

use std::ffi::CStr;
use std::io;
use std::mem;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::net::{AddressFamily, SocketType};

use crate::control::{self, Via};
use crate::name::Name;

/// Room for control messages, aligned as their headers must be.
#[repr(C, align(8))]
pub(crate) struct ControlBuffer(pub [u8; 512]);

/// Message from one `recvmsg`.
pub(crate) struct Message {
    /// The datagram's own length, which may be more than the buffer had room for.
    pub size: usize,
    /// From whom; in the error queue, to whom it had been sent.
    pub address: Option<SocketAddr>,
    /// Number of bytes of control messages.
    pub control: usize,
}

/// A UDP socket of the same family as `address`: closed on exec and never blocking.
pub(crate) fn udp_socket(address: &SocketAddr) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    datagrams(family)
}

/// A socket for the contents of link-layer frames, none before it is bound: closed on exec and never
/// blocking.
pub(crate) fn packet_socket() -> io::Result<OwnedFd> {
    datagrams(AddressFamily::PACKET)
}

fn datagrams(family: AddressFamily) -> io::Result<OwnedFd> {
    let fd = rustix::net::socket(family, SocketType::DGRAM, None)?;
    fcntl_setfd(&fd, FdFlags::CLOEXEC)?;
    fcntl_setfl(&fd, fcntl_getfl(&fd).unwrap_or(OFlags::empty()) | OFlags::NONBLOCK)?;
    Ok(fd)
}

/// Binds a socket to an address.
pub(crate) fn bind(fd: BorrowedFd<'_>, name: &Name) -> io::Result<()> {
    // SAFETY: the name is valid for its length.
    let result = unsafe { libc::bind(fd.as_raw_fd(), name.as_ptr(), name.len) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Sends a datagram.
pub(crate) fn send(fd: BorrowedFd<'_>, bytes: &[u8], to: &Name) -> io::Result<()> {
    let (start, flags) = (bytes.as_ptr().cast(), libc::MSG_NOSIGNAL);
    // SAFETY: bytes and name are each valid for their length.
    let sent =
        unsafe { libc::sendto(fd.as_raw_fd(), start, bytes.len(), flags, to.as_ptr(), to.len) };
    if sent >= 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Sends a datagram from this address of ours.
pub(crate) fn send_via(fd: BorrowedFd<'_>, bytes: &[u8], to: &Name, via: Via) -> io::Result<()> {
    let mut control = ControlBuffer([0; 512]);
    let length = control::write(&mut control.0, Some(via), false);
    let mut iovec =
        libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    // SAFETY: a msghdr of zeroes is a valid one without buffers (some libcs have private fields).
    let mut header: libc::msghdr = unsafe { mem::zeroed() };
    header.msg_name = to.as_ptr().cast_mut().cast();
    header.msg_namelen = to.len;
    header.msg_iov = &mut iovec;
    header.msg_iovlen = 1;
    header.msg_control = control.0.as_mut_ptr().cast();
    header.msg_controllen = length as _;
    // SAFETY: `header` points to a name, one iovec and control messages, each valid for the length beside it during the
    // call, which writes to none of them.
    let sent = unsafe { libc::sendmsg(fd.as_raw_fd(), &header, libc::MSG_NOSIGNAL) };
    if sent >= 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Sets a socket option that is an `int`.
///
/// # Errors
/// What the system says.
pub fn set_option(fd: BorrowedFd<'_>, level: i32, name: i32, value: i32) -> io::Result<()> {
    let pointer: *const i32 = &value;
    // SAFETY: the option value is one valid int.
    let result = unsafe {
        libc::setsockopt(fd.as_raw_fd(), level, name, pointer.cast(), size_of::<i32>() as u32)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Sets a socket option that is a row of bytes.
pub(crate) fn set_option_bytes(
    fd: BorrowedFd<'_>,
    level: i32,
    name: i32,
    value: &[u8],
) -> io::Result<()> {
    let length = libc::socklen_t::try_from(value.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let pointer = value.as_ptr().cast();
    // SAFETY: the option value is that many valid bytes.
    let result = unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, pointer, length) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Index of the network interface of this name.
pub(crate) fn interface_index(name: &CStr) -> io::Result<i32> {
    // SAFETY: the name is a valid C string.
    let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
    match i32::try_from(index) {
        Ok(index @ 1..) => Ok(index),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Receives one datagram, from the error queue if `flags` say so.
pub(crate) fn receive(
    fd: BorrowedFd<'_>,
    bytes: &mut [u8],
    control: &mut ControlBuffer,
    flags: i32,
) -> io::Result<Message> {
    let mut name = Name::room();
    let mut iovec = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    // SAFETY: a msghdr of zeroes is a valid one without buffers (some libcs have private fields).
    let mut header: libc::msghdr = unsafe { mem::zeroed() };
    header.msg_name = name.as_mut_ptr().cast();
    header.msg_namelen = name.len;
    header.msg_iov = &mut iovec;
    header.msg_iovlen = 1;
    header.msg_control = control.0.as_mut_ptr().cast();
    header.msg_controllen = control.0.len() as _;
    // SAFETY: `header` points to a name, one iovec and a control buffer, each valid for the length
    // beside it and borrowed mutably for the duration of the call.
    let size = unsafe { libc::recvmsg(fd.as_raw_fd(), &mut header, flags) };
    let size = usize::try_from(size).map_err(|_| io::Error::last_os_error())?;
    name.len = header.msg_namelen;
    Ok(Message { size, address: name.address(), control: header.msg_controllen as usize })
}
