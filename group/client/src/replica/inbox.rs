//! Messages over the control socket: one thread at a time reads it, for all that wait.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::Notice;
use super::error::NextError;
use crate::LARGEST_CHECKPOINT;
use crate::link::Link;
use crate::message::{News, limit_to_program};
use crate::packet::{Assembly, LONGEST};
use crate::sys;

/// Bytes that may wait for the program to take them before the socket is left alone.
const MOST_WAITING: usize = 64 << 20;
/// The longest wait without a look at the clock.
const SLICE: Duration = Duration::from_millis(100);
/// Packets that are taken in a row.
const TURN: usize = 64;

/// Things that have come and wait to be taken.
pub(super) struct Inbox {
    state: Mutex<State>,
    changed: Condvar,
}

/// State of the inbox, for who holds the lock.
pub(super) struct State {
    /// For [`super::Replica::next`], with their sizes.
    queue: VecDeque<(usize, Notice)>,
    waiting: usize,
    /// Commits that are waited for, and what became of them.
    pub commits: HashMap<u64, Option<Commit>>,
    /// Statuses, of which so many are waited for.
    pub statuses: VecDeque<String>,
    pub status_wanted: usize,
    assembly: Assembly,
    /// Room for a packet, but while one thread reads.
    packet: Vec<u8>,
    reading: bool,
    /// Threads that wait for the one that reads.
    waiters: usize,
    ended: Option<&'static str>,
    /// The attachment that all this is of.
    of: Option<Arc<Link>>,
}

/// Fate of a commit.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Commit {
    /// A majority has it.
    Done,
    /// Lost.
    Lost,
    /// Nothing can be committed, as the program has missed part of the stream.
    Missed,
}

/// Reason why a wait ended without what was waited for.
pub(super) enum Ended {
    /// The time was up.
    Late,
    /// Nothing more comes of this attachment.
    Gone(NextError),
    /// Too much waits to be taken.
    Full,
}

impl State {
    /// The next event.
    pub fn take(&mut self) -> Option<Notice> {
        let (size, notice) = self.queue.pop_front()?;
        self.waiting -= size;
        Some(notice)
    }

    fn commit(&mut self, token: u64, became: Commit) {
        if let Some(commit) = self.commits.get_mut(&token) {
            *commit = Some(became);
        }
    }

    /// Error if nothing more comes of that attachment: why.
    fn goes_on(&self, link: &Arc<Link>) -> Result<(), NextError> {
        let current = self.of.as_ref().is_some_and(|of| Arc::ptr_eq(of, link));
        match self.ended {
            _ if !current => Err(NextError::Gone(link.closed())),
            None => Ok(()),
            Some("") => Err(NextError::Gone(link.closed())),
            Some(what) => Err(NextError::Malformed(what)),
        }
    }

    fn put(&mut self, size: usize, notice: Notice) {
        self.waiting += size;
        self.queue.push_back((size, notice));
    }

    fn news(&mut self, size: usize, news: News) {
        match news {
            News::Committed { token } => self.commit(token, Commit::Done),
            News::Uncommitted { token, missed } => {
                self.commit(token, if missed { Commit::Missed } else { Commit::Lost });
            }
            News::Status(text) if self.status_wanted > self.statuses.len() => {
                self.statuses.push_back(text);
            }
            News::Status(_) => {}
            news => self.put(size + 64, Notice::News(news)),
        }
    }
}

impl Inbox {
    pub fn new() -> Inbox {
        Inbox {
            state: Mutex::new(State {
                queue: VecDeque::new(),
                waiting: 0,
                commits: HashMap::new(),
                statuses: VecDeque::new(),
                status_wanted: 0,
                assembly: Assembly::new(limit_to_program, LARGEST_CHECKPOINT),
                packet: vec![0; LONGEST + 1],
                reading: false,
                waiters: 0,
                ended: None,
                of: None,
            }),
            changed: Condvar::new(),
        }
    }

    pub fn lock(&self) -> MutexGuard<'_, State> {
        // A panic of another thread leaves nothing half-done that matters.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// There is a new attachment: what was under way with the old one is lost.
    pub fn renew(&self, link: &Arc<Link>) {
        let mut state = self.lock();
        state.assembly = Assembly::new(limit_to_program, LARGEST_CHECKPOINT);
        state.ended = None;
        state.commits.values_mut().for_each(|commit| *commit = Some(Commit::Lost));
        state.statuses.clear();
        if state.of.replace(link.clone()).is_some() {
            state.put(0, Notice::NewAgent);
        }
        self.changed.notify_all();
    }

    /// Waits until `pick` finds what it looks for.
    pub fn wait<T>(
        &self,
        link: &Arc<Link>,
        until: Option<Instant>,
        mut pick: impl FnMut(&mut State) -> Option<T>,
    ) -> Result<T, Ended> {
        let mut state = self.lock();
        loop {
            if let Some(picked) = pick(&mut state) {
                return Ok(picked);
            }
            state.goes_on(link).map_err(Ended::Gone)?;
            if state.waiting > MOST_WAITING {
                return Err(Ended::Full);
            }
            let left = until.map_or(SLICE, |until| until.saturating_duration_since(Instant::now()));
            let slice = left.min(SLICE);
            if state.reading {
                if left.is_zero() {
                    return Err(Ended::Late);
                }
                state.waiters += 1;
                let waited = self.changed.wait_timeout(state, slice);
                state = waited.unwrap_or_else(PoisonError::into_inner).0;
                state.waiters -= 1;
                continue;
            }
            let came = self.read(state, link, slice);
            state = self.lock();
            // What was there at the last moment is still looked at.
            if left.is_zero() && !came {
                return pick(&mut state).ok_or(Ended::Late);
            }
        }
    }

    /// Returns what `pick` finds in what has come; none while it may yet come.
    pub fn look<T>(
        &self,
        link: &Arc<Link>,
        pick: impl FnOnce(&State) -> Option<T>,
    ) -> Result<Option<T>, NextError> {
        let state = self.lock();
        match pick(&state) {
            Some(picked) => Ok(Some(picked)),
            None => state.goes_on(link).map(|()| None),
        }
    }

    /// Reads what comes within `patience`, if nobody else does and there is room. Whether
    /// anything came.
    pub fn pump(&self, link: &Arc<Link>, patience: Duration) -> bool {
        let state = self.lock();
        let current = state.of.as_ref().is_some_and(|of| Arc::ptr_eq(of, link));
        if state.reading || !current || state.ended.is_some() || state.waiting > MOST_WAITING {
            return false;
        }
        self.read(state, link, patience)
    }

    /// True if no more is taken from the socket until the program takes what waits.
    pub fn full(&self) -> bool {
        self.lock().waiting > MOST_WAITING
    }

    fn read(&self, mut state: MutexGuard<'_, State>, link: &Arc<Link>, patience: Duration) -> bool {
        state.reading = true;
        let mut packet = std::mem::take(&mut state.packet);
        drop(state);
        let ns = patience.as_nanos().min(u128::from(u64::MAX)) as u64;
        let has = sys::poll(link.socket(), libc::POLLIN, Some(ns)).unwrap_or(0);
        let mut came = false;
        for _ in 0..if has == 0 { 0 } else { TURN } {
            let mut descriptors = [-1; 4];
            let received = sys::receive(link.socket(), &mut packet, &mut descriptors);
            if matches!(received, Err(libc::EAGAIN)) {
                break;
            }
            if matches!(received, Err(libc::EINTR)) {
                continue;
            }
            came = true;
            let mut state = self.lock();
            if !state.of.as_ref().is_some_and(|of| Arc::ptr_eq(of, link)) {
                break;
            }
            if let Err(ended) = take(&mut state, received, &packet, &descriptors) {
                state.ended = Some(ended);
                break;
            }
        }
        let mut state = self.lock();
        (state.reading, state.packet) = (false, packet);
        // That is a system call for nothing where nobody waits.
        let waiters = state.waiters;
        drop(state);
        if waiters > 0 {
            self.changed.notify_all();
        }
        came
    }
}

/// Takes a packet. As an error, why nothing more comes; empty: it is the end.
fn take(
    state: &mut State,
    received: Result<sys::Received, sys::Errno>,
    packet: &[u8],
    descriptors: &[i32; 4],
) -> Result<(), &'static str> {
    let Ok(received) = received else { return Err("") };
    descriptors.iter().take(received.descriptors).for_each(|number| sys::close(*number));
    let packet = match packet.get(..received.length) {
        _ if received.length == 0 => return Err(""),
        Some(packet) if !received.cut => packet,
        _ => return Err("a packet that is too long"),
    };
    let Some((kind, body)) = state.assembly.take(packet).map_err(|error| error.what)? else {
        return Ok(());
    };
    let news = News::of(kind, &body).map_err(|error| error.what)?;
    state.news(body.len(), news);
    Ok(())
}
