//! A daemon that starts again with the clock page of the last one: what it may promise by that.

use crate::world::again::{MS, again, begun, begun_with, left, off, selections, statuses};
use crate::world::{HONEST, Server, World, config, start};
use truechimer_engine::{ReasonKind, Saved, SourceStatus, Start};
use truechimer_time::{CountSpan, Rate, Span};
use truechimer_timehands::Status;

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
        assert!(selections(&warm).iter().all(|s| *s == SourceStatus::Candidate));
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

#[test]
fn a_rate_that_no_reply_has_measured_has_no_deviation() {
    let (before, hand, _) = left(&[("s1", HONEST)]);
    assert!(before.engine.difference_deviation().is_some());
    let at = before.now + CountSpan(10_000_000_000);
    let mut warm = begun_with(config(&["s1"]), Start { at, warm: Some(hand), ..start() }, &[]);
    warm.run(60);
    assert!(warm.hand().status.bound_holds());
    assert_eq!(warm.engine.difference_deviation(), None);
    let answered = again(&before, hand, None, &[("s1", HONEST)]);
    assert!(answered.engine.difference_deviation().is_some_and(|of| of > Rate::ZERO));
}

/// Nobody selects anew where none answers: who had a part is silent all the same.
#[test]
fn all_that_have_fallen_silent_are_stale() {
    let names = ["s1", "s2", "s3"];
    let mut world = begun(start(), &names.map(|name| (name, HONEST)));
    world.run(300);
    let stale = |world: &World| world.engine.standings(world.now).filter(|one| one.2).count();
    assert_eq!(stale(&world), 0);
    names.iter().for_each(|name| world.server(name).up = false);
    world.run(300);
    assert_eq!(stale(&world), 3);
    let report = world.engine.report(world.now);
    assert!(report.sources.iter().any(|source| source.status == SourceStatus::Selected));
    let kind = |source: &truechimer_engine::SourceReport| source.reason.as_ref().map(|r| r.kind);
    assert!(report.sources.iter().all(|source| kind(source) == Some(ReasonKind::Stale)));
}

/// Without a majority each says how far away the nearest is that it contradicts.
fn nearest_by(world: &World, servers: &[(&str, Server)]) {
    for (source, (name, one)) in world.engine.report(world.now).sources.iter().zip(servers) {
        let others = servers.iter().filter(|(other, _)| other != name);
        let apart = others.map(|(_, other)| (other.offset - one.offset).abs()).min().unwrap();
        let doubt = source.reason.clone().unwrap();
        let by = doubt.by.unwrap();
        assert_eq!(doubt.kind, ReasonKind::NoMajority);
        assert!(by < apart && apart - by < MS(5), "{name}: {by} of {apart}");
        let why = &source.reason.as_ref().unwrap().text;
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
    assert_eq!(selections(&warm)[0], SourceStatus::Falseticker);
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
    assert!(source.reason.as_ref().unwrap().text.starts_with("held off: its time moved by +50."));
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
    assert_eq!(selections(&warm)[0], SourceStatus::Selected);
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
    assert!(floor.abs() < Span::from_micros(1), "what was known of the path: {source:?}");
    assert!((source.offset.unwrap() + MS(50)).abs() < MS(1), "{source:?}");
    // It goes back, and nothing is left of it.
    world.server("s1").offset = Span::ZERO;
    world.run(40);
    world.assert_true();
    let report = world.engine.report(world.now);
    assert_eq!((report.reason.as_str(), report.disputed), ("following s1:123", None));
    assert_eq!(report.sources[0].reason, None);
}
