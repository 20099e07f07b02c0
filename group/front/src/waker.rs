//! The waking of the front when a thread is done with work that waits.

use std::io::{Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

/// Wakes the front out of poll(2).
#[derive(Clone, Debug)]
pub struct Waker(Arc<UnixStream>);

/// The front's end of it.
#[derive(Debug)]
pub struct Woken(UnixStream);

/// Both ends.
pub fn waker() -> std::io::Result<(Waker, Woken)> {
    let (wake, woken) = UnixStream::pair()?;
    wake.set_nonblocking(true)?;
    woken.set_nonblocking(true)?;
    Ok((Waker(Arc::new(wake)), Woken(woken)))
}

impl Waker {
    /// Wakes it; once is as good as often.
    pub fn wake(&self) {
        let _ = (&*self.0).write(&[1]);
    }
}

impl Woken {
    /// To poll.
    pub fn descriptor(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    /// Takes what has come.
    pub fn clear(&mut self) {
        let mut buffer = [0; 64];
        while self.0.read(&mut buffer).is_ok_and(|length| length == buffer.len()) {}
    }
}
