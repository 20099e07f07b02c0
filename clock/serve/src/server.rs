//! The server: one socket, one loop, one answer to each request.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use truechimer_counter::{Choice, Counter, resolution};
use truechimer_ntp::server::{ServerState, respond};
use truechimer_ntp::{LeapIndicator, Log2, RefId, Short, Timestamp};
use truechimer_stamp::{PairLog, Received, Socket, readable};
use truechimer_time::{Count, Instant, Period, Span};

use crate::{ServedClock, Tally};

/// The stratum claimed unless told otherwise: high, so that any real server is preferred.
pub const DEFAULT_STRATUM: u8 = 10;

/// Error that the served time in a reply may have: the pairs by which a kernel stamp becomes a
/// count and a count the served time. On the wire it is rounded up to 15 µs. (That a reply leaves
/// some µs after the clock was read for it is no error of the time in it, but delay.)
const STAMPING_ERROR: Span = Span::from_micros(1);

/// Precision of the served clock's readings: what a `clock_gettime` takes, rounded up to 2⁻²⁴ s.
const PRECISION: Span = Span::from_nanos(50);

/// Longest wait for requests: how late a request to stop may be seen.
const PATIENCE: Duration = Duration::from_millis(100);

/// More than any request has; of a longer datagram the rest is cut, which no reply depends on.
const BUFFER: usize = 1024;

/// An NTP server, bound to its address.
#[derive(Debug)]
pub struct Server {
    socket: Socket,
    address: SocketAddr,
    /// `CLOCK_MONOTONIC_RAW` in ns: what the served clock is defined by.
    raw: Counter,
    pairs: PairLog,
    clock: ServedClock,
    state: ServerState,
    received: u64,
    answered: Arc<AtomicU64>,
}

impl Server {
    /// Binds a server of `clock` to `listen`; port 0 takes a free one.
    ///
    /// On a machine with several addresses listen on one of them: replies leave from the address
    /// that the system picks, and clients refuse any other than the one they asked.
    ///
    /// # Errors
    /// If the address is in use or not of this machine, or the raw clock cannot be read.
    pub fn bind(listen: SocketAddr, clock: ServedClock, stratum: u8) -> io::Result<Server> {
        let raw = Counter::open(Choice::Raw).map_err(io::Error::other)?;
        // The counts of this counter are nanoseconds by definition.
        let mut pairs = PairLog::new(Period::NANOSECOND, resolution(raw));
        let socket = Socket::bind(&listen, raw, &mut pairs)?;
        Ok(Server {
            address: socket.local_address()?,
            socket,
            raw,
            pairs,
            clock,
            state: ServerState {
                leap: LeapIndicator::None,
                stratum,
                precision: Log2::at_least(PRECISION),
                root_delay: Short::default(),
                root_dispersion: Short::at_least(STAMPING_ERROR),
                // As other servers name their own undisciplined clock.
                reference_id: RefId([127, 127, 1, 1]),
                reference_timestamp: Timestamp::UNKNOWN,
            },
            received: 0,
            answered: Arc::default(),
        })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Clock that it serves.
    #[must_use]
    pub fn clock(&self) -> ServedClock {
        self.clock
    }

    /// Fate of all datagrams so far: how many there were, and how many were answered. Nothing else
    /// is counted.
    #[must_use]
    pub fn tally(&self) -> Tally {
        let answered = self.answered.load(Ordering::Relaxed);
        Tally { received: self.received, answered, ..Tally::default() }
    }

    /// Serves until `stop` is true, which is looked at ten times a second and after each signal.
    ///
    /// # Errors
    /// If waiting fails. What single packets bring about is no reason to end.
    pub fn run(&mut self, stop: &AtomicBool) -> io::Result<()> {
        let mut buffer = [0; BUFFER];
        while !stop.load(Ordering::Relaxed) {
            if !readable(&self.socket, PATIENCE)? {
                continue;
            }
            // Clients that are gone, transmit stamps: nothing that matters here.
            let _ = self.socket.on_error_queue(self.raw, &mut self.pairs);
            if let Ok(Some(received)) = self.socket.receive(self.raw, &mut self.pairs, &mut buffer)
            {
                self.received = self.received.wrapping_add(1);
                let request = buffer.get(..received.len).unwrap_or_default();
                self.answer(request, &received);
            }
        }
        Ok(())
    }

    /// Serves on a thread of its own.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn start(mut self) -> io::Result<Running> {
        let stop = Arc::new(AtomicBool::new(false));
        let mut running = Running {
            address: self.address,
            clock: self.clock,
            answered: Arc::clone(&self.answered),
            stop: Arc::clone(&stop),
            thread: None,
        };
        let thread = thread::Builder::new().name("ntp-server".into());
        running.thread = Some(thread.spawn(move || self.run(&stop))?);
        Ok(running)
    }

    /// Answers one datagram, if it is a request.
    fn answer(&mut self, request: &[u8], received: &Received) {
        // An arrival that the kernel did not stamp is taken for what it is to us, the moment at
        // which it was in our hands: the wait before that counts as delay, not as an error of
        // the time.
        let arrived = received.received.count;
        // Nothing but the reply itself comes between this reading and the send.
        let pair = self.pairs.take(self.raw);
        let now = pair.mid();
        let since = (now - arrived).0.max(0);
        let receive = self.timestamp(arrived, pair.unix_ns.saturating_sub(since));
        let transmit = self.timestamp(now, pair.unix_ns);
        self.state.reference_timestamp = receive;
        if let Some(reply) = respond(request, receive, transmit, &self.state) {
            // A reply that cannot leave is a reply lost on the way: the client asks again.
            if self.socket.answer(&received.from, &reply).is_ok() {
                self.answered.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// The served time when the raw clock and the system clock show these.
    fn timestamp(&self, raw: Count, realtime_ns: i64) -> Timestamp {
        let unix_ns = self.clock.unix_ns(raw.0 as i64, realtime_ns);
        let at = Instant::from_nanos(unix_ns.into());
        Timestamp::from_unix(at.secs(), at.frac())
    }
}

/// A server at work on its own thread; ends when dropped.
#[derive(Debug)]
pub struct Running {
    address: SocketAddr,
    clock: ServedClock,
    answered: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

impl Running {
    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Clock that it serves.
    #[must_use]
    pub fn clock(&self) -> ServedClock {
        self.clock
    }

    /// Number of requests that it has answered.
    #[must_use]
    pub fn answered(&self) -> u64 {
        self.answered.load(Ordering::Relaxed)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // What it ended with concerns nobody any more.
            let _ = thread.join();
        }
    }
}
