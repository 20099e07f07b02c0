//! A daemon that starts again with the clock page of the last one: what it may promise by that.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod world;

use truechimer_engine::{DoubtKind, Engine, Event, Saved, Selection, Start};
use truechimer_time::{CountSpan, Span};
use truechimer_timehands::{Hand, Status};
use world::{HONEST, Server, World, address, config, start};

const MS: fn(i64) -> Span = Span::from_millis;

/// A clock that has followed these servers for an hour: its last hand, and what it would have saved.
fn left(servers: &[(&str, Server)]) -> (World, Hand, Option<Saved>) {
    let mut world = begun(start(), servers);
    world.run(3600);
    let (hand, saved) = (*world.hand(), world.engine.saved(world.now));
    (world, hand, saved)
}

/// The next daemon, ten seconds later, with these servers.
fn again(before: &World, hand: Hand, saved: Option<Saved>, servers: &[(&str, Server)]) -> World {
    let at = before.now + CountSpan(10_000_000_000);
    begun(Start { at, warm: Some(hand), saved, ..start() }, servers)
}

fn begun(start: Start, servers: &[(&str, Server)]) -> World {
    let names: Vec<&str> = servers.iter().map(|(name, _)| *name).collect();
    let mut world = World::new(&[], start.clone());
    world.hands.clear();
    world.servers.extend(servers.iter().map(|(name, server)| (address(name), *server)));
    let (engine, actions) = Engine::new(config(&names), start);
    world.engine = engine;
    world.carry_out(actions);
    world
}

fn off(ms: i64) -> Server {
    Server { offset: MS(ms), ..HONEST }
}

/// The statuses that were published, one after the other.
fn statuses(world: &World) -> Vec<Status> {
    let mut all: Vec<Status> = world.hands.iter().map(|hand| hand.status).collect();
    all.dedup();
    all
}

fn selections(world: &World) -> Vec<Selection> {
    world.engine.report(world.now).sources.iter().map(|source| source.selection).collect()
}

#[test]
fn the_page_gives_no_vote_to_servers_that_disagree() {
    let (before, hand, _) = left(&[("s1", HONEST)]);
    for servers in [
        &[("s1", HONEST), ("s2", off(50)), ("s3", off(-80))][..],
        &[("s1", HONEST), ("s2", off(50))],
        // Nobody is where the page is.
        &[("s1", off(20)), ("s2", off(50)), ("s3", off(-80))],
    ] {
        let mut warm = again(&before, hand, None, servers);
        for _ in 0..40 {
            warm.run(30);
            // What was known goes on, and is true.
            let (error, bound) = (warm.error(), warm.hand().bound_at(warm.now));
            assert!(error.abs() <= bound && bound < MS(5), "error {error}, bound {bound}");
        }
        assert_eq!(statuses(&warm), [Status::Holdover], "{} servers", servers.len());
        assert!(selections(&warm).iter().all(|s| *s == Selection::NoMajority));
        nearest_by(&warm, servers);
        let report = warm.engine.report(warm.now);
        assert!(report.reason.starts_with("no majority of the "), "{}", report.reason);
        assert!(report.reason.contains("s2:123 is "), "{}", report.reason);
        let told = warm.notes.iter().filter(|note| note.contains("no majority of the")).count();
        assert_eq!(told, 1, "{:?}", warm.notes);
        // A good one among them may be told by others that come.
        let each = report.sources.iter().map(|s| s.offset.unwrap());
        assert!(each.zip(servers).all(|(offset, (_, s))| (offset + s.offset).abs() < MS(2)));
    }
}

/// Without a majority each says how far away the nearest is that it contradicts.
fn nearest_by(world: &World, servers: &[(&str, Server)]) {
    for (source, (name, one)) in world.engine.report(world.now).sources.iter().zip(servers) {
        let others = servers.iter().filter(|(other, _)| other != name);
        let apart = others.map(|(_, other)| (other.offset - one.offset).abs()).min().unwrap();
        let doubt = source.doubt.unwrap();
        let by = doubt.by.unwrap();
        assert_eq!(doubt.kind, DoubtKind::NoMajority);
        assert!(by < apart && apart - by < MS(5), "{name}: {by} of {apart}");
        let why = source.why.as_ref().unwrap();
        assert!(why.starts_with("no majority agrees; the nearest that it contradicts"), "{why}");
    }
}

#[test]
fn without_a_page_they_are_as_little_believed() {
    let mut world = begun(start(), &[("s1", HONEST), ("s2", off(50)), ("s3", off(-80))]);
    world.run(300);
    assert_eq!(statuses(&world), [Status::Unknown]);
    let said: Vec<&String> = world.notes.iter().filter(|n| n.contains("no majority")).collect();
    assert_eq!(said.len(), 1, "{:?}", world.notes);
    let expected = "unknown: no majority of the 3 servers agrees: s2:123 is 50.000 ms ahead of \
                    s1:123, s3:123 is 80.000 ms behind s1:123";
    assert_eq!(said[0], expected);
    // Offsets are against the one in the middle, and say so.
    let sources = world.engine.report(world.now).sources;
    let offsets: Vec<i64> =
        sources.iter().map(|s| s.offset.unwrap().as_nanos_i64() / 1_000_000).collect();
    assert_eq!(offsets, [0, -50, 80]);
    assert!(sources.iter().all(|s| s.offset_to.as_deref() == Some("s1:123")));
    // They come to agree, and disagree again: each is told.
    world.server("s3").offset = Span::ZERO;
    world.run(7200);
    world.assert_true();
    assert!(world.engine.report(world.now).sources.iter().all(|s| s.offset_to.is_none()));
}

#[test]
fn a_majority_of_the_servers_counts_more_than_a_page() {
    let (before, hand, _) = left(&[("s1", HONEST)]);
    let servers = [("s1", HONEST), ("s2", off(50)), ("s3", off(50))];
    let mut warm = again(&before, hand, None, &servers);
    warm.run(60);
    assert_eq!(warm.hand().status, Status::Synchronised);
    assert!((warm.error() - MS(50)).abs() <= warm.hand().bound_at(warm.now));
    assert_eq!(selections(&warm)[0], Selection::Falseticker);
}

#[test]
fn one_server_alone_is_held_off_as_by_a_daemon_that_was_never_stopped() {
    let (before, hand, _) = left(&[("s1", HONEST)]);
    let mut warm = again(&before, hand, None, &[("s1", off(50))]);
    warm.run(600);
    // Not even at first: nothing that it said was used.
    assert_eq!(statuses(&warm), [Status::Holdover]);
    let (error, bound) = (warm.error().abs(), warm.hand().bound_at(warm.now));
    assert!(error < MS(1) && bound > MS(50), "error {error}, bound {bound}");
    let report = warm.engine.report(warm.now);
    assert!(report.reason.starts_with("held against s1:123, which says +50."), "{}", report.reason);
    assert!(report.reason.contains("; accepted in 50 min"), "{}", report.reason);
    assert!(report.disputed.unwrap() > MS(49) && report.disputed.unwrap() < bound);
    // It answers, and what it says is shown.
    let source = &report.sources[0];
    assert_eq!((source.reach, source.stratum, source.accepted), (0o377, Some(2), 0));
    assert!((source.offset.unwrap() + MS(50)).abs() < MS(1), "{source:?}");
    assert!(source.bound.unwrap() < MS(1) && source.last_reply.unwrap() < Span::from_secs(17));
    assert!(source.why.as_ref().unwrap().starts_with("held off: its time moved by +50."));
    warm.run(3100);
    assert_eq!(warm.hand().status, Status::Synchronised);
    assert!((warm.error() - MS(50)).abs() <= warm.hand().bound_at(warm.now));
    assert_eq!(warm.engine.report(warm.now).disputed, None);
    // The other way round, with another that does not answer, and comes at last.
    let gone = Server { up: false, ..HONEST };
    let mut warm = again(&before, hand, None, &[("s1", off(50)), ("s2", gone)]);
    warm.run(300);
    assert_eq!(statuses(&warm), [Status::Holdover]);
    assert!(warm.engine.report(warm.now).reason.contains("held against s1"));
    *warm.server("s2") = HONEST;
    warm.run(300);
    assert_eq!(statuses(&warm), [Status::Holdover]);
    assert!(warm.engine.report(warm.now).reason.contains("no majority of the 2"));
}

#[test]
fn what_is_saved_says_whose_word_the_page_is() {
    let pair = [("s1", HONEST), ("s2", HONEST)];
    let (before, hand, saved) = left(&pair);
    assert_eq!(saved.as_ref().unwrap().agreed.as_ref().unwrap().servers, ["s1:123", "s2:123"]);
    let stepped = [("s1", HONEST), ("s2", off(50))];
    // As if the daemon had never been stopped: the second one has stepped.
    let mut warm = again(&before, hand, saved.clone(), &stepped);
    warm.run(120);
    warm.assert_true();
    assert_eq!(selections(&warm)[0], Selection::Selected);
    // Nobody knows whether the second one had ever agreed.
    for old in [None, saved.clone().map(|saved| Saved { agreed: None, ..saved })] {
        let mut warm = again(&before, hand, old, &stepped);
        warm.run(120);
        assert_eq!(statuses(&warm), [Status::Holdover]);
    }
    // Of another epoch, or long before.
    let spoilt = |spoil: fn(&mut truechimer_engine::Agreed)| {
        let mut saved = saved.clone().unwrap();
        saved.agreed.iter_mut().for_each(spoil);
        Some(saved)
    };
    for spoilt in [
        spoilt(|agreed| agreed.counter.epoch.0 += 1),
        spoilt(|agreed| agreed.count = agreed.count - CountSpan(5_000_000_000_000)),
    ] {
        let mut warm = again(&before, hand, spoilt, &stepped);
        warm.run(120);
        assert_eq!(statuses(&warm), [Status::Holdover]);
    }
    // A daemon that hears nothing before it is stopped again keeps what it was left.
    let silent = pair.map(|(name, server)| (name, Server { up: false, ..server }));
    let mut warm = again(&before, hand, saved.clone(), &silent);
    warm.run(5);
    let kept = warm.engine.saved(warm.now).unwrap().agreed.unwrap();
    assert_eq!(kept.servers, saved.unwrap().agreed.unwrap().servers);
}

#[test]
fn that_no_majority_was_left_is_saved_too() {
    let servers = [("s1", HONEST), ("s2", HONEST)];
    let (mut before, ..) = left(&servers);
    before.server("s2").offset = MS(50);
    before.run(7200);
    assert_eq!(before.hand().status, Status::Holdover);
    let (hand, saved) = (*before.hand(), before.engine.saved(before.now));
    assert!(saved.as_ref().unwrap().agreed.as_ref().unwrap().servers.is_empty());
    let mut warm = again(&before, hand, saved, &[("s1", HONEST), ("s2", off(50))]);
    warm.run(600);
    assert_eq!(statuses(&warm).last(), Some(&Status::Holdover));
    assert!(!statuses(&warm).contains(&Status::Synchronised));
}

#[test]
fn what_was_held_against_one_that_has_not_answered_yet_is_not_lost() {
    let (mut before, ..) = left(&[("s1", HONEST)]);
    before.server("s1").offset = MS(50);
    before.run(600);
    let (hand, saved) = (*before.hand(), before.engine.saved(before.now));
    assert_eq!(saved.as_ref().unwrap().held.len(), 1);
    let gone = Server { up: false, ..off(50) };
    let mut warm = again(&before, hand, saved.clone(), &[("s1", gone)]);
    warm.run(5);
    let kept = warm.engine.saved(warm.now).unwrap();
    assert_eq!((&kept.held, kept.agreed.unwrap().servers.len()), (&saved.unwrap().held, 0));
}

#[test]
fn a_clock_that_was_never_stopped_says_what_it_is_held_against() {
    let (mut world, ..) = left(&[("s1", HONEST)]);
    world.server("s1").offset = MS(50);
    world.run(40);
    let report = world.engine.report(world.now);
    assert_eq!(world.hand().status, Status::Synchronised, "its last good reply is fresh");
    let says = "following s1:123, but not what it says now: +50.";
    assert!(report.reason.starts_with(says), "{}", report.reason);
    world.run(120);
    assert_eq!(world.hand().status, Status::Holdover);
    let report = world.engine.report(world.now);
    assert!(report.reason.starts_with("held against s1:123, which says +50."), "{}", report.reason);
    let told = |what: &str| world.notes.iter().filter(|note| note.contains(what)).count();
    assert_eq!(told("holdover: held against s1:123, which says +50."), 1, "{:?}", world.notes);
    assert_eq!(told("no usable reply"), 0, "{:?}", world.notes);
    let source = &report.sources[0];
    let floor = source.rtt_floor.unwrap() - Span::from_micros(200);
    assert!(floor.abs() < Span::from_nanos(1), "what was known of the path: {source:?}");
    assert!((source.offset.unwrap() + MS(50)).abs() < MS(1), "{source:?}");
    // It goes back, and nothing is left of it.
    world.server("s1").offset = Span::ZERO;
    world.run(40);
    world.assert_true();
    let report = world.engine.report(world.now);
    assert_eq!((report.reason.as_str(), report.disputed), ("following s1:123", None));
    assert_eq!(report.sources[0].why, None);
}

/// A clock that has followed these for an hour, and then for so long while the first of them is so far
/// off: its last hand.
fn left_during_a_hold(servers: &[(&str, Server)], offset: Span, seconds: i64) -> (World, Hand) {
    let (mut world, ..) = left(servers);
    world.server(servers[0].0).offset = offset;
    world.run(seconds);
    let hand = *world.hand();
    (world, hand)
}

/// What is published covers the truth, and where this server puts it.
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
    assert_eq!(selections(&warm)[0], Selection::Falseticker);
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

/// How many seconds from now on this server is held off.
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
    world.engine.report(world.now).sources[0].doubt.is_some()
}

/// What this daemon leaves behind, hand and state, to the next one, ten seconds later.
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
    let left = warm.engine.report(warm.now).sources[0].doubt.unwrap().left.unwrap();
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
        let left = warm.engine.report(warm.now).sources[0].doubt.unwrap().left.unwrap();
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
        let doubt = warm.engine.report(warm.now).sources[0].doubt.unwrap();
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
    let doubt = warm.engine.report(warm.now).sources[0].doubt.unwrap();
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
    let doubt = warm.engine.report(warm.now).sources[0].doubt.unwrap();
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
    assert!(report.sources[0].doubt.unwrap().age > Span::from_secs(1000), "{report:?}");
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
