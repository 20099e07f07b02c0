//! The engine under any events in any order: nothing panics or overflows, what is published is
//! sound, nothing grows without limit, and the same events lead to the same decisions.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use proptest::prelude::*;
use truechimer_engine::{
    Action, Authentication, AuthenticationMode, Config, Engine, Event, HostCheck, LeapData,
    POLL_RANGE, RefClockConfig, RefClockKind, RtcReading, Scale, Shown, SourceConfig, SourceId,
    Start, Steer, StepPolicy, SystemReading,
};
use truechimer_estimators::{Kind, TABLE};
use truechimer_ntp::server::{ServerState, respond};
use truechimer_ntp::{LeapIndicator, Log2, RefId, Short, Timestamp};
use truechimer_time::{
    BootId, Count, CountSpan, CounterId, CounterKind, Epoch, Instant, Leap, Leaps, Period, Rate,
    Span, Stamp, StampMethod,
};
use truechimer_timehands::{Hand, Status};

/// Unix time at count 0 of an honest server.
const BEGIN: u64 = 1_800_000_000;
const SECOND: i64 = 1_000_000_000;

/// One thing that happens, and how long after the one before, in counts of 1 ns.
type Step = (i64, Happens);

#[derive(Clone, Debug)]
enum Happens {
    /// The source answers its newest request well: delays there and back in ns.
    Answer { source: u32, there: u32, back: u32, off: i64 },
    /// A datagram of any content, on any socket, with any stamps.
    Datagram { source: u32, from: usize, stamps: [(u64, i64); 2], packet: Vec<u8> },
    /// A reply to the newest request, with these bytes of it changed, and any stamps.
    Damaged { source: u32, stamps: [(u64, i64); 2], changes: Vec<(usize, u8)>, times: [u64; 2] },
    /// A sample of a reference clock at the second, so late, ns; its time is that far off.
    Sample { source: u32, late: i64, shown: Shown },
    /// An event that needs nothing from the world.
    Other(Event),
    /// Waits for the engine's next deadline.
    Deadline,
}

fn address(n: usize) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, n as u8], 123))
}

/// Small numbers as likely as large ones.
fn number() -> impl Strategy<Value = u64> {
    (any::<u64>(), 0u32..64).prop_map(|(n, shift)| n >> shift)
}

fn signed() -> impl Strategy<Value = i64> {
    (number(), any::<bool>()).prop_map(
        |(n, negative)| {
            if negative { (n as i64).wrapping_neg() } else { n as i64 }
        },
    )
}

fn config() -> impl Strategy<Value = Config> {
    let source = (0usize..5, 0u32..12, any::<[bool; 10]>()).prop_map(|(n, poll, flags)| {
        let [burst, odd, no_select, proven, trust, prefer, require, pool, offline, adapts] = flags;
        // Every fourth only, or there would be hardly any time.
        let require = require && n == 0;
        // Whoever makes a configuration by hand may ask for any poll interval.
        let poll = if odd { [0, u32::MAX][n % 2] } else { 1 << poll };
        let host = SourceConfig::new(format!("host{n}"));
        let authentication = match (proven, odd) {
            (false, _) => Authentication::None,
            (true, false) => Authentication::Nts,
            (true, true) => Authentication::Key(7),
        };
        let pool = pool.then_some([0, 2, 4, u32::MAX][n % 4]);
        let max_poll = adapts.then_some([0, 64, 1024, u32::MAX][n % 4]);
        let host = SourceConfig { max_poll, trust, prefer, require, pool, offline, ..host };
        SourceConfig { poll, burst, no_select, authentication, ..host }
    });
    let refclock = (0usize..3, number(), signed(), 0u32..99, any::<bool>(), 0usize..12);
    let refclock = refclock.prop_map(|(n, error, offset, poll, trust, kind)| {
        use RefClockKind::{Phc, Pulse, Shm, Vmclock};
        let (kind, scale) = ([Pulse, Phc, Shm, Vmclock][kind % 4], kind / 4);
        RefClockConfig {
            offset: Span::from_nanos(offset),
            poll,
            trust,
            pulse_error: Span::from_nanos((error >> 40) as i64),
            scale: [Scale::Auto, Scale::Utc, Scale::Tai][scale],
            ..RefClockConfig::new(kind, format!("{n}"), Span::from_nanos((error >> 1) as i64))
        }
    });
    let sources = proptest::collection::vec(source, 0..4);
    let refclocks = proptest::collection::vec(refclock, 0..3);
    let steps = [StepPolicy::Start, StepPolicy::Never, StepPolicy::Always];
    let gate = (proptest::option::of(signed()), proptest::option::of(0u32..5));
    let step = prop::sample::select(steps.to_vec());
    let proof = [AuthenticationMode::Mix, AuthenticationMode::Require, AuthenticationMode::Ignore];
    let proof = prop::sample::select(proof.to_vec());
    (sources, refclocks, signed(), any::<bool>(), step, gate, proof).prop_map(
        |(sources, refclocks, wander, discipline, step, (limit, least), authentication)| Config {
            authentication,
            max_step: limit.map(Span::from_nanos),
            min_sources: least,
            sources,
            refclocks,
            max_wander: Rate::from_ppb(wander.checked_abs().unwrap_or(0) % 1_000_000),
            discipline,
            step,
            ..Config::default()
        },
    )
}

fn leaps() -> impl Strategy<Value = Leaps> {
    let leap = || {
        let at = prop_oneof![signed(), (0i64..1_000_000).prop_map(|s| BEGIN as i64 + s)];
        proptest::option::of((at, prop_oneof![Just(1i8), Just(-1i8)]))
            .prop_map(|leap| leap.map(|(at, step)| Leap { at, step }))
    };
    (any::<i32>(), any::<bool>(), leap(), leap())
        .prop_map(|(tai_offset, known, last, next)| Leaps { tai_offset, known, last, next })
}

/// A time that a reference clock shows, added to the true one where it is sent by the world.
fn shown() -> impl Strategy<Value = Shown> {
    let unix_ns = prop_oneof![Just(0i64), Just(37 * SECOND), signed()];
    let scale = prop::sample::select(vec![Scale::Auto, Scale::Utc, Scale::Tai]);
    (unix_ns, any::<bool>(), signed(), 0u8..5, scale).prop_map(
        |(unix_ns, pulse, error, leap, scale)| Shown {
            unix_ns,
            pulse,
            error: Span::from_nanos(error),
            leap,
            scale,
        },
    )
}

fn other() -> impl Strategy<Value = Event> {
    let check = (number(), signed(), signed(), signed()).prop_map(
        |(count, raw_ns, suspended_ns, width)| {
            Event::Check(HostCheck {
                count: Count(count),
                raw_ns,
                suspended_ns,
                width: CountSpan(width),
            })
        },
    );
    let reading = (number(), signed(), signed()).prop_map(|(count, unix_ns, raw_ns)| {
        Event::SystemClock(SystemReading { count: Count(count), unix_ns, raw_ns, frequency: None })
    });
    let id = || (0u32..9).prop_map(SourceId);
    let addresses = proptest::collection::vec((0usize..9).prop_map(address), 0..4);
    let sample = (id(), (number(), number(), signed()), 0u8..8, shown()).prop_map(
        |(source, (sequence, count, error), kind, shown)| Event::Sample {
            source,
            sequence,
            stamp: match kind {
                0 => Err("no pairs".into()),
                _ => Ok(Stamp {
                    count: Count(count),
                    error: CountSpan(error),
                    method: StampMethod::Kernel,
                }),
            },
            shown,
        },
    );
    prop_oneof![
        2 => sample,
        1 => id().prop_map(|source| Event::RefClockFailed { source, error: "gone".into() }),
        4 => Just(Event::Timer),
        2 => check,
        1 => reading,
        1 => config().prop_map(Event::Configure),
        1 => (leaps(), any::<i64>())
            .prop_map(|(leaps, until)| Event::Leaps(LeapData { leaps, until })),
        1 => (id(), any::<u8>()).prop_map(|(source, n)| Event::Undelivered {
            source,
            error: format!("error {n}"),
        }),
        1 => id().prop_map(|source| Event::Unauthentic { source, error: "no proof".into() }),
        1 => id().prop_map(|source| Event::Unprotected { source, error: "no keys".into() }),
        1 => (id(), addresses).prop_map(|(source, all)| Event::Resolved { source, result: Ok(all) }),
        1 => id().prop_map(|source| Event::Resolved { source, result: Err("no".into()) }),
        1 => rtc().prop_map(Event::Rtc),
        1 => id().prop_map(|source| Event::Accept { source }),
        1 => Just(Event::Disruption { reason: "by hand".into() }),
        1 => Just(Event::Moved { reason: "by the hypervisor".into() }),
        1 => Just(Event::Stop),
    ]
}

/// A real-time clock that is right, or not.
fn rtc() -> impl Strategy<Value = RtcReading> {
    let unix = prop_oneof![signed(), (0i64..1_000_000).prop_map(|s| BEGIN as i64 + s)];
    let all = (number(), unix.clone(), prop::option::of(unix), any::<bool>());
    all.prop_map(|(count, unix, system, may_be_local)| RtcReading {
        count: Count(count),
        unix,
        system,
        may_be_local,
    })
}

fn happens() -> impl Strategy<Value = Happens> {
    let stamps = || [(number(), signed()), (number(), signed())];
    let bytes = proptest::collection::vec(any::<u8>(), 0..80);
    let delay = || prop_oneof![100_000u32..200_000, any::<u32>()];
    let off = prop_oneof![4 => Just(0i64), 1 => signed()];
    let changes = proptest::collection::vec((0usize..48, any::<u8>()), 0..4);
    prop_oneof![
        12 => (0u32..6, delay(), delay(), off)
            .prop_map(|(source, there, back, off)| Happens::Answer { source, there, back, off }),
        1 => (0u32..9, 0usize..9, stamps(), bytes)
            .prop_map(|(source, from, stamps, packet)| Happens::Datagram { source, from, stamps, packet }),
        2 => (0u32..6, stamps(), changes, any::<[u64; 2]>())
            .prop_map(|(source, stamps, changes, times)| Happens::Damaged { source, stamps, changes, times }),
        6 => (0u32..9, prop_oneof![0i64..20_000, signed()], shown())
            .prop_map(|(source, late, shown)| Happens::Sample { source, late, shown }),
        6 => other().prop_map(Happens::Other),
        8 => Just(Happens::Deadline),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let wait = prop_oneof![
        20 => Just(0i64),
        10 => 0..20 * SECOND,
        2 => 0..100_000 * SECOND,
        1 => -SECOND..SECOND,
        1 => signed(),
    ];
    (wait, happens())
}

fn start() -> impl Strategy<Value = Start> {
    let hand = (number(), signed(), any::<[u32; 2]>(), 0u8..4, any::<bool>());
    let witnesses = (signed(), proptest::option::of(rtc()));
    let hand = proptest::option::of(hand);
    (number(), 1_000_000u64..10_000_000_000, number(), leaps(), hand, witnesses).prop_map(
        |(at, hz, resolution, leaps, hand, (built, rtc))| {
            // Counts of 1 ns are the most likely: the honest servers keep that pace.
            let nominal = if hz % 4 == 0 { Period::from_hz(hz) } else { Period::NANOSECOND };
            let counter = CounterId {
                kind: CounterKind::Simulated,
                boot: BootId::default(),
                epoch: Epoch(u32::MAX - 1),
            };
            let warm = hand.map(|(base, secs, [bound, growth], status, near)| Hand {
                counter,
                base: Count(if near { at.wrapping_sub(base % 1_000_000_000_000) } else { base }),
                time: Instant::new(if near { BEGIN as i64 } else { secs }, 0),
                period: nominal,
                difference: nominal,
                difference_error: Rate(i64::from(growth)),
                path_bound: Span::from_nanos(i64::from(bound)),
                statistical_bound: Span::from_nanos(i64::from(bound)),
                disputed: Span::from_nanos(i64::from(bound.min(growth))),
                growth: Rate(i64::from(growth) << 20),
                imbalance: Span::ZERO,
                likely: None,
                status: Status::from_u8(status).unwrap(),
                leaps,
                void_after: Count(at.wrapping_add(1 << 40)),
            });
            Start {
                resolution: CountSpan((resolution >> 1) as i64),
                leaps,
                leaps_until: built,
                warm,
                built,
                rtc,
                ..Start::new(Count(at), counter, nominal, [5; 32])
            }
        },
    )
}

/// The most sources that there can be: a pool that has none stands there itself.
fn most(config: &Config) -> usize {
    let sources = config.sources.iter().map(|source| source.pool.unwrap_or(1).clamp(1, 99));
    sources.sum::<u32>() as usize + config.refclocks.len()
}

/// The engine, what it asked for, and all that it wanted done.
struct World {
    engine: Engine,
    kind: Kind,
    origin: Count,
    now: Count,
    config: usize,
    requests: BTreeMap<SourceId, (SocketAddr, Vec<u8>, Count)>,
    actions: Vec<Action>,
}

impl World {
    fn new(kind: Kind, config: Config, start: Start) -> World {
        let (origin, sources) = (start.at, most(&config));
        let (engine, actions) = Engine::with_method(config, start, kind.method());
        let mut world = World {
            engine,
            kind,
            origin,
            now: origin,
            config: sources,
            requests: BTreeMap::new(),
            actions: Vec::new(),
        };
        world.carry_out(actions);
        world
    }

    fn event(&mut self, event: Event) {
        if let Event::Configure(config) = &event {
            self.config = most(config);
        }
        let actions = self.engine.handle(self.now, event);
        self.carry_out(actions);
    }

    fn carry_out(&mut self, actions: Vec<Action>) {
        self.actions.extend(actions.iter().cloned());
        for action in actions {
            match action {
                Action::Resolve { source, host, .. } => {
                    // A server of a pool is its address.
                    let found = host.parse().map(|ip| vec![SocketAddr::new(ip, 123)]);
                    let found = found.unwrap_or_else(|_| {
                        let n: usize = host.trim_start_matches("host").parse().unwrap();
                        vec![address(n + 1), address(n + 2)]
                    });
                    self.event(Event::Resolved { source, result: Ok(found) });
                }
                Action::Send { source, to, packet, .. } => {
                    self.requests.insert(source, (to, packet.to_vec(), self.now));
                }
                Action::Watch { .. } => {}
                Action::Close { source } => {
                    self.requests.remove(&source);
                }
                Action::Publish(hand) => sound(&hand, self.now),
                Action::Steer(Steer::Frequency(rate)) => {
                    assert!(rate.0.abs() <= Rate::from_ppb(500_000).0, "{rate}");
                }
                Action::Steer(Steer::Step(_) | Steer::Tell(_)) => {}
                Action::Note { text, .. } => assert!(!text.contains('\n')),
                Action::Ptp(_) => {}
            }
        }
    }

    /// NTP time by an honest server, at a count.
    fn ntp(&self, at: Count) -> u64 {
        let since = Period::NANOSECOND.span(at - self.origin).0 >> 32;
        ((u128::from(BEGIN + 2_208_988_800) << 32) as u64).wrapping_add(since as u64)
    }

    fn reply(&self, request: &[u8], received: u64, sent: u64) -> Vec<u8> {
        let state = ServerState {
            leap: LeapIndicator::None,
            stratum: 2,
            precision: Log2(-24),
            root_delay: Short(1),
            root_dispersion: Short(2),
            reference_id: RefId(*b"TEST"),
            reference_timestamp: Timestamp::UNKNOWN,
        };
        respond(request, Timestamp(received), Timestamp(sent), &state).unwrap().to_vec()
    }

    fn step(&mut self, (wait, happens): &Step) {
        self.now = self.now + CountSpan(*wait);
        match happens {
            Happens::Deadline => {
                self.now = self.engine.next_deadline().unwrap_or(self.now);
                self.event(Event::Timer);
            }
            Happens::Other(event) => self.event(event.clone()),
            Happens::Sample { source, late, shown } => {
                let seconds = (self.now - self.origin).0.div_euclid(SECOND);
                let edge = self.origin + CountSpan(seconds.wrapping_mul(SECOND));
                let stamp = Ok(stamp((edge.0.wrapping_add(*late as u64), 500)));
                let (source, sequence) = (SourceId(*source), seconds as u64);
                let true_ns = seconds.wrapping_add(BEGIN as i64).wrapping_mul(SECOND);
                let shown = Shown { unix_ns: shown.unix_ns.wrapping_add(true_ns), ..*shown };
                self.event(Event::Sample { source, sequence, stamp, shown });
            }
            Happens::Answer { source, there, back, off } => {
                let source = SourceId(*source);
                let Some((from, request, left)) = self.requests.get(&source).cloned() else {
                    return self.event(Event::Timer);
                };
                let at = left + CountSpan(i64::from(*there));
                let arrived = at + CountSpan(i64::from(*back));
                let time = self.ntp(at).wrapping_add(*off as u64);
                let packet = self.reply(&request, time, time);
                if (arrived - self.now).0 > 0 {
                    self.now = arrived;
                }
                self.event(Event::Reply {
                    source,
                    from,
                    sent: stamp((left.0, 500)),
                    received: stamp((arrived.0, 500)),
                    packet,
                });
            }
            Happens::Datagram { source, from, stamps: [sent, received], packet } => {
                self.event(Event::Reply {
                    source: SourceId(*source),
                    from: address(*from),
                    sent: stamp(*sent),
                    received: stamp(*received),
                    packet: packet.clone(),
                });
            }
            Happens::Damaged { source, stamps: [sent, received], changes, times } => {
                let source = SourceId(*source);
                let Some((from, request, _)) = self.requests.get(&source).cloned() else { return };
                let mut packet = self.reply(&request, times[0], times[1]);
                for (at, byte) in changes {
                    packet[*at] = *byte;
                }
                let (sent, received) = (stamp(*sent), stamp(*received));
                self.event(Event::Reply { source, from, sent, received, packet });
            }
        }
        self.look();
    }

    /// Asks all that can be asked at any time.
    fn look(&self) {
        let report = self.engine.report(self.now);
        assert!(report.sources.len() <= self.config, "a source is left over");
        for source in &report.sources {
            // The names of all there are to refuse for, and not one for each sender.
            assert!(source.refused.len() < 40, "{:?}", source.refused);
            assert!(source.trouble.as_ref().is_none_or(|text| text.len() < 1000));
            for span in [source.bound, source.deviation, source.rtt_floor].into_iter().flatten() {
                assert!(!span.is_negative(), "{source:?}");
            }
        }
        let _ = self.engine.saved(self.now);
        for id in 0..9 {
            let estimator = self.engine.estimator(SourceId(id));
            let advice = estimator.and_then(|estimator| self.kind.poll_advice(estimator));
            assert!(advice.is_none_or(|poll| POLL_RANGE.contains(&poll)), "{advice:?}");
            let alone = self.engine.source_report(SourceId(id), self.now);
            assert!(alone.is_none_or(|one| report.sources.contains(&one)));
        }
    }
}

fn stamp((count, error): (u64, i64)) -> Stamp {
    Stamp { count: Count(count), error: CountSpan(error), method: StampMethod::User }
}

/// A hand that readers can go by: its bound grows with the distance from its base, either way.
fn sound(hand: &Hand, now: Count) {
    for span in [hand.path_bound, hand.statistical_bound] {
        assert!(!span.is_negative(), "{hand:?}");
    }
    let disputed = Span::ZERO..=hand.statistical_bound;
    assert!(disputed.contains(&hand.disputed), "{hand:?}");
    assert!(hand.growth.0 >= 0 && hand.difference_error.0 >= 0, "{hand:?}");
    for direction in [1, -1] {
        let mut least = hand.bound();
        for shift in (0..63).step_by(3) {
            let bound = hand.bound_at(hand.base + CountSpan(direction << shift));
            assert!(bound >= least, "{shift} {hand:?}");
            least = bound;
        }
    }
    let _ = hand.leaps.utc(hand.time_at(now));
}

fn run(kind: Kind, config: &Config, start: &Start, steps: &[Step]) -> World {
    let mut world = World::new(kind, config.clone(), start.clone());
    steps.iter().for_each(|step| world.step(step));
    world
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn anything_may_happen_in_any_order(
        kind in 0..TABLE.len(),
        config in config(),
        start in start(),
        steps in proptest::collection::vec(step(), 0..120),
    ) {
        let first = run(TABLE[kind], &config, &start, &steps);
        let again = run(TABLE[kind], &config, &start, &steps);
        prop_assert!(first.actions == again.actions, "not the same again");
    }
}

/// Three servers.
fn three() -> Config {
    let sources = (0..3).map(|n| SourceConfig::new(format!("host{n}"))).collect();
    Config { sources, ..Config::default() }
}

/// A start that knows nothing but the nominal rate.
fn plain() -> Start {
    Start::new(
        Count(1),
        CounterId { kind: CounterKind::Simulated, boot: BootId::default(), epoch: Epoch(0) },
        Period::NANOSECOND,
        [5; 32],
    )
}

/// One good reply from each of three servers.
fn all_answer(world: &mut World) {
    for source in 0..3 {
        world.step(&(0, Happens::Deadline));
        world.step(&(0, Happens::Answer { source, there: 150_000, back: 150_000, off: 0 }));
    }
}

/// The good replies are good: without them the properties below would say little.
#[test]
fn good_replies_synchronise_every_estimator() {
    for kind in TABLE {
        let mut world = World::new(*kind, three(), plain());
        (0..200).for_each(|_| all_answer(&mut world));
        assert_eq!(world.engine.hand().status, Status::Synchronised, "{kind:?}");
        let truth =
            Instant::new(BEGIN as i64, 0) + Period::NANOSECOND.span(world.now - world.origin);
        let error = world.engine.hand().time_at(world.now) - truth;
        assert!(error.abs() < Span::from_millis(1), "{kind:?}: {error}");
    }
}

/// Size of all that the engine holds.
fn size(engine: &Engine) -> usize {
    format!("{engine:?}").len()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() })]

    /// Repeats hostile things over and over, and never a day without a good reply.
    #[test]
    fn memory_has_a_limit(
        kind in 0..TABLE.len(),
        steps in proptest::collection::vec(step(), 10..40),
    ) {
        let keep = |step: &&Step| {
            !matches!(step.1, Happens::Other(Event::Configure(_) | Event::Stop))
        };
        let steps: Vec<Step> = steps.iter().filter(keep).cloned().collect();
        let mut world = World::new(TABLE[kind], three(), plain());
        let mut largest = 0;
        for round in 0..300 {
            for step in &steps {
                world.step(step);
                world.actions.clear();
            }
            all_answer(&mut world);
            if round % 50 == 0 {
                largest = largest.max(size(&world.engine));
            }
        }
        // A window of every estimator's exchanges, as text, and no more.
        prop_assert!(largest < 4_000_000, "{largest} characters");
    }
}
