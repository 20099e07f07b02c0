//! The whole engine under any events: replies that are good, half good or forged, stamps and
//! clocks that make no sense, in any order.
#![no_main]

use std::collections::BTreeMap;
use std::net::SocketAddr;

use truechimer_engine::{
    Action, Authentication, Config, Engine, Event, HostCheck, RefClockConfig, RefClockKind, Scale,
    Shown, SourceConfig, SourceId, Start, Steer, SystemReading,
};
use truechimer_estimators::TABLE;
use truechimer_ntp::server::{ServerState, respond};
use truechimer_ntp::{LeapIndicator, Log2, RefId, Short, Timestamp};
use truechimer_time::{
    BootId, Count, CountSpan, CounterId, CounterKind, Epoch, Leap, Leaps, Period, Rate, Span,
    Stamp, StampMethod,
};
use truechimer_timehands::{Hand, Made, pack, unpack};

/// Unix time in s at count 0.
const BEGIN: u64 = 1_800_000_000;

/// Numbers out of the fuzzer's bytes.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn byte(&mut self) -> u8 {
        self.bytes::<1>()[0]
    }

    /// Of any size, small ones being as likely as large ones.
    fn number(&mut self) -> u64 {
        u64::from_le_bytes(self.bytes()) >> (self.byte() & 63)
    }

    fn bytes<const N: usize>(&mut self) -> [u8; N] {
        std::array::from_fn(|_| {
            self.0.split_first().map_or(0, |(byte, rest)| {
                self.0 = rest;
                *byte
            })
        })
    }

    fn leap(&mut self) -> Option<Leap> {
        let step = [0, 1, -1][usize::from(self.byte()) % 3];
        (step != 0).then(|| Leap { at: (BEGIN + self.number() % 1_000_000) as i64, step })
    }
}

fn config(sources: u8) -> Config {
    let source = |n| {
        // Some are fenced, preferred or required.
        let is = |bit: u8| sources & bit != 0 && n == 1;
        let (prefer, require) = (is(8), is(16));
        let authentication = if is(4) { Authentication::Nts } else { Authentication::None };
        let host = SourceConfig::new(format!("192.0.2.{n}"));
        SourceConfig { poll: 1 << u32::from(n), authentication, prefer, require, ..host }
    };
    let refclocks = (0..sources >> 4 & 1)
        .map(|n| {
            RefClockConfig::new(
                [RefClockKind::Pulse, RefClockKind::Phc, RefClockKind::Vmclock, RefClockKind::Sock]
                    [usize::from(sources >> 6)],
                format!("{n}"),
                Span::from_micros(10),
            )
        })
        .collect();
    Config { sources: (0..sources % 4).map(source).collect(), refclocks, ..Config::default() }
}

/// The world around the engine: what it asked for, and when.
struct World {
    engine: Engine,
    at: Count,
    requests: BTreeMap<SourceId, (SocketAddr, Vec<u8>, Count)>,
}

impl World {
    fn happens(&mut self, event: Event) {
        let actions = self.engine.handle(self.at, event);
        self.carry_out(actions);
    }

    fn carry_out(&mut self, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Resolve { source, host, port, .. } => {
                    let address = SocketAddr::new(host.parse().expect("an address"), port);
                    let result = Ok(vec![address]);
                    self.happens(Event::Resolved { source, result });
                }
                Action::Send { source, to, packet, .. } => {
                    self.requests.insert(source, (to, packet.to_vec(), self.at));
                }
                Action::Watch { .. } | Action::Ptp(_) => {}
                Action::Close { source } => {
                    self.requests.remove(&source);
                }
                Action::Publish(hand) => {
                    // Readers find nothing wrong with it, whatever came in.
                    let made = Made {
                        count: self.at,
                        monotonic_ns: 0,
                        raw_ns: 0,
                        suspended_ns: 0,
                        device: None,
                    };
                    // What is disputed has 2⁻³² s in the page.
                    let disputed = Span(hand.disputed.0 >> 32 << 32);
                    let page = Hand { disputed, ..hand };
                    assert_eq!(unpack(&pack(&hand, &made)), Ok((page, made)));
                    let _ = (hand.time_at(self.at), hand.bound_at(self.at));
                }
                Action::Steer(Steer::Frequency(rate)) => {
                    assert!(rate.0.abs() <= Rate::from_ppb(500_000).0, "{rate}");
                }
                Action::Steer(Steer::Step(_) | Steer::Tell(_)) => {}
                Action::Note { text, .. } => assert!(!text.contains('\n')),
            }
        }
    }
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut input = Input(bytes);
    let at = Count(input.number());
    let epoch = Epoch(u32::from(input.byte()));
    let counter = CounterId { kind: CounterKind::Simulated, boot: BootId::default(), epoch };
    let nominal = Period::from_hz(1_000_000 + (input.number() >> 30));
    let resolution = CountSpan(i64::from(input.byte()));
    let start = Start { resolution, ..Start::new(at, counter, nominal, [1; 32]) };
    let sources = input.byte();
    let kind = TABLE[usize::from(sources >> 2) % TABLE.len()];
    let (engine, actions) = Engine::with_method(config(sources), start, kind.method());
    let mut world = World { engine, at, requests: BTreeMap::new() };
    world.carry_out(actions);

    while !input.0.is_empty() {
        let step = input.byte();
        if step & 0x80 != 0 {
            world.at = world.engine.next_deadline().unwrap_or(world.at);
        } else {
            // A thousand years at most, in either direction.
            let sign = if input.byte() & 15 == 0 { -1 } else { 1 };
            world.at = world.at + CountSpan(sign * (input.number() >> 9) as i64);
        }
        let source = SourceId(u32::from(step >> 4 & 7));
        const METHODS: [StampMethod; 3] =
            [StampMethod::Kernel, StampMethod::User, StampMethod::Hardware];
        let stamp = |count: Count, input: &mut Input<'_>| Stamp {
            count: count + CountSpan((input.number() >> 9) as i64),
            error: CountSpan((input.number() & 0xffff) as i64),
            method: METHODS[usize::from(step % 3)],
        };
        match step & 15 {
            0..=4 => {
                let Some((server, request, left)) = world.requests.get(&source).cloned() else {
                    world.happens(Event::Timer);
                    continue;
                };
                let state = ServerState {
                    leap: LeapIndicator::None,
                    stratum: 1 + (input.byte() & 3),
                    precision: Log2(-20),
                    root_delay: Short(input.byte().into()),
                    root_dispersion: Short(input.byte().into()),
                    reference_id: RefId(*b"FUZZ"),
                    reference_timestamp: Timestamp::UNKNOWN,
                };
                // The server's time: by the counter, and off by anything.
                let since = nominal.span(world.at - at).0 as u128 >> 32;
                let now = (u128::from(BEGIN + 2_208_988_800) << 32).wrapping_add(since) as u64;
                let received = now.wrapping_add(input.number());
                let left_server = received.wrapping_add(input.number());
                let reply = respond(&request, Timestamp(received), Timestamp(left_server), &state);
                let mut packet = reply.expect("a reply").to_vec();
                if step & 4 != 0 {
                    packet[usize::from(input.byte()) % 48] = input.byte();
                    packet.resize(usize::from(input.byte()), 0);
                }
                let sent = stamp(left, &mut input);
                let received = stamp(world.at, &mut input);
                world.happens(Event::Reply { source, from: server, sent, received, packet });
            }
            5..=8 => world.happens(Event::Timer),
            9 => world.happens(match input.byte() % 3 {
                0 => Event::Undelivered { source, error: "unreachable".into() },
                1 => Event::Unauthentic { source, error: "no proof".into() },
                _ => Event::Unprotected { source, error: "no keys".into() },
            }),
            10 => {
                let check = HostCheck {
                    count: world.at,
                    raw_ns: input.number() as i64,
                    suspended_ns: (input.number() & 0xff) as i64,
                    width: CountSpan(i64::from(input.byte())),
                };
                world.happens(Event::Check(check));
            }
            11 if step & 0x40 != 0 => world.happens(Event::Moved { reason: "fuzz".into() }),
            11 => world.happens(Event::Disruption { reason: "fuzz".into() }),
            12 => {
                let discipline = input.byte() & 1 == 1;
                let wander = Rate::from_ppb((input.number() & 0xffff) as i64);
                let config = Config { discipline, max_wander: wander, ..config(input.byte()) };
                world.happens(Event::Configure(config));
            }
            13 => {
                let leaps = Leaps {
                    tai_offset: input.byte().into(),
                    known: true,
                    last: input.leap(),
                    next: input.leap(),
                };
                world.happens(Event::Leaps(leaps.into()));
            }
            14 => {
                let count = world.at;
                let (unix_ns, raw_ns) = (input.number() as i64, input.number() as i64);
                world.happens(Event::SystemClock(SystemReading {
                    count,
                    unix_ns,
                    raw_ns,
                    frequency: None,
                }));
            }
            15 if step & 0x40 != 0 => {
                let second = nominal.counts(Span::from_secs(1)).0.max(1);
                let whole = CountSpan((world.at - at).0 / second * second);
                let stamp = Ok(stamp(at + whole, &mut input));
                let sequence = input.number();
                let shown = Shown {
                    unix_ns: input.number() as i64,
                    pulse: input.byte() & 1 == 0,
                    error: Span::from_nanos((input.number() >> 1) as i64),
                    leap: input.byte() & 7,
                    scale: [Scale::Auto, Scale::Utc, Scale::Tai][usize::from(input.byte() % 3)],
                };
                world.happens(Event::Sample { source, sequence, stamp, shown });
            }
            _ => {
                let failed = Err("no such host".into());
                world.happens(Event::Resolved { source, result: failed });
            }
        }
        let _ = world.engine.report(world.at);
        let _ = world.engine.saved(world.at);
    }
});
