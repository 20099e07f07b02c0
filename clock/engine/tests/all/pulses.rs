//! Pulses per second: numbered by the servers, selected where they agree with them, refused where
//! they cannot be right.

use crate::world::{self, ORIGIN, World, config, start, truth};
use proptest::prelude::*;
use truechimer_engine::{
    Engine, Event, HostCheck, RefClockConfig, Shown, SourceId, SourceReport, SourceStatus,
};
use truechimer_ntp::LeapIndicator;
use truechimer_time::{Count, CountSpan, Leap, Leaps, Span, Stamp, StampMethod};
use truechimer_timehands::Status;

const SECOND: i64 = 1_000_000_000;
/// Delay of the edges' stamps, ns.
const LATE: i64 = 2_000;

/// A world with a pulse in it.
struct Bench {
    world: World,
    id: SourceId,
    sequence: u64,
    /// Edges − the true seconds, ns.
    off: i64,
    /// Delay of their stamps, and error of those, ns.
    late: i64,
    stamp_error: i64,
    edges: bool,
}

fn pulse() -> RefClockConfig {
    RefClockConfig { name: "gps".into(), ..RefClockConfig::pulse("/dev/pps0") }
}

impl Bench {
    fn new(hosts: &[&str]) -> Bench {
        Bench::with(hosts, pulse())
    }

    fn with(hosts: &[&str], pulse: RefClockConfig) -> Bench {
        Bench::from(World::new(hosts, start()), hosts, pulse)
    }

    fn from(mut world: World, hosts: &[&str], pulse: RefClockConfig) -> Bench {
        let config = truechimer_engine::Config { refclocks: vec![pulse], ..config(hosts) };
        world.event(Event::Configure(config));
        let id = *world.watched.keys().next().expect("it is opened");
        Bench { world, id, sequence: 0, off: 0, late: LATE, stamp_error: 100, edges: true }
    }

    fn edge(&mut self, at: i64) {
        let stamp = Stamp {
            count: Count((at + self.late) as u64),
            error: CountSpan(self.stamp_error),
            method: StampMethod::Kernel,
        };
        self.sequence += 1;
        let (source, sequence) = (self.id, self.sequence);
        self.world.now = self.world.now.latest(stamp.count + CountSpan(1_000_000));
        self.world.event(Event::Sample { source, sequence, stamp: Ok(stamp), shown: Shown::PULSE });
    }

    /// The next edge that is not before now.
    fn next_edge(&self) -> i64 {
        let now = self.world.now.0 as i64 - self.off;
        (now + SECOND - 1).div_euclid(SECOND) * SECOND + self.off
    }

    fn run(&mut self, seconds: i64) {
        for _ in 0..seconds {
            let at = self.next_edge();
            let wait = (at - self.world.now.0 as i64).max(0);
            for _ in 0..wait / SECOND {
                self.world.run(1);
            }
            while (self.world.now.0 as i64) < at {
                self.world.run(1);
            }
            if self.edges {
                // World::run goes by whole seconds: the edge is heard of late, as it may be.
                self.edge(self.next_edge() - SECOND);
            }
        }
    }

    fn report(&self) -> SourceReport {
        self.world.engine.source_report(self.id, self.world.now).unwrap()
    }

    fn refused(&self, name: &str) -> u64 {
        self.report().refused.get(name).copied().unwrap_or(0)
    }
}

#[test]
fn a_pulse_is_numbered_and_wins() {
    let mut bench = Bench::new(&["s1"]);
    assert_eq!(bench.world.watched[&bench.id], "/dev/pps0");
    bench.run(60);
    let report = bench.report();
    assert_eq!(report.status, SourceStatus::Selected, "{report:?}");
    assert_eq!((report.poll, report.reach), (1, 0xff));
    assert_eq!(report.reference.as_deref(), Some("PPS"));
    assert_eq!((report.requests, report.accepted), (60, 60));
    assert_eq!(report.root_distance, Some(Span::ZERO));
    assert_eq!(bench.world.engine.report(bench.world.now).reason, "following gps");
    bench.world.assert_true();
    let bound = bench.world.hand().bound_at(bench.world.now);
    assert!(bound < Span::from_micros(60), "{bound}: the server alone has 110 µs and more");
    assert!(bench.report().bound.unwrap() < Span::from_micros(20));
}

/// `latency` is to one side: what the receiver is early by is in the bound only as its own error.
#[test]
fn an_edge_that_comes_early_is_within_the_pulse_s_own_error() {
    let latency = Span::from_nanos(100);
    let bounds = [Span::ZERO, Span::from_nanos(100)].map(|pulse_error| {
        let pulse = RefClockConfig { error: latency, pulse_error, ..pulse() };
        let mut bench = Bench::with(&["s1"], pulse);
        (bench.late, bench.stamp_error) = (-80, 1);
        bench.run(300);
        assert_eq!(bench.report().accepted, 300, "{:?}", bench.report());
        let (error, bound) = (bench.world.error(), bench.world.hand().bound_at(bench.world.now));
        (error.abs() <= bound, bound)
    });
    let [(held, without), (holds, with)] = bounds;
    assert!(!held, "an edge may not be early: {without}");
    assert!(holds, "{with}");
    // Half of what is open: latency, and twice that error.
    assert!(without >= Span::from_nanos(50) && with >= Span::from_nanos(150), "{without}, {with}");
    assert!(with < Span::from_nanos(300), "{with}");
}

#[test]
fn no_clock_no_second() {
    // Nobody knows this server: it never answers.
    let mut bench = Bench::from(World::new(&[], start()), &["s1"], pulse());
    bench.run(10);
    assert_eq!((bench.report().accepted, bench.refused("no-second")), (0, 10));
    assert_eq!(bench.world.hand().status, Status::Unknown);
    // 0.45 s to either side: which second is it?
    let mut world = World::new(&[], start());
    let far = world::Server { delay: 450_000_000, back: 450_000_000, ..world::HONEST };
    world.servers.insert(world::address("s1"), far);
    let mut vague = Bench::from(world, &["s1"], pulse());
    vague.run(20);
    assert_eq!((vague.report().accepted, vague.refused("no-second")), (0, 20));
}

#[test]
fn a_pulse_that_contradicts_the_servers_never_wins() {
    for off in [300_000_000, -300_000_000, 2_000_000] {
        let mut bench = Bench::new(&["s1"]);
        bench.off = off;
        bench.run(60);
        let report = bench.report();
        assert_eq!(report.accepted, 0, "{off}: {report:?}");
        assert_eq!(bench.refused("off-second"), 60, "{off}");
        assert_eq!(report.status, SourceStatus::Unreachable);
        assert!(report.trouble.unwrap().contains("off the second"));
        bench.world.assert_true();
        // Not a line a second.
        let told = bench.world.notes.iter().filter(|n| n.contains("off the second")).count();
        assert!((5..10).contains(&told), "{told}");
    }
}

#[test]
fn a_pulse_that_wanders_off_is_left() {
    let mut bench = Bench::new(&["s1", "s2"]);
    bench.run(120);
    assert_eq!(bench.report().status, SourceStatus::Selected);
    // 2 ppm: within a few minutes it is where no server's word allows.
    for _ in 0..400 {
        bench.off += 2_000;
        bench.run(1);
    }
    assert_ne!(bench.report().status, SourceStatus::Selected, "{:?}", bench.report());
    assert!(bench.refused("off-second") + bench.refused("server-step") > 50);
    let (error, bound) = (bench.world.error(), bench.world.hand().bound_at(bench.world.now));
    assert!(error.abs() < Span::from_micros(500), "{error} {bound}");
    assert_eq!(bench.world.hand().status, Status::Synchronised);
}

#[test]
fn an_edge_that_steps_is_held_in_quarantine_first() {
    let mut bench = Bench::new(&["s1"]);
    bench.run(100);
    // Within what the server allows, so that only its own past speaks against it.
    bench.off = 60_000;
    bench.run(7);
    assert_eq!(bench.refused("server-step"), 7, "{:?}", bench.report());
    assert!(bench.report().bound.unwrap() >= Span::from_micros(60), "the bound covers both");
    bench.world.assert_true();
    bench.run(3);
    assert_eq!(bench.refused("server-step"), 7, "lasting evidence");
}

#[test]
fn a_wrong_rate_and_doubles_are_refused_by_name() {
    let mut bench = Bench::new(&["s1"]);
    bench.run(40);
    // 2 Hz: every other edge is off.
    for _ in 0..10 {
        bench.run(1);
        let now = bench.world.now.0 as i64;
        bench.edge(now.div_euclid(SECOND) * SECOND - SECOND / 2);
    }
    assert_eq!(bench.refused("off-second"), 10);
    assert_eq!(bench.report().status, SourceStatus::Selected, "the good half is good");
    bench.world.assert_true();
    // The same edge once more, by number and by time.
    let last = bench.world.now.0 as i64;
    bench.run(1);
    let at = bench.next_edge() - SECOND;
    bench.edge(at);
    assert_eq!(bench.refused("duplicate"), 1, "two in a second, {last}");
    bench.sequence -= 1;
    bench.edge(at);
    assert_eq!(bench.refused("duplicate"), 2, "the same number");
    let (source, stamp) = (bench.id, Err("no pairs".into()));
    let event = Event::Sample { source, sequence: 9999, stamp, shown: Shown::PULSE };
    bench.world.event(event);
    assert_eq!(bench.refused("no-stamp"), 1);
}

#[test]
fn when_edges_stop_the_servers_go_on_and_the_pulse_still_helps() {
    let mut bench = Bench::new(&["s1"]);
    bench.run(300);
    let before = bench.world.hand().bound_at(bench.world.now);
    bench.edges = false;
    bench.run(30);
    let report = bench.report();
    assert_eq!((report.reach, report.status), (0, SourceStatus::Truechimer));
    assert!(report.timeouts >= 20 && report.trouble.unwrap().starts_with("no edges"));
    assert!(bench.world.notes.iter().any(|n| n == "gps: no edge for 4 seconds"));
    bench.world.assert_true();
    let after = bench.world.hand().bound_at(bench.world.now);
    assert!(before < after && after < Span::from_micros(100), "{before} {after}");
    bench.edges = true;
    bench.run(10);
    assert_eq!(bench.report().status, SourceStatus::Selected);
    assert_eq!(bench.report().trouble, None);
}

#[test]
fn when_the_servers_are_lost_the_pulse_goes_on() {
    let mut bench = Bench::new(&["s1"]);
    bench.run(100);
    bench.world.server("s1").up = false;
    bench.run(3000);
    assert_eq!(bench.report().status, SourceStatus::Selected);
    assert_eq!(bench.report().accepted, 3100);
    bench.world.assert_true();
    assert!(bench.world.hand().bound_at(bench.world.now) < Span::from_micros(30));
    // And without both: holdover.
    bench.edges = false;
    bench.run(60);
    assert_eq!(bench.world.hand().status, Status::Holdover);
    assert!(bench.world.engine.report(bench.world.now).reason.contains("no usable edge from gps"));
    let (error, bound) = (bench.world.error(), bench.world.hand().bound_at(bench.world.now));
    assert!(error.abs() <= bound, "{error} {bound}");
}

#[test]
fn the_servers_say_which_second_it_is() {
    let mut bench = Bench::new(&["s1"]);
    bench.run(100);
    // The server's word moves by 100 s, and after its quarantine is taken: the pulse has no say.
    bench.world.server("s1").offset = Span::from_secs(100);
    let stepped = (0..400).find(|_| {
        bench.run(20);
        bench.world.error() > Span::from_secs(99)
    });
    assert!(stepped.is_some(), "{} {:?}", bench.world.error(), bench.world.notes);
    bench.run(20);
    let off = bench.world.error() - Span::from_secs(100);
    assert!(off.abs() < Span::from_millis(1), "{off}");
    assert_eq!(bench.report().status, SourceStatus::Selected, "{:?}", bench.report());
}

/// A lone server's word moves by so much, and the edges by the rest of it to the next second if the
/// counter has jumped. For five minutes it is held off.
fn held(by: Span, jumped: bool) -> Bench {
    let mut bench = Bench::new(&["s1"]);
    bench.run(1000);
    assert_eq!(bench.report().accepted, 1000);
    bench.world.server("s1").offset = by;
    if jumped {
        bench.off = -by.as_nanos_i64().rem_euclid(SECOND);
    }
    bench.run(300);
    bench
}

fn error_and_bound(bench: &Bench) -> (Span, Span) {
    (bench.world.error(), bench.world.hand().bound_at(bench.world.now))
}

/// (The bound was 5 µs, and the truth may have been 10 s away.)
#[test]
fn a_pulse_does_not_tell_which_second_is_right() {
    // Whether the server is wrong or the counter has jumped, edges are where they were.
    let mut bench = held(Span::from_secs(10), false);
    let (error, bound) = error_and_bound(&bench);
    assert!(error.abs() < Span::from_micros(20), "{error}");
    assert!(bound > Span::from_secs(10), "it covers both: {bound}");
    assert!(bound - bench.world.hand().disputed < Span::from_micros(20), "{bound}");
    assert_eq!(bench.report().accepted, 1300, "no edge is lost: {:?}", bench.report());
    // It is right again.
    bench.world.server("s1").offset = Span::ZERO;
    bench.run(40);
    bench.world.assert_true();
    assert!(error_and_bound(&bench).1 < Span::from_micros(20), "{:?}", error_and_bound(&bench));
    assert_eq!(bench.report().accepted, 1340);
}

#[test]
fn a_pulse_tells_whether_the_fraction_of_a_second_is_right() {
    // A server that is wrong by another fraction is wrong by the edges.
    let bench = held(Span::from_millis(10_300), false);
    let (error, bound) = error_and_bound(&bench);
    assert!(error.abs() <= bound && bound < Span::from_micros(20), "{error} {bound}");
    // Where the edges have moved as well it may have been the counter: what was known is no better.
    for by in [10_300, 300, -700, -2_450] {
        let bench = held(Span::from_millis(by), true);
        let (error, bound) = error_and_bound(&bench);
        let to_server = (error - Span::from_millis(by)).abs();
        assert!(error.abs() <= bound && to_server <= bound, "{by}: {error} {to_server} {bound}");
    }
    // In the end the server is believed, and says which second it is.
    let mut bench = held(Span::from_millis(10_300), true);
    bench.run(4000);
    let (error, bound) = error_and_bound(&bench);
    let to_server = (error - Span::from_millis(10_300)).abs();
    assert!(to_server <= bound && bound < Span::from_micros(20), "{error} {to_server} {bound}");
    assert_eq!(bench.report().status, SourceStatus::Selected, "{:?}", bench.report());
}

#[test]
fn edges_that_are_numbered_by_servers_that_are_held_off_are_not_published() {
    let hosts = ["s1", "s2", "s3"];
    let mut bench = Bench::new(&hosts);
    bench.run(1000);
    let far = Span::from_secs(5000);
    for host in hosts {
        bench.world.server(host).offset = far;
    }
    bench.run(4000);
    let report = bench.report();
    let reason = bench.world.engine.report(bench.world.now).reason;
    assert!(reason.contains("max-step"), "{reason}");
    let (error, bound) = (bench.world.error(), bench.world.hand().bound_at(bench.world.now));
    assert!(error.abs() < Span::from_millis(5) && bound > far, "{error} {bound}");
    assert!((report.offset.unwrap() + far).abs() < Span::from_millis(5), "{report:?}");
    for host in hosts {
        bench.world.server(host).offset = Span::ZERO;
    }
    bench.run(60);
    bench.world.assert_true();
    assert_eq!(bench.report().status, SourceStatus::Selected, "{:?}", bench.report());
}

#[test]
fn two_pulses_that_contradict_each_other_are_both_left() {
    let second = RefClockConfig { name: "other".into(), ..RefClockConfig::pulse("/dev/pps1") };
    let mut world = World::new(&["s1"], start());
    let refclocks = vec![pulse(), second];
    let both = truechimer_engine::Config { refclocks, ..config(&["s1"]) };
    world.event(Event::Configure(both));
    let ids: Vec<SourceId> = world.watched.keys().copied().collect();
    for n in 2..60i64 {
        world.run(1);
        for (id, off) in ids.iter().zip([0, 60_000]) {
            let at = (world.now.0 as i64).div_euclid(SECOND) * SECOND + off + LATE - SECOND;
            let count = Count(at as u64);
            let stamp = Stamp { count, error: CountSpan(100), method: StampMethod::Kernel };
            let (source, sequence, stamp) = (*id, n as u64, Ok(stamp));
            world.event(Event::Sample { source, sequence, stamp, shown: Shown::PULSE });
        }
    }
    let report = world.engine.report(world.now);
    let parts: Vec<SourceStatus> = report.sources.iter().map(|s| s.status).collect();
    assert_eq!(
        parts,
        [SourceStatus::Selected, SourceStatus::Falseticker, SourceStatus::Falseticker],
        "{report:#?}"
    );
    world.assert_true();
}

#[test]
fn a_leap_second_is_a_second() {
    let midnight = ORIGIN + 300;
    let leap = Leap { at: midnight + 1, step: 1 };
    let leaps = Leaps { next: Some(leap), ..Leaps::default() };
    let mut bench = Bench::new(&["s1"]);
    bench.world.leaps = leaps;
    bench.world.server("s1").leap = LeapIndicator::Insert;
    bench.world.event(Event::Leaps(leaps.into()));
    bench.run(600);
    assert_eq!(bench.report().accepted, 600, "{:?}", bench.report());
    bench.world.assert_true();
    assert_eq!(bench.report().status, SourceStatus::Selected);
    let hand = bench.world.hand();
    assert_eq!(hand.leaps.last, Some(leap));
    assert_eq!(hand.leaps.utc(truth(bench.world.now)).unix + 1, truth(bench.world.now).secs());
}

#[test]
fn an_offset_is_taken_off() {
    // The pulse marks the second 200 ms after it has begun, as the end of a pulse may.
    let offset = Span::from_millis(200);
    let mut bench = Bench::with(&["s1"], RefClockConfig { offset, ..pulse() });
    bench.off = 200_000_000;
    bench.run(30);
    assert_eq!(bench.report().accepted, 30, "{:?}", bench.report());
    assert_eq!(bench.report().status, SourceStatus::Selected);
    bench.world.assert_true();
}

#[test]
fn what_cannot_be_opened_is_tried_again_ever_more_seldom() {
    let mut bench = Bench::new(&["s1"]);
    let (source, error) = (bench.id, String::from("no such device"));
    let mut opened = Vec::new();
    for _ in 0..8 {
        bench.world.watched.clear();
        bench.world.event(Event::RefClockFailed { source, error: error.clone() });
        let since = bench.world.now;
        while bench.world.watched.is_empty() {
            bench.world.run(1);
        }
        opened.push((bench.world.now - since).0 / SECOND);
    }
    // Found out at the next look.
    assert_eq!(opened, [2, 4, 8, 16, 32, 64, 64, 64].map(|wait| wait + 1));
    assert_eq!(bench.world.notes.iter().filter(|n| n.contains(&error)).count(), 1);
    assert_eq!(bench.refused("unreadable"), 8);
    bench.run(5);
    bench.world.watched.clear();
    bench.world.event(Event::RefClockFailed { source, error });
    bench.world.run(3);
    assert!(!bench.world.watched.is_empty(), "after an edge it is tried soon again");
    // The name is told once, also where the error begins with it.
    let name = bench.report().name;
    for (error, told) in [
        ("cannot be opened", format!("{name}: cannot be opened")),
        (&*format!("{name} cannot be read"), format!("{name} cannot be read")),
    ] {
        bench.world.event(Event::RefClockFailed { source, error: error.to_owned() });
        assert_eq!(bench.world.notes.last(), Some(&told));
    }
}

#[test]
fn a_configuration_changes_pulses() {
    let mut bench = Bench::new(&["s1"]);
    bench.run(30);
    let with =
        |refclocks: Vec<RefClockConfig>| truechimer_engine::Config { refclocks, ..config(&["s1"]) };
    let named = RefClockConfig { name: "roof".into(), ..pulse() };
    bench.world.event(Event::Configure(with(vec![named])));
    assert_eq!((bench.report().name.as_str(), bench.report().accepted), ("roof", 30));
    let slow = RefClockConfig { error: Span::from_micros(50), ..pulse() };
    bench.world.event(Event::Configure(with(vec![slow])));
    assert!(bench.world.engine.source_report(bench.id, bench.world.now).is_none());
    assert_eq!(bench.world.watched.len(), 1, "the old one is closed, the new one opened");
    bench.world.event(Event::Configure(with(Vec::new())));
    assert!(bench.world.watched.is_empty());
    bench.world.run(60);
    bench.world.assert_true();
}

#[test]
fn after_a_break_the_servers_come_first() {
    let mut bench = Bench::new(&["s1"]);
    bench.run(30);
    bench.world.server("s1").up = false;
    bench.world.event(Event::Disruption { reason: "test".into() });
    bench.run(5);
    assert_eq!(bench.world.hand().status, Status::Disrupted);
    assert_eq!(bench.refused("no-second"), 5);
    bench.world.server("s1").up = true;
    bench.run(30);
    assert_eq!(bench.report().status, SourceStatus::Selected);
    bench.world.assert_true();
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(60) })]
    /// Whatever edges are claimed: what is published stays inside the servers' word, a repetition
    /// decides the same, and nothing grows.
    #[test]
    fn edges_of_any_kind_do_no_harm(
        edges in prop::collection::vec(
            (0u64..5, 0i64..3_000_000_000, prop_oneof![Just(0i64), -600_000_000i64..600_000_000, any::<i64>()], 0i64..1_000_000, 0u8..12),
            1..60,
        ),
    ) {
        let mut bench = Bench::new(&["s1", "s2", "s3"]);
        bench.run(20);
        for (step, wait, off, error, kind) in edges {
            bench.world.now = bench.world.now + CountSpan(wait);
            let raw_ns = bench.world.now.0 as i64;
            bench.world.event(Event::Check(HostCheck {
                count: bench.world.now, raw_ns, suspended_ns: 0, width: CountSpan(0),
            }));
            bench.sequence = bench.sequence.wrapping_add(step);
            let count = Count(bench.world.now.0.wrapping_add(off as u64));
            let stamp = match kind {
                0 => Err("none".to_owned()),
                _ => Ok(Stamp { count, error: CountSpan(error), method: StampMethod::Kernel }),
            };
            let (source, sequence) = (bench.id, bench.sequence);
            bench.world.event(Event::Sample { source, sequence, stamp, shown: Shown::PULSE });
            let hand = *bench.world.hand();
            let error = hand.time_at(bench.world.now) - truth(bench.world.now);
            // Three honest servers 0.1 ms away: the truth is never further from the clock than
            // their word is wide.
            prop_assert!(error.abs() < Span::from_millis(3), "{error}");
            prop_assert!(bench.report().refused.len() < 10);
            bench.world.run(1);
        }
        let (mut again, _) = Engine::new(world::config(&["s1", "s2", "s3"]), start());
        for (at, event) in &bench.world.log {
            let _ = again.handle(*at, event.clone());
        }
        prop_assert_eq!(again.report(bench.world.now), bench.world.engine.report(bench.world.now));
    }
}
