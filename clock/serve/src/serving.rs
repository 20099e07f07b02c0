//! An NTP server of the clock in the page.

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use truechimer::Clock;
use truechimer_keys::Keys;
use truechimer_ntp::server::ServerState;
use truechimer_time::{Count, Period, Span};

use crate::answer::Responder;
use crate::face::Face;
use crate::nts::Nts;
use crate::proof::Proofs;
use crate::sys::{self, Manner};
use crate::tally::{Counters, Tally};
use crate::upstream::Upstream;
use crate::worker::{Worker, since};

/// Bytes that may wait in a socket: some thousand requests, as far as the system lets it.
const QUEUE: usize = 1 << 20;
/// More threads than this are of no use.
pub const MOST_THREADS: usize = 64;

/// An address to listen on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Listen {
    /// The address; port 0 takes any free one.
    pub address: SocketAddr,
    /// Optional: done without where the system has no such addresses (IPv6, say).
    pub optional: bool,
}

/// An address that cannot be had.
#[derive(Debug)]
pub struct BindError {
    /// The address.
    pub address: SocketAddr,
    /// Error of the operating system.
    pub why: io::Error,
}

impl fmt::Display for BindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot listen on {}: {}", self.address, self.why)
    }
}

impl std::error::Error for BindError {}

/// An NTP server of the clock in the page, bound to its addresses.
///
/// Until it is given a clock that promises a bound, and told what
/// stands behind it, it says that it is not synchronised.
#[derive(Debug)]
pub struct PageServer {
    sockets: Vec<Vec<(std::net::UdpSocket, SocketAddr)>>,
    addresses: Vec<SocketAddr>,
    /// Where keys are exchanged, if they are.
    exchange: Vec<(TcpListener, u16)>,
    shared: Arc<Shared>,
}

/// State that all threads of a server have in common.
pub(crate) struct Shared {
    pub responder: Responder,
    pub proofs: Proofs,
    pub clock: OnceLock<Clock>,
    pub stop: AtomicBool,
    upstream: Mutex<Option<Upstream>>,
    origin: Instant,
}

impl Shared {
    pub fn upstream(&self) -> Option<Upstream> {
        *self.upstream.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ns since some moment, by a clock that does not go back.
    pub fn now(&self) -> u64 {
        since(self.origin)
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("upstream", &self.upstream()).finish_non_exhaustive()
    }
}

impl PageServer {
    /// Binds a server to all these addresses, for 1 to [`MOST_THREADS`] threads.
    ///
    /// # Errors
    /// If an address that is not optional cannot be had, or none at all.
    pub fn bind(
        listen: &[Listen],
        threads: usize,
        responder: Responder,
    ) -> Result<PageServer, BindError> {
        let threads = threads.clamp(1, MOST_THREADS);
        let mut sockets: Vec<Vec<_>> = (0..threads).map(|_| Vec::new()).collect();
        let mut addresses = Vec::new();
        let mut missing = None;
        for &Listen { address, optional } in listen {
            match bind_all(address, threads) {
                Ok((address, bound)) => {
                    addresses.push(address);
                    for (of_thread, socket) in sockets.iter_mut().zip(bound) {
                        of_thread.push((socket, address));
                    }
                }
                Err(why) if optional && is_absent(&why) => {
                    missing = Some(BindError { address, why });
                }
                Err(why) => return Err(BindError { address, why }),
            }
        }
        if let (true, Some(missing)) = (addresses.is_empty(), missing) {
            return Err(missing);
        }
        let shared = Arc::new(Shared {
            responder,
            proofs: Proofs::default(),
            clock: OnceLock::new(),
            stop: AtomicBool::new(false),
            upstream: Mutex::new(None),
            origin: Instant::now(),
        });
        Ok(PageServer { sockets, addresses, exchange: Vec::new(), shared })
    }

    /// Proves who it is to those who ask for it, and exchanges keys at its addresses.
    ///
    /// # Errors
    /// If the port of the exchange cannot be had.
    pub fn prove(mut self, nts: Nts) -> Result<PageServer, BindError> {
        let bound = nts.bind(&self.addresses);
        self.exchange = bound.map_err(|(address, why)| BindError { address, why })?;
        let _ = self.shared.proofs.nts.set(Arc::new(nts));
        Ok(self)
    }

    /// Answers requests with a message authentication code by the same key, if it is one of these.
    #[must_use]
    pub fn share(self, keys: Keys) -> PageServer {
        self.shared.proofs.share(keys);
        self
    }

    /// Answers those alone who ask for proof.
    #[must_use]
    pub fn require_proof(self) -> PageServer {
        self.shared.proofs.required.store(true, Ordering::Relaxed);
        self
    }

    /// Where it listens.
    #[must_use]
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Serves, on threads of its own.
    ///
    /// # Errors
    /// If there is no clock to stamp with, or a thread cannot be started.
    pub fn start(self) -> io::Result<Serving> {
        let counters: Vec<_> = self.sockets.iter().map(|_| Arc::<Counters>::default()).collect();
        let mut serving =
            Serving { shared: Arc::clone(&self.shared), counters, threads: Vec::new() };
        for (i, sockets) in self.sockets.into_iter().enumerate() {
            let Some(counters) = serving.counters.get(i) else { continue };
            let (shared, counters) = (Arc::clone(&self.shared), Arc::clone(counters));
            let mut worker = Worker::new(sockets, shared, counters).map_err(io::Error::other)?;
            let thread = thread::Builder::new().name(format!("ntp-{i}"));
            serving.threads.push(thread.spawn(move || worker.run())?);
        }
        if let Some(nts) = self.shared.proofs.nts.get().cloned() {
            let (shared, listeners) = (Arc::clone(&self.shared), self.exchange);
            let thread = thread::Builder::new().name("nts".into());
            serving.threads.push(thread.spawn(move || {
                let stop = || shared.stop.load(Ordering::Relaxed);
                nts.run(&listeners, shared.responder.access(), &stop)
            })?);
        }
        Ok(serving)
    }
}

/// A server at work; ends when dropped.
#[derive(Debug)]
pub struct Serving {
    shared: Arc<Shared>,
    counters: Vec<Arc<Counters>>,
    threads: Vec<JoinHandle<io::Result<()>>>,
}

impl Serving {
    /// Serves this clock from now on. There is one, once and for all: false if there was one
    /// before.
    pub fn set_clock(&self, clock: Clock) -> bool {
        self.shared.clock.set(clock).is_ok()
    }

    /// Uses these symmetric keys from now on, and no others.
    pub fn share(&self, keys: Keys) {
        self.shared.proofs.share(keys);
    }

    /// Reads certificate and key of the exchange (NTS) again, if there is one.
    ///
    /// # Errors
    /// If the files cannot be used, in words for the user: those of before stay in use.
    pub fn renew(&self) -> Result<(), String> {
        self.shared.proofs.nts.get().map_or(Ok(()), |nts| nts.renew())
    }

    /// Troubles of the key exchange (NTS) that are new to the user, the oldest first.
    #[must_use]
    pub fn news(&self) -> Vec<String> {
        self.shared.proofs.nts.get().map(|nts| nts.news()).unwrap_or_default()
    }

    /// The clock that it serves.
    #[must_use]
    pub fn clock(&self) -> Option<&Clock> {
        self.shared.clock.get()
    }

    /// Sets what stands behind the clock, from now on: `None` while that is not known, or nothing
    /// that may be served.
    pub fn set_upstream(&self, upstream: Option<Upstream>) {
        *self.shared.upstream.lock().unwrap_or_else(PoisonError::into_inner) = upstream;
    }

    /// State of its clock at this moment.
    #[must_use]
    pub fn state(&self) -> ServerState {
        let view = self.clock().and_then(|clock| clock.view().ok());
        let face = view.map_or_else(
            || Face::unknown(Count(0), 0, Period::NANOSECOND),
            |view| Face::of(&view, view.count, view.hand.period, Span::ZERO),
        );
        face.state(self.shared.upstream())
    }

    /// Fate of all datagrams so far.
    #[must_use]
    pub fn tally(&self) -> Tally {
        let mut tally = Tally::default();
        self.counters.iter().for_each(|counters| counters.add_to(&mut tally));
        self.shared.proofs.nts.get().into_iter().for_each(|nts| nts.add_to(&mut tally));
        tally
    }

    /// True if a thread has ended, which none does by itself unless waiting fails.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        self.threads.iter().any(JoinHandle::is_finished)
    }

    /// Ends.
    ///
    /// # Errors
    /// Why a thread had ended before.
    pub fn stop(mut self) -> io::Result<Tally> {
        self.end()?;
        Ok(self.tally())
    }

    fn end(&mut self) -> io::Result<()> {
        self.shared.stop.store(true, Ordering::Relaxed);
        let mut result = Ok(());
        for thread in self.threads.drain(..) {
            let ended = thread.join();
            result =
                result.and(ended.unwrap_or_else(|_| Err(io::Error::other("a thread panicked"))));
        }
        result
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // What they ended with concerns nobody any more.
        let _ = self.end();
    }
}

/// A socket for each thread, all at one address.
fn bind_all(
    address: SocketAddr,
    threads: usize,
) -> io::Result<(SocketAddr, Vec<std::net::UdpSocket>)> {
    let alone = sys::bind(&address, Manner { shared: false, queue: QUEUE })?;
    let address = alone.local_addr()?;
    if threads == 1 {
        return Ok((address, vec![alone]));
    }
    // Nobody else was there: sharing would not have told.
    drop(alone);
    let shared = |_| sys::bind(&address, Manner { shared: true, queue: QUEUE });
    Ok((address, (0..threads).map(shared).collect::<io::Result<_>>()?))
}

/// True if the system has no such addresses at all.
fn is_absent(why: &io::Error) -> bool {
    matches!(why.raw_os_error(), Some(libc::EAFNOSUPPORT | libc::EADDRNOTAVAIL))
}
