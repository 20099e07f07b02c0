//! Properties of every estimator: figures on the same LAN, and no input that breaks them.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod laboratory;

use laboratory::{HZ, Laboratory, Outcome, Random, instant, settings, stamp};
use proptest::prelude::*;
use truechimer_estimators::{Compared, HostClass, NtpPll, Pi, Published};
use truechimer_feedforward::{Accepted, Estimator, Exchange, Ours, RatePrior};
use truechimer_time::{Count, CountSpan, Instant, Period, Rate, Span, Stamp, StampMethod};

fn prior() -> RatePrior {
    RatePrior { period: Period::from_hz(HZ), error: Rate::from_ppb(500_000) }
}

/// All of them at a poll interval, by name.
fn all(poll: u32) -> Vec<(&'static str, Box<dyn Compared>)> {
    let s = settings(HZ);
    vec![
        ("ours", Box::new(Ours::new(s, prior(), None))),
        ("published", Box::new(Published::new(s, poll))),
        ("pi", Box::new(Pi::new(s, prior(), None, poll))),
        ("ntp-pll", Box::new(NtpPll::new(s, prior(), None, poll))),
    ]
}

fn quiet(r: &mut Random, _: f64) -> f64 {
    100e-6 + r.exponential(10e-6)
}

/// The LAN of the reference figures: oscillator 10 ppm off with a walk of 10⁻⁹/√s.
fn lan(seed: u64) -> Laboratory {
    Laboratory {
        seed,
        burst: true,
        hours: 28.0,
        skew: 10e-6,
        walk: 1e-9,
        temperature: |_| 0.0,
        forward: quiet,
        backward: quiet,
        loss: 0.0,
        ..Laboratory::default()
    }
}

fn rms_of(o: &Outcome) -> f64 {
    o.errors_each_second(4.0 * 3600.0, f64::INFINITY).rms() * 1e6
}

/// 28 h, the first 4 left out, error at every second: limits of the RMS, and of the time until the
/// error stays below 100 µs.
#[test]
fn a_quiet_lan() {
    for (name, rms, converged) in
        [("published", 25.0, 60.0), ("pi", 12.0, 6000.0), ("ntp-pll", 12.0, 5000.0)]
    {
        for seed in 1..=3 {
            let (_, mut clock) = all(16).into_iter().find(|(n, _)| *n == name).unwrap();
            let o = lan(seed).run(clock.as_mut());
            let (got, hundred, ten) = (rms_of(&o), o.converged(100e-6), o.converged(10e-6));
            let max = o.errors_each_second(4.0 * 3600.0, f64::INFINITY).max() * 1e6;
            println!(
                "{name}, seed {seed}: RMS {got:.2} us, max {max:.1}, below 100 us from {hundred:?} s, below 10 us from {ten:?} s"
            );
            assert!(got < rms, "{name}: {got}");
            assert!(hundred.unwrap() < converged, "{name}: {hundred:?}");
        }
    }
}

/// The published windows suit an oscillator that walks ten times less.
#[test]
fn a_quiet_oscillator() {
    for (name, mut clock) in all(16) {
        let o = Laboratory { walk: 1e-10, ..lan(1) }.run(clock.as_mut());
        println!("{name}, walk of 1e-10: RMS {:.2} us", rms_of(&o));
        assert!(name != "published" || rms_of(&o) < 5.0);
    }
}

/// The feedback clocks are stepped to their first server, and follow one that is 50 ppm off.
#[test]
fn feedback_follows_a_fast_server() {
    for name in ["pi", "ntp-pll"] {
        let (_, mut clock) = all(16).into_iter().find(|(n, _)| *n == name).unwrap();
        let laboratory = Laboratory { hours: 6.0, server: |t| 50e-6 * t, ..lan(4) };
        let o = laboratory.run(clock.as_mut());
        let end = o.exchanges.last().unwrap();
        let apart = end.error - 50e-6 * end.t;
        assert!(apart.abs() < 200e-6, "{name}: {apart}");
    }
}

/// A server that jumps by half a second: the PI servo works it off by its frequency, the RFC's
/// client waits for its stepout and steps.
#[test]
fn feedback_after_a_server_step() {
    let jump = |t: f64| if t > 36_000.0 { 0.5 } else { 0.0 };
    let (_, mut clock) = all(16).pop().unwrap();
    let o = Laboratory { hours: 14.0, server: jump, ..lan(5) }.run(clock.as_mut());
    let stepped = o.exchanges.iter().find(|s| matches!(s.outcome, Ok(Accepted::Stepped(_))));
    let stepped = stepped.unwrap().t - 36_000.0;
    assert!((750.0..1200.0).contains(&stepped), "{stepped}");
    assert!(o.exchanges.iter().any(|s| s.outcome.is_err()));
    assert!((o.exchanges.last().unwrap().error - 0.5).abs() < 1e-3);
}

/// On the quiet LAN a client that may choose polls less often.
#[test]
fn the_rfc_client_asks_for_longer_intervals() {
    let (_, mut clock) = all(16).pop().unwrap();
    let _ = Laboratory { walk: 0.0, ..lan(6) }.run(clock.as_mut());
    assert_eq!(clock.poll_advice(), Some(32));
    clock.set_poll(64);
    assert_eq!(clock.poll_advice(), Some(64));
    assert_eq!(clock.renew_after(), Span::from_secs(1));
}

fn exact(k: u64) -> Exchange {
    let t = 16.0 * k as f64;
    let sent = Count(16 * k * HZ);
    Exchange {
        sent: stamp(sent),
        server_received: instant(t + 100e-6),
        server_sent: instant(t + 120e-6),
        received: stamp(sent + CountSpan(HZ as i64 * 220 / 1_000_000)),
        root_distance: Span::from_micros(1),
        precision: Span::ZERO,
    }
}

#[test]
fn a_new_epoch_forgets_time() {
    for (name, mut clock) in all(16) {
        for k in 1..100 {
            let _ = clock.exchange(&exact(k));
        }
        assert!(clock.estimate(Count(7)).is_some(), "{name}");
        clock.new_epoch();
        assert_eq!(clock.estimate(Count(7)), None, "{name}");
        assert!(clock.exchange(&exact(3)).is_ok(), "{name}");
        assert!(clock.estimate(Count(7)).is_some(), "{name}");
    }
}

/// A change of the poll period keeps what is known.
#[test]
fn another_poll_period_keeps_the_clock() {
    for warm in [100u64, 2000] {
        for poll in [1, 4, 64, 1024] {
            let mut clock = Published::new(settings(HZ), 16);
            for k in 1..warm {
                assert!(clock.exchange(&exact(k)).is_ok());
            }
            clock.set_poll(poll);
            for k in warm..warm + 1000 {
                assert!(clock.exchange(&exact(k)).is_ok());
                let e = clock.estimate(exact(k).received.count).unwrap();
                let truth = instant(16.0 * k as f64 + 220e-6);
                assert!((e.time - truth).abs() < Span::from_micros(5), "{}", e.time - truth);
            }
        }
    }
}

/// Published windows are capped by the longest warm-up, whatever comes.
#[test]
fn classes_and_black_stamps() {
    let settings = settings(HZ);
    let mut clock = Published::with_class(settings, 16, HostClass::Poor, Published::INITIAL_PERIOD);
    let good = exact(1);
    let zero = Exchange { server_received: Instant(0), ..good };
    assert!(clock.exchange(&zero).is_err());
    let short = Exchange { received: stamp(good.sent.count + CountSpan(119)), ..good };
    assert!(clock.exchange(&short).is_err());
    let turned = Exchange { server_sent: good.server_received - Span(1), ..good };
    assert!(clock.exchange(&turned).is_err());
    assert!(clock.exchange(&good).is_ok());
    assert!(clock.exchange(&good).is_err(), "the same again");
    assert_eq!(clock.estimate(Count(0)).unwrap().path_bound, Span::ZERO);
}

fn any_exchange() -> impl Strategy<Value = Exchange> {
    (any::<[u64; 2]>(), any::<[i64; 2]>(), any::<[i128; 3]>()).prop_map(
        |(counts, errors, times)| {
            let stamp = |k: usize| Stamp {
                count: Count(counts[k]),
                error: CountSpan(errors[k]),
                method: StampMethod::User,
            };
            Exchange {
                sent: stamp(0),
                server_received: Instant(times[0]),
                server_sent: Instant(times[1]),
                received: stamp(1),
                root_distance: Span(times[2]),
                precision: Span(times[2]),
            }
        },
    )
}

/// Exchanges that are nearly right: what gets past the first checks.
fn nasty_exchange() -> impl Strategy<Value = (u64, i64, i64, i64, i64)> {
    let huge = prop_oneof![
        4 => -1_000_000i64..1_000_000,
        1 => any::<i64>(),
        1 => Just(i64::MAX),
        1 => Just(i64::MIN),
        1 => Just(0),
    ];
    let rtt = prop_oneof![4 => 100i64..10_000_000, 1 => 0i64..i64::MAX, 1 => Just(i64::MAX)];
    (0u64..100_000_000_000, rtt, huge.clone(), huge, prop_oneof![Just(0), Just(i64::MAX)])
}

#[derive(Clone, Debug)]
enum Event {
    Any(Exchange),
    Nasty(u64, i64, i64, i64, i64),
    Poll(u32),
    Epoch,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        2 => any_exchange().prop_map(Event::Any),
        8 => nasty_exchange().prop_map(|(a, b, c, d, e)| Event::Nasty(a, b, c, d, e)),
        1 => any::<u32>().prop_map(Event::Poll),
        1 => (1u32..1100).prop_map(Event::Poll),
        1 => Just(Event::Epoch),
    ]
}

/// Two estimators fed alike agree to the last bit, and nothing panics or comes out negative.
fn survives(
    events: &[Event],
    at: u64,
    settle: u64,
    poll: u32,
    period: Period,
) -> Result<(), TestCaseError> {
    let hostile = truechimer_feedforward::Settings { nominal: period, ..settings(HZ) };
    let make = || -> Vec<Box<dyn Compared>> {
        let prior = RatePrior { period, ..prior() };
        vec![
            Box::new(Published::new(hostile, poll)),
            Box::new(Pi::new(hostile, prior, None, poll)),
            Box::new(NtpPll::new(hostile, prior, None, poll)),
        ]
    };
    for (mut clock, mut twin) in make().into_iter().zip(make()) {
        for k in 1..=settle {
            prop_assert_eq!(clock.exchange(&exact(k)), twin.exchange(&exact(k)));
        }
        let (mut count, mut time) = (Count(16 * (settle + 1) * HZ), instant(16.0 * settle as f64));
        for event in events {
            let exchange = match *event {
                Event::Any(exchange) => exchange,
                Event::Nasty(ahead, rtt, there, back, root) => {
                    count = Count(count.0.wrapping_add(ahead));
                    time += Span::from_nanos(ahead as i64);
                    Exchange {
                        sent: stamp(count),
                        server_received: time + Span::from_nanos(there),
                        server_sent: time + Span::from_nanos(back),
                        received: stamp(count + CountSpan(rtt)),
                        root_distance: Span(i128::from(root) << 64),
                        precision: Span(i128::from(root) << 64),
                    }
                }
                Event::Poll(seconds) => {
                    clock.set_poll(seconds);
                    twin.set_poll(seconds);
                    continue;
                }
                Event::Epoch => {
                    clock.new_epoch();
                    twin.new_epoch();
                    continue;
                }
            };
            prop_assert_eq!(clock.exchange(&exchange), twin.exchange(&exchange));
            for at in [Count(at), exchange.received.count, exchange.sent.count] {
                let e = clock.estimate(at);
                prop_assert_eq!(e, twin.estimate(at));
                prop_assert_eq!(clock.penalty(at), twin.penalty(at));
                if let Some(e) = e {
                    prop_assert!(!e.bound.is_negative() && !e.path_bound.is_negative());
                    prop_assert!(e.path_bound <= e.bound, "{:?}", e);
                    prop_assert!(!e.deviation.is_negative() && !e.rtt_floor.is_negative());
                    prop_assert!(e.growth.0 >= 0 && e.difference_error.0 >= 0);
                }
                if let Some(penalty) = clock.penalty(at) {
                    prop_assert!(!penalty.is_negative());
                }
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn no_input_breaks_them(
        events in prop::collection::vec(event(), 1..60),
        at: u64,
        settle in prop_oneof![Just(0u64), Just(3), Just(100), Just(150), Just(700)],
        poll in prop_oneof![Just(1u32), Just(16), Just(1024), any::<u32>()],
        hz in prop_oneof![4 => Just(HZ), 1 => 0u64..100_000, 1 => any::<u64>()],
    ) {
        survives(&events, at, settle, poll, Period::from_hz(hz))?;
    }
}
