//! Beginnings and ends: who is waited for, and what happens around a leap second.

use crate::world::{HONEST, ORIGIN, Server, World, address, config, start, truth};
use truechimer_engine::Start;
use truechimer_engine::{Event, SourceConfig};
use truechimer_ntp::LeapIndicator;
use truechimer_time::{Count, CountSpan, Leap, Rate, Span, Stamp, StampMethod};
use truechimer_timehands::{Hand, Status};

#[test]
fn a_server_that_only_wants_fewer_requests_is_not_waited_for_for_ever() {
    let mut world = World::new(&[], start());
    world.servers.insert(address("s1"), HONEST);
    world.servers.insert(address("s2"), Server { kiss: Some(*b"RATE"), ..HONEST });
    world.event(Event::Configure(config(&["s1", "s2"])));
    world.run(7200);
    world.assert_true();
}

#[test]
fn after_a_break_too_the_first_to_answer_is_not_believed_alone() {
    let mut world = World::new(&["s1", "s2", "s3"], start());
    world.run(60);
    world.server("s2").up = false;
    world.server("s3").up = false;
    world.server("s1").offset = Span::from_secs(3600);
    world.event(Event::Disruption { reason: "test".into() });
    world.run(3);
    assert_ne!(world.hand().status, Status::Synchronised);
}

#[test]
fn two_liars_of_five_that_answer_early_gain_nothing_by_it() {
    let mut world = World::new(&[], start());
    // The truth is in all three at first; the liars agree on a narrow part without it.
    let liar = Server { offset: Span::from_micros(900), delay: 10_000, back: 10_000, ..HONEST };
    let wide = Server { delay: 1_000_000, back: 1_000_000, ..HONEST };
    for host in ["s1", "s2"] {
        world.servers.insert(address(host), liar);
    }
    world.servers.insert(address("s3"), wide);
    for host in ["s4", "s5"] {
        world.servers.insert(address(host), Server { up: false, ..HONEST });
    }
    world.event(Event::Configure(config(&["s1", "s2", "s3", "s4", "s5"])));
    for _ in 0..6 {
        world.run(1);
        if world.hand().status.bound_holds() {
            let (error, bound) = (world.error(), world.hand().bound_at(world.now));
            assert!(error.abs() <= bound, "{error} {bound}");
        }
    }
}

/// Ten minutes before a second is inserted, which the only server announces.
fn before_a_leap() -> (World, Leap) {
    let midnight = 1_801_440_000;
    let leap = Leap { at: midnight + 1, step: 1 };
    let at = Count((midnight - 600 - ORIGIN) as u64 * 1_000_000_000);
    let mut world = World::new(&[], Start { at, ..start() });
    world.leaps.next = Some(leap);
    world.servers.insert(address("s1"), Server { leap: LeapIndicator::Insert, ..HONEST });
    let mut c = config(&["s1"]);
    c.sources = vec![SourceConfig { poll: 1, ..SourceConfig::new("s1") }];
    world.event(Event::Configure(c));
    (world, leap)
}

#[test]
fn a_reply_within_the_leap_second_is_no_step() {
    let (mut world, _) = before_a_leap();
    world.run(700);
    world.assert_true();
    let refused = &world.engine.report(world.now).sources[0].refused;
    assert_eq!(refused.get("server-step").copied().unwrap_or(0), 0, "{refused:?}");
}

#[test]
fn a_server_that_is_a_little_ahead_does_not_call_the_leap_off() {
    let (mut world, leap) = before_a_leap();
    world.run(598);
    world.server("s1").leap = LeapIndicator::None;
    world.run(100);
    let ours = world.hand().leaps.utc(world.hand().time_at(world.now)).unix;
    assert_eq!(ours, world.leaps.utc(truth(world.now)).unix);
    assert_eq!(world.hand().leaps.last, Some(leap));
}

#[test]
fn a_rate_from_before_a_break_is_no_word_on_the_counter_after_it() {
    let mut world = World::new(&["s1"], start());
    world.run(3600);
    let left = *world.hand();
    let at = world.now + truechimer_time::CountSpan(5_000_000_000);
    let mut warm = World::new(&[], Start { at, warm: Some(left), seed: [1; 32], ..start() });
    warm.event(Event::Disruption { reason: "another machine".into() });
    warm.servers.insert(address("s1"), HONEST);
    warm.event(Event::Configure(config(&["s1"])));
    assert!(warm.hand().growth >= Rate::from_ppb(400_000), "{}", warm.hand().growth);
}

#[test]
fn a_warm_hand_of_any_date_does_not_panic() {
    let mut world = World::new(&["s1"], start());
    world.run(60);
    let left = *world.hand();
    for secs in [i64::MAX, i64::MIN, 1 << 40] {
        let time = truechimer_time::Instant::new(secs, 0);
        let mut warm =
            World::new(&[], Start { at: world.now, warm: Some(Hand { time, ..left }), ..start() });
        warm.servers.insert(address("s1"), Server { leap: LeapIndicator::Insert, ..HONEST });
        warm.event(Event::Configure(config(&["s1"])));
        warm.run(60);
        let _ = warm.engine.report(warm.now);
    }
}

#[test]
fn the_others_go_on_as_soon_as_a_dead_source_had_its_chance() {
    let mut world = World::new(&[], start());
    world.servers.insert(address("s1"), HONEST);
    let mut slow = config(&["s1", "s2"]);
    // Nothing but its own reply at the start is heard of s1 meanwhile.
    slow.sources[0] = SourceConfig { poll: 1024, burst: false, ..SourceConfig::new("s1") };
    world.event(Event::Configure(slow));
    assert_eq!(world.hand().status, Status::Unknown);
    world.run(9);
    world.assert_true();
}

/// A server whose reply to the first request comes after the second left, with the stamps of the `left`th.
/// Returns how many replies were used, and those that came by the wrong port.
fn late_reply(left: usize) -> (u64, u64) {
    let mut world = World::new(&[], start());
    world.servers.insert(address("s1"), Server { up: false, ..HONEST });
    world.event(Event::Configure(config(&["s1"])));
    world.run(3);
    assert_eq!(world.sent.len(), 2, "the second after 2 s");
    let (first, source) = world.sent[0];
    let stamp = |count| Stamp { count, error: CountSpan(50), method: StampMethod::Kernel };
    world.server("s1").up = true;
    // It reaches the server before the second leaves.
    (world.server("s1").delay, world.server("s1").back) = (1_500_000_000, 1_600_000_000);
    let arrives = first + CountSpan(3_100_000_000);
    world.stamps = Some((stamp(world.sent[left].0), stamp(arrives)));
    world.now = first;
    world.exchange(source, address("s1"), &world.packets[0].clone());
    let report = &world.engine.report(world.now).sources[0];
    (report.accepted, report.refused.get("wrong-port").copied().unwrap_or(0))
}

#[test]
fn a_late_reply_is_heard_and_one_that_came_by_another_requests_port_is_not_used() {
    assert_eq!(late_reply(0), (1, 0));
    assert_eq!(late_reply(1), (0, 1));
}

#[test]
fn one_demand_for_fewer_requests_in_reply_to_all_that_are_under_way_is_one() {
    let mut world = World::new(&[], start());
    world.servers.insert(address("s1"), Server { up: false, ..HONEST });
    world.event(Event::Configure(config(&["s1"])));
    world.run(7);
    assert_eq!(world.sent.len(), 4, "every 2 s");
    let stamp = |count| Stamp { count, error: CountSpan(50), method: StampMethod::Kernel };
    let arrives = world.now;
    (world.server("s1").up, world.server("s1").kiss) = (true, Some(*b"RATE"));
    for place in 0..4 {
        let (sent, source) = world.sent[place];
        world.stamps = Some((stamp(sent), stamp(arrives)));
        world.exchange(source, address("s1"), &world.packets[place].clone());
    }
    let report = |world: &World| world.engine.report(world.now).sources[0].clone();
    let refused = report(&world).refused;
    assert_eq!((refused["kiss-rate"], report(&world).poll), (4, 32), "{refused:?}");
    // To a request that was made since it is another.
    world.stamps = None;
    world.run(40);
    assert_eq!((report(&world).refused["kiss-rate"], report(&world).poll), (5, 64));
}
