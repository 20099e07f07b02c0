//! The system calls, through libc, with everything unsafe about them kept inside.
//!
//! Sockets are opened plainly and get their flags afterwards, one iovec is used, and the control
//! buffer is generous: clock simulators that stand in for libc ask for that.
#![allow(unsafe_code)]

use std::io;
use std::mem;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use crate::name::Name;

/// Room for control messages, aligned as their headers must be.
#[repr(C, align(8))]
pub(crate) struct ControlBuffer(pub [u8; 512]);

/// What came back from one `recvmsg`.
pub(crate) struct Message {
    /// The datagram's own length, which may be more than the buffer had room for.
    pub size: usize,
    /// From whom; in the error queue, to whom it had been sent.
    pub address: Option<SocketAddr>,
    /// How many bytes of control messages there are.
    pub control: usize,
}

/// A UDP socket of the same family as `address`: closed on exec and never blocking.
pub(crate) fn udp_socket(address: &SocketAddr) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    // SAFETY: no pointers; the descriptor is new and ours alone.
    let fd = unsafe {
        let fd = libc::socket(family, libc::SOCK_DGRAM, 0);
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        OwnedFd::from_raw_fd(fd)
    };
    // SAFETY: no pointers.
    let flags = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GETFL) };
    for (command, value) in
        [(libc::F_SETFD, libc::FD_CLOEXEC), (libc::F_SETFL, flags.max(0) | libc::O_NONBLOCK)]
    {
        // SAFETY: no pointers.
        check(unsafe { libc::fcntl(fd.as_raw_fd(), command, value) } as isize)?;
    }
    Ok(fd)
}

/// Binds the socket.
pub(crate) fn bind(fd: BorrowedFd<'_>, address: &SocketAddr) -> io::Result<()> {
    let name = Name::from(address);
    // SAFETY: `name` holds `name.len` valid bytes for the duration of the call.
    let result = unsafe { libc::bind(fd.as_raw_fd(), name.as_ptr(), name.len) };
    check(result as isize).map(drop)
}

/// The address that the socket is bound to.
pub(crate) fn local_address(fd: BorrowedFd<'_>) -> io::Result<SocketAddr> {
    let mut name = Name::room();
    // SAFETY: `name` has room for `name.len` bytes, and the kernel writes no more.
    let result = unsafe { libc::getsockname(fd.as_raw_fd(), name.as_mut_ptr(), &mut name.len) };
    check(result as isize)?;
    name.address().ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Sets a socket option that is an `int`.
pub(crate) fn set_option(fd: BorrowedFd<'_>, level: i32, name: i32, value: i32) -> io::Result<()> {
    let pointer: *const i32 = &value;
    // SAFETY: the option value is one valid int.
    let result = unsafe {
        libc::setsockopt(fd.as_raw_fd(), level, name, pointer.cast(), size_of::<i32>() as u32)
    };
    check(result as isize).map(drop)
}

/// Takes the socket's pending error, if there is one (and leaves none).
pub(crate) fn take_error(fd: BorrowedFd<'_>) -> Option<i32> {
    let (mut errno, mut len) = (0i32, size_of::<i32>() as u32);
    let pointer: *mut i32 = &mut errno;
    // SAFETY: there is room for one int, and `len` says so.
    let result = unsafe {
        libc::getsockopt(fd.as_raw_fd(), libc::SOL_SOCKET, libc::SO_ERROR, pointer.cast(), &mut len)
    };
    (result == 0 && errno != 0).then_some(errno)
}

/// Sends one datagram.
pub(crate) fn send_to(fd: BorrowedFd<'_>, bytes: &[u8], to: &SocketAddr) -> io::Result<()> {
    let name = Name::from(to);
    // SAFETY: `bytes` and `name` are valid for their lengths for the duration of the call.
    let result = unsafe {
        libc::sendto(
            fd.as_raw_fd(),
            bytes.as_ptr().cast(),
            bytes.len(),
            libc::MSG_NOSIGNAL,
            name.as_ptr(),
            name.len,
        )
    };
    check(result).map(drop)
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
    let size = check(unsafe { libc::recvmsg(fd.as_raw_fd(), &mut header, flags) })?;
    name.len = header.msg_namelen;
    Ok(Message { size, address: name.address(), control: header.msg_controllen as usize })
}

/// A negative result means that errno says why.
fn check(result: isize) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}
