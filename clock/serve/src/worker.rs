//! One thread that serves: receive, decide, send.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use truechimer::{Clock, ReadBy, View};
use truechimer_counter::CounterError;
use truechimer_ntp::server::{Ignored, ServerState};
use truechimer_ntp::{HEADER_LEN, LeapIndicator, Timestamp};
use truechimer_stamp::{Ready, Window};
use truechimer_time::{Count, CounterKind, Period};

use crate::answer::{Answer, Kind, Outcome, Sent, transmit};
use crate::arrivals::Arrivals;
use crate::face::{Face, stamped_by};
use crate::lag::Lag;
use crate::proof::{Proof, Protected};
use crate::serving::Shared;
use crate::sys::{self, BATCH, Outgoing, Received};
use crate::tally::{Counters, add, count};

/// Longest wait for requests: how late a request to stop may be seen.
const PATIENCE: Duration = Duration::from_millis(100);
/// Number of times that one socket is received from before the others have their turn.
const TURNS: usize = 16;
/// Interval at which a departure is stamped to learn what the way out takes, ns.
const SAMPLED: u64 = 250_000_000;
/// Number of departures that may wait for their stamp; of more the oldest are forgotten.
const AWAITED: usize = 128;
/// Where in a packet the receive timestamp is.
const RECEIVE: std::ops::Range<usize> = 32..40;

/// State of one thread.
pub(crate) struct Worker {
    sockets: Vec<Place>,
    shared: Arc<Shared>,
    counters: Arc<Counters>,
    arrivals: Arrivals,
    kind: CounterKind,
    received: Received,
    outgoing: Outgoing,
    /// Replies that prove who made them, and what goes into each.
    proven: Outgoing,
    proofs: Vec<(Reply, Proof)>,
    /// Of each packet to be sent what goes into it.
    answers: Vec<Reply>,
    awaited: Vec<Awaited>,
    lag: Lag,
    sampled: u64,
    /// The clock in full, when it was last looked at that closely.
    view: Option<View>,
}

/// A socket, and how many datagrams the kernel had lost there when last heard of.
struct Place {
    socket: UdpSocket,
    wildcard: bool,
    lost: u32,
}

/// A reply that is to leave.
#[derive(Clone, Copy)]
struct Reply {
    receive: Timestamp,
    /// Of basic mode: it says itself when it leaves.
    basic: bool,
    /// To whom that may have to be told again.
    remember: Option<Sent>,
}

/// A departure whose stamp is to come.
#[derive(Clone, Copy)]
struct Awaited {
    receive: Timestamp,
    /// Length of the packet, bytes.
    len: usize,
    sent: Option<Sent>,
    /// The count for which its transmit time was read.
    read: Count,
    first: bool,
}

impl Awaited {
    /// True if these bytes are its packet as it left: that stands at their end, behind frames of the network.
    fn is_of(&self, bytes: &[u8]) -> bool {
        let begin = bytes.len().checked_sub(self.len);
        let packet = begin.and_then(|begin| bytes.get(begin..));
        let receive = packet.and_then(|packet| packet.get(RECEIVE));
        receive == Some(&self.receive.0.to_be_bytes()[..])
    }
}

impl Worker {
    pub fn new(
        sockets: Vec<(UdpSocket, SocketAddr)>,
        shared: Arc<Shared>,
        counters: Arc<Counters>,
    ) -> Result<Worker, CounterError> {
        let kind = CounterKind::Raw;
        let place =
            |(socket, address)| Place { socket, wildcard: sys::is_wildcard(&address), lost: 0 };
        Ok(Worker {
            sockets: sockets.into_iter().map(place).collect(),
            shared,
            counters,
            arrivals: Arrivals::new(kind, Period::NANOSECOND)?,
            kind,
            received: Received::new(),
            outgoing: Outgoing::new(),
            proven: Outgoing::new(),
            proofs: Vec::new(),
            answers: Vec::with_capacity(BATCH),
            awaited: Vec::with_capacity(AWAITED),
            lag: Lag::default(),
            sampled: 0,
            view: None,
        })
    }

    /// Serves until told to stop.
    pub fn run(&mut self) -> io::Result<()> {
        let mut ready = vec![Ready::default(); self.sockets.len()];
        while !self.shared.stop.load(Ordering::Relaxed) {
            // What is in no queue now arrives after this.
            let asked = self.arrivals.counter().read();
            let sockets = self.sockets.iter().map(|place| place.socket.as_fd());
            truechimer_stamp::any(sockets, &mut ready, PATIENCE)?;
            let mut emptied = true;
            for (i, ready) in ready.iter().enumerate() {
                if ready.errors {
                    let face = self.face();
                    self.departures(i, &face);
                }
                if ready.readable {
                    emptied &= (0..TURNS).any(|_| self.turn(i) < BATCH);
                }
            }
            if !ready.iter().any(|ready| ready.readable) {
                self.arrivals.pair();
            }
            if emptied {
                self.arrivals.emptied(asked);
            }
        }
        Ok(())
    }

    /// Face of the clock now. If it has come to count by another counter, so do we from here on.
    fn face(&mut self) -> Face {
        let shared = Arc::clone(&self.shared);
        if let Some(clock) = shared.clock.get()
            && let Some(view) = self.look(clock)
        {
            let kind = stamped_by(&view);
            if kind != self.kind {
                let period = match kind {
                    CounterKind::Raw => Period::NANOSECOND,
                    _ => view.hand.period,
                };
                if let Ok(arrivals) = Arrivals::new(kind, period) {
                    (self.arrivals, self.kind) = (arrivals, kind);
                    self.awaited.clear();
                    self.lag.clear();
                }
            }
            if kind == self.kind {
                return Face::look(clock, self.arrivals.counter(), view);
            }
        }
        let (count, unix_ns, period) = self.arrivals.system_clock();
        Face::unknown(count, unix_ns, period)
    }

    /// The clock in full. That takes a microsecond and more, and a reading a hundredth of that:
    /// where the reading is what the last view would give, by the hand of that view, it still
    /// holds.
    fn look(&mut self, clock: &Clock) -> Option<View> {
        if let (Some(view), Ok(reading)) = (self.view, clock.now()) {
            let same = view.read_by == ReadBy::Counter
                && view.status == reading.status
                && view.reading(reading.count, view.status) == reading;
            if same {
                return Some(View { count: reading.count, ..view });
            }
        }
        self.view = clock.view().ok();
        self.view
    }

    /// Receives once from a socket and answers: how many datagrams there were.
    fn turn(&mut self, i: usize) -> usize {
        let Some(place) = self.sockets.get_mut(i) else { return 0 };
        let got = self.received.receive(&place.socket, false);
        if got == 0 {
            return 0;
        }
        let latest = self.arrivals.counter().read();
        let kind = self.kind;
        self.arrivals.pair();
        let face = self.face();
        // Stamps of a counter that is no longer read mean nothing.
        let latest = if kind == self.kind { latest } else { self.arrivals.counter().read() };
        let state = face.state(self.shared.upstream());
        let now = self.shared.now();
        self.decide(i, &face, &state, latest, now);
        self.send(i, &face, now);
        self.send_proven(i, &face, now);
        got
    }

    /// Decides on everything received, and makes the packets to send.
    fn decide(&mut self, i: usize, face: &Face, state: &ServerState, latest: Count, now: u64) {
        let (tally, shared) = (&*self.counters, &*self.shared);
        self.outgoing.clear();
        self.answers.clear();
        self.proven.clear();
        self.proofs.clear();
        let Some(place) = self.sockets.get_mut(i) else { return };
        for datagram in self.received.iter() {
            count(&tally.received);
            if let Some(lost) = datagram.said.lost {
                add(&tally.overflowed, lost.wrapping_sub(place.lost).into());
                place.lost = lost;
            }
            let Some(from) = datagram.from else { continue };
            let arrival = self.arrivals.arrived(datagram.said.stamp, latest);
            let receive = face.timestamp(arrival.count);
            let outcome = shared.responder.outcome(datagram.bytes, from.ip(), receive, now, state);
            let answer = match outcome {
                Outcome::Reply(answer) => answer,
                Outcome::Ignored(Ignored::Short) => {
                    count(&tally.short);
                    continue;
                }
                Outcome::Ignored(Ignored::Mode(_)) => {
                    count(&tally.mode);
                    continue;
                }
                Outcome::Ignored(Ignored::Version(_)) => {
                    count(&tally.version);
                    continue;
                }
                Outcome::Denied => {
                    count(&tally.denied);
                    continue;
                }
                Outcome::Limited => {
                    count(&tally.limited);
                    continue;
                }
            };
            add(&tally.unstamped, (!arrival.by_kernel).into());
            let protected = shared.proofs.look(datagram.bytes, receive);
            if matches!(protected, Protected::Plain | Protected::By(_)) {
                count_answer(tally, &answer, state);
            }
            // A socket of one address has no other to send from.
            let via = datagram.said.via.filter(|_| place.wildcard);
            let packet = answer.packet.encode();
            let receive = answer.packet.receive_timestamp;
            let basic = answer.kind == Kind::Basic;
            let reply = Reply { receive, basic, remember: answer.remember };
            match protected {
                Protected::Plain => {}
                Protected::By(proof) => {
                    count(if matches!(proof, Proof::Nts(_)) { &tally.nts } else { &tally.keyed });
                    self.proven.push(packet, &from, via, reply.remember.is_some());
                    self.proofs.push((reply, proof));
                    continue;
                }
                Protected::Nak { packet, of_key } => {
                    count(if of_key { &tally.key_naks } else { &tally.nts_naks });
                    let i = self.outgoing.len();
                    self.outgoing.push(answer.packet.encode(), &from, via, false);
                    self.outgoing.replace(i, &packet);
                    self.answers.push(Reply { basic: false, remember: None, ..reply });
                    continue;
                }
                Protected::Refused => {
                    count(&tally.nts_refused);
                    continue;
                }
                Protected::Lacking => {
                    count(&tally.unproven);
                    continue;
                }
            }
            let sample = self.outgoing.len() == 0 && now.wrapping_sub(self.sampled) >= SAMPLED;
            let stamp = sample || answer.remember.is_some();
            if sample {
                self.sampled = now;
            }
            self.outgoing.push(packet, &from, via, stamp);
            self.answers.push(reply);
            if stamp {
                let first = self.outgoing.len() == 1;
                let (len, sent) = (HEADER_LEN, reply.remember);
                await_departure(
                    &mut self.awaited,
                    Awaited { receive, len, sent, read: latest, first },
                );
            }
        }
    }

    /// Reads the clock, puts that into the packets, and sends them.
    fn send(&mut self, i: usize, face: &Face, now: u64) {
        let Some(place) = self.sockets.get(i) else { return };
        if self.outgoing.len() == 0 {
            return;
        }
        let read = self.arrivals.counter().read();
        let mut stamped = false;
        for (i, Reply { receive, basic, remember }) in self.answers.iter().copied().enumerate() {
            let at = transmit(face.timestamp(read + self.lag.of(i)), receive);
            if basic {
                self.outgoing.set_transmit(i, at);
            }
            if let Some(sent) = remember {
                self.shared.responder.departs(sent, at, now);
                stamped = true;
            }
        }
        let entered = self.arrivals.counter().read();
        let failed = self.outgoing.send(&place.socket);
        self.lag.sent(self.outgoing.len(), self.arrivals.counter().read() - entered);
        add(&self.counters.unsent, failed as u64);
        for awaited in self.awaited.iter_mut().rev().take(self.answers.len()) {
            if self.answers.iter().any(|reply| reply.receive == awaited.receive) {
                awaited.read = read;
                stamped = true;
            }
        }
        if stamped {
            // They are there by now as a rule.
            self.departures(i, face);
        }
    }

    /// Reads the clock for each reply that is to be proven, puts that into it, proves it and sends it.
    fn send_proven(&mut self, i: usize, face: &Face, now: u64) {
        let Some(place) = self.sockets.get(i) else { return };
        let mut stamped = false;
        for (i, (reply, proof)) in self.proofs.iter().enumerate() {
            let Reply { receive, basic, remember } = *reply;
            let counter = self.arrivals.counter();
            let read = counter.read();
            let by_key = matches!(proof, Proof::Key(..));
            let ready = read + self.lag.of_proof(by_key);
            let at = transmit(face.timestamp(ready + self.lag.of(0)), receive);
            if basic {
                self.proven.set_transmit(i, at);
            }
            let Some(header) = self.proven.header(i) else { return };
            let packet = self.shared.proofs.protect(header, proof);
            self.proven.replace(i, &packet);
            self.lag.proven(by_key, counter.read() - read);
            if let Some(sent) = remember {
                self.shared.responder.departs(sent, at, now);
                let (len, sent) = (packet.len(), Some(sent));
                await_departure(
                    &mut self.awaited,
                    Awaited { receive, len, sent, read, first: false },
                );
                stamped = true;
            }
            // It must not leave before it says so: that was the least of late, and no promise.
            // Nor need it wait for a counter that went back.
            let early = |now: Count| now.at_or_after(read) && !now.at_or_after(ready);
            while early(counter.read()) {
                std::hint::spin_loop();
            }
            let failed = self.proven.send_only(i, &place.socket);
            add(&self.counters.unsent, failed as u64);
        }
        if stamped {
            self.departures(i, face);
        }
    }

    /// Reads what is in the error queue: stamps of departures.
    fn departures(&mut self, i: usize, face: &Face) {
        let Some(place) = self.sockets.get(i) else { return };
        if self.received.receive(&place.socket, true) == 0 {
            // An error that stands for itself is taken, or the next wait would end at once.
            let _ = place.socket.take_error();
            return;
        }
        let latest = self.arrivals.counter().read();
        self.arrivals.pair();
        for message in self.received.iter() {
            let is_of = |awaited: &Awaited| awaited.is_of(message.bytes);
            let Some(at) = self.awaited.iter().position(is_of) else { continue };
            let awaited = self.awaited.swap_remove(at);
            let window = Window { earliest: awaited.read, latest };
            let left = message.said.stamp.and_then(|ns| self.arrivals.departed(ns, window));
            let Some(left) = left else { continue };
            if awaited.first {
                self.lag.left(awaited.read, left);
            }
            if let Some(sent) = awaited.sent {
                let left = transmit(face.timestamp(left), awaited.receive);
                self.shared.responder.departed(sent, left);
            }
        }
    }
}

/// Waits for the stamp of another departure; where there are too many the oldest are forgotten.
fn await_departure(all: &mut Vec<Awaited>, departure: Awaited) {
    if all.len() >= AWAITED {
        all.drain(..AWAITED / 2);
    }
    all.push(departure);
}

fn count_answer(tally: &Counters, answer: &Answer, state: &ServerState) {
    if answer.kind == Kind::Kiss {
        return count(&tally.kissed);
    }
    count(&tally.answered);
    add(&tally.interleaved, (answer.kind == Kind::Interleaved).into());
    let versions =
        [(1, &tally.version1), (2, &tally.version2), (3, &tally.version3), (4, &tally.version4)];
    let same = versions.iter().find(|(n, _)| *n == answer.packet.version);
    same.into_iter().for_each(|(_, counter)| count(counter));
    add(&tally.unsynchronised, (state.leap == LeapIndicator::Unsynchronised).into());
}

/// A count of nanoseconds since `origin`.
pub(crate) fn since(origin: Instant) -> u64 {
    u64::try_from(origin.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // a test may
mod tests {
    use super::*;
    use truechimer_keys::Keys;
    use truechimer_ntp::Packet;

    #[test]
    fn the_stamp_of_a_packet_that_left_with_proof_is_that_of_its_reply() {
        let receive = Timestamp(0x0102_0304_0506_0708);
        let header = Packet { receive_timestamp: receive, ..Packet::default() }.encode();
        let keys = Keys::parse("1 AES128 ASCII:0123456789abcdef", "keys").unwrap();
        let proven = keys.get(1).unwrap().protect(&header);
        for packet in [header.to_vec(), proven] {
            let of =
                |receive, len| Awaited { receive, len, sent: None, read: Count(0), first: false };
            for frames in [0, 42, 62] {
                let left = [&vec![0xaa; frames][..], &packet].concat();
                assert!(of(receive, packet.len()).is_of(&left));
                assert!(!of(Timestamp(7), packet.len()).is_of(&left));
            }
            assert!(!of(receive, packet.len() + 4).is_of(&packet), "longer than what left");
            assert!(!of(receive, packet.len() - 4).is_of(&packet));
        }
    }
}
