//! The system calls that tell about interfaces, with everything unsafe about them kept inside.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// A socket to ask about interfaces by.
pub(super) fn any_socket() -> io::Result<OwnedFd> {
    // SAFETY: three numbers.
    owned(unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) })
}

/// A socket that hears of changes of links, and does not block.
pub(super) fn link_socket() -> io::Result<OwnedFd> {
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: three numbers.
    let socket = owned(unsafe { libc::socket(libc::AF_NETLINK, kind, libc::NETLINK_ROUTE) })?;
    // SAFETY: all zeros is a valid `sockaddr_nl`.
    let mut address: libc::sockaddr_nl = unsafe { std::mem::zeroed() };
    address.nl_family = libc::AF_NETLINK as libc::sa_family_t;
    address.nl_groups = libc::RTMGRP_LINK as u32;
    let length = size_of::<libc::sockaddr_nl>() as libc::socklen_t;
    // SAFETY: a valid address of that length.
    check(unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) })?;
    Ok(socket)
}

/// A datagram from the kernel; `None` if there is none now. One from elsewhere reads as empty.
pub(super) fn receive(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<Option<usize>> {
    // SAFETY: all zeros is a valid `sockaddr_nl`.
    let mut from: libc::sockaddr_nl = unsafe { std::mem::zeroed() };
    let mut length = size_of::<libc::sockaddr_nl>() as libc::socklen_t;
    // SAFETY: the buffer and the address are as long as is said.
    let got = unsafe {
        libc::recvfrom(
            socket.as_raw_fd(),
            buffer.as_mut_ptr().cast(),
            buffer.len(),
            libc::MSG_DONTWAIT,
            (&raw mut from).cast(),
            &mut length,
        )
    };
    match usize::try_from(got) {
        Ok(bytes) => Ok(Some(if from.nl_pid == 0 { bytes } else { 0 })),
        Err(_) => {
            let why = io::Error::last_os_error();
            match why.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(None),
                _ => Err(why),
            }
        }
    }
}

/// The number of the interface of this name.
pub(super) fn index(socket: BorrowedFd<'_>, name: &str) -> io::Result<u32> {
    let request = ask(socket, libc::SIOCGIFINDEX, request(name)?)?;
    // SAFETY: the kernel wrote this member; any bits are a number.
    let index = unsafe { request.ifr_ifru.ifru_ifindex };
    u32::try_from(index).map_err(|_| io::ErrorKind::InvalidData.into())
}

/// The flags (`IFF_…`, the lower 16) of the interface of this name.
pub(super) fn flags(socket: BorrowedFd<'_>, name: &str) -> io::Result<u32> {
    let request = ask(socket, libc::SIOCGIFFLAGS, request(name)?)?;
    // SAFETY: as above.
    Ok(u32::from(unsafe { request.ifr_ifru.ifru_flags } as u16))
}

/// The kind of hardware (`ARPHRD_…`) of the interface of this name.
pub(super) fn hardware(socket: BorrowedFd<'_>, name: &str) -> io::Result<u16> {
    let request = ask(socket, libc::SIOCGIFHWADDR, request(name)?)?;
    // SAFETY: as above.
    Ok(unsafe { request.ifr_ifru.ifru_hwaddr.sa_family })
}

/// The name of the interface of this number.
pub(super) fn name(socket: BorrowedFd<'_>, index: u32) -> io::Result<String> {
    let mut blank = request("")?;
    blank.ifr_ifru.ifru_ifindex = c_int::try_from(index).unwrap_or(-1);
    let mut answer = ask(socket, libc::SIOCGIFNAME, blank)?;
    if let Some(last) = answer.ifr_name.last_mut() {
        *last = 0;
    }
    // SAFETY: the array ends with a 0.
    let name = unsafe { CStr::from_ptr(answer.ifr_name.as_ptr()) };
    Ok(name.to_string_lossy().into_owned())
}

/// A request about the interface of this name; no interface has one that does not fit.
fn request(name: &str) -> io::Result<libc::ifreq> {
    // SAFETY: all zeros is a valid `ifreq`.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if name.len() >= request.ifr_name.len() || name.contains('\0') {
        return Err(io::ErrorKind::NotFound.into());
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as c_char;
    }
    Ok(request)
}

fn ask(
    socket: BorrowedFd<'_>,
    number: libc::c_ulong,
    mut request: libc::ifreq,
) -> io::Result<libc::ifreq> {
    // SAFETY: these requests take and fill in an `ifreq`.
    check(unsafe { libc::ioctl(socket.as_raw_fd(), number as libc::Ioctl, &raw mut request) })?;
    Ok(request)
}

fn owned(fd: c_int) -> io::Result<OwnedFd> {
    check(fd)?;
    // SAFETY: just opened, and nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn check(result: c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
