//! Which datagram a read has taken out of a socket: told by their order.

use std::collections::{HashMap, VecDeque};

/// How many sockets are remembered, and how many datagrams in all of them.
const MOST_SOCKETS: usize = 4096;
const MOST_QUEUED: usize = 65_536;

/// A datagram that is no concern of ours, or one of ours.
type Place<T> = Option<T>;

/// The queues of all sockets.
///
/// What went into a queue first comes out first. Both ends are seen, by reports that may be late:
/// a reader takes a datagram out and says so a little later; what puts one in says so when it may
/// be out already. So the queue here may be ahead of the kernel's by what readers are busy with,
/// and behind by one. The kernel's own count, which comes with every arrival, keeps the two
/// together.
#[derive(Debug)]
pub(super) struct Queues<T> {
    sockets: HashMap<u64, Queue<T>>,
    queued: usize,
}

impl<T> Default for Queues<T> {
    fn default() -> Self {
        Queues { sockets: HashMap::new(), queued: 0 }
    }
}

#[derive(Debug)]
struct Queue<T> {
    places: VecDeque<Place<T>>,
    /// How many of the places were there when the kernel's queue was last known to be empty: if
    /// they still are when it is again, nobody will ever say that they were read.
    from_before: usize,
    /// A read of a datagram whose arrival was not reported yet.
    early: Option<Read>,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Queue { places: VecDeque::new(), from_before: 0, early: None }
    }
}

/// A read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Read {
    pub monotonic_ns: u64,
    pub length: u32,
    pub pid: u32,
}

impl<T> Queues<T> {
    /// A datagram is in the socket's queue, which has `waiting` in it now. Returns it at once if
    /// it is out already, and whatever will never be read.
    pub fn queued(&mut self, socket: u64, datagram: Place<T>, waiting: u32) -> Queued<T> {
        if self.queued >= MOST_QUEUED || self.sockets.len() >= MOST_SOCKETS {
            // A program that has stopped reading; the memory is for those that do.
            let forgotten = self.sockets.drain().flat_map(|(_, queue)| queue.places).flatten();
            let unread = forgotten.collect();
            self.queued = 0;
            return Queued { read: self.queued(socket, datagram, waiting).read, unread };
        }
        let queue = self.sockets.entry(socket).or_default();
        let mut unread = Vec::new();
        self.queued -= queue.places.len();
        match (waiting as usize).min(MOST_QUEUED) {
            0 => {
                if let Some(read) = queue.early.take() {
                    self.queued += queue.places.len();
                    return Queued { read: datagram.map(|datagram| (datagram, read)), unread };
                }
            }
            1 => {
                unread.extend(queue.places.drain(..queue.from_before).flatten());
                queue.from_before = queue.places.len();
            }
            // Some were there before we looked, or were not reported.
            waiting if queue.places.len() < waiting - 1 => {
                unread.extend(queue.places.drain(..).flatten());
                queue.places.extend(std::iter::repeat_with(|| None).take(waiting - 1));
                queue.from_before = 0;
            }
            _ => {}
        }
        queue.early = None;
        queue.places.push_back(datagram);
        self.queued += queue.places.len();
        Queued { read: None, unread }
    }

    /// A process has read from the socket: the datagram that it must have been, if it is ours and
    /// `fits`; all that was thought to be in the queue, if it does not fit.
    pub fn read(
        &mut self,
        socket: u64,
        read: Read,
        fits: impl Fn(&T) -> bool,
    ) -> Result<Option<T>, Vec<T>> {
        let Some(queue) = self.sockets.get_mut(&socket) else { return Ok(None) };
        let Some(place) = queue.places.pop_front() else {
            queue.early = Some(read);
            return Ok(None);
        };
        self.queued -= 1;
        queue.from_before = queue.from_before.saturating_sub(1);
        match place {
            Some(datagram) if !fits(&datagram) => {
                let queue = self.sockets.remove(&socket).unwrap_or_default();
                self.queued -= queue.places.len();
                Err([Some(datagram)].into_iter().chain(queue.places).flatten().collect())
            }
            place => Ok(place),
        }
    }
}

/// What an arrival tells.
#[derive(Debug)]
pub(super) struct Queued<T> {
    /// The datagram, if it was read before this.
    pub read: Option<(T, Read)>,
    /// Datagrams whose read nobody will report.
    pub unread: Vec<T>,
}
