//! Honest servers beside an oscillator that changes: nothing is held against them for it. And a
//! wrong one on a path that changes as well. Fixed seeds.

use std::sync::Mutex;

use truechimer_sim::{Options, Sample, Scenario, simulate};
use truechimer_timehands::Status;

/// When the oscillator changes, or the server begins to lie, s.
const THEN: f64 = 12_600.0;
const END: f64 = 25_200.0;

/// One server, so far each way, that queues for so long (ms, mean), and what happens.
fn scenario(floor_ms: f64, queue_ms: f64, oscillator: &str, server: &str) -> Scenario {
    let path = |way: &str| {
        format!(
            "{way}.floor-ms = {floor_ms}\n{way}.queue = [{{ law.exponential.mean-ms = {queue_ms} }}]\n"
        )
    };
    let toml = format!(
        "name = \"honest\"\nhours = 7\nwarm-up-hours = 2\n[oscillator]\nskew-ppm = 10\n\
         walk-per-root-s = 1e-9\n{oscillator}\n[[server]]\nname = \"a\"\n{}{}{server}",
        path("forward"),
        path("backward"),
    );
    Scenario::from_toml(&toml).unwrap_or_else(|e| panic!("{e}\n{toml}"))
}

/// Outcome of a run, in µs: the largest error from the change on, and that of the last half hour;
/// and for how many seconds the server was held off.
#[derive(Clone, Copy, Debug)]
#[allow(dead_code)] // The seed is for whoever reads a failure.
struct Outcome {
    seed: u64,
    most: f64,
    end: f64,
    held: usize,
}

/// The outcomes of so many seeds. None may be outside of its bound while the server is honest.
fn outcomes(scenario: &Scenario, seeds: u64) -> Vec<Outcome> {
    let all = Mutex::new(Vec::new());
    let left = Mutex::new(1..=seeds);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let next = left.lock().unwrap().next();
                    let Some(seed) = next else { break };
                    let one = outcome(scenario, seed);
                    all.lock().unwrap().push(one);
                }
            });
        }
    });
    let mut all = all.into_inner().unwrap();
    all.sort_by(|a, b| a.most.total_cmp(&b.most));
    println!("{all:?}");
    all
}

fn outcome(scenario: &Scenario, seed: u64) -> Outcome {
    let run = simulate(scenario, &Options { seed, ..Options::default() }).unwrap();
    let since = |t: f64| run.trace.samples.iter().filter(move |s| s.at >= t);
    let promised = |s: &&Sample| s.status.bound_holds();
    if scenario.must_hold() {
        let outside = since(0.0).filter(promised).filter(|s| s.error.abs() > s.reach()).count();
        // An oscillator ten times beyond its promise may leave the bound until an exchange shows it.
        let far = scenario.oscillator.steps.iter().any(|step| step.ppm.abs() > 3.0);
        let most = if far { scenario.poll as usize } else { 0 };
        assert!(outside <= most, "seed {seed}: {outside} s outside");
    }
    let most = |t: f64| since(t).map(|s| s.error.abs() * 1e6).fold(0.0, f64::max);
    let held = since(THEN).filter(|s| s.status != Status::Synchronised).count();
    Outcome { seed, most: most(THEN), end: most(END - 1800.0), held }
}

/// A change that `max-wander-ppm` allows. (Hidden by queues at first, it was taken for the server's
/// doing: of 20 runs some were held off for an hour, and up to 2 ms away.)
#[test]
fn an_oscillator_within_its_promise_is_followed() {
    let step = "[[oscillator.step]]\nat-s = 12600\nppm = 0.5\n";
    for one in outcomes(&scenario(18.0, 1.0, step, ""), 30) {
        assert!(one.held == 0 && one.most < 400.0, "{one:?}");
    }
}

/// Twice what it promises. (An account of it that was left behind came back as the clock an hour
/// later, 0.7 ms away for good.)
#[test]
fn an_oscillator_beyond_its_promise_costs_little() {
    let step = |ppm: f64| format!("[[oscillator.step]]\nat-s = 12600\nppm = {ppm}\n");
    for (floor, queue, ppm, most, end) in [
        (2.0, 0.1, 1.0, 400.0, 30.0),
        (2.0, 0.1, -2.0, 1500.0, 30.0),
        (18.0, 1.0, 1.0, 1000.0, 120.0),
    ] {
        let all = outcomes(&scenario(floor, queue, &step(ppm), ""), 30);
        for one in &all {
            assert!(one.most < most && one.end < end, "{ppm} ppm: {one:?}");
        }
        // Half of them notice nothing.
        assert!(all[all.len() / 2].held == 0, "{ppm} ppm");
    }
}

/// Ten times what it promises looks like a server that drifts away, and that is held off for an
/// hour. But the bound covers what it says. (It covered what its exchanges had in common by the old
/// rate, which lags behind a drift: it was broken in nearly every run, for up to half an hour.)
#[test]
fn an_oscillator_far_beyond_its_promise_is_covered() {
    let mut held = 0;
    for (floor, queue) in [(0.1, 0.01), (2.0, 0.1), (18.0, 1.0)] {
        for ppm in [-5.0, 3.0] {
            let step = format!("[[oscillator.step]]\nat-s = 12600\nppm = {ppm}\n");
            for one in outcomes(&scenario(floor, queue, &step, ""), 8) {
                assert!(one.held < 4200 && one.end < 120.0, "{ppm} ppm: {one:?}");
                held += usize::from(one.held > 3500);
            }
        }
    }
    assert!(held > 4, "it is of those that are held off: {held} of 48");
}

const LIE: &str = "[[server.lie]]\nfrom-s = 14400\nto-s = 15000\nby-ms = 0.6\n";

/// Packets that are early then are early for all that the server may have done. (That was the end
/// of the suspicion, and the lie became part of the floors: half a millisecond for good.)
#[test]
fn a_route_that_becomes_shorter_while_the_server_is_wrong_is_told_from_that() {
    let shift = "[[server.backward.shift]]\nat-s = 14700\nby-ms = -1.0\n";
    let all = outcomes(&scenario(2.0, 0.1, "", &format!("{LIE}{shift}")), 20);
    let good = all.iter().filter(|one| one.most < 60.0 && one.held < 700).count();
    assert!(good >= 18, "{good} of 20");
}

/// Blurred floors may seem likelier for an exchange or two on any path. (No step was looked for
/// then.)
#[test]
fn a_step_is_seen_whichever_floors_lead() {
    let all = outcomes(&scenario(2.0, 0.1, "", LIE), 30);
    for one in &all {
        assert!(one.most < 65.0 && one.held < 1200, "{one:?}");
    }
    let soon = all.iter().filter(|one| one.held < 700).count();
    assert!(soon >= 28, "the lie's end is seen soon in {soon} of 30");
}

/// Where floors are blurred, no step is looked for in them. (In one of four runs that cost 0.2 to 2
/// ms.)
#[test]
fn a_radio_link_is_no_server_that_moves() {
    let scenario = truechimer_sim::find("wifi").unwrap();
    for seed in [4, 5, 11] {
        let run = simulate(&scenario, &Options { seed, ..Options::default() }).unwrap();
        let s = truechimer_sim::Statistics::of(&[&run.trace]);
        assert!(s.error.rms_us < 150.0, "seed {seed}: {} µs RMS", s.error.rms_us);
    }
}

/// Gamma delays of shape 3: hardly a packet meets no queue, and now and then the floors look sharp
/// all the same. (Some exchanges of that were enough to hold an honest server off for an hour, 3 to
/// 8 ms away.)
#[test]
fn nothing_is_held_against_a_radio_link() {
    for (floor, scale, seeds) in [(1.0, 0.8, [35, 77, 97, 38]), (40.0, 2.0, [92, 30, 69, 13])] {
        let law = format!("[{{ law.gamma = {{ shape = 3, scale-ms = {scale} }} }}]");
        let path = |way: &str| format!("{way}.floor-ms = {floor}\n{way}.queue = {law}\n");
        let toml = format!(
            "name = \"radio\"\nhours = 8\nwarm-up-hours = 1\n[oscillator]\nskew-ppm = 14\n\
             walk-per-root-s = 1e-9\n[[server]]\nname = \"s\"\nroot-dispersion-us = 1\n{}{}",
            path("forward"),
            path("backward"),
        );
        let scenario = Scenario::from_toml(&toml).unwrap();
        for seed in seeds {
            let one = outcome(&scenario, seed);
            assert!(one.held == 0 && one.most < 3000.0, "{one:?}");
        }
    }
}

/// Where packets wait long and often, a single one says little. (The clock went to the middle of
/// one: 17 ms away.)
#[test]
fn a_server_that_is_believed_at_last_is_believed_on_the_whole() {
    let heavy = "[[server.step]]\nat-s = 14400\nby-ms = 1\n\
                 [[server.forward.queue]]\nlaw.lomax = { shape = 1.3, scale-ms = 1 }\n\
                 [[server.backward.queue]]\nlaw.lomax = { shape = 1.3, scale-ms = 1 }\n";
    let mut scenario = scenario(18.0, 1.0, "", "");
    let other =
        Scenario::from_toml(&format!("name = \"x\"\n[[server]]\nname = \"b\"\n{heavy}")).unwrap();
    let (one, other) = (&mut scenario.servers[0], &other.servers[0]);
    one.steps.clone_from(&other.steps);
    one.forward.queues.extend(other.forward.queues.iter().cloned());
    one.backward.queues.extend(other.backward.queues.iter().cloned());
    for one in outcomes(&scenario, 30) {
        assert!(one.most < 4000.0, "{one:?}");
    }
}

/// The oscillator changes, and a quarter of an hour later the server lies by as much as would have
/// come of that: nothing tells this from a server that drifted and is back. (The bound did not
/// cover the other case, and the truth was held off for an hour after the lie.)
#[test]
fn a_lie_that_hits_where_the_old_clock_would_be_is_covered() {
    let step = "[[oscillator.step]]\nat-s = 13500\nppm = 0.6\n";
    let lie = "[[server.lie]]\nfrom-s = 14400\nto-s = 16200\nby-ms = 0.54\n";
    let scenario = scenario(0.1, 0.01, step, lie);
    for seed in 1..=10 {
        let run = simulate(&scenario, &Options { seed, ..Options::default() }).unwrap();
        let outside = run.trace.samples.iter().filter(|s| s.status.bound_holds());
        assert_eq!(outside.filter(|s| s.error.abs() > s.reach()).count(), 0, "seed {seed}");
        let after = run.trace.samples.iter().filter(|s| s.at > 16_260.0);
        let most = after.map(|s| s.error.abs() * 1e6).fold(0.0, f64::max);
        assert!(most < 60.0, "seed {seed}: {most} µs once it is right again");
    }
}
