//! The engine in a made-up network, with the truth at hand.

pub mod again;

use std::collections::BTreeMap;
use std::net::SocketAddr;

use truechimer_engine::{
    Action, Config, Engine, Event, HostCheck, SourceConfig, SourceId, Start, Steer,
};
use truechimer_ntp::{HEADER_LEN, LeapIndicator, Log2, RefId, Short, Timestamp, server};
use truechimer_time::{
    BootId, Count, CountSpan, CounterId, CounterKind, Epoch, Instant, Leaps, Period, Rate, Span,
    Stamp, StampMethod,
};
use truechimer_timehands::{Hand, Status};

/// True time is the count in ns, from here on (2027).
pub const ORIGIN: i64 = 1_800_000_000;

pub fn truth(count: Count) -> Instant {
    Instant::new(ORIGIN, 0) + Span::from_nanos(count.0 as i64)
}

pub fn start() -> Start {
    Start::new(
        Count(1_000_000_000),
        CounterId { kind: CounterKind::Simulated, boot: BootId([7; 16]), epoch: Epoch(3) },
        Period::NANOSECOND,
        [42; 32],
    )
}

pub fn config(hosts: &[&str]) -> Config {
    Config {
        sources: hosts.iter().map(|h| SourceConfig { poll: 16, ..SourceConfig::new(*h) }).collect(),
        ..Config::default()
    }
}

pub fn address(host: &str) -> SocketAddr {
    if let Ok(ip) = host.parse() {
        return SocketAddr::new(ip, 123);
    }
    format!("192.0.2.{}:123", host.trim_start_matches(char::is_alphabetic)).parse().unwrap()
}

/// Behaviour of a server.
#[derive(Clone, Copy)]
pub struct Server {
    pub offset: Span,
    pub stratum: u8,
    pub kiss: Option<[u8; 4]>,
    /// Least interval of requests, s: sooner ones are answered with `RATE`.
    pub allows: i64,
    pub up: bool,
    /// One-way delays, there and back, ns.
    pub delay: i64,
    pub back: i64,
    /// Rate at which its clock gains from the start on, ppb.
    pub skew: i64,
    pub leap: LeapIndicator,
    /// Interval at which its clock is set, ns, by itself or by another daemon there; 0: always.
    pub set_every: u64,
}

pub const HONEST: Server = Server {
    offset: Span::ZERO,
    stratum: 2,
    kiss: None,
    allows: 0,
    up: true,
    delay: 100_000,
    back: 100_000,
    skew: 0,
    leap: LeapIndicator::None,
    set_every: 0,
};

/// The engine, its servers, and everything that happened.
pub struct World {
    pub engine: Engine,
    pub now: Count,
    pub servers: BTreeMap<SocketAddr, Server>,
    pub hosts: BTreeMap<SourceId, String>,
    /// The reference clocks that are open.
    pub watched: BTreeMap<SourceId, String>,
    pub log: Vec<(Count, Event)>,
    pub hands: Vec<Hand>,
    pub sent: Vec<(Count, SourceId)>,
    /// To whom, in the same order.
    pub sent_to: Vec<SocketAddr>,
    /// The requests, in the same order.
    pub packets: Vec<[u8; HEADER_LEN]>,
    /// Leap seconds as they really are.
    pub leaps: Leaps,
    pub steers: Vec<Steer>,
    /// Notes for users, debug lines apart.
    pub notes: Vec<String>,
    /// Addresses that every name resolves to besides its own.
    pub more_addresses: Vec<SocketAddr>,
    /// Addresses of names that have several.
    pub names: BTreeMap<String, Vec<SocketAddr>>,
    /// Address that every name resolves to instead of its own.
    pub moved: Option<SocketAddr>,
    /// True if another event comes before each answer of the name service.
    pub interrupted: bool,
    /// There is no name service.
    pub nameless: bool,
    /// Sources of this host are not answered, by whatever server.
    pub deaf: Option<String>,
    /// No keys are left: no request can be protected.
    pub keyless: bool,
    /// Stamps to give to replies instead of the true ones.
    pub stamps: Option<(Stamp, Stamp)>,
}

impl World {
    pub fn new(hosts: &[&str], start: Start) -> World {
        let (engine, actions) = Engine::new(config(hosts), start.clone());
        let mut world = World {
            engine,
            now: start.at,
            servers: hosts.iter().map(|h| (address(h), HONEST)).collect(),
            hosts: BTreeMap::new(),
            watched: BTreeMap::new(),
            log: Vec::new(),
            hands: Vec::new(),
            sent: Vec::new(),
            sent_to: Vec::new(),
            packets: Vec::new(),
            leaps: Leaps::default(),
            steers: Vec::new(),
            notes: Vec::new(),
            more_addresses: Vec::new(),
            names: BTreeMap::new(),
            moved: None,
            interrupted: false,
            nameless: false,
            deaf: None,
            keyless: false,
            stamps: None,
        };
        world.carry_out(actions);
        world
    }

    pub fn server(&mut self, host: &str) -> &mut Server {
        self.servers.get_mut(&address(host)).unwrap()
    }

    pub fn event(&mut self, event: Event) {
        self.log.push((self.now, event.clone()));
        let actions = self.engine.handle(self.now, event);
        self.carry_out(actions);
        self.notes.extend(self.engine.warning());
    }

    pub fn carry_out(&mut self, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Ptp(_) => panic!("there is no PTP port"),
                Action::Resolve { source, host, .. } => {
                    self.hosts.insert(source, host.clone());
                    let result = if host == "nowhere" {
                        Err("no such name".into())
                    } else if self.nameless {
                        Err("no name service".into())
                    } else if let Some(addresses) = self.names.get(&host) {
                        Ok(addresses.clone())
                    } else if host == "mapped" {
                        Ok(vec!["[::ffff:192.0.2.1]:123".parse().unwrap()])
                    } else {
                        let first = std::iter::once(self.moved.unwrap_or(address(&host)));
                        Ok(first.chain(self.more_addresses.iter().copied()).collect())
                    };
                    if self.interrupted {
                        self.event(Event::Timer);
                    }
                    self.event(Event::Resolved { source, result });
                }
                Action::Send { source, .. } if self.keyless => {
                    self.event(Event::Unprotected { source, error: "no cookie is left".into() });
                }
                Action::Send { source, to, packet, .. } => {
                    self.sent.push((self.now, source));
                    self.sent_to.push(to);
                    self.packets.push(packet);
                    self.exchange(source, to, &packet);
                }
                Action::Publish(hand) => self.hands.push(hand),
                Action::Steer(steer) => self.steers.push(steer),
                Action::Note { text, .. } => self.notes.push(text),
                Action::Watch { source, path, .. } => {
                    self.watched.insert(source, path);
                }
                Action::Close { source } => {
                    self.watched.remove(&source);
                }
            }
        }
    }

    /// The request travels, is answered and comes back, all before anything else happens.
    pub fn exchange(&mut self, source: SourceId, to: SocketAddr, packet: &[u8]) {
        let Some(server) = self.servers.get(&to).copied().filter(|s| s.up) else { return };
        if self.deaf.is_some() && self.hosts.get(&source) == self.deaf.as_ref() {
            return;
        }
        let leave = self.now;
        let at_server = leave + CountSpan(server.delay);
        let gained = Rate::from_ppb(server.skew).over(truth(at_server) - truth(start().at));
        let time = truth(at_server) + server.offset + gained;
        let stamp = Timestamp::from_instant(time, &self.leaps);
        let state = server::ServerState {
            leap: server.leap,
            stratum: server.stratum,
            precision: Log2(-25),
            root_delay: Short::default(),
            root_dispersion: Short::at_least(Span::from_micros(10)),
            reference_id: RefId(*b"TEST"),
            reference_timestamp: match at_server.0.checked_div(server.set_every) {
                Some(times) => {
                    let then = truth(Count(times * server.set_every));
                    Timestamp::from_instant(then, &self.leaps)
                }
                None => stamp,
            },
        };
        let Some(mut reply) = server::respond(packet, stamp, stamp, &state) else { return };
        reply[1] = server.stratum;
        let asked = self.sent.iter().zip(&self.sent_to).rev().skip(1).find(|(_, who)| **who == to);
        let too_soon =
            |(before, _): &(Count, SourceId)| (leave - *before).0 < server.allows * 1_000_000_000;
        let rate = asked.is_some_and(|(before, _)| too_soon(before)).then_some(*b"RATE");
        if let Some(code) = server.kiss.or(rate) {
            reply[1] = 0;
            reply[12..16].copy_from_slice(&code);
        }
        self.now = at_server + CountSpan(server.back);
        let stamp = |count| Stamp { count, error: CountSpan(50), method: StampMethod::Kernel };
        let (sent, received) = self.stamps.unwrap_or((stamp(leave), stamp(self.now)));
        self.event(Event::Reply { source, from: to, sent, received, packet: reply.to_vec() });
    }

    /// Runs for so many seconds, with the host's checks each second.
    pub fn run(&mut self, seconds: i64) {
        let end = self.now + CountSpan(seconds * 1_000_000_000);
        let mut check = self.now + CountSpan(1_000_000_000);
        loop {
            let deadline = self.engine.next_deadline().unwrap_or(end);
            let next = if deadline.at_or_after(check) { check } else { deadline };
            if next.at_or_after(end) {
                break;
            }
            self.now = self.now.latest(next);
            if next == check {
                let raw_ns = self.now.0 as i64;
                self.event(Event::Check(HostCheck {
                    count: self.now,
                    raw_ns,
                    suspended_ns: 0,
                    width: CountSpan(0),
                }));
                check = check + CountSpan(1_000_000_000);
            } else {
                self.event(Event::Timer);
            }
        }
        self.now = self.now.latest(end);
    }

    /// Runs for so many days without the host's checks: only what the engine wants to do happens.
    pub fn run_days(&mut self, days: i64) {
        let end = self.now + CountSpan(days * 86_400 * 1_000_000_000);
        while let Some(due) = self.engine.next_deadline() {
            if due.at_or_after(end) {
                break;
            }
            self.now = self.now.latest(due);
            self.event(Event::Timer);
        }
        self.now = self.now.latest(end);
    }

    pub fn hand(&self) -> &Hand {
        self.hands.last().unwrap()
    }

    pub fn error(&self) -> Span {
        self.hand().time_at(self.now) - truth(self.now)
    }

    pub fn assert_true(&self) {
        assert_eq!(self.hand().status, Status::Synchronised);
        let (error, [before, after]) = (self.error(), self.hand().reach_at(self.now));
        assert!(error <= before && -error <= after, "error {error}: -{before} +{after}");
    }
}
