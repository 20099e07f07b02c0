//! Adversities of a host, a server or the way between them in the course of the years: each is
//! survived, within these errors. Errors are |clock − truth| of every second that promises a bound,
//! and none is beyond its bound but where that is said.

use truechimer_sim::{Options, Sample, Scenario, find, simulate};
use truechimer_timehands::Status;

const HOUR: f64 = 3600.0;
/// When things happen in most scenarios, s.
const NOON: f64 = 16.0 * HOUR;

/// A stretch of a run and the largest error in it.
struct Limit {
    from: f64,
    to: f64,
    us: f64,
}

const fn limit(from: f64, to: f64, us: f64) -> Limit {
    Limit { from, to, us }
}

/// Always as good as this.
const fn always(us: f64) -> Limit {
    limit(4.0 * HOUR, 1e9, us)
}

/// From this time of settling on as good as an undisturbed LAN.
const fn good_from(t: f64) -> Limit {
    limit(t, 1e9, 20.0)
}

fn named(name: &str, hours: f64) -> Scenario {
    find(name).unwrap().with_hours(hours).unwrap()
}

/// Runs it with three seeds; each has to keep within the limits, and within its bound but for
/// `unseen` seconds (breaks of the counter that the daemon has not looked for yet).
fn survives(scenario: &Scenario, limits: &[Limit], unseen: usize) {
    for seed in 1..=3 {
        let run = simulate(scenario, &Options { seed, ..Options::default() }).unwrap();
        let promised = |s: &&Sample| s.status.bound_holds();
        let samples = &run.trace.samples;
        let outside = samples.iter().filter(promised).filter(|s| s.error.abs() > s.reach()).count();
        let name = format!("{}, seed {seed}", scenario.name);
        assert!(outside <= unseen, "{name}: {outside} outside");
        for Limit { from, to, us } in limits {
            let within = |s: &&Sample| (*from..*to).contains(&s.at);
            let good: Vec<_> = samples.iter().filter(promised).filter(within).collect();
            let most = good.iter().map(|s| s.error.abs() * 1e6).fold(0.0, f64::max);
            println!("{name}: {most:.1} of {us} us from {from} s on, {} samples", good.len());
            let span = to.min(samples.last().unwrap().at) - from;
            assert!(good.len() as f64 > 0.95 * span, "{name}: {} of {span} s", good.len());
            assert!(most <= *us, "{name}: {most} us from {from} s on");
        }
        let last = samples.last().unwrap();
        assert_eq!(last.status, Status::Synchronised, "{name}");
    }
}

#[test]
fn an_outage_is_bridged_and_its_end_is_sudden() {
    let back = NOON + 2.0 * HOUR;
    // The oscillator's walk allows no better than 353 µs RMS in the end.
    let limits = [limit(4.0 * HOUR, NOON, 20.0), limit(NOON, back, 1500.0), good_from(back + 60.0)];
    survives(&named("outage", 19.0), &limits, 0);
}

#[test]
fn reordered_duplicated_and_late_replies_change_nothing() {
    survives(&named("reordering-duplication", 6.0), &[always(25.0)], 0);
}

#[test]
fn the_poll_interval_changes_at_run_time() {
    let mut scenario = named("lan", 12.0);
    scenario.name = "polls".into();
    for (at_s, poll) in [(15e3, 256), (22e3, 1), (24e3, 64), (33e3, 16)] {
        let toml = format!("at-s = {at_s}\npoll = {poll}");
        scenario.changes.push(toml::from_str(&toml).unwrap());
    }
    survives(&scenario, &[always(60.0), good_from(35e3)], 0);
}

#[test]
fn a_server_restarts_refuses_or_is_unsynchronised() {
    survives(&named("server-restart", 17.5), &[always(20.0)], 0);
    // Asked to, it goes on with longer intervals.
    survives(&named("server-refuses", 17.5), &[always(60.0)], 0);
}

#[test]
fn a_host_that_slept_is_right_again_within_a_minute() {
    let woken = NOON + HOUR;
    for name in ["suspend", "suspend-stops-counter"] {
        let limits = [limit(4.0 * HOUR, NOON, 20.0), limit(woken + 60.0, 1e9, 20.0)];
        survives(&named(name, 18.0), &limits, 1);
    }
}

#[test]
fn a_counter_that_jumped_is_right_again_within_a_minute() {
    for name in ["counter-jump", "counter-jump-back"] {
        let limits = [limit(4.0 * HOUR, NOON, 20.0), limit(NOON + 60.0, 1e9, 20.0)];
        survives(&named(name, 18.0), &limits, 1);
    }
}

#[test]
fn host_noise_and_late_wakings_are_not_in_the_clock() {
    survives(&named("noisy-host", 24.0), &[always(35.0)], 0);
    survives(&named("user-stamps-noisy-host", 24.0), &[always(50.0)], 0);
    survives(&named("request-delays", 24.0), &[always(25.0)], 0);
}

#[test]
fn a_daemon_held_up_for_minutes_goes_on() {
    let mut scenario = named("lan", 8.0);
    scenario.name = "starved".into();
    // Nine tenths of the time nothing runs for up to 100 ms, and what runs takes 300 times as long.
    let load = "from-s = 18000\nto-s = 21600\nfactor = 300\nstalls = 0.9\nstall-ms = 100";
    scenario.host.loads.push(toml::from_str(load).unwrap());
    survives(&scenario, &[always(100.0), good_from(22_000.0)], 0);
}

#[test]
fn restarts_of_the_daemon_cost_little() {
    let limits = [limit(4.0 * HOUR, 1e9, 20.0)];
    survives(&named("warm-start", 18.0), &limits, 0);
    for name in ["cold-restart", "cold-restart-no-rate"] {
        let scenario = named(name, 18.0);
        let began = scenario.restarts.iter().map(|r| r.at_s + r.gap_s).fold(0.0, f64::max);
        survives(&scenario, &[limit(began + 60.0, 1e9, 20.0)], 0);
    }
}
