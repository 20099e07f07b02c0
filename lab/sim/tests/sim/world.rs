//! Treatment of packets, sockets, names and daemons by the world.

use truechimer_estimators::TABLE;
use truechimer_sim::path::{Law, Outage, Queue, When};
use truechimer_sim::scenario::{Change, ResolveSpec, Restart};
use truechimer_sim::server::{Lie, Refuse, ServerRestart};
use truechimer_sim::{Options, PathSpec, Run, Scenario, ServerSpec, simulate};
use truechimer_timehands::Status;

fn lan() -> Scenario {
    let server = ServerSpec::symmetric("lan", PathSpec::exponential(0.1, 0.01));
    let scenario = Scenario::new("test", "", vec![server]);
    Scenario { hours: 1.0, warm_up_hours: 0.0, ..scenario }
}

fn run(scenario: &Scenario) -> Run {
    simulate(scenario, &Options { seed: 4, ..Options::default() }).unwrap()
}

fn said(run: &Run, what: &str) -> Vec<f64> {
    run.trace.notes.iter().filter(|n| n.text.contains(what)).map(|n| n.at).collect()
}

#[test]
fn a_reply_is_heard_until_four_more_requests_have_left() {
    let mut scenario = lan();
    // Half of the packets take more than three seconds, and there is a request every two.
    scenario.poll = 2;
    let late = Law::Lomax { shape: 0.5, scale_ms: 1000.0, cap_ms: Some(12_000.0) };
    scenario.servers[0].backward.queues = vec![Queue { law: late, when: When::Always }];
    let run = run(&scenario);
    let requests = 1800;
    let heard = run.trace.exchanges.len();
    assert!((requests / 4..requests * 9 / 10).contains(&heard), "{heard}");
    assert!(run.trace.exchanges.iter().any(|e| e.rtt > 6.0), "the four newest requests wait");
    assert!(run.trace.exchanges.iter().all(|e| e.rtt < 8.001), "its socket was closed");
}

#[test]
fn duplicates_are_one_exchange() {
    let mut scenario = lan();
    scenario.servers[0].forward.duplication = 1.0;
    scenario.servers[0].backward.duplication = 1.0;
    let (twice, once) = (run(&scenario), run(&lan()));
    let distance = twice.trace.exchanges.len().abs_diff(once.trace.exchanges.len());
    assert!(distance <= 2, "{distance}");
    assert!(twice.trace.exchanges.iter().all(|e| e.used));
}

#[test]
fn names_may_take_their_time() {
    let slow = Scenario { resolve: ResolveSpec { takes_s: 5.0, fails_until_s: 60.0 }, ..lan() };
    let run = run(&slow);
    assert!(!said(&run, "the look-up failed").is_empty());
    // Everything counts from the first request.
    assert!(run.trace.samples[0].at >= 0.0 && run.trace.samples[0].at < 1.0);
    assert!(run.trace.begun > 1_800_000_037 + 60);
    assert!(run.trace.samples.len() < 3600 - 60);
    let never = Scenario { resolve: ResolveSpec { takes_s: 0.0, fails_until_s: 1e6 }, ..lan() };
    let run = self::run(&never);
    assert!(run.trace.samples.is_empty() && run.trace.exchanges.is_empty());
}

#[test]
fn a_daemon_that_is_away_leaves_the_page() {
    let restart = |warm| Scenario {
        restarts: vec![Restart { at_s: 1800.0, gap_s: 60.0, warm, saved_rate: true }],
        ..lan()
    };
    let during = |run: &Run| -> Vec<Status> {
        let inside = run.trace.samples.iter().filter(|s| (1805.0..1858.0).contains(&s.at));
        inside.map(|s| s.status).collect()
    };
    let warm = run(&restart(true));
    assert!(during(&warm).iter().all(|status| *status == Status::Holdover));
    assert_eq!(said(&warm, "the daemon ends").len(), 1);
    let cold = run(&restart(false));
    assert!(during(&cold).iter().all(|status| *status == Status::Unknown));
    for run in [warm, cold] {
        let back = run.trace.samples.iter().filter(|s| s.at > 1862.0);
        assert!(back.clone().count() > 1700);
        assert!(
            back.clone().all(|s| s.status == Status::Synchronised && s.error.abs() < s.reach())
        );
        // It begins with a burst.
        let soon = run.trace.exchanges.iter().filter(|e| (1859.0..1876.0).contains(&e.at));
        assert!(soon.count() >= 7);
    }
}

#[test]
fn the_configuration_may_change() {
    let change = |poll, max_wander_ppm| Change { at_s: 1800.0, poll, max_wander_ppm };
    let run = |change| self::run(&Scenario { changes: vec![change], ..lan() });
    let faster = run(change(Some(4), None));
    let between = |from: f64, to: f64| {
        faster.trace.exchanges.iter().filter(|e| (from..to).contains(&e.at)).count()
    };
    assert!((95..=105).contains(&between(100.0, 1700.0)), "{}", between(100.0, 1700.0));
    assert!((380..=420).contains(&between(1900.0, 3500.0)), "{}", between(1900.0, 3500.0));
    let looser = run(change(None, Some(5.0)));
    let same = run(change(None, None));
    let bound = |run: &Run| run.trace.samples.iter().find(|s| s.at > 3400.0).unwrap().statistical;
    assert!(bound(&faster) < bound(&same) && bound(&same) < bound(&looser));
}

#[test]
fn servers_have_their_words_heard() {
    let mut scenario = lan();
    scenario.servers[0].restarts =
        vec![ServerRestart { at_s: 600.0, silent_s: 100.0, unsynchronised_s: 200.0 }];
    let restart = run(&scenario);
    assert!(!said(&restart, "not synchronised").is_empty(), "{:?}", restart.trace.notes);
    assert!(restart.trace.exchanges.iter().all(|e| e.used || e.at < 900.0));
    assert_eq!(restart.honest, [true]);

    let mut scenario = lan();
    let deny = Refuse { from_s: 600.0, to_s: 700.0, code: "DENY".into() };
    scenario.servers[0].refusals = vec![deny];
    let denied = run(&scenario);
    assert!(denied.trace.exchanges.iter().all(|e| e.at < 600.0), "nothing more is asked");
    assert!(denied.trace.samples.iter().any(|s| s.status == Status::Holdover));

    let mut scenario = lan();
    scenario.servers[0].lies = vec![Lie { from_s: 600.0, to_s: 3000.0, by_ms: 5.0 }];
    let lied = run(&scenario);
    assert_eq!((lied.honest.as_slice(), lied.trace.honest), (&[false][..], false));
    let last = lied.trace.samples.iter().rfind(|s| s.at < 2990.0).unwrap();
    assert!((last.error - 5e-3).abs() < 100e-6, "followed in the end: {last:?}");
}

#[test]
fn silence_is_holdover_and_then_void() {
    let mut scenario = Scenario { hours: 3.0, ..lan() };
    scenario.servers[0].forward.outages = vec![Outage { from_s: 1000.0, to_s: 1e6 }];
    let run = run(&scenario);
    let at = |t: f64| run.trace.samples.iter().find(|s| s.at > t).unwrap();
    assert_eq!(at(990.0).status, Status::Synchronised);
    assert_eq!(at(1100.0).status, Status::Holdover);
    assert!(at(5000.0).bound > at(1100.0).bound);
    assert!(
        run.trace.samples.iter().all(|s| !s.status.bound_holds() || s.error.abs() <= s.reach())
    );
    assert!(!said(&run, "no reply").is_empty());
}

#[test]
fn every_estimator_runs_to_the_end() {
    for estimator in TABLE.iter().copied() {
        let run = simulate(&lan(), &Options { estimator, seed: 1, poll_plan: None }).unwrap();
        let last = run.trace.samples.last().unwrap();
        assert!(last.at > 3598.0 && last.error.abs() < 10e-3, "{estimator:?}: {last:?}");
    }
}
