//! The engine beside made-up servers, in simulated time and by whole numbers alone: the same on
//! every machine, also on one without an operating system (`examples/follow`).

#![allow(dead_code)]

use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;
use core::net::SocketAddr;

use truechimer_engine::{
    Action, Config, Engine, Event, HostCheck, Method, SourceConfig, SourceId, Start, SystemReading,
};
use truechimer_ntp::server::{ServerState, respond};
use truechimer_ntp::{HEADER_LEN, LeapIndicator, Log2, RefId, Short, Timestamp};
use truechimer_time::{
    BootId, Count, CountSpan, CounterId, CounterKind, Epoch, Instant, Leaps, Period, Span, Stamp,
    StampMethod,
};
use truechimer_timehands::{Hand, Made, pack};

/// Counts in a second.
pub const SECOND: i64 = 1_000_000_000;
/// The counter gains as much, millionths.
const SKEW: i64 = 23;
/// The system clock is ahead by as much, ns.
const SYSTEM_AHEAD: i64 = 300_000;

/// True time at a count.
pub fn truth(count: Count) -> Instant {
    let counts = i128::from(count.0);
    let ns = counts - counts * i128::from(SKEW) / 1_000_000;
    Instant::new(1_800_000_000, 0) + Span::from_nanos_wide(ns)
}

/// Start of an engine without history.
pub fn start() -> Start {
    Start::new(
        Count(SECOND as u64),
        CounterId { kind: CounterKind::Simulated, boot: BootId([7; 16]), epoch: Epoch(3) },
        Period::NANOSECOND,
        [42; 32],
    )
}

/// Follows so many servers, each asked every 16 s, and steers the system clock by them.
pub fn config(servers: u8) -> Config {
    let source = |n| SourceConfig { poll: 16, ..SourceConfig::new(format!("192.0.2.{n}")) };
    Config { sources: (1..=servers).map(source).collect(), discipline: true, ..Config::default() }
}

/// Sees every event on its way into the engine, and what came of it.
pub trait Watcher {
    /// The engine is about to be called.
    fn before(&mut self) {}

    /// Called after it.
    fn after(&mut self, at: Count, event: &Event, actions: &[Action]) {
        let _ = (at, event, actions);
    }
}

/// Watches nothing.
impl Watcher for () {}

/// A server, and the path to it.
#[derive(Clone, Copy, Debug)]
pub struct Server {
    /// Least time that requests and replies take, ns.
    pub floors: [i64; 2],
    /// Most that a short queue adds, ns; one in 16 is eight times as long.
    pub queue: i64,
    /// True if it answers.
    pub up: bool,
}

impl Server {
    /// A server in the next town, so many ns away in either direction.
    pub fn away(ns: i64) -> Server {
        Server { floors: [ns, ns], queue: ns / 8, up: true }
    }
}

/// A reply on its way.
#[derive(Clone, Copy)]
struct Flying {
    source: SourceId,
    from: SocketAddr,
    sent: Count,
    received: Count,
    packet: [u8; HEADER_LEN],
}

/// The engine, its servers, and what they have come to.
pub struct Bed {
    pub engine: Engine,
    pub now: Count,
    pub servers: Vec<Server>,
    /// Digest of all hands that were published (FNV-1a, 64 bit), and how many they are.
    pub digest: u64,
    pub hands: u32,
    /// Number of replies that came.
    pub replies: u32,
    flying: Vec<Option<Flying>>,
    random: u64,
    check: Count,
    reply: Event,
    actions: Vec<Action>,
}

impl Bed {
    /// Begins with servers that are so far away, ns.
    pub fn new(away: &[i64], method: Box<dyn Method>, watcher: &mut impl Watcher) -> Bed {
        let servers: Vec<Server> = away.iter().map(|ns| Server::away(*ns)).collect();
        let start = start();
        let now = start.at;
        let (engine, actions) = Engine::with_method(config(away.len() as u8), start, method);
        let stamp = stamp(now);
        let mut bed = Bed {
            engine,
            now,
            flying: servers.iter().map(|_| None).collect(),
            servers,
            digest: 0xcbf2_9ce4_8422_2325,
            hands: 0,
            replies: 0,
            random: 1,
            check: now + CountSpan(SECOND),
            reply: Event::Reply {
                source: SourceId(0),
                from: address(0),
                sent: stamp,
                received: stamp,
                packet: Vec::with_capacity(HEADER_LEN),
            },
            actions: Vec::new(),
        };
        bed.carry_out(actions, watcher);
        bed
    }

    /// The published time − true time now.
    pub fn error(&self) -> Span {
        self.engine.hand().time_at(self.now) - truth(self.now)
    }

    /// Lets so many seconds pass.
    pub fn run(&mut self, seconds: i64, watcher: &mut impl Watcher) {
        self.run_to(self.now + CountSpan(seconds * SECOND), watcher);
    }

    /// Lets time pass until this count.
    pub fn run_to(&mut self, end: Count, watcher: &mut impl Watcher) {
        loop {
            let arrival = self.flying.iter().flatten().map(|flying| flying.received);
            let deadline = self.engine.next_deadline();
            let due = arrival.chain(deadline).chain([self.check]);
            let Some(next) = due.min_by_key(|at| (*at - self.now).0) else { return };
            if next.at_or_after(end) {
                self.now = end;
                return;
            }
            self.now = self.now.latest(next);
            let arrived = |flying: &Option<Flying>| flying.is_some_and(|f| f.received == next);
            if let Some(place) = self.flying.iter().position(arrived) {
                self.arrive(place, watcher);
            } else if next == self.check {
                self.host(watcher);
            } else {
                self.give(&Event::Timer, watcher);
            }
        }
    }

    /// The host looks at its clocks, once a second.
    fn host(&mut self, watcher: &mut impl Watcher) {
        let (count, raw_ns) = (self.now, self.now.0 as i64);
        let check = HostCheck { count, raw_ns, suspended_ns: 0, width: CountSpan(0) };
        self.give(&Event::Check(check), watcher);
        let unix_ns = truth(count).as_nanos() as i64 + SYSTEM_AHEAD;
        let reading = SystemReading { count, unix_ns, raw_ns, frequency: None };
        self.give(&Event::SystemClock(reading), watcher);
        self.check = count + CountSpan(SECOND);
    }

    fn arrive(&mut self, place: usize, watcher: &mut impl Watcher) {
        let Some(flying) = self.flying.get_mut(place).and_then(Option::take) else { return };
        let Event::Reply { source, from, sent, received, packet } = &mut self.reply else { return };
        (*source, *from) = (flying.source, flying.from);
        (*sent, *received) = (stamp(flying.sent), stamp(flying.received));
        packet.clear();
        packet.extend_from_slice(&flying.packet);
        self.replies += 1;
        let reply = core::mem::replace(&mut self.reply, Event::Timer);
        self.give(&reply, watcher);
        self.reply = reply;
    }

    /// Tells the engine of an event now.
    pub fn give(&mut self, event: &Event, watcher: &mut impl Watcher) {
        let mut actions = core::mem::take(&mut self.actions);
        watcher.before();
        self.engine.handle_into(self.now, event, &mut actions);
        watcher.after(self.now, event, &actions);
        self.carry_out(actions, watcher);
    }

    fn carry_out(&mut self, mut actions: Vec<Action>, watcher: &mut impl Watcher) {
        for action in actions.drain(..) {
            match action {
                Action::Resolve { source, .. } => {
                    let result = Ok([address(source.0)].into());
                    self.give(&Event::Resolved { source, result }, watcher);
                }
                Action::Send { source, to, packet, .. } => self.send(source, to, &packet),
                Action::Publish(hand) => self.publish(&hand),
                _ => {}
            }
        }
        self.actions = actions;
    }

    fn send(&mut self, source: SourceId, from: SocketAddr, request: &[u8]) {
        let place = source.0 as usize;
        let Some(Server { floors, queue, up: true }) = self.servers.get(place).copied() else {
            return;
        };
        let [there, back] = floors.map(|floor| floor + self.queued(queue));
        let served = self.now + CountSpan(there);
        let time = Timestamp::from_instant(truth(served), &Leaps::default());
        let state = ServerState {
            leap: LeapIndicator::None,
            stratum: 2,
            precision: Log2(-25),
            root_delay: Short::default(),
            root_dispersion: Short::at_least(Span::from_micros(10)),
            reference_id: RefId(*b"TEST"),
            reference_timestamp: time,
        };
        let Some(packet) = respond(request, time, time, &state) else { return };
        let (sent, received) = (self.now, served + CountSpan(back));
        if let Some(slot) = self.flying.get_mut(place) {
            *slot = Some(Flying { source, from, sent, received, packet });
        }
    }

    fn queued(&mut self, most: i64) -> i64 {
        // Marsaglia's xorshift.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let part = most * (self.random >> 44 & 0xffff) as i64 / 0x1_0000;
        if self.random & 15 == 0 { part * 8 } else { part }
    }

    fn publish(&mut self, hand: &Hand) {
        self.hands += 1;
        let made =
            Made { count: hand.base, monotonic_ns: 0, raw_ns: 0, suspended_ns: 0, device: None };
        for byte in pack(hand, &made).iter().flat_map(|word| word.to_le_bytes()) {
            self.digest = (self.digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

/// Digest of the hands of [`story`]: the same on every machine. It changes with
/// every change of what is published; `cargo test -p truechimer-engine-tests --test all story::` says the new one.
pub const STORY: u64 = 0x1702_b97d_b3e1_d8ed;

/// Follows one server for an hour and more, in which the way back becomes longer, and nobody answers
/// for a while.
pub fn story(method: Box<dyn Method>, watcher: &mut impl Watcher) -> Bed {
    let mut bed = Bed::new(&[200_000], method, watcher);
    let mut for_minutes = |bed: &mut Bed, minutes: i64| bed.run(minutes * 60, watcher);
    for_minutes(&mut bed, 20);
    bed.servers.iter_mut().for_each(|server| server.floors[1] += 150_000);
    for_minutes(&mut bed, 20);
    bed.servers.iter_mut().for_each(|server| server.up = false);
    for_minutes(&mut bed, 5);
    bed.servers.iter_mut().for_each(|server| server.up = true);
    for_minutes(&mut bed, 20);
    bed
}

fn stamp(count: Count) -> Stamp {
    Stamp { count, error: CountSpan(50), method: StampMethod::Kernel }
}

fn address(source: u32) -> SocketAddr {
    ([192, 0, 2, source as u8 + 1], 123).into()
}
