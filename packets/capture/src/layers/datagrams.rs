//! Which datagram a read has taken out of a socket: told by which buffer stands first in the
//! socket's queue.
//!
//! No tracepoint names the buffer that a read of a datagram took. But every report about a socket
//! comes with the buffer that was first in its queue then, and what is first is read next. A reader
//! takes a datagram out and says so a little later; what puts one in says so when it may be out
//! already: so of the buffers that were seen first since the last report of a read, a read is of
//! the last, or if that is still first, of the one before it.
//!
//! Reads of a socket are reported from the moment on at which the first datagram of ours is said to
//! be in its queue. Of one that came in before that, and is out already, nobody knows whether the
//! read of it was too early to be reported; so it is not followed.

use std::collections::{HashMap, VecDeque};

/// Largest number of sockets remembered.
const MOST_SOCKETS: usize = 4096;
/// Of how many datagrams the order is remembered, for each socket that several threads read.
const MOST_ORDERED: usize = 1024;
/// Stands for a buffer that is no concern of ours.
const FOREIGN: u64 = 0;

/// Knowledge of all sockets.
#[derive(Debug, Default)]
pub(super) struct Sockets {
    sockets: HashMap<u64, Heads>,
    /// Number of reports so far.
    reports: u64,
}

/// Heads of the queue of a socket.
#[derive(Debug, Default)]
struct Heads {
    /// The number of the last report about it.
    report: u64,
    /// Of datagrams that came in after the one of this number every read is reported.
    known_from: u64,
    /// The last that was seen there since the last report of a read, and when it was.
    last: Option<u64>,
    seen_ns: u64,
    /// Datagram that was seen there before that.
    before: Option<u64>,
    /// When the last read was that was reported.
    read_ns: u64,
    /// The last read of which nobody could tell what it took, if that left the queue empty; and
    /// when the last and the one before were.
    untold: Option<Read>,
    untold_ns: [u64; 2],
    readers: Readers,
    /// With several readers: ours in the queue, in the order of their arrival.
    order: VecDeque<u64>,
}

/// Readers of a socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Readers {
    #[default]
    Nobody,
    /// One thread, by its number.
    One(u32),
    Several,
}

/// A read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Read {
    pub monotonic_ns: u64,
    /// The bytes that were read; `None` if it failed.
    pub length: Option<u32>,
    pub pid: u32,
    pub thread: u32,
}

/// Datagrams that a read took.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Taken {
    /// Content of this buffer; may be none of ours.
    Buffer(u64),
    /// Nobody knows.
    Unknown,
    /// Several threads read at once, and what was in these is out: who got which, nobody knows.
    Mixed(Vec<u64>),
}

/// A datagram of ours in a socket's queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Own {
    pub buffer: u64,
    /// When it came in.
    pub arrived_ns: u64,
    /// Number of its arrival, counted from 1 on in the order in which arrivals were reported.
    pub arrival: u64,
}

impl Sockets {
    /// Heads of a socket that there is a report about; `arrivals` were reported before.
    fn heads(&mut self, socket: u64, arrivals: u64) -> &mut Heads {
        if self.sockets.len() >= MOST_SOCKETS && !self.sockets.contains_key(&socket) {
            // Those not heard of for the longest time; most of them are closed by now.
            let mut reports: Vec<u64> = self.sockets.values().map(|heads| heads.report).collect();
            let (_, &mut middle, _) = reports.select_nth_unstable(MOST_SOCKETS / 2);
            self.sockets.retain(|_, heads| heads.report > middle);
        }
        self.reports += 1;
        let new = || Heads { known_from: arrivals, ..Heads::default() };
        let heads = self.sockets.entry(socket).or_insert_with(new);
        heads.report = self.reports;
        heads
    }

    /// A datagram was put into the socket's queue; then `first` stood first there, `None` if it was
    /// empty. The read of it, if that was reported before.
    pub fn queued(
        &mut self,
        (socket, arrivals): (u64, u64),
        own: Option<Own>,
        first: Option<u64>,
        monotonic_ns: u64,
    ) -> Option<Read> {
        let heads = self.heads(socket, arrivals);
        let reported = own.filter(|own| own.arrival > heads.known_from);
        // What was seen before a read that was reported is told by that read, which saw more.
        let is_news = monotonic_ns > heads.read_ns;
        match (first, reported) {
            (Some(first), _) if is_news => heads.see(first, monotonic_ns),
            (None, Some(own)) if heads.untold_ns[0] <= own.arrived_ns => {
                // Out, and the read of it is still to be reported; unless it or another may be.
                let next = if heads.last.is_none() { own.buffer } else { FOREIGN };
                if is_news {
                    (heads.before, heads.last) = (None, Some(next));
                }
            }
            (None, Some(own))
                if !is_news
                    && heads.untold_ns[1] <= own.arrived_ns
                    && heads.readers != Readers::Several =>
            {
                return heads.untold.take();
            }
            (None, _) if is_news => (heads.before, heads.last) = (None, Some(FOREIGN)),
            _ => {}
        }
        if let (Readers::Several, Some(own)) = (heads.readers, own) {
            if heads.order.len() >= MOST_ORDERED {
                heads.order.pop_front();
            }
            heads.order.push_back(own.buffer);
        }
        None
    }

    /// A process has read from the socket; then `first` stood first there.
    pub fn read(
        &mut self,
        (socket, arrivals): (u64, u64),
        read: &Read,
        first: Option<u64>,
    ) -> Taken {
        let heads = self.heads(socket, arrivals);
        heads.readers = match heads.readers {
            Readers::Nobody => Readers::One(read.thread),
            Readers::One(thread) if thread == read.thread => Readers::One(thread),
            Readers::One(_) | Readers::Several => Readers::Several,
        };
        // What was seen after this read, but reported before it, is newer.
        let first = heads.last.filter(|_| heads.seen_ns > read.monotonic_ns).or(first);
        let taken = if first.is_some() && first == heads.last { heads.before } else { heads.last };
        (heads.before, heads.last) = (None, first);
        heads.read_ns = read.monotonic_ns;
        if matches!(taken, None | Some(FOREIGN)) {
            heads.untold = first.is_none().then_some(*read);
            heads.untold_ns = [read.monotonic_ns, heads.untold_ns[0]];
        }
        let mixed = heads.skipped(taken, first);
        if !mixed.is_empty() {
            return Taken::Mixed(mixed.into_iter().chain(taken).collect());
        }
        taken.map_or(Taken::Unknown, Taken::Buffer)
    }
}

impl Heads {
    /// `first` stands first now.
    fn see(&mut self, first: u64, monotonic_ns: u64) {
        if self.last != Some(first) {
            (self.before, self.last) = (self.last, Some(first));
        }
        self.seen_ns = monotonic_ns;
    }

    /// Finds what besides `taken` has left the queue and was not reported.
    fn skipped(&mut self, taken: Option<u64>, first: Option<u64>) -> Vec<u64> {
        if let Some(at) = self.order.iter().position(|buffer| Some(*buffer) == taken) {
            self.order.remove(at);
        }
        // Where a stranger is first, nobody knows which of ours are before it.
        let left = match first.map(|first| self.order.iter().position(|own| *own == first)) {
            None => self.order.len(),
            Some(place) => place.unwrap_or(0),
        };
        self.order.drain(..left).collect()
    }
}
