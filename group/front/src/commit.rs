//! Work that waits, on threads of its own, and the waking of the front when it is done.

use std::io::{Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};

use truechimer_group::Point;

use crate::ring::Committer;

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

/// Asks whether a majority has what replies depend on, one question at a time.
#[derive(Debug)]
pub struct Commits {
    ask: Sender<Point>,
    told: Receiver<(Point, Result<(), String>)>,
    asked: Option<Point>,
}

impl Commits {
    /// Starts the thread.
    pub fn start(mut committer: Committer, waker: Waker) -> std::io::Result<Commits> {
        let (ask, questions) = mpsc::channel::<Point>();
        let (tell, told) = mpsc::channel();
        std::thread::Builder::new().name("commit".into()).spawn(move || {
            for point in questions {
                let answer = committer(point);
                if tell.send((point, answer)).is_err() {
                    break;
                }
                waker.wake();
            }
        })?;
        Ok(Commits { ask, told, asked: None })
    }

    /// Asks about that place, unless a question is open.
    pub fn ask(&mut self, point: Point) {
        if self.asked.is_none() && self.ask.send(point).is_ok() {
            self.asked = Some(point);
        }
    }

    /// The answer, if one has come.
    pub fn answer(&mut self) -> Option<(Point, Result<(), String>)> {
        let answer = self.told.try_recv().ok()?;
        self.asked = None;
        Some(answer)
    }
}
