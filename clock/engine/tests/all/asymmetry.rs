//! Asymmetry of a path, learnt beside a clock that knows the time better.

use crate::bed::{self, Bed, SECOND};
use crate::world::again::begun_with;
use crate::world::{HONEST, Server, World, config, start};
use proptest::prelude::*;
use truechimer_engine::{Asymmetry, Config, Event, Learnt, Saved, SourceId, Standard, Start};
use truechimer_time::{CountSpan, Span};

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

/// Engine of a machine that starts again this long after it had learnt the path to the far server, and had lost
/// the near one; it was found so by a daemon that had saved what `spoil` makes of its state.
fn begun_again(after: i64, far: Server, spoil: impl Fn(&mut Saved)) -> World {
    let hosts = ["s1", "s2"];
    let mut world = begun_with(learning(&hosts, "s2"), start(), &[("s1", HONEST), ("s2", FAR)]);
    world.run(3600);
    *world.server("s1") = GONE;
    world.run(1800);
    let mut saved = world.engine.saved(world.now).unwrap();
    assert_eq!(saved.paths.len(), 1, "{saved:?}");
    spoil(&mut saved);
    // As it is in the file.
    let text = serde_json::to_string(&saved).unwrap();
    let saved = Some(serde_json::from_str(&text).unwrap());
    let at = world.now + CountSpan(after * SECOND);
    let config = learning(&hosts, "s2");
    begun_with(config, Start { at, saved, ..start() }, &[("s1", GONE), ("s2", far)])
}

fn used(world: &World) -> Option<Asymmetry> {
    world.engine.report(world.now).sources[1].asymmetry
}

/// The first packet waits for as long as the route has become shorter.
#[test]
fn one_slow_packet_makes_no_old_route_of_a_new_one() {
    let slow = Server { delay: 8_000_000, back: 7_000_000, ..FAR };
    let mut world = begun_again(600, slow, |_| ());
    let heard = |world: &World| world.engine.report(world.now).sources[1].accepted;
    while !world.hand().status.bound_holds() {
        world.run(1);
    }
    let before = heard(&world);
    while heard(&world) == before {
        world.run(1);
    }
    *world.server("s2") = Server { back: 7_000_000, ..FAR };
    world.run(3600);
    world.assert_true();
    assert_eq!(used(&world), None, "{:?}", world.notes);
}

#[test]
fn a_server_that_has_not_answered_for_days_is_not_taken_for_known() {
    let hosts = ["s1", "s2"];
    let servers = [("s1", HONEST), ("s2", FAR)];
    let mut world = begun_with(learning(&hosts, "s2"), start(), &servers);
    world.run(3600);
    *world.server("s2") = GONE;
    let unix = |world: &World| world.engine.saved(world.now).unwrap().paths[0].unix;
    let last = unix(&world);
    world.run(2 * 24 * 3600);
    assert!((unix(&world) - last).abs() < 60, "{last}, {}", unix(&world));
}

#[test]
fn what_was_learnt_is_used_again_after_a_restart() {
    let mut world = begun_again(600, FAR, |_| ());
    world.run(600);
    world.assert_true();
    let again = used(&world).unwrap();
    assert!((again.by - US(-3000)).abs() <= again.error && again.error < US(1000), "{again:?}");
    assert!(world.notes.iter().any(|note| note.contains("learnt before the start")));
    world.run(6 * 3600);
    world.assert_true();
    assert!(world.hand().bound_at(world.now) < US(600), "{}", world.hand().bound_at(world.now));
    // And it is kept for the start after that one.
    assert_eq!(world.engine.saved(world.now).unwrap().paths[0].asymmetry, again);
}

#[test]
fn what_was_learnt_of_another_route_is_not_used_after_a_restart() {
    let longer = Server { delay: 9_500_000, ..FAR };
    let shorter = Server { back: 7_000_000, ..FAR };
    let day = 24 * 3600;
    let nothing: fn(&mut Saved) = |_| ();
    let elsewhere: fn(&mut Saved) = |saved| saved.paths[0].address.set_port(1);
    let later: fn(&mut Saved) = |saved| saved.paths[0].unix += 9 * 24 * 3600;
    let extreme: fn(&mut Saved) = |saved| {
        let path = &mut saved.paths[0];
        path.asymmetry = Asymmetry { by: Span(i128::MIN), error: Span(i128::MAX) };
        (path.least, path.unix) = (Span(i128::MIN), i64::MIN);
    };
    let cases = [
        (600, FAR, extreme),
        (600, longer, nothing),
        (600, shorter, nothing),
        (2 * day, FAR, nothing),
        (600, FAR, elsewhere),
        (600, FAR, later),
    ];
    for (n, (after, far, spoil)) in cases.into_iter().enumerate() {
        let mut world = begun_again(after, far, spoil);
        world.run(1800);
        world.assert_true();
        assert_eq!(used(&world), None, "case {n}: {:?}", world.notes);
        assert_eq!(world.engine.saved(world.now).map(|saved| saved.paths.len()), Some(0));
    }
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

/// The near one is gone, and the far one so near all at once that what was learnt cannot be.
#[test]
fn what_was_learnt_is_forgotten_where_a_round_trip_refutes_it() {
    let hosts = ["s1", "s2"];
    let far = Server { delay: 1_000_000, back: 7_000_000, ..FAR };
    let mut world = begun_with(learning(&hosts, "s2"), start(), &[("s1", HONEST), ("s2", far)]);
    world.run(3600);
    assert!(used(&world).is_some());
    *world.server("s1") = GONE;
    world.run(600);
    *world.server("s2") = Server { back: 1_000_000, ..far };
    for _ in 0..12 {
        world.run(600);
        world.assert_true();
        assert_eq!(used(&world), None);
    }
    let told = world.notes.iter().filter(|note| note.contains("the path is another")).count();
    assert_eq!(told, 1, "{:?}", world.notes);
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
