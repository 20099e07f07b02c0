//! Samples held off when a daemon ends, or a configuration changes: they stay so.

use crate::world::again::{MS, again, begun, left, off, selections, statuses};
use crate::world::{HONEST, Server, World, config, start};
use truechimer_engine::{Event, Saved, SourceStatus};
use truechimer_time::{CountSpan, Span};
use truechimer_timehands::{Hand, Status};

/// A clock that has followed these for an hour, and then for so long while the first of them is so
/// far off: its last hand.
fn left_during_a_hold(servers: &[(&str, Server)], offset: Span, seconds: i64) -> (World, Hand) {
    let (mut world, ..) = left(servers);
    world.server(servers[0].0).offset = offset;
    world.run(seconds);
    let hand = *world.hand();
    (world, hand)
}

/// Checks that the published time covers the truth, and where this server puts it.
fn covers_both(world: &World, server: Server) {
    let (error, bound) = (world.error(), world.hand().bound_at(world.now));
    let apart = (error - server.offset).abs();
    assert!(error.abs() <= bound && apart <= bound, "{error}, {apart} off the server, {bound}");
}

#[test]
fn one_that_is_held_off_stays_so_over_a_restart_without_state() {
    let (before, hand) = left_during_a_hold(&[("s1", HONEST)], MS(50), 600);
    assert!(hand.disputed > MS(49) && hand.undisputed_bound() < MS(2), "{hand:?}");
    let mut warm = again(&before, hand, None, &[("s1", off(50))]);
    assert_eq!((warm.hands[0].bound(), warm.hands[0].disputed), (hand.bound(), hand.disputed));
    // Since when is not in the page: from its first reply on, it is for all of the hour.
    for _ in 0..35 {
        warm.run(100);
        covers_both(&warm, off(50));
        assert!(warm.error().abs() < MS(1), "{}", warm.error());
        assert!(warm.engine.report(warm.now).disputed.unwrap() > MS(40));
    }
    assert_eq!(statuses(&warm), [Status::Holdover]);
    let report = warm.engine.report(warm.now);
    assert!(report.reason.starts_with("held against s1:123, which says +50."), "{}", report.reason);
    // A third daemon knows as much from this one's page as this one did.
    let third = *warm.hand();
    let mut again_warm = again(&warm, third, None, &[("s1", off(50))]);
    again_warm.run(1800);
    assert_eq!(statuses(&again_warm), [Status::Holdover]);
    covers_both(&again_warm, off(50));
    warm.run(200);
    assert_eq!(warm.hand().status, Status::Synchronised);
    assert_eq!((warm.hand().disputed, warm.engine.report(warm.now).disputed), (Span::ZERO, None));
    // One that is right again meanwhile is used at once.
    let mut warm = again(&before, hand, None, &[("s1", HONEST)]);
    warm.run(20);
    warm.assert_true();
    assert!(warm.hand().bound() < MS(1) && warm.hand().disputed == Span::ZERO);
}

#[test]
fn so_does_one_that_drifts_away() {
    let (mut before, ..) = left(&[("s1", HONEST)]);
    let ran = 3600 * 200_000;
    *before.server("s1") = Server { skew: 200_000, offset: -Span::from_nanos(ran), ..HONEST };
    before.run(600);
    let (hand, server) = (*before.hand(), *before.server("s1"));
    assert!(hand.disputed > MS(100), "{hand:?}");
    let mut warm = again(&before, hand, None, &[("s1", server)]);
    for _ in 0..10 {
        warm.run(60);
        let (error, bound) = (warm.error().abs(), warm.hand().bound_at(warm.now));
        assert!(error <= bound, "error {error}, bound {bound}");
    }
    assert_eq!(statuses(&warm), [Status::Holdover]);
}

#[test]
fn what_was_disputed_stays_so_when_what_was_known_has_become_as_vague() {
    let (mut before, hand) = left_during_a_hold(&[("s1", HONEST)], MS(3), 600);
    assert!(hand.disputed > MS(2), "{hand:?}");
    // What was known has grown by more than the step in an hour.
    before.now = before.now + CountSpan(4_000_000_000_000);
    let mut warm = again(&before, hand, None, &[("s1", off(3))]);
    warm.run(600);
    assert_eq!(statuses(&warm), [Status::Holdover]);
    covers_both(&warm, off(3));
    assert!(warm.error().abs() < MS(1), "{}", warm.error());
    let mut warm = again(&before, hand, None, &[("s1", HONEST)]);
    warm.run(60);
    warm.assert_true();
}

#[test]
fn one_of_three_that_is_held_off_has_no_part_after_a_restart_without_state() {
    let servers = [("s1", HONEST), ("s2", HONEST), ("s3", HONEST)];
    let (before, hand) = left_during_a_hold(&servers, MS(50), 600);
    // The two others tell where the truth is: nothing has to be covered.
    assert!(hand.status == Status::Synchronised && hand.bound() < MS(1));
    assert_eq!(hand.disputed, Span::ZERO);
    let servers = [("s1", off(50)), ("s2", HONEST), ("s3", HONEST)];
    let mut warm = again(&before, hand, None, &servers);
    for _ in 0..30 {
        warm.run(20);
        warm.assert_true();
        assert!(warm.error().abs() < MS(1) && warm.hand().bound() < MS(1));
    }
    assert_eq!(selections(&warm)[0], SourceStatus::Falseticker);
    // The two others are away, from the beginning: then it is alone with what the page knows.
    let gone = Server { up: false, ..HONEST };
    let mut warm = again(&before, hand, None, &[("s1", off(50)), ("s2", gone), ("s3", gone)]);
    warm.run(600);
    assert_eq!(statuses(&warm), [Status::Holdover]);
    covers_both(&warm, off(50));
    assert!(warm.error().abs() < MS(1), "{}", warm.error());
    assert!(warm.hand().disputed > MS(40), "{:?}", warm.hand());
}

/// A daemon that has followed this server for five minutes.
fn five_minutes() -> World {
    let mut world = begun(start(), &[("s1", HONEST)]);
    world.run(300);
    world.assert_true();
    world
}

/// Seconds from now on for which this server is held off.
fn held_for(world: &mut World) -> i64 {
    let seconds =
        |now: &World| i64::try_from(now.engine.report(now.now).at.0 / 1_000_000_000).unwrap();
    let begun = seconds(world);
    while world.engine.report(world.now).sources[0].accepted == 0 || held(world) {
        world.run(5);
        assert!(seconds(world) - begun < 5000, "for ever");
    }
    seconds(world) - begun
}

fn held(world: &World) -> bool {
    world.engine.report(world.now).sources[0].reason.is_some()
}

/// Next daemon, ten seconds later, with the hand and state that this one leaves behind.
fn restarted(before: &World, server: Server, spoil: impl Fn(&mut Saved)) -> World {
    let mut saved = before.engine.saved(before.now).unwrap();
    spoil(&mut saved);
    // As it is in the file.
    let text = serde_json::to_string(&saved).unwrap();
    let saved = serde_json::from_str(&text).unwrap();
    again(before, *before.hand(), Some(saved), &[("s1", server)])
}

#[test]
fn what_was_known_for_minutes_holds_out_for_minutes_over_a_restart() {
    let stepped = |mut world: World| {
        world.server("s1").offset = MS(50);
        world.run(60);
        assert!(held(&world));
        world
    };
    let alone = held_for(&mut stepped(five_minutes()));
    assert!((220..=260).contains(&alone), "{alone} s");
    // With a restart, or two, in the hold.
    let before = stepped(five_minutes());
    let mut warm = restarted(&before, off(50), |_| ());
    let left = warm.engine.report(warm.now).sources[0].reason.clone().unwrap().left.unwrap();
    assert!((left - Span::from_secs(alone - 10)).abs() < Span::from_secs(20), "{left} {alone}");
    warm.run(30);
    let mut twice = restarted(&warm, off(50), |_| ());
    let (once, twice) = (held_for(&mut warm) + 40, held_for(&mut twice) + 50);
    // Eight replies in a row it takes in any case.
    assert!((once - alone).abs() <= 16 && (twice - alone).abs() <= 16, "{alone}, {once}, {twice}");
    // With a restart before it: known for five minutes, and these two.
    for (since, least, most) in [(true, 400, 455), (false, 90, 150)] {
        let mut warm = restarted(&five_minutes(), HONEST, |saved| {
            let agreed = saved.agreed.as_mut().unwrap();
            assert_eq!((agreed.since.len(), agreed.servers.len()), (1, 1));
            if !since {
                // The file of an older daemon.
                agreed.since.clear();
            }
        });
        warm.run(110);
        warm.server("s1").offset = MS(50);
        warm.run(20);
        let lasted = held_for(&mut warm) + 20;
        assert!((least..=most).contains(&lasted), "{lasted} s");
    }
}

#[test]
fn since_when_it_was_known_is_not_believed_blindly() {
    let mut before = five_minutes();
    before.server("s1").offset = MS(50);
    before.run(60);
    let far = CountSpan(1 << 62);
    let spoils: [fn(&mut Saved, CountSpan); 4] = [
        |saved, _| saved.held[0].known = None,
        |saved, far| saved.held[0].known = saved.held[0].known.map(|(from, to)| (to + far, from)),
        |saved, far| saved.held[0].known = saved.held[0].known.map(|(from, to)| (from, to + far)),
        |saved, _| saved.held[0].known = saved.held[0].known.map(|(from, to)| (to, from)),
    ];
    for spoil in spoils {
        let warm = restarted(&before, off(50), |saved| spoil(saved, far));
        let left = warm.engine.report(warm.now).sources[0].reason.clone().unwrap().left.unwrap();
        // As if it had been known for as long as anything.
        assert!((Span::from_secs(3510)..Span::from_secs(3600)).contains(&left), "{left}");
    }
    // What cannot be is not held at all: the page alone counts then.
    let spoils: [fn(&mut Saved, CountSpan); 3] = [
        |saved, far| saved.held[0].since = saved.held[0].since + far,
        |saved, _| saved.held[0].bound = Span(-1),
        |saved, _| saved.held[0].time += Span::from_secs(1),
    ];
    for spoil in spoils {
        let warm = restarted(&before, off(50), |saved| spoil(saved, far));
        let doubt = warm.engine.report(warm.now).sources[0].reason.clone().unwrap();
        assert_eq!(doubt.left, Some(Span::from_secs(3600)));
        assert_eq!(doubt.replies, Some(1));
    }
    let mut warm = restarted(&five_minutes(), HONEST, |saved| {
        let since = &mut saved.agreed.as_mut().unwrap().since;
        since.values_mut().for_each(|since| *since = *since + CountSpan(1 << 62));
        since.insert("nobody".into(), before.now);
    });
    warm.run(60);
    warm.assert_true();
}

#[test]
fn one_that_drifts_away_is_saved_too() {
    let (mut before, ..) = left(&[("s1", HONEST)]);
    let ran = 3600 * 200_000;
    *before.server("s1") = Server { skew: 200_000, offset: -Span::from_nanos(ran), ..HONEST };
    before.run(1200);
    let saved = before.engine.saved(before.now).unwrap();
    assert_eq!(saved.held.len(), 1);
    let server = *before.server("s1");
    let mut warm = restarted(&before, server, |_| ());
    warm.run(60);
    let doubt = warm.engine.report(warm.now).sources[0].reason.clone().unwrap();
    assert!(doubt.age > Span::from_secs(1200), "{doubt:?}");
    let (error, bound) = (warm.error().abs(), warm.hand().bound_at(warm.now));
    assert!(error <= bound, "error {error}, bound {bound}");
}

#[test]
fn of_several_servers_too_one_is_held_off_over_a_restart_with_state() {
    let servers = [("s1", HONEST), ("s2", HONEST)];
    let (mut before, ..) = left(&servers);
    before.server("s1").offset = MS(50);
    before.run(1200);
    before.assert_true();
    let saved = before.engine.saved(before.now);
    let mut warm = again(&before, *before.hand(), saved, &[("s1", off(50)), ("s2", HONEST)]);
    warm.run(60);
    // As without the restart: one of two that has stepped still votes for where it was.
    warm.assert_true();
    assert!(warm.hand().bound() < MS(1), "{:?}", warm.hand());
    let doubt = warm.engine.report(warm.now).sources[0].reason.clone().unwrap();
    assert!(doubt.age > Span::from_secs(1200), "{doubt:?}");
}

#[test]
fn what_is_held_against_one_is_not_lost_with_a_configuration() {
    let (mut world, ..) = left(&[("s1", HONEST)]);
    world.server("s1").offset = MS(50);
    world.run(600);
    // It goes, and comes again; first by itself, then before it has answered.
    for up in [true, false, true] {
        world.event(Event::Configure(config(&[])));
        world.run(100);
        assert_eq!(world.engine.held(world.now).len(), 1);
        world.server("s1").up = up;
        world.event(Event::Configure(config(&["s1"])));
        world.run(50);
        assert_eq!(world.engine.held(world.now).len(), 1);
        let (error, bound) = (world.error().abs(), world.hand().bound_at(world.now));
        assert!(error < MS(1) && world.hand().status == Status::Holdover, "{error} {bound}");
    }
    covers_both(&world, off(50));
    let report = world.engine.report(world.now);
    assert!(report.sources[0].reason.clone().unwrap().age > Span::from_secs(1000), "{report:?}");
    // One that has gone for good is forgotten.
    world.event(Event::Configure(config(&[])));
    world.run(3600);
    assert_eq!(world.engine.held(world.now).len(), 1);
    world.run(600);
    assert!(world.engine.held(world.now).is_empty());
    // And one that was right again before it went has nothing held against it.
    let (mut world, ..) = left(&[("s1", HONEST)]);
    world.server("s1").offset = MS(50);
    world.run(600);
    world.event(Event::Configure(config(&[])));
    world.server("s1").offset = Span::ZERO;
    world.event(Event::Configure(config(&["s1"])));
    world.run(100);
    world.assert_true();
    world.event(Event::Configure(config(&[])));
    assert!(world.engine.held(world.now).is_empty());
}

#[test]
fn another_server_that_agrees_with_what_was_known_is_not_held_off_for_the_first() {
    let (before, hand) = left_during_a_hold(&[("s1", HONEST)], MS(50), 600);
    // Its requests are slow: the middle of its first reply is nearer to the disputed end.
    let slow = Server { delay: 65_000_000, back: 1_000_000, ..HONEST };
    let mut warm = again(&before, hand, None, &[("s2", slow)]);
    warm.run(30);
    warm.assert_true();
    assert!(warm.hand().disputed == Span::ZERO && warm.hand().bound() < MS(5), "{:?}", warm.hand());
}
