//! A made-up path between sender and reflector: each loss, copy and overtaking is known, and so is each delay.
#![allow(clippy::indexing_slicing, clippy::unwrap_used)]

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};
use truechimer_keys::{Algorithm, Key};
use truechimer_probe::{Access, Departure, Reflector, Report, Session, Source, Timed};
use truechimer_qos::{Codec, DifferenceClock};
use truechimer_time::{Period, Rate, Span};

/// Where the simulation begins, Unix ns.
const BEGIN: i64 = 1_800_000_000_000_000_000;
/// From one packet to the next, ns.
const INTERVAL: i64 = 10_000_000;
/// Time for which the reflector keeps a packet, ns.
const KEPT: i64 = 30_000;

/// One direction.
#[derive(Clone, Copy, Debug)]
struct Road {
    /// Least delay, ns.
    delay: i64,
    /// Most that a packet may take more, ns.
    more: u32,
    /// Losses in a thousand.
    lost: u32,
    /// Copies in a thousand.
    copied: u32,
}

/// A clock: how far it is ahead, and how far it says that it may be off, ns.
#[derive(Clone, Copy, Debug)]
struct Clock {
    ahead: i64,
    bound: Option<i64>,
}

impl Clock {
    fn at(self, ns: i64) -> Timed {
        let made = Timed::at_nanos(BEGIN + ns + self.ahead, 0);
        let source = if self.bound.is_some() { Source::Page } else { Source::System };
        // The counter counts on, whatever the time of day is.
        let counted = Timed::at_nanos(BEGIN + ns, 0).counted;
        Timed { bound: self.bound.map(Span::from_nanos), source, counted, ..made }
    }
}

/// Truth about one direction.
#[derive(Clone, Debug, Default)]
struct Truth {
    sent: u64,
    lost: u64,
    copies: u64,
    /// Number and arrival, ns, of what arrived, in the order of arrival.
    arrivals: Vec<(i64, u64)>,
    least: i64,
}

impl Truth {
    /// Packets that arrived after one with a higher number.
    fn overtaken(&self, wanted: impl Fn(u64) -> bool) -> u64 {
        let mut arrivals: Vec<_> = self.arrivals.iter().filter(|(_, n)| wanted(*n)).collect();
        arrivals.sort();
        let mut highest = None;
        let late = |number: u64| {
            let late = highest.is_some_and(|highest| number < highest);
            highest = highest.max(Some(number));
            late
        };
        arrivals.into_iter().map(|(_, number)| *number).map(late).filter(|late| *late).count()
            as u64
    }
}

struct World {
    random: ChaCha8Rng,
    roads: [Road; 2],
}

impl World {
    fn chance(&mut self, in_thousand: u32) -> bool {
        self.random.next_u32() % 1000 < in_thousand
    }

    /// Delays of what arrives of one packet: none, one or two.
    fn passes(&mut self, road: usize, truth: &mut Truth) -> Vec<i64> {
        let Road { delay, more, lost, copied } = self.roads[road];
        truth.sent += 1;
        if self.chance(lost) {
            truth.lost += 1;
            return Vec::new();
        }
        let copies = 1 + usize::from(self.chance(copied));
        truth.copies += copies as u64 - 1;
        (0..copies).map(|_| delay + i64::from(self.random.next_u32() % (more + 1))).collect()
    }
}

/// Something that arrives: when, where, in which order things happened, and the bytes.
type Arrival = Reverse<(i64, bool, u64, Vec<u8>)>;

struct Run {
    session: Session,
    truth: [Truth; 2],
}

/// Sends so many packets, the last over a path that loses nothing.
fn run(seed: u64, count: u32, roads: [Road; 2], clocks: [Clock; 2], access: Access) -> Run {
    run_by(seed, count, roads, &|_| clocks, access)
}

/// Runs it by clocks that are others as time goes by.
fn run_by(
    seed: u64,
    count: u32,
    roads: [Road; 2],
    clocks: &dyn Fn(i64) -> [Clock; 2],
    access: Access,
) -> Run {
    let key = access.keys.first().cloned();
    let reflector = Reflector::new(access, &[862]);
    let mut session = Session::new(key, 200, 77);
    let mut world = World { random: ChaCha8Rng::seed_from_u64(seed), roads };
    let mut truth = [Truth::default(), Truth::default()];
    let difference = DifferenceClock { period: Period::NANOSECOND, error: Rate::ZERO };
    let mut heap: BinaryHeap<Arrival> = BinaryHeap::new();
    let (mut order, mut replies) = (0, 0u64);
    let from = "192.0.2.2:40000".parse().unwrap();
    let mut happen = |until: i64,
                      session: &mut Session,
                      world: &mut World,
                      truth: &mut [Truth; 2],
                      heap: &mut BinaryHeap<Arrival>| {
        while heap.peek().is_some_and(|Reverse((at, ..))| *at < until) {
            let Reverse((at, back, _, bytes)) = heap.pop().unwrap();
            if back {
                session.accept(&bytes, &clocks(at)[0].at(at), Some(&difference)).unwrap();
                continue;
            }
            let arrived = clocks(at)[1].at(at);
            let now = u64::try_from(at).unwrap();
            let reply = reflector.answer(&bytes, from, Some(60), &arrived, now).unwrap();
            let reply = reply.leave(&clocks(at + KEPT)[1].at(at + KEPT));
            assert_eq!(reply.len(), bytes.len());
            for delay in world.passes(1, &mut truth[1]) {
                order += 1;
                truth[1].arrivals.push((at + KEPT + delay, replies));
                heap.push(Reverse((at + KEPT + delay, true, order, reply.clone())));
            }
            replies += 1;
        }
    };
    for n in 0..=count {
        let closing = n == count;
        let sent = i64::from(n) * INTERVAL + if closing { 5_000_000_000 } else { 0 };
        happen(sent, &mut session, &mut world, &mut truth, &mut heap);
        if closing {
            session.skip();
            world.roads.iter_mut().for_each(|road| (road.lost, road.copied) = (0, 0));
        }
        let request = session.ask(&clocks(sent)[0].at(sent));
        session.left(clocks(sent)[0].at(sent), Departure::Kernel);
        for delay in world.passes(0, &mut truth[0]) {
            truth[0].arrivals.push((sent + delay, n.into()));
            heap.push(Reverse((sent + delay, false, u64::from(n), request.clone())));
        }
    }
    happen(i64::MAX, &mut session, &mut world, &mut truth, &mut heap);
    truth.iter_mut().zip(roads).for_each(|(truth, road)| truth.least = road.delay);
    Run { session, truth }
}

fn open() -> Access {
    Access { open: true, ..Access::default() }
}

fn keyed() -> Access {
    let key = Key::new(3, Algorithm::Sha256, b"shared by both ends").unwrap();
    Access { keys: vec![key], ..Access::default() }
}

fn report(run: &Run) -> Report {
    Report::of(&run.session, 1, Codec::named("g711-plc").unwrap())
}

const GOOD: [Clock; 2] =
    [Clock { ahead: 4_000, bound: Some(5_000) }, Clock { ahead: -90_000, bound: Some(100_000) }];

#[test]
fn losses_copies_and_delays_of_each_way_are_what_they_were() {
    for seed in 0..20 {
        // There 3 ms and up to 4 more, less than the interval; back 20 ms: nothing overtakes.
        let roads = [
            Road { delay: 3_000_000, more: 4_000_000, lost: 30, copied: 0 },
            Road { delay: 20_000_000, more: 1_000_000, lost: 80, copied: 40 },
        ];
        let run = run(seed, 1000, roads, GOOD, if seed % 2 == 0 { open() } else { keyed() });
        let report = report(&run);
        assert!(report.counted_by_reflector && report.undetermined == 0);
        assert_eq!((report.sent, report.closing), (1001, 1));
        for (said, truth) in [&report.forward, &report.backward].into_iter().zip(&run.truth) {
            let loss = said.loss.as_ref().unwrap();
            assert_eq!((loss.lost, loss.arrived), (truth.lost, truth.sent - truth.lost), "{seed}");
            assert_eq!(said.duplicates, Some(truth.copies), "{seed}");
            assert_eq!(said.reordering.reordered, 0, "{seed}");
            let delay = said.delay.as_ref().unwrap();
            assert_eq!((said.unbounded, delay.negative), (0, 0));
            // All of a thousand packets that vary evenly: the least is close to the least there is.
            let least = delay.spread.min_ns.unwrap();
            assert!(least.abs_diff(truth.least) <= delay.bound_max_ns + 100_000, "{seed}: {least}");
            assert!((105_000..110_000).contains(&delay.bound_max_ns), "{}", delay.bound_max_ns);
            let median = delay.quantiles[0];
            assert!(median.low_ns <= Some(median.ns) && Some(median.ns) <= median.high_ns);
        }
        // What the clocks are off by is not in the round trip, nor is what the reflector kept.
        let least = report.round_trip.time.min_ns.unwrap();
        assert!((23_000_000..23_300_000).contains(&least), "{least}");
        // Twice the bound that the reflector promises of its clock.
        let bound = report.round_trip.bound_max_ns.unwrap();
        assert!((200_000..204_000).contains(&bound), "{bound}");
        assert!(report.round_trip.kept.max_ns.unwrap().abs_diff(KEPT) <= 2);
        assert_eq!((report.hop_limits, report.refused.len()), (Some([60, 60]), 0));
        assert!(report.notes.is_empty(), "{:?}", report.notes);
    }
}

#[test]
fn what_overtakes_is_seen_on_its_own_way() {
    for seed in 0..10 {
        let roads = [
            Road { delay: 1_000_000, more: 25_000_000, lost: 0, copied: 0 },
            Road { delay: 2_000_000, more: 0, lost: 0, copied: 0 },
        ];
        let there = run(seed, 500, roads, GOOD, open());
        let said = report(&there);
        let overtaken = there.truth[0].overtaken(|_| true);
        assert!(overtaken > 50);
        assert_eq!(said.forward.reordering.reordered, overtaken, "{seed}");
        assert_eq!(said.backward.reordering.reordered, 0, "{seed}");
        let back = run(seed, 500, [roads[1], roads[0]], GOOD, open());
        let said = report(&back);
        assert_eq!(said.forward.reordering.reordered, 0, "{seed}");
        assert_eq!(said.backward.reordering.reordered, back.truth[1].overtaken(|_| true), "{seed}");
    }
}

#[test]
fn copies_of_requests_are_no_losses() {
    for seed in 0..10 {
        let roads = [
            Road { delay: 1_000_000, more: 1_000_000, lost: 50, copied: 100 },
            Road { delay: 2_000_000, more: 1_000_000, lost: 0, copied: 0 },
        ];
        let run = run(seed, 1000, roads, GOOD, open());
        let report = report(&run);
        let loss = report.forward.loss.unwrap();
        assert_eq!(
            (loss.lost, report.forward.duplicates),
            (run.truth[0].lost, Some(run.truth[0].copies))
        );
        assert_eq!((report.backward.loss.unwrap().lost, report.backward.duplicates), (0, Some(0)));
    }
}

#[test]
fn a_reflector_that_does_not_count_gives_losses_no_direction() {
    let road = Road { delay: 1_000_000, more: 0, lost: 100, copied: 0 };
    let access = Access { stateless: true, ..open() };
    let run = run(1, 500, [road, road], GOOD, access);
    let report = report(&run);
    assert!(!report.counted_by_reflector);
    assert!(report.forward.loss.is_none() && report.backward.duplicates.is_none());
    let lost = run.truth[0].lost + run.truth[1].lost;
    assert_eq!((report.round_trip.loss.lost, report.answered), (lost, 501 - lost));
    assert!(report.notes.iter().any(|note| note.contains("losses have no direction")));
}

#[test]
fn clocks_that_promise_nothing_leave_the_round_trip() {
    let road = Road { delay: 7_000_000, more: 2_000_000, lost: 0, copied: 0 };
    let unknown = Clock { ahead: 3_600_000_000_000, bound: None };
    for clocks in [[GOOD[0], unknown], [unknown, GOOD[1]], [unknown, unknown]] {
        let report = report(&run(2, 200, [road, road], clocks, keyed()));
        for way in [&report.forward, &report.backward] {
            assert_eq!((way.delay.is_none(), way.unbounded), (true, 201));
            // Variation needs no time of day.
            assert!((1_800_000..=2_000_002).contains(&way.pdv.max_ns.unwrap()), "{:?}", way.pdv);
            let voice = way.voice.as_ref().unwrap();
            assert!(voice.assumed && (8.0..10.0).contains(&voice.network_ms), "{voice:?}");
        }
        assert!((14_000_000..14_500_000).contains(&report.round_trip.time.min_ns.unwrap()));
        assert!(report.notes.iter().any(|note| note.contains("no one-way delay")));
    }
}

/// Delays vary by 2 ms, and one end gets its clock, an hour away, after half of the packets.
#[test]
fn a_clock_found_in_the_meantime_is_no_variation() {
    let road = Road { delay: 7_000_000, more: 2_000_000, lost: 0, copied: 0 };
    let hour_off = Clock { ahead: 3_600_000_000_000, bound: None };
    let half = 100 * INTERVAL + INTERVAL / 2;
    for late in [0, 1] {
        let clocks = |ns: i64| {
            let mut clocks = GOOD;
            if ns < half {
                clocks[late] = hour_off;
            }
            clocks
        };
        let report = report(&run_by(5, 200, [road, road], &clocks, open()));
        assert!(report.notes.iter().any(|note| note.contains("stretch")), "{:?}", report.notes);
        let round_trip = &report.round_trip.time;
        assert!((14_000_000..14_500_000).contains(&round_trip.min_ns.unwrap()), "{round_trip:?}");
        assert!(round_trip.max_ns.unwrap() <= 18_000_002, "{round_trip:?}");
        for way in [&report.forward, &report.backward] {
            assert!(way.pdv.max_ns.unwrap() <= 2_000_002, "{late}: {:?}", way.pdv);
            assert!(way.ipdv.max_ns.unwrap() <= 2_000_002, "{late}: {:?}", way.ipdv);
            assert!(way.jitter_ns.unwrap() < 2_000_000.0, "{late}: {:?}", way.jitter_ns);
            assert!(
                (8.0..10.0).contains(&way.voice.as_ref().unwrap().network_ms),
                "{late}: {:?}",
                way.voice
            );
            assert_eq!(way.reordering.reordered, 0, "{late}");
        }
    }
}

#[test]
fn a_clock_that_is_not_what_it_claims_is_caught_where_it_shows() {
    let road = Road { delay: 2_000_000, more: 100_000, lost: 0, copied: 0 };
    // 5 ms behind, and sure of a microsecond: requests arrive before they left.
    let wrong = Clock { ahead: -5_000_000, bound: Some(1_000) };
    let report = report(&run(3, 100, [road, road], [GOOD[0], wrong], open()));
    assert_eq!(report.forward.delay.as_ref().unwrap().negative, 101);
    assert_eq!(report.backward.delay.as_ref().unwrap().negative, 0);
    assert!(report.notes.iter().any(|note| note.contains("not what it claims")));
}

#[test]
fn voice_suffers_from_delay_and_loss() {
    let good = Road { delay: 10_000_000, more: 1_000_000, lost: 0, copied: 0 };
    let bad = Road { delay: 250_000_000, more: 9_000_000, lost: 60, copied: 0 };
    let report = report(&run(4, 1000, [good, bad], GOOD, open()));
    let [there, back] = [report.forward.voice.unwrap(), report.backward.voice.unwrap()];
    assert!(!there.assumed && (30.0..32.0).contains(&there.inputs.delay_ms), "{there:?}");
    assert!(there.mos > 4.2 && back.mos < 3.2, "{there:?} {back:?}");
}

#[test]
fn what_the_kernel_does_not_tell_and_what_was_refused_is_noted() {
    let mut session = Session::new(None, 44, 7);
    let at = |ns| Timed::at_nanos(BEGIN + ns, 100);
    for (n, departure) in
        [Some(Departure::Kernel), Some(Departure::Call), None].into_iter().enumerate()
    {
        let now = at(n as i64 * 1_000_000);
        let _ = session.ask(&now);
        departure.into_iter().for_each(|departure| session.left(now, departure));
    }
    session.foreign();
    assert!(session.accept(&[0; 9], &at(0), None).is_err());
    let report = Report::of(&session, 0, Codec::ALL[0]);
    assert_eq!((report.sent, report.by_call), (3, 2));
    for part in [
        "packets of which the kernel did not say when they left: 2;",
        "datagrams that answer no packet of this session: 1",
        "datagrams that are too short for a reply: 1",
    ] {
        assert!(report.notes.iter().any(|note| note.contains(part)), "{part}: {:?}", report.notes);
    }
}
