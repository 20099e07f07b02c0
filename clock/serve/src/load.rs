//! Asking a server as fast as it answers.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use truechimer_ntp::{Mode, Packet, Timestamp, VERSION};
use truechimer_stamp::Ready;

use crate::sys::{self, BATCH, Manner, Outgoing, Received};

/// A request that has not been answered for so long is lost.
const LOST: Duration = Duration::from_millis(200);
/// Number of response times that are kept; of more every second, every fourth, and so on.
const KEPT: usize = 1 << 18;

/// Asks one server, with so many requests on the way at any time.
#[derive(Debug)]
pub struct Load {
    socket: UdpSocket,
    server: SocketAddr,
    /// When each of the requests on the way was sent; `None`: answered, or lost.
    sent: Vec<Option<Instant>>,
    /// Number of uses of each place: what tells a late reply from the one that is waited for.
    turns: Vec<u32>,
}

/// Result of it.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Measured {
    /// Time that it took, s.
    pub seconds: f64,
    /// Requests sent.
    pub sent: u64,
    /// Of those, answered.
    pub answered: u64,
    /// Not answered within 0.2 s.
    pub lost: u64,
    /// From before a request was sent until its answer was received, ns, ascending: a sample.
    pub times_ns: Vec<u64>,
}

impl Measured {
    /// Answers a second.
    #[must_use]
    pub fn rate(&self) -> f64 {
        self.answered as f64 / self.seconds.max(1e-9)
    }

    /// The response time that this part of all, 0 to 1, does not exceed, ns; 0 without any.
    #[must_use]
    pub fn quantile(&self, part: f64) -> u64 {
        let last = self.times_ns.len().saturating_sub(1);
        self.times_ns.get((last as f64 * part).round() as usize).copied().unwrap_or(0)
    }
}

impl Load {
    /// Asks `server` with `in_flight` requests on the way.
    ///
    /// # Errors
    /// If there is no socket to be had.
    pub fn new(server: SocketAddr, in_flight: usize) -> io::Result<Load> {
        let any = match server {
            SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
            SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
        };
        let socket = sys::bind(&any, Manner { shared: false, queue: 1 << 20 })?;
        let places = in_flight.clamp(1, 1 << 16);
        Ok(Load { socket, server, sent: vec![None; places], turns: vec![0; places] })
    }

    /// Asks for this long, or until told to stop.
    ///
    /// # Errors
    /// If waiting fails.
    pub fn run(&mut self, time: Duration, stop: &AtomicBool) -> io::Result<Measured> {
        let (mut received, mut outgoing) = (Received::new(), Outgoing::new());
        let mut ready = [Ready::default()];
        let mut measured = Measured::default();
        let mut times = Times { stride: 1, seen: 0, kept: Vec::with_capacity(KEPT) };
        let mut free: Vec<usize> = (0..self.sent.len()).collect();
        let begun = Instant::now();
        let mut now = begun;
        let mut looked = begun;
        while now.duration_since(begun) < time && !stop.load(Ordering::Relaxed) {
            while !free.is_empty() {
                measured.sent += self.ask(&mut free, &mut outgoing);
            }
            if received.receive(&self.socket, false) == 0 {
                truechimer_stamp::any([self.socket.as_fd()], &mut ready, LOST)?;
                received.receive(&self.socket, false);
            }
            now = Instant::now();
            for datagram in received.iter() {
                let Some((reply, _)) = Packet::decode(datagram.bytes) else { continue };
                let Some(place) = self.place_of(&reply) else { continue };
                let Some(sent) = self.sent.get_mut(place).and_then(Option::take) else { continue };
                measured.answered += 1;
                times.add(now.duration_since(sent));
                free.push(place);
            }
            if now.duration_since(looked) >= LOST {
                looked = now;
                for (place, sent) in self.sent.iter_mut().enumerate() {
                    if sent.take_if(|sent| now.duration_since(*sent) >= LOST).is_some() {
                        measured.lost += 1;
                        free.push(place);
                    }
                }
            }
        }
        measured.seconds = begun.elapsed().as_secs_f64();
        times.kept.sort_unstable();
        measured.times_ns = times.kept;
        Ok(measured)
    }

    /// Sends requests from free places, as many as go at once: how many.
    fn ask(&mut self, free: &mut Vec<usize>, outgoing: &mut Outgoing) -> u64 {
        outgoing.clear();
        let now = Instant::now();
        for place in free.drain(free.len().saturating_sub(BATCH)..) {
            let (Some(sent), Some(turn)) = (self.sent.get_mut(place), self.turns.get_mut(place))
            else {
                continue;
            };
            *sent = Some(now);
            *turn = turn.wrapping_add(1);
            let request = Packet {
                version: VERSION,
                mode: Mode::Client,
                transmit_timestamp: name(place, *turn),
                ..Packet::default()
            };
            outgoing.push(request.encode(), &self.server, None, false);
        }
        let packets = outgoing.len();
        // What was not taken is lost, and counted as that in time.
        outgoing.send(&self.socket);
        packets as u64
    }

    /// The place whose request this is the reply to.
    fn place_of(&self, reply: &Packet) -> Option<usize> {
        let place = (reply.origin_timestamp.0 & 0xffff) as usize;
        let turn = self.turns.get(place)?;
        let due = reply.mode == Mode::Server && reply.origin_timestamp == name(place, *turn);
        due.then_some(place)
    }
}

/// Timestamp that a request is told by.
fn name(place: usize, turn: u32) -> Timestamp {
    Timestamp((1 << 63) | (u64::from(turn) << 16) | place as u64)
}

/// A sample of bounded size, evenly spread.
struct Times {
    stride: u64,
    seen: u64,
    kept: Vec<u64>,
}

impl Times {
    fn add(&mut self, time: Duration) {
        self.seen += 1;
        if !self.seen.is_multiple_of(self.stride) {
            return;
        }
        if self.kept.len() >= KEPT {
            let mut index = 0;
            self.kept.retain(|_| {
                index += 1;
                index % 2 == 0
            });
            self.stride *= 2;
        }
        self.kept.push(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DEFAULT_STRATUM, ServedClock, Server};
    use truechimer_time::{Rate, Span};

    #[test]
    fn a_server_is_asked_and_what_is_silent_is_lost() {
        let clock = ServedClock::starting_now(Span::ZERO, Rate::ZERO).unwrap();
        let server = Server::bind("127.0.0.1:0".parse().unwrap(), clock, DEFAULT_STRATUM).unwrap();
        let server = server.start().unwrap();
        let stop = AtomicBool::new(false);
        let mut load = Load::new(server.address(), 40).unwrap();
        let measured = load.run(Duration::from_millis(300), &stop).unwrap();
        assert!(measured.answered > 0 && measured.answered <= measured.sent, "{measured:?}");
        assert!(measured.quantile(0.5) > 0 && measured.quantile(0.5) <= measured.quantile(1.0));
        // It counts an answer once that is on its way.
        assert!(server.answered() + 1 >= measured.answered);
        // Nobody at all: a socket that never answers.
        let silent =
            UdpSocket::bind("[::1]:0").or_else(|_| UdpSocket::bind("127.0.0.1:0")).unwrap();
        let mut load = Load::new(silent.local_addr().unwrap(), 3).unwrap();
        let measured = load.run(Duration::from_millis(500), &stop).unwrap();
        assert_eq!((measured.answered, measured.quantile(0.99)), (0, 0));
        assert!(measured.lost >= 3, "{measured:?}");
    }
}
