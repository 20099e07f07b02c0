//! Intervals at which a server is asked, where they adapt.

use proptest::prelude::*;
use truechimer_engine::{Config, Event, Family, SourceConfig};
use truechimer_time::Span;

use crate::world::{HONEST, Server, World, address, start};

/// A server at this distance, ns each way, that may be asked so rarely.
fn world(delay: i64, max_poll: Option<u32>) -> World {
    let mut world = World::new(&[], start());
    world.servers.insert(address("s1"), Server { delay, back: delay, ..HONEST });
    world.event(Event::Configure(config(max_poll)));
    world
}

fn config(max_poll: Option<u32>) -> Config {
    let source = SourceConfig { poll: 16, max_poll, ..SourceConfig::new("s1") };
    Config { sources: vec![source], ..Config::default() }
}

fn interval(world: &World) -> u32 {
    world.engine.report(world.now).sources[0].poll
}

#[test]
fn one_that_is_far_is_asked_rarely_and_one_that_is_near_often() {
    for (delay, max_poll, wanted) in [
        (20_000_000, None, 16),
        (20_000_000, Some(64), 64),
        (20_000_000, Some(1024), 1024),
        // A sixteenth of a round trip of 2 ms and root distance is 0.25 ms at the most: by 0.5 ppm in
        // some 500 s, less as the rate is not known that well.
        (2_000_000, Some(1024), 256),
        (50_000, Some(1024), 16),
    ] {
        let mut world = world(delay, max_poll);
        for _ in 0..400 {
            world.run(100);
            world.assert_true();
        }
        assert_eq!(interval(&world), wanted, "{delay} ns, {max_poll:?}");
    }
}

#[test]
fn what_is_in_doubt_is_asked_often_again() {
    let mut world = world(20_000_000, Some(1024));
    world.run(40_000);
    assert_eq!(interval(&world), 1024);
    world.server("s1").offset = Span::from_millis(300);
    let sent = world.sent.len();
    world.run(1100);
    assert_eq!(interval(&world), 16);
    world.run(400);
    assert!(world.sent.len() > sent + 20, "{} requests", world.sent.len() - sent);
    // And as the configuration says once it says something else.
    world.event(Event::Configure(config(None)));
    assert_eq!(interval(&world), 16);
}

#[test]
fn the_other_family_is_not_asked() {
    for (family, wanted) in [
        (None, "192.0.2.1:123"),
        (Some(Family::Ipv4), "192.0.2.1:123"),
        (Some(Family::Ipv6), "[2001:db8::1]:123"),
    ] {
        let mut world = World::new(&[], start());
        let both = ["192.0.2.1:123", "[2001:db8::1]:123"].map(|a| a.parse().unwrap());
        world.servers.extend(both.map(|address| (address, HONEST)));
        world.names.insert("both".into(), both.to_vec());
        for pool in [None, Some(4)] {
            let source = SourceConfig { family, pool, ..SourceConfig::new("both") };
            world.event(Event::Configure(Config { sources: vec![source], ..Config::default() }));
            world.run(30);
            let rows = world.engine.report(world.now).sources;
            assert_eq!(rows[0].address.unwrap().to_string(), wanted);
            assert_eq!(rows.len(), if family.is_none() && pool.is_some() { 2 } else { 1 });
            world.event(Event::Configure(Config::default()));
        }
        // A pool goes over to the other one at once.
        for family in [Some(Family::Ipv4), family] {
            let pool = SourceConfig { family, ..SourceConfig::pool("both") };
            world.event(Event::Configure(Config { sources: vec![pool], ..Config::default() }));
            world.run(30);
            let rows = world.engine.report(world.now).sources;
            let first =
                if family.is_none() || family == Some(Family::Ipv4) { both[0] } else { both[1] };
            assert!(rows.iter().any(|row| row.address == Some(first)), "{rows:?}");
            assert_eq!(rows.len(), if family.is_none() { 2 } else { 1 });
        }
        world.names.insert("both".into(), both[..1].to_vec());
        let source = SourceConfig { family: Some(Family::Ipv6), ..SourceConfig::new("both") };
        world.event(Event::Configure(Config { sources: vec![source], ..Config::default() }));
        let trouble = world.engine.report(world.now).sources[0].trouble.clone().unwrap();
        assert!(trouble.contains("the name has no IPv6 address"), "{trouble}");
    }
}

proptest! {
    /// Within what the user allows, and the bound holds.
    #[test]
    fn the_interval_is_within_its_limits(
        delay in 10_000_i64..60_000_000,
        poll in 0_u32..8,
        more in 0_u32..11,
    ) {
        let mut world = World::new(&[], start());
        world.servers.insert(address("s1"), Server { delay, back: delay, ..HONEST });
        let (poll, max_poll) = (1 << poll, (1_u32 << (poll + more)).min(1024));
        let source = SourceConfig { poll, max_poll: Some(max_poll), ..SourceConfig::new("s1") };
        world.event(Event::Configure(Config { sources: vec![source], ..Config::default() }));
        for _ in 0..40 {
            world.run(200);
            world.assert_true();
            prop_assert!(interval(&world) <= max_poll, "{}", interval(&world));
        }
        let gaps = world.sent.windows(2).map(|w| (w[1].0 - w[0].0).0 / 1_000_000_000);
        prop_assert!(gaps.max().unwrap() <= i64::from(max_poll), "of {max_poll}");
    }
}
