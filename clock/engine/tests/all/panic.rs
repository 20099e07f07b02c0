//! Limits to how far servers may move the time by themselves, and how few of them.

use crate::world::again::{MS, again, begun, begun_with, left, off, selections};
use crate::world::{self, HONEST, ORIGIN, Server, World, address, config, start};
use truechimer_engine::{
    Config, Engine, Event, HostCheck, ReasonKind, RtcReading, Saved, SourceId, SourceReport,
    SourceStatus, Start,
};
use truechimer_time::{Count, CountSpan, Epoch, Span};
use truechimer_timehands::Status;

const TEN_YEARS: Span = Span::from_secs(315_576_000);
const HOUR: Span = Span::from_secs(3600);
const GONE: Server = Server { up: false, ..HONEST };

/// A real-time clock in UTC.
fn reading(count: Count, unix: i64, system: Option<i64>) -> RtcReading {
    RtcReading { count, unix, system, may_be_local: false }
}

fn by(offset: Span) -> Server {
    Server { offset, ..HONEST }
}

/// Three servers that have been followed for so long.
fn three(seconds: i64) -> World {
    let mut world = World::new(&["s1", "s2", "s3"], start());
    world.run(seconds);
    world.assert_true();
    world
}

fn all(world: &mut World, offset: Span) {
    for host in ["s1", "s2", "s3"] {
        world.server(host).offset = offset;
    }
}

fn reason(world: &World) -> String {
    world.engine.report(world.now).reason
}

/// The clock stands where it stood, says so, and its bound covers both.
fn stands(world: &World, offset: Span) {
    let (error, bound) = (world.error(), world.hand().bound_at(world.now));
    assert_eq!(world.hand().status, Status::Holdover, "{}", reason(world));
    assert!(error.abs() < MS(20), "moved by {error}");
    assert!(error.abs() <= bound && (error - offset).abs() <= bound, "{error} ± {bound}");
    assert!(world.hand().undisputed_bound() < MS(40), "{:?}", world.hand());
    names_remedies(&reason(world));
}

fn names_remedies(text: &str) {
    assert!(text.contains("truechimer accept s"), "{text}");
    assert!(text.contains("truechimer run --fresh"), "{text}");
}

fn source(world: &World, name: &str) -> SourceId {
    world.engine.acceptable(Some(name), world.now).unwrap()
}

/// (They were believed after two replies each: ± 0.4 ms, "the counter jumped".)
#[test]
fn no_number_of_servers_moves_the_time_by_ten_years() {
    for offset in [TEN_YEARS, -TEN_YEARS, Span::from_secs(86_400), Span::from_secs(1100)] {
        let mut world = three(600);
        all(&mut world, offset);
        world.run(120);
        stands(&world, offset);
        let why = reason(&world);
        assert!(why.contains("max-step (1000.000 s)"), "{why}");
        assert!(world.notes.iter().all(|note| !note.contains("jumped")), "{:?}", world.notes);
        let told = world.notes.iter().filter(|note| note.contains("max-step")).count();
        assert!((1..=4).contains(&told), "{:?}", world.notes);
        let report = world.engine.report(world.now);
        for source in &report.sources {
            names_remedies(source.trouble.as_ref().unwrap());
            let doubt = source.reason.clone().unwrap();
            assert_eq!((doubt.kind, doubt.left), (ReasonKind::StepSuspected, None));
        }
        // Each estimator has given in by itself after an hour: the clock has not.
        for _ in 0..4 {
            world.run(3600);
            stands(&world, offset);
        }
        assert!(reason(&world).starts_with("held off for 3 h 51 min: s"), "{}", reason(&world));
        let report = world.engine.report(world.now);
        let doubt = report.sources[0].reason.clone().unwrap();
        assert_eq!(doubt.kind, ReasonKind::MaxStep);
        assert!((doubt.by.unwrap() - offset).abs() < Span::from_secs(1), "{doubt:?}");
        assert_eq!(report.sources[0].status, SourceStatus::Truechimer);
        // Right again, they are used at once.
        all(&mut world, Span::ZERO);
        world.run(60);
        world.assert_true();
        assert!(world.hand().bound() < MS(5) && world.hand().disputed < MS(1));
        world.run(1200);
        world.assert_true();
        assert_eq!(world.hand().disputed, Span::ZERO);
    }
}

#[test]
fn a_lone_server_moves_it_no_further() {
    let mut world = World::new(&["s1"], start());
    world.run(600);
    world.server("s1").offset = Span::from_secs(2000);
    for _ in 0..100 {
        world.run(100);
        stands(&world, Span::from_secs(2000));
    }
    world.server("s1").offset = Span::ZERO;
    world.run(40);
    world.assert_true();
    world.run(7200);
    // Within the limit it is as it was.
    world.server("s1").offset = Span::from_secs(900);
    world.run(3500);
    stands(&world, Span::from_secs(900));
    world.run(200);
    assert_eq!(world.hand().status, Status::Synchronised);
    assert!((world.error() - Span::from_secs(900)).abs() < MS(1));
    // But the next such step would be too far, with the first.
    world.server("s1").offset = Span::from_secs(1800);
    world.run(4000);
    assert!((world.error() - Span::from_secs(900)).abs() < MS(10), "{}", world.error());
    assert!(reason(&world).contains("max-step"), "{}", reason(&world));
    // Backwards is no way around it: what counts is where the time stands by now.
    world.server("s1").offset = Span::from_secs(0);
    world.run(4000);
    world.assert_true();
}

/// By 500 ppm at the most, and no faster than a lone server.
#[test]
fn how_long_a_common_move_is_held_depends_on_its_size() {
    for (offset, least, most) in [
        (MS(10), 10, 60),
        (MS(-100), 190, 240),
        (Span::from_secs(1), 1990, 2040),
        (Span::from_secs(500), 3590, 3640),
    ] {
        let mut world = three(7200);
        all(&mut world, offset);
        let mut held = 0;
        let there = |world: &World| (world.error() - offset).abs() < MS(1);
        while !there(&world) && held < 5000 {
            world.run(10);
            held += 10;
            let (error, bound) = (world.error(), world.hand().bound_at(world.now));
            // The last seconds before the first has been asked apart.
            assert!(held <= 20 || (error - offset).abs() <= bound, "{error} ± {bound}");
            assert!(there(&world) || error.abs() < MS(5), "{error}");
        }
        assert!((least..=most).contains(&held), "{offset}: {held} s");
        assert_eq!(world.hand().status, Status::Synchronised);
        assert!(world.hand().bound() < MS(1), "{:?}", world.hand());
    }
}

/// A server that is hardly known, or was wrong all along, is believed before those that are known
/// for hours. It takes nothing along: where these come to say the same, they are held off as
/// ever. (The clock went along at once, or as soon as the one was believed.)
#[test]
fn one_that_is_believed_sooner_takes_no_time_along() {
    let offset = Span::from_secs(900);
    // What s1 is for the first two hours, and then for so long.
    let cases: [(Server, Server, i64, &[&str]); 5] = [
        (GONE, HONEST, 150, &["s1", "s2", "s3"]),
        (GONE, HONEST, 150, &["s1", "s2"]),
        (by(offset), by(offset), 150, &["s1", "s2", "s3"]),
        (by(offset), by(offset), 150, &["s1", "s2", "s3", "s4", "s5"]),
        (HONEST, by(offset), 5000, &["s1", "s2", "s3"]),
    ];
    for (n, (before, then, seconds, hosts)) in cases.into_iter().enumerate() {
        let servers: Vec<_> = hosts.iter().map(|host| (*host, HONEST)).collect();
        let mut world = begun(start(), &servers);
        *world.server("s1") = before;
        world.run(7200);
        *world.server("s1") = then;
        world.run(seconds);
        world.assert_true();
        for host in hosts {
            world.server(host).offset = offset;
        }
        world.run(3500);
        stands(&world, offset);
        world.run(200);
        assert_eq!(world.hand().status, Status::Synchronised, "{n}: {}", reason(&world));
        assert!((world.error() - offset).abs() < MS(5), "{n}: {}", world.error());
    }
}

fn read_rtc(world: &mut World, ahead: Span) {
    let unix = ((world::truth(world.now) + ahead).secs()) - 1;
    world.event(Event::Rtc(reading(world.now, unix, None)));
}

/// Reads it beside a system clock that is so far ahead of the truth.
fn read_rtc_beside(world: &mut World, ahead: Span, system: Span) {
    let unix = |ahead: Span| (world::truth(world.now) + ahead).secs() - 1;
    let (unix, system) = (unix(ahead), Some(unix(system)));
    world.event(Event::Rtc(reading(world.now, unix, system)));
}

/// Another daemon follows the same servers and sets the system clock, which the kernel writes to
/// the real-time clock.
#[test]
fn a_real_time_clock_that_is_set_vouches_for_nobody() {
    let (far, zero) = (Span::from_secs(3 * 86_400), Span::ZERO);
    for (system, believed) in [(far, false), (zero, true)] {
        let mut world = three(600);
        read_rtc_beside(&mut world, zero, zero);
        all(&mut world, far);
        world.run(100);
        stands(&world, far);
        // Set already, and the real-time clock not yet.
        read_rtc_beside(&mut world, zero, system);
        world.run(100);
        stands(&world, far);
        read_rtc_beside(&mut world, far, system);
        world.run(100);
        assert_eq!(world.hand().status == Status::Synchronised, believed, "{}", reason(&world));
        assert_eq!((world.error() - far).abs() < MS(1), believed, "{}", world.error());
    }
}

/// A virtual machine that was restored from a snapshot: its counter stood still, and its kernel's
/// clocks with it. The hypervisor's real-time clock did not.
#[test]
fn a_real_time_clock_that_moves_as_well_vouches_for_them() {
    for (hosts, offset) in [(&["s1", "s2", "s3"][..], Span::from_secs(3 * 86_400)), (&["s1"], HOUR)]
    {
        let mut world = World::new(hosts, start());
        world.run(600);
        // It may be wrong by itself.
        read_rtc(&mut world, Span::from_secs(-77));
        world.run(60);
        for host in hosts {
            world.server(host).offset = offset;
        }
        world.run(100);
        stands(&world, offset);
        read_rtc(&mut world, offset - Span::from_secs(77));
        world.run(40);
        assert_eq!(world.hand().status, Status::Synchronised, "{}", reason(&world));
        assert!((world.error() - offset).abs() < MS(1), "{}", world.error());
        assert!(world.notes.iter().any(|note| note.contains("jumped")), "{:?}", world.notes);
        // It does not count as the servers' doing.
        assert_eq!(world.engine.saved(world.now).unwrap().moved, Span::ZERO);
    }
    // One that has not, or elsewhere, does not.
    for ahead in [Span::ZERO, HOUR, Span::from_secs(-86_400)] {
        let mut world = three(600);
        read_rtc(&mut world, Span::ZERO);
        all(&mut world, Span::from_secs(86_400));
        world.run(100);
        read_rtc(&mut world, ahead);
        world.run(100);
        stands(&world, Span::from_secs(86_400));
    }
}

/// (It was believed alone: ± 0.4 ms after four seconds.)
#[test]
fn a_liar_alone_among_the_silent_is_not_believed() {
    let servers = [("s1", GONE), ("s2", GONE), ("s3", by(HOUR))];
    let mut world = begun(start(), &servers);
    for _ in 0..40 {
        world.run(200);
        assert_eq!(world.engine.hand().status, Status::Unknown);
    }
    let why = reason(&world);
    assert!(
        why.starts_with("held off for 2 h 12 min: s3:123: only 1 of min-sources = 2 says so"),
        "{why}"
    );
    assert!(why.contains("truechimer accept s3:123"), "{why}");
    let told = world.notes.iter().filter(|note| note.contains("min-sources")).count();
    assert_eq!(told, 1, "{:?}", world.notes);
    // `sources` says so too. (It was said to agree, and no more.)
    let report = world.engine.report(world.now);
    assert_eq!(report.sources[2].reason.clone().unwrap().kind, ReasonKind::MinSources);
    let trouble = report.sources[2].trouble.as_ref().unwrap();
    assert!(trouble.contains("truechimer accept s3:123"), "{trouble}");
    // The others come back: then it is outvoted.
    for host in ["s1", "s2"] {
        world.server(host).up = true;
    }
    world.run(1200);
    world.assert_true();
}

#[test]
fn how_many_must_agree_can_be_told() {
    let servers = [("s1", GONE), ("s2", HONEST), ("s3", HONEST)];
    for (least, good) in [(None, true), (Some(1), true), (Some(2), true), (Some(3), false)] {
        let config = Config { min_sources: least, ..config(&["s1", "s2", "s3"]) };
        let mut world = begun_with(config, start(), &servers);
        world.run(600);
        assert_eq!(world.engine.hand().status == Status::Synchronised, good, "{least:?}");
    }
    // One that is only watched is none of them, and neither is another name of one.
    let servers = [("s1", GONE), ("s2", HONEST), ("s3", HONEST)];
    let mut watched = config(&["s1", "s2", "s3", "host2", "host4"]);
    watched.sources[2].no_select = true;
    let mut world = begun_with(watched, start(), &servers);
    world.run(600);
    assert_eq!(world.engine.hand().status, Status::Unknown, "{}", reason(&world));
}

/// Of servers that agreed the last one to answer keeps the clock, but does not move it.
#[test]
fn the_last_one_left_goes_on_and_moves_nothing() {
    let mut world = three(3600);
    *world.server("s1") = GONE;
    *world.server("s2") = GONE;
    for _ in 0..10 {
        world.run(1000);
        world.assert_true();
    }
    world.server("s3").offset = MS(200);
    for _ in 0..5 {
        world.run(3600);
        stands(&world, MS(200));
        let why = reason(&world);
        assert!(why.contains("only 1 of min-sources = 2 says so"), "{why}");
    }
    // The others come back, and say the same: it was so.
    for host in ["s1", "s2"] {
        *world.server(host) = off(200);
    }
    world.run(600);
    assert_eq!(world.hand().status, Status::Synchronised, "{}", reason(&world));
    assert!((world.error() - MS(200)).abs() < MS(1), "{}", world.error());
}

/// Servers left alone do not announce a leap second either.
#[test]
fn one_of_three_announces_no_leap_second() {
    let mut world = three(3600);
    *world.server("s1") = GONE;
    *world.server("s2") = GONE;
    world.run(4000);
    world.server("s3").leap = truechimer_ntp::LeapIndicator::Insert;
    world.run(600);
    assert_eq!(world.hand().leaps.next, None);
    let mut world = three(3600);
    for host in ["s1", "s2", "s3"] {
        world.server(host).leap = truechimer_ntp::LeapIndicator::Insert;
    }
    world.run(600);
    assert!(world.hand().leaps.next.is_some());
}

#[test]
fn the_users_word_is_final() {
    // What is too far.
    let mut world = three(600);
    all(&mut world, TEN_YEARS);
    world.run(120);
    assert!(world.engine.acceptable(None, world.now).unwrap_err().starts_with("which one?"));
    let s2 = source(&world, "s2:123");
    assert_eq!(world.engine.acceptable(Some("s2"), world.now), Ok(s2));
    world.event(Event::Accept { source: s2 });
    assert!(world.notes.iter().any(|note| note.starts_with("s2:123: accepted by the user")));
    world.run(60);
    assert_eq!(world.hand().status, Status::Synchronised, "{}", reason(&world));
    assert!((world.error() - TEN_YEARS).abs() < MS(1) && world.hand().bound() < MS(1));
    // It leaves nothing held, and the next move is held as any.
    assert!(world.engine.acceptable(None, world.now).is_err());
    all(&mut world, Span::ZERO);
    world.run(120);
    assert!((world.error() - TEN_YEARS).abs() < MS(20), "{}", world.error());

    // One of which there are too few.
    let mut world = begun(start(), &[("s1", GONE), ("s2", GONE), ("s3", HONEST)]);
    world.run(20);
    let s3 = source(&world, "s3");
    world.event(Event::Accept { source: s3 });
    world.run(600);
    world.assert_true();

    // One of two that disagree, and a lone one within its hour.
    let mut world = begun(start(), &[("s1", HONEST), ("s2", off(300))]);
    world.run(600);
    assert_eq!(world.engine.hand().status, Status::Unknown);
    let s1 = source(&world, "s1");
    world.event(Event::Accept { source: s1 });
    world.run(60);
    world.assert_true();
    let why = world.engine.report(world.now).sources[1].reason.clone().unwrap().text;
    assert!(why.contains("contradicts the one that you have accepted"), "{why}");
    world.server("s2").offset = Span::ZERO;
    world.run(600);
    let part = world.engine.report(world.now).sources[1].status;
    assert!(matches!(part, SourceStatus::Combined | SourceStatus::Selected), "{part:?}");
    let mut world = World::new(&["s1"], start());
    world.run(7200);
    world.server("s1").offset = MS(150);
    world.run(60);
    names_remedies(&world.engine.report(world.now).reason);
    let only = world.engine.acceptable(None, world.now).unwrap();
    world.event(Event::Accept { source: only });
    world.run(20);
    assert_eq!(world.hand().status, Status::Synchronised);
    assert!((world.error() - MS(150)).abs() < MS(1), "{}", world.error());

    for (name, says) in [("s9", "no such server"), ("", "no such server")] {
        let why = world.engine.acceptable(Some(name), world.now).unwrap_err();
        assert!(why.contains(says) && why.contains("s1:123"), "{why}");
    }
    world.event(Event::Accept { source: SourceId(99) });
}

/// A start with this real-time clock (so far off), saved state (so long ago) and release date.
fn first(offset: Span, rtc: Option<Span>, built: i64, servers: &[(&str, Server)]) -> World {
    let at = start().at;
    let unix = |ahead: Span| (world::truth(at) + ahead).secs();
    first_by(offset, rtc.map(|ahead| reading(at, unix(ahead), None)), built, servers)
}

fn first_by(
    offset: Span,
    rtc: Option<RtcReading>,
    built: i64,
    servers: &[(&str, Server)],
) -> World {
    let servers: Vec<(&str, Server)> =
        servers.iter().map(|(name, server)| (*name, Server { offset, ..*server })).collect();
    let mut world = begun(Start { rtc, built, ..start() }, &servers);
    world.run(60);
    world
}

#[test]
fn a_first_time_must_be_plausible() {
    let year = Span::from_secs(31_557_600);
    let built = ORIGIN - 31_557_600;
    let one = [("s1", HONEST)];
    let good = |world: &World| world.engine.hand().status == Status::Synchronised;
    // Before the release.
    let world = first(year * -2, None, built, &one);
    assert!(!good(&world));
    let why = reason(&world);
    assert!(why.contains("before this program was released (in 2026-01)"), "{why}");
    assert!(!good(&first(year * -2, None, built, &[("s1", HONEST), ("s2", HONEST)])));
    assert!(good(&first(year * -2, None, 0, &one)), "unknown");
    // Far from the real-time clock: one does not, two do.
    let world = first(HOUR, Some(Span::ZERO), built, &one);
    assert!(!good(&world));
    let why = reason(&world);
    assert!(why.contains("off the machine's real-time clock; to believe it now: tru"), "{why}");
    assert!(world.notes.iter().filter(|note| note.contains("real-time")).count() == 1);
    assert!(good(&first(HOUR, Some(Span::ZERO), built, &[("s1", HONEST), ("s2", HONEST)])));
    assert!(good(&first(Span::from_secs(900), Some(Span::ZERO), built, &one)));
    // A machine without one, or whose battery is empty, starts all the same.
    assert!(good(&first(HOUR, None, built, &one)));
    assert!(good(&first(HOUR, Some(Span::from_secs(-ORIGIN)), built, &one)), "1970");
    assert!(good(&first(HOUR, Some(year * -20), built, &one)), "2007");
    // Before the saved state.
    let (mut before, ..) = left(&one);
    let saved = before.engine.saved(before.now);
    for (offset, is_good) in [(HOUR * -2, false), (Span::ZERO, true), (year, true)] {
        let at = before.now;
        let again = Start { at, saved: saved.clone(), built, ..start() };
        let mut world = begun(again, &[("s1", by(offset))]);
        world.run(60);
        assert_eq!(good(&world), is_good, "{offset}: {}", reason(&world));
    }
    // The user has the last word here too.
    before = first(year * -2, None, built, &one);
    let s1 = source(&before, "s1");
    before.event(Event::Accept { source: s1 });
    assert!(good(&before));
    before.run(600);
    assert!(good(&before));
}

/// After a break the kernel's clocks say how much time has passed.
#[test]
fn a_break_of_the_counter_is_no_way_around_it() {
    let suspended = |world: &mut World, seconds: i64| {
        let check = HostCheck {
            count: world.now,
            raw_ns: world.now.0 as i64,
            suspended_ns: seconds * 1_000_000_000,
            width: CountSpan(0),
        };
        world.event(Event::Check(check));
    };
    // The servers have moved on by as much as the suspend took, or not.
    for (slept, offset, good) in [
        (7200, Span::from_secs(7200), true),
        (7200, Span::from_secs(7205), true),
        (7200, TEN_YEARS, false),
        (7200, Span::ZERO, false),
    ] {
        let mut world = three(600);
        suspended(&mut world, slept);
        assert_eq!(world.engine.hand().status, Status::Disrupted);
        all(&mut world, offset);
        // Later checks count from there.
        for _ in 0..60 {
            world.event(Event::Timer);
            world.now = world.now + CountSpan(1_000_000_000);
            suspended(&mut world, slept);
        }
        let status = world.engine.hand().status;
        assert_eq!(status == Status::Synchronised, good, "{offset}: {}", reason(&world));
        if !good {
            assert_eq!(status, Status::Disrupted);
            let why = reason(&world);
            assert!(why.contains("the kernel's clocks say has passed"), "{why}");
        }
    }
}

/// A break that is not found by the host's clocks, and is known before they are read again. (What
/// several servers said then was believed at once, whatever it was.)
#[test]
fn neither_is_one_that_the_caller_knows_of() {
    for (offset, good) in [(Span::ZERO, true), (Span::from_secs(5), true), (TEN_YEARS, false)] {
        let mut world = three(600);
        all(&mut world, offset);
        world.event(Event::Disruption { reason: "another clocksource".into() });
        world.event(Event::Timer);
        assert_eq!(world.engine.hand().status, Status::Disrupted, "{}", reason(&world));
        // They need not be asked again once it is known how much time has passed.
        world.run(2);
        let status = world.engine.hand().status;
        assert_eq!(status == Status::Synchronised, good, "{offset}: {}", reason(&world));
        world.run(600);
        let status = world.engine.hand().status;
        assert_eq!(status == Status::Synchronised, good, "{offset}: {}", reason(&world));
    }
}

/// (The one that was accepted was too few, and the others had no vote: for ever.)
#[test]
fn whoever_agrees_by_now_counts_after_a_break_too() {
    let mut world = begun(start(), &[("s1", HONEST), ("s2", off(300)), ("s3", off(300))]);
    world.run(600);
    let s1 = source(&world, "s1");
    world.event(Event::Accept { source: s1 });
    world.run(60);
    world.assert_true();
    world.event(Event::Disruption { reason: "another clocksource".into() });
    world.run(600);
    assert_eq!(world.engine.hand().status, Status::Disrupted, "{}", reason(&world));
    all(&mut world, Span::ZERO);
    world.run(600);
    assert_eq!(world.engine.hand().status, Status::Synchronised, "{}", reason(&world));
}

/// (The server of the example, and then a right one: 1.5 s wrong for an hour.)
#[test]
fn what_was_learnt_from_others_is_not_held_against_a_new_server() {
    let wrong = Server { offset: MS(1500), skew: 37_000, ..HONEST };
    let mut before = begun(start(), &[("s1", wrong)]);
    before.run(10);
    assert_eq!(before.hand().status, Status::Synchronised);
    let left = before.engine.left(before.now);
    let mut next = again(&before, *before.hand(), left, &[("s2", HONEST)]);
    next.run(20);
    next.assert_true();
    assert!(next.notes[0].contains("has the word of s1:123, not of"), "{:?}", next.notes);
    // Nor by a daemon that has its configuration read again.
    before.servers.insert(address("s2"), HONEST);
    before.event(Event::Configure(config(&["s2"])));
    before.run(20);
    before.assert_true();
    // One that says otherwise itself than ten seconds before is held for as long as that.
    let mut before = begun(start(), &[("s1", wrong)]);
    before.run(10);
    let left = before.engine.left(before.now);
    let mut next = again(&before, *before.hand(), left, &[("s1", HONEST)]);
    next.run(8);
    names_remedies(&reason(&next));
    next.run(60);
    next.assert_true();
}

/// Attackers have the servers' names lead elsewhere, once they are silent.
#[test]
fn other_addresses_are_no_way_around_it() {
    for offset in [Span::from_secs(500), TEN_YEARS] {
        let mut world = three(3600);
        let liars = ["s7", "s8", "s9"];
        world.servers.extend(liars.map(|liar| (address(liar), by(offset))));
        world.more_addresses = liars.map(address).to_vec();
        for host in ["s1", "s2", "s3"] {
            *world.server(host) = GONE;
        }
        world.run(3000);
        let report = world.engine.report(world.now);
        let elsewhere = |s: &&truechimer_engine::SourceReport| {
            s.address.is_some_and(|at| liars.map(address).contains(&at)) && s.reach > 0
        };
        assert!(report.sources.iter().filter(elsewhere).count() > 0, "{report:?}");
        assert!(world.error().abs() < MS(20), "{}", world.error());
        assert_eq!(world.hand().status, Status::Holdover, "{}", reason(&world));
    }
}

/// Servers this far away, that all say the same, and may move the time by two seconds.
fn far_away(delay: i64) -> World {
    let hosts = ["s1", "s2", "s3"];
    let servers = hosts.map(|host| (host, Server { delay, back: delay, ..HONEST }));
    let limit = Some(Span::from_secs(2));
    let config = Config { max_step: limit, min_sources: None, ..config(&hosts) };
    let mut world = begun_with(config, start(), &servers);
    world.run(600);
    world.assert_true();
    world
}

/// Checks that they have moved it by no more than they may; beside what an oscillator may have
/// strayed since then, of which they have had the most made.
fn assert_limited(world: &World, why: &str) {
    let (error, bound) = (world.error(), world.hand().bound_at(world.now));
    assert!(error.abs() < MS(2500), "{why}: {error} ± {bound}");
    assert_eq!(world.hand().status, Status::Holdover, "{why}: {}", reason(world));
    assert!(reason(world).contains("max-step"), "{why}: {}", reason(world));
}

/// (Steps that both bounds allow for did not count: 18 s and more in 15 hours.)
#[test]
fn many_small_steps_are_no_way_around_it() {
    for (delay, step, every) in [(10_000_000, MS(8), 60), (50_000_000, MS(60), 180)] {
        for step in [step, -step] {
            let mut world = far_away(delay);
            for k in 1..=400 {
                all(&mut world, step * k);
                world.run(every);
            }
            assert_limited(&world, &step.to_string());
        }
    }
}

/// (Nor did what they said within the bound that had come with a step: 117 s in 33 hours.)
#[test]
fn neither_is_what_wide_bounds_leave_open() {
    let mut world = far_away(100_000);
    let mut offset = Span::ZERO;
    let near_and_far = |world: &mut World, offset, delay| {
        for host in ["s1", "s2", "s3"] {
            *world.server(host) = Server { offset, delay, back: delay, ..HONEST };
        }
    };
    for _ in 0..5 {
        offset += MS(2010);
        near_and_far(&mut world, offset, 2_000_000_000);
        world.run(3800);
        offset += MS(1900);
        near_and_far(&mut world, offset, 100_000);
        world.run(200);
    }
    assert_limited(&world, "wide");
}

/// (It was followed within minutes, and counted towards nothing: 26 s a day, for ever.)
#[test]
fn neither_is_a_rate() {
    for skew in [50_000, -300_000] {
        let mut world = far_away(100_000);
        world.run(7200);
        let mut offset = Span::ZERO;
        let mut told = |world: &mut World, rounds, skew: i64| {
            for _ in 0..rounds {
                offset += Span::from_nanos(skew * 10);
                all(world, offset);
                world.run(10);
            }
            offset
        };
        // An hour of it is believed, and the clock goes as fast.
        let offset = told(&mut world, 360, skew);
        assert_eq!(world.hand().status, Status::Synchronised, "{}", reason(&world));
        assert!((world.error() - offset).abs() < MS(20), "{}", world.error());
        let moved = world.engine.left(world.now).unwrap().moved;
        assert!((moved - offset).abs() < MS(30), "{moved} of {offset}");
        told(&mut world, 3600 * 24 / 10, skew);
        assert_limited(&world, &skew.to_string());
    }
    // What an oscillator may do by itself is nobody's doing.
    let mut world = far_away(100_000);
    for host in ["s1", "s2", "s3"] {
        world.server(host).skew = 80;
    }
    world.run(86_400);
    assert_eq!(world.engine.left(world.now).unwrap().moved, Span::ZERO);
}

/// With what the daemon before has left, or with its page alone, in a hold of any age.
#[test]
fn a_restart_is_no_way_around_it() {
    let far = by(TEN_YEARS);
    for held in [60, 3 * 3600] {
        for state in [true, false] {
            let servers = [("s1", HONEST), ("s2", HONEST), ("s3", HONEST)];
            let (mut before, ..) = left(&servers);
            all(&mut before, TEN_YEARS);
            before.run(held);
            let left = before.engine.left(before.now).filter(|_| state);
            let servers = [("s1", far), ("s2", far), ("s3", far)];
            let mut next = again(&before, *before.hand(), left, &servers);
            for _ in 0..5 {
                next.run(1800);
                stands(&next, TEN_YEARS);
            }
            all(&mut next, Span::ZERO);
            next.run(120);
            next.assert_true();
        }
    }
    // How far servers have moved the time is not forgotten either.
    let (mut before, ..) = left(&[("s1", HONEST)]);
    before.server("s1").offset = Span::from_secs(900);
    before.run(4000);
    assert!((before.error() - Span::from_secs(900)).abs() < MS(1));
    let left = before.engine.left(before.now);
    let mut next = again(&before, *before.hand(), left, &[("s1", by(Span::from_secs(900)))]);
    next.run(60);
    next.server("s1").offset = Span::from_secs(1100);
    next.run(8000);
    assert!((next.error() - Span::from_secs(900)).abs() < MS(20), "{}", next.error());
    assert!(reason(&next).contains("max-step"), "{}", reason(&next));
}

/// Log of all that was accepted, read and told: it repeats.
#[test]
fn every_such_event_repeats() {
    let mut world = three(600);
    read_rtc(&mut world, Span::ZERO);
    all(&mut world, HOUR);
    world.run(60);
    let s1 = source(&world, "s1");
    world.event(Event::Accept { source: s1 });
    world.run(60);
    let text = serde_json::to_string(&world.log).unwrap();
    let log: Vec<(Count, Event)> = serde_json::from_str(&text).unwrap();
    let (mut engine, _) = Engine::new(config(&["s1", "s2", "s3"]), start());
    for (at, event) in log {
        let _ = engine.handle(at, event);
    }
    assert_eq!(engine.hand(), world.engine.hand());
    assert_eq!(engine.report(world.now), world.engine.report(world.now));
}

/// (The next daemon gave the others their votes back, and went with them an hour later.)
#[test]
fn the_users_word_holds_over_a_restart() {
    let servers = [("s1", HONEST), ("s2", off(300)), ("s3", off(300))];
    let mut world = begun(start(), &servers);
    world.run(600);
    let s1 = source(&world, "s1");
    world.event(Event::Accept { source: s1 });
    world.run(600);
    world.assert_true();
    let hand = *world.hand();
    // As it is in the file.
    let text = serde_json::to_string(&world.engine.left(world.now).unwrap()).unwrap();
    let mut saved: Saved = serde_json::from_str(&text).unwrap();
    assert_eq!(saved.agreed.as_ref().unwrap().overruled, ["s2:123", "s3:123"]);
    let mut warm = again(&world, hand, Some(saved.clone()), &servers);
    for _ in 0..45 {
        warm.run(120);
        warm.assert_true();
        assert!(warm.error().abs() < MS(1), "{}", warm.error());
    }
    use SourceStatus::{Falseticker, Selected};
    assert_eq!(selections(&warm), [Selected, Falseticker, Falseticker]);
    let why = warm.engine.report(warm.now).sources[2].reason.clone().unwrap().text;
    assert!(why.contains("contradicts the one that you have accepted"), "{why}");
    let told = warm.engine.report(warm.now).sources[2].trouble.clone().unwrap();
    assert!(told.contains(&why), "{told}");
    // One that agrees has its vote again, and a third daemon knows of the other.
    warm.server("s2").offset = Span::ZERO;
    warm.run(600);
    assert!(
        matches!(selections(&warm)[1], SourceStatus::Combined | Selected),
        "{:?}",
        selections(&warm)
    );
    let left = warm.engine.left(warm.now).unwrap();
    assert_eq!(left.agreed.unwrap().overruled, ["s3:123"]);
    // Another time of this counter, or the file of an older daemon: a majority counts.
    let mut other = saved.clone();
    other.agreed.as_mut().unwrap().counter.epoch = Epoch(9);
    assert!(text.contains("\"overruled\""), "{text}");
    saved.agreed.as_mut().unwrap().overruled.clear();
    assert!(!serde_json::to_string(&saved).unwrap().contains("overruled"));
    for saved in [saved, other] {
        let mut warm = again(&world, hand, Some(saved), &servers);
        warm.run(120);
        let overruled = |s: &SourceReport| {
            s.reason.as_ref().is_some_and(|why| why.text.contains("you have accepted"))
        };
        let report = warm.engine.report(warm.now);
        assert!(!report.sources.iter().any(overruled), "{report:?}");
    }
}

/// (A lone server's first time was believed in silence, ten years ahead as well.)
#[test]
fn a_first_time_without_a_witness_is_warned_of_once() {
    let (year, one, zero) = (Span::from_secs(31_557_600), [("s1", HONEST)], Span::ZERO);
    let told = |world: &World| -> Vec<String> {
        world.notes.iter().filter(|note| note.contains("first time comes")).cloned().collect()
    };
    let good = |world: &World| world.engine.hand().status == Status::Synchronised;
    let says = "the first time comes from s1:123 alone: no real-time clock bears it out, and there \
                is no saved time to hold it against";
    let mut world = first(year * 10, None, 0, &one);
    world.run(600);
    assert!(good(&world));
    assert_eq!(told(&world), [says]);
    // One whose battery is empty is no witness either.
    assert_eq!(told(&first(zero, Some(Span::from_secs(-ORIGIN)), ORIGIN - 600, &one)), [says]);
    // A witness, or a second server.
    assert_eq!(told(&first(zero, Some(zero), 0, &one)), [""; 0]);
    assert_eq!(told(&first(zero, None, 0, &[("s1", HONEST), ("s2", HONEST)])), [""; 0]);
    let (before, ..) = left(&one);
    let saved = before.engine.saved(before.now);
    let mut world = begun(Start { at: before.now, saved, ..start() }, &one);
    world.run(60);
    assert!(good(&world) && told(&world).is_empty(), "{:?}", world.notes);
    // Another server alone is news.
    let mut world = first(zero, None, 0, &one);
    world.servers.insert(address("s2"), HONEST);
    world.event(Event::Configure(config(&["s2"])));
    world.run(60);
    assert!(good(&world));
    assert_eq!(told(&world), [says.to_owned(), says.replace("s1", "s2")]);
}

/// (A machine whose real-time clock runs in local time, and does not say so, had no first time of a
/// lone server.)
#[test]
fn a_real_time_clock_that_may_be_in_local_time_refutes_nothing() {
    let (at, one) = (start().at, [("s1", HONEST)]);
    let begun = |ahead: i64, may_be_local| {
        let unix = (world::truth(at) + Span::from_secs(ahead)).secs();
        let rtc = RtcReading { may_be_local, ..reading(at, unix, None) };
        first_by(Span::ZERO, Some(rtc), 0, &one)
    };
    let good = |world: &World| world.engine.hand().status == Status::Synchronised;
    let told = |world: &World| world.notes.iter().filter(|n| n.contains("local time")).count();
    for ahead in [7200, -5 * 3600 + 20, 14 * 3600, 20_700 - 30] {
        let world = begun(ahead, true);
        assert!(
            good(&world) && told(&world) == 1,
            "{ahead} s: {} {:?}",
            reason(&world),
            world.notes
        );
        assert!(!good(&begun(ahead, false)), "{ahead} s: it runs in UTC");
    }
    for ahead in [7200 + 200, -15 * 3600, 86_400] {
        assert!(!good(&begun(ahead, true)), "{ahead} s");
    }
    // One that is near enough is in UTC.
    let world = begun(900, true);
    assert!(good(&world) && told(&world) == 0, "{:?}", world.notes);
}
