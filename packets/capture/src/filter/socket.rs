//! Putting a filter on a socket.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};

use super::code::{Instruction, op};

/// Puts `code` on the socket. Packets that queued up before it are thrown away.
///
/// A filter that lets nothing through comes first, then the queue is emptied, then the real one is
/// exchanged for the first, which is atomic. A ring cannot be emptied like this: there the filter
/// must stand before the socket is bound.
pub(crate) fn attach(socket: BorrowedFd<'_>, code: &[Instruction]) -> io::Result<()> {
    exchange(socket, &[Instruction::plain(op::RETURN, 0)])?;
    while drop_one(socket)? {}
    exchange(socket, code)
}

/// Exchanges the socket's filter, if it has one, for `code`.
pub(crate) fn exchange(socket: BorrowedFd<'_>, code: &[Instruction]) -> io::Result<()> {
    let length = u16::try_from(code.len())
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "the filter is too long"))?;
    let program = libc::sock_fprog {
        len: length,
        filter: code.as_ptr().cast_mut().cast::<libc::sock_filter>(),
    };
    // SAFETY: `Instruction` is laid out as `sock_filter`; `program` has as many of them as it
    // says, and the kernel only reads them.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            (&raw const program).cast(),
            size_of::<libc::sock_fprog>() as libc::socklen_t,
        )
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Takes a packet off the queue; whether there was one.
fn drop_one(socket: BorrowedFd<'_>) -> io::Result<bool> {
    match recv(socket, &mut [0_u8; 1][..], RecvFlags::DONTWAIT | RecvFlags::TRUNC) {
        // One error is reported once: what is queued behind it is asked for again.
        Ok(_) | Err(Errno::INTR | Errno::NETDOWN) => Ok(true),
        // Nothing there; nothing there any more, not even the interface.
        Err(Errno::AGAIN | Errno::NODEV) => Ok(false),
        Err(why) => Err(why.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instruction_is_laid_out_as_the_kernel_s() {
        assert_eq!(size_of::<Instruction>(), size_of::<libc::sock_filter>());
        assert_eq!(align_of::<Instruction>(), align_of::<libc::sock_filter>());
    }
}
