//! PTP masters: the truth is inside the bound whatever paths and masters do.

use truechimer_estimators::OURS;
use truechimer_report::rms;
use truechimer_sim::server::{Lie, Stretch};
use truechimer_sim::{Options, Run, Scenario, find, simulate};
use truechimer_timehands::Status;

/// A scenario of the catalogue for some hours, whose servers are PTP masters with so many seconds between
/// their Sync.
fn masters(name: &str, hours: f64, sync: f64) -> Scenario {
    let mut scenario = Scenario { hours, warm_up_hours: 0.25, ..find(name).unwrap() };
    for server in &mut scenario.servers {
        server.ptp_sync_s = Some(sync);
    }
    scenario
}

fn run(scenario: &Scenario, seed: u64) -> Run {
    simulate(scenario, &Options { estimator: OURS, seed, ..Options::default() }).unwrap()
}

/// Readings whose error the bound did not cover.
fn outside(run: &Run) -> usize {
    run.trace.samples.iter().filter(|sample| sample.error.abs() > sample.reach()).count()
}

/// Root mean square of the clock's error after a quarter of an hour, s.
fn error(run: &Run) -> f64 {
    rms(run.trace.samples.iter().filter(|sample| sample.at > 900.0).map(|sample| sample.error))
}

#[test]
fn masters_are_followed_within_the_bound_and_no_worse_than_servers() {
    for (name, sync) in [("lan", 1.0), ("lan", 0.125), ("lan", 4.0), ("wan", 1.0)] {
        for seed in 1..=2 {
            let ptp = run(&masters(name, 1.5, sync), seed);
            let ntp =
                run(&Scenario { hours: 1.5, warm_up_hours: 0.25, ..find(name).unwrap() }, seed);
            println!(
                "{name} {sync} s: {} s by PTP, {} s by NTP, {} exchanges",
                error(&ptp),
                error(&ntp),
                ptp.trace.exchanges.len()
            );
            assert_eq!(outside(&ptp), 0, "{name} {sync} {seed}");
            let late = ptp.trace.samples.iter().filter(|sample| sample.at > 120.0);
            assert!(late.clone().all(|s| s.status == Status::Synchronised), "{name} {sync} {seed}");
            assert!(error(&ptp) <= error(&ntp), "{name} {sync} {seed}");
            assert!(ptp.honest.iter().all(|honest| *honest));
        }
    }
}

/// Rows of `simulate sync-limit`, with room for other seeds: `Sync` every so many seconds, stamps of so many ns, and
/// the error beside the limit of all.
#[test]
fn sync_between_questions_makes_stamps_matter_less() {
    for (sync, stamp, most) in [
        (0.0625, 8.0, 1.7),
        (0.0078125, 100.0, 1.4),
        (0.0625, 100.0, 1.4),
        (0.25, 100.0, 1.3),
        (0.0625, 5000.0, 1.4),
    ] {
        let error = truechimer_sim::sync::error(OURS, sync, stamp, 1).unwrap();
        println!("{stamp} ns, {sync} s: {error:?}");
        assert_eq!(error.outside, 0);
        assert!(error.clock < most * error.all && error.clock < 0.9 * error.pairs, "{error:?}");
    }
}

/// A master that is wrong for a minute is held off; one that falls silent leaves a holdover.
#[test]
fn a_master_that_lies_or_falls_silent_breaks_no_bound() {
    let mut scenario = masters("lan", 1.5, 1.0);
    let server = &mut scenario.servers[0];
    server.lies = vec![Lie { from_s: 2000.0, to_s: 2060.0, by_ms: 150.0 }];
    server.silences = vec![Stretch { from_s: 3000.0, to_s: 3600.0 }];
    let run = run(&scenario, 1);
    assert_eq!(outside(&run), 0);
    assert!(!run.honest[0]);
    let at = |from: f64| run.trace.samples.iter().find(|s| s.at > from).unwrap().status;
    assert_eq!((at(3100.0), at(3700.0)), (Status::Holdover, Status::Synchronised));
    assert!(run.trace.notes.iter().any(|note| note.text.contains("is silent")));
}
