//! Things that must not be lost: one test for each that could go without another test noticing.

use crate::world::{HONEST, ORIGIN, Server, World, address, config, start, truth};
use truechimer_engine::{Action, Config, Engine, Event, SourceId, SourceStatus, Start};
use truechimer_ntp::{LeapIndicator, Log2, RefId, Short, Timestamp, server};
use truechimer_time::{CountSpan, Epoch, Leap, Leaps, Rate, Span, Stamp, StampMethod};
use truechimer_timehands::{Hand, Status};

/// A world in which `s1` has been followed for an hour, and the hand that it left.
fn left() -> (World, Hand) {
    let mut world = World::new(&["s1"], start());
    world.run(3600);
    let hand = *world.hand();
    (world, hand)
}

/// A world that goes on so many seconds later with the hand that was left, before `s1`, which is
/// now like `server`, has answered.
fn continued(seconds: i64, server: Server) -> World {
    let (before, hand) = left();
    let at = before.now + CountSpan(seconds * 1_000_000_000);
    let mut warm = World::new(&[], Start { at, ..start() });
    let (engine, actions) = Engine::new(config(&["s1"]), Start { at, warm: Some(hand), ..start() });
    warm.engine = engine;
    warm.hands.extend(actions.iter().filter_map(|action| match action {
        Action::Publish(hand) => Some(*hand),
        _ => None,
    }));
    warm.servers.insert(address("s1"), server);
    warm
}

/// The look-up of `s1` comes back.
fn resolved() -> Event {
    Event::Resolved { source: SourceId(0), result: Ok(vec![address("s1")]) }
}

#[test]
fn the_time_of_a_warm_start_confines_the_first_reply_until_it_is_void() {
    let far = Server { delay: 50_000_000, back: 50_000_000, ..HONEST };
    for (gap, known) in [(5, true), (3_000, true), (4_200, false)] {
        let mut warm = continued(gap, far);
        warm.event(resolved());
        warm.assert_true();
        assert_eq!(warm.hand().bound() < Span::from_millis(40), known, "{}", warm.hand().bound());
        // The rate is known even where the time is not.
        assert!(warm.hand().growth < Rate::from_ppb(100_000), "{}", warm.hand().growth);
    }
}

#[test]
fn the_time_of_a_warm_start_is_of_its_epoch() {
    let offset = Span::from_secs(-9);
    let mut warm = continued(5, Server { offset, ..HONEST });
    warm.event(Event::Disruption { reason: "another machine".into() });
    warm.event(resolved());
    assert_eq!(warm.hand().status, Status::Synchronised);
    assert!((warm.error() - offset).abs() <= warm.hand().bound_at(warm.now));
    assert!(!warm.engine.report(warm.now).sources[0].refused.contains_key("server-step"));
}

#[test]
fn a_break_leaves_the_time_where_it_was() {
    let (mut world, _) = left();
    world.server("s1").up = false;
    world.run(30);
    world.event(Event::Disruption { reason: "test".into() });
    let hand = world.hand();
    assert_eq!((hand.base, hand.status), (world.now, Status::Disrupted));
    assert!(world.error().abs() < Span::from_millis(1), "{}", world.error());
}

/// Words of the hypervisor when the machine was migrated or restored.
fn moved() -> Event {
    Event::Moved { reason: "the machine was restored".into() }
}

#[test]
fn after_the_hypervisors_word_the_first_reply_is_believed_however_far_the_counter_jumped() {
    for offset in [10_000_000, -10_000_000, 7_200_000_000_000, 30 * 86_400_000_000_000] {
        let (mut world, _) = left();
        let offset = Span::from_nanos(offset);
        // The counter, and with it the kernel's clocks, jumped against true time.
        world.server("s1").offset = offset;
        let hands = world.hands.len();
        world.event(moved());
        world.run(2);
        let after = &world.hands[hands..];
        assert!(after.iter().all(|hand| hand.counter.epoch == Epoch(4)));
        // Disrupted at once, and then the first reply.
        let statuses = [after[0].status, after[1].status];
        assert_eq!(statuses, [Status::Disrupted, Status::Synchronised], "{:?}", world.notes);
        assert!((world.error() - offset).abs() <= world.hand().bound_at(world.now));
        let source = &world.engine.report(world.now).sources[0];
        assert!(source.refused.is_empty(), "{:?}", source.refused);
        // The rate is another machine's, too, and is learnt anew.
        world.run(3600);
        assert!((world.error() - offset).abs() < Span::from_micros(50), "{}", world.error());
        assert!(!world.notes.iter().any(|note| note.contains("held off")), "{:?}", world.notes);
    }
}

#[test]
fn without_that_word_such_a_jump_is_held_off() {
    let held = |world: &World| world.notes.iter().any(|note| note.contains("held off"));
    // Ten milliseconds that nobody inside sees; a month that shows as a break of the counter.
    let (mut world, _) = left();
    world.server("s1").offset = Span::from_millis(10);
    world.run(60);
    let source = &world.engine.report(world.now).sources[0];
    assert!(world.error().abs() < Span::from_millis(1) && !source.refused.is_empty());
    let (mut world, _) = left();
    world.server("s1").offset = Span::from_secs(30 * 86_400);
    world.event(Event::Disruption { reason: "the counter went back".into() });
    world.run(60);
    assert_eq!(world.hand().status, Status::Disrupted);
    assert!(held(&world), "{:?}", world.notes);
}

#[test]
fn a_restored_machine_is_not_put_before_what_it_knew() {
    let (mut world, _) = left();
    world.server("s1").offset = Span::from_secs(-86_400);
    world.event(moved());
    world.run(60);
    assert_eq!(world.hand().status, Status::Disrupted);
    let note = world.notes.last().unwrap();
    assert!(note.contains("off the time that was saved or known last"), "{note}");
    let (mut world, _) = left();
    world.server("s1").offset = Span::from_secs(-900);
    world.event(moved());
    world.run(60);
    assert_eq!(world.hand().status, Status::Synchronised);
}

#[test]
fn a_machine_that_moves_before_its_first_time_stays_unknown() {
    let mut world = World::new(&[], start());
    world.event(moved());
    assert_eq!((world.hand().status, world.hand().counter.epoch), (Status::Unknown, Epoch(4)));
    world.servers.insert(address("s1"), HONEST);
    world.event(Event::Configure(config(&["s1"])));
    world.run(60);
    world.assert_true();
}

#[test]
fn a_counter_that_breaks_with_every_look_makes_no_flood() {
    let (mut world, _) = left();
    let requests = |world: &World| world.engine.report(world.now).sources[0].requests;
    let before = requests(&world);
    // A break each second for a minute, as whatever the reply is makes for a look at the counter.
    for _ in 0..60 {
        world.event(Event::Disruption { reason: "test".into() });
        world.run(1);
    }
    let asked = requests(&world) - before;
    assert!((3..=6).contains(&asked), "asked {asked} times in a minute of breaks");
    // Once the counter runs on, the time is found again, and the next single break is nothing.
    world.run(60);
    assert_eq!(world.hand().status, Status::Synchronised);
    let before = requests(&world);
    world.event(Event::Disruption { reason: "test".into() });
    world.run(1);
    assert_eq!(requests(&world) - before, 1);
}

#[test]
fn another_max_wander_takes_effect() {
    let (mut world, hand) = left();
    assert!(hand.growth < Rate::from_ppb(2_000));
    let wander = Rate::from_ppb(20_000);
    world.event(Event::Configure(Config { max_wander: wander, ..config(&["s1"]) }));
    world.run(20);
    assert!(world.hand().growth >= wander, "{}", world.hand().growth);
    world.assert_true();
}

#[test]
fn an_answer_to_a_question_from_before_a_break_is_none() {
    let (mut world, _) = left();
    world.server("s1").up = false;
    // The next request, with nobody to answer it but us.
    let (at, source, packet) = loop {
        world.now = world.now.latest(world.engine.next_deadline().unwrap());
        let actions = world.engine.handle(world.now, Event::Timer);
        let sent = actions.into_iter().find_map(|action| match action {
            Action::Send { source, packet, .. } => Some((world.now, source, packet)),
            _ => None,
        });
        if let Some(sent) = sent {
            break sent;
        }
    };
    world.event(Event::Disruption { reason: "test".into() });
    let stamp = Timestamp::from_instant(truth(at), &Leaps::default());
    let state = server::ServerState {
        leap: LeapIndicator::None,
        stratum: 2,
        precision: Log2(-25),
        root_delay: Short::default(),
        root_dispersion: Short::default(),
        reference_id: RefId(*b"TEST"),
        reference_timestamp: stamp,
    };
    let packet = server::respond(&packet, stamp, stamp, &state).unwrap().to_vec();
    let stamped = |count| Stamp { count, error: CountSpan(50), method: StampMethod::Kernel };
    let (sent, received) = (stamped(at), stamped(at + CountSpan(200_000)));
    let from = address("s1");
    world.event(Event::Reply { source, from, sent, received, packet });
    assert_eq!(world.hand().status, Status::Disrupted);
}

#[test]
fn the_era_is_that_of_the_server() {
    // 1990, 2040 and 2100.
    for unix in [631_152_000, 2_208_988_800, 4_102_444_800] {
        let mut world = World::new(&[], start());
        let offset = Span::from_secs(unix - ORIGIN);
        world.servers.insert(address("s1"), Server { offset, ..HONEST });
        world.event(Event::Configure(config(&["s1"])));
        world.run(20);
        assert!((world.error() - offset).abs() <= world.hand().bound_at(world.now), "{unix}");
        assert_eq!(world.hand().status, Status::Synchronised);
    }
}

#[test]
fn a_little_better_is_no_reason_to_switch() {
    for (delay, switches) in [(80_000, false), (20_000, true)] {
        let (mut world, _) = left();
        world.servers.insert(address("s2"), Server { delay, back: delay, ..HONEST });
        world.event(Event::Configure(config(&["s1", "s2"])));
        world.run(600);
        let report = world.engine.report(world.now);
        assert_eq!(report.sources[1].status == SourceStatus::Selected, switches, "{delay}");
        assert_ne!(report.sources[0].status, SourceStatus::Falseticker);
    }
}

/// A break of the counter changes nothing about the server.
#[test]
fn a_smear_that_was_found_is_taken_off_after_a_break() {
    let next = Some(Leap { at: ORIGIN + 1 + 3600 + 43_200, step: 1 });
    let leaps = Leaps { known: true, next, ..Leaps::default() };
    let mut world = World::new(&["s1"], Start { leaps, ..start() });
    world.leaps = leaps;
    world.run(3600);
    let (skew, offset) = (-11_574, Span::from_nanos(11_574 * 3600));
    *world.server("s1") = Server { skew, offset, ..HONEST };
    world.run(600);
    let found =
        |world: &World| world.notes.iter().filter(|n| n.contains(" smears the leap")).count();
    assert_eq!(found(&world), 1, "{:?}", world.notes);
    for _ in 0..2 {
        world.event(Event::Disruption { reason: "test".into() });
        world.run(120);
        world.assert_true();
        assert!(world.error().abs() < Span::from_micros(50), "{}", world.error());
    }
    assert_eq!(found(&world), 1, "{:?}", world.notes);
}
