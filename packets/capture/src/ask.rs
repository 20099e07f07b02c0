//! Options of a packet socket that several taps set.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Sets an option of a packet socket, to a value of the type that the kernel has for it.
pub(crate) fn set<T>(socket: BorrowedFd<'_>, option: c_int, value: &T) -> io::Result<()> {
    let length = size_of::<T>() as libc::socklen_t;
    let value = std::ptr::from_ref(value).cast();
    // SAFETY: a value of that length, which the kernel only reads.
    let done =
        unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_PACKET, option, value, length) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Has the interface of this number hear packets for everybody while the socket is open, or no
/// longer. (The kernel counts those who want that: others' wishes are left alone.)
pub(crate) fn promiscuous(socket: BorrowedFd<'_>, index: u32, on: bool) -> io::Result<()> {
    let wish = libc::packet_mreq {
        mr_ifindex: c_int::try_from(index).map_err(|_| io::ErrorKind::InvalidInput)?,
        mr_type: libc::PACKET_MR_PROMISC as u16,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    let option = if on { libc::PACKET_ADD_MEMBERSHIP } else { libc::PACKET_DROP_MEMBERSHIP };
    set(socket, option, &wish)
}
