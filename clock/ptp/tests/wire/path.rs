//! A master, a path with queues and a transparent clock, and a slave, in true time: a count is a
//! nanosecond of it, and so is the master's clock.

use std::collections::BTreeMap;
use std::net::IpAddr;

use truechimer_ptp::{
    Announce, Body, Change, ClockIdentity, ClockQuality, Correction, Exchange, Flags, Header, Kind,
    LogInterval, Message, PortIdentity, Refusal, Slave, Timestamp, Tlv, Wire,
};
use truechimer_time::{Count, CountSpan, Period, Stamp, StampMethod};

pub const SECOND: u64 = 1_000_000_000;
pub const OWN: PortIdentity = PortIdentity { clock: ClockIdentity([2; 8]), port: 1 };

/// Random numbers by a fixed seed (splitmix64).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit.max(1)
    }

    pub fn percent(&mut self, share: u64) -> bool {
        self.below(100) < share
    }
}

pub fn time(ns: u64) -> Timestamp {
    Timestamp { seconds: ns / SECOND, nanos: (ns % SECOND) as u32 }
}

pub fn stamp(ns: u64) -> Stamp {
    Stamp { count: Count(ns), error: CountSpan(0), method: StampMethod::Kernel }
}

/// A master.
#[derive(Clone)]
pub struct Master {
    pub port: PortIdentity,
    pub from: IpAddr,
    pub announce: Announce,
    pub one_step: bool,
    pub sequence: u16,
    pub alive: bool,
    /// Answers to requests for unicast messages: the interval and the seconds that are granted, 0 for a
    /// refusal; none: all is multicast.
    pub grants: Option<(i8, u32)>,
    /// `Sync` and `Delay_Resp` are refused.
    pub announces_only: bool,
    /// `Sync` gets lost, all of it.
    pub mute: bool,
    /// Minor version of its messages, and of those that it understands.
    pub minor_version: u8,
    /// Exponent of the interval between questions that it wants.
    pub questions: i8,
    /// When each kind that is granted ends.
    pub granted: BTreeMap<u8, u64>,
}

impl Master {
    pub fn new(n: u8, priority1: u8) -> Master {
        let clock = ClockIdentity([0x10 + n; 8]);
        Master {
            port: PortIdentity { clock, port: 1 },
            from: [192, 0, 2, n].into(),
            announce: Announce {
                utc_offset: 37,
                priority1,
                quality: ClockQuality { class: 6, accuracy: 0x21, variance: 100 },
                priority2: 128,
                grandmaster: clock,
                ..Announce::default()
            },
            one_step: false,
            sequence: 100,
            alive: true,
            grants: None,
            announces_only: false,
            mute: false,
            minor_version: 1,
            questions: 0,
            granted: BTreeMap::new(),
        }
    }

    /// A master that speaks to those alone who ask.
    pub fn unicast(n: u8, priority1: u8) -> Master {
        Master { grants: Some((0, 300)), ..Master::new(n, priority1) }
    }

    fn serves(&self, kind: Kind, now: u64) -> bool {
        let until = self.granted.get(&(kind as u8));
        self.grants.is_none() || until.is_some_and(|until| now < *until)
    }

    pub fn signal(&self, tlv: &Tlv<'_>, target: PortIdentity) -> Vec<u8> {
        let mut room = [0; 32];
        let rest = tlv.encode(&mut room).unwrap();
        let header = Header { flags: Flags::UNICAST, source: self.port, ..Header::default() };
        let message = Message { header, body: Body::Signaling(target), rest };
        message.encode(&mut [0; 128]).unwrap().to_vec()
    }

    pub fn message(&self, body: Body, sequence: u16, correction: u64, flags: Flags) -> Vec<u8> {
        let unicast = if self.grants.is_some() { Flags::UNICAST } else { Flags::default() };
        let header = Header {
            minor_version: self.minor_version,
            flags: flags.and(Flags::PTP_TIMESCALE).and(unicast),
            correction: Correction((correction << 16) as i64),
            source: self.port,
            sequence,
            // Unicast ones do not say it (table 42).
            interval: if self.grants.is_some() { LogInterval::NONE } else { LogInterval(0) },
            ..Header::default()
        };
        Message { header, body, rest: &[] }.encode(&mut [0; 128]).unwrap().to_vec()
    }

    pub fn announcement(&self) -> Vec<u8> {
        self.message(Body::Announce(self.announce), self.sequence, 0, Flags::default())
    }
}

/// Faults of the path; delays in ns.
#[derive(Clone, Copy, Default)]
pub struct Bad {
    pub loss: u64,
    pub copies: u64,
    /// Longest queue towards the slave, and towards the master.
    pub queues: [u64; 2],
    /// Longest stay in a transparent clock, which it measures.
    pub residence: u64,
}

/// A signalling message: when, to whom and which TLVs by name and kind.
type Signal = (u64, IpAddr, Vec<(&'static str, u8)>);

/// All of it.
pub struct Bed {
    pub masters: Vec<Master>,
    pub slave: Slave,
    pub bad: Bad,
    pub random: Random,
    pub now: u64,
    /// On their way to the slave: when they arrive, from where, the bytes, whether they are stamped.
    flying: BTreeMap<(u64, u64), (IpAddr, Vec<u8>, bool)>,
    number: u64,
    pub exchanges: Vec<Exchange>,
    /// Further `Sync`, each with the number of exchanges before it.
    pub further: Vec<(usize, Exchange)>,
    /// `Sync` a second.
    pub syncs: u64,
    pub changes: Vec<(u64, Change)>,
    pub refusals: Vec<Refusal>,
    /// Clock that answers `Pdelay_Req`, if not the master, and by how much the clock for that is off, ns.
    pub neighbour: (Option<PortIdentity>, u64),
    /// Set where it says how long it took to answer and not when: in one step, or in two.
    pub turnaround: Option<bool>,
    pub asked: Vec<u64>,
    pub signals: Vec<Signal>,
}

impl Bed {
    pub fn new(masters: Vec<Master>, bad: Bad, seed: u64) -> Bed {
        Bed {
            masters,
            slave: Slave::new(OWN, 0, Period::NANOSECOND, 0xfff0),
            bad,
            random: Random(seed),
            now: 1000 * SECOND,
            flying: BTreeMap::new(),
            number: 0,
            exchanges: Vec::new(),
            further: Vec::new(),
            syncs: 1,
            changes: Vec::new(),
            refusals: Vec::new(),
            neighbour: (None, 0),
            turnaround: None,
            asked: Vec::new(),
            signals: Vec::new(),
        }
    }

    /// Test bed whose masters are asked by address.
    pub fn unicast(masters: Vec<Master>, bad: Bad, seed: u64) -> Bed {
        let addresses: Vec<IpAddr> = masters.iter().map(|master| master.from).collect();
        let mut bed = Bed::new(masters, bad, seed);
        bed.slave = bed.slave.with_masters(&addresses, Count(bed.now));
        bed
    }

    /// Something comes to the slave after `delay`, perhaps more than once, or never.
    pub fn send(&mut self, from: IpAddr, bytes: Vec<u8>, event: bool, delay: u64) {
        if self.random.percent(self.bad.loss) {
            return;
        }
        let again = self.random.percent(self.bad.copies);
        for copy in 0..=u64::from(again) {
            self.number += 1;
            let key = (self.now + delay + copy * 1_000_000, self.number);
            self.flying.insert(key, (from, bytes.clone(), event));
        }
    }

    fn way(&mut self, direction: usize) -> (u64, u64) {
        let queue = self.random.below(self.bad.queues[direction] + 1);
        let residence = self.random.below(self.bad.residence + 1);
        (10_000 + queue + residence, residence)
    }

    /// Every second the masters announce themselves and say what time it is; the slave does what is
    /// due in between.
    pub fn run(&mut self, seconds: u64) {
        for _ in 0..seconds {
            for _ in 0..self.syncs {
                for place in 0..self.masters.len() {
                    self.speak(place);
                }
                let end = self.now + SECOND / self.syncs;
                while self.now < end {
                    self.step(end);
                }
            }
        }
    }

    fn speak(&mut self, place: usize) {
        let master = &mut self.masters[place];
        if !master.alive {
            return;
        }
        master.sequence = master.sequence.wrapping_add(1);
        let master = master.clone();
        if master.serves(Kind::Announce, self.now) {
            self.send(master.from, master.announcement(), false, 20_000);
        }
        if master.mute || !master.serves(Kind::Sync, self.now) {
            return;
        }
        let (delay, residence) = self.way(0);
        let t1 = self.now;
        if master.one_step {
            let sync =
                master.message(Body::Sync(time(t1)), master.sequence, residence, Flags::default());
            return self.send(master.from, sync, true, delay);
        }
        // The transparent clock shares its residence time out between both messages.
        let first = self.random.below(residence + 1);
        let sync = Body::Sync(Timestamp::default());
        let sync = master.message(sync, master.sequence, first, Flags::TWO_STEP);
        self.send(master.from, sync, true, delay);
        let follow = Body::FollowUp(time(t1));
        let follow = master.message(follow, master.sequence, residence - first, Flags::default());
        let delay = self.way(0).0;
        self.send(master.from, follow, false, delay);
    }

    fn step(&mut self, end: u64) {
        let arrival = self.flying.first_key_value().map(|(key, _)| key.0);
        let due = self.slave.deadline(Count(self.now)).map(|due| due.0.max(self.now));
        let next = [arrival, due].into_iter().flatten().min().unwrap_or(end);
        if next >= end {
            self.now = end;
            return;
        }
        self.now = next;
        if arrival == Some(next) {
            let (_, (from, bytes, event)) = self.flying.pop_first().unwrap();
            let received = event.then_some(stamp(next));
            match self.slave.heard(from, &bytes, received, Count(next)) {
                Ok(heard) => {
                    self.exchanges.extend(heard.exchange);
                    let before = self.exchanges.len();
                    self.further.extend(heard.further.map(|further| (before, further)));
                    self.changes.extend(heard.change.map(|change| (next, change)));
                }
                Err(refusal) => self.refusals.push(refusal),
            }
            return;
        }
        let random = &mut self.random;
        let (change, request) = self.slave.act(Count(next), &mut || random.next());
        self.changes.extend(change.map(|change| (next, change)));
        if let Some(request) = request {
            self.asked.push(next);
            let to = self.slave.master().map(|master| master.from);
            let unicast = self.slave.grants().next().is_some();
            assert_eq!(request.to(), to.filter(|_| unicast));
            self.exchanges.extend(self.slave.sent(stamp(next)));
            self.answer(&request);
        }
        while let Some(signal) = self.slave.signal(Count(next), &mut || self.random.next()) {
            self.signalled(signal.to().unwrap(), &signal);
        }
    }

    /// A master answers requests and ends.
    fn signalled(&mut self, to: IpAddr, signal: &[u8]) {
        let message = Message::decode(signal).unwrap();
        assert!(message.header.flags.has(Flags::UNICAST));
        let kinds = [Kind::Announce, Kind::Sync, Kind::DelayResp];
        let number = |wire: Wire| kinds.into_iter().find(|k| Wire::of(*k) == wire).unwrap() as u8;
        let mut told = Vec::new();
        let place = self.masters.iter().position(|master| master.from == to && master.alive);
        for tlv in message.tlvs() {
            let (name, wire) = match tlv {
                Tlv::Request(wire, ..) => ("request", wire),
                Tlv::Cancel(wire) => ("cancel", wire),
                Tlv::Acknowledge(wire) => ("acknowledge", wire),
                other => panic!("{other:?}"),
            };
            told.push((name, number(wire)));
            let Some(master) = place.and_then(|place| self.masters.get_mut(place)) else {
                continue;
            };
            let Some((interval, granted)) = master.grants else { continue };
            let answer = match tlv {
                Tlv::Request(kind, _, wanted) => {
                    assert_eq!(wanted, 300);
                    let refused = master.announces_only && kind != Wire::of(Kind::Announce);
                    let seconds = if refused { 0 } else { granted };
                    let until = self.now + u64::from(seconds) * SECOND;
                    master.granted.insert(number(kind), until);
                    Tlv::Grant { kind, interval: LogInterval(interval), seconds, renewed: true }
                }
                Tlv::Cancel(kind) => {
                    master.granted.remove(&number(kind));
                    Tlv::Acknowledge(kind)
                }
                _ => continue,
            };
            let answer = master.signal(&answer, message.header.source);
            self.send(to, answer, false, 100_000);
        }
        self.signals.push((self.now, to, told));
    }

    /// Number of TLVs of that name that went to that address.
    pub fn told(&self, name: &str, to: IpAddr) -> usize {
        let of = self.signals.iter().filter(|(_, whom, _)| *whom == to);
        of.flat_map(|(.., tlvs)| tlvs).filter(|(told, _)| *told == name).count()
    }

    /// All masters hear a question, and the one that is followed answers it.
    fn answer(&mut self, request: &[u8]) {
        let Message { header, body, .. } = Message::decode(request).unwrap();
        let Some(parent) = self.slave.master().map(|master| master.port) else { return };
        let Some(master) = self.masters.iter().find(|m| m.alive && m.port == parent) else {
            return;
        };
        let master = master.clone();
        assert_eq!(header.minor_version, master.minor_version.min(1));
        let (there, residence) = self.way(1);
        if matches!(body, Body::PdelayReq(_)) {
            let (port, off) = self.neighbour;
            let neighbour = Master { port: port.unwrap_or(master.port), ..master };
            let (arrived, stays) = (self.now + there, self.random.below(2_000_000));
            let (times, took) = match self.turnaround {
                Some(_) => ([Timestamp::default(); 2], stays),
                None => ([arrived + off, arrived + stays + off].map(time), 0),
            };
            let [first, second] = times;
            let one_step = self.turnaround == Some(true);
            let flags = if one_step { Flags::default() } else { Flags::TWO_STEP };
            let body = Body::PdelayResp(first, header.source);
            let answer =
                neighbour.message(body, header.sequence, if one_step { took } else { 0 }, flags);
            let body = Body::PdelayRespFollowUp(second, header.source);
            let follow = neighbour.message(body, header.sequence, took, Flags::default());
            let (one, other) = (self.way(0).0, self.way(0).0);
            self.send(neighbour.from, answer, true, there + stays + one);
            if one_step {
                return;
            }
            return self.send(neighbour.from, follow, false, there + stays + other);
        }
        let body = Body::DelayResp(time(self.now + there), header.source);
        let mut response = master.message(body, header.sequence, residence, Flags::default());
        if master.grants.is_none() {
            // The last field of the header (13.3.2.14).
            response[33] = master.questions as u8;
        }
        let back = self.way(0).0;
        self.send(master.from, response, false, there + back);
    }

    /// Checks that every exchange holds what causality says: the question left before it had
    /// arrived, and the time was told before it had come.
    pub fn hold(&self) {
        for exchange in &self.exchanges {
            let at = |count: Count| i128::from(count.0);
            let sent = at(exchange.sent.count);
            let received = at(exchange.received.count);
            assert!(sent <= exchange.master_received.as_nanos() + 1, "{exchange:?}");
            assert!(exchange.master_sent.as_nanos() <= received, "{exchange:?}");
            assert!(exchange.master_sent >= exchange.master_received, "{exchange:?}");
        }
    }
}
