//! The engine as a whole, driven through its events with a made-up network and the truth at hand.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::collections::BTreeMap;
use std::net::SocketAddr;

use proptest::prelude::*;
use truechimer_engine::{
    Action, Config, Engine, Event, HostCheck, Selection, SourceConfig, SourceId, Start, Steer,
    SystemReading,
};
use truechimer_ntp::{LeapIndicator, Log2, RefId, Short, Timestamp, server};
use truechimer_time::{
    BootId, Count, CountSpan, CounterId, CounterKind, Epoch, Instant, Leap, Leaps, Period, Rate,
    Span, Stamp, StampMethod,
};
use truechimer_timehands::{Hand, Status};

/// True time is the count in ns, from here on (2027).
const ORIGIN: i64 = 1_800_000_000;

fn truth(count: Count) -> Instant {
    Instant::new(ORIGIN, 0) + Span::from_nanos(count.0 as i64)
}

fn start() -> Start {
    Start {
        at: Count(1_000_000_000),
        counter: CounterId { kind: CounterKind::Simulated, boot: BootId([7; 16]), epoch: Epoch(3) },
        nominal: Period::NANOSECOND,
        nominal_error: Rate::from_ppb(500_000),
        resolution: CountSpan(1),
        seed: [42; 32],
        leaps: Leaps::default(),
        warm: None,
        saved: None,
    }
}

fn config(hosts: &[&str]) -> Config {
    Config {
        sources: hosts.iter().map(|h| SourceConfig { poll: 16, ..SourceConfig::new(*h) }).collect(),
        ..Config::default()
    }
}

fn address(host: &str) -> SocketAddr {
    format!("192.0.2.{}:123", host.trim_start_matches('s')).parse().unwrap()
}

/// How a server behaves.
#[derive(Clone, Copy)]
struct Server {
    offset: Span,
    stratum: u8,
    kiss: Option<[u8; 4]>,
    up: bool,
    delay: i64,
}

const HONEST: Server =
    Server { offset: Span::ZERO, stratum: 2, kiss: None, up: true, delay: 100_000 };

/// The engine, its servers, and everything that happened.
struct World {
    engine: Engine,
    now: Count,
    servers: BTreeMap<SocketAddr, Server>,
    hosts: BTreeMap<SourceId, String>,
    log: Vec<(Count, Event)>,
    hands: Vec<Hand>,
    sent: Vec<(Count, SourceId)>,
    steers: Vec<Steer>,
    /// What every name resolves to besides its own address.
    more_addresses: Vec<SocketAddr>,
    /// Stamps to give to replies instead of the true ones.
    stamps: Option<(Stamp, Stamp)>,
}

impl World {
    fn new(hosts: &[&str], start: Start) -> World {
        let (engine, actions) = Engine::new(config(hosts), start.clone());
        let mut world = World {
            engine,
            now: start.at,
            servers: hosts.iter().map(|h| (address(h), HONEST)).collect(),
            hosts: BTreeMap::new(),
            log: Vec::new(),
            hands: Vec::new(),
            sent: Vec::new(),
            steers: Vec::new(),
            more_addresses: Vec::new(),
            stamps: None,
        };
        world.carry_out(actions);
        world
    }

    fn server(&mut self, host: &str) -> &mut Server {
        self.servers.get_mut(&address(host)).unwrap()
    }

    fn event(&mut self, event: Event) {
        self.log.push((self.now, event.clone()));
        let actions = self.engine.handle(self.now, event);
        self.carry_out(actions);
    }

    fn carry_out(&mut self, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Resolve { source, host, .. } => {
                    self.hosts.insert(source, host.clone());
                    let result = if host == "nowhere" {
                        Err("no such name".into())
                    } else {
                        let first = std::iter::once(address(&host));
                        Ok(first.chain(self.more_addresses.iter().copied()).collect())
                    };
                    self.event(Event::Resolved { source, result });
                }
                Action::Send { source, to, packet } => {
                    self.sent.push((self.now, source));
                    self.exchange(source, to, &packet);
                }
                Action::Publish(hand) => self.hands.push(hand),
                Action::Steer(steer) => self.steers.push(steer),
                Action::Close { .. } | Action::Note { .. } => {}
            }
        }
    }

    /// The request travels, is answered and comes back, all before anything else happens.
    fn exchange(&mut self, source: SourceId, to: SocketAddr, packet: &[u8]) {
        let Some(server) = self.servers.get(&to).copied().filter(|s| s.up) else { return };
        let leave = self.now;
        let at_server = leave + CountSpan(server.delay);
        let time = truth(at_server) + server.offset;
        let stamp = Timestamp::from_instant(time, &Leaps::default());
        let state = server::ServerState {
            leap: LeapIndicator::None,
            stratum: server.stratum,
            precision: Log2(-25),
            root_delay: Short::default(),
            root_dispersion: Short::at_least(Span::from_micros(10)),
            reference_id: RefId(*b"TEST"),
            reference_timestamp: stamp,
        };
        let Some(mut reply) = server::respond(packet, stamp, stamp, &state) else { return };
        reply[1] = server.stratum;
        if let Some(code) = server.kiss {
            reply[1] = 0;
            reply[12..16].copy_from_slice(&code);
        }
        self.now = at_server + CountSpan(server.delay);
        let stamp = |count| Stamp { count, error: CountSpan(50), method: StampMethod::Kernel };
        let (sent, received) = self.stamps.unwrap_or((stamp(leave), stamp(self.now)));
        self.event(Event::Reply { source, from: to, sent, received, packet: reply.to_vec() });
    }

    /// Runs for so many seconds, with the host's checks each second.
    fn run(&mut self, seconds: i64) {
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
                self.event(Event::Check(HostCheck { count: self.now, raw_ns, suspended_ns: 0, width: CountSpan(0) }));
                check = check + CountSpan(1_000_000_000);
            } else {
                self.event(Event::Timer);
            }
        }
        self.now = self.now.latest(end);
    }

    fn hand(&self) -> &Hand {
        self.hands.last().unwrap()
    }

    fn error(&self) -> Span {
        self.hand().time_at(self.now) - truth(self.now)
    }

    fn assert_true(&self) {
        assert_eq!(self.hand().status, Status::Synchronised);
        let (error, bound) = (self.error(), self.hand().bound_at(self.now));
        assert!(error.abs() <= bound, "error {error}, bound {bound}");
    }
}

#[test]
fn it_synchronises_with_the_first_reply_and_gets_better() {
    let mut world = World::new(&["s1"], start());
    assert_eq!(world.hands[0].status, Status::Unknown, "nothing is promised before");
    world.assert_true();
    let first = world.hand().bound();
    world.run(600);
    world.assert_true();
    assert!(world.hand().growth < Rate::from_ppb(2_000), "{}", world.hand().growth);
    assert!(world.hand().bound() <= first);
    assert!(world.hand().bound() < Span::from_micros(130), "{}", world.hand().bound());
    let report = world.engine.report(world.now);
    assert_eq!(report.sources[0].selection, Selection::Selected);
    assert_eq!(report.sources[0].reach, 0xff);
}

#[test]
fn polls_keep_their_interval_and_the_burst_is_a_burst() {
    let mut world = World::new(&["s1"], start());
    world.run(200);
    let gaps: Vec<f64> = world.sent.windows(2).map(|w| (w[1].0 - w[0].0).0 as f64 / 1e9).collect();
    assert!(gaps.len() > 15);
    for (k, gap) in gaps.iter().enumerate() {
        let nominal = if k < 7 { 2.0 } else { 16.0 };
        assert!(*gap <= nominal + 1e-6 && *gap >= nominal * 0.98, "gap {k}: {gap}");
    }
}

#[test]
fn a_lost_server_means_holdover_and_a_growing_bound() {
    let mut world = World::new(&["s1"], start());
    world.run(600);
    world.server("s1").up = false;
    world.run(1800);
    assert_eq!(world.hand().status, Status::Holdover);
    let (error, bound) = (world.error(), world.hand().bound_at(world.now));
    assert!(error.abs() <= bound && bound > Span::from_micros(900), "{error} {bound}");
    assert!(world.hand().void_after.at_or_after(world.now), "renewed meanwhile");
    world.server("s1").up = true;
    world.run(60);
    world.assert_true();
}

#[test]
fn one_liar_of_three_has_no_say() {
    let mut world = World::new(&["s1", "s2", "s3"], start());
    world.server("s2").offset = Span::from_millis(20);
    world.server("s2").delay = 10_000;
    world.run(300);
    world.assert_true();
    let report = world.engine.report(world.now);
    let selections: Vec<Selection> = report.sources.iter().map(|s| s.selection).collect();
    assert_eq!(selections[1], Selection::Falseticker);
    assert!(selections.contains(&Selection::Selected));
    assert!(report.sources[1].offset.unwrap() < Span::from_millis(-19), "ours is behind the liar");
}

#[test]
fn a_liar_inside_the_others_bounds_does_not_narrow_them() {
    let mut world = World::new(&["s1", "s2", "s3"], start());
    // Nearer than the others, so that it claims less, and off by more than it claims.
    *world.server("s2") = Server { offset: Span::from_micros(60), delay: 5_000, ..HONEST };
    for _ in 0..60 {
        world.run(5);
        world.assert_true();
    }
    let report = world.engine.report(world.now);
    assert_eq!(report.sources[1].selection, Selection::Selected, "it looks best");
    assert!(world.error() > Span::from_micros(40), "and it is wrong");
}

#[test]
fn two_that_disagree_are_not_believed() {
    let mut world = World::new(&["s1"], start());
    world.run(100);
    let mut config = config(&["s1", "s2"]);
    config.sources[1].poll = 16;
    world.servers.insert(address("s2"), Server { offset: Span::from_secs(1), ..HONEST });
    world.event(Event::Configure(config));
    world.run(100);
    assert_eq!(world.hand().status, Status::Holdover);
    assert!(world.engine.report(world.now).reason.contains("no majority"));
}

#[test]
fn kisses_are_obeyed() {
    let mut world = World::new(&["s1"], start());
    world.server("s1").kiss = Some(*b"RATE");
    world.run(400);
    let slowed = world.sent.len();
    assert!(slowed <= 6, "{slowed} requests to a server that wants fewer");
    world.server("s1").kiss = Some(*b"DENY");
    world.run(4000);
    let denied = world.sent.len();
    world.run(4000);
    assert_eq!(world.sent.len(), denied, "asked again after DENY");
    let report = world.engine.report(world.now);
    assert_eq!(report.sources[0].refused["kiss-deny"], 1);
    assert!(report.sources[0].refused["kiss-rate"] >= 1);
    assert!(report.sources[0].trouble.as_ref().unwrap().contains("DENY"));
}

#[test]
fn unsynchronised_servers_are_refused_with_a_reason() {
    let mut world = World::new(&["s1"], start());
    world.server("s1").stratum = 16;
    world.run(100);
    // The very first reply was good; from then on nothing is accepted.
    let report = world.engine.report(world.now);
    assert!(report.sources[0].refused["stratum"] > 3);
    assert_eq!(report.sources[0].accepted, 1);
    assert!(report.sources[0].trouble.is_some());
}

#[test]
fn replies_to_nobody_change_nothing() {
    let mut world = World::new(&["s1"], start());
    world.run(100);
    let before = *world.hand();
    let from = address("s1");
    let stamp = |count| Stamp { count, error: CountSpan(50), method: StampMethod::Kernel };
    for n in 0..1000u32 {
        let mut packet = vec![0x24, 2, 4, 0xe7];
        packet.resize(48, n as u8);
        let (sent, received) = (stamp(world.now), stamp(world.now + CountSpan(9)));
        world.event(Event::Reply { source: SourceId(0), from, sent, received, packet });
    }
    assert_eq!(*world.hand(), before);
    assert_eq!(world.engine.report(world.now).sources[0].refused["wrong-origin"], 1000);
}

#[test]
fn an_unresolvable_name_is_shown_and_tried_again() {
    let mut world = World::new(&["s1"], start());
    let mut both = config(&["s1", "s9"]);
    both.sources[1].host = "nowhere".into();
    world.event(Event::Configure(both));
    world.run(100);
    let report = world.engine.report(world.now);
    assert!(report.sources[1].trouble.as_ref().unwrap().contains("nowhere"));
    assert!(report.sources[1].refused["unresolvable"] >= 4);
    world.assert_true();
}

#[test]
fn a_dead_address_is_left_for_the_next() {
    let mut world = World::new(&["s1"], start());
    world.server("s1").up = false;
    world.servers.insert(address("s2"), HONEST);
    world.more_addresses = vec![address("s2")];
    world.event(Event::Configure(config(&[])));
    world.event(Event::Configure(config(&["s1"])));
    world.run(300);
    world.assert_true();
    assert_eq!(world.engine.report(world.now).sources[0].address, Some(address("s2")));
    // And round again, when that one dies.
    world.server("s2").up = false;
    world.server("s1").up = true;
    world.run(600);
    world.assert_true();
    assert_eq!(world.engine.report(world.now).sources[0].address, Some(address("s1")));
}

#[test]
fn reconfiguring_keeps_what_was_learnt() {
    let mut world = World::new(&["s1"], start());
    world.run(600);
    let (accepted, growth) =
        (world.engine.report(world.now).sources[0].accepted, world.hand().growth);
    let mut new = config(&["s1"]);
    new.sources[0].poll = 4;
    world.event(Event::Configure(new));
    world.run(60);
    let report = world.engine.report(world.now);
    assert!(report.sources[0].accepted >= accepted + 10);
    assert!(world.hand().growth <= growth);
    world.assert_true();
}

#[test]
fn a_jump_of_the_counter_voids_the_bound_until_the_next_reply() {
    let mut world = World::new(&["s1"], start());
    world.run(100);
    world.server("s1").up = false;
    let epoch = world.hand().counter.epoch;
    // The raw clock did not jump with the counter.
    let jumped = world.now + CountSpan(5_000_000_000);
    let raw_ns = world.now.0 as i64;
    world.now = jumped;
    world.event(Event::Check(HostCheck { count: jumped, raw_ns, suspended_ns: 0, width: CountSpan(0) }));
    assert_eq!(world.hand().status, Status::Disrupted);
    assert_eq!(world.hand().counter.epoch, Epoch(epoch.0 + 1));
    assert!(world.engine.report(world.now).reason.contains("jumped"));
    world.server("s1").up = true;
    // From here on raw clock and counter agree again, at another distance.
    world.event(Event::Timer);
    for _ in 0..5 {
        world.now = world.now + CountSpan(1_000_000_000);
        world.event(Event::Timer);
    }
    world.assert_true();
}

#[test]
fn a_suspend_and_a_step_back_are_seen() {
    let mut world = World::new(&["s1"], start());
    world.run(10);
    let check = |w: &World, s| HostCheck { count: w.now, raw_ns: w.now.0 as i64, suspended_ns: s, width: CountSpan(0) };
    let suspended = check(&world, 3_000_000_000);
    world.event(Event::Check(suspended));
    assert!(world.hands.iter().any(|h| h.status == Status::Disrupted));
    let epoch = world.hand().counter.epoch;
    world.now = Count(17);
    world.event(Event::Timer);
    assert!(world.hand().counter.epoch > epoch);
}

#[test]
fn a_warm_start_holds_the_old_word_until_a_new_one() {
    let mut world = World::new(&["s1"], start());
    world.run(600);
    let left = *world.hand();
    let at = world.now + CountSpan(5_000_000_000);
    let mut warm = World::new(&[], Start { at, warm: Some(left), seed: [1; 32], ..start() });
    assert_eq!(warm.hand().status, Status::Holdover);
    assert!((warm.hand().time_at(at) - truth(at)).abs() < warm.hand().bound_at(at));
    warm.servers.insert(address("s1"), HONEST);
    warm.event(Event::Configure(config(&["s1"])));
    warm.assert_true();
    assert!(warm.hand().growth < Rate::from_ppb(10_000), "the rate is known from the start");
    // A hand of another epoch is no start at all.
    let other = Start { at, warm: Some(left), ..start() };
    let other = Start { counter: CounterId { epoch: Epoch(9), ..other.counter }, ..other };
    assert_eq!(World::new(&[], other).hand().status, Status::Unknown);
}

#[test]
fn a_saved_rate_is_taken_if_it_fits() {
    let mut world = World::new(&["s1"], start());
    world.run(600);
    let saved = world.engine.saved(world.now).unwrap();
    let again = |saved| {
        let mut world = World::new(&["s1"], Start { saved: Some(saved), ..start() });
        world.run(1);
        world.hand().growth
    };
    assert!(again(saved.clone()) < Rate::from_ppb(100_000));
    let foreign = truechimer_engine::Saved { counter: "tsc".into(), ..saved.clone() };
    assert!(again(foreign) > Rate::from_ppb(400_000));
    let far = truechimer_engine::Saved { period: Period::from_hz(900_000_000), ..saved };
    assert!(again(far) > Rate::from_ppb(400_000));
}

#[test]
fn the_system_clock_is_steered_only_if_asked() {
    for discipline in [false, true] {
        let mut world = World::new(&["s1"], start());
        let wanted = Config { discipline, ..config(&["s1"]) };
        world.event(Event::Configure(wanted));
        let mut system = Span::from_secs(3);
        let mut frequency = Rate::ZERO;
        for _ in 0..60 {
            world.run(1);
            let unix_ns = ORIGIN * 1_000_000_000 + world.now.0 as i64 + system.as_nanos() as i64;
            let raw_ns = world.now.0 as i64;
            world.event(Event::SystemClock(SystemReading { count: world.now, unix_ns, raw_ns }));
            for steer in world.steers.drain(..) {
                match steer {
                    Steer::Step(by) => system += by,
                    Steer::Frequency(f) => frequency = f,
                }
            }
            system += frequency.over(Span::from_secs(1)) + Span::from_micros(80);
        }
        world.event(Event::Stop);
        assert_eq!(world.steers.is_empty(), !discipline, "a slew ends with the daemon");
        if discipline {
            assert!(system.abs() < Span::from_micros(100), "{system}");
        } else {
            assert!(system > Span::from_secs(3));
        }
        world.assert_true();
    }
}

#[test]
fn the_log_replays_to_the_last_bit() {
    let mut world = World::new(&["s1", "s2"], start());
    world.run(300);
    world.server("s2").up = false;
    world.event(Event::Disruption { reason: "test".into() });
    world.event(Event::Configure(config(&["s2", "s3"])));
    world.run(100);
    let text: Vec<String> =
        world.log.iter().map(|entry| serde_json::to_string(entry).unwrap()).collect();
    let (mut engine, first) = Engine::new(config(&["s1", "s2"]), start());
    let mut hands = Vec::new();
    let mut keep = |actions: Vec<Action>| {
        hands.extend(actions.into_iter().filter_map(|a| match a {
            Action::Publish(hand) => Some(hand),
            _ => None,
        }));
    };
    keep(first);
    for line in &text {
        let (at, event): (Count, Event) = serde_json::from_str(line).unwrap();
        keep(engine.handle(at, event));
    }
    hands.sort_by_key(|h| h.base.0);
    let mut live = world.hands.clone();
    live.sort_by_key(|h| h.base.0);
    assert_eq!(hands, live);
    let json = serde_json::to_string(&live).unwrap();
    assert_eq!(serde_json::from_str::<Vec<Hand>>(&json).unwrap(), live);
}

#[test]
fn leaps_to_come_are_learnt_and_the_scale_stays() {
    let mut world = World::new(&["s1"], start());
    world.run(60);
    let next = Some(Leap { at: ORIGIN + 5_000, step: 1 });
    world.event(Event::Leaps(Leaps { next, ..Leaps::default() }));
    assert_eq!(world.hand().leaps.next, next);
    world.event(Event::Leaps(Leaps { tai_offset: 37, known: true, ..Leaps::default() }));
    assert_eq!(world.hand().leaps.tai_offset, 0);
    world.run(60);
    world.assert_true();
}

#[test]
fn a_period_that_is_none_is_not_read() {
    let good = serde_json::to_string(&Period::NANOSECOND).unwrap();
    assert_eq!(serde_json::from_str::<Period>(&good).unwrap(), Period::NANOSECOND);
    for bad in [r#"{"mantissa":0,"shift":0}"#, r#"{"mantissa":9903520314283042199,"shift":64}"#] {
        let error = serde_json::from_str::<Period>(bad).unwrap_err().to_string();
        assert!(error.contains("mantissa"), "{error}");
    }
}

fn any_stamp() -> impl Strategy<Value = Stamp> {
    (any::<u64>(), any::<i64>()).prop_map(|(count, error)| Stamp {
        count: Count(count),
        error: CountSpan(error),
        method: StampMethod::User,
    })
}

fn any_event() -> impl Strategy<Value = Event> {
    let source = (0u32..4).prop_map(SourceId);
    prop_oneof![
        Just(Event::Timer),
        Just(Event::Stop),
        (source.clone(), any::<bool>()).prop_map(|(source, ok)| Event::Resolved {
            source,
            result: if ok { Ok(vec![address("s1"), address("s2")]) } else { Err("x".into()) },
        }),
        (source.clone(), any_stamp(), any_stamp(), prop::collection::vec(any::<u8>(), 0..80))
            .prop_map(|(source, sent, received, packet)| Event::Reply {
                source,
                from: address("s1"),
                sent,
                received,
                packet
            }),
        source.prop_map(|source| Event::Undelivered { source, error: "e".into() }),
        any::<(u64, i64, i64, i64)>().prop_map(|(count, raw_ns, suspended_ns, width)| {
            let (count, width) = (Count(count), CountSpan(width));
            Event::Check(HostCheck { count, raw_ns, suspended_ns, width })
        }),
        Just(Event::Disruption { reason: "d".into() }),
        Just(Event::Configure(config(&["s1", "s3"]))),
        (any::<u64>(), any::<i64>(), any::<i64>()).prop_map(|(count, unix_ns, raw_ns)| {
            Event::SystemClock(SystemReading { count: Count(count), unix_ns, raw_ns })
        }),
    ]
}

proptest! {
    /// Whatever happens, in whatever order, nothing panics and no unsynchronised clock claims a
    /// bound.
    #[test]
    fn no_events_whatever_panic(events in prop::collection::vec((any::<u64>(), any_event()), 0..60)) {
        let mut wanted = config(&["s1", "s2"]);
        wanted.discipline = true;
        let (mut engine, _) = Engine::new(wanted, start());
        for (at, event) in events {
            let at = Count(at);
            let actions = engine.handle(at, event);
            prop_assert!(actions.len() < 100);
            let _ = engine.next_deadline();
            let _ = engine.report(at);
            let _ = engine.saved(at);
        }
    }

    /// Good replies with stamps out of nowhere: nothing panics, and once the stamps are true again
    /// so is the clock, or it says that it is not.
    #[test]
    fn hostile_stamps_do_not_panic(stamps in prop::collection::vec((any_stamp(), any_stamp()), 1..20)) {
        let mut world = World::new(&["s1"], start());
        world.run(20);
        for hostile in stamps {
            world.stamps = Some(hostile);
            world.run(17);
            let _ = world.engine.report(world.now);
        }
    }
}
