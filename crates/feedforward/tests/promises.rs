//! What the estimator promises, on exchanges that are known to the nanosecond.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod common;

use truechimer_feedforward::{
    Accepted, Estimate, Estimator, Exchange, Ours, RatePrior, Refusal, Settings, TimePrior,
};
use truechimer_time::{Count, CountSpan, Instant, Period, Rate, Span, Stamp, StampMethod};

use common::{HZ, estimator, instant, settings, stamp};

/// Starts a clock that has followed an honest server for an hour.
fn settled() -> (Ours, u64) {
    settled_for(225)
}

/// The same, for so many exchanges 16 s apart.
fn settled_for(exchanges: u64) -> (Ours, u64) {
    let mut clock = estimator();
    for k in 1..=exchanges {
        assert_eq!(clock.exchange(&exact(k, 0)), Ok(Accepted::Refined));
    }
    (clock, exchanges)
}

/// The `k`-th exchange, 16 s apart, with a server that is `offset_us` ahead.
fn exact(k: u64, offset_us: i64) -> Exchange {
    let t = instant(16.0 * k as f64) + Span::from_micros(offset_us);
    let sent = Count(16 * k * HZ);
    Exchange {
        sent: stamp(sent),
        server_received: t + Span::from_micros(100),
        server_sent: t + Span::from_micros(120),
        received: stamp(sent + CountSpan(HZ as i64 * 220 / 1_000_000)),
        root_distance: Span::from_micros(1),
    }
}

/// A server's step of so much is refused `refused` times, 16 s apart, and then believed.
fn quarantined(step_us: i64, refused: u64) {
    let (mut clock, k) = settled_for(3000);
    let before = clock.estimate(Count(16 * (k + 1) * HZ)).unwrap();
    for n in 1..=refused {
        assert_eq!(clock.exchange(&exact(k + n, step_us)), Err(Refusal::ServerStep), "{n}");
        let e = clock.estimate(exact(k + n, 0).received.count).unwrap();
        let t = instant(16.0 * (k + n) as f64) + Span::from_micros(220);
        assert!((e.time - t).abs() <= e.bound, "the bound covers what was");
        assert!((e.time - t - Span::from_micros(step_us)).abs() <= e.bound, "and what may be");
        if n <= 8 {
            assert!((e.time - t).abs() < Span::from_micros(100), "held: {}", e.time - t);
        }
        assert_eq!(e.difference, before.difference);
    }
    let next = k + refused + 1;
    let Ok(Accepted::Stepped(step)) = clock.exchange(&exact(next, step_us)) else {
        panic!("lasting evidence is believed")
    };
    assert!((step - Span::from_micros(step_us)).abs() < Span::from_millis(1), "{step}");
    let e = clock.estimate(exact(next, 0).received.count).unwrap();
    assert!(e.bound < Span::from_millis(1));
    assert_eq!(e.difference, before.difference, "the difference clock knows nothing of it");
}

#[test]
fn a_server_step_waits_in_quarantine_and_widens_the_bound() {
    quarantined(1_000, 7);
    quarantined(9_000, 7);
}

#[test]
fn the_more_absurd_a_step_the_longer_it_waits() {
    // 41 ms more than 9 ms, at 9 ppm: 4556 s from the first exchange of that opinion to the last.
    quarantined(50_000, 285);
    // 150 ms: 15 667 s.
    quarantined(150_000, 980);
    // An hour of error takes no longer than six hours.
    quarantined(3_600_000_000, 1350);
}

#[test]
fn a_server_that_is_right_again_is_used_at_once() {
    let (mut clock, k) = settled();
    for n in 1..=200 {
        assert_eq!(clock.exchange(&exact(k + n, 150_000)), Err(Refusal::ServerStep));
    }
    assert_eq!(clock.exchange(&exact(k + 201, 0)), Ok(Accepted::Refined));
    let e = clock.estimate(exact(k + 201, 0).received.count).unwrap();
    assert!(e.bound < Span::from_millis(3), "{}", e.bound);
    // The evidence begins anew.
    assert_eq!(clock.exchange(&exact(k + 202, 150_000)), Err(Refusal::ServerStep));
    assert_eq!(clock.exchange(&exact(k + 1000, 150_000)), Err(Refusal::ServerStep));
}

#[test]
fn a_passing_lie_leaves_no_trace() {
    let (mut clock, k) = settled();
    for n in 1..=5 {
        assert!(clock.exchange(&exact(k + n, 1_000_000)).is_err());
    }
    assert_eq!(clock.exchange(&exact(k + 6, 0)), Ok(Accepted::Refined));
    let at = exact(k + 6, 0).received.count;
    let (mut honest, _) = settled();
    assert!(honest.exchange(&exact(k + 6, 0)).is_ok());
    let (e, h) = (clock.estimate(at).unwrap(), honest.estimate(at).unwrap());
    assert_eq!((e.time, e.bound, e.period), (h.time, h.bound, h.period));
}

#[test]
fn the_first_exchange_is_usable_and_honest() {
    let mut clock = estimator();
    assert_eq!(clock.estimate(Count(5)), None);
    assert!(clock.exchange(&exact(1, 0)).is_ok());
    let at = exact(1, 0).received.count;
    let e = clock.estimate(at).unwrap();
    let t = instant(16.0) + Span::from_micros(220);
    assert!((e.time - t).abs() <= e.bound);
    assert!(e.bound < Span::from_micros(250), "{}", e.bound);
    // A second later the unknown rate shows in the bound.
    let later = clock.estimate(at + CountSpan(HZ as i64)).unwrap();
    assert!(later.bound - e.bound > Span::from_micros(490));
}

#[test]
fn every_part_of_the_bound_is_in_it() {
    let after = |settings: Settings, x: Exchange| {
        let prior = RatePrior { period: Period::from_hz(HZ), error: Rate::from_ppb(500_000) };
        let mut clock = Ours::new(settings, prior, None);
        assert!(clock.exchange(&x).is_ok());
        clock.estimate(x.received.count).unwrap()
    };
    let plain = after(settings(), exact(1, 0));
    let more = |by: Span, e: Estimate, what: &str| {
        let grown = e.bound - plain.bound;
        assert!((grown - by).abs() < Span::from_nanos(200), "{what}: {grown} for {by}");
    };
    let far = Exchange { root_distance: Span::from_millis(4), ..exact(1, 0) };
    more(Span::from_micros(3999), after(settings(), far), "root distance");
    assert!(after(settings(), far).path_bound > Span::from_millis(4));
    let late = |s: Stamp| Stamp { error: CountSpan(HZ as i64 / 1000), ..s };
    let x = exact(1, 0);
    let rough = Exchange { sent: late(x.sent), received: late(x.received), ..x };
    more(Span::from_micros(1000), after(settings(), rough), "stamp errors");
    let coarse = Settings { resolution: CountSpan(HZ as i64 / 1000), ..settings() };
    more(Span::from_micros(1000), after(coarse, x), "resolution");
}

/// A clock that continues one which was right to 10 µs two seconds before exchange 1.
fn warm(offset_us: i64) -> Ours {
    let rate = RatePrior { period: Period::from_hz(HZ), error: Rate::from_ppb(600) };
    let count = Count(14 * HZ);
    let time = instant(14.0) + Span::from_micros(offset_us);
    let bound = Span::from_micros(10);
    Ours::new(settings(), rate, Some(TimePrior { count, time, bound }))
}

#[test]
fn a_warm_start_knows_time_better_than_its_first_exchange() {
    let mut clock = warm(0);
    assert_eq!(clock.exchange(&exact(1, 0)), Ok(Accepted::Refined));
    let e = clock.estimate(exact(1, 0).received.count).unwrap();
    assert!(e.bound < Span::from_micros(30), "{}", e.bound);
    clock.new_epoch();
    assert!(clock.exchange(&exact(2, 0)).is_ok());
    let e = clock.estimate(exact(2, 0).received.count).unwrap();
    assert!(e.bound > Span::from_micros(90), "nothing of it survives a new epoch: {}", e.bound);
}

#[test]
fn a_warm_start_does_not_give_in_to_the_first_reply() {
    let hour_off = 3_600_000_000;
    let mut clock = warm(0);
    for k in 1..=7 {
        assert_eq!(clock.exchange(&exact(k, hour_off)), Err(Refusal::ServerStep));
        let at = exact(k, 0).received.count;
        let e = clock.estimate(at).unwrap();
        let t = instant(16.0 * k as f64) + Span::from_micros(220);
        assert!((e.time - t).abs() < Span::from_millis(1), "it holds: {}", e.time - t);
        assert!(e.bound > Span::from_secs(3599), "and covers both: {}", e.bound);
    }
    assert!(matches!(clock.exchange(&exact(8, hour_off)), Ok(Accepted::Stepped(_))));
}

#[test]
fn the_wander_allowed_is_in_the_growth() {
    let (mut clock, k) = settled();
    let growth = |c: &Ours| c.estimate(exact(k, 0).received.count).unwrap().growth;
    let before = growth(&clock);
    clock.set_max_wander(Rate::from_ppb(5_500));
    let more = growth(&clock).0 - before.0;
    assert!((Rate(more).as_ppt() - 5_000_000).abs() < 1000, "{}", Rate(more));
}

#[test]
fn impossible_exchanges_are_refused() {
    let mut clock = estimator();
    let good = exact(1, 0);
    let backwards = Exchange { sent: good.received, received: good.sent, ..good };
    assert_eq!(clock.exchange(&backwards), Err(Refusal::CounterBackwards));
    let held = Exchange { server_sent: good.server_sent + Span::from_secs(1), ..good };
    assert_eq!(clock.exchange(&held), Err(Refusal::ImpossibleRoundTrip));
    assert!(clock.exchange(&good).is_ok());
    assert_eq!(clock.exchange(&good), Ok(Accepted::Refined), "the same count twice is harmless");
    assert_eq!(clock.exchange(&exact(0, 0)), Err(Refusal::CounterBackwards));
}

#[test]
fn a_new_epoch_keeps_only_a_guess_of_the_rate() {
    let (mut clock, _) = settled();
    clock.new_epoch();
    assert_eq!(clock.estimate(Count(7)), None);
    assert!(clock.exchange(&exact(3, 0)).is_ok());
    assert!(clock.estimate(Count(7)).unwrap().growth >= Rate::from_ppb(500_000));
}

#[test]
fn the_same_exchanges_give_the_same_bits() {
    let run = || {
        let (mut clock, k) = settled();
        let _ = clock.exchange(&exact(k + 1, 3));
        clock.estimate(Count(u64::MAX / 2))
    };
    assert_eq!(run(), run());
}

mod hostile {
    use super::*;
    use proptest::prelude::*;

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
                }
            },
        )
    }

    proptest! {
        /// Whatever a server, a socket or a counter comes up with: no panic, no negative bound.
        #[test]
        fn no_exchange_panics(
            exchanges in prop::collection::vec(any_exchange(), 1..30),
            at: u64,
            settle: bool,
        ) {
            let mut clock = if settle { settled().0 } else { estimator() };
            for exchange in exchanges {
                let _ = clock.exchange(&exchange);
                if let Some(e) = clock.estimate(Count(at)) {
                    prop_assert!(!e.bound.is_negative() && !e.path_bound.is_negative());
                    prop_assert!(e.growth.0 >= 0 && e.difference_error.0 >= 0);
                }
            }
        }
    }
}

/// A counter that from one moment on runs at another rate (a virtual machine on another host) cannot
/// lock its server out for good: that is believed after an hour.
#[test]
fn another_rate_is_believed_when_it_lasts() {
    let (mut clock, k) = settled();
    let mut stepped = None;
    for n in 1..=700u64 {
        let gained = CountSpan((16 * n * HZ / 50_000) as i64);
        let x = exact(k + n, 0);
        let shifted = |s: truechimer_time::Stamp| stamp(s.count + gained);
        let x = Exchange { sent: shifted(x.sent), received: shifted(x.received), ..x };
        if let Ok(Accepted::Stepped(_)) = clock.exchange(&x) {
            stepped.get_or_insert(n);
        }
        let e = clock.estimate(x.received.count).unwrap();
        let error = e.time - instant(16.0 * (k + n) as f64) - Span::from_micros(220);
        assert!(error.abs() <= e.bound, "{n}: {error}, bound {}", e.bound);
        if n > 400 {
            assert!(error.abs() < Span::from_micros(100), "{n}: {error}");
        }
    }
    assert!((225..260).contains(&stepped.unwrap()), "{stepped:?}");
}

#[test]
fn what_was_known_for_minutes_does_not_outvote_hours() {
    let (mut clock, k) = settled_for(12);
    let believed = (1..100).find(|n| clock.exchange(&exact(k + n, 150_000)).is_ok());
    assert!((8..16).contains(&believed.unwrap()), "{believed:?}");
}
