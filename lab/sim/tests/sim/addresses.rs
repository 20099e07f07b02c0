//! Names that lead to other machines: another server, another path, and the clock goes on.

use truechimer_sim::{Options, Run, Sample, Scenario, ServerSpec, find, simulate};
use truechimer_timehands::Status;

const HOUR: f64 = 3600.0;
/// When the name leads elsewhere, s; eight requests later that is known.
const NOON: f64 = 2.0 * HOUR;
const NOTICED: f64 = NOON + 200.0;
const SEEDS: u64 = 5;

/// One of the catalogue, earlier in the day.
fn scenario(name: &str, hours: f64) -> Scenario {
    let mut scenario = find(name).unwrap();
    let by = 14.0 * HOUR;
    let sooner = |t: &mut f64| *t = (*t - by).max(0.0);
    for server in &mut scenario.servers {
        server.own_address_until_s.iter_mut().for_each(sooner);
        for silence in &mut server.silences {
            sooner(&mut silence.from_s);
            sooner(&mut silence.to_s);
        }
        for address in &mut server.addresses {
            sooner(&mut address.from_s);
            address.machine.lies.iter_mut().for_each(|lie| sooner(&mut lie.to_s));
        }
    }
    scenario.warm_up_hours = 1.0;
    scenario.with_hours(hours).unwrap()
}

/// Runs it with every seed; none may be outside the bound, which is promised all the time.
fn runs(scenario: &Scenario) -> Vec<(u64, Run)> {
    let one = |seed| {
        let run = simulate(scenario, &Options { seed, ..Options::default() }).unwrap();
        let promised = run.trace.samples.iter().filter(|s| s.status.bound_holds());
        let outside = promised.clone().filter(|s| s.error.abs() > s.reach()).count();
        assert_eq!(outside, 0, "{}, seed {seed}", scenario.name);
        let all = promised.count() as f64;
        assert!(all > 0.99 * 3600.0 * scenario.hours, "{}, seed {seed}: {all} s", scenario.name);
        (seed, run)
    };
    (1..=SEEDS).map(one).collect()
}

/// The largest |f| of a stretch, µs.
fn most(run: &Run, from: f64, to: f64, f: impl Fn(&Sample) -> f64) -> f64 {
    let within = run.trace.samples.iter().filter(|s| (from..to).contains(&s.at));
    within.map(|s| f(s).abs() * 1e6).fold(0.0, f64::max)
}

/// Word of the near one on the time is worth more than the far one's: how its path is shared shows
/// by that.
#[test]
fn a_far_server_takes_over_without_moving_the_clock() {
    let scenario = scenario("address-far", 6.0);
    for (seed, run) in runs(&scenario) {
        let worst = most(&run, NOON, 6.0 * HOUR, |s| s.error);
        println!("seed {seed}: {worst:.1} µs");
        assert!(worst < 200.0, "seed {seed}: {worst} µs, of 6500 that the far path is askew by");
        let rate = most(&run, NOON, 6.0 * HOUR, |s| s.second.map_or(0.0, |i| i.error));
        assert!(rate < 0.4, "seed {seed}: {rate} µs in a second");
        let said = run.trace.notes.iter().any(|n| n.at > NOON && n.text.contains("another server"));
        assert!(said, "seed {seed}");
        assert_eq!(run.trace.samples.last().unwrap().status, Status::Synchronised);
    }
}

#[test]
fn a_nearer_server_is_believed_at_once() {
    for (seed, run) in runs(&scenario("address-near", 4.0)) {
        let before = most(&run, HOUR, NOON, |s| s.error);
        assert!(before > 6000.0, "seed {seed}: {before} µs: the far path is askew");
        let after = most(&run, NOTICED, 4.0 * HOUR, |s| s.error);
        println!("seed {seed}: {before:.0}, then {after:.1} µs");
        assert!(after < 30.0, "seed {seed}: {after} µs");
        let rate = most(&run, NOTICED, 4.0 * HOUR, |s| s.second.map_or(0.0, |i| i.error));
        assert!(rate < 0.3, "seed {seed}: {rate} µs in a second: the step is no rate");
    }
}

#[test]
fn another_address_is_no_licence_to_be_wrong() {
    for (seed, run) in runs(&scenario("address-wrong", 4.0)) {
        let worst = most(&run, HOUR, 4.0 * HOUR, |s| s.error);
        println!("seed {seed}: {worst:.1} µs");
        assert!(worst < 100.0, "seed {seed}: {worst} µs");
        let wrong = run.trace.samples.iter().filter(|s| s.at > NOTICED && s.at < NOON + 890.0);
        assert!(wrong.clone().count() > 600);
        assert!(wrong.into_iter().all(|s| s.status == Status::Holdover), "seed {seed}: it holds");
        let back = most(&run, NOON + 1000.0, 4.0 * HOUR, |s| s.error);
        assert!(back < 30.0, "seed {seed}: {back} µs");
        assert_eq!(run.trace.samples.last().unwrap().status, Status::Synchronised);
    }
}

#[test]
fn the_next_address_stands_in_for_a_silent_one() {
    for (seed, run) in runs(&scenario("address-fails", 5.0)) {
        let worst = most(&run, HOUR, 5.0 * HOUR, |s| s.error);
        println!("seed {seed}: {worst:.1} µs");
        assert!(worst < 30.0, "seed {seed}: {worst} µs");
        let used = run.trace.exchanges.iter().filter(|x| x.used && x.at > NOTICED);
        let floors = used.map(|x| x.true_delays.map_or(0.0, |(there, back)| there + back));
        let least = floors.fold(f64::INFINITY, f64::min);
        assert!(least > 290e-6, "seed {seed}: {least}: it stays with the second");
    }
}

/// A declaration of the path to one machine says nothing of the path to another.
#[test]
fn a_declaration_does_not_move_along() {
    let mut scenario = scenario("address-far", 5.0);
    scenario.servers[0].declared_asymmetry_us = Some(0.0);
    scenario.servers[0].declared_error_us = 10.0;
    for (seed, run) in runs(&scenario) {
        let worst = most(&run, HOUR, 5.0 * HOUR, |s| s.error);
        assert!(worst < 200.0, "seed {seed}: {worst} µs");
        assert!(run.trace.notes.iter().any(|n| n.text.contains("not of the path to it")));
    }
}

/// Nobody is left who could tell them the time: it is what they said before.
#[test]
fn three_that_move_at_once_take_the_time_along() {
    let mut scenario = scenario("address-of-three", 4.0);
    for i in 1..3 {
        let name = scenario.servers[i].name.clone();
        scenario.servers[i] = ServerSpec { name, ..scenario.servers[0].clone() };
    }
    for (seed, run) in runs(&scenario) {
        let worst = most(&run, HOUR, 4.0 * HOUR, |s| s.error);
        println!("seed {seed}: {worst:.1} µs");
        assert!(worst < 150.0, "seed {seed}: {worst} µs");
    }
}

#[test]
fn one_of_three_goes_on_elsewhere() {
    for (seed, run) in runs(&scenario("address-of-three", 4.0)) {
        let worst = most(&run, HOUR, 4.0 * HOUR, |s| s.error);
        println!("seed {seed}: {worst:.1} µs");
        assert!(worst < 15.0, "seed {seed}: {worst} µs");
        // By its own word alone it would be askew by 6.5 ms.
        let far = run.trace.exchanges.iter().filter(|x| x.source == 0 && x.at > NOTICED);
        let used = far.clone().filter(|x| x.used).count();
        assert!(used as f64 > 0.95 * far.count() as f64, "seed {seed}: {used}");
    }
}
