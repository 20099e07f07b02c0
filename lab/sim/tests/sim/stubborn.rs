//! One server, and it is wrong; several, and it was the counter; a path of which the user knows
//! more than stamps can tell. Fixed seeds, so each run is the same every time.

use truechimer_sim::scenario::Restart;
use truechimer_sim::server::{Lie, Step};
use truechimer_sim::{Options, Run, Sample, Scenario, Statistics, find, simulate};
use truechimer_timehands::Status;

const HOUR: f64 = 3600.0;
/// When it begins, and how long it lasts, s.
const NOON: f64 = 4.0 * HOUR;
const WRONG: f64 = 600.0;
const US: f64 = 1e-6;

/// The scenario of this name, so long, and all of it twelve hours sooner.
fn scenario(name: &str, hours: f64) -> Scenario {
    let mut scenario = find(name).unwrap();
    let sooner = |at_s: &mut f64| *at_s -= 12.0 * HOUR;
    for server in &mut scenario.servers {
        server
            .lies
            .iter_mut()
            .for_each(|l| [&mut l.from_s, &mut l.to_s].into_iter().for_each(sooner));
        server
            .ramps
            .iter_mut()
            .for_each(|r| [&mut r.from_s, &mut r.to_s].into_iter().for_each(sooner));
        server.steps.iter_mut().for_each(|step| sooner(&mut step.at_s));
        server.restarts.iter_mut().for_each(|restart| sooner(&mut restart.at_s));
        server.forward.shifts.iter_mut().for_each(|shift| sooner(&mut shift.at_s));
        server.backward.shifts.iter_mut().for_each(|shift| sooner(&mut shift.at_s));
    }
    scenario.restarts.iter_mut().for_each(|restart| sooner(&mut restart.at_s));
    scenario.host.jumps.iter_mut().for_each(|jump| sooner(&mut jump.at_s));
    Scenario { warm_up_hours: 2.0, ..scenario }.with_hours(hours).unwrap()
}

fn run(scenario: &Scenario, seed: u64) -> Run {
    simulate(scenario, &Options { seed, ..Options::default() }).unwrap()
}

fn settled(run: &Run) -> impl Iterator<Item = &Sample> {
    run.trace.samples.iter().filter(|sample| sample.at >= run.trace.warm_up)
}

fn most<'s>(samples: impl Iterator<Item = &'s Sample>, value: impl Fn(&Sample) -> f64) -> f64 {
    samples.map(|sample| value(sample).abs()).fold(0.0, f64::max)
}

/// Number of seconds that counted, and of those in which the truth was outside of the bound.
fn counted(run: &Run) -> (usize, usize) {
    let samples = &run.trace.samples;
    let promised = || samples.iter().filter(|s| s.status.bound_holds());
    (promised().count(), promised().filter(|s| s.error.abs() > s.reach()).count())
}

/// Largest error (µs), of the rate (ppm), and of the difference clock over 1 s and 1000 s (µs).
fn figures(run: &Run) -> [f64; 4] {
    [
        most(settled(run), |s| s.error) / US,
        most(settled(run), |s| s.rate_error) / US,
        most(settled(run), |s| s.second.map_or(0.0, |i| i.error)) / US,
        most(settled(run), |s| s.thousand.map_or(0.0, |i| i.error)) / US,
    ]
}

/// The clock takes no notice of a server that is wrong for ten minutes, and goes on as soon as it
/// is right again. An honest server would have left the same figures, but for what holdover adds.
fn take_no_notice(names: &[&str], honest: &str, hours: f64) {
    for seed in 1..=2 {
        let like = figures(&run(&scenario(honest, hours), seed));
        for name in names {
            takes_no_notice(name, &like, hours, seed);
        }
    }
}

fn takes_no_notice(name: &str, like: &[f64; 4], hours: f64, seed: u64) {
    let run = run(&scenario(name, hours), seed);
    let [error, rate, second, thousand] = figures(&run);
    let restarts = !scenario(name, hours).restarts.is_empty();
    println!(
        "{name}, seed {seed}: {error:.1} µs, {rate:.3} ppm, 1 s {second:.3} µs, 1000 s {thousand:.1} µs"
    );
    // Far away the path alone costs as much.
    let limit = if like[0] < 50.0 { 100.0 } else { like[0] + 50.0 };
    assert!(error <= limit, "{name}, seed {seed}: {error} µs, not {}", like[0]);
    // Whoever starts again knows its rate only as well as a page tells it.
    let more = if restarts { 0.2 } else { 0.05 };
    assert!(rate <= like[1] + more, "{name}, seed {seed}: {rate} ppm, not {}", like[1]);
    assert!(second <= like[2] + more, "{name}, seed {seed}: {second} µs, not {}", like[2]);
    let more = 1000.0 * more;
    assert!(thousand <= like[3] + more, "{name}, seed {seed}: {thousand} µs, not {}", like[3]);
    let (seconds, outside) = counted(&run);
    assert!(seconds as f64 > 0.99 * hours * HOUR, "{name}: {seconds} s");
    assert_eq!(outside, 0, "{name}, seed {seed}: the bound covers both");
    // It says why, holds, and follows the first reply that is right: one poll and what its jitter
    // adds.
    let said = |what: &str| run.trace.notes.iter().find(|n| n.at > NOON && n.text.contains(what));
    assert!(said("step suspected: its time").unwrap().at < NOON + 215.0, "{name}");
    let mut wrong = settled(&run).filter(|s| (NOON + 400.0..NOON + WRONG).contains(&s.at));
    assert!(wrong.all(|s| s.status == Status::Holdover), "{name}: it holds");
    let last = run.trace.samples.iter().rfind(|s| s.at < NOON + WRONG).unwrap();
    let after = |s: &&Sample| s.at > NOON + WRONG && s.status == Status::Synchronised;
    let back = run.trace.samples.iter().find(after).unwrap();
    assert!(back.at < NOON + WRONG + 18.0, "{name}: back after {} s", back.at - NOON - WRONG);
    assert!(back.bound < last.bound, "{name}");
}

#[test]
fn ten_minutes_of_a_wrong_server_leave_no_trace() {
    let names = [
        "server-wrong-1ms",
        "server-wrong-10ms",
        "server-wrong-150ms",
        "server-wrong-1s",
        "server-ramp-200ppm",
        "server-ramp-200ppm-behind",
        "server-restart-elsewhere",
        "server-wrong-restart",
    ];
    take_no_notice(&names, "lan", 5.0);
}

#[test]
fn nor_do_they_far_away() {
    take_no_notice(&["wan-server-wrong-150ms", "wan-server-ramp-200ppm"], "wan", 5.0);
}

/// Where queues hide the first of it, so that the path or the oscillator may have changed as well.
/// Some of these seeds were off by 2 to 25 ms, or for good.
#[test]
fn a_far_server_that_drifts_is_found_out() {
    let noon = NOON + 12.0 * HOUR;
    let scenario = find("wan-server-ramp-200ppm").unwrap().with_hours(19.0).unwrap();
    for seed in [501, 514, 545, 555] {
        let run = run(&scenario, seed);
        let (_, outside) = counted(&run);
        assert_eq!(outside, 0, "seed {seed}");
        let worst = most(settled(&run), |s| s.error);
        assert!(worst < 1000.0 * US, "seed {seed}: {worst}");
        let late = most(settled(&run).filter(|s| s.at > noon + HOUR), |s| s.error);
        assert!(late < 120.0 * US, "seed {seed}: {late}");
    }
}

/// A few ppm could be the oscillator's, which promises 0.5: the clock goes along, and the bound
/// covers what is promised as soon as the two part. Once the server is right again it is used at
/// once (the truth was held off for an hour, and the error went to 8 ms).
#[test]
fn a_server_that_drifts_by_a_few_ppm_is_right_again_at_once() {
    for (name, ppm, hidden) in
        [("server-ramp-2ppm", 2.0, 130), ("server-ramp-5ppm-behind", 5.0, 50)]
    {
        let scenario = scenario(name, 7.0);
        for seed in 1..=3 {
            let run = run(&scenario, seed);
            let (_, outside) = counted(&run);
            assert!(outside <= hidden, "{name}, seed {seed}: {outside}");
            let worst = most(settled(&run), |s| s.error);
            assert!(worst < (ppm * WRONG + 30.0) * US, "{name}, seed {seed}: {worst}");
            let again = NOON + WRONG + 40.0;
            let late = most(settled(&run).filter(|s| s.at > again), |s| s.error);
            assert!(late < 30.0 * US, "{name}, seed {seed}: {late}");
        }
    }
}

/// So slow a drift is followed: it may be the oscillator's. But it steps back to just where the
/// clock would be if it had not been followed, and no lie hits that by chance (the truth was held
/// off for an hour, to 2 or 3 ms).
#[test]
fn a_server_that_drifts_as_slowly_as_an_oscillator_is_believed_when_it_is_back() {
    for ppm in [0.5, -0.5, 1.0, -1.0] {
        let mut scenario = scenario("server-ramp-2ppm", 7.0);
        let server = &mut scenario.servers[0];
        server.ramps[0].ppm = ppm;
        server.steps[0].by_ms = -ppm * WRONG * 1e-3;
        for seed in 1..=3 {
            let run = run(&scenario, seed);
            let worst = most(settled(&run), |s| s.error);
            assert!(worst < (ppm.abs() * WRONG + 30.0) * US, "{ppm} ppm, seed {seed}: {worst}");
            let again = NOON + WRONG + 60.0;
            let late = most(settled(&run).filter(|s| s.at > again), |s| s.error);
            assert!(late < 50.0 * US, "{ppm} ppm, seed {seed}: {late}");
        }
    }
}

/// A server drifts, then stands still: the promise grows until it meets that, but it is no proof.
#[test]
fn a_server_that_has_drifted_away_is_covered_until_it_is_believed() {
    let mut scenario = scenario("server-ramp-2ppm", 6.5);
    scenario.servers[0].steps.clear();
    scenario.servers[0].ramps[0].to_s = NOON + WRONG / 2.0;
    for seed in 1..=3 {
        let run = run(&scenario, seed);
        let within = |s: &&Sample| s.at > NOON + 200.0 && s.at < NOON + 0.9 * HOUR;
        let outside = settled(&run).filter(within).filter(|s| s.error.abs() > s.reach());
        let outside: Vec<f64> = outside.map(|s| s.at - NOON).collect();
        assert!(outside.is_empty(), "seed {seed}: {outside:?}");
        let believed = settled(&run).filter(|s| s.at > NOON + 1.2 * HOUR);
        assert!(most(believed, |s| s.bound) < 200.0 * US, "seed {seed}");
    }
}

#[test]
fn nor_does_a_server_that_is_wrong_again_and_again() {
    take_no_notice(&["server-wrong-again"], "lan", 7.5);
}

/// The path could hide such a step: a round trip of 0.2 ms, of 36 ms. What says that it was none is
/// that the round trip stayed what it was.
#[test]
fn a_step_that_the_path_could_hide_is_held_off_too() {
    for (name, by_ms, most_us) in [
        ("lan", 0.1, 100.0),
        ("lan", -0.15, 100.0),
        ("lan", 0.25, 100.0),
        ("wan", 1.0, 150.0),
        ("wan", -3.0, 150.0),
        ("wan", 20.0, 150.0),
    ] {
        for seed in 1..=2 {
            let mut scenario = scenario(name, 5.0);
            scenario.servers[0].lies = vec![Lie { from_s: NOON, to_s: NOON + WRONG, by_ms }];
            let run = run(&scenario, seed);
            let error = figures(&run)[0];
            println!("{name}, {by_ms} ms, seed {seed}: {error:.1} µs");
            assert!(error <= most_us, "{name}, {by_ms} ms, seed {seed}: {error} µs");
            assert_eq!(counted(&run).1, 0, "{name}, {by_ms} ms, seed {seed}");
        }
    }
}

/// Moves of the published time by more than 50 µs from one second to the next: when, and by how
/// much, s.
fn steps(run: &Run) -> Vec<(f64, f64)> {
    let errors: Vec<(f64, f64)> = settled(run).map(|s| (s.at, s.error)).collect();
    let moved = errors.windows(2).map(|pair| (pair[1].0, pair[1].1 - pair[0].1));
    moved.filter(|(_, by)| by.abs() > 50.0 * US).collect()
}

#[test]
fn a_step_that_stays_is_accepted_once_and_when_the_user_says() {
    for (by_ms, after) in
        [(1.0, HOUR), (-150.0, HOUR), (1000.0, HOUR), (1.0, 600.0), (150.0, 7200.0)]
    {
        let mut scenario = scenario("lan", 6.5);
        scenario.accept_step_after_s = after;
        scenario.servers[0].steps = vec![Step { at_s: NOON, by_ms }];
        let run = run(&scenario, 3);
        let found = steps(&run);
        let [(at, by)] = found[..] else { panic!("{by_ms} ms: one step, not {found:?}") };
        let waited = at - NOON;
        assert!((after..after + 40.0).contains(&waited), "{by_ms} ms: after {waited} s");
        assert!((by - by_ms * 1e-3).abs() < 500.0 * US, "{by_ms} ms: {by} s");
        let until = settled(&run).filter(|s| s.at < at);
        // In that time the oscillator alone walks by 10⁻⁹ · √(t³/3): 125 µs in an hour.
        let walked = 1e-9 * (waited.powi(3) / 3.0).sqrt();
        assert!(most(until, |s| s.error) < 30.0 * US + 3.0 * walked, "{by_ms} ms");
        let end = run.trace.samples.last().unwrap();
        assert!((end.error - by_ms * 1e-3).abs() < 30.0 * US, "{by_ms} ms: {}", end.error);
        assert!(run.trace.notes.iter().any(|n| n.text.contains("stayed there")));
        // Broken only from the acceptance on: with one server that is where physics cannot tell.
        let broken = run.trace.samples.iter().find(|s| s.error.abs() > s.reach()).unwrap();
        assert!((broken.at - at).abs() < 1.0, "{by_ms} ms: {} {at}", broken.at);
    }
}

#[test]
fn a_restart_in_between_does_not_help_the_liar() {
    // Several restarts, and the step is still accepted when it has stayed for an hour.
    let mut scenario = scenario("lan", 5.5);
    scenario.servers[0].steps = vec![Step { at_s: NOON, by_ms: 5.0 }];
    let restart = |at_s: f64| Restart { at_s, gap_s: 5.0, warm: true, saved_rate: true };
    scenario.restarts = [300.0, 900.0, 3000.0].map(|after| restart(NOON + after)).to_vec();
    let run = run(&scenario, 5);
    let found = steps(&run);
    let [(at, _)] = found[..] else { panic!("one step, not {found:?}") };
    assert!((HOUR..HOUR + 40.0).contains(&(at - NOON)), "after {} s", at - NOON);
    assert!(run.trace.samples.iter().all(|s| s.at >= at || s.error.abs() <= s.reach()));
}

#[test]
fn several_servers_show_that_it_was_the_counter() {
    for seed in 1..=3 {
        let run = run(&scenario("counter-jump-hidden-of-three", 4.5), seed);
        let wrong = settled(&run).filter(|s| s.error.abs() > 1e-3);
        let last = wrong.map(|s| s.at - NOON).fold(0.0, f64::max);
        assert!((1.0..60.0).contains(&last), "seed {seed}: wrong for {last} s");
        let outside = settled(&run).filter(|s| s.error.abs() > s.reach()).map(|s| s.at - NOON);
        assert!(outside.fold(0.0, f64::max) < 18.0, "seed {seed}: until the first reply");
        assert!(run.trace.notes.iter().any(|n| n.text.contains("the counter jumped")));
    }
}

#[test]
fn a_declared_asymmetry_moves_the_clock_and_narrows_the_bound() {
    let (told, untold) = (scenario("askew-declared", 8.0), scenario("askew", 8.0));
    for seed in 1..=3 {
        let [told, untold] = [&told, &untold].map(|scenario| run(scenario, seed));
        let of = |run: &Run| Statistics::of(&[&run.trace]);
        assert!((of(&untold).error.rms_us - 75.0).abs() < 3.0, "half of it, unseen");
        // Half of the 10 µs by which the declaration is off.
        assert!((of(&told).error.rms_us - 5.0).abs() < 1.5, "{}", of(&told).error.rms_us);
        assert_eq!((counted(&told).1, counted(&untold).1), (0, 0));
        // 10 µs for the error declared, root distance, and the statistical part.
        let [narrow, wide] = [of(&told).bound_median_us, of(&untold).bound_median_us];
        assert!(narrow < 50.0 && wide > 180.0, "{narrow} {wide}");
    }
}

/// Of a step of one or two milliseconds the queues of that path hide most exchanges. What they do
/// not hide tells, and nothing that was learnt meanwhile makes the truth look wrong afterwards.
#[test]
fn a_step_that_queues_hide_is_told_as_well() {
    const SEEDS: usize = 20;
    for by_ms in [1.0, -2.0] {
        let mut scenario = scenario("wan", 6.0);
        scenario.servers[0].lies = vec![Lie { from_s: NOON, to_s: NOON + WRONG, by_ms }];
        let mut most: Vec<_> =
            (1..=SEEDS as u64).map(|seed| figures(&run(&scenario, seed))[0]).collect();
        most.sort_by(f64::total_cmp);
        println!("{by_ms} ms: {most:.0?} µs");
        assert!(most[SEEDS - 3] < 150.0 && most[SEEDS - 1] < 600.0, "{by_ms} ms: {most:?} µs");
    }
}

/// If it stays, it is believed after an hour, in one step.
#[test]
fn a_step_that_queues_hide_is_believed_when_it_stays() {
    let mut scenario = scenario("wan", 8.0);
    scenario.servers[0].steps = vec![Step { at_s: NOON, by_ms: 2.0 }];
    for seed in 1..=3 {
        let run = run(&scenario, seed);
        let at = |hour: f64| {
            let samples = || settled(&run).filter(|s| (s.at - hour * HOUR).abs() < 300.0);
            samples().map(|s| s.error).sum::<f64>() / samples().count() as f64
        };
        let (before, after) = (at(4.8), at(7.5));
        assert!(before.abs() < 400.0 * US, "seed {seed}: it only goes on: {before}");
        assert!((after - 2e-3).abs() < 150.0 * US, "seed {seed}: {after}");
    }
}

/// Declarations that are true, on paths of all kinds: the truth is inside in every second.
#[test]
fn the_bound_of_a_true_declaration_holds() {
    for (name, hours, median_us) in [
        ("lan", 6.0, 40.0),
        ("lan-bursts-down", 6.0, 70.0),
        ("lan-bursts-both", 6.0, 100.0),
        ("wan", 6.0, 600.0),
        ("wifi", 6.0, 700.0),
        ("asymmetric-congestion", 12.0, 45.0),
        ("shift-up-both", 6.0, 1000.0),
        ("noisy-host", 6.0, 50.0),
    ] {
        for seed in 1..=2 {
            let mut scenario = scenario(name, hours);
            let server = &mut scenario.servers[0];
            let asymmetry_us = 1e3 * (server.forward.floor_ms - server.backward.floor_ms);
            server.declared_asymmetry_us = Some(asymmetry_us);
            server.declared_error_us = 2.0;
            assert!(scenario.must_hold(), "{name}");
            let run = run(&scenario, seed);
            let (seconds, outside) = counted(&run);
            let median = Statistics::of(&[&run.trace]).bound_median_us;
            println!("{name}, seed {seed}: {median:.1} µs, {outside} of {seconds} s outside");
            assert_eq!(outside, 0, "{name}, seed {seed}: of {seconds} s");
            assert!(median < median_us, "{name}, seed {seed}: {median} µs");
        }
    }
}

/// One direction changes, and the declaration is no longer true: the clock stays where it was.
#[test]
fn a_declared_path_that_changes_in_one_direction_moves_nothing() {
    for name in ["declared-shift-longer", "declared-shift-shorter"] {
        for seed in 1..=2 {
            let scenario = scenario(name, 6.0);
            assert!(!scenario.must_hold());
            let run = run(&scenario, seed);
            let error = figures(&run)[0];
            assert!(error < 30.0, "{name}, seed {seed}: {error} µs");
            assert_eq!(counted(&run).1, 0, "{name}, seed {seed}");
        }
    }
}

/// Worth of the bound on the LAN: half of the round trip, 25 µs, and the server's distance.
#[test]
fn the_bound_is_useful() {
    let scenario = scenario("lan", 9.0);
    let (mut seconds, mut statistical, mut whole) = (0, Vec::new(), Vec::new());
    for seed in 1..=5 {
        let run = run(&scenario, seed);
        let (counted, outside) = counted(&run);
        assert_eq!(outside, 0, "seed {seed}: of {counted} s");
        seconds += counted;
        let s = Statistics::of(&[&run.trace]);
        statistical.push(s.statistical_median_us);
        whole.push(s.bound_median_us);
    }
    println!("{seconds} s; statistical {statistical:.1?} µs, whole {whole:.1?} µs");
    assert!(seconds > 5 * 9 * 3590, "{seconds} s counted");
    assert!(truechimer_report::mean(&statistical) < 16.0, "{statistical:.2?} µs");
    // 100 µs each way; a root distance of 1 µs, which NTP can say in steps of 15.3 µs only.
    assert!(whole.iter().all(|us| *us < 100.0 + 25.0 + 15.3), "{whole:.2?} µs");
}
