//! PTP ports: the truth is inside the bound whatever queues and transparent clocks do, and masters
//! that are better, gone, or false.

use std::collections::BTreeMap;
use std::net::IpAddr;

use proptest::prelude::*;
use truechimer_engine::{
    Action, Config, Delay, Engine, Event, HostCheck, Profile, PtpAction, PtpConfig, PtpEvent,
    ReasonKind, SourceConfig, SourceId, SourceReport, SourceStatus, Start, Timescale,
};
use truechimer_ptp::{
    Announce, Body, ClockIdentity, ClockQuality, Correction, Flags, Header, LogInterval, Message,
    PortIdentity, Timestamp, Tlv,
};
use truechimer_time::{Count, CountSpan, Instant, Leaps, Span, Stamp, StampMethod};
use truechimer_timehands::{Hand, Status};

use crate::world::{ORIGIN, start, truth};

const SECOND: u64 = 1_000_000_000;
const TAI: Leaps = Leaps { tai_offset: 37, known: true, last: None, next: None };

/// A master on one of the networks.
#[derive(Clone)]
struct Master {
    network: usize,
    port: PortIdentity,
    from: IpAddr,
    announce: Announce,
    flags: Flags,
    alive: bool,
    /// Master's time − true time, ns.
    offset: i64,
    /// Longest queues to the slave and back, and longest stay in a transparent clock, ns.
    queues: [u64; 2],
    residence: u64,
}

fn master(network: usize, n: u8) -> Master {
    let clock = ClockIdentity([n; 8]);
    Master {
        network,
        port: PortIdentity { clock, port: 1 },
        from: [192, 0, 2, n].into(),
        announce: Announce {
            utc_offset: 37,
            priority1: n,
            quality: ClockQuality { class: 6, accuracy: 0x21, variance: 100 },
            priority2: 128,
            grandmaster: clock,
            ..Announce::default()
        },
        flags: Flags::PTP_TIMESCALE.and(Flags::UTC_OFFSET_VALID),
        alive: true,
        offset: 0,
        queues: [20_000, 20_000],
        residence: 0,
    }
}

/// Network, sender and bytes of a message, and whether it is stamped.
type Flying = (usize, IpAddr, Vec<u8>, bool);

/// Ports on `eth0`, `eth1` and so on, and all that happened.
struct Bed {
    engine: Engine,
    now: u64,
    masters: Vec<Master>,
    /// On their way, by when they come and their number.
    flying: BTreeMap<(u64, u64), Flying>,
    number: u64,
    sequence: u16,
    /// Which source listens on which network.
    listening: BTreeMap<usize, SourceId>,
    notes: Vec<String>,
    hands: Vec<Hand>,
    asked: Vec<u64>,
    random: u64,
    /// TAI − what the masters' clocks show, s.
    shown: i64,
    /// TLVs of signalling messages; requests in them are refused with `refuses`.
    told: Vec<String>,
    refuses: bool,
    /// Number of the masters' profile.
    sdo_id: u16,
    /// Answers to a neighbour.
    answers: Vec<Vec<u8>>,
}

impl Bed {
    fn with(sources: Vec<SourceConfig>, masters: Vec<Master>, start: Start) -> Bed {
        let config = Config { sources, ..Config::default() };
        let now = start.at.0;
        let (engine, actions) = Engine::new(config, start);
        let mut bed = Bed {
            engine,
            now,
            masters,
            flying: BTreeMap::new(),
            number: 0,
            sequence: 0,
            listening: BTreeMap::new(),
            notes: Vec::new(),
            hands: Vec::new(),
            asked: Vec::new(),
            random: 1,
            shown: 0,
            told: Vec::new(),
            refuses: false,
            sdo_id: 0,
            answers: Vec::new(),
        };
        bed.act(actions);
        bed
    }

    fn new(sources: Vec<SourceConfig>, masters: Vec<Master>) -> Bed {
        Bed::with(sources, masters, Start { leaps: TAI, ..start() })
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(99);
        (self.random >> 33) % (limit + 1)
    }

    fn stamp(&self) -> Stamp {
        Stamp { count: Count(self.now), error: CountSpan(100), method: StampMethod::Kernel }
    }

    /// True time as a master's timestamp: the engine's scale is TAI where leap seconds are known.
    fn time(&self, ns: u64, master: &Master) -> Timestamp {
        let ns = (ns as i64 + ORIGIN * SECOND as i64 + master.offset) as u64;
        Timestamp {
            seconds: (ns / SECOND).saturating_add_signed(self.shown),
            nanos: (ns % SECOND) as u32,
        }
    }

    fn send(
        &mut self,
        master: &Master,
        body: Body,
        (sequence, correction): (u16, u64),
        (delay, event): (u64, bool),
    ) {
        let header = Header {
            sdo_id: self.sdo_id,
            minor_version: 1,
            flags: master.flags,
            correction: Correction((correction << 16) as i64),
            source: master.port,
            sequence,
            interval: LogInterval(0),
            ..Header::default()
        };
        let bytes = Message { header, body, rest: &[] }.encode(&mut [0; 128]).unwrap().to_vec();
        self.number += 1;
        let key = (self.now + delay, self.number);
        self.flying.insert(key, (master.network, master.from, bytes, event));
    }

    fn way(&mut self, master: &Master, direction: usize) -> (u64, u64) {
        let residence = self.below(master.residence);
        (30_000 + self.below(master.queues[direction]) + residence, residence)
    }

    fn run(&mut self, seconds: u64) {
        for _ in 0..seconds {
            self.sequence = self.sequence.wrapping_add(1);
            for master in self.masters.clone().iter().filter(|master| master.alive) {
                let sequence = self.sequence;
                self.send(master, Body::Announce(master.announce), (sequence, 0), (50_000, false));
                let (delay, residence) = self.way(master, 0);
                let sync = Body::Sync(self.time(self.now, master));
                self.send(master, sync, (sequence, residence), (delay, true));
            }
            let (raw_ns, suspended_ns) = (self.now as i64, 0);
            let (count, width) = (Count(self.now), CountSpan(100));
            self.handle(Event::Check(HostCheck { count, raw_ns, suspended_ns, width }));
            let end = self.now + SECOND;
            while self.now < end {
                self.step(end);
            }
            self.check();
        }
    }

    fn step(&mut self, end: u64) {
        let arrival = self.flying.first_key_value().map(|(key, _)| key.0);
        let due = self.engine.next_deadline().map(|due| due.0.max(self.now));
        let next = [arrival, due].into_iter().flatten().min().unwrap_or(end);
        if next >= end {
            self.now = end;
            return;
        }
        self.now = next;
        if arrival != Some(next) {
            return self.handle(Event::Timer);
        }
        let (_, (network, from, packet, event)) = self.flying.pop_first().unwrap();
        if let Some(source) = self.listening.get(&network).copied() {
            let received = event.then(|| self.stamp());
            self.handle(Event::Ptp(PtpEvent::Message { source, from, received, packet }));
        }
    }

    fn handle(&mut self, event: Event) {
        // All that happens can be read back from a log.
        let line = serde_json::to_string(&event).unwrap();
        assert_eq!(serde_json::from_str::<Event>(&line).unwrap(), event);
        let actions = self.engine.handle(Count(self.now), event);
        self.act(actions);
    }

    fn act(&mut self, actions: Vec<Action>) {
        for action in actions {
            let line = serde_json::to_string(&action).unwrap();
            assert_eq!(serde_json::from_str::<Action>(&line).unwrap(), action);
            match action {
                Action::Ptp(PtpAction::Listen { source, interface, .. }) => {
                    let network = interface.strip_prefix("eth").unwrap().parse().unwrap();
                    self.listening.insert(network, source);
                }
                Action::Ptp(PtpAction::Ask { source, packet, .. }) => self.asked(source, &packet),
                Action::Ptp(PtpAction::Tell { to: Some(to), packet, .. }) => self.told(to, &packet),
                Action::Ptp(PtpAction::Tell { packet, .. }) => self.answers.push(packet),
                Action::Ptp(PtpAction::Answer { source, packet }) => {
                    self.answers.push(packet);
                    self.now += 20_000;
                    let sent = self.stamp();
                    self.handle(Event::Ptp(PtpEvent::Sent { source, sent, answer: true }));
                }
                Action::Note { text, .. } => self.notes.push(text),
                Action::Publish(hand) => self.hands.push(hand),
                _ => {}
            }
        }
    }

    fn asked(&mut self, source: SourceId, packet: &[u8]) {
        self.asked.push(self.now);
        let sent = self.stamp();
        let Message { header, .. } = Message::decode(packet).unwrap();
        let network = *self.listening.iter().find(|(_, id)| **id == source).unwrap().0;
        self.handle(Event::Ptp(PtpEvent::Sent { source, sent, answer: false }));
        for master in self.masters.clone() {
            if master.alive && master.network == network {
                let (there, residence) = self.way(&master, 1);
                let body = Body::DelayResp(self.time(self.now + there, &master), header.source);
                let (back, _) = self.way(&master, 0);
                self.send(&master, body, (header.sequence, residence), (there + back, false));
            }
        }
    }

    /// A master that is asked by address grants what it is asked for, or nothing with `refuses`.
    fn told(&mut self, to: IpAddr, packet: &[u8]) {
        let message = Message::decode(packet).unwrap();
        self.told.extend(message.tlvs().map(|tlv| format!("{tlv:?}")));
        let Some(master) = self.masters.iter().find(|master| master.from == to).cloned() else {
            return;
        };
        for tlv in message.tlvs() {
            let Tlv::Request(kind, interval, seconds) = tlv else { continue };
            let seconds = if self.refuses { 0 } else { seconds };
            let grant = Tlv::Grant { kind, interval, seconds, renewed: true };
            let mut room = [0; 16];
            let rest = grant.encode(&mut room).unwrap();
            let header = Header { flags: Flags::UNICAST, source: master.port, ..Header::default() };
            let body = Body::Signaling(message.header.source);
            let bytes = Message { header, body, rest }.encode(&mut [0; 128]).unwrap().to_vec();
            self.number += 1;
            let key = (self.now + 100_000, self.number);
            self.flying.insert(key, (master.network, master.from, bytes, false));
        }
    }

    /// The truth lies in the bound, if one is promised.
    fn check(&self) {
        let hand = self.engine.hand();
        if hand.status.bound_holds() {
            let at = Count(self.now);
            let off = (hand.time_at(at) - truth(at)).abs();
            assert!(off <= hand.bound_at(at), "{off} of {} at {}", hand.bound_at(at), self.now);
        }
    }

    fn rows(&self) -> Vec<SourceReport> {
        self.engine.report(Count(self.now)).sources
    }

    fn status(&self) -> Status {
        self.engine.hand().status
    }

    fn said(&self, text: &str) -> bool {
        self.notes.iter().any(|note| note.contains(text))
    }
}

fn eth(n: usize) -> SourceConfig {
    SourceConfig::ptp(format!("eth{n}"))
}

fn eth_with(n: usize, change: impl Fn(&mut PtpConfig)) -> SourceConfig {
    let mut config = eth(n);
    change(config.ptp.as_mut().unwrap());
    config
}

#[test]
fn a_master_is_found_followed_and_shown() {
    let mut bed = Bed::new(vec![eth(0)], vec![master(0, 1), master(0, 2)]);
    bed.run(300);
    assert_eq!(bed.status(), Status::Synchronised, "{:?}", bed.notes);
    // Half of the shortest round trip is 30 µs.
    let bound = bed.engine.hand().bound_at(Count(bed.now));
    assert!(bound < Span::from_micros(45), "{bound}");
    let row = &bed.rows()[0];
    assert_eq!((row.name.as_str(), row.status), ("ptp:eth0", SourceStatus::Selected));
    // The newest question may have no Sync yet.
    assert_eq!((row.reach | 1, row.stratum, row.poll), (255, Some(1), 1));
    assert_eq!(row.reference.as_deref(), Some("01-01-01-01-01-01-01-01"));
    let ptp = row.ptp.as_ref().unwrap();
    assert_eq!(ptp.master.as_ref().unwrap().accuracy, Some(Span::from_nanos(100)));
    assert_eq!(ptp.others.len(), 1);
    assert!(row.root_distance.unwrap() < Span::from_nanos(200));
    assert!(bed.said("ptp:eth0: follows the PTP master 01-01-01-01-01-01-01-01 port 1"));
    assert_eq!(bed.engine.followed().unwrap().port, 319);
}

#[test]
fn masters_are_asked_by_address_and_told_the_end() {
    let unicast = |n: u8| {
        let honest = master(0, n);
        Master { flags: honest.flags.and(Flags::UNICAST), ..honest }
    };
    let port = || eth_with(0, |ptp| ptp.masters = vec![unicast(1).from, unicast(2).from]);
    let configure =
        |source| Event::Configure(Config { sources: vec![source], ..Config::default() });
    let mut bed = Bed::new(Vec::new(), vec![unicast(1), unicast(2), unicast(3)]);
    bed.refuses = true;
    bed.handle(configure(port()));
    bed.run(60);
    assert_eq!(bed.status(), Status::Unknown);
    let row = &bed.rows()[0];
    let trouble = row.trouble.as_ref().unwrap();
    assert!(trouble.contains("192.0.2.1 refuses Announce, 192.0.2.2 refuses"), "{trouble}");
    assert_eq!(row.ptp.as_ref().unwrap().asked[0].announce, "refused");
    bed.refuses = false;
    bed.run(150);
    assert_eq!(bed.status(), Status::Synchronised);
    let row = &bed.rows()[0];
    assert_eq!((row.name.as_str(), row.trouble.as_ref()), ("ptp:eth0/unicast", None));
    let ptp = row.ptp.as_ref().unwrap();
    let states = |place: usize| {
        let asked = &ptp.asked[place];
        [&asked.announce, &asked.sync, &asked.delay_resp].map(String::as_str)
    };
    assert_eq!((states(0), states(1)), (["granted"; 3], ["granted", "unwanted", "unwanted"]));
    // The third speaks without having been asked.
    assert_eq!(ptp.others.len(), 1);
    assert!(row.refused["ungranted"] > 100, "{:?}", row.refused);
    let ended = |bed: &Bed| bed.told.iter().filter(|tlv| tlv.starts_with("Cancel")).count();
    // The first is told of three kinds, the second of announcements.
    for end in [configure(eth(1)), Event::Stop] {
        bed.told.clear();
        bed.handle(end);
        assert_eq!(ended(&bed), 4);
        bed.handle(configure(port()));
        bed.run(20);
    }
}

#[test]
fn a_neighbour_is_answered_by_the_counter() {
    let port = eth_with(0, |ptp| {
        (ptp.profile, ptp.delay) = (Profile::Ieee8021as, Delay::P2p);
    });
    let mut bed = Bed::new(vec![port], vec![master(0, 1)]);
    bed.sdo_id = 0x100;
    bed.run(5);
    let neighbour = master(0, 1);
    let question = Body::PdelayReq(Timestamp::default());
    bed.send(&neighbour, question, (7, 0), (1000, true));
    bed.run(1);
    let [answer, follow] = [0, 1].map(|n| Message::decode(&bed.answers[n]).unwrap().body);
    let Body::PdelayResp(came, whose) = answer else { panic!("{answer:?}") };
    let Body::PdelayRespFollowUp(left, same) = follow else { panic!("{follow:?}") };
    assert!(whose == neighbour.port && same == neighbour.port);
    assert_eq!(left.instant().unwrap() - came.instant().unwrap(), Span::from_micros(20));
}

#[test]
fn a_master_that_dies_leaves_a_holdover_and_the_next_takes_over() {
    let mut bed = Bed::new(vec![eth(0)], vec![master(0, 1)]);
    bed.run(60);
    bed.masters[0].alive = false;
    bed.run(20);
    assert_eq!(bed.status(), Status::Holdover);
    assert!(bed.said("is silent, and there is no other"), "{:?}", bed.notes);
    let row = &bed.rows()[0];
    assert!(row.trouble.as_ref().unwrap().contains("no PTP master"), "{row:?}");
    bed.masters.push(Master { offset: 80, ..master(0, 2) });
    bed.run(20);
    assert_eq!(bed.status(), Status::Synchronised, "{:?}", bed.rows());
    bed.run(600);
    // With an alternate there is none: it takes over within the announce time-out.
    bed.masters[0].alive = true;
    bed.run(20);
    bed.masters[0].alive = false;
    let before = bed.hands.len();
    bed.run(20);
    let holdovers = bed.hands[before..].iter().filter(|hand| hand.status == Status::Holdover);
    assert!(holdovers.count() <= 1);
    assert_eq!(bed.status(), Status::Synchronised);
}

/// Liar that announces itself as better, and is followed by the standard's rule: its time is held
/// off, the log and `sources` say who it is, and the bound covers the truth.
#[test]
fn a_rogue_master_is_told_and_held_off() {
    let mut bed = Bed::new(vec![eth(0)], vec![master(0, 10)]);
    bed.run(1200);
    let mut rogue = master(0, 1);
    rogue.offset = 5_000_000;
    bed.masters.push(rogue);
    bed.run(300);
    assert!(bed.said("follows the PTP master 01-01-01-01-01-01-01-01 port 1 at 192.0.2.1"));
    assert!(bed.said("no longer 0a-0a-0a-0a-0a-0a-0a-0a"), "{:?}", bed.notes);
    let row = &bed.rows()[0];
    let ptp = row.ptp.as_ref().unwrap();
    assert_eq!(ptp.master.as_ref().unwrap().priority1, 1);
    assert!(row.trouble.as_ref().unwrap().contains("ms off what was known"), "{row:?}");
    bed.masters.pop();
    bed.run(60);
    assert_eq!(bed.status(), Status::Synchronised);
    assert_eq!(bed.rows()[0].trouble, None);
}

/// A PTP port has one vote, as a server has.
#[test]
fn one_of_three_ports_that_lies_is_a_falseticker() {
    let mut masters = vec![master(0, 1), master(1, 2), master(2, 3)];
    masters[1].offset = 30_000_000;
    let mut bed = Bed::new(vec![eth(0), eth(1), eth(2)], masters);
    bed.run(120);
    let statuses: Vec<SourceStatus> = bed.rows().iter().map(|row| row.status).collect();
    assert_eq!(statuses[1], SourceStatus::Falseticker);
    assert!(statuses[0].agrees() && statuses[2].agrees(), "{statuses:?}");
    assert_eq!(bed.status(), Status::Synchronised);
}

/// Of two ports with the same master the one counts that heard it first, wherever it is configured.
#[test]
fn a_port_that_comes_to_the_master_of_another_takes_no_vote_from_it() {
    let masters = vec![master(0, 2), master(1, 1)];
    let mut bed = Bed::new(vec![eth(0), eth(1)], masters);
    bed.run(120);
    bed.masters[0] = Master { network: 0, ..master(1, 1) };
    bed.run(120);
    let kinds: Vec<_> = bed.rows().iter().map(|row| row.reason.clone().map(|r| r.kind)).collect();
    assert_eq!(kinds, [Some(ReasonKind::SameServer), None]);
    assert_eq!(bed.status(), Status::Synchronised);
}

#[test]
fn what_a_master_does_not_vouch_for_the_user_has_to() {
    let mut vague = master(0, 1);
    vague.announce.quality = ClockQuality { class: 248, accuracy: 0xfe, variance: 0xffff };
    let mut bed = Bed::new(vec![eth(0)], vec![vague.clone()]);
    bed.run(60);
    assert_eq!(bed.status(), Status::Unknown);
    assert!(bed.said("vouches for no accuracy (class 248, accuracy 0xfe): set `error`"));
    assert!(bed.rows()[0].refused["accuracy"] > 30);
    let error = Some(Span::from_micros(50));
    let mut bed = Bed::new(vec![eth_with(0, |ptp| ptp.error = error)], vec![vague]);
    bed.run(60);
    assert_eq!(bed.status(), Status::Synchronised);
    assert!(bed.engine.hand().bound_at(Count(bed.now)) > Span::from_micros(50));
    // A class that says nothing of a reference makes no accuracy true.
    let mut boasts = master(0, 1);
    boasts.announce.quality.class = 248;
    let mut bed = Bed::new(vec![eth(0)], vec![boasts]);
    bed.run(20);
    assert_eq!(bed.status(), Status::Unknown);
    // Boundary clocks on the way add theirs.
    let mut removed = master(0, 1);
    removed.announce.steps_removed = 3;
    let mut bed = Bed::new(vec![eth(0)], vec![removed]);
    bed.run(20);
    assert!(bed.rows()[0].root_distance.unwrap() >= Span::from_nanos(3100));
    assert_eq!(bed.rows()[0].stratum, Some(4));
}

#[test]
fn an_arbitrary_timescale_is_used_only_if_the_user_says_that_it_is_utc() {
    let arbitrary = Master { flags: Flags::default(), ..master(0, 1) };
    let mut bed = Bed::new(vec![eth(0)], vec![arbitrary.clone()]);
    bed.run(20);
    assert_eq!(bed.status(), Status::Unknown);
    assert!(bed.said("arbitrary one (ARB)"), "{:?}", bed.notes);
    let utc = || eth_with(0, |ptp| ptp.timescale = Timescale::Utc);
    let mut bed = Bed::new(vec![utc()], vec![arbitrary]);
    bed.shown = -37;
    bed.run(20);
    assert_eq!(bed.status(), Status::Synchronised);
    let mut bed = Bed::new(vec![utc()], vec![master(0, 1)]);
    bed.run(20);
    assert!(bed.said("leave out timescale"), "{:?}", bed.notes);
    assert_eq!(bed.status(), Status::Unknown);
}

#[test]
fn our_leap_seconds_decide_and_a_mismatch_is_said_once() {
    let mut wrong = master(0, 1);
    wrong.announce.utc_offset = 36;
    let mut bed = Bed::new(vec![eth(0)], vec![wrong]);
    bed.run(60);
    assert_eq!(bed.status(), Status::Synchronised);
    let said = bed.notes.iter().filter(|note| note.contains("TAI − UTC is 36 s")).count();
    assert_eq!(said, 1, "{:?}", bed.notes);
    // Without a list the master's offset makes UTC of it, if it is valid.
    let unknown = || Start { leaps: Leaps::default(), ..start() };
    let mut bed = Bed::with(vec![eth(0)], vec![master(0, 1)], unknown());
    bed.shown = 37;
    bed.run(20);
    assert_eq!(bed.status(), Status::Synchronised);
    let silent = Master { flags: Flags::PTP_TIMESCALE, ..master(0, 1) };
    let mut bed = Bed::with(vec![eth(0)], vec![silent], unknown());
    bed.run(20);
    assert!(bed.said("what TAI − UTC is"), "{:?}", bed.notes);
}

#[test]
fn a_master_announces_no_leap_second_that_our_list_has_not() {
    for (flag, step) in [(Flags::LEAP_61, 1), (Flags::LEAP_59, -1)] {
        for has_list in [true, false] {
            let honest = master(0, 1);
            let announcing = Master { flags: honest.flags.and(flag), ..honest };
            let leaps_until = if has_list { i64::MAX } else { 0 };
            let begin = Start { leaps: TAI, leaps_until, ..start() };
            let mut bed = Bed::with(vec![eth(0)], vec![announcing], begin);
            bed.run(60);
            let next = bed.engine.hand().leaps.next.map(|next| next.step);
            assert_eq!(next, (!has_list).then_some(step));
            let text = "ptp:eth0 announces a leap second";
            let said = bed.notes.iter().filter(|note| note.contains(text)).count();
            assert_eq!(said, usize::from(has_list), "{:?}", bed.notes);
        }
    }
}

#[test]
fn a_port_that_cannot_be_had_is_asked_for_again() {
    let mut bed = Bed::new(vec![eth(0)], vec![master(0, 1)]);
    let source = bed.listening.remove(&0).unwrap();
    let error = "no interface eth0".to_owned();
    bed.handle(Event::Ptp(PtpEvent::Failed { source, error: error.clone() }));
    bed.handle(Event::Ptp(PtpEvent::Failed { source, error }));
    assert_eq!(bed.notes.iter().filter(|note| note.contains("no interface eth0")).count(), 1);
    assert!(bed.listening.is_empty());
    bed.run(30);
    assert_eq!(bed.status(), Status::Synchronised);
}

#[test]
fn a_break_of_the_counter_keeps_the_master() {
    let mut bed = Bed::new(vec![eth(0)], vec![master(0, 1)]);
    bed.run(30);
    bed.handle(Event::Disruption { reason: "test".into() });
    assert_eq!(bed.status(), Status::Disrupted);
    bed.run(8);
    assert_eq!(bed.status(), Status::Synchronised);
    assert_eq!(bed.notes.iter().filter(|note| note.contains("follows")).count(), 1);
}

#[test]
fn a_new_configuration_goes_on_with_the_same_port() {
    let mut bed = Bed::new(vec![eth(0)], vec![master(0, 1)]);
    bed.run(30);
    let with = |config: SourceConfig| {
        Event::Configure(Config { sources: vec![config], ..Config::default() })
    };
    let error = Some(Span::from_micros(500));
    bed.handle(with(eth_with(0, |ptp| ptp.error = error)));
    bed.run(30);
    assert_eq!(bed.notes.iter().filter(|note| note.contains("follows")).count(), 1);
    assert!(bed.rows()[0].root_distance.unwrap() >= Span::from_micros(500));
    bed.handle(with(eth_with(0, |ptp| ptp.domain = 24)));
    assert_eq!(bed.rows()[0].name, "ptp:eth0/24");
    bed.run(20);
    assert_eq!(bed.rows()[0].refused["domain"], 40);
}

#[test]
fn configurations_without_ptp_read_as_before() {
    let old = serde_json::to_string(&SourceConfig::new("s1")).unwrap();
    assert!(!old.contains("ptp"), "{old}");
    let new = serde_json::to_string(&eth_with(0, |ptp| ptp.domain = 3)).unwrap();
    assert_eq!(serde_json::from_str::<SourceConfig>(&new).unwrap().name(), "ptp:eth0/3");
    assert_eq!(truth(Count(0)), Instant::new(ORIGIN, 0));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// The bound holds whatever the queues do, the longer in one direction, and whatever a
    /// transparent clock adds and takes off again.
    #[test]
    fn the_bound_holds_under_queues_and_transparent_clocks(
        seed: u64,
        queues in [0..3_000_000_u64, 0..300_000_u64],
        residence in 0..2_000_000_u64,
        offset in -90_i64..90,
        unicast: bool,
    ) {
        let mut honest = Master { queues, residence, offset, ..master(0, 1) };
        let mut port = eth(0);
        if unicast {
            honest.flags = honest.flags.and(Flags::UNICAST);
            port = eth_with(0, |ptp| ptp.masters = vec![honest.from]);
        }
        let mut bed = Bed::new(vec![port], vec![honest]);
        bed.random = seed;
        bed.run(150);
        prop_assert_eq!(bed.status(), Status::Synchronised);
        // A question every half to one and a half seconds.
        prop_assert!(bed.asked.windows(2).all(|pair| pair[1] - pair[0] >= SECOND / 2));
    }
}
