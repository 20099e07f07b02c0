//! A lone server that is right for a while and then creeps away: for how long, and by how much, the
//! truth is outside of the bound until it shows. Fixed seeds, so each run is the same every time.

use std::sync::Mutex;

use truechimer_sim::{Options, Scenario, simulate};

const US: f64 = 1e-6;
/// Time that it creeps at most, s; no longer than it was right before, as what agrees with itself
/// for as long as that is believed.
const LONGEST: f64 = 600.0;
/// Rates at which it creeps, ppm.
const CREEPS: [f64; 4] = [2.0, 5.0, 20.0, 100.0];

/// The way to the server: its delay each way and what queues add on the average (ms), and the
/// dispersion that the server claims (µs).
struct Way {
    name: &'static str,
    floor_ms: f64,
    queue_ms: f64,
    dispersion_us: f64,
}

/// Way of `truechimer serve` over loopback.
const LOOPBACK: Way = Way { name: "loopback", floor_ms: 0.02, queue_ms: 0.01, dispersion_us: 15.0 };
/// Loopback where the machine does much else.
const BUSY: Way =
    Way { name: "busy loopback", floor_ms: 0.02, queue_ms: 0.04, dispersion_us: 15.0 };
const LAN: Way = Way { name: "LAN", floor_ms: 0.1, queue_ms: 0.02, dispersion_us: 1.0 };
const WAN: Way = Way { name: "WAN", floor_ms: 18.0, queue_ms: 1.0, dispersion_us: 1.0 };

/// A way, a poll interval, for how long the clock has run before (s), and for each of [`CREEPS`]
/// for how long (s) and by how much (µs) the bound may be broken in the worst of a hundred seeds.
type Case = (Way, u32, f64, [(usize, f64); 4]);

const CASES: [Case; 12] = [
    (LOOPBACK, 1, 60.0, [(38, 78.0), (22, 112.0), (1, 15.0), (1, 21.0)]),
    (LOOPBACK, 1, 120.0, [(94, 192.0), (13, 77.0), (1, 6.0), (0, 0.0)]),
    (LOOPBACK, 1, 600.0, [(43, 80.0), (9, 53.0), (1, 14.0), (1, 20.0)]),
    (LOOPBACK, 16, 7200.0, [(48, 96.0), (3, 6.0), (0, 0.0), (0, 0.0)]),
    (BUSY, 1, 90.0, [(66, 134.0), (25, 172.0), (5, 60.0), (2, 56.0)]),
    (LAN, 1, 60.0, [(0, 0.0), (34, 166.0), (0, 0.0), (0, 0.0)]),
    (LAN, 1, 120.0, [(53, 112.0), (89, 451.0), (8, 142.0), (0, 0.0)]),
    (LAN, 1, 600.0, [(200, 397.0), (41, 192.0), (0, 0.0), (0, 0.0)]),
    (LAN, 16, 7200.0, [(146, 260.0), (3, 5.0), (0, 0.0), (0, 0.0)]),
    (WAN, 1, 120.0, [(0, 0.0), (0, 0.0), (0, 0.0), (0, 0.0)]),
    (WAN, 1, 600.0, [(0, 0.0), (0, 0.0), (0, 0.0), (200, 38482.0)]),
    (WAN, 16, 7200.0, [(0, 0.0), (0, 0.0), (0, 0.0), (0, 0.0)]),
];

fn scenario(way: &Way, poll: u32, history: f64, ppm: f64) -> Scenario {
    let Way { name: _, floor_ms, queue_ms, dispersion_us } = way;
    let path = |to: &str| {
        format!(
            "{to}.floor-ms = {floor_ms}\n{to}.queue = [{{ law.exponential.mean-ms = {queue_ms} }}]\n"
        )
    };
    let end = history + lasts(history);
    let toml = format!(
        "name = \"creep\"\nhours = {}\nwarm-up-hours = 0\npoll = {poll}\n\
         [oscillator]\nskew-ppm = 10\nwalk-per-root-s = 1e-9\n\
         [[server]]\nname = \"a\"\nroot-dispersion-us = {dispersion_us}\n{}{}\
         [[server.ramp]]\nfrom-s = {history}\nto-s = {end}\nppm = {ppm}\n",
        end / 3600.0,
        path("forward"),
        path("backward"),
    );
    Scenario::from_toml(&toml).unwrap_or_else(|e| panic!("{e}\n{toml}"))
}

fn lasts(history: f64) -> f64 {
    // Not to the last: with these seconds' jitter the newcomers may just be believed.
    (0.95 * history).min(LONGEST)
}

/// The seconds outside of the bound, and by how much at most, µs.
fn broken(scenario: &Scenario, seed: u64) -> (usize, f64) {
    let run = simulate(scenario, &Options { seed, ..Options::default() }).unwrap();
    let promised = run.trace.samples.iter().filter(|s| s.status.bound_holds());
    let beyond = promised.map(|s| s.error.abs() - s.reach()).filter(|beyond| *beyond > 0.0);
    beyond.fold((0, 0.0), |(seconds, most), by| (seconds + 1, f64::max(most, by / US)))
}

/// The worst of so many seeds, and in how many the bound was broken at all.
fn worst(scenario: &Scenario, seeds: u64) -> (usize, f64, usize) {
    let all = Mutex::new(Vec::new());
    let left = Mutex::new(1..=seeds);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                loop {
                    let next = left.lock().unwrap().next();
                    let Some(seed) = next else { break };
                    let one = broken(scenario, seed);
                    all.lock().unwrap().push(one);
                }
            });
        }
    });
    let all = all.into_inner().unwrap();
    let most = all.iter().fold((0, 0.0), |a, b| (a.0.max(b.0), f64::max(a.1, b.1)));
    (most.0, most.1, all.iter().filter(|one| one.0 > 0).count())
}

/// The table of `docs/results/bound.md`.
fn creeps(seeds: u64) {
    let mut worse = Vec::new();
    for (way, poll, history, limits) in &CASES {
        for (ppm, (seconds, beyond)) in CREEPS.iter().zip(limits) {
            let (most, by, runs) = worst(&scenario(way, *poll, *history, *ppm), seeds);
            let what = format!(
                "{}, poll {poll} s, right for {history} s, then {ppm} ppm: \
                 {most} s outside, {by:.0} µs beyond the bound, in {runs} of {seeds} runs",
                way.name
            );
            println!("{what}");
            if most > *seconds || by > *beyond {
                worse.push(format!("{what}; {seconds} s, {beyond} µs"));
            }
        }
    }
    assert!(worse.is_empty(), "{worse:#?}");
}

/// A minute and a half after the start. (The rate was taken for what the creep made of it, and where
/// it was known to nothing what was promised met anything: 12 s outside, and 57.)
#[test]
fn a_young_clock_does_not_take_a_creep_for_its_own_rate() {
    let (seconds, beyond) = broken(&scenario(&LOOPBACK, 1, 90.0, 20.0), 1);
    assert!(seconds <= 2 && beyond < 60.0, "{seconds} s, {beyond} µs");
}

/// A creep makes what is known narrow about where it led, and what the oscillator promises wide:
/// neither tells where the truth is, but what was known before does. (Only they were covered, and the
/// creep was taken for the way back to what is promised: 66 s outside, by 255 µs.)
#[test]
fn what_was_known_before_a_creep_is_covered() {
    let (seconds, beyond) = broken(&scenario(&BUSY, 1, 90.0, 20.0), 55);
    assert!(seconds <= 6 && beyond < 60.0, "{seconds} s, {beyond} µs");
}

#[test]
fn a_creep_breaks_the_bound_no_longer_than_nothing_tells() {
    creeps(6);
}

#[test]
#[ignore = "minutes"]
fn a_creep_over_a_hundred_seeds() {
    creeps(100);
}
