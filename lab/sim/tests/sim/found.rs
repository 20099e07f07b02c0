//! Scenarios that once broke the bound, or left the clock where nobody would have put it: a review
//! found them.

use truechimer_sim::{Options, Run, Scenario, find, simulate};
use truechimer_timehands::Status;

fn run(toml: &str, seed: u64) -> Run {
    let scenario = Scenario::from_toml(toml).unwrap_or_else(|e| panic!("{e}\n{toml}"));
    let run = simulate(&scenario, &Options { seed, ..Options::default() }).unwrap();
    let promised = run.trace.samples.iter().filter(|s| s.status.bound_holds());
    let outside: Vec<_> = promised.filter(|s| s.error.abs() > s.reach()).collect();
    assert!(
        outside.is_empty(),
        "{}: {} outside: {:?}",
        scenario.name,
        outside.len(),
        outside.first()
    );
    run
}

/// The largest error from `from` to `to`, µs.
fn most(run: &Run, from: f64, to: f64) -> f64 {
    let within = run.trace.samples.iter().filter(|s| (from..to).contains(&s.at));
    within.map(|s| s.error.abs() * 1e6).fold(0.0, f64::max)
}

/// A server this far away, each way, ms.
fn server(name: &str, floor_ms: f64, more: &str) -> String {
    let queue = format!("queue = [{{ law.exponential.mean-ms = {} }}]", floor_ms / 10.0);
    format!(
        "[[server]]\nname = \"{name}\"\n{more}\n[server.forward]\nfloor-ms = {floor_ms}\n{queue}\n\
         [server.backward]\nfloor-ms = {floor_ms}\n{queue}\n"
    )
}

/// A counter that is not at its nominal rate is no smear, whatever day it is.
#[test]
fn honest_servers_do_not_smear_when_the_daemon_starts_shortly_before_a_leap_second() {
    for skew in [-100, -20, 12, 50] {
        let servers = ["a", "b", "c"].map(|name| server(name, 0.1, "")).concat();
        let toml = format!(
            "name = \"start-before-leap\"\nhours = 12\nwarm-up-hours = 0\nbegin = 1814378400\n\
             [leap]\nmidnight = 1814400000\n\
             [oscillator]\nskew-ppm = {skew}\nwalk-per-root-s = 1e-9\n{servers}"
        );
        let run = run(&toml, 1);
        assert!(most(&run, 600.0, 1e9) < 20.0, "{skew} ppm: {} us", most(&run, 600.0, 1e9));
    }
}

/// Marks that one server was known by are nobody else's word after a restart.
#[test]
fn a_restart_does_not_make_one_liars_word_everybodys() {
    for (far, off, step) in [(5.0, 2.0, 0.6), (20.0, 8.0, 2.0)] {
        let lie = format!("offset-ms = {off}\nstep = [{{ at-s = 6900, by-ms = {step} }}]");
        let servers = [server("liar", 0.05, &lie), server("a", far, ""), server("b", far, "")];
        let toml = format!(
            "name = \"held\"\nhours = 3\nwarm-up-hours = 0.1\n\
             [[restart]]\nat-s = 6930\ngap-s = 1\nwarm = true\nsaved-rate = true\n{}",
            servers.concat()
        );
        run(&toml, 1);
    }
}

/// A server that has stepped vouches for where it was and where it is, not for what lies between.
#[test]
fn a_server_that_steps_does_not_bring_back_another_liar() {
    let step = "step = [{ at-s = 20000, by-ms = 65 }]";
    let servers = [
        server("liar", 0.05, "offset-ms = 20"),
        server("first", 0.1, step),
        server("second", 0.1, ""),
    ];
    let toml = format!("name = \"two-liars\"\nhours = 8\nwarm-up-hours = 1\n{}", servers.concat());
    let run = run(&toml, 1);
    // After an hour no two agree any more, and the clock goes on by itself.
    assert!(most(&run, 3600.0, 23_600.0) < 20.0, "{} us", most(&run, 3600.0, 23_600.0));
    assert!(most(&run, 3600.0, 1e9) < 1000.0, "{} us", most(&run, 3600.0, 1e9));
}

#[test]
fn a_liar_in_quarantine_does_not_widen_the_bound() {
    let step = "step = [{ at-s = 7200, by-ms = 500 }]";
    let servers = [server("near", 0.1, ""), server("far", 18.0, ""), server("liar", 0.1, step)];
    let toml = format!("name = \"widening\"\nhours = 3\nwarm-up-hours = 1\n{}", servers.concat());
    let run = run(&toml, 1);
    let widest = run.trace.samples.iter().filter(|s| s.at > 6000.0 && s.at < 10_000.0);
    let widest = widest.map(|s| s.bound * 1e6).fold(0.0, f64::max);
    // What the liar said before ages, and the far one cannot tell it from the truth.
    assert!(widest < 4000.0, "{widest} us");
}

/// A hundred seconds that only the servers have seen may be their lie, however many they are: they
/// are held off for an hour as one alone would be, and the bound covers both.
#[test]
fn a_counter_that_jumped_unseen_leaves_the_time_in_the_middle() {
    let servers = [server("near", 0.1, ""), server("far", 18.0, ""), server("third", 0.1, "")];
    let toml = format!(
        "name = \"jump\"\nhours = 4\nwarm-up-hours = 1\n\
         [[host.jump]]\nat-s = 7200\nby-s = 100\nraw-too = true\n{}",
        servers.concat()
    );
    let scenario = Scenario::from_toml(&toml).unwrap();
    let run = simulate(&scenario, &Options::default()).unwrap();
    // Until the next replies nothing shows.
    let held = run.trace.samples.iter().filter(|s| s.at > 7300.0 && s.at < 10_700.0);
    for sample in held {
        let error = sample.error.abs();
        assert!((error - 100.0).abs() < 0.01 && error <= sample.bound, "{sample:?}");
    }
    // The far one is believed among the first: what it leans by is worked off within minutes.
    let late = (most(&run, 10_900.0, 1e9), most(&run, 11_600.0, 1e9));
    assert!(late.0 < 200.0 && late.1 < 30.0, "{late:?} us");
}

/// Liar on the path to all servers. (Two replies of each, and the clock was where they were.)
#[test]
fn three_servers_that_lie_alike_by_three_years_move_nothing() {
    let lie = "step = [{ at-s = 7200, by-ms = 1e11 }]";
    let servers = ["a", "b", "c"].map(|name| server(name, 0.5, lie)).concat();
    let toml = format!("name = \"router\"\nhours = 5\nwarm-up-hours = 1\n{servers}");
    let run = run(&toml, 1);
    assert!(most(&run, 3600.0, 1e9) < 20_000.0, "{} us", most(&run, 3600.0, 1e9));
    let after = run.trace.samples.iter().filter(|s| s.at > 7300.0);
    after.for_each(|s| assert_eq!(s.status, Status::Holdover, "at {} s", s.at));
}

/// The others are blocked, from the start or later. (It was believed after its four seconds.)
#[test]
fn a_liar_of_three_gains_nothing_by_the_others_silence() {
    let lie = "lie = [{ from-s = 0, to-s = 100000, by-ms = 3.6e6 }]";
    let gone = |name, from| {
        let outage = format!("[[server.forward.outage]]\nfrom-s = {from}\nto-s = 100000\n");
        server(name, 0.5, "").replace("[server.backward]", &format!("{outage}[server.backward]"))
    };
    let servers = [gone("a", 0), gone("b", 0), server("liar", 0.5, lie)].concat();
    let toml = format!("name = \"blocked\"\nhours = 4\nwarm-up-hours = 0\n{servers}");
    let never = run(&toml, 1);
    assert!(never.trace.samples.iter().all(|s| s.status == Status::Unknown));
    let lie = "lie = [{ from-s = 15000, to-s = 100000, by-ms = 3.6e6 }]";
    let servers = [gone("a", 7200), gone("b", 7200), server("liar", 0.5, lie)].concat();
    let toml = format!("name = \"blocked-later\"\nhours = 9\nwarm-up-hours = 1\n{servers}");
    let later = run(&toml, 1);
    assert!(most(&later, 3600.0, 1e9) < 30_000.0, "{} us", most(&later, 3600.0, 1e9));
    // As long as the one that is left is right the clock is as good as ever.
    let alone = later.trace.samples.iter().filter(|s| s.at > 11_000.0 && s.at < 15_000.0);
    alone.for_each(|s| assert_eq!(s.status, Status::Synchronised, "at {} s", s.at));
}

/// By it one direction would take longer than both: it is said, and not used.
#[test]
fn an_impossible_asymmetry_is_not_used() {
    let declared = "declared-asymmetry-us = 600\ndeclared-error-us = 1";
    let toml = format!(
        "name = \"impossible\"\nhours = 2\nwarm-up-hours = 0.1\n{}",
        server("s", 0.1, declared)
    );
    let run = run(&toml, 1);
    assert!(most(&run, 600.0, 1e9) < 20.0, "{} us", most(&run, 600.0, 1e9));
}

/// Where load comes and goes alike both ways for hours the filters that know floors get lost. One
/// that had was believed again when it foretold as well as the one that knew: 14 ms off, for
/// minutes.
#[test]
fn a_filter_that_is_lost_is_not_believed_again() {
    let scenario = find("tide-both").unwrap().with_hours(14.0).unwrap();
    for seed in [3, 6] {
        let run = simulate(&scenario, &Options { seed, ..Options::default() }).unwrap();
        let worst = most(&run, 7200.0, 1e9);
        assert!(worst < 150.0, "seed {seed}: {worst} us");
    }
}
