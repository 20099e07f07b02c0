//! Sources that lie, refuse, are silent or are the same: who is believed, and what is said of it.

use truechimer_engine::{Authentication, Config, Event, ReasonKind, SourceStatus, Start, Steer};
use truechimer_ntp::LeapIndicator;
use truechimer_time::{Count, Leaps, Span};
use truechimer_timehands::Status;

use crate::world::{self, HONEST, Server, World, address, config, start};

#[test]
fn one_liar_of_three_has_no_say() {
    let mut world = World::new(&["s1", "s2", "s3"], start());
    world.server("s2").offset = Span::from_millis(20);
    world.server("s2").delay = 10_000;
    world.run(300);
    world.assert_true();
    let report = world.engine.report(world.now);
    let selections: Vec<SourceStatus> = report.sources.iter().map(|s| s.status).collect();
    assert_eq!(selections[1], SourceStatus::Falseticker);
    assert!(selections.contains(&SourceStatus::Selected));
    assert!(report.sources[1].offset.unwrap() < Span::from_millis(-19), "ours is behind the liar");
}

#[test]
fn a_liar_inside_the_others_bounds_does_not_narrow_them() {
    let mut world = World::new(&["s1", "s2", "s3"], start());
    // Nearer than the others, so that it claims less, and off by more than it claims.
    *world.server("s2") =
        Server { offset: Span::from_micros(60), delay: 5_000, back: 5_000, ..HONEST };
    for _ in 0..60 {
        world.run(5);
        world.assert_true();
    }
    let report = world.engine.report(world.now);
    assert_eq!(report.sources[1].status, SourceStatus::Selected, "it looks best");
    assert!(world.error() > Span::from_micros(40), "and it is wrong");
}

#[test]
fn two_that_disagree_are_not_believed() {
    let mut world = World::new(&["s1"], start());
    world.run(100);
    let mut config = config(&["s1", "s2"]);
    config.sources[1].poll = 16;
    world.servers.insert(address("s2"), Server { offset: Span::from_secs(1), ..HONEST });
    world.event(Event::Configure(config));
    world.run(100);
    assert_eq!(world.hand().status, Status::Holdover);
    assert!(world.engine.report(world.now).reason.contains("no majority"));
}

#[test]
fn unsynchronised_servers_are_refused_with_a_reason() {
    let mut world = World::new(&["s1"], start());
    world.server("s1").stratum = 16;
    world.run(100);
    // The very first reply was good; from then on nothing is accepted.
    let report = world.engine.report(world.now);
    assert!(report.sources[0].refused["stratum"] > 3);
    assert_eq!(report.sources[0].accepted, 1);
    assert!(report.sources[0].trouble.is_some());
}

#[test]
fn a_dead_address_is_left_for_the_next() {
    let mut world = World::new(&["s1"], start());
    world.server("s1").up = false;
    world.servers.insert(address("s2"), HONEST);
    world.more_addresses = vec![address("s2")];
    world.event(Event::Configure(config(&[])));
    world.event(Event::Configure(config(&["s1"])));
    world.run(300);
    world.assert_true();
    assert_eq!(world.engine.report(world.now).sources[0].address, Some(address("s2")));
    // And round again, when that one dies.
    world.server("s2").up = false;
    world.server("s1").up = true;
    world.run(600);
    world.assert_true();
    assert_eq!(world.engine.report(world.now).sources[0].address, Some(address("s1")));
}

/// Runs for so long; requests to a server that is down are refused by the network at once.
fn run_refused(world: &mut World, seconds: i64) {
    let mut seen = world.sent.len();
    for _ in 0..seconds {
        world.run(1);
        for i in seen..world.sent.len() {
            let source = world.sent[i].1;
            let at = world.engine.report(world.now).sources[0].address;
            if at.is_some_and(|at| !world.servers.get(&at).is_some_and(|server| server.up)) {
                let error = "connection refused".into();
                world.event(Event::Undelivered { source, error });
            }
        }
        seen = world.sent.len();
    }
}

fn looked_up(world: &World) -> usize {
    world.log.iter().filter(|(_, e)| matches!(e, Event::Resolved { .. })).count()
}

/// The network's word comes after the time for the reply: it was told as new at every request.
#[test]
fn one_that_cannot_be_reached_is_told_of_once_and_when_it_is_over() {
    let mut world = World::new(&["s1"], start());
    world.run(300);
    let source = world.sent[0].1;
    let lost = |world: &mut World| {
        world.server("s1").up = false;
        for _ in 0..20 {
            world.run(150);
            for error in ["No route to host", "No route to host, says 10.99.0.1"] {
                world.event(Event::Undelivered { source, error: error.into() });
            }
        }
    };
    let told =
        |world: &World, text: &str| world.notes.iter().filter(|note| note.contains(text)).count();
    lost(&mut world);
    assert_eq!(told(&world, "s1:123: request not delivered"), 2, "{:?}", world.notes);
    world.server("s1").up = true;
    world.run(3000);
    assert_eq!(told(&world, "s1:123: requests are delivered again"), 1, "{:?}", world.notes);
    lost(&mut world);
    assert_eq!(told(&world, "s1:123: request not delivered"), 4, "{:?}", world.notes);
    assert_eq!(told(&world, "delivered again"), 1);
}

#[test]
fn an_address_that_refuses_is_looked_up_again() {
    let mut world = World::new(&["s1"], start());
    run_refused(&mut world, 300);
    world.assert_true();
    world.server("s1").up = false;
    let sent = world.sent.len();
    run_refused(&mut world, 1000);
    let sent = world.sent.len() - sent;
    let again = looked_up(&world) - 1;
    assert!(again >= 3 && again <= sent / 8, "{again} look-ups, {sent} requests");
    let source = &world.engine.report(world.now).sources[0];
    assert!(source.trouble.as_ref().unwrap().contains("not delivered"), "{:?}", source.trouble);
    assert_eq!(source.timeouts, 0, "the network answered");
    // The name leads elsewhere now.
    world.servers.insert(address("s2"), HONEST);
    world.moved = Some(address("s2"));
    run_refused(&mut world, 300);
    world.assert_true();
    assert_eq!(world.engine.report(world.now).sources[0].address, Some(address("s2")));
}

#[test]
fn a_second_address_that_refuses_leads_back_to_the_first() {
    let mut world = World::new(&["s1"], start());
    world.more_addresses = vec![address("s2")];
    world.event(Event::Configure(config(&[])));
    world.event(Event::Configure(config(&["s1"])));
    run_refused(&mut world, 100);
    world.server("s1").up = false;
    run_refused(&mut world, 160);
    assert_eq!(world.engine.report(world.now).sources[0].address, Some(address("s2")));
    world.server("s1").up = true;
    run_refused(&mut world, 300);
    assert_eq!(world.engine.report(world.now).sources[0].address, Some(address("s1")));
    world.assert_true();
}

#[test]
fn a_refusal_does_not_make_a_server_that_answers_be_left() {
    let mut world = World::new(&["s1"], start());
    world.run(300);
    for _ in 0..100 {
        let source = world.sent.last().unwrap().1;
        world.event(Event::Undelivered { source, error: "forged".into() });
        world.run(16);
    }
    assert_eq!(looked_up(&world), 1);
    world.assert_true();
}

#[test]
fn a_server_that_is_lost_is_looked_up_when_the_configuration_is_read_again() {
    let mut world = World::new(&["s1"], start());
    run_refused(&mut world, 300);
    world.event(Event::Configure(config(&["s1"])));
    assert_eq!(looked_up(&world), 1, "it is there");
    world.server("s1").up = false;
    run_refused(&mut world, 160);
    let before = looked_up(&world);
    world.servers.insert(address("s2"), HONEST);
    world.moved = Some(address("s2"));
    world.event(Event::Configure(config(&["s1"])));
    assert_eq!(looked_up(&world), before + 1);
    world.run(1);
    assert_eq!(world.engine.report(world.now).sources[0].address, Some(address("s2")));
    world.assert_true();
}

#[test]
fn known_addresses_are_asked_while_their_name_cannot_be_looked_up() {
    let mut world = World::new(&["s1"], start());
    world.run(300);
    world.server("s1").up = false;
    world.nameless = true;
    run_refused(&mut world, 4000);
    let told = world.notes.iter().filter(|text| text.contains("no name service")).count();
    assert_eq!(told, 1, "{:?}", world.notes);
    world.server("s1").up = true;
    run_refused(&mut world, 20);
    world.assert_true();
}

#[test]
fn an_unresolvable_name_is_shown_and_tried_again() {
    let mut world = World::new(&["s1"], start());
    let mut both = config(&["s1", "s9"]);
    both.sources[1].host = "nowhere".into();
    world.event(Event::Configure(both));
    world.run(100);
    let report = world.engine.report(world.now);
    assert!(report.sources[1].trouble.as_ref().unwrap().contains("nowhere"));
    assert!(report.sources[1].refused["unresolvable"] >= 4);
    world.assert_true();
}

#[test]
fn the_first_of_three_to_answer_is_not_believed_alone() {
    let mut world = World::new(&[], start());
    let servers = [
        ("s1", Server { offset: Span::from_secs(3600), delay: 5_000, back: 5_000, ..HONEST }),
        ("s2", Server { up: false, ..HONEST }),
        ("s3", Server { up: false, ..HONEST }),
    ];
    world.servers.extend(servers.map(|(host, server)| (address(host), server)));
    world.event(Event::Configure(config(&["s1", "s2", "s3"])));
    world.run(3);
    assert_eq!(world.hand().status, Status::Unknown);
    assert!(world.engine.report(world.now).reason.contains("1 of 3"));
    world.server("s2").up = true;
    world.server("s3").up = true;
    for _ in 0..60 {
        world.run(1);
        if world.hand().status != Status::Unknown {
            world.assert_true();
        }
    }
    world.assert_true();
}

#[test]
fn dead_sources_are_waited_for_only_so_long() {
    let mut world = World::new(&[], start());
    world.servers.insert(address("s1"), HONEST);
    world.event(Event::Configure(config(&["s1", "s2"])));
    assert_eq!(world.hand().status, Status::Unknown);
    world.run(12);
    world.assert_true();
}

#[test]
fn one_server_under_two_names_has_one_vote() {
    let mut world = World::new(&["s2"], start());
    // Two names for the same liar, against two honest servers.
    world.servers.insert(address("s1"), Server { offset: Span::from_secs(5), ..HONEST });
    world.servers.insert(address("s3"), HONEST);
    world.event(Event::Configure(config(&["s1", "alias1", "s2", "s3"])));
    world.run(60);
    world.assert_true();
    let report = world.engine.report(world.now);
    let alias = &report.sources[1];
    assert_eq!(alias.status, SourceStatus::Unselectable);
    assert_eq!(alias.reason.as_ref().unwrap().kind, ReasonKind::SameServer);
    assert!(alias.trouble.as_ref().unwrap().contains("same address as s1:123"));
    assert_eq!(report.sources[0].status, SourceStatus::Falseticker);
    let told = |world: &World| world.notes.iter().filter(|n| n.contains("count as one")).count();
    world.run(600);
    assert_eq!(told(&world), 1, "{:?}", world.notes);
    let line = "alias1:123: is at the same address as s1:123: the two count as one server";
    assert!(world.notes.iter().any(|note| note.contains(line)), "{:?}", world.notes);
}

/// One that is only watched is asked and shown, and neither believed nor waited for nor counted.
#[test]
fn a_server_that_is_only_watched_has_no_say() {
    let mut world = World::new(&[], start());
    world.servers.insert(address("s1"), Server { up: false, ..HONEST });
    let day = Span::from_secs(86_400);
    world
        .servers
        .insert(address("s2"), Server { offset: day, leap: LeapIndicator::Insert, ..HONEST });
    let mut two = config(&["s2", "s1"]);
    two.sources[0].no_select = true;
    world.event(Event::Configure(two.clone()));
    world.run(100);
    assert_eq!(world.hand().status, Status::Unknown);
    world.server("s1").up = true;
    world.run(600);
    world.assert_true();
    assert_eq!(world.hand().leaps, Leaps::default());
    let report = world.engine.report(world.now);
    assert_eq!(report.reason, "following s1:123");
    let [watched, followed] = &report.sources[..] else { panic!("two sources") };
    assert_eq!(
        [watched.status, followed.status],
        [SourceStatus::Unselectable, SourceStatus::Selected]
    );
    let off = watched.offset.unwrap() + day;
    assert!(off.abs() < Span::from_millis(1), "{off}");
    let reason = watched.reason.as_ref().map(|reason| reason.kind);
    assert_eq!((watched.weight, reason), (None, Some(ReasonKind::Noselect)));
    // It takes no vote away from another name of the same server either.
    let mut twins = config(&["s1", "alias1"]);
    twins.sources[0].no_select = true;
    world.event(Event::Configure(twins));
    world.run(100);
    let parts = world.engine.report(world.now).sources.into_iter().map(|s| s.status);
    assert_eq!(parts.collect::<Vec<_>>(), [SourceStatus::Unselectable, SourceStatus::Selected]);
    assert!(world.notes.iter().all(|note| !note.contains("count as one")), "{:?}", world.notes);
}

/// Trust in a server can change while the daemon runs.
#[test]
fn the_leader_can_be_left_to_be_watched() {
    let mut world = World::new(&["s1", "s2", "s3"], start());
    world.run(600);
    let part = |world: &World, n: usize| world.engine.report(world.now).sources[n].status;
    let leads = (0..3).find(|n| part(&world, *n) == SourceStatus::Selected).unwrap();
    let mut watched = config(&["s1", "s2", "s3"]);
    watched.sources[leads].no_select = true;
    world.event(Event::Configure(watched));
    assert_eq!(part(&world, leads), SourceStatus::Unselectable, "at once");
    assert_eq!(world.hand().status, Status::Synchronised);
    world.run(300);
    world.assert_true();
    let line = format!("instead of s{}:123 (noselect, as configured)", leads + 1);
    assert!(world.notes.iter().any(|note| note.contains(&line)), "{:?}", world.notes);
    world.event(Event::Configure(config(&["s1", "s2", "s3"])));
    world.run(60);
    assert_ne!(part(&world, leads), SourceStatus::Unselectable);
    world.assert_true();
}

#[test]
fn an_address_of_ipv4_in_ipv6_is_the_same_server() {
    let mut world = World::new(&["s2"], start());
    world.servers.insert(address("s1"), Server { offset: Span::from_secs(5), ..HONEST });
    let mapped = "[::ffff:192.0.2.1]:123".parse().unwrap();
    world.servers.insert(mapped, Server { offset: Span::from_secs(5), ..HONEST });
    world.servers.insert(address("s3"), HONEST);
    let mut four = config(&["s1", "twin", "s2", "s3"]);
    four.sources[1].host = "mapped".into();
    world.event(Event::Configure(four));
    world.run(60);
    world.assert_true();
    let report = world.engine.report(world.now);
    assert_eq!(report.sources[1].address, Some(mapped));
    assert_eq!(report.sources[1].status, SourceStatus::Unselectable);
    assert!(report.sources[1].trouble.as_ref().unwrap().contains("same address as s1:123"));
}

#[test]
fn names_that_share_their_addresses_get_servers_of_their_own() {
    let mut world = World::new(&[], start());
    for host in ["s1", "s2", "s3"] {
        world.servers.insert(address(host), HONEST);
    }
    world.more_addresses = vec![address("s1"), address("s2"), address("s3")];
    world.event(Event::Configure(config(&["s1", "alias1", "pool1"])));
    world.run(60);
    world.assert_true();
    let report = world.engine.report(world.now);
    let mut addresses: Vec<_> = report.sources.iter().map(|s| s.address.unwrap()).collect();
    addresses.sort();
    assert_eq!(addresses, [address("s1"), address("s2"), address("s3")]);
    let weights: f64 = report.sources.iter().map(|s| s.weight.unwrap()).sum();
    assert!((weights - 1.0).abs() < 1e-9, "all have a part, and that is all there is");
}

#[test]
fn a_liar_about_the_rate_does_not_carry_the_bound_away() {
    let mut world = World::new(&["s1", "s2", "s3"], start());
    for host in ["s2", "s3"] {
        *world.server(host) = Server { delay: 20_000, back: 40_000_000, ..HONEST };
    }
    *world.server("s1") = Server { delay: 5_000, back: 5_000, skew: -300_000, ..HONEST };
    for _ in 0..300 {
        world.run(1);
        // While it agrees with the honest ones it may be followed, at their bounds.
        let (error, bound) = (world.error(), world.hand().bound_at(world.now));
        assert!(error.abs() <= bound, "{error} {bound}");
    }
}

#[test]
fn a_fresh_source_is_preferred_to_a_better_one_that_fell_silent() {
    let mut world = World::new(&["s1", "s2"], start());
    *world.server("s2") = Server { delay: 18_000_000, back: 18_000_000, ..HONEST };
    world.run(300);
    world.server("s1").up = false;
    world.run(600);
    world.assert_true();
    let report = world.engine.report(world.now);
    assert_eq!(report.sources[1].status, SourceStatus::Selected);
}

#[test]
fn a_server_that_refuses_is_there() {
    let mut world = World::new(&["s1"], start());
    world.server("s1").stratum = 16;
    world.run(1000);
    let report = world.engine.report(world.now);
    let source = &report.sources[0];
    assert_eq!(source.timeouts, 0, "every request was answered");
    assert!(source.trouble.as_ref().unwrap().contains("stratum"), "{:?}", source.trouble);
    let looked_up = world.log.iter().filter(|(_, e)| matches!(e, Event::Resolved { .. })).count();
    assert_eq!(looked_up, 1);
    let told = world.notes.iter().filter(|text| text.contains("stratum is 16")).count();
    assert_eq!(told, 1, "{:?}", world.notes);
}

#[test]
fn a_silent_server_is_told_of_once() {
    let mut world = World::new(&["s1"], start());
    world.run(100);
    world.server("s1").up = false;
    world.run(3000);
    let told = world.notes.iter().filter(|text| text.contains("no reply")).count();
    assert_eq!(told, 1, "{:?}", world.notes);
}

#[test]
fn a_slew_ends_when_discipline_is_switched_off() {
    let mut world = World::new(&["s1"], start());
    world.event(Event::Configure(Config { discipline: true, ..config(&["s1"]) }));
    let unix_ns = world::ORIGIN * 1_000_000_000 + world.now.0 as i64 + 500_000;
    let (count, raw_ns) = (world.now, world.now.0 as i64);
    let reading = truechimer_engine::SystemReading { count, unix_ns, raw_ns, frequency: None };
    world.event(Event::SystemClock(reading));
    let slewing = world.steers.len();
    assert!(slewing > 0);
    world.event(Event::Configure(config(&["s1"])));
    let [Steer::Frequency(_), Steer::Tell(word)] = world.steers[slewing..] else {
        panic!("{:?}", world.steers)
    };
    assert_eq!(word.max_error, None, "nobody tends the system clock any more");
}

#[test]
fn a_closed_port_is_told_of_once() {
    let mut world = World::new(&["s1"], start());
    world.server("s1").up = false;
    for _ in 0..200 {
        let sent = world.sent.len();
        world.run(1);
        if world.sent.len() > sent {
            let source = world.sent.last().unwrap().1;
            world.event(Event::Undelivered { source, error: "connection refused".into() });
        }
    }
    let told = world.notes.iter().filter(|text| text.contains("refused")).count();
    assert_eq!(told, 1, "{:?}", world.notes);
    assert!(world.engine.report(world.now).sources[0].refused["undelivered"] > 5);
}

/// Words of two servers an hour ago are worth less than what one says now. (They kept their votes
/// for ever: the bound grew as if nobody answered, to a second in a day.)
#[test]
fn servers_that_are_silent_for_long_have_no_vote() {
    let mut world = World::new(&["s1", "s2", "s3"], start());
    world.run(7200);
    let usual = world.hand().bound();
    world.server("s1").up = false;
    world.server("s2").up = false;
    world.run(3500);
    assert!(
        world.hand().bound() > usual * 8,
        "until then they outvote it: {}",
        world.hand().bound()
    );
    world.assert_true();
    world.run(700);
    assert!(world.hand().bound() < usual * 2, "{usual} {}", world.hand().bound());
    let report = world.engine.report(world.now);
    let parts: Vec<SourceStatus> = report.sources.iter().map(|s| s.status).collect();
    assert_eq!(
        parts,
        [SourceStatus::Unreachable, SourceStatus::Unreachable, SourceStatus::Selected]
    );
    let why = report.sources[0].reason.clone().unwrap().text;
    assert!(why.ends_with("no vote until it answers again"), "{why}");
    assert_eq!(world.notes.iter().filter(|n| n.contains("no vote until")).count(), 2);
    // Alone, it is held off like one that always was, where one is enough to move the time.
    world.event(Event::Configure(Config { min_sources: Some(1), ..config(&["s1", "s2", "s3"]) }));
    world.server("s3").offset = Span::from_millis(150);
    world.run(3500);
    assert!(world.error().abs() < Span::from_millis(1), "{}", world.error());
    world.run(400);
    assert!((world.error().abs() - Span::from_millis(150)).abs() < Span::from_millis(1));
    // Where nobody is left that answers, those that do not are no news of theirs.
    world.server("s3").up = false;
    world.run(4000);
    let joins = |note: &&String| note.contains("s1:123: has a part");
    let joined: Vec<&String> = world.notes.iter().filter(joins).collect();
    assert!(joined[0].contains("by what it said ") && joined[0].contains("as nobody answers now"));
    world.server("s3").up = true;
    world.run(120);
    // Those that answer again have their votes at once.
    world.server("s1").up = true;
    world.server("s2").up = true;
    world.run(120);
    world.assert_true();
    assert!(world.error().abs() < Span::from_millis(1), "{}", world.error());
}

/// Where nobody answers all that is known is what they said.
#[test]
fn servers_that_are_all_silent_keep_their_votes() {
    let mut world = World::new(&["s1", "s2", "s3"], start());
    world.run(7200);
    for host in ["s1", "s2", "s3"] {
        world.server(host).up = false;
    }
    world.run(3 * 3600);
    assert_eq!(world.hand().status, Status::Holdover);
    assert!(world.error().abs() <= world.hand().bound());
    let report = world.engine.report(world.now);
    assert!(report.sources.iter().all(|s| s.status != SourceStatus::Unreachable));
    assert!(world.notes.iter().all(|note| !note.contains("no vote")), "{:?}", world.notes);
}

/// Each has one status, and at most one reason for it.
#[test]
fn whoever_is_not_used_says_why_in_one_word() {
    use ReasonKind::{KissCode, NoAddress, NoReply, Noselect, Waiting};
    use SourceStatus::{Candidate, Unreachable, Unselectable};
    let mut world = World::new(&[], start());
    for host in ["s1", "s2", "s5"] {
        world.servers.insert(address(host), HONEST);
    }
    for host in ["s3", "s6"] {
        world.servers.insert(address(host), Server { up: false, ..HONEST });
    }
    world.servers.insert(address("s4"), Server { kiss: Some(*b"DENY"), ..HONEST });
    let mut all = config(&["s1", "s2", "s3", "s4", "s5", "s6", "nowhere"]);
    all.sources[4].no_select = true;
    world.event(Event::Configure(all));
    let standing = |world: &World| -> Vec<(SourceStatus, Option<ReasonKind>)> {
        let sources = world.engine.report(world.now).sources;
        sources.iter().map(|s| (s.status, s.reason.as_ref().map(|reason| reason.kind))).collect()
    };
    world.run(1);
    let at_first = standing(&world);
    assert_eq!(at_first[..2], [(Candidate, Some(Waiting)); 2], "{at_first:?}");
    assert_eq!(at_first[2], (Unreachable, None), "{at_first:?}");
    world.run(60);
    world.assert_true();
    let later = standing(&world);
    assert!(later[..2].iter().all(|(status, why)| status.agrees() && why.is_none()), "{later:?}");
    let rest = [
        (Unreachable, Some(NoReply)),
        (Unreachable, Some(KissCode)),
        (Unselectable, Some(Noselect)),
        (Unreachable, Some(NoReply)),
        (Unreachable, Some(NoAddress)),
    ];
    assert_eq!(later[2..], rest, "{later:?}");
}

/// A source whose requests cannot be protected is looked up again, at once after it was served, and
/// then less and less often; what proves nothing does nothing.
#[test]
fn keys_that_are_of_no_use_are_fetched_anew_with_patience() {
    for authentication in [Authentication::Nts, Authentication::Key(5)] {
        fetched_anew_with_patience(authentication, [42; 32]);
    }
}

/// Returns how long each wait for new keys was, s.
fn fetched_anew_with_patience(authentication: Authentication, seed: [u8; 32]) -> Vec<i32> {
    let mut world = World::new(&["s1"], Start { seed, ..start() });
    let mut proven = config(&["s1"]);
    proven.sources[0].authentication = authentication;
    assert!(proven.sources[0].is_authenticated());
    world.event(Event::Configure(proven));
    world.run(60);
    let source = *world.hosts.keys().last().unwrap();
    let before = world.engine.report(world.now);
    for _ in 0..100 {
        world.event(Event::Unauthentic { source, error: "forged".into() });
    }
    let after = world.engine.report(world.now);
    assert_eq!(after.sources[0].refused["unauthentic"], 100);
    assert_eq!(after.hand, before.hand);
    assert_eq!(after.sources[0].authentication, authentication);
    assert_eq!(after.sources[0].trouble, None, "anybody can send these");
    // Keys are there for the asking, and none of them is any good.
    world.server("s1").up = false;
    let looked_up = |world: &World| {
        let resolved = |(_, event): &&(Count, Event)| matches!(event, Event::Resolved { .. });
        world.log.iter().filter(resolved).count()
    };
    let (mut sent, mut waits) = (world.sent.len(), Vec::new());
    for _ in 0..8 {
        while world.sent.len() == sent {
            world.run(1);
        }
        sent = world.sent.len();
        let (known, mut waited) = (looked_up(&world), 0);
        world.event(Event::Unprotected { source, error: "no cookies".into() });
        while looked_up(&world) == known {
            assert!(waited < 4000, "{waits:?}");
            world.run(1);
            waited += 1;
        }
        waits.push(waited);
    }
    assert!(waits[0] <= 1 && waits.windows(2).all(|pair| pair[0] <= pair[1]), "{waits:?}");
    assert!((64..=130).contains(&waits[7]), "twice as long each time: {waits:?}");
    let report = world.engine.report(world.now);
    assert_eq!(report.sources[0].refused["unprotected"], 8);
    waits
}

/// A server that once was heard, and whose keys cannot be had any more: that is what is wrong with it, and nothing is
/// counted that was never sent.
#[test]
fn without_keys_that_is_the_reason_and_nothing_is_counted() {
    let mut world = World::new(&["s1"], start());
    let mut proven = config(&["s1"]);
    proven.sources[0].authentication = Authentication::Nts;
    world.event(Event::Configure(proven));
    world.run(300);
    let before = world.engine.report(world.now).sources[0].clone();
    (world.keyless, world.nameless) = (true, true);
    world.run(2 * 3600);
    let row = world.engine.report(world.now).sources[0].clone();
    assert!(row.refused["unprotected"] > 2 && row.refused["unresolvable"] > 2, "{row:?}");
    assert_eq!((row.requests, row.reach), (before.requests, 0), "polls that brought nothing");
    assert_eq!(row.reason.map(|reason| reason.kind), Some(ReasonKind::NoKeys));
    assert_eq!(row.trouble.as_deref(), Some("no keys from s1: no name service"));
    // Keys come again: all of that is over.
    (world.keyless, world.nameless) = (false, false);
    world.run(1200);
    let row = world.engine.report(world.now).sources[0].clone();
    assert_eq!((row.reason, row.trouble, row.reach), (None, None, 0xff));
}

/// Without a name service the key of a file and an address are there all the same: the server is asked, and silent.
#[test]
fn one_that_has_its_key_and_is_silent_lacks_no_keys() {
    let mut world = World::new(&["s1"], start());
    let mut keyed = config(&["s1"]);
    keyed.sources[0].authentication = Authentication::Key(5);
    world.event(Event::Configure(keyed));
    world.run(300);
    world.nameless = true;
    world.server("s1").up = false;
    world.run(2 * 3600);
    let row = world.engine.report(world.now).sources[0].clone();
    assert!(row.refused["unresolvable"] > 2, "{row:?}");
    assert_ne!(row.reason.map(|reason| reason.kind), Some(ReasonKind::NoKeys));
    assert_eq!(row.reach, 0);
    // One that never had an address has no key to go with it.
    let mut world = World::new(&[], start());
    world.nameless = true;
    let mut keyed = config(&["s1"]);
    keyed.sources[0].authentication = Authentication::Key(5);
    world.event(Event::Configure(keyed));
    world.run(300);
    let row = world.engine.report(world.now).sources[0].clone();
    assert_eq!(row.reason.map(|reason| reason.kind), Some(ReasonKind::NoKeys));
}

/// Exchanges of keys with a server that is silent for six hours, at most. docs/use/nts.md says as many.
const MOST_EXCHANGES: usize = 50;

/// A server whose keys come, and whose replies do not, is asked for keys less and less often as well.
#[test]
fn a_silent_server_is_not_asked_for_keys_again_and_again() {
    let mut world = World::new(&["s1"], start());
    let mut proven = config(&["s1"]);
    proven.sources[0].authentication = Authentication::Nts;
    world.event(Event::Configure(proven));
    world.run(60);
    world.server("s1").up = false;
    let exchanges = |world: &World| {
        let resolved = |(_, event): &&(Count, Event)| matches!(event, Event::Resolved { .. });
        world.log.iter().filter(resolved).count()
    };
    let before = exchanges(&world);
    world.run(6 * 3600);
    // After eight requests each: 16 s apart at first, the last four of them 128 s in the end.
    let asked = exchanges(&world) - before;
    assert!((40..=MOST_EXCHANGES).contains(&asked), "{asked} exchanges in six hours");
    world.server("s1").up = true;
    let accepted = |world: &World| world.engine.report(world.now).sources[0].accepted;
    let heard = accepted(&world);
    world.run(130 + 2 * 16);
    assert!(accepted(&world) > heard + 1, "{} {heard}", accepted(&world));
}

/// Clients that all lost the same server do not come back to it in step.
#[test]
fn no_two_clients_fetch_keys_in_step() {
    let [one, other] =
        [1, 2].map(|seed| fetched_anew_with_patience(Authentication::Nts, [seed; 32]));
    assert_ne!(one[6..], other[6..], "{one:?} {other:?}");
}

/// Others do not wait for a server that has been silent for hours any longer after a break than after one that was heard.
#[test]
fn after_a_break_a_silent_server_with_proof_has_its_chance_at_once() {
    let mut world = World::new(&["s1", "s2"], start());
    let mut proven = config(&["s1", "s2"]);
    for source in &mut proven.sources {
        source.authentication = Authentication::Nts;
    }
    world.event(Event::Configure(proven));
    world.run(60);
    world.server("s1").up = false;
    world.run(6 * 3600);
    // Wherever among its requests the break falls.
    for _ in 0..8 {
        world.event(Event::Disruption { reason: "slept".into() });
        // Four requests, 2 s apart.
        world.run(10);
        assert_eq!(world.hand().status, Status::Synchronised);
        world.assert_true();
        world.run(650);
    }
}

/// Keys that came after hours without any: whoever gave them and then misses two requests is asked as often as ever.
#[test]
fn a_server_that_gives_keys_again_has_its_chance_at_once() {
    let mut world = World::new(&[], start());
    world.servers.insert(address("s1"), Server { up: false, ..HONEST });
    world.nameless = true;
    let mut proven = config(&["s1"]);
    proven.sources[0].authentication = Authentication::Nts;
    world.event(Event::Configure(proven));
    world.run(2 * 3600);
    assert!(world.sent.is_empty());
    world.nameless = false;
    while world.sent.len() < 2 {
        world.run(1);
    }
    // Those are lost.
    world.server("s1").up = true;
    world.run(16);
    assert_eq!(world.hand().status, Status::Synchronised);
}
