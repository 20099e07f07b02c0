//! The estimator against simulated oscillators, paths and servers, with the truth at hand.
//!
//! Fixed seeds: each run is the same. The limits are properties (the bound holds) and coarse
//! accuracy; the fine accuracy of every scenario is the business of the simulator.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use truechimer_feedforward::{Accepted, Direct, Estimator, Exchange, RatePrior, Refusal, Settings};
use truechimer_time::{Count, CountSpan, Instant, Period, Rate, Span, Stamp, StampMethod};

/// SplitMix64: small, seeded, good enough for noise.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    /// In (0, 1].
    fn uniform(&mut self) -> f64 {
        ((self.next() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }
    fn exponential(&mut self, mean: f64) -> f64 {
        -mean * self.uniform().ln()
    }
    fn normal(&mut self) -> f64 {
        (-2.0 * self.uniform().ln()).sqrt() * (std::f64::consts::TAU * self.uniform()).cos()
    }
}

const HZ: u64 = 2_596_000_000;

/// A scenario: true time runs in seconds from 0; the counter's rate wanders.
struct World {
    random: Random,
    /// True time, s, and the counter's phase error there, s.
    now: f64,
    phase: f64,
    skew: f64,
    walk: f64,
    /// What temperature adds to the skew at a true time.
    temperature: fn(f64) -> f64,
}

impl World {
    fn new(seed: u64) -> World {
        World {
            random: Random(seed),
            now: 0.0,
            phase: 0.0,
            skew: 10e-6,
            walk: 1e-9,
            temperature: |_| 0.0,
        }
    }
    fn advance_to(&mut self, t: f64) {
        let dt = t - self.now;
        self.phase += (self.skew + (self.temperature)(self.now + dt / 2.0)) * dt;
        self.skew += self.walk * dt.max(0.0).sqrt() * self.random.normal();
        self.now = t;
    }
    /// The count now.
    fn count(&self) -> Count {
        let hz = HZ as f64;
        let whole = self.now.floor();
        Count(
            1_000_000_000
                + whole as u64 * HZ
                + ((self.now - whole) * hz + self.phase * hz).round() as i64 as u64,
        )
    }
}

fn instant(t: f64) -> Instant {
    Instant::new(1_800_000_000, 0) + Span((t * 2f64.powi(64)) as i128)
}

/// Delay of one direction at a true time.
type Delay = Box<dyn FnMut(&mut Random, f64) -> f64>;

struct Outcome {
    rms: f64,
    max: f64,
    median_bound: f64,
    outside: usize,
    samples: usize,
    rate_outside: usize,
}

struct Run {
    poll: f64,
    hours: f64,
    warm_up: f64,
    forward: Delay,
    backward: Delay,
    /// The server's time − true time.
    server: Box<dyn Fn(f64) -> f64>,
    loss: f64,
    reachable: Box<dyn Fn(f64) -> bool>,
    temperature: fn(f64) -> f64,
}

impl Default for Run {
    fn default() -> Run {
        Run {
            poll: 16.0,
            hours: 12.0,
            warm_up: 3600.0,
            forward: Box::new(|r, _| 100e-6 + r.exponential(10e-6)),
            backward: Box::new(|r, _| 100e-6 + r.exponential(10e-6)),
            server: Box::new(|_| 0.0),
            loss: 0.0,
            reachable: Box::new(|_| true),
            temperature: |_| 0.0,
        }
    }
}

fn settings() -> Settings {
    Settings {
        nominal: Period::from_hz(HZ),
        resolution: CountSpan(26),
        max_wander: Rate::from_ppb(500),
    }
}

fn estimator() -> Direct {
    let prior = RatePrior { period: Period::from_hz(HZ), error: Rate::from_ppb(500_000) };
    Direct::new(settings(), prior, None)
}

fn stamp(count: Count) -> Stamp {
    Stamp { count, error: CountSpan(260), method: StampMethod::Kernel }
}

/// Runs one client and checks the bound once a second.
fn simulate(seed: u64, mut run: Run) -> Outcome {
    let mut world = World { temperature: run.temperature, ..World::new(seed) };
    let mut clock = estimator();
    let (mut errors, mut bounds) = (Vec::new(), Vec::new());
    let (mut outside, mut rate_outside, mut samples) = (0, 0, 0);
    let mut next = 1.0;
    let mut polls = 0;
    let mut reading = 1.5;
    let end = run.hours * 3600.0;
    while next < end {
        // Readings up to the next exchange.
        while reading < next {
            world.advance_to(reading);
            if let Some(e) = clock.estimate(world.count()) {
                let error = (e.time - instant(world.now)).0 as f64 / 2f64.powi(64);
                let bound = e.bound.0 as f64 / 2f64.powi(64);
                samples += 1;
                outside += usize::from(error.abs() > bound);
                let true_period = Period::from_hz(HZ).scaled(Rate::from_ppb(
                    (-(world.skew + (world.temperature)(world.now)) * 1e9) as i64,
                ));
                let rate_error = e.difference.relative_to(true_period);
                rate_outside += usize::from(rate_error.0.abs() > e.difference_error.0);
                if reading > run.warm_up {
                    errors.push(error);
                    bounds.push(bound);
                }
            }
            reading += 1.0;
        }
        world.advance_to(next);
        polls += 1;
        let step = if polls < 8 { run.poll.min(2.0) } else { run.poll };
        next += step;
        if !(run.reachable)(world.now)
            || world.random.uniform() < run.loss
            || world.random.uniform() < run.loss
        {
            continue;
        }
        let sent = world.count();
        let arrive = world.now + (run.forward)(&mut world.random, world.now);
        let leave = arrive + 20e-6;
        let back = leave + (run.backward)(&mut world.random, world.now);
        world.advance_to(back.min(next - 1e-3));
        if back > next - 1e-3 {
            continue;
        }
        let _ = clock.exchange(&Exchange {
            sent: stamp(sent),
            server_received: instant(arrive + (run.server)(arrive)),
            server_sent: instant(leave + (run.server)(leave)),
            received: stamp(world.count()),
            root_distance: Span::from_micros(1),
        });
    }
    let rms = (errors.iter().map(|e| e * e).sum::<f64>() / errors.len() as f64).sqrt();
    let max = errors.iter().fold(0.0f64, |m, e| m.max(e.abs()));
    bounds.sort_by(f64::total_cmp);
    let median_bound = bounds[bounds.len() / 2];
    println!(
        "seed {seed}: rms {:.2} us, max {:.1} us, bound median {:.1} us, outside {outside}/{samples}, rate outside {rate_outside}",
        rms * 1e6,
        max * 1e6,
        median_bound * 1e6
    );
    Outcome { rms, max, median_bound, outside, samples, rate_outside }
}

/// The bound held at every reading, and there were enough of them to say so.
fn assert_bounded(o: &Outcome) {
    assert!(o.samples > 3600, "{}", o.samples);
    assert_eq!(o.outside, 0);
    assert_eq!(o.rate_outside, 0);
}

fn burst(t: f64) -> bool {
    (t - 600.0).rem_euclid(1020.0) < 420.0
}

#[test]
fn lan() {
    for seed in 1..=3 {
        let o = simulate(seed, Run::default());
        assert_bounded(&o);
        assert!(o.rms < 4e-6 && o.max < 40e-6);
        assert!(o.median_bound < 100e-6 + 25e-6);
    }
}

#[test]
fn lan_with_bursts_in_one_direction() {
    for back in [false, true] {
        let busy = || -> Delay {
            Box::new(|r, t| {
                100e-6 + r.exponential(10e-6) + if burst(t) { r.exponential(1e-3) } else { 0.0 }
            })
        };
        let run = if back {
            Run { backward: busy(), ..Run::default() }
        } else {
            Run { forward: busy(), ..Run::default() }
        };
        let o = simulate(4 + u64::from(back), run);
        assert_bounded(&o);
        assert!(o.rms < 8e-6);
    }
}

#[test]
fn lan_with_bursts_in_both_directions() {
    let busy = || -> Delay {
        Box::new(|r, t| {
            100e-6 + r.exponential(10e-6) + if burst(t) { r.exponential(1e-3) } else { 0.0 }
        })
    };
    let o = simulate(6, Run { forward: busy(), backward: busy(), ..Run::default() });
    assert_bounded(&o);
    assert!(o.rms < 12e-6);
}

#[test]
fn wan() {
    let far = || -> Delay { Box::new(|r, _| 18e-3 + r.exponential(1e-3)) };
    let o = simulate(7, Run { forward: far(), backward: far(), ..Run::default() });
    assert_bounded(&o);
    assert!(o.rms < 150e-6);
}

#[test]
fn lossy_and_asymmetric() {
    let run = Run {
        forward: Box::new(|r, _| 900e-6 + r.exponential(10e-6)),
        loss: 0.2,
        ..Run::default()
    };
    let o = simulate(8, run);
    assert_bounded(&o);
    // Asymmetry cannot be seen; it must be inside the bound.
    assert!(o.rms > 300e-6 && o.rms < 500e-6);
}

#[test]
fn slow_polling() {
    let o = simulate(9, Run { poll: 256.0, hours: 24.0, warm_up: 7200.0, ..Run::default() });
    assert_bounded(&o);
    assert!(o.rms < 40e-6);
}

/// Delays of 1 ms that change at four hours, by so much in each direction.
fn shifted(seed: u64, forward: f64, backward: f64) -> Outcome {
    let delay = |by: f64| -> Delay {
        Box::new(move |r, t| 1e-3 + if t > 14_400.0 { by } else { 0.0 } + r.exponential(10e-6))
    };
    simulate(
        seed,
        Run { forward: delay(forward), backward: delay(backward), hours: 8.0, ..Run::default() },
    )
}

#[test]
fn changes_of_route_stay_inside_the_bound() {
    for (k, (forward, backward)) in
        [(0.9, 0.0), (0.0, 0.9), (0.9, 0.9), (-0.9, 0.0), (0.0, -0.9), (-0.9, -0.9)]
            .into_iter()
            .enumerate()
    {
        let o = shifted(20 + k as u64, forward * 1e-3, backward * 1e-3);
        assert_bounded(&o);
        if forward == backward {
            assert!(o.max < 400e-6, "it coasts until the floor has followed");
        } else {
            assert!(o.max < 600e-6, "half of an asymmetric one cannot be seen");
        }
    }
}

#[test]
fn temperature_stays_inside_the_bound() {
    let cycle = |t: f64| {
        use std::f64::consts::TAU;
        0.1e-6 * (TAU * t / 200.0).sin() + 1e-6 * (TAU * t / 86_400.0).sin()
    };
    let o = simulate(30, Run { temperature: cycle, hours: 24.0, ..Run::default() });
    assert_bounded(&o);
    assert!(o.rms < 6e-6);
    // A fan stops: the rate changes by as much as `max_wander` allows, within ten minutes.
    let ramp = |t: f64| 0.5e-6 * ((t - 7200.0) / 600.0).clamp(0.0, 1.0);
    let o = simulate(31, Run { temperature: ramp, hours: 6.0, ..Run::default() });
    assert_bounded(&o);
    assert!(o.max < 30e-6);
    // Twice that breaks the promise of the oscillator; the absolute bound has room for it.
    let steep = |t: f64| 1e-6 * ((t - 7200.0) / 600.0).clamp(0.0, 1.0);
    let o = simulate(31, Run { temperature: steep, hours: 6.0, ..Run::default() });
    assert_eq!(o.outside, 0);
}

#[test]
fn heavy_tails_stay_inside_the_bound() {
    let pareto = || -> Delay {
        Box::new(|r, _| 5e-3 + (200e-6 * (r.uniform().powf(-1.0 / 1.3) - 1.0)).min(2.0))
    };
    let o = simulate(32, Run { forward: pareto(), backward: pareto(), ..Run::default() });
    assert_bounded(&o);
    assert!(o.rms < 60e-6);
}

#[test]
fn every_poll_interval_stays_inside_the_bound() {
    for (seed, poll, hours) in [(33, 1.0, 2.0), (34, 64.0, 24.0), (35, 1024.0, 72.0)] {
        let o = simulate(seed, Run { poll, hours, ..Run::default() });
        assert_bounded(&o);
    }
}

#[test]
fn two_hours_without_a_server() {
    let reachable = |t: f64| !(6.0 * 3600.0..8.0 * 3600.0).contains(&t);
    let o = simulate(10, Run { reachable: Box::new(reachable), ..Run::default() });
    assert_bounded(&o);
}

/// Starts a clock that has followed an honest server for an hour.
fn settled() -> (Direct, u64) {
    let mut clock = estimator();
    for k in 1..=225u64 {
        assert_eq!(clock.exchange(&exact(k, 0)), Ok(Accepted::Refined));
    }
    (clock, 225)
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

#[test]
fn a_server_step_waits_in_quarantine_and_widens_the_bound() {
    let (mut clock, k) = settled();
    let before = clock.estimate(Count(16 * (k + 1) * HZ)).unwrap();
    for n in 1..=7 {
        assert_eq!(clock.exchange(&exact(k + n, 150_000)), Err(Refusal::ServerStep));
        let e = clock.estimate(exact(k + n, 0).received.count).unwrap();
        let t = instant(16.0 * (k + n) as f64) + Span::from_micros(220);
        assert!((e.time - t).abs() < Span::from_micros(100), "held: {}", e.time - t);
        assert!(e.bound > Span::from_millis(150), "covers both: {}", e.bound);
        assert_eq!(e.difference, before.difference);
    }
    let Ok(Accepted::Stepped(step)) = clock.exchange(&exact(k + 8, 150_000)) else {
        panic!("lasting evidence is believed")
    };
    assert!((step - Span::from_millis(150)).abs() < Span::from_millis(1));
    let e = clock.estimate(exact(k + 8, 0).received.count).unwrap();
    assert!(e.bound < Span::from_millis(1));
    assert_eq!(e.difference, before.difference, "the difference clock knows nothing of it");
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
