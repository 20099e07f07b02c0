//! Servers that fall silent, beside others that answer, lie, smear or are the same machine: whose
//! word is left, and what is said of it.

use truechimer_engine::{Config, Engine, Event, ReasonKind, SourceStatus, Start};
use truechimer_estimators::PUBLISHED;
use truechimer_ntp::LeapIndicator;
use truechimer_time::{Leap, Leaps, Span};

use crate::world::again::{MS, again, begun, left};
use crate::world::{HONEST, ORIGIN, Server, World, address, config, start};

/// Before a leap second, with these servers.
fn smearing(hosts: &[&str]) -> World {
    let next = Some(Leap { at: ORIGIN + 1 + 3600 + 43_200, step: 1 });
    let leaps = Leaps { known: true, next, ..Leaps::default() };
    let mut world = World::new(hosts, Start { leaps, ..start() });
    world.leaps = leaps;
    world.run(3600);
    world
}

/// One that smears from an hour on.
fn smears() -> Server {
    Server { skew: -11_574, offset: Span::from_nanos(11_574 * 3600), ..HONEST }
}

/// Three servers, of which two have been silent for longer than they may keep their votes.
fn two_dead() -> World {
    let mut world = World::new(&["s1", "s2", "s3"], start());
    world.run(7200);
    world.server("s1").up = false;
    world.server("s2").up = false;
    world.run(4200);
    world
}

#[test]
fn a_dead_server_does_not_silence_one_that_smears() {
    let mut world = smearing(&["s1", "s2"]);
    *world.server("s2") = smears();
    world.run(1200);
    world.server("s1").up = false;
    for _ in 0..10 {
        world.run(1000);
    }
    assert!(world.hand().void_after.at_or_after(world.now), "the hand is void");
    world.assert_true();
}

/// On the day of a leap second, noon to noon: one bought server that does not smear, beside two honest ones that do. Theirs
/// is the majority.
#[test]
fn one_liar_that_does_not_smear_does_not_silence_those_that_do() {
    let mut world = smearing(&["s1", "s2", "s3"]);
    let liar = Server { skew: 30_000, offset: Span::from_nanos(-30_000 * 3600), ..HONEST };
    for (host, server) in [("s1", liar), ("s2", smears()), ("s3", smears())] {
        *world.server(host) = server;
    }
    let hour = |world: &mut World| {
        for _ in 0..36 {
            world.run(100);
            world.assert_true();
        }
    };
    (0..12).for_each(|_| hour(&mut world));
    // What they have fallen behind by is half a second, and after the leap they are as much ahead.
    for host in ["s2", "s3"] {
        world.server(host).offset = smears().offset + Span::from_secs(1);
    }
    (0..12).for_each(|_| hour(&mut world));
    let report = world.engine.report(world.now);
    assert_eq!(report.sources[0].status, SourceStatus::Falseticker);
}

/// Beside one that does not smear and agrees, those that smear vote, and have no part in where the time stands.
#[test]
fn those_that_smear_vote_and_have_no_part() {
    let mut world = smearing(&["s1", "s2", "s3"]);
    for host in ["s2", "s3"] {
        *world.server(host) = smears();
    }
    world.run(3600);
    world.assert_true();
    let kinds = |world: &World| -> Vec<Option<ReasonKind>> {
        let sources = world.engine.report(world.now).sources;
        sources.into_iter().map(|source| source.reason.map(|reason| reason.kind)).collect()
    };
    let smear = Some(ReasonKind::LeapSmear);
    assert_eq!(kinds(&world), [None, smear, smear]);
    assert_eq!(world.engine.report(world.now).reason, "following s1:123");
    // It begins to lie: it is outvoted, and they are followed.
    world.server("s1").offset = MS(40);
    world.run(600);
    world.assert_true();
    assert_eq!(kinds(&world)[1..], [None, None]);
    let reason = world.engine.report(world.now).reason;
    assert!(reason.contains("all smear"), "{reason}");
}

/// A leap second that the servers have announced is not taken back by one of them, because the others smear by then.
#[test]
fn one_beside_those_that_smear_takes_no_leap_second_back() {
    let mut world = World::new(
        &["s1", "s2", "s3"],
        Start { leaps: Leaps { known: true, ..Leaps::default() }, ..start() },
    );
    for host in ["s1", "s2", "s3"] {
        world.server(host).leap = LeapIndicator::Insert;
    }
    world.run(600);
    let announced = world.hand().leaps;
    let leap = announced.next.unwrap();
    world.leaps = announced;
    // Noon before it.
    let noon = leap.at - 1 - 43_200 - ORIGIN;
    world.run_days((noon - 600) / 86_400);
    world.run((noon - 600) % 86_400);
    assert_eq!(world.hand().leaps.next, Some(leap));
    for host in ["s2", "s3"] {
        *world.server(host) = Server { offset: Span::from_nanos(11_574 * noon), ..smears() };
    }
    world.run(3600);
    world.assert_true();
    let sources = world.engine.report(world.now).sources;
    let smears = |source: &truechimer_engine::SourceReport| {
        source.reason.as_ref().is_some_and(|reason| reason.kind == ReasonKind::LeapSmear)
    };
    assert_eq!(sources.iter().map(smears).collect::<Vec<_>>(), [false, true, true]);
    world.server("s1").leap = LeapIndicator::None;
    world.run(3600);
    assert_eq!(world.hand().leaps.next, Some(leap));
    world.assert_true();
}

/// Those that smear are of those that agree where so many have to: after a break of the counter too.
#[test]
fn those_that_smear_count_where_several_have_to_agree() {
    let mut world = smearing(&["s1", "s2", "s3"]);
    for host in ["s2", "s3"] {
        *world.server(host) = smears();
    }
    world.run(3600);
    world.event(Event::Disruption { reason: "a test".into() });
    world.run(300);
    world.assert_true();
    // What they say moves, and they vote: that comes before that they have no part.
    let far = Server { delay: 20_000_000, back: 20_000_000, ..HONEST };
    *world.server("s1") = far;
    world.run(3600);
    world.server("s2").offset = smears().offset + MS(2);
    world.run(40);
    let row = world.engine.report(world.now).sources[1].clone();
    let kind = row.reason.clone().map(|reason| reason.kind);
    assert_eq!(kind, Some(ReasonKind::StepSuspected), "{row:?}");
}

#[test]
fn a_dead_name_does_not_take_the_vote_of_its_twin() {
    let mut world = World::new(&[], start());
    world.servers.insert(address("s1"), HONEST);
    let mut twins = config(&["s1", "alias1"]);
    twins.sources[1].poll = 512;
    world.event(Event::Configure(twins));
    world.run(3000);
    // Only the first polls meanwhile.
    world.server("s1").kiss = Some(*b"DENY");
    world.run(40);
    world.server("s1").kiss = None;
    world.run(9000);
    assert!(world.hand().void_after.at_or_after(world.now), "the hand is void");
}

#[test]
fn a_lone_server_that_is_held_off_is_not_nobody() {
    let mut world = two_dead();
    let before = world.notes.len();
    world.server("s3").offset = MS(150);
    world.run(4500);
    let news = &world.notes[before..];
    assert!(news.iter().all(|note| !note.contains("as nobody answers now")), "{news:?}");
}

/// (The log said of a falseticker too that its new time is taken for its time from now on, as if the
/// clock had gone along.)
#[test]
fn one_whose_step_stayed_and_who_is_not_followed_is_said_to_have_no_part() {
    let told = |world: &World| -> Vec<String> {
        world.notes.iter().filter(|note| note.contains("stayed there")).cloned().collect()
    };
    let no_part = "taken for its time from now on; it has no part in the clock";
    let mut world = World::new(&["s1", "s2", "s3"], start());
    world.run(7200);
    world.server("s1").up = false;
    world.server("s2").up = false;
    world.server("s3").offset = Span::from_secs(3600);
    world.run(5400);
    let notes = told(&world);
    assert!(notes.len() == 1 && notes[0].ends_with(no_part), "{notes:?}");
    assert!(world.error().abs() < MS(150), "{}", world.error());
    // One alone is followed.
    let mut world = World::new(&["s1"], start());
    world.run(7200);
    world.server("s1").offset = MS(150);
    world.run(5400);
    let notes = told(&world);
    assert!(notes.len() == 1 && notes[0].ends_with("from now on"), "{notes:?}");
    assert!((world.error() - MS(150)).abs() < MS(1), "{}", world.error());
}

/// The counter's rate steps by 8 ppm beside an honest server: it is held off, and the bound covers
/// it.
#[test]
fn the_dead_do_not_outvote_the_one_that_speaks() {
    let mut world = two_dead();
    let at = (world.now.0 - 1_000_000_000) as i64 / 1_000_000_000;
    *world.server("s3") = Server { skew: 8_000, offset: -Span::from_nanos(8_000 * at), ..HONEST };
    let (since, mut outside) = (world.now.0, 0);
    for _ in 0..1200 {
        world.run(5);
        let says = Span::from_nanos(((world.now.0 - since) / 125_000) as i64);
        if (world.error() - says).abs() > world.hand().bound_at(world.now) {
            outside += 5;
        }
    }
    assert_eq!(outside, 0, "s outside of the bound");
}

#[test]
fn one_that_is_held_off_is_not_silent() {
    let mut world = World::new(&["s1", "s2", "s3"], start());
    world.run(3600);
    for i in 0..9 {
        world.server("s3").offset = MS(100 + 70 * (i % 2) + 20 * i);
        world.run(600);
    }
    let s3 = &world.engine.report(world.now).sources[2];
    assert!(!s3.reason.clone().unwrap().text.contains("until it answers"));
    assert!(world.notes.iter().all(|note| !note.contains("no vote until it answers")));
}

#[test]
fn one_without_a_vote_does_not_agree_for_the_next_daemon() {
    let servers = [("s1", HONEST), ("s2", HONEST), ("s3", HONEST)];
    let (before, hand, saved) = left(&servers);
    let mut world = again(&before, hand, saved, &servers);
    // Else one that is left alone moves nothing.
    let alone = Config { min_sources: Some(1), ..config(&["s1", "s2", "s3"]) };
    world.event(Event::Configure(alone));
    world.run(1200);
    world.server("s1").up = false;
    world.server("s2").up = false;
    world.run(4000);
    world.server("s3").offset = MS(150);
    world.run(4200);
    assert_eq!(world.engine.agreed(world.now), ["s3:123"]);
}

#[test]
fn a_split_is_told_of_those_that_vote() {
    let mut world = World::new(&["s1", "s2", "s3", "s4"], start());
    world.run(3600);
    world.server("s1").up = false;
    world.server("s2").up = false;
    world.run(4000);
    world.server("s4").offset = MS(150);
    world.run(4000);
    let reason = world.engine.report(world.now).reason;
    assert!(reason.contains("no majority of the 2 servers agrees"), "{reason}");
    assert!(!reason.contains("s1:123") && !reason.contains("s2:123"), "{reason}");
}

#[test]
fn twins_are_told_of_without_a_majority_too() {
    let mut world = World::new(&[], start());
    world.servers.insert(address("s1"), HONEST);
    world.servers.insert(address("s3"), Server { offset: MS(150), ..HONEST });
    world.event(Event::Configure(config(&["s1", "alias1", "s3"])));
    world.run(600);
    assert!(world.notes.iter().any(|note| note.contains("count as one")), "{:?}", world.notes);
    let reason = world.engine.report(world.now).reason;
    assert!(!reason.contains("alias1"), "{reason}");
}

#[test]
fn why_there_is_no_reply_is_as_of_now() {
    let mut world = begun(start(), &[]);
    world.servers.insert(address("s1"), Server { leap: LeapIndicator::Unsynchronised, ..HONEST });
    world.nameless = true;
    world.run(5);
    world.event(Event::Configure(config(&["s1"])));
    world.run(10);
    world.nameless = false;
    world.run(600);
    let report = world.engine.report(world.now);
    let trouble = report.sources[0].trouble.clone().unwrap();
    assert!(report.reason.contains(&trouble), "{} / {trouble}", report.reason);
}

#[test]
fn holdover_says_that_all_smear() {
    let mut world = smearing(&["s1"]);
    *world.server("s1") = smears();
    world.run(600);
    world.server("s1").up = false;
    world.run(200);
    let reason = world.engine.report(world.now).reason;
    assert!(reason.contains("all smear"), "{reason}");
}

#[test]
fn whoever_speaks_again_leaves_the_others_without_a_vote_and_that_is_told() {
    let mut world = World::new(&["s1", "s2", "s3"], start());
    world.run(7200);
    for host in ["s1", "s2", "s3"] {
        world.server(host).up = false;
    }
    world.run(7200);
    let before = world.notes.len();
    world.server("s3").up = true;
    world.run(1200);
    let news = &world.notes[before..];
    let told = news.iter().filter(|note| note.contains("no vote until")).count();
    assert_eq!(told, 2, "{news:?}");
}

#[test]
fn a_silent_server_has_a_reason_with_every_estimator() {
    let method = PUBLISHED.method();
    let (engine, actions) = Engine::with_method(config(&["s1", "s2"]), start(), method);
    let mut world = World::new(&[], start());
    world.servers = ["s1", "s2"].iter().map(|host| (address(host), HONEST)).collect();
    world.engine = engine;
    world.carry_out(actions);
    world.run(3600);
    world.server("s1").up = false;
    world.run(4000);
    let why = world.engine.report(world.now).sources[0].reason.clone();
    assert!(why.is_some_and(|why| why.text.contains("no vote until")));
    world.server("s1").up = true;
    world.run(600);
    assert_eq!(world.engine.report(world.now).sources[0].reason, None);
}
