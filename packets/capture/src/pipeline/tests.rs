//! Pipelines between a tap and a sink that are made up: every packet has a number, and all are
//! accounted for in every run.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use proptest::prelude::*;
use truechimer_counter::Choice;
use truechimer_time::{Count, CountSpan, Epoch};

use super::progress::guard;
use super::*;
use crate::sink::Mark;
use crate::{Chunk, Counted, Direction, Losses, Method, Next, Packet, Quality};

/// Reaction of the tap when it is asked for the next chunk.
#[derive(Clone, Debug)]
enum Step {
    /// Arrival of so many packets.
    Arrive(u64),
    /// The kernel loses so many.
    Lose(u64),
    Down,
    Up,
    Gone,
    Fail,
    Panic,
    /// Longer than from one reading of a card's clock to the next.
    Wait,
    /// The user has had enough.
    Stop,
}

struct FakeTap {
    facts: Facts,
    script: VecDeque<Step>,
    /// Stop that is set when the script is over.
    stop: Arc<AtomicBool>,
    waiting: VecDeque<u64>,
    /// Packets in the ring, those in chunks included.
    held: Arc<AtomicU64>,
    capacity: u64,
    at_most: usize,
    losses: Losses,
    /// Packets that were on their way when it was stopped; `None` if it cannot be stopped.
    on_the_way: Option<u64>,
    stopped: bool,
}

struct FakeChunk {
    numbers: Vec<u64>,
    held: Arc<AtomicU64>,
}

impl Chunk for FakeChunk {
    fn len(&self) -> usize {
        self.numbers.len()
    }

    fn for_each(&self, each: &mut dyn FnMut(&Packet<'_>)) {
        for number in &self.numbers {
            each(&Packet {
                stamp: RawStamp::Count(Count(*number)),
                data: &number.to_le_bytes(),
                tag: None,
                length: 8,
                direction: Direction::In,
                queue: 0,
            });
        }
    }
}

impl Drop for FakeChunk {
    fn drop(&mut self) {
        self.held.fetch_sub(self.numbers.len() as u64, Ordering::SeqCst);
    }
}

impl FakeTap {
    fn new(script: Vec<Step>, capacity: u64, at_most: usize) -> FakeTap {
        FakeTap {
            facts: Facts {
                interface: "fake0".into(),
                method: Method::Packet,
                detail: String::new(),
                link_type: 1,
                snap_length: 8,
                stamped_by: "nobody".into(),
                ring_bytes: 8 * capacity,
                stamp_error: CountSpan(7),
            },
            script: script.into(),
            stop: Arc::default(),
            waiting: VecDeque::new(),
            held: Arc::default(),
            capacity,
            at_most,
            losses: Losses::default(),
            on_the_way: Some(0),
            stopped: false,
        }
    }

    fn arrive(&mut self, packets: u64) {
        for _ in 0..packets {
            let number = self.losses.received;
            self.losses.received += 1;
            if self.held.load(Ordering::SeqCst) < self.capacity {
                self.held.fetch_add(1, Ordering::SeqCst);
                self.waiting.push_back(number);
            } else {
                self.losses.ring += 1;
            }
        }
    }
}

fn broken() -> TapError {
    TapError { doing: "looking".into(), why: "broken".into(), mend: None }
}

impl Tap for FakeTap {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn next(&mut self, _timeout: Duration) -> Result<Next, TapError> {
        let step = if self.stopped { Some(Step::Lose(0)) } else { self.script.pop_front() };
        if self.stopped
            && let Some(more) = self.on_the_way.replace(0)
        {
            self.arrive(more);
        }
        match step {
            Some(Step::Arrive(packets)) => self.arrive(packets),
            Some(Step::Lose(packets)) => {
                self.losses.received += packets;
                self.losses.kernel += packets;
            }
            Some(Step::Down) => return Ok(Next::Down),
            Some(Step::Up) => return Ok(Next::Up),
            Some(Step::Gone) => return Ok(Next::Gone),
            Some(Step::Fail) => return Err(broken()),
            Some(Step::Panic) => panic!("as wished"),
            Some(Step::Wait) => std::thread::sleep(Duration::from_millis(110)),
            Some(Step::Stop) => self.stop.store(true, Ordering::SeqCst),
            None if self.waiting.is_empty() => self.stop.store(true, Ordering::SeqCst),
            None => {}
        }
        let numbers: Vec<_> = self.waiting.drain(..self.at_most.min(self.waiting.len())).collect();
        if numbers.is_empty() {
            return Ok(Next::Nothing);
        }
        Ok(Next::Chunk(Box::new(FakeChunk { numbers, held: self.held.clone() })))
    }

    fn losses(&mut self) -> Result<Losses, TapError> {
        Ok(self.losses)
    }

    fn stop(&mut self) -> Result<(), TapError> {
        self.stopped = self.on_the_way.is_some();
        Ok(())
    }
}

/// Observations at the sink.
#[derive(Clone, Default)]
struct Seen {
    numbers: Arc<Mutex<Vec<u64>>>,
    marks: Arc<Mutex<Vec<Mark>>>,
    finished: Arc<AtomicBool>,
}

#[derive(Default)]
struct FakeSink {
    seen: Seen,
    written: Written,
    fail_at: Option<u64>,
    panic_at: Option<u64>,
    closed: bool,
    /// No room for these packets, of those that are handed to it.
    full: std::ops::Range<u64>,
    /// Not a packet is taken before the capture thread has had to wait.
    until_waited: Option<Arc<Progress>>,
}

impl FakeSink {
    fn error(&self) -> SinkError {
        if self.closed {
            return SinkError::Closed;
        }
        SinkError::Failed {
            file: "fake".into(),
            doing: "writing",
            why: std::io::ErrorKind::StorageFull.into(),
        }
    }
}

impl Sink for FakeSink {
    fn packet(&mut self, packet: &Packet<'_>, stamped: &Stamped) -> Result<bool, SinkError> {
        while self.until_waited.as_ref().is_some_and(|progress| progress.live().waits == 0) {
            std::thread::yield_now();
        }
        let number = u64::from_le_bytes(packet.data.try_into().unwrap());
        assert_eq!(stamped.unix_ns, number as i64, "another packet's time");
        if self.full.contains(&(self.written.packets + self.written.unwritten)) {
            self.written.unwritten += 1;
            return Ok(false);
        }
        let before = self.written.packets;
        assert_ne!(self.panic_at, Some(before), "as wished");
        if self.fail_at == Some(before) {
            return Err(self.error());
        }
        self.written.packets += 1;
        guard(&self.seen.numbers).push(number);
        Ok(true)
    }

    fn change(&mut self, _change: &crate::convert::Change) -> Result<(), SinkError> {
        Ok(())
    }

    fn mark(&mut self, mark: Mark) -> Result<(), SinkError> {
        guard(&self.seen.marks).push(mark);
        Ok(())
    }

    fn losses(&mut self, _losses: &Losses, _dropped: u64) {}

    fn flush(&mut self) -> Result<(), SinkError> {
        Ok(())
    }

    fn written(&self) -> &Written {
        &self.written
    }

    fn finish(&mut self) -> Result<Written, SinkError> {
        assert!(!self.seen.finished.swap(true, Ordering::SeqCst), "twice");
        Ok(self.written.clone())
    }
}

/// Knows the number of a packet by its stamp, and that pairs come in order and before packets.
struct FakeConverter {
    counter: Counter,
    last: Option<HostPair>,
    /// Pairs of the host's clocks, and of the card's.
    hosts: Arc<AtomicU64>,
    devices: Arc<AtomicU64>,
    /// When the tap was last said to be empty.
    quiet: Option<Count>,
    error: CountSpan,
}

fn converter() -> FakeConverter {
    FakeConverter {
        counter: Counter::open(Choice::Raw).unwrap(),
        last: None,
        hosts: Arc::default(),
        devices: Arc::default(),
        quiet: None,
        error: CountSpan(0),
    }
}

impl Convert for FakeConverter {
    fn pair(&mut self, pair: HostPair) {
        assert!(self.last.is_none_or(|last| pair.before.at_or_after(last.after)), "out of order");
        self.last = Some(pair);
        self.hosts.fetch_add(1, Ordering::SeqCst);
    }

    fn device_pair(&mut self, _pair: DevicePair) {
        self.devices.fetch_add(1, Ordering::SeqCst);
    }

    fn counter(&self) -> Counter {
        self.counter
    }

    fn refresh(&mut self, _sink: &mut dyn Sink) -> Result<(), SinkError> {
        Ok(())
    }

    fn quiet(&mut self, count: Count) {
        assert!(self.quiet.is_none_or(|last| count.at_or_after(last)), "back in time");
        assert!(self.last.is_some_and(|pair| pair.after.at_or_after(count)), "in future");
        self.quiet = Some(count);
    }

    fn stamp_error(&mut self, error: CountSpan) {
        self.error = error;
    }

    fn convert(&mut self, stamp: RawStamp) -> Stamped {
        assert!(self.last.is_some(), "a packet without a pair");
        let RawStamp::Count(count) = stamp else { panic!("another stamp") };
        Stamped {
            counted: Some(Counted { count, error: self.error, epoch: Epoch(0) }),
            unix_ns: count.0 as i64,
            instant: None,
            bound: None,
            quality: Quality::Unsynchronised,
            generation: 0,
        }
    }

    fn finish(&mut self, _sink: &mut dyn Sink) -> Result<(), SinkError> {
        Ok(())
    }
}

/// Runs, and checks what must hold in any run.
fn try_out(tap: FakeTap, sink: FakeSink, options: &Options) -> (Summary, Seen, Arc<Progress>) {
    let progress = sink.until_waited.clone().unwrap_or_default();
    let (stop, held, seen) = (tap.stop.clone(), tap.held.clone(), sink.seen.clone());
    let can_stop = tap.on_the_way.is_some();
    let panics = sink.panic_at.is_some();
    let summary =
        run_with(Box::new(tap), None, converter(), Box::new(sink), options, &stop, &progress);
    let Live { losses, taken, dropped, written, unwritten, surplus, .. } = summary.live;
    assert_eq!(
        losses.received,
        written + losses.ring + losses.kernel + dropped + surplus + summary.left,
        "{summary:?}"
    );
    assert_eq!(taken, written + dropped + surplus, "{summary:?}");
    if can_stop && matches!(summary.end, End::Stopped | End::Duration | End::Count) {
        assert_eq!(summary.left, 0, "{summary:?}");
    }
    let numbers = guard(&seen.numbers).clone();
    if !panics {
        assert_eq!(unwritten, summary.written.unwritten);
        let written = written - unwritten;
        assert_eq!((numbers.len() as u64, summary.written.packets), (written, written));
        assert_eq!(summary.live.bytes, 8 * written);
        assert_eq!(summary.live.tally.unsynchronised, written);
        let errors = &summary.live.tally.errors;
        assert_eq!((errors.count(), errors.max()), (written, if written > 0 { 7 } else { 0 }));
    }
    assert!(numbers.is_sorted_by(|one, next| one < next), "in order, each once: {numbers:?}");
    if !options.limits.is_some_and(|_| panics) {
        assert!(held.load(Ordering::SeqCst) <= summary.left, "the ring's memory is given back");
    }
    let failed = matches!(summary.end, End::Sink(_) | End::Unread | End::Fault(_));
    assert_eq!(seen.finished.load(Ordering::SeqCst), !failed, "{summary:?}");
    (summary, seen, progress)
}

fn narrow(items: usize, packets: u64) -> Option<Limits> {
    Some(Limits { items, packets })
}

#[test]
fn a_slow_writer_makes_the_capture_thread_wait_and_the_kernel_drop() {
    let script = vec![Step::Arrive(40); 100];
    let tap = FakeTap::new(script, 100, 10);
    let sink = FakeSink { until_waited: Some(Arc::default()), ..FakeSink::default() };
    let options = Options { limits: narrow(2, 20), ..Options::default() };
    let (summary, ..) = try_out(tap, sink, &options);
    let live = &summary.live;
    assert!(live.waits > 0 && live.losses.ring > 0, "{live:?}");
    assert_eq!((live.losses.received, live.dropped, summary.left), (4000, 0, 0));
}

#[test]
fn what_must_not_wait_is_dropped_and_counted() {
    let tap = FakeTap::new(vec![Step::Arrive(10); 100], 10_000, 10);
    let sink = FakeSink { until_waited: Some(Arc::default()), ..FakeSink::default() };
    let options =
        Options { limits: narrow(2, 20), when_full: WhenFull::Drop, ..Options::default() };
    let (summary, ..) = try_out(tap, sink, &options);
    let live = &summary.live;
    assert!(live.dropped > 0 && live.losses.ring == 0, "{live:?}");
    assert_eq!((live.losses.received, summary.left), (1000, 0));
}

#[test]
fn the_count_is_exact_and_the_rest_is_told() {
    for inline in [false, true] {
        let tap = FakeTap::new(vec![Step::Arrive(25); 8], 1000, 10);
        let count = NonZeroU64::new(37);
        let options = Options { inline, count, ..Options::default() };
        let (summary, seen, _) = try_out(tap, FakeSink::default(), &options);
        assert!(matches!(summary.end, End::Count), "{summary:?}");
        assert_eq!(*guard(&seen.numbers), (0..37).collect::<Vec<_>>());
        let Live { losses, written, surplus, .. } = summary.live;
        assert_eq!((written, surplus), (37, losses.received - 37), "to the packet");
    }
}

#[test]
fn what_finds_no_room_does_not_count() {
    for inline in [false, true] {
        let tap = FakeTap::new(vec![Step::Arrive(25); 8], 1000, 10);
        let sink = FakeSink { full: 5..25, ..FakeSink::default() };
        let options = Options { inline, count: NonZeroU64::new(37), ..Options::default() };
        let (summary, seen, _) = try_out(tap, sink, &options);
        assert!(matches!(summary.end, End::Count), "{summary:?}");
        assert_eq!(*guard(&seen.numbers), (0..5).chain(25..57).collect::<Vec<_>>());
        let Live { losses, written, unwritten, surplus, .. } = summary.live;
        assert_eq!((written, unwritten, surplus), (57, 20, losses.received - 57));
    }
}

#[test]
fn a_stop_writes_what_the_ring_held_and_no_more() {
    for inline in [false, true] {
        let script = [vec![Step::Arrive(50), Step::Stop], vec![Step::Arrive(10); 1000]].concat();
        let tap = FakeTap { on_the_way: Some(2), ..FakeTap::new(script.clone(), 100_000, 8) };
        let options = Options { inline, ..Options::default() };
        let (summary, ..) = try_out(tap, FakeSink::default(), &options);
        assert!(matches!(summary.end, End::Stopped), "{summary:?}");
        assert_eq!((summary.live.written, summary.live.losses.received), (52, 52), "{summary:?}");

        let tap = FakeTap { on_the_way: None, ..FakeTap::new(script, 100_000, 8) };
        let (summary, ..) = try_out(tap, FakeSink::default(), &options);
        assert!((50..500).contains(&summary.live.written), "{summary:?}");
        assert!(summary.left > 0, "one that goes on is left in the end: {summary:?}");
    }
}

#[test]
fn a_full_ring_is_emptied_in_the_end() {
    for count in [None, NonZeroU64::new(1)] {
        let tap = FakeTap::new(vec![Step::Arrive(5000), Step::Stop], 3000, 8);
        let options = Options { count, ..Options::default() };
        let (summary, ..) = try_out(tap, FakeSink::default(), &options);
        let Live { losses, written, surplus, .. } = summary.live;
        assert_eq!((losses.received - losses.ring, summary.left), (written + surplus, 0));
        assert!(losses.received >= 5000);
    }
}

#[test]
fn the_time_is_over_at_last() {
    let tap = FakeTap::new(vec![Step::Arrive(3)], 100, 8);
    let options = Options { duration: Some(Duration::ZERO), ..Options::default() };
    let (summary, ..) = try_out(tap, FakeSink::default(), &options);
    assert!(matches!(summary.end, End::Duration), "{summary:?}");
}

#[test]
fn the_end_of_an_interface_is_the_end_of_a_whole_file() {
    let script =
        vec![Step::Arrive(5), Step::Down, Step::Up, Step::Down, Step::Arrive(2), Step::Gone];
    let tap = FakeTap::new(script, 100, 8);
    let (summary, seen, _) = try_out(tap, FakeSink::default(), &Options::default());
    assert!(matches!(summary.end, End::Gone) && !summary.end.is_good(), "{summary:?}");
    assert_eq!((summary.live.written, summary.live.downs), (7, 2));
    assert_eq!(*guard(&seen.marks), [Mark::Down, Mark::Up, Mark::Down, Mark::Gone]);
}

#[test]
fn a_tap_that_fails_leaves_a_whole_file() {
    let tap = FakeTap::new(vec![Step::Arrive(5), Step::Fail], 100, 8);
    let (summary, ..) = try_out(tap, FakeSink::default(), &Options::default());
    assert!(matches!(summary.end, End::Tap(_)), "{summary:?}");
    assert_eq!(summary.live.written, 5);
}

#[test]
fn a_sink_that_fails_ends_it() {
    for inline in [false, true] {
        let tap = FakeTap::new(vec![Step::Arrive(10); 1000], 100_000, 8);
        let sink = FakeSink { fail_at: Some(13), ..FakeSink::default() };
        let (summary, ..) = try_out(tap, sink, &Options { inline, ..Options::default() });
        assert!(matches!(summary.end, End::Sink(_)), "{summary:?}");
        assert_eq!(summary.live.written, 13);
        assert!(summary.live.dropped > 0);
    }
}

#[test]
fn a_reader_that_has_gone_is_a_good_end() {
    let tap = FakeTap::new(vec![Step::Arrive(10); 1000], 100_000, 8);
    let sink = FakeSink { fail_at: Some(13), closed: true, ..FakeSink::default() };
    let (summary, ..) = try_out(tap, sink, &Options::default());
    assert!(matches!(summary.end, End::Unread) && summary.end.is_good(), "{summary:?}");
}

#[test]
fn what_failed_for_another_interface_stops_this_one() {
    let facts = FakeTap::new(Vec::new(), 1, 8).facts().clone();
    let finished = Finished { written: Written::default(), error: Some(SinkError::Elsewhere) };
    let progress = Progress::default();
    let summary = summarise(Ended::Refused, Ok(finished), facts, Duration::ZERO, &progress);
    assert!(matches!(summary.end, End::Stopped), "{}", summary.end);
}

#[test]
fn a_panic_of_the_other_thread_is_told() {
    let tap = FakeTap::new(vec![Step::Arrive(10); 1000], 100_000, 8);
    let sink = FakeSink { panic_at: Some(5), ..FakeSink::default() };
    let (summary, ..) = try_out(tap, sink, &Options::default());
    assert!(matches!(&summary.end, End::Fault(what) if what.contains("as wished")), "{summary:?}");
}

#[test]
fn a_panic_of_the_tap_leaves_a_whole_file_and_nobody_waiting() {
    let tap = FakeTap::new(vec![Step::Arrive(5), Step::Panic], 100, 8);
    let sink = FakeSink::default();
    let seen = sink.seen.clone();
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        try_out(tap, sink, &Options::default());
    }));
    assert!(panicked.is_err() && seen.finished.load(Ordering::SeqCst));
}

#[test]
fn the_cards_clock_is_read_for_each_batch_and_again_after_it_failed() {
    let tap = FakeTap::new(vec![Step::Arrive(5), Step::Wait, Step::Arrive(5)], 100, 8);
    let (stop, progress, converter) = (tap.stop.clone(), Progress::default(), converter());
    let (hosts, devices) = (converter.hosts.clone(), converter.devices.clone());
    let pair = DevicePair { before: Count(1), device_ns: 2, after: Count(3) };
    let device: Device = Box::new(move || Ok(pair));
    let sink = Box::new(FakeSink::default());
    let options = Options::default();
    run_with(Box::new(tap), Some(device), converter, sink, &options, &stop, &progress);
    // A stamp that no later reading of the card's follows would have no count.
    let [hosts, read] = [&hosts, &devices].map(|pairs| pairs.load(Ordering::SeqCst));
    assert!(hosts > 1 && read == hosts && progress.notes().is_empty(), "{hosts} and {read}");

    let tap = FakeTap::new(vec![Step::Arrive(5)], 100, 8);
    let (stop, converter) = (tap.stop.clone(), self::converter());
    let devices = converter.devices.clone();
    let device: Device = Box::new(|| Err(io::ErrorKind::NotFound.into()));
    let sink = Box::new(FakeSink::default());
    run_with(Box::new(tap), Some(device), converter, sink, &options, &stop, &progress);
    let notes = progress.notes();
    assert!(notes.len() == 1 && notes[0].contains("the card's clock"), "{notes:?}");
    assert_eq!(devices.load(Ordering::SeqCst), 0);

    // It fails at the beginning only.
    let tap = FakeTap::new(vec![Step::Arrive(1), Step::Wait, Step::Arrive(1)], 100, 8);
    let (stop, progress, converter) = (tap.stop.clone(), Progress::default(), self::converter());
    let devices = converter.devices.clone();
    let mut asked = 0;
    let device: Device = Box::new(move || {
        asked += 1;
        if asked == 1 { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(pair) }
    });
    let sink = Box::new(FakeSink::default());
    run_with(Box::new(tap), Some(device), converter, sink, &options, &stop, &progress);
    assert!(devices.load(Ordering::SeqCst) > 0);
    let notes = progress.notes().join("\n");
    assert!(notes.contains("can be read again"), "{notes}");
}

#[test]
fn a_processor_that_is_not_there_is_told() {
    let tap = FakeTap::new(vec![Step::Arrive(5)], 100, 8);
    let options =
        Options { capture_cpu: Some(8191), convert_cpu: Some(8190), ..Options::default() };
    let (summary, _, progress) = try_out(tap, FakeSink::default(), &options);
    let notes = progress.notes().join("\n");
    assert!(notes.contains("8191") && notes.contains("8190"), "{notes}");
    assert_eq!((summary.live.written, progress.notes().len()), (5, 0));
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        20 => (0..60_u64).prop_map(Step::Arrive),
        2 => (0..20_u64).prop_map(Step::Lose),
        1 => Just(Step::Down),
        1 => Just(Step::Up),
    ]
}

fn end() -> impl Strategy<Value = Step> {
    prop_oneof![Just(Step::Gone), Just(Step::Fail), Just(Step::Stop)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 200 }))]

    #[test]
    fn every_packet_is_accounted_for(
        mut script in proptest::collection::vec(step(), 0..60),
        end in proptest::option::of(end()),
        after in proptest::collection::vec(step(), 0..10),
        capacity in 1..200_u64,
        at_most in 1..50_usize,
        limits in proptest::option::of((1..20_usize, 1..100_u64)),
        drop in any::<bool>(),
        inline in any::<bool>(),
        count in proptest::option::of(1..500_u64),
        fail_at in proptest::option::of(0..500_u64),
        closed in any::<bool>(),
        full in proptest::option::of((0..200_u64, 0..200_u64)),
        on_the_way in proptest::option::of(0..10_u64),
    ) {
        script.extend(end);
        script.extend(after);
        let tap = FakeTap { on_the_way, ..FakeTap::new(script, capacity, at_most) };
        let full = full.map_or(0..0, |(from, many)| from..from + many);
        let sink = FakeSink { fail_at, closed, full, ..FakeSink::default() };
        let options = Options {
            inline,
            count: count.and_then(NonZeroU64::new),
            limits: limits.and_then(|(items, packets)| narrow(items, packets)),
            when_full: if drop { WhenFull::Drop } else { WhenFull::Wait },
            ..Options::default()
        };
        let (summary, ..) = try_out(tap, sink, &options);
        let live = &summary.live;
        let failed = matches!(summary.end, End::Sink(_) | End::Unread);
        if !failed && (!drop || inline) {
            prop_assert_eq!(live.dropped, 0);
        }
        let written = live.written - live.unwritten;
        match (summary.end, count) {
            (End::Count, count) => prop_assert_eq!(Some(written), count),
            (_, Some(count)) => prop_assert!(written <= count),
            _ => {}
        }
        if failed {
            prop_assert_eq!(Some(written), fail_at);
        }
    }
}
