//! Questions to rtnetlink.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

use super::message::messages;

/// The kernel answers at once; without an answer, something else is wrong.
const PATIENCE: Duration = Duration::from_secs(5);
/// More than the kernel puts into one datagram.
const DATAGRAM: usize = 64 << 10;

/// Calls `each` with type and body of every message of the answer to a `RTM_GET…` for everything
/// there is; `head` is what the question begins with. Needs no privilege.
pub(super) fn dump(question: u16, head: &[u8], each: &mut dyn FnMut(u16, &[u8])) -> io::Result<()> {
    let socket = socket()?;
    let flags = (libc::NLM_F_REQUEST | libc::NLM_F_DUMP) as u16;
    let length = 16 + head.len() as u32;
    let (length, rest) = (length.to_ne_bytes(), [0; 8]);
    let request =
        [&length[..], &question.to_ne_bytes(), &flags.to_ne_bytes(), &rest, head].concat();
    // SAFETY: as many bytes as there are.
    let sent = unsafe { libc::send(socket.as_raw_fd(), request.as_ptr().cast(), request.len(), 0) };
    if sent < 0 {
        return Err(io::Error::last_os_error());
    }
    let begin = Instant::now();
    let mut buffer = vec![0; DATAGRAM];
    while begin.elapsed() < PATIENCE {
        // SAFETY: the kernel writes at most as many bytes as there is room for.
        let got =
            unsafe { libc::recv(socket.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), 0) };
        let Ok(got) = usize::try_from(got) else {
            match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => continue,
                error => return Err(error),
            }
        };
        for (kind, body) in messages(buffer.get(..got).unwrap_or_default()) {
            match i32::from(kind) {
                libc::NLMSG_DONE => return Ok(()),
                libc::NLMSG_ERROR => {
                    let errno = body.first_chunk().map_or(0, |code| i32::from_ne_bytes(*code));
                    return Err(io::Error::from_raw_os_error(errno.saturating_neg()));
                }
                _ => each(kind, body),
            }
        }
    }
    Err(io::ErrorKind::TimedOut.into())
}

/// A socket that gives up after a while. Unbound: only the kernel knows whom to answer.
fn socket() -> io::Result<OwnedFd> {
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
    // SAFETY: it takes numbers only.
    let fd = unsafe { libc::socket(libc::AF_NETLINK, kind, libc::NETLINK_ROUTE) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has just made it, and nobody else has it.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    let patience = libc::timeval { tv_sec: PATIENCE.as_secs() as libc::time_t, tv_usec: 0 };
    // SAFETY: the kernel reads a structure that is alive, with its size.
    let done = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_RCVTIMEO,
            (&raw const patience).cast(),
            size_of_val(&patience) as libc::socklen_t,
        )
    };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(socket) }
}
