//! Sources that the user prefers to others, and those without which there is to be no time.

use crate::world::again::{MS, begun_with, off, selections};
use crate::world::{HONEST, Server, World, config, start};
use proptest::prelude::*;
use truechimer_engine::SourceStatus::{Falseticker, Selected, Unreachable};
use truechimer_engine::{Config, Event, ReasonKind};
use truechimer_time::Span;
use truechimer_timehands::Status;

/// By 1.5 ms of asymmetry its time is ahead of what is true, within its bound.
const FAR: Server = Server { delay: 6_000_000, back: 9_000_000, ..HONEST };
const GONE: Server = Server { up: false, ..HONEST };

fn preferring(hosts: &[&str], preferred: &str) -> Config {
    let mut config = config(hosts);
    config.sources.iter_mut().for_each(|source| source.prefer = source.host == preferred);
    config
}

fn requiring(hosts: &[&str], required: &[&str]) -> Config {
    let mut config = config(hosts);
    for source in &mut config.sources {
        source.require = required.contains(&&*source.host);
    }
    config
}

fn reason(world: &World, n: usize) -> Option<ReasonKind> {
    world.engine.report(world.now).sources[n].reason.as_ref().map(|reason| reason.kind)
}

/// The time is where it says, and the bound is what it would be without.
#[test]
fn one_that_is_preferred_leads_and_the_bound_stays() {
    let servers = [("s1", HONEST), ("s2", HONEST), ("s3", FAR)];
    let hosts = ["s1", "s2", "s3"];
    let mut plain = begun_with(config(&hosts), start(), &servers);
    let mut world = begun_with(preferring(&hosts, "s3"), start(), &servers);
    plain.run(3600);
    world.run(3600);
    plain.assert_true();
    world.assert_true();
    assert!(plain.error().abs() < Span::from_micros(50), "{}", plain.error());
    // It would be 1.5 ms off: but never so far as the others leave open.
    let allowed = plain.hand().bound();
    assert!(world.error().abs() > allowed / 4, "{} of {allowed}", world.error());
    let [before, after] = world.hand().reach_at(world.now);
    let [least, most] = plain.hand().reach_at(plain.now);
    let (width, without) = (before + after, least + most);
    assert!((width - without).abs() <= without / 100, "{width} for {without}");
    assert_eq!(selections(&world)[2], Selected);
    // Taken back while it runs, and given.
    world.event(Event::Configure(config(&hosts)));
    world.run(600);
    assert_ne!(selections(&world)[2], Selected);
    world.event(Event::Configure(preferring(&hosts, "s3")));
    world.run(600);
    world.assert_true();
    assert_eq!(selections(&world)[2], Selected);
}

/// The two others that agree are enough to tell; while it is away they keep the time where it was.
#[test]
fn one_that_is_preferred_and_wrong_or_gone_is_not_followed() {
    let hosts = ["s1", "s2", "s3"];
    let servers = [("s1", HONEST), ("s2", HONEST), ("s3", off(40))];
    let mut world = begun_with(preferring(&hosts, "s3"), start(), &servers);
    world.run(600);
    world.assert_true();
    assert_eq!(selections(&world)[2], Falseticker);
    assert!(world.error().abs() < Span::from_micros(100), "{}", world.error());
    let mut world =
        begun_with(preferring(&hosts, "s3"), start(), &[("s1", FAR), ("s2", FAR), ("s3", HONEST)]);
    world.run(7200);
    world.assert_true();
    assert!(world.error().abs() < Span::from_micros(50), "{}", world.error());
    world.server("s3").up = false;
    world.run(600);
    world.assert_true();
    assert!(world.error().abs() < Span::from_micros(200), "no step: {}", world.error());
    assert_ne!(selections(&world)[2], Selected);
}

/// Nor where everything else is permitted.
#[test]
fn no_other_key_opens_the_way_past_one_that_is_required() {
    let servers = [("s1", GONE), ("s2", HONEST), ("s3", HONEST)];
    let wanted = requiring(&["s1", "s2", "s3"], &["s1"]);
    let wanted = Config { max_step: None, min_sources: Some(1), ..wanted };
    let mut world = begun_with(wanted, start(), &servers);
    world.run(3600);
    assert_eq!(world.hand().status, Status::Unknown);
    world.server("s1").up = true;
    world.run(120);
    world.assert_true();
    world.server("s1").up = false;
    for host in ["s2", "s3"] {
        world.server(host).offset = MS(100);
    }
    world.run(4000);
    assert!(world.error().abs() < MS(5), "{}", world.error());
}

#[test]
fn there_is_no_time_without_one_that_is_required() {
    let servers = [("s1", GONE), ("s2", HONEST), ("s3", HONEST), ("s4", GONE)];
    let wanted = requiring(&["s1", "s2", "s3", "s4"], &["s1", "s4"]);
    let mut world = begun_with(wanted, start(), &servers);
    world.run(3600);
    assert_eq!(world.hand().status, Status::Unknown);
    assert_eq!(
        (reason(&world, 1), reason(&world, 2)),
        (Some(ReasonKind::Require), Some(ReasonKind::Require))
    );
    let why = world.engine.report(world.now).reason;
    assert!(why.contains("no source with require = true says so"), "{why}");
    // One of them is enough.
    world.server("s4").up = true;
    world.run(120);
    world.assert_true();
    assert_eq!(selections(&world)[0], Unreachable);
}

/// Where it is gone the clock goes on, and nowhere else.
#[test]
fn nothing_moves_without_one_that_is_required() {
    let servers = [("s1", HONEST), ("s2", HONEST), ("s3", HONEST)];
    for (required, moves) in [(&[][..], true), (&["s1"], false)] {
        let mut world = begun_with(requiring(&["s1", "s2", "s3"], required), start(), &servers);
        world.run(3600);
        world.server("s1").up = false;
        world.run(1200);
        world.assert_true();
        for host in ["s2", "s3"] {
            world.server(host).offset = MS(100);
        }
        world.run(4000);
        let moved = (world.error() - MS(100)).abs() < MS(5);
        assert_eq!(moved, moves, "{} {}", world.error(), world.engine.report(world.now).reason);
        if moved {
            continue;
        }
        assert!(world.error().abs() < MS(10), "{}", world.error());
        assert_eq!(world.hand().status, Status::Holdover);
        assert_eq!(reason(&world, 1), Some(ReasonKind::Require));
        // It is back, and says the same as the others now.
        *world.server("s1") = off(100);
        world.run(4000);
        assert_eq!(world.hand().status, Status::Synchronised);
        assert!((world.error() - MS(100)).abs() < MS(1), "{}", world.error());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(40) })]
    /// The bound holds, whoever is preferred and whatever it says, while a majority is honest.
    #[test]
    fn the_bound_holds_whoever_is_preferred(
        (preferred, liar, offset) in (0usize..5, 0usize..5, -30_000_000i64..30_000_000),
        delays in prop::collection::vec((50_000i64..20_000_000, 50_000i64..20_000_000), 5),
        skew in -300_000i64..300_000,
    ) {
        let hosts = ["s1", "s2", "s3", "s4", "s5"];
        let servers: Vec<(&str, Server)> = hosts.into_iter().zip(&delays)
            .map(|(host, (delay, back))| (host, Server { delay: *delay, back: *back, ..HONEST }))
            .collect();
        let mut world = begun_with(preferring(&hosts, hosts[preferred]), start(), &servers);
        for turn in 0..40 {
            let other = hosts[(liar + 1) % 5];
            if turn == 10 {
                world.server(hosts[liar]).offset = Span::from_nanos(offset);
            }
            if turn == 20 {
                world.server(other).skew = skew;
            }
            world.run(30);
            let (error, [before, after]) = (world.error(), world.hand().reach_at(world.now));
            if world.hand().status.bound_holds() {
                prop_assert!(error <= before && -error <= after, "{turn}: {error} -{before} +{after}");
            }
        }
    }
}
