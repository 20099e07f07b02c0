//! The server and the path to it: one process in a network namespace of its own.
//!
//! Packets are held up by what the kernel's stamp of their arrival says, so that a late wake-up of
//! this process makes a packet late only where it takes longer than the path does. The server says
//! of an answer that it leaves when the kernel will have it, not when the clock is read for it:
//! else the way back would be longer than the way there by what a system call takes, and the error
//! of everybody half of that.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::AsFd;
use std::time::Duration;

use truechimer_counter::{Choice, Counter, resolution};
use truechimer_ntp::server::{ServerState, respond};
use truechimer_ntp::{LeapIndicator, Log2, RefId, Short, Timestamp};
use truechimer_outcome::outcome::Failure;
use truechimer_stamp::{PairLog, Ready, Received, Socket};
use truechimer_time::{Instant, Period, Span};

use crate::compare::line::Line;
use crate::compare::scenario::{Dice, Scenario, Way};

/// Length of the last stretch before a packet is due, spent looking at the clock, ns.
const KEEN_NS: i64 = 120_000;
/// Longest wait.
const PATIENCE: Duration = Duration::from_millis(100);
/// Bound of the stamps' error.
const STAMPING_ERROR: Span = Span::from_micros(1);
/// Precision with which the served clock can be read.
const PRECISION: Span = Span::from_nanos(50);
/// Clients' requests under way, at most.
const MOST_WAITING: usize = 4096;
/// Number of answers whose ways to the wire are remembered.
const DEPARTURES: usize = 31;
/// Time that a request has to be answered, ns.
const LONGEST_NS: i64 = 5_000_000_000;
/// Longer than any request.
const BUFFER: usize = 1024;
/// Where a request has its transmit timestamp, and an answer repeats it.
const REQUEST_KEY: std::ops::Range<usize> = 40..48;
const ANSWER_KEY: std::ops::Range<usize> = 24..32;

/// Settings of the world.
#[derive(clap::Args, Clone, Debug)]
pub struct Order {
    /// Where clients ask
    pub listen: SocketAddr,
    /// The truth: RAW_NS,UNIX_NS,PPB
    pub line: Line,
    /// Name of the scenario
    pub scenario: String,
    /// Length of the run, s
    pub length: f64,
    /// Decides the packets' fates
    pub seed: u64,
}

/// Time that answers take from the reading of the clock to the wire, of late, ns.
#[derive(Debug, Default)]
struct Departures {
    /// When the answers under way were made, by their timestamps.
    made: HashMap<[u8; 8], i64>,
    newest: VecDeque<i64>,
}

impl Departures {
    /// The answer with this timestamp was made.
    fn made(&mut self, key: [u8; 8], read_ns: i64) {
        if self.made.len() >= MOST_WAITING {
            self.made.clear();
        }
        self.made.insert(key, read_ns);
    }

    /// Notes that it was seen on the wire.
    fn seen(&mut self, key: [u8; 8], wire_ns: i64) {
        if let Some(read_ns) = self.made.remove(&key) {
            self.newest.push_back((wire_ns - read_ns).max(0));
            if self.newest.len() > DEPARTURES {
                self.newest.pop_front();
            }
        }
    }

    /// Time that the next one will most likely take: the median.
    fn expected_ns(&self) -> i64 {
        let mut all: Vec<i64> = self.newest.iter().copied().collect();
        all.sort_unstable();
        truechimer_report::percentile(&all, 50).unwrap_or(0)
    }
}

/// A packet under way.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Packet {
    due_ns: i64,
    /// To the server if there is no client to go to.
    to: Option<SocketAddr>,
    bytes: Vec<u8>,
}

struct World {
    scenario: Scenario,
    line: Line,
    length: f64,
    raw: Counter,
    pairs: PairLog,
    /// Where clients ask, where the server answers the relay, and the server's own.
    front: Socket,
    behind: Socket,
    server: Socket,
    server_address: SocketAddr,
    /// Client to get the answer with this timestamp, and when it was asked for.
    waiting: HashMap<[u8; 8], (SocketAddr, i64)>,
    under_way: BinaryHeap<Reverse<Packet>>,
    dice: [Dice; 2],
    departures: Departures,
    state: ServerState,
}

/// Runs until it is killed.
///
/// # Errors
/// Where a socket cannot be had, or fails.
pub fn run(order: &Order) -> Result<(), Failure> {
    let scenario = Scenario::named(&order.scenario)
        .ok_or_else(|| Failure(format!("no scenario `{}`", order.scenario)))?;
    let failed = |why: io::Error| Failure::of(format!("serving at {}", order.listen), why);
    let mut world = World::new(order, scenario).map_err(failed)?;
    let _ = writeln!(io::stdout(), "ready");
    world.turn().map_err(failed)
}

impl World {
    fn new(order: &Order, scenario: Scenario) -> io::Result<World> {
        let raw = Counter::open(Choice::Raw).map_err(io::Error::other)?;
        // The counts of this counter are nanoseconds by definition.
        let mut pairs = PairLog::new(Period::NANOSECOND, resolution(raw));
        let own = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let mut bind = |address| Socket::bind(address, raw, &mut pairs);
        let (front, behind, server) = (bind(&order.listen)?, bind(&own)?, bind(&own)?);
        Ok(World {
            scenario,
            line: order.line,
            length: order.length,
            raw,
            pairs,
            front,
            behind,
            server_address: server.local_address()?,
            server,
            waiting: HashMap::new(),
            under_way: BinaryHeap::new(),
            dice: [Way::There, Way::Back].map(|way| Dice::new(order.seed, way)),
            departures: Departures::default(),
            state: ServerState {
                leap: LeapIndicator::None,
                stratum: 1,
                precision: Log2::at_least(PRECISION),
                root_delay: Short::default(),
                root_dispersion: Short::at_least(STAMPING_ERROR),
                reference_id: RefId(*b"TRUE"),
                reference_timestamp: Timestamp::UNKNOWN,
            },
        })
    }

    fn now_ns(&self) -> i64 {
        self.raw.read().0 as i64
    }

    fn turn(&mut self) -> io::Result<()> {
        loop {
            let next = self.send_due();
            let patience = next.map_or(PATIENCE, |due| {
                let until = (due - KEEN_NS - self.now_ns()).max(0);
                Duration::from_nanos(until as u64).min(PATIENCE)
            });
            let sockets = [self.front.as_fd(), self.behind.as_fd(), self.server.as_fd()];
            let mut ready = [Ready::default(); 3];
            truechimer_stamp::any(sockets, &mut ready, patience)?;
            let [asked, answered, arrived] = ready.map(|one| one.readable || one.errors);
            // What is wrong with one datagram is no reason to end.
            if arrived {
                self.serve();
            }
            if answered {
                self.take_answer();
            }
            if asked {
                self.take_request();
            }
        }
    }

    /// Sends what is due or about to be; when the next is.
    fn send_due(&mut self) -> Option<i64> {
        loop {
            let due = self.under_way.peek()?.0.due_ns;
            if due - self.now_ns() > KEEN_NS {
                return Some(due);
            }
            while self.now_ns() < due {
                std::hint::spin_loop();
            }
            let Reverse(packet) = self.under_way.pop()?;
            let _ = match packet.to {
                Some(client) => self.front.answer(&client, &packet.bytes),
                None => self.behind.answer(&self.server_address, &packet.bytes),
            };
        }
    }

    fn hold_up(&mut self, way: Way, received: &Received, to: Option<SocketAddr>, bytes: &[u8]) {
        let arrived = received.received.count.0 as i64;
        let [there, back] = &mut self.dice;
        let dice = if way == Way::There { there } else { back };
        let seconds = self.line.seconds(arrived);
        if let Some(delay) = self.scenario.fate(way, seconds, self.length, dice) {
            let due_ns = arrived + delay.as_nanos() as i64;
            self.under_way.push(Reverse(Packet { due_ns, to, bytes: bytes.to_vec() }));
        }
    }

    fn take_request(&mut self) {
        let mut buffer = [0; BUFFER];
        let Ok(Some(received)) = self.front.receive(self.raw, &mut self.pairs, &mut buffer) else {
            return;
        };
        let bytes = buffer.get(..received.len).unwrap_or_default();
        let Some(key) = key(bytes, REQUEST_KEY) else { return };
        let now = self.now_ns();
        if self.waiting.len() >= MOST_WAITING {
            self.waiting.retain(|_, (_, since)| now - *since < LONGEST_NS);
        }
        if self.waiting.len() < MOST_WAITING {
            self.waiting.insert(key, (received.from, now));
            self.hold_up(Way::There, &received, None, bytes);
        }
    }

    fn take_answer(&mut self) {
        let mut buffer = [0; BUFFER];
        let Ok(Some(received)) = self.behind.receive(self.raw, &mut self.pairs, &mut buffer) else {
            return;
        };
        let bytes = buffer.get(..received.len).unwrap_or_default();
        let Some(key) = key(bytes, ANSWER_KEY) else { return };
        self.departures.seen(key, received.received.count.0 as i64);
        if let Some((client, _)) = self.waiting.remove(&key) {
            self.hold_up(Way::Back, &received, Some(client), bytes);
        }
    }

    /// The server itself.
    fn serve(&mut self) {
        let mut buffer = [0; BUFFER];
        let Ok(Some(received)) = self.server.receive(self.raw, &mut self.pairs, &mut buffer) else {
            return;
        };
        let bytes = buffer.get(..received.len).unwrap_or_default();
        let receive = self.served(received.received.count.0 as i64);
        self.state.reference_timestamp = receive;
        let expected = self.departures.expected_ns();
        let read_ns = self.now_ns();
        let transmit = self.served(read_ns + expected);
        if let Some(reply) = respond(bytes, receive, transmit, &self.state) {
            let _ = self.server.answer(&received.from, &reply);
            if let Some(key) = key(&reply, ANSWER_KEY) {
                self.departures.made(key, read_ns);
            }
        }
    }

    /// Time by the server.
    fn served(&self, raw_ns: i64) -> Timestamp {
        let lie = self.scenario.lie_ns(self.line.seconds(raw_ns) / self.length);
        let at = Instant::from_nanos((self.line.unix_ns(raw_ns) + lie).into());
        Timestamp::from_unix(at.secs(), at.frac())
    }
}

/// The timestamp by which request and answer are told to belong together.
fn key(bytes: &[u8], at: std::ops::Range<usize>) -> Option<[u8; 8]> {
    bytes.get(at)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn departures_are_expected_as_they_were() {
        let mut departures = Departures::default();
        assert_eq!(departures.expected_ns(), 0);
        for n in 0..100_u64 {
            departures.made(n.to_ne_bytes(), 1000);
            // One in ten is interrupted on its way.
            departures.seen(n.to_ne_bytes(), if n % 10 == 0 { 900_000 } else { 5000 });
        }
        assert_eq!(departures.expected_ns(), 4000);
        departures.seen([9; 8], 1);
        assert_eq!(departures.newest.len(), DEPARTURES);
    }
}
