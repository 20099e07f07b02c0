//! The engine with each of the estimators.

use crate::world::{HONEST, Server, World, address, config, start};
use truechimer_engine::{Engine, SourceStatus};
use truechimer_estimators::{Kind, NTP_PLL, OURS, PI, PUBLISHED, TABLE};
use truechimer_time::Span;
use truechimer_timehands::Status;

fn world(servers: &[(&str, Server)], kind: Kind) -> World {
    let mut world = World::new(&[], start());
    let hosts: Vec<&str> = servers.iter().map(|(host, _)| *host).collect();
    world.servers = servers.iter().map(|(host, server)| (address(host), *server)).collect();
    let (engine, actions) = Engine::with_method(config(&hosts), start(), kind.method());
    world.engine = engine;
    world.carry_out(actions);
    world
}

#[test]
fn every_estimator_synchronises() {
    for kind in TABLE {
        let mut world = world(&[("host1", HONEST)], *kind);
        world.run(3600);
        assert_eq!(world.hand().status, Status::Synchronised, "{kind:?}");
        assert!(world.error().abs() < Span::from_micros(10), "{kind:?}: {}", world.error());
    }
}

/// The per-second slew of the RFC's client shows in the hands; the others are straight lines.
#[test]
fn hands_are_renewed_as_often_as_the_estimator_bends() {
    for (kind, per_hour) in [(NTP_PLL, 3000), (PI, 200)] {
        let mut world = world(&[("host1", HONEST)], kind);
        world.run(3600);
        let hands = world.hands.len();
        assert!(hands >= per_hour && hands < 2 * per_hour, "{kind:?}: {hands}");
    }
}

fn three_of_which_one_lies(kind: Kind) -> World {
    let away = |ns: i64| Server { delay: ns, back: ns, ..HONEST };
    let liar = Server { offset: Span::from_millis(20), ..away(200_000) };
    let servers = [("host1", away(5_000_000)), ("host2", away(6_000_000)), ("host3", liar)];
    let mut world = world(&servers, kind);
    world.run(7200);
    world
}

/// Two honest servers 10 and 12 ms away and a near one that lies by 20 ms: the published rule
/// prefers the liar after 20 stamps of each and keeps it; agreement finds it out.
#[test]
fn a_near_liar_is_preferred_by_the_published_rule() {
    let mut world = three_of_which_one_lies(PUBLISHED);
    let error = world.error();
    assert!((error - Span::from_millis(20)).abs() < Span::from_micros(100), "{error}");
    let told = |words: &str| world.notes.iter().any(|note| note.contains(words));
    assert!(told("host3:123 is selected from now on, instead of host"), "{:?}", world.notes);
    assert!(!told("part in the time") && !told("glides"), "{:?}", world.notes);
    world.run(2 * 86_400);
    assert!((world.error() - Span::from_millis(20)).abs() < Span::from_micros(100));
    let ours = three_of_which_one_lies(OURS);
    assert!(ours.error().abs() < Span::from_millis(1), "{}", ours.error());
}

/// Nothing is combined there, so nobody is said to have a part, and nothing glides.
#[test]
fn who_follows_one_at_a_time_says_so() {
    for kind in [PI, NTP_PLL] {
        let away = |ns: i64| Server { delay: ns, back: ns, ..HONEST };
        let servers = [("host1", HONEST), ("host2", away(300_000)), ("host3", away(500_000))];
        let mut world = world(&servers, kind);
        world.run(3600);
        let report = world.engine.report(world.now);
        let leads = report.sources.iter().find(|s| s.status == SourceStatus::Selected).unwrap();
        let leader = leads.name.trim_end_matches(":123");
        world.server(leader).up = false;
        world.run(1200);
        world.server(leader).up = true;
        world.run(3600);
        let told = |words: &str| world.notes.iter().filter(|note| note.contains(words)).count();
        let instead =
            format!("is selected from now on, instead of {leader}:123 (nothing usable from it");
        let silent = format!("{leader}:123: cannot be followed: nothing usable from it for");
        assert_eq!((told(&instead), told(&silent)), (1, 1), "{:?}", world.notes);
        assert_eq!(told("part in the time") + told("glides"), 0, "{:?}", world.notes);
    }
}
