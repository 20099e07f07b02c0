//! News of changes for the user, or a program: once each, and nothing that is not so.

use truechimer_engine::{
    Asymmetry, Config, Event, ReasonKind, SourceStatus, Start, Steer, SystemReading,
};
use truechimer_ntp::LeapIndicator;
use truechimer_time::{Count, Leap, Leaps, Span};

use crate::world::again::begun;
use crate::world::{HONEST, ORIGIN, Server, World, address, config, start};

/// Three servers of which the second is nearest and leads.
fn three() -> World {
    let mut world = World::new(&["s1", "s2", "s3"], start());
    *world.server("s2") = Server { delay: 10_000, back: 10_000, ..HONEST };
    world.run(1200);
    world
}

/// Notes of that kind since.
fn told<'w>(world: &'w World, words: &str) -> Vec<&'w String> {
    world.notes.iter().filter(|note| note.contains(words)).collect()
}

#[test]
fn a_falseticker_and_the_change_of_the_leader_are_told_once() {
    let mut world = three();
    assert!(told(&world, "is selected").is_empty() && told(&world, "part").is_empty());
    world.server("s2").offset = Span::from_millis(20);
    world.run(600);
    let lies = told(&world, "s2:123: falseticker: ");
    assert_eq!(lies.len(), 1, "{:?}", world.notes);
    let off = lies[0].contains(" ms from where the majority agrees: it has no part in the time");
    assert!(off, "{}", lies[0]);
    let leads = told(&world, "is selected from now on");
    assert_eq!(leads.len(), 1, "{:?}", world.notes);
    assert!(leads[0].contains("instead of s2:123 (a falseticker)"), "{}", leads[0]);
    world.server("s2").offset = Span::ZERO;
    world.run(600);
    assert_eq!(told(&world, "s2:123: agrees with the majority again").len(), 1);
    assert_eq!(told(&world, "s2:123 is selected from now on").len(), 1, "{:?}", world.notes);
}

#[test]
fn one_that_leaves_and_comes_back_is_told_of_with_the_reason() {
    let mut world = three();
    world.server("s3").up = false;
    world.run(300);
    let left = told(&world, "s3:123: has no part in the time any more: nothing usable from it for");
    assert_eq!(left.len(), 1, "{:?}", world.notes);
    world.server("s3").up = true;
    world.run(300);
    assert_eq!(told(&world, "s3:123: has a part in the time from now on").len(), 1);
}

#[test]
fn whoever_comes_and_goes_all_the_time_does_not_fill_the_log() {
    let mut world = three();
    for n in 0..120 {
        world.server("s2").offset = Span::from_millis(if n % 2 == 0 { 20 } else { 0 });
        world.run(120);
    }
    let lines = told(&world, "s2:123: falseticker").len() + told(&world, "s2:123: agrees").len();
    // Four, and one each quarter of an hour.
    assert!((6..=4 + 16).contains(&lines), "{lines}");
    assert!(told(&world, "is selected from now on").len() <= 4 + 16);
    assert!(!told(&world, " changes before, which were not logged").is_empty());
}

/// Two of three step alike. The third, asked since, stands where it stood: no counter does that.
#[test]
fn the_counter_is_not_blamed_for_two_servers_that_step() {
    let mut world = three();
    for server in ["s1", "s3"] {
        world.server(server).offset = Span::from_millis(5);
    }
    world.run(300);
    assert!(told(&world, "counter jumped").is_empty(), "{:?}", world.notes);
    // The first of the two may be believed before the third has been asked.
    let moved = told(&world, "so it was not the counter; the clock goes by the majority").len();
    let early = told(&world, "has told since: the counter may have jumped").len();
    assert!(moved >= 1 && moved + early == 2, "{:?}", world.notes);
    assert_eq!(told(&world, "s2:123: falseticker").len(), 1, "{:?}", world.notes);
    // As it comes back it is told from one that jumps.
    world.server("s2").offset = Span::from_millis(5);
    world.run(300);
    assert_eq!(told(&world, "to where other servers were already").len(), 1, "{:?}", world.notes);
}

#[test]
fn the_counter_is_blamed_if_all_move() {
    let mut world = three();
    for server in ["s1", "s2", "s3"] {
        world.server(server).offset = Span::from_millis(5);
    }
    world.run(300);
    let blamed =
        told(&world, "counter jumped").len() + told(&world, "counter may have jumped").len();
    assert_eq!(blamed, 3, "{:?}", world.notes);
    assert!(told(&world, ": falseticker: ").len() <= 1, "{:?}", world.notes);
}

#[test]
fn an_asymmetry_that_cannot_be_is_told_once() {
    let mut world = World::new(&[], start());
    world.servers.insert(address("s1"), HONEST);
    let mut declared = config(&["s1"]);
    let by = Span::from_millis(3);
    declared.sources[0].asymmetry = Some(Asymmetry { by, error: Span::from_micros(10) });
    world.event(Event::Configure(declared.clone()));
    world.run(600);
    let words = "s1:123: the declared asymmetry, +3.000 ms ± 10.000 µs, is more than the whole";
    assert_eq!(told(&world, words).len(), 1, "{:?}", world.notes);
    // Another declaration that cannot be is news.
    declared.sources[0].asymmetry = Some(Asymmetry { by: -by, error: Span::from_micros(10) });
    world.event(Event::Configure(declared));
    world.run(60);
    assert_eq!(told(&world, "s1:123: the declared asymmetry, -3.000 ms").len(), 1);
}

#[test]
fn the_doubt_has_a_form_for_programs() {
    let mut world = World::new(&["s1"], start());
    world.run(7200);
    let doubt = |world: &World, n: usize| world.engine.report(world.now).sources[n].reason.clone();
    assert_eq!(doubt(&world, 0), None);
    world.server("s1").offset = Span::from_millis(-150);
    world.run(600);
    let held = doubt(&world, 0).unwrap();
    assert_eq!(held.kind, ReasonKind::StepSuspected);
    let near = |a: Span, b: Span| (a - b).abs() < Span::from_secs(32);
    assert!((held.by.unwrap() - Span::from_millis(-150)).abs() < Span::from_millis(1));
    assert!(near(held.age, Span::from_secs(590)), "{}", held.age);
    assert!(near(held.left.unwrap(), Span::from_secs(3010)), "{}", held.left.unwrap());
    assert!(held.replies.unwrap() > 30);

    let mut world = three();
    world.server("s2").offset = Span::from_millis(20);
    world.run(20);
    world.server("s3").up = false;
    world.run(280);
    // What its estimator holds against it says more than that the others disagree.
    // (It was told when it would be accepted, by which nothing follows it.)
    let moved = doubt(&world, 1).unwrap();
    assert_eq!((moved.kind, moved.left), (ReasonKind::StepSuspected, None));
    let note = told(&world, "s2:123: step suspected");
    assert!(!note.is_empty() && note.iter().all(|n| n.contains("outvoted")), "{note:?}");
    assert_eq!(world.engine.report(world.now).sources[1].status, SourceStatus::Falseticker);
    let silent = doubt(&world, 2).unwrap();
    assert_eq!((silent.kind, silent.by, silent.left), (ReasonKind::Stale, None, None));
    assert!((100..260).contains(&(silent.age.as_nanos() / 1_000_000_000)), "{}", silent.age);

    // One that never said anything else is a falseticker and nothing more.
    let mut world = World::new(&["s1", "s2", "s3"], start());
    world.server("s2").offset = Span::from_millis(20);
    world.run(300);
    let lies = doubt(&world, 1).unwrap();
    assert_eq!((lies.kind, lies.left), (ReasonKind::Outvoted, None));
    assert!((lies.by.unwrap() - Span::from_millis(20)).abs() < Span::from_millis(1));
    assert!(near(lies.age, Span::from_secs(290)), "{}", lies.age);
}

/// Servers that are gone cannot take a leap second back.
#[test]
fn the_kernel_is_not_left_to_leap_by_itself() {
    let midnight = 1_801_440_000;
    for (before, disarmed, broken) in [(3600, true, false), (1, false, false), (3600, true, true)] {
        let at = Count((midnight - 7200 - ORIGIN) as u64 * 1_000_000_000);
        let leap = Some(Leap { at: midnight + 1, step: 1 });
        let leaps = Leaps { next: leap, ..Leaps::default() };
        let mut world = World::new(&[], Start { at, leaps, ..start() });
        world.leaps = leaps;
        world.servers.insert(address("s1"), Server { leap: LeapIndicator::Insert, ..HONEST });
        world.event(Event::Configure(Config { discipline: true, ..config(&["s1"]) }));
        world.run(60);
        let raw_ns = world.now.0 as i64;
        let unix_ns = ORIGIN * 1_000_000_000 + raw_ns + 40_000;
        let count = world.now;
        let reading = SystemReading { count, unix_ns, raw_ns, frequency: None };
        world.event(Event::SystemClock(reading));
        let leap_of = |steer: &Steer| match steer {
            Steer::Tell(word) => Some((word.leap, word.max_error)),
            _ => None,
        };
        assert_eq!(world.steers.iter().find_map(leap_of).unwrap().0, 1, "{:?}", world.steers);
        world.run(7200 - before - 60);
        world.steers.clear();
        if broken {
            world.server("s1").up = false;
            world.event(Event::Disruption { reason: "test".into() });
        }
        world.event(Event::Stop);
        let last = world.steers.iter().find_map(leap_of);
        if broken {
            assert_eq!(last, Some((0, None)), "nothing is promised");
            continue;
        }
        assert_eq!(last.map(|(leap, _)| leap), disarmed.then_some(0), "{before}");
        // It stays as good as it is.
        assert!(last.is_none_or(|(_, error)| error.unwrap() > Span::from_micros(40)));
    }
}

/// A count of the old epoch says nothing of how long a doubt is old.
#[test]
fn a_doubt_is_no_older_than_the_epoch() {
    let mut world = three();
    world.server("s2").offset = Span::from_millis(20);
    world.run(300);
    let doubt = |world: &World| world.engine.report(world.now).sources[1].reason.clone();
    assert!(doubt(&world).is_some());
    world.server("s2").up = false;
    world.event(Event::Disruption { reason: "test".into() });
    assert_eq!(doubt(&world), None);
    world.server("s2").up = true;
    world.run(100);
    let lies = doubt(&world).unwrap();
    assert_eq!(lies.kind, ReasonKind::Outvoted);
    assert!(lies.age <= Span::from_secs(101), "{}", lies.age);
}

/// A few ppm could be the oscillator's. The clock goes along, and says so.
#[test]
fn a_lone_server_that_drifts_is_told_of_until_it_is_right_again() {
    let mut world = World::new(&["s1"], start());
    world.run(7200);
    assert!(told(&world, "drifts").is_empty(), "{:?}", world.notes);
    let ran = world.now.0 as i64 / 1_000_000_000;
    let begun = -Span::from_nanos(ran * 3_000);
    *world.server("s1") = Server { skew: 3_000, offset: begun, ..HONEST };
    world.run(600);
    assert_eq!(told(&world, "s1:123: it drifts against our counter").len(), 1, "{:?}", world.notes);
    let report = world.engine.report(world.now);
    assert!(format!("{report:?}").contains("max-wander-ppm"), "{report:?}");
    *world.server("s1") = HONEST;
    world.run(120);
    assert_eq!(told(&world, "s1:123: it no longer drifts").len(), 1, "{:?}", world.notes);
    world.assert_true();
}

/// (It said that no source had answered.)
#[test]
fn why_no_reply_could_be_used_is_the_reason() {
    let lost = Server { leap: LeapIndicator::Unsynchronised, ..HONEST };
    let mut world = begun(start(), &[("s1", lost), ("s2", lost)]);
    world.run(120);
    let reason = world.engine.report(world.now).reason;
    assert!(reason.starts_with("no usable reply yet: s1:123: "), "{reason}");
    assert!(reason.contains("not synchronised") && reason.ends_with("; and 1 more"), "{reason}");
}

/// (It said how long it was when the hand was made, up to 64 s before.)
#[test]
fn for_how_long_nothing_came_is_said_as_of_now() {
    let mut world = World::new(&["s1"], start());
    world.run(1200);
    world.server("s1").up = false;
    world.run(600);
    let age = |world: &World| {
        let reason = world.engine.report(world.now).reason;
        let age = reason.strip_prefix("no usable reply from s1:123 for ").map(str::to_owned);
        age.and_then(|age| age.strip_suffix(" s")?.parse::<f64>().ok()).expect(&reason)
    };
    let before = age(&world);
    world.run(10);
    assert!((age(&world) - before - 10.0).abs() < 1.0, "{before} {}", age(&world));
}

/// (It was said to be accepted in an hour, and then nothing.)
#[test]
fn a_falseticker_is_in_trouble_as_long_as_it_is_one() {
    let mut world = three();
    world.server("s2").offset = Span::from_millis(20);
    world.run(300);
    let trouble =
        |world: &World| world.engine.report(world.now).sources[1].trouble.clone().unwrap();
    let text = trouble(&world);
    assert!(text.starts_with("step suspected: its time is +"), "{text}");
    assert!(
        text.ends_with("not used; outvoted by the others, and no part until it agrees with them")
    );
    world.run(4000);
    let text = trouble(&world);
    assert!(text.starts_with("falseticker: it is 19."), "{text}");
    assert!(text.ends_with(" from where the majority agrees: no part until it agrees again"));
    world.server("s2").offset = Span::ZERO;
    world.run(300);
    assert_eq!(world.engine.report(world.now).sources[1].trouble, None);
}

#[test]
fn a_machine_that_is_named_twice_is_told_of_and_keeps_both_votes() {
    let mut world = World::new(&["s1", "s2", "s3"], start());
    let by_clock = Server { set_every: 64_123_456_789, ..HONEST };
    (*world.server("s1"), *world.server("s3")) = (by_clock, by_clock);
    *world.server("s2") = Server { set_every: 61_987_654_321, ..HONEST };
    world.run(3600);
    let same = told(&world, "most likely one machine");
    assert_eq!(same.len(), 1, "{:?}", world.notes);
    assert!(same[0].starts_with("s1:123 and s3:123: their clocks are set"), "{}", same[0]);
    assert!(told(&world, "no vote").is_empty(), "{:?}", world.notes);
}
