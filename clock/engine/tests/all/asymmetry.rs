//! Asymmetry of a path, learnt beside a clock that knows the time better.

use crate::bed::{self, Bed, SECOND};
use crate::world::again::begun_with;
use crate::world::{HONEST, Server, World, config, start};
use proptest::prelude::*;
use truechimer_engine::{Config, Event, Learnt, SourceId, Standard};
use truechimer_time::Span;

/// A near server is `s1`, this one `s2`; requests take 3 ms less than replies.
const FAR: Server = Server { delay: 6_000_000, back: 9_000_000, ..HONEST };
const GONE: Server = Server { up: false, ..HONEST };
const US: fn(i64) -> Span = Span::from_micros;

fn learning(hosts: &[&str], who: &str) -> Config {
    let mut config = config(hosts);
    config.sources.iter_mut().for_each(|source| source.learn_asymmetry = source.host == who);
    config
}

fn learnt(world: &World, n: usize) -> Option<Learnt> {
    world.engine.report(world.now).sources[n].learnt
}

fn holds(learnt: &Learnt, truth: Span) -> bool {
    (learnt.asymmetry.by - truth).abs() <= learnt.asymmetry.error
}

#[test]
fn a_far_path_is_learnt_beside_a_near_server_and_nothing_by_itself() {
    let mut world = begun_with(config(&["s1", "s2"]), start(), &[("s1", HONEST), ("s2", FAR)]);
    world.run(3600);
    let far = learnt(&world, 1).unwrap();
    assert!(holds(&far, US(-3000)) && far.asymmetry.error < US(800), "{far:?}");
    // It is shown, and used by nobody.
    assert_eq!(world.engine.report(world.now).sources[1].asymmetry, None);
    // What a path says of itself is that no delay is negative, and no more.
    assert_eq!(learnt(&world, 0), None);
    let mut world = begun_with(config(&["s2"]), start(), &[("s2", FAR)]);
    world.run(3600);
    assert_eq!(learnt(&world, 0), None);
}

#[test]
fn the_bound_stays_narrow_when_the_near_server_fails() {
    let bounds = ["s2", "s3"].map(|who| {
        let hosts = ["s1", "s2"];
        let servers = [("s1", HONEST), ("s2", FAR)];
        let mut world = begun_with(learning(&hosts, who), start(), &servers);
        world.run(3600);
        world.assert_true();
        *world.server("s1") = GONE;
        // Reckoning from what the near one said is no better than the far path by then.
        for _ in 0..24 {
            world.run(3600);
            world.assert_true();
        }
        let told = world.notes.iter().filter(|note| note.contains("asymmetry of the path")).count();
        assert_eq!(told > 0, who == "s2", "{:?}", world.notes);
        world.hand().bound_at(world.now)
    });
    assert!(bounds[0] < US(600) && bounds[1] > US(8000), "{bounds:?}");
}

/// Delays that grow in either direction take nothing from what is known of the fastest.
#[test]
fn a_path_that_grows_afterwards_is_within_the_bound() {
    for longer in [Server { delay: 11_000_000, ..FAR }, Server { back: 14_000_000, ..FAR }] {
        let hosts = ["s1", "s2"];
        let servers = [("s1", HONEST), ("s2", FAR)];
        let mut world = begun_with(learning(&hosts, "s2"), start(), &servers);
        world.run(3600);
        *world.server("s1") = GONE;
        world.run(1800);
        *world.server("s2") = longer;
        for _ in 0..12 {
            world.run(1800);
            world.assert_true();
        }
    }
}

/// Whenever the route changes, and whenever the near one goes after that.
#[test]
fn a_route_that_changed_while_it_was_learnt_is_not_believed() {
    let other = Server { delay: 9_500_000, back: 7_000_000, ..FAR };
    for minutes in [10, 50, 100] {
        for first in [40, 75] {
            let hosts = ["s1", "s2"];
            let servers = [("s1", HONEST), ("s2", FAR)];
            let mut world = begun_with(learning(&hosts, "s2"), start(), &servers);
            world.run(first * 60);
            *world.server("s2") = other;
            world.run(minutes * 60);
            if let Some(far) = learnt(&world, 1) {
                let truths = [US(-3000), US(2500)];
                assert!(truths.iter().any(|truth| holds(&far, *truth)), "{minutes}: {far:?}");
            }
            *world.server("s1") = GONE;
            for _ in 0..8 {
                world.run(1800);
                let (error, [before, after]) = (world.error(), world.hand().reach_at(world.now));
                assert!(world.hand().status.bound_holds());
                assert!(
                    error <= before && -error <= after,
                    "{minutes} {first}: {error} -{before} +{after} {:?} {:?}",
                    world.notes,
                    learnt(&world, 1)
                );
            }
        }
    }
}

/// The machine may be another one after a break of the counter: nothing is known of its paths.
#[test]
fn a_break_of_the_counter_and_the_users_word_end_what_was_learnt() {
    let hosts = ["s1", "s2"];
    let servers = [("s1", HONEST), ("s2", FAR)];
    for event in
        [Event::Disruption { reason: "a test".into() }, Event::Accept { source: SourceId(0) }]
    {
        let mut world = begun_with(learning(&hosts, "s2"), start(), &servers);
        world.run(3600);
        assert!(world.engine.report(world.now).sources[1].asymmetry.is_some());
        world.event(event);
        let far = &world.engine.report(world.now).sources[1];
        assert_eq!((far.asymmetry, far.learnt), (None, None));
    }
}

/// With the near one there, what was learnt of the old path is replaced by what is true of the new.
#[test]
fn another_path_is_learnt_anew() {
    let hosts = ["s1", "s2"];
    let mut world = begun_with(learning(&hosts, "s2"), start(), &[("s1", HONEST), ("s2", FAR)]);
    world.run(3600);
    *world.server("s2") = Server { delay: 9_500_000, back: 7_000_000, ..FAR };
    world.run(3 * 3600);
    world.assert_true();
    let far = learnt(&world, 1).unwrap();
    assert!(holds(&far, US(2500)), "{far:?}");
    let used = world.engine.report(world.now).sources[1].asymmetry.unwrap();
    assert!((used.by - US(2500)).abs() <= used.error, "{used:?}");
    // And a configuration that no longer wants it takes it back.
    world.event(Event::Configure(learning(&hosts, "s3")));
    world.run(60);
    assert_eq!(world.engine.report(world.now).sources[1].asymmetry, None);
    world.assert_true();
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(24) })]
    /// Whatever the floors and the queues, what is learnt holds the difference of the floors.
    #[test]
    fn what_is_learnt_holds_the_truth(
        near in 20_000i64..2_000_000,
        there in 1_000_000i64..20_000_000,
        back in 1_000_000i64..20_000_000,
        (short, long) in (1i64..200_000, 1i64..4_000_000),
        minutes in 5i64..150,
    ) {
        let mut bed = Bed::new(&[near, there], Box::new(Standard), &mut ());
        bed.servers[0].queue = short;
        bed.servers[1] = bed::Server { floors: [there, back], queue: long, up: true };
        bed.run(minutes * 60, &mut ());
        prop_assert!(bed.now.0 > SECOND as u64);
        let truth = Span::from_nanos(there - back);
        let report = bed.engine.report(bed.now);
        if let Some(far) = report.sources[1].learnt {
            prop_assert!(holds(&far, truth), "{far:?}, truly {truth}");
        }
    }
}
