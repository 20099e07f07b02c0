//! Heap that the engine takes: none while nothing happens but exchanges.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

extern crate alloc;

#[path = "../bed/mod.rs"]
mod bed;
mod counting;

use bed::{Bed, SECOND, Watcher, config, truth};
use counting::{Counting, Heap};
use truechimer_engine::{Action, Config, Engine, Event, RefClockConfig, Shown, SourceId, Standard};
use truechimer_time::{Count, CountSpan, Instant, Span, Stamp, StampMethod};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Counts what the engine itself asks for.
#[derive(Default)]
struct Meter {
    before: Heap,
    /// The most for one reply, and the event for which there was one too many.
    most: u64,
    beyond: Option<String>,
}

impl Watcher for Meter {
    fn before(&mut self) {
        self.before = Heap::now();
    }

    fn after(&mut self, at: Count, event: &Event, actions: &[Action]) {
        let new = Heap::now().allocations - self.before.allocations;
        self.most = self.most.max(new);
        if new > 0 {
            let hours = at.0 as f64 / 3600.0 / SECOND as f64;
            self.beyond = Some(format!("{new} after {hours:.2} h: {event:?}: {actions:?}"));
        }
    }
}

/// Hours with all that a path may bring: both directions longer, an outage, and back.
fn warmed(away: &[i64]) -> Bed {
    let mut bed = Bed::new(away, Box::new(Standard), &mut ());
    bed.run(3 * 3600, &mut ());
    bed.servers[0].floors[1] += away[0];
    bed.run(3600, &mut ());
    bed.servers.iter_mut().for_each(|server| server.up = false);
    bed.run(1800, &mut ());
    bed.servers.iter_mut().for_each(|server| server.up = true);
    bed.run(3 * 3600, &mut ());
    bed
}

#[test]
fn an_hour_of_exchanges_allocates_nothing() {
    for away in [&[200_000][..], &[200_000, 300_000, 5_000_000]] {
        let mut bed = warmed(away);
        let (replies, hands) = (bed.replies, bed.hands);
        let mut meter = Meter::default();
        bed.run(3600, &mut meter);
        assert!((bed.replies - replies) as usize >= 220 * away.len(), "{} replies", bed.replies);
        assert!(bed.hands > hands && bed.error().abs() < Span::from_millis(1), "{}", bed.error());
        println!("{} servers: {} allocations for a reply at most", away.len(), meter.most);
        assert_eq!(meter.beyond, None, "{} servers", away.len());
    }
}

/// Sends pulses for so many seconds, each 3 µs late.
fn with_pulses(bed: &mut Bed, source: SourceId, seconds: i64, watcher: &mut impl Watcher) {
    let first = truth(bed.now).secs() + 1;
    for second in first..first + seconds {
        let late = truth(bed.now) - Instant::new(second, 3 * (1 << 44));
        let count = bed.now - CountSpan(late.as_nanos_i64() * 1_000_023 / 1_000_000);
        bed.run_to(count, watcher);
        let (error, method) = (CountSpan(50), StampMethod::Kernel);
        let stamp = Ok(Stamp { count, error, method });
        let shown = Shown::PULSE;
        bed.give(&Event::Sample { source, sequence: second as u64, stamp, shown }, watcher);
    }
}

#[test]
fn exchanges_beside_a_pulse_allocate_nothing() {
    // One that is better than the server, and one that is worse.
    for latency in [Span::from_micros(10), Span::from_millis(20)] {
        let mut bed = warmed(&[200_000]);
        let pulse = RefClockConfig { error: latency, ..RefClockConfig::pulse("pulse") };
        let event = Event::Configure(Config { refclocks: vec![pulse], ..config(1) });
        let actions = bed.engine.handle(bed.now, event);
        let watch = |action: &Action| match action {
            Action::Watch { source, .. } => Some(*source),
            _ => None,
        };
        let source = actions.iter().find_map(watch).unwrap();
        with_pulses(&mut bed, source, 3600, &mut ());
        let mut meter = Meter::default();
        with_pulses(&mut bed, source, 600, &mut meter);
        let report = bed.engine.source_report(source, bed.now).unwrap();
        assert!(report.accepted > 4000 && bed.error().abs() < Span::from_millis(1), "{report:?}");
        println!("{latency} late at most: {} allocations at most, {:?}", meter.most, report.status);
        assert_eq!(meter.beyond, None, "{latency}");
    }
}

/// The engine in all: what it has on the heap, at most and while a path changes, and itself.
#[test]
fn one_source_takes_less_than_64_kib() {
    let begun = Heap::now();
    let bed = warmed(&[200_000]);
    let heap = Heap::now();
    let engine = size_of::<Engine>() as i64;
    let (live, most) = (heap.live - begun.live + engine, heap.most - begun.live + engine);
    println!(
        "{} hands; bytes: the engine {engine}, with its heap {live}, at most {most}",
        bed.hands
    );
    assert!(live <= 64 * 1024 && most <= 64 * 1024, "{live} bytes, at most {most}");
}
