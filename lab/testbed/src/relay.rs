//! A path with a will of its own: a UDP relay that delays, loses and duplicates datagrams.
//!
//! What happens to a datagram depends on the seed, its direction and its number, on nothing else.
//! Every client (address and port) has a socket of its own towards the server, so that the server
//! sees as many clients as there are, and answers find their way back.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::udp::receive;

/// Effects of a path on datagrams in one direction.
///
/// Written as `delay=2ms,jitter=500us,loss=0.2,duplicate=0.01`; what is left out is zero.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Path {
    /// Least delay of every datagram.
    pub delay: Duration,
    /// The mean of the further delay, which is exponentially distributed.
    pub jitter: Duration,
    /// The share that is lost.
    pub loss: f64,
    /// The share of what is not lost that comes twice.
    pub duplicate: f64,
}

impl Path {
    /// When each copy of datagram number `n` arrives; lost if there is none.
    #[must_use]
    pub fn fate(&self, seed: u64, n: u64) -> Vec<Duration> {
        let mut random = Random(seed ^ n.wrapping_mul(0xd134_2543_de82_ef95));
        let lost = random.unit() < self.loss;
        let copies = if lost { 0 } else { 1 + usize::from(random.unit() < self.duplicate) };
        (0..copies).map(|_| self.delay + self.jitter.mul_f64(-(1.0 - random.unit()).ln())).collect()
    }
}

/// A small generator (splitmix64).
struct Random(u64);

impl Random {
    /// In [0, 1).
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((x ^ (x >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }
}

impl FromStr for Path {
    type Err = String;

    fn from_str(text: &str) -> Result<Path, String> {
        let mut path = Path::default();
        for setting in text.split(',').filter(|s| !s.is_empty()) {
            let bad = || format!("cannot make sense of `{setting}`");
            let (key, value) = setting.split_once('=').ok_or_else(bad)?;
            let share = || value.parse().ok().filter(|s| (0.0..=1.0).contains(s)).ok_or_else(bad);
            let duration = || {
                let number = value.trim_end_matches(char::is_alphabetic);
                let unit = match value.strip_prefix(number) {
                    Some("s") => 1.0,
                    Some("ms") => 1e-3,
                    Some("us") => 1e-6,
                    _ => return Err(bad()),
                };
                let number: f64 = number.parse().map_err(|_| bad())?;
                Duration::try_from_secs_f64(number * unit).map_err(|_| bad())
            };
            match key {
                "delay" => path.delay = duration()?,
                "jitter" => path.jitter = duration()?,
                "loss" => path.loss = share()?,
                "duplicate" => path.duplicate = share()?,
                _ => return Err(bad()),
            }
        }
        Ok(path)
    }
}

/// A relay to run.
#[derive(Debug)]
pub struct Relay {
    /// Where clients send to.
    pub socket: UdpSocket,
    /// The server.
    pub server: SocketAddr,
    /// From client to server.
    pub there: Path,
    /// From server to client.
    pub back: Path,
    /// Decides all fates.
    pub seed: u64,
}

/// Longest silence of a client before its socket is closed.
const IDLE: Duration = Duration::from_secs(5);

type Clients = Arc<Mutex<HashMap<SocketAddr, Arc<UdpSocket>>>>;

impl Relay {
    /// Runs until a socket fails.
    pub fn run(self) -> io::Result<()> {
        let Relay { socket, server, there, back, seed } = self;
        let socket = Arc::new(socket);
        let clients = Clients::default();
        let queue = Arc::new(Queue::default());
        let (sent, answered) = (AtomicU64::new(0), Arc::new(AtomicU64::new(0)));
        std::thread::spawn({
            let queue = Arc::clone(&queue);
            move || queue.deliver()
        });
        let mut buffer = [0; 2048];
        loop {
            let (length, client) = receive(&socket, &mut buffer)?;
            let came = Instant::now();
            let datagram = buffer.get(..length).unwrap_or_default();
            let upstream = match lock(&clients).get(&client) {
                Some(upstream) => Some(Arc::clone(upstream)),
                None => None,
            };
            let upstream = match upstream {
                Some(upstream) => upstream,
                None => {
                    let upstream = Arc::new(connected(server)?);
                    lock(&clients).insert(client, Arc::clone(&upstream));
                    let answers = Answers {
                        upstream: Arc::clone(&upstream),
                        socket: Arc::clone(&socket),
                        client,
                        path: back,
                        seed: !seed,
                        count: Arc::clone(&answered),
                    };
                    let (queue, clients) = (Arc::clone(&queue), Arc::clone(&clients));
                    std::thread::spawn(move || {
                        answers.relay(&queue);
                        lock(&clients).remove(&client);
                    });
                    upstream
                }
            };
            for delay in there.fate(seed, sent.fetch_add(1, Ordering::Relaxed)) {
                queue.push(came + delay, Arc::clone(&upstream), None, datagram);
            }
        }
    }
}

/// A socket that only the server can answer to.
fn connected(server: SocketAddr) -> io::Result<UdpSocket> {
    let any = if server.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let socket = UdpSocket::bind(any)?;
    socket.connect(server)?;
    socket.set_read_timeout(Some(IDLE))?;
    Ok(socket)
}

/// The way back for one client.
struct Answers {
    upstream: Arc<UdpSocket>,
    socket: Arc<UdpSocket>,
    client: SocketAddr,
    path: Path,
    seed: u64,
    count: Arc<AtomicU64>,
}

impl Answers {
    /// Until the server has been silent for a while.
    fn relay(&self, queue: &Queue) {
        let mut buffer = [0; 2048];
        loop {
            let length = match receive(&self.upstream, &mut buffer) {
                Ok((length, _)) => length,
                // Nobody listens there just now: that is the client's to find out.
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => continue,
                Err(_) => return,
            };
            let came = Instant::now();
            let datagram = buffer.get(..length).unwrap_or_default();
            for delay in self.path.fate(self.seed, self.count.fetch_add(1, Ordering::Relaxed)) {
                queue.push(came + delay, Arc::clone(&self.socket), Some(self.client), datagram);
            }
        }
    }
}

/// Datagrams under way.
#[derive(Default)]
struct Queue {
    waiting: Mutex<BinaryHeap<Reverse<Datagram>>>,
    changed: Condvar,
}

struct Datagram {
    due: Instant,
    from: Arc<UdpSocket>,
    to: Option<SocketAddr>,
    bytes: Vec<u8>,
}

impl Queue {
    fn push(&self, due: Instant, from: Arc<UdpSocket>, to: Option<SocketAddr>, bytes: &[u8]) {
        lock(&self.waiting).push(Reverse(Datagram { due, from, to, bytes: bytes.to_vec() }));
        self.changed.notify_one();
    }

    /// Sends each when it is due.
    fn deliver(&self) {
        let mut waiting = lock(&self.waiting);
        loop {
            let now = Instant::now();
            let wait = waiting.peek().map(|next| next.0.due.saturating_duration_since(now));
            waiting = match wait {
                None => self.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner),
                Some(Duration::ZERO) => {
                    let due = waiting.pop();
                    drop(waiting);
                    if let Some(Reverse(datagram)) = due {
                        datagram.send();
                    }
                    lock(&self.waiting)
                }
                Some(wait) => {
                    let woken = self.changed.wait_timeout(waiting, wait);
                    woken.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }
}

impl Datagram {
    /// Sends it. Whether it arrives is not the relay's concern.
    fn send(&self) {
        let _ = match self.to {
            Some(to) => self.from.send_to(&self.bytes, to),
            None => self.from.send(&self.bytes),
        };
    }
}

impl PartialEq for Datagram {
    fn eq(&self, other: &Datagram) -> bool {
        self.due == other.due
    }
}

impl Eq for Datagram {}

impl PartialOrd for Datagram {
    fn partial_cmp(&self, other: &Datagram) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Datagram {
    fn cmp(&self, other: &Datagram) -> std::cmp::Ordering {
        self.due.cmp(&other.due)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
