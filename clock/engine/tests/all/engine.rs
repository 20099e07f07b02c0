//! The engine as a whole, driven through its events with a made-up network and the truth at hand.

use proptest::prelude::*;
use truechimer_engine::{
    Action, Config, Engine, Event, HostCheck, LeapData, SourceId, SourceStatus, Start, Steer,
    SystemReading,
};
use truechimer_ntp::LeapIndicator;
use truechimer_time::{
    Count, CountSpan, CounterId, Epoch, Leap, Leaps, Period, Rate, Span, Stamp, StampMethod,
};
use truechimer_timehands::{Hand, Status};

use crate::world::{HONEST, ORIGIN, Server, World, address, config, start, truth};

#[test]
fn it_synchronises_with_the_first_reply_and_gets_better() {
    let mut world = World::new(&["s1"], start());
    assert_eq!(world.hands[0].status, Status::Unknown, "nothing is promised before");
    world.assert_true();
    let first = world.hand().bound();
    world.run(600);
    world.assert_true();
    assert!(world.hand().growth < Rate::from_ppb(2_000), "{}", world.hand().growth);
    assert!(world.hand().bound() <= first);
    assert!(world.hand().bound() < Span::from_micros(130), "{}", world.hand().bound());
    let report = world.engine.report(world.now);
    assert_eq!(report.sources[0].status, SourceStatus::Selected);
    assert_eq!(report.sources[0].reach, 0xff);
}

#[test]
fn polls_grow_to_their_interval_and_keep_it() {
    let mut world = World::new(&["s1"], start());
    world.run(600);
    let gaps: Vec<f64> = world.sent.windows(2).map(|w| (w[1].0 - w[0].0).0 as f64 / 1e9).collect();
    assert!(gaps.len() > 40);
    for (k, gap) in gaps.iter().enumerate() {
        let nominal = match k {
            0..7 => 2.0,
            7..10 => 4.0,
            10..23 => 8.0,
            _ => 16.0,
        };
        assert!(*gap <= nominal + 1e-6 && *gap >= nominal * 0.98, "gap {k}: {gap}");
    }
}

#[test]
fn a_lost_server_means_holdover_and_a_growing_bound() {
    let mut world = World::new(&["s1"], start());
    world.run(600);
    world.server("s1").up = false;
    world.run(1800);
    assert_eq!(world.hand().status, Status::Holdover);
    let (error, bound) = (world.error(), world.hand().bound_at(world.now));
    assert!(error.abs() <= bound && bound > Span::from_micros(900), "{error} {bound}");
    assert!(world.hand().void_after.at_or_after(world.now), "renewed meanwhile");
    world.server("s1").up = true;
    world.run(60);
    world.assert_true();
}

#[test]
fn replies_to_nobody_change_nothing() {
    let mut world = World::new(&["s1"], start());
    world.run(100);
    let before = *world.hand();
    let from = address("s1");
    let stamp = |count| Stamp { count, error: CountSpan(50), method: StampMethod::Kernel };
    for n in 0..1000u32 {
        let mut packet = vec![0x24, 2, 4, 0xe7];
        packet.resize(48, n as u8);
        let (sent, received) = (stamp(world.now), stamp(world.now + CountSpan(9)));
        world.event(Event::Reply { source: SourceId(0), from, sent, received, packet });
    }
    assert_eq!(*world.hand(), before);
    assert_eq!(world.engine.report(world.now).sources[0].refused["wrong-origin"], 1000);
}

#[test]
fn reconfiguring_keeps_what_was_learnt() {
    let mut world = World::new(&["s1"], start());
    world.run(600);
    let (accepted, growth) =
        (world.engine.report(world.now).sources[0].accepted, world.hand().growth);
    let mut new = config(&["s1"]);
    new.sources[0].poll = 4;
    world.event(Event::Configure(new));
    world.run(60);
    let report = world.engine.report(world.now);
    assert!(report.sources[0].accepted >= accepted + 10);
    assert!(world.hand().growth <= growth);
    world.assert_true();
}

#[test]
fn a_jump_of_the_counter_voids_the_bound_until_the_next_reply() {
    let mut world = World::new(&["s1"], start());
    world.run(100);
    world.server("s1").up = false;
    let epoch = world.hand().counter.epoch;
    // The raw clock did not jump with the counter.
    let jumped = world.now + CountSpan(5_000_000_000);
    let raw_ns = world.now.0 as i64;
    world.now = jumped;
    world.event(Event::Check(HostCheck {
        count: jumped,
        raw_ns,
        suspended_ns: 0,
        width: CountSpan(0),
    }));
    assert_eq!(world.hand().status, Status::Disrupted);
    assert_eq!(world.hand().counter.epoch, Epoch(epoch.0 + 1));
    assert!(world.engine.report(world.now).reason.contains("jumped"));
    world.server("s1").up = true;
    // From here on raw clock and counter agree again, at another distance.
    world.event(Event::Timer);
    for _ in 0..5 {
        world.now = world.now + CountSpan(1_000_000_000);
        world.event(Event::Timer);
    }
    world.assert_true();
}

#[test]
fn a_break_that_the_caller_knows_of_is_one_break() {
    for jump in [9_000_000_000, -9_000_000_000] {
        let mut world = World::new(&["s1"], start());
        world.run(100);
        world.server("s1").up = false;
        let epoch = world.hand().counter.epoch;
        let before = world.now;
        world.now = world.now + CountSpan(jump);
        world.event(Event::Disruption { reason: "the counter rolled over unseen".into() });
        let check = |count: Count| HostCheck {
            count,
            raw_ns: (count.0 as i64).wrapping_sub(jump),
            suspended_ns: 0,
            width: CountSpan(0),
        };
        world.event(Event::Check(check(world.now)));
        assert_eq!(world.hand().status, Status::Disrupted);
        assert_eq!(world.hand().counter.epoch, Epoch(epoch.0 + 1), "by {jump} from {before:?}");
        // What breaks after that breaks again.
        world.now = world.now + CountSpan(1_000_000_000);
        world.event(Event::Check(HostCheck { raw_ns: 0, ..check(world.now) }));
        assert_eq!(world.hand().counter.epoch, Epoch(epoch.0 + 2));
    }
}

#[test]
fn a_suspend_and_a_step_back_are_seen() {
    let mut world = World::new(&["s1"], start());
    world.run(10);
    let check = |w: &World, s| HostCheck {
        count: w.now,
        raw_ns: w.now.0 as i64,
        suspended_ns: s,
        width: CountSpan(0),
    };
    let suspended = check(&world, 3_000_000_000);
    world.event(Event::Check(suspended));
    assert!(world.hands.iter().any(|h| h.status == Status::Disrupted));
    let epoch = world.hand().counter.epoch;
    world.now = Count(17);
    world.event(Event::Timer);
    assert!(world.hand().counter.epoch > epoch);
}

#[test]
fn a_warm_start_holds_the_old_word_until_a_new_one() {
    let mut world = World::new(&["s1"], start());
    world.run(600);
    let left = *world.hand();
    let at = world.now + CountSpan(5_000_000_000);
    let mut warm = World::new(&[], Start { at, warm: Some(left), seed: [1; 32], ..start() });
    assert_eq!(warm.hand().status, Status::Holdover);
    assert!((warm.hand().time_at(at) - truth(at)).abs() < warm.hand().bound_at(at));
    warm.servers.insert(address("s1"), HONEST);
    warm.event(Event::Configure(config(&["s1"])));
    warm.assert_true();
    assert!(warm.hand().growth < Rate::from_ppb(10_000), "the rate is known from the start");
    // A hand of another epoch is no start at all.
    let other = Start { at, warm: Some(left), ..start() };
    let other = Start { counter: CounterId { epoch: Epoch(9), ..other.counter }, ..other };
    assert_eq!(World::new(&[], other).hand().status, Status::Unknown);
}

#[test]
fn a_saved_rate_is_taken_if_it_fits() {
    let mut world = World::new(&["s1"], start());
    world.run(600);
    let saved = world.engine.saved(world.now).unwrap();
    let again = |saved| {
        let mut world = World::new(&["s1"], Start { saved: Some(saved), ..start() });
        world.run(1);
        world.hand().growth
    };
    assert!(again(saved.clone()) < Rate::from_ppb(100_000));
    let foreign = truechimer_engine::Saved { counter: "tsc".into(), ..saved.clone() };
    assert!(again(foreign) > Rate::from_ppb(400_000));
    let far = truechimer_engine::Saved { period: Period::from_hz(900_000_000), ..saved };
    assert!(again(far) > Rate::from_ppb(400_000));
}

#[test]
fn the_system_clock_is_steered_only_if_asked() {
    for discipline in [false, true] {
        let mut world = World::new(&["s1"], start());
        let wanted = Config { discipline, ..config(&["s1"]) };
        world.event(Event::Configure(wanted));
        let mut system = Span::from_secs(3);
        let (mut frequency, mut told) = (Rate::ZERO, None);
        for _ in 0..60 {
            world.run(1);
            let unix_ns = ORIGIN * 1_000_000_000 + world.now.0 as i64 + system.as_nanos() as i64;
            let raw_ns = world.now.0 as i64;
            world.event(Event::SystemClock(SystemReading {
                count: world.now,
                unix_ns,
                raw_ns,
                frequency: None,
            }));
            for steer in world.steers.drain(..) {
                match steer {
                    Steer::Step(by) => system += by,
                    Steer::Frequency(f) => frequency = f,
                    Steer::Tell(word) => told = Some(word),
                }
            }
            system += frequency.over(Span::from_secs(1)) + Span::from_micros(80);
        }
        world.event(Event::Stop);
        assert_eq!(world.steers.is_empty(), !discipline, "a slew ends with the daemon");
        if discipline {
            assert!(system.abs() < Span::from_micros(100), "{system}");
            let word = told.expect("the kernel is told");
            assert!(word.max_error.is_some_and(|bound| bound > system.abs()), "{word:?}");
        } else {
            assert!(system > Span::from_secs(3));
        }
        world.assert_true();
    }
}

#[test]
fn a_system_clock_beyond_a_leap_second_is_stepped_by_what_it_shows() {
    let day = 86_400;
    // The one to come is a day away, the last was a day ago.
    let known = Leaps {
        tai_offset: 37,
        known: true,
        last: Some(Leap { at: ORIGIN - day + 37, step: 1 }),
        next: Some(Leap { at: ORIGIN + day + 38, step: 1 }),
    };
    for wrong_by in [-2 * day, 2 * day, 5] {
        let mut world = World::new(&["s1"], Start { leaps: known, ..start() });
        world.leaps = known;
        world.event(Event::Configure(Config { discipline: true, ..config(&["s1"]) }));
        world.run(60);
        let right_ns = {
            let hand = world.hand();
            hand.leaps.utc(hand.time_at(world.now)).unix_nanos() as i64
        };
        let unix_ns = right_ns + wrong_by * 1_000_000_000;
        let raw_ns = world.now.0 as i64;
        world.steers.clear();
        let reading = SystemReading { count: world.now, unix_ns, raw_ns, frequency: None };
        world.event(Event::SystemClock(reading));
        let step = world.steers.iter().find_map(|steer| match steer {
            Steer::Step(by) => Some(by.as_nanos_i64()),
            _ => None,
        });
        // To the nanosecond, which the system clock is read in.
        let off = step.map(|step| step + wrong_by * 1_000_000_000);
        assert!(off.is_some_and(|off| off.abs() <= 1), "set by {wrong_by} s: {step:?}");
    }
}

#[test]
fn the_log_replays_to_the_last_bit() {
    let mut world = World::new(&["s1", "s2"], start());
    world.run(300);
    world.server("s2").up = false;
    world.event(Event::Disruption { reason: "test".into() });
    world.event(Event::Configure(config(&["s2", "s3"])));
    world.run(100);
    let text: Vec<String> =
        world.log.iter().map(|entry| serde_json::to_string(entry).unwrap()).collect();
    let (mut engine, first) = Engine::new(config(&["s1", "s2"]), start());
    let mut hands = Vec::new();
    let mut keep = |actions: Vec<Action>| {
        hands.extend(actions.into_iter().filter_map(|a| match a {
            Action::Publish(hand) => Some(hand),
            _ => None,
        }));
    };
    keep(first);
    for line in &text {
        let (at, event): (Count, Event) = serde_json::from_str(line).unwrap();
        keep(engine.handle(at, event));
    }
    hands.sort_by_key(|h| h.base.0);
    let mut live = world.hands.clone();
    live.sort_by_key(|h| h.base.0);
    assert_eq!(hands, live);
    let json = serde_json::to_string(&live).unwrap();
    assert_eq!(serde_json::from_str::<Vec<Hand>>(&json).unwrap(), live);
}

#[test]
fn leaps_to_come_are_learnt_and_the_scale_stays() {
    let mut world = World::new(&["s1"], start());
    world.run(60);
    let next = Some(Leap { at: ORIGIN + 5_000, step: 1 });
    world.event(Event::Leaps(Leaps { next, ..Leaps::default() }.into()));
    assert_eq!(world.hand().leaps.next, next);
    let elsewhere = Leaps { tai_offset: 37, known: true, ..Leaps::default() };
    world.event(Event::Leaps(elsewhere.into()));
    assert_eq!(world.hand().leaps.tai_offset, 0);
    world.run(60);
    world.assert_true();
}

#[test]
fn a_leap_second_that_the_servers_announce_is_none_of_a_surprise() {
    // An hour before 2027-02-01T00:00:00 UTC; a second is inserted there.
    let midnight = 1_801_440_000;
    let leap = Leap { at: midnight + 1, step: 1 };
    let at = Count((midnight - 3600 - ORIGIN) as u64 * 1_000_000_000);
    let mut world = World::new(&[], Start { at, ..start() });
    world.leaps.next = Some(leap);
    world.servers.insert(address("s1"), Server { leap: LeapIndicator::Insert, ..HONEST });
    world.event(Event::Configure(config(&["s1"])));
    world.run(3000);
    assert_eq!(world.hand().leaps.next, Some(leap));
    for _ in 0..1200 {
        world.run(1);
        world.assert_true();
        let ours = world.hand().leaps.utc(world.hand().time_at(world.now));
        let true_utc = world.leaps.utc(truth(world.now));
        assert!((ours.unix_nanos() - true_utc.unix_nanos()).abs() < 1_000_000);
        assert_eq!(ours.leap_second, true_utc.leap_second);
    }
    assert_eq!((world.hand().leaps.last, world.hand().leaps.next), (Some(leap), None));
}

#[test]
fn a_list_is_right_whatever_the_servers_announce() {
    for has_list in [true, false] {
        let leaps_until = if has_list { i64::MAX } else { 0 };
        let mut world = World::new(&[], Start { leaps_until, ..start() });
        let hosts = ["s1", "s2", "s3"];
        for host in hosts {
            let server = Server { leap: LeapIndicator::Insert, ..HONEST };
            world.servers.insert(address(host), server);
        }
        world.event(Event::Configure(config(&hosts)));
        world.run(600);
        assert_eq!(world.hand().leaps.next.is_some(), !has_list);
        let said = world.notes.iter().filter(|note| note.contains("that our list has not")).count();
        assert_eq!(said, usize::from(has_list), "{:?}", world.notes);
        // A list that comes later takes the announcement back.
        world.event(Event::Leaps(LeapData { until: i64::MAX, ..LeapData::default() }));
        world.run(60);
        assert_eq!(world.hand().leaps.next, None);
    }
}

#[test]
fn a_period_that_is_none_is_not_read() {
    let good = serde_json::to_string(&Period::NANOSECOND).unwrap();
    assert_eq!(serde_json::from_str::<Period>(&good).unwrap(), Period::NANOSECOND);
    for bad in [r#"{"mantissa":0,"shift":0}"#, r#"{"mantissa":9903520314283042199,"shift":64}"#] {
        let error = serde_json::from_str::<Period>(bad).unwrap_err().to_string();
        assert!(error.contains("mantissa"), "{error}");
    }
}

fn any_stamp() -> impl Strategy<Value = Stamp> {
    (any::<u64>(), any::<i64>()).prop_map(|(count, error)| Stamp {
        count: Count(count),
        error: CountSpan(error),
        method: StampMethod::User,
    })
}

fn any_event() -> impl Strategy<Value = Event> {
    let source = (0u32..4).prop_map(SourceId);
    prop_oneof![
        Just(Event::Timer),
        Just(Event::Stop),
        (source.clone(), any::<bool>()).prop_map(|(source, ok)| Event::Resolved {
            source,
            result: if ok { Ok(vec![address("s1"), address("s2")]) } else { Err("x".into()) },
        }),
        (source.clone(), any_stamp(), any_stamp(), prop::collection::vec(any::<u8>(), 0..80))
            .prop_map(|(source, sent, received, packet)| Event::Reply {
                source,
                from: address("s1"),
                sent,
                received,
                packet
            }),
        source.prop_map(|source| Event::Undelivered { source, error: "e".into() }),
        any::<(u64, i64, i64, i64)>().prop_map(|(count, raw_ns, suspended_ns, width)| {
            let (count, width) = (Count(count), CountSpan(width));
            Event::Check(HostCheck { count, raw_ns, suspended_ns, width })
        }),
        Just(Event::Disruption { reason: "d".into() }),
        Just(Event::Configure(config(&["s1", "s3"]))),
        (any::<u64>(), any::<i64>(), any::<i64>()).prop_map(|(count, unix_ns, raw_ns)| {
            Event::SystemClock(SystemReading {
                count: Count(count),
                unix_ns,
                raw_ns,
                frequency: None,
            })
        }),
    ]
}

proptest! {
    /// Whatever happens, in whatever order, nothing panics and no unsynchronised clock claims a
    /// bound.
    #[test]
    fn no_events_whatever_panic(events in prop::collection::vec((any::<u64>(), any_event()), 0..60)) {
        let mut wanted = config(&["s1", "s2"]);
        wanted.discipline = true;
        let (mut engine, _) = Engine::new(wanted, start());
        for (at, event) in events {
            let at = Count(at);
            let actions = engine.handle(at, event);
            prop_assert!(actions.len() < 100);
            let _ = engine.next_deadline();
            let _ = engine.report(at);
            let _ = engine.saved(at);
        }
    }

    /// Good replies with stamps out of nowhere: nothing panics, and once the stamps are true again
    /// so is the clock, or it says that it is not.
    #[test]
    fn hostile_stamps_do_not_panic(stamps in prop::collection::vec((any_stamp(), any_stamp()), 1..20)) {
        let mut world = World::new(&["s1"], start());
        world.run(20);
        for hostile in stamps {
            world.stamps = Some(hostile);
            world.run(17);
            let _ = world.engine.report(world.now);
        }
    }
}
