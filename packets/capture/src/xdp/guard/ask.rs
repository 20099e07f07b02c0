//! Questions to rtnetlink.

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with,
};

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
    send(&socket, &request, SendFlags::empty())?;
    let begin = Instant::now();
    let mut buffer = vec![0; DATAGRAM];
    while begin.elapsed() < PATIENCE {
        let got = match recv(&socket, &mut buffer[..], RecvFlags::empty()) {
            Ok((got, _)) => got,
            Err(Errno::INTR) => continue,
            Err(why) => return Err(why.into()),
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
    let flags = SocketFlags::CLOEXEC;
    // Of netlink's protocols the one that is none to rustix: `NETLINK_ROUTE`.
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
    set_socket_timeout(&socket, Timeout::Recv, Some(PATIENCE))?;
    Ok(socket)
}
