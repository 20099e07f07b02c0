//! Demands of servers on their clients by kiss codes, obeyed and not for ever, over months.

use std::net::SocketAddr;

use crate::world::{HONEST, Server, World, address, config, start};
use truechimer_engine::{Event, SourceReport};
use truechimer_time::{Count, Span};

const HOUR: i64 = 3600;
const DAY: i64 = 24 * HOUR;

fn report(world: &World) -> SourceReport {
    world.engine.report(world.now).sources[0].clone()
}

/// When requests to this server left from the given one on, s since the start.
fn asked(world: &World, host: &str, from: usize) -> Vec<i64> {
    let to: SocketAddr = address(host);
    let sent = world.sent.iter().zip(&world.sent_to).skip(from);
    sent.filter(|(_, who)| **who == to)
        .map(|((at, _), _)| (*at - start().at).0 / 1_000_000_000)
        .collect()
}

fn gaps(times: &[i64]) -> Vec<i64> {
    times.windows(2).map(|w| w[1] - w[0]).collect()
}

#[test]
fn kisses_are_obeyed() {
    let mut world = World::new(&["s1"], start());
    world.server("s1").kiss = Some(*b"RATE");
    world.run(400);
    let slowed = world.sent.len();
    assert!(slowed <= 6, "{slowed} requests to a server that wants fewer");
    world.server("s1").kiss = Some(*b"DENY");
    world.run(600);
    let denied = world.sent.len();
    world.run(2400);
    assert_eq!(world.sent.len(), denied, "asked again so soon after DENY");
    let report = report(&world);
    assert_eq!(report.refused["kiss-deny"], 1);
    assert!(report.refused["kiss-rate"] >= 1);
    assert_eq!(report.reach, 0);
    let (trouble, retry) = (report.trouble.unwrap(), report.retry.unwrap());
    assert!(trouble.contains("DENY") && trouble.contains("; asked again in "), "{trouble}");
    assert!(retry > Span::ZERO && retry < Span::from_secs(HOUR), "{retry}");
    assert!(world.notes.iter().any(|note| note.contains("refuses service; asked again in ")));
}

#[test]
fn a_server_that_refuses_is_asked_again_once_in_a_while_and_used_when_it_serves() {
    for code in [*b"DENY", *b"RSTR"] {
        let mut world = World::new(&["s1"], start());
        world.run(600);
        world.server("s1").kiss = Some(code);
        let from = world.sent.len();
        world.run_days(90);
        let times = asked(&world, "s1", from);
        // An hour, two, four, eight, sixteen, and a day from then on, each up to an eighth less.
        let mut wait = HOUR;
        for gap in gaps(&times) {
            assert!((wait * 7 / 8 - 1..=wait + 1).contains(&gap), "{gap} s in place of {wait}");
            wait = (wait * 2).min(DAY);
        }
        assert!((93..110).contains(&times.len()), "{} requests in three months", times.len());
        // Let in again: within a day it is found out, and all is as before.
        world.server("s1").kiss = None;
        world.run_days(1);
        world.run(200);
        world.assert_true();
        let report = report(&world);
        assert_eq!((report.retry, report.poll, report.trouble), (None, 16, None));
        // Another refusal much later is a new one.
        world.server("s1").kiss = Some(code);
        let from = world.sent.len();
        world.run(3 * HOUR);
        assert!((2..=3).contains(&asked(&world, "s1", from).len()));
    }
}

#[test]
fn clients_that_were_refused_together_do_not_come_back_in_step() {
    let again = |seed| {
        let mut world =
            World::new(&["s1"], truechimer_engine::Start { seed: [seed; 32], ..start() });
        world.server("s1").kiss = Some(*b"DENY");
        world.run_days(1);
        asked(&world, "s1", 0)
    };
    assert_eq!(again(1), again(1), "the same seed, the same times");
    assert_ne!(again(1)[2], again(2)[2]);
}

#[test]
fn another_address_of_the_name_is_tried_at_once() {
    let mut world = World::new(&["s1"], start());
    world.servers.insert(address("s2"), HONEST);
    world.run(100);
    // The name leads to another machine by now, or as well.
    for more in [false, true] {
        let mut world = World::new(&["s1"], start());
        world.servers.insert(address("s2"), HONEST);
        if more {
            world.more_addresses = vec![address("s2")];
            world.event(Event::Configure(config(&[])));
            world.event(Event::Configure(config(&["s1"])));
        }
        world.run(100);
        world.moved = (!more).then_some(address("s2"));
        world.server("s1").kiss = Some(*b"DENY");
        let from = world.sent.len();
        world.run(40);
        world.assert_true();
        assert_eq!(report(&world).address, Some(address("s2")));
        assert_eq!(asked(&world, "s1", from).len(), 1);
        assert!(asked(&world, "s2", from).len() > 1);
        // That one falls silent: the one that refuses is left alone all the same.
        world.servers.get_mut(&address("s2")).unwrap().up = false;
        world.run(HOUR / 2);
        assert_eq!(asked(&world, "s1", from).len(), 1, "more: {more}");
        // When its time has come it is one of two again.
        world.server("s1").kiss = None;
        world.moved = None;
        world.run(2 * HOUR);
        world.assert_true();
        assert_eq!(report(&world).address, Some(address("s1")));
    }
}

#[test]
fn where_all_refuse_all_are_left_alone() {
    let deny = Server { kiss: Some(*b"DENY"), ..HONEST };
    let mut world = World::new(&["s1"], start());
    world.more_addresses = (2..=9).map(|n| address(&format!("s{n}"))).collect();
    for address in world.more_addresses.clone() {
        world.servers.insert(address, deny);
    }
    *world.server("s1") = deny;
    world.event(Event::Configure(config(&[])));
    world.event(Event::Configure(config(&["s1"])));
    world.run_days(30);
    let each: Vec<usize> = (1..=9).map(|n| asked(&world, &format!("s{n}"), 0).len()).collect();
    assert!(each.iter().all(|n| (25..=45).contains(n)), "{each:?}");
    for n in 1..=9 {
        let gaps = gaps(&asked(&world, &format!("s{n}"), 0));
        assert!(gaps.iter().skip(1).all(|gap| *gap >= HOUR * 7 / 8 - 1), "s{n}: {gaps:?}");
    }
}

#[test]
fn a_reload_asks_again_but_not_more_than_every_five_minutes() {
    let mut world = World::new(&["s1"], start());
    world.server("s1").kiss = Some(*b"RSTR");
    world.run(1000);
    let from = world.sent.len();
    for _ in 0..HOUR {
        world.event(Event::Configure(config(&["s1"])));
        world.run(1);
    }
    let times = asked(&world, "s1", from);
    assert!((11..=13).contains(&times.len()), "{times:?}");
    assert!(gaps(&times).iter().all(|gap| *gap >= 300), "{times:?}");
    // And it helps.
    world.server("s1").kiss = None;
    world.run(300);
    world.event(Event::Configure(config(&["s1"])));
    world.run(60);
    world.assert_true();
}

#[test]
fn a_slow_down_wears_off() {
    let mut world = World::new(&["s1"], start());
    world.run(600);
    world.server("s1").kiss = Some(*b"RATE");
    world.run(3 * HOUR);
    assert_eq!(report(&world).poll, 1024);
    world.server("s1").kiss = None;
    world.run_days(2);
    assert_eq!(report(&world).poll, 16);
    world.assert_true();
}

#[test]
fn a_server_that_allows_no_more_hears_of_us_too_often_ever_more_rarely() {
    let mut world = World::new(&["s1"], start());
    let mut seldom = config(&["s1"]);
    seldom.sources[0].poll = 64;
    world.event(Event::Configure(seldom));
    world.server("s1").allows = 100;
    let rates = |world: &World| report(world).refused.get("kiss-rate").copied().unwrap_or(0);
    world.run_days(30);
    let month = rates(&world);
    world.run_days(30);
    let further = rates(&world) - month;
    assert!((5..25).contains(&month) && further <= 6, "{month} and then {further}");
    assert!([64, 128].contains(&report(&world).poll));
    // When the limit is gone, so is the slow-down in a while.
    world.server("s1").allows = 0;
    world.run_days(20);
    assert_eq!(report(&world).poll, 64);
    world.assert_true();
}

#[test]
fn a_break_of_the_counter_is_no_way_round() {
    let mut world = World::new(&["s1", "s2", "s3"], start());
    world.run(100);
    world.server("s1").kiss = Some(*b"DENY");
    world.server("s2").kiss = Some(*b"RATE");
    world.run(3000);
    world.server("s2").kiss = None;
    let from = world.sent.len();
    world.event(Event::Disruption { reason: "suspended".into() });
    world.run(100);
    // The one that serves tells the time, and nobody waits for the others.
    world.assert_true();
    assert_eq!(asked(&world, "s1", from).len(), 0);
    assert_eq!(asked(&world, "s2", from).len(), 1);
    assert!(asked(&world, "s3", from).len() > 4);
    world.run(2 * HOUR);
    assert!(!asked(&world, "s1", from).is_empty());
}

/// Nothing but the server's own answer to a request of ours counts.
#[test]
fn a_forged_kiss_changes_nothing() {
    let mut world = World::new(&["s1"], start());
    world.run(600);
    let source = *world.hosts.keys().next().unwrap();
    let stamp = |count| truechimer_time::Stamp {
        count,
        error: truechimer_time::CountSpan(50),
        method: truechimer_time::StampMethod::Kernel,
    };
    for code in [b"DENY", b"RSTR", b"RATE"] {
        let mut packet = [0u8; 48];
        packet[0] = 0xe4;
        packet[12..16].copy_from_slice(code);
        let (sent, received) = (stamp(world.now), stamp(world.now));
        let from = address("s1");
        world.event(Event::Reply { source, from, sent, received, packet: packet.to_vec() });
    }
    let report = report(&world);
    assert_eq!((report.retry, report.poll), (None, 16));
    let before = world.sent.len();
    world.run(100);
    assert!(world.sent.len() > before + 4);
    let _: Count = world.now;
}
