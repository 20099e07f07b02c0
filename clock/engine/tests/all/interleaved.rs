//! Servers that tell when the reply before left (RFC 9769).

use std::collections::{BTreeMap, VecDeque};

use truechimer_engine::{Action, Config, Engine, Event, SourceConfig};
use truechimer_ntp::server::{self, ServerState};
use truechimer_ntp::{LeapIndicator, Log2, Packet, RefId, Short, Timestamp};
use truechimer_time::{Count, CountSpan, Span, Stamp, StampMethod};
use truechimer_timehands::Status;

use crate::world::{address, start, truth};

/// One-way delay, ns, and how long a reply takes to leave after the server has read its clock, by
/// turns.
const DELAY: i64 = 50_000;
const LEAVES: [i64; 4] = [300_000, 5_000_000, 40_000, 900_000];

/// Behaviour of the server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mode {
    /// Answers as it is asked.
    Interleaved,
    /// In basic mode alone.
    Basic,
    /// In basic mode for every third.
    Forgets,
    /// Gives another's departure.
    Wrong,
}

struct World {
    engine: Engine,
    now: Count,
    mode: Mode,
    /// When the replies with these receive timestamps left.
    left: BTreeMap<u64, Timestamp>,
    /// Replies under way, with their arrivals.
    under_way: VecDeque<(Count, Event)>,
    /// One-way delay, ns.
    delay: i64,
    asked: usize,
    interleaved: usize,
    error: Span,
}

fn stamp(count: Count) -> Stamp {
    Stamp { count, error: CountSpan(50), method: StampMethod::Kernel }
}

fn ntp(count: Count) -> Timestamp {
    Timestamp::from_instant(truth(count), &truechimer_time::Leaps::default())
}

impl World {
    fn run(mode: Mode, interleaved: bool, seconds: i64) -> World {
        World::by(DELAY, mode, interleaved, seconds)
    }

    fn by(delay: i64, mode: Mode, interleaved: bool, seconds: i64) -> World {
        let source = SourceConfig { interleaved, ..SourceConfig::new("s1") };
        let config = Config { sources: vec![source], ..Config::default() };
        let (engine, actions) = Engine::new(config, start());
        let now = start().at;
        let (left, error) = (BTreeMap::new(), Span::ZERO);
        let under_way = VecDeque::new();
        let mut world =
            World { engine, now, mode, left, under_way, delay, asked: 0, interleaved: 0, error };
        world.carry_out(actions);
        let end = now + CountSpan(seconds * 1_000_000_000);
        while let Some(due) = world.engine.next_deadline().filter(|due| !due.at_or_after(end)) {
            let comes = world.under_way.front().is_some_and(|(at, _)| !at.at_or_after(due));
            let reply = if comes { world.under_way.pop_front() } else { None };
            let (at, event) = reply.unwrap_or((due, Event::Timer));
            world.now = world.now.latest(at);
            world.event(event);
            let hand = world.engine.hand();
            if hand.status == Status::Synchronised {
                world.error = hand.time_at(world.now) - truth(world.now);
                assert!(world.error.abs() <= hand.bound_at(world.now), "{mode:?}: {}", world.error);
            }
        }
        // Those that arrive after the last request.
        let arrive = world.under_way.iter().filter(|(at, _)| !at.at_or_after(end)).count();
        for (at, event) in world.under_way.drain(..arrive).collect::<Vec<_>>() {
            world.now = world.now.latest(at);
            world.event(event);
        }
        world
    }

    fn event(&mut self, event: Event) {
        let actions = self.engine.handle(self.now, event);
        self.carry_out(actions);
    }

    fn carry_out(&mut self, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Resolve { source, .. } => {
                    self.event(Event::Resolved { source, result: Ok(vec![address("s1")]) });
                }
                Action::Send { source, to, packet, .. } => {
                    let sent = self.now;
                    let (packet, arrives) = self.answer(&packet);
                    let (sent, received, packet) = (stamp(sent), stamp(arrives), packet.to_vec());
                    let reply = Event::Reply { source, from: to, sent, received, packet };
                    self.under_way.push_back((arrives, reply));
                }
                _ => {}
            }
        }
    }

    /// The request travels, and its reply; the server reads its clock some time before that leaves.
    fn answer(&mut self, packet: &[u8]) -> ([u8; 48], Count) {
        let (request, _) = Packet::decode(packet).unwrap();
        let arrived = self.now + CountSpan(self.delay);
        let (receive, read) = (ntp(arrived), ntp(arrived + CountSpan(1000)));
        let leaves = LEAVES[self.asked % LEAVES.len()];
        let departs = arrived + CountSpan(1000 + leaves);
        let arrives = departs + CountSpan(self.delay);
        self.asked += 1;
        let state = ServerState {
            leap: LeapIndicator::None,
            stratum: 1,
            precision: Log2(-25),
            root_delay: Short::default(),
            root_dispersion: Short::default(),
            reference_id: RefId(*b"TEST"),
            reference_timestamp: read,
        };
        let named = self.left.remove(&request.origin_timestamp.0);
        self.left.insert(receive.0, ntp(departs));
        let named = named.filter(|_| match self.mode {
            Mode::Basic => false,
            Mode::Forgets => !self.asked.is_multiple_of(3),
            _ => server::is_interleaved(&request),
        });
        let packet = match named {
            None => server::reply(&request, receive, read, &state).encode(),
            Some(left) => {
                self.interleaved += 1;
                let wrong = self.mode == Mode::Wrong && self.interleaved.is_multiple_of(2);
                let left = if wrong { Timestamp(left.0.wrapping_sub(1 << 40)) } else { left };
                server::interleaved(&request, receive, left, &state).encode()
            }
        };
        (packet, arrives)
    }

    fn accepted(&self) -> usize {
        self.engine.report(self.now).sources[0].accepted as usize
    }
}

#[test]
fn the_departure_is_the_exact_one() {
    let basic = World::run(Mode::Interleaved, false, 2000);
    assert_eq!((basic.interleaved, basic.accepted()), (0, basic.asked));
    let world = World::run(Mode::Interleaved, true, 2000);
    // The first two answers are of the first exchange, and that of the last is not complete.
    assert_eq!((world.interleaved, world.accepted()), (world.asked - 1, world.asked - 1));
    assert!(world.engine.report(world.now).sources[0].interleaved);
    assert!(!basic.engine.report(basic.now).sources[0].interleaved);
    let (exact, rough) = (world.error.abs(), basic.error.abs());
    assert!(exact < Span::from_micros(2) && rough > Span::from_micros(5), "{exact}, {rough}");
    let floor = |world: &World| {
        let row = &world.engine.report(world.now).sources[0];
        row.rtt_floor.unwrap()
    };
    assert!(floor(&world) < Span::from_micros(101), "{}", floor(&world));
    assert!(floor(&basic) > Span::from_micros(130), "{}", floor(&basic));
}

#[test]
fn a_round_trip_longer_than_the_interval_wastes_no_exchange() {
    // 3.2 s, and at the start a request every 2 s.
    let world = World::by(1_600_000_000, Mode::Interleaved, true, 30);
    assert!(world.interleaved >= 3, "{}", world.interleaved);
    // The first two answers are of basic mode. Each after them completes the last but one, which is used by
    // then if it is of those; of what has come two are not complete.
    let (arrived, accepted) = (world.asked - world.under_way.len(), world.accepted());
    assert!(accepted >= arrived - 2, "{accepted} of {arrived}");
}

#[test]
fn a_server_of_basic_mode_is_as_ever() {
    let (world, plain) =
        (World::run(Mode::Basic, true, 2000), World::run(Mode::Basic, false, 2000));
    assert_eq!((world.interleaved, world.accepted()), (0, world.asked));
    assert!((world.error - plain.error).abs() < Span::from_micros(20));
}

#[test]
fn each_exchange_is_used_once_whatever_is_forgotten() {
    let world = World::run(Mode::Forgets, true, 4000);
    assert!(world.interleaved > world.asked / 2);
    // Of three, one is answered in basic mode, the next tells of that again, and the third of the second.
    let (accepted, asked) = (world.accepted(), world.asked);
    assert!(accepted >= asked / 2 && accepted <= asked * 2 / 3 + 2, "{accepted} of {asked}");
    let row = &world.engine.report(world.now).sources[0];
    assert_eq!((row.timeouts, row.refused.len()), (0, 0), "{row:?}");
}

#[test]
fn a_departure_before_the_arrival_is_refused() {
    let world = World::run(Mode::Wrong, true, 2000);
    let row = &world.engine.report(world.now).sources[0];
    assert!(row.refused["transmit-before-receive"] > 10, "{:?}", row.refused);
    assert!(world.error.abs() < Span::from_micros(100), "{}", world.error);
}
