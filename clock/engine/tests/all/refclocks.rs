//! Reference clocks that show the whole time: believed within what the servers vouch for, or with a
//! vote of their own.

use crate::world::{self, ORIGIN, World, config, start, truth};
use proptest::prelude::*;
use truechimer_engine::{
    Engine, Event, ReasonKind, RefClockConfig, RefClockKind, Scale, Shown, SourceId, SourceKind,
    SourceReport, SourceStatus,
};
use truechimer_ntp::LeapIndicator;
use truechimer_time::{Count, CountSpan, Leaps, Span, Stamp, StampMethod};
use truechimer_timehands::Status;

const SECOND: i64 = 1_000_000_000;
/// Error of the samples' counts, ns.
const STAMP: i64 = 500;
/// TAI − UTC, s.
const TAI: i32 = 37;

fn phc() -> RefClockConfig {
    RefClockConfig::new(RefClockKind::Phc, "/dev/ptp0", Span::from_micros(2))
}

/// A world with a reference clock in it, whose samples come every so often.
struct Bench {
    world: World,
    id: SourceId,
    poll: i64,
    sequence: u64,
    /// Time shown − UTC, ns.
    ahead: i64,
    /// The error of the newest sample's count, ns: within [`STAMP`].
    jitter: i64,
    error: Span,
    leap: u8,
    /// Scale by the clock's own word.
    word: Scale,
}

/// A number without order, not negative.
fn noise(n: i64) -> i64 {
    let mixed = (n as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 33) as i64
}

impl Bench {
    fn new(hosts: &[&str], refclock: RefClockConfig) -> Bench {
        Bench::knowing(hosts, refclock, Leaps::default())
    }

    fn knowing(hosts: &[&str], refclock: RefClockConfig, leaps: Leaps) -> Bench {
        // Counts are true time on the leap-free scale.
        let mut world = World::new(&[], truechimer_engine::Start { leaps, ..start() });
        world.leaps = leaps;
        world.servers = hosts.iter().map(|host| (world::address(host), world::HONEST)).collect();
        let poll = i64::from(refclock.poll);
        let config = truechimer_engine::Config { refclocks: vec![refclock], ..config(hosts) };
        world.event(Event::Configure(config));
        let id = *world.watched.keys().next().expect("it is opened");
        let (sequence, ahead, jitter) = (0, 0, 0);
        let (error, word) = (Span::ZERO, Scale::Auto);
        Bench { world, id, poll, sequence, ahead, jitter, error, leap: 0, word }
    }

    /// Runs for so many samples.
    fn run(&mut self, samples: i64) {
        for _ in 0..samples {
            self.world.run(self.poll);
            self.sample();
        }
    }

    fn sample(&mut self) {
        let now = self.world.now;
        self.sequence += 1;
        self.jitter = (self.jitter + 7_919 * 31).rem_euclid(2 * STAMP + 1);
        let error = CountSpan(STAMP);
        let count = now + CountSpan(self.jitter - STAMP);
        let unix_ns = self.world.leaps.utc(truth(now)).unix_nanos() as i64 + self.ahead;
        let shown =
            Shown { unix_ns, pulse: false, error: self.error, leap: self.leap, scale: self.word };
        let (source, sequence) = (self.id, self.sequence);
        let stamp = Ok(Stamp { count, error, method: StampMethod::Kernel });
        // Counts are read before the engine hears of them.
        self.world.now = now + CountSpan(2 * STAMP);
        self.world.event(Event::Sample { source, sequence, stamp, shown });
    }

    fn report(&self) -> SourceReport {
        self.world.engine.source_report(self.id, self.world.now).unwrap()
    }

    fn refused(&self, name: &str) -> u64 {
        self.report().refused.get(name).copied().unwrap_or(0)
    }

    fn bound(&self) -> Span {
        self.world.hand().bound_at(self.world.now)
    }
}

fn known() -> Leaps {
    Leaps { tai_offset: TAI, known: true, ..Leaps::default() }
}

#[test]
fn a_card_narrows_what_the_servers_leave_open() {
    for poll in [1, 2, 16, 64] {
        let mut bench = Bench::new(&["s1"], RefClockConfig { poll, ..phc() });
        bench.run(60);
        let report = bench.report();
        assert_eq!(report.status, SourceStatus::Selected, "{report:?}");
        assert_eq!((report.poll, report.kind), (poll, SourceKind::Phc));
        assert_eq!(report.root_distance, Some(Span::from_micros(2)));
        assert_eq!(report.reference.as_deref(), Some("PHC"));
        assert!(report.accepted >= 58, "{report:?}");
        bench.world.assert_true();
        assert!(bench.bound() < Span::from_micros(40), "{poll} s: {}", bench.bound());
        assert!(bench.bound() >= Span::from_micros(2), "its own error is in it");
    }
}

#[test]
fn without_anybody_to_vouch_for_it_a_card_is_not_believed() {
    let mut bench = Bench::new(&[], phc());
    bench.run(30);
    assert_eq!((bench.report().accepted, bench.refused("unvouched")), (0, 30));
    assert_eq!(bench.world.hand().status, Status::Unknown);
}

#[test]
fn with_trust_it_has_a_vote_and_needs_no_server() {
    let trusted = RefClockConfig { trust: true, scale: Scale::Utc, ..phc() };
    let mut bench = Bench::new(&[], trusted.clone());
    bench.run(60);
    assert_eq!(bench.report().status, SourceStatus::Selected, "{:?}", bench.report());
    assert_eq!(bench.report().accepted, 60);
    bench.world.assert_true();
    assert!(bench.bound() < Span::from_micros(10), "{}", bench.bound());
    // Beside three servers it is one of four: outvoted where it contradicts them.
    let mut bench = Bench::new(&["s1", "s2", "s3"], trusted);
    bench.ahead = 5_000_000;
    bench.run(60);
    let report = bench.report();
    assert_eq!(report.status, SourceStatus::Falseticker, "{report:?}");
    bench.world.assert_true();
}

#[test]
fn what_a_card_taught_of_a_far_server_keeps_the_bound_narrow_when_it_fails() {
    let bounds = [true, false].map(|learn| {
        let card = RefClockConfig { poll: 16, ..phc() };
        let mut bench = Bench::new(&["s1"], card.clone());
        // Requests take 3 ms less than replies.
        (bench.world.server("s1").delay, bench.world.server("s1").back) = (6_000_000, 9_000_000);
        let mut config = truechimer_engine::Config { refclocks: vec![card], ..config(&["s1"]) };
        config.sources.iter_mut().for_each(|source| source.learn_asymmetry = learn);
        bench.world.event(Event::Configure(config));
        bench.run(225);
        bench.world.assert_true();
        assert!(bench.bound() < Span::from_micros(40), "{}", bench.bound());
        // The card says no more.
        for _ in 0..24 {
            bench.world.run(3600);
            bench.world.assert_true();
        }
        bench.bound()
    });
    // Half of the round trip is 7.5 ms.
    let half = Span::from_micros(7_500);
    assert!(bounds[0] < Span::from_micros(600) && bounds[1] >= half, "{bounds:?}");
}

#[test]
fn a_trusted_receiver_announces_a_leap_second() {
    let sock = |trust| {
        let error = Span::from_micros(2);
        RefClockConfig { trust, ..RefClockConfig::new(RefClockKind::Sock, "/run/gps.sock", error) }
    };
    // Its own flag, that of a server beside it if there is one, and whether that is believed.
    for (trust, own, server, believed) in [
        (true, 1, None, true),
        (true, 0, None, false),
        (true, 1, Some(LeapIndicator::None), false),
        (true, 1, Some(LeapIndicator::Insert), true),
        // Many receivers' programs leave it at 0.
        (true, 0, Some(LeapIndicator::Insert), true),
        (false, 1, Some(LeapIndicator::None), false),
    ] {
        let hosts: &[&str] = if server.is_some() { &["s1"] } else { &[] };
        let mut bench = Bench::new(hosts, sock(trust));
        bench.leap = own;
        if let Some(leap) = server {
            bench.world.server("s1").leap = leap;
        }
        bench.run(60);
        assert_eq!(bench.world.hand().status, Status::Synchronised);
        let next = bench.world.hand().leaps.next;
        assert_eq!(next.is_some(), believed, "{trust} {own} {server:?}: {next:?}");
        if server.is_none() && believed {
            bench.leap = 0;
            bench.run(60);
            assert_eq!(bench.world.hand().leaps.next, None, "withdrawn");
        }
    }
}

#[test]
fn a_trusted_card_that_steps_is_held_off_and_the_bound_covers_both() {
    let trusted = RefClockConfig { trust: true, scale: Scale::Utc, ..phc() };
    let mut bench = Bench::new(&[], trusted);
    bench.run(600);
    bench.ahead = 20_000_000;
    bench.run(300);
    assert!(bench.world.hand().status.bound_holds());
    assert!(bench.world.error().abs() <= bench.bound());
    assert!(bench.bound() >= Span::from_millis(20), "{}", bench.bound());
    assert!(bench.refused("server-step") >= 300, "{:?}", bench.report());
    let reason = bench.report().reason.unwrap();
    assert_eq!(reason.kind, ReasonKind::StepSuspected, "{reason:?}");
    bench.ahead = 0;
    bench.run(60);
    bench.world.assert_true();
    assert!(bench.bound() < Span::from_micros(20), "{}", bench.bound());
}

#[test]
fn a_card_that_somebody_steps_does_not_move_the_clock() {
    for by in [37 * SECOND, -SECOND, 10_000_000, -1_000_000] {
        let mut bench = Bench::new(&["s1", "s2"], phc());
        bench.run(100);
        assert_eq!(bench.report().status, SourceStatus::Selected);
        bench.ahead = by;
        bench.run(100);
        assert_eq!(bench.refused("off-time"), 100, "{by}: {:?}", bench.report());
        assert!(bench.report().trouble.is_some_and(|t| t.contains("off the time")));
        bench.world.assert_true();
        assert!(bench.bound() < Span::from_micros(400), "{}", bench.bound());
        // Not a line a second.
        let told = bench.world.notes.iter().filter(|n| n.contains("off the time")).count();
        assert!((5..10).contains(&told), "{told}");
        bench.ahead = 0;
        bench.run(20);
        assert_eq!(bench.report().status, SourceStatus::Selected, "{:?}", bench.report());
    }
}

/// A vmclock's page has its scale in it.
#[test]
fn who_says_its_scale_needs_nobody_to_find_it_out() {
    let vmclock = |trust, scale| {
        let path = "/dev/vmclock0";
        let new = RefClockConfig::new(RefClockKind::Vmclock, path, Span::from_micros(2));
        RefClockConfig { trust, scale, ..new }
    };
    let mut bench = Bench::knowing(&[], vmclock(true, Scale::Auto), known());
    (bench.ahead, bench.word) = (i64::from(TAI) * 1_000_000_000, Scale::Tai);
    bench.run(30);
    bench.world.assert_true();
    let report = bench.report();
    assert_eq!((report.kind, report.accepted), (SourceKind::Vmclock, 30), "{report:?}");
    assert_eq!(report.status, SourceStatus::Selected);
    assert_eq!(report.reference.as_deref(), Some("vmclock on TAI"));
    // The user says otherwise: neither is believed.
    let mut bench = Bench::knowing(&["s1"], vmclock(false, Scale::Utc), known());
    (bench.ahead, bench.word) = (i64::from(TAI) * 1_000_000_000, Scale::Tai);
    bench.run(5);
    assert_eq!(bench.refused("scale"), 5);
    let trouble = bench.report().trouble.unwrap();
    assert!(trouble.contains("shows TAI") && trouble.contains("scale = \"utc\""), "{trouble}");
}

#[test]
fn a_card_on_tai_is_found_out_and_said() {
    let mut bench = Bench::knowing(&["s1"], phc(), known());
    bench.ahead = i64::from(TAI) * SECOND;
    bench.run(60);
    assert_eq!(bench.report().status, SourceStatus::Selected, "{:?}", bench.report());
    assert_eq!(bench.report().reference.as_deref(), Some("PHC on TAI"));
    let told = |what: &str, bench: &Bench| bench.world.notes.iter().filter(|n| *n == what).count();
    assert_eq!(told("/dev/ptp0: shows TAI, 37 s ahead of UTC", &bench), 1);
    bench.world.assert_true();
    // It is told to show UTC from now on.
    bench.ahead = 0;
    bench.run(10);
    assert_eq!(told("/dev/ptp0: shows UTC", &bench), 1, "{:?}", bench.world.notes);
    bench.world.assert_true();
    // Stated, it is held to it.
    let mut bench = Bench::knowing(&["s1"], RefClockConfig { scale: Scale::Utc, ..phc() }, known());
    bench.ahead = i64::from(TAI) * SECOND;
    bench.run(10);
    assert_eq!(bench.refused("off-time"), 10);
    // Where nobody knows TAI − UTC it is no guess.
    let mut bench = Bench::new(&["s1"], phc());
    bench.ahead = i64::from(TAI) * SECOND;
    bench.run(10);
    assert_eq!(bench.refused("off-time"), 10);
    assert!(bench.report().trouble.is_some_and(|t| t.contains("may show TAI")));
    let mut bench = Bench::new(&["s1"], RefClockConfig { scale: Scale::Tai, ..phc() });
    bench.run(10);
    assert_eq!(bench.refused("no-tai"), 10);
    bench.world.assert_true();
}

#[test]
fn a_sample_s_own_error_counts_where_it_is_more() {
    let shm = RefClockConfig::new(RefClockKind::Shm, "0", Span::from_micros(5));
    let mut bench = Bench::new(&["s1"], shm);
    bench.error = Span::from_micros(20);
    bench.run(20);
    assert_eq!(bench.report().root_distance, Some(Span::from_micros(20)));
    bench.world.assert_true();
    bench.error = Span::ZERO;
    bench.run(20);
    assert_eq!(bench.report().root_distance, Some(Span::from_micros(5)));
    bench.world.assert_true();
    // A receiver without a fix says so.
    bench.leap = 3;
    bench.run(5);
    assert_eq!(bench.refused("unsynchronised"), 5);
}

#[test]
fn a_vague_reference_clock_does_not_outdo_the_servers() {
    // Sentences on a serial line: 80 ms late, now and then.
    let shm = RefClockConfig::new(RefClockKind::Shm, "0", Span::from_millis(100));
    let mut bench = Bench::new(&["s1"], shm);
    for n in 0..200 {
        bench.ahead = -(noise(n) % 80) * 1_000_000;
        bench.run(1);
        if n > 20 {
            let error = bench.world.error();
            assert!(error.abs() < Span::from_micros(200), "{n}: {error}, {:?}", bench.report());
            bench.world.assert_true();
        }
    }
    assert_eq!(bench.refused("server-step"), 0, "noise within its error is no step");
    assert!(bench.report().accepted > 190, "{:?}", bench.report());
}

#[test]
fn noise_within_the_stated_error_is_no_step() {
    let shm = RefClockConfig {
        trust: true,
        ..RefClockConfig::new(RefClockKind::Shm, "0", Span::from_millis(100))
    };
    let mut bench = Bench::new(&[], shm);
    for n in 0..1000 {
        bench.ahead = (noise(n) % 180 - 90) * 1_000_000;
        bench.run(1);
        bench.world.assert_true();
    }
    assert_eq!(bench.report().accepted, 1000, "{:?}", bench.report());
    assert!(bench.world.error().abs() < Span::from_millis(20), "{}", bench.world.error());
    assert!(bench.bound() <= Span::from_millis(101), "{}", bench.bound());
}

#[test]
fn fractions_of_a_second_are_numbered_by_others() {
    let sock = RefClockConfig::new(RefClockKind::Sock, "/run/s", Span::from_micros(3));
    let mut bench = Bench::new(&["s1"], sock);
    for sequence in 0..60u64 {
        bench.world.run(1);
        let count = bench.world.now;
        // Years off, apart from the fraction.
        let unix_ns = (truth(count).as_nanos() as i64).rem_euclid(SECOND) + 7 * SECOND;
        let shown = Shown { unix_ns, ..Shown::PULSE };
        let stamp = Ok(Stamp { count, error: CountSpan(50), method: StampMethod::Kernel });
        bench.world.event(Event::Sample { source: bench.id, sequence, stamp, shown });
    }
    assert_eq!(bench.report().status, SourceStatus::Selected, "{:?}", bench.report());
    bench.world.assert_true();
    assert!(bench.bound() < Span::from_micros(40));
}

#[test]
fn samples_that_stop_are_missed_at_their_own_pace() {
    let slow = RefClockConfig { poll: 16, ..phc() };
    let mut bench = Bench::new(&["s1"], slow);
    bench.run(30);
    bench.world.run(15);
    assert_eq!(bench.report().timeouts, 0);
    bench.world.run(100);
    assert!((5..=7).contains(&bench.report().timeouts), "{:?}", bench.report());
    assert!(bench.world.notes.iter().any(|n| n == "/dev/ptp0: no reading for 64 seconds"));
    bench.world.assert_true();
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(40) })]
    /// Samples that are within their error keep the truth within the bound; a repetition decides
    /// the same.
    #[test]
    fn the_bound_holds_for_samples_within_their_error(
        errors in prop::collection::vec(-1_000i64..=1_000, 20..80),
        (stated, poll, trust) in (1i64..500_000, 1u32..=64, any::<bool>()),
    ) {
        let hosts: &[&str] = if trust { &[] } else { &["s1"] };
        let refclock = RefClockConfig {
            poll,
            trust,
            scale: Scale::Utc,
            ..RefClockConfig::new(RefClockKind::Sock, "/run/s", Span::from_nanos(stated))
        };
        let mut bench = Bench::new(hosts, refclock.clone());
        for error in errors {
            bench.ahead = error * stated / 1_000;
            bench.run(1);
            if bench.world.hand().status == Status::Synchronised {
                bench.world.assert_true();
            }
        }
        prop_assert_eq!(bench.world.hand().status, Status::Synchronised);
        let (mut again, _) = Engine::new(world::config(hosts), start());
        for (at, event) in &bench.world.log {
            let _ = again.handle(*at, event.clone());
        }
        prop_assert_eq!(again.report(bench.world.now), bench.world.engine.report(bench.world.now));
    }
}

#[test]
fn counts_begin_where_the_world_does() {
    assert_eq!(truth(Count(0)).secs(), ORIGIN);
}
