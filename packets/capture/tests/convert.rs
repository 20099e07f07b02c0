//! Conversion on this machine: its own counter and clocks, a clock page that comes, changes and
//! goes.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may fail")]

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use truechimer::{Clock, ReadError};
use truechimer_capture::convert::{self, Change, ConvertError, Converter, Search};
use truechimer_capture::restamp::{Hands, Recorded, Restamper};
use truechimer_capture::{Counted, KernelClock, Quality, RawStamp, Stamped};
use truechimer_counter::{Choice, Counter, boot_id, host_reading, nominal, realtime_pair};
use truechimer_time::{
    BootId, Count, CountSpan, CounterId, CounterKind, Epoch, Instant, Rate, Span,
};
use truechimer_timehands::{Hand, Made, PageWriter, Status};

/// A page in a directory of its own, and whoever writes it.
struct Daemon {
    writer: PageWriter,
    directory: PathBuf,
    counter: Counter,
}

impl Daemon {
    fn directory() -> PathBuf {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let directory = std::env::temp_dir().join(format!("convert-{}-{n}", std::process::id()));
        fs::create_dir(&directory).unwrap();
        directory
    }

    fn new(choice: Choice) -> Daemon {
        Daemon::within(Daemon::directory(), choice)
    }

    fn within(directory: PathBuf, choice: Choice) -> Daemon {
        let writer = PageWriter::create(directory.join("clock")).unwrap();
        Daemon { writer, directory, counter: Counter::open(choice).unwrap() }
    }

    /// Removes the page with its lock, as if no daemon had ever been here. This one knows nothing
    /// of it.
    fn remove(&self) {
        for name in ["clock", "clock.lock"] {
            fs::remove_file(self.directory.join(name)).unwrap();
        }
    }

    fn clock(&self) -> Clock {
        Clock::open_at(self.directory.join("clock")).unwrap()
    }

    /// Publishes a synchronised hand of this moment after a change to it. Its time is that of the
    /// system clock, two hours ahead: the one is not to be mistaken for the other.
    fn publish(&mut self, change: impl Fn(&mut Hand)) -> Hand {
        let period = nominal(self.counter).unwrap().period;
        let pair = realtime_pair(self.counter, 8);
        let host = host_reading(self.counter);
        let mut hand = Hand {
            difference_error: Rate::from_ppb(1_000_000),
            path_bound: Span::from_micros(50),
            statistical_bound: Span::from_micros(5),
            // The system clock may be steered meanwhile.
            growth: Rate::from_ppb(2_000_000),
            ..Hand::exact(
                CounterId { kind: self.counter.kind(), boot: boot_id().unwrap(), epoch: Epoch(1) },
                pair.mid(),
                Instant::from_nanos(i128::from(pair.unix_ns + AHEAD_NS)),
                period,
                host.count + period.counts(Span::from_secs(1000)),
            )
        };
        change(&mut hand);
        let made = Made {
            count: host.count,
            monotonic_ns: host.monotonic_ns,
            raw_ns: host.raw_ns,
            suspended_ns: host.suspended_ns,
            device: None,
        };
        self.writer.publish(&hand, &made);
        hand
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}

const AHEAD_NS: i64 = 7_200_000_000_000;

fn unix_ns() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as i64
}

/// Stamps something as the kernel does, and converts it: with the counts around it.
fn stamp(converter: &mut Converter) -> (i64, Count, Count, Stamped, Option<Change>) {
    let counter = converter.counter().fenced();
    converter.pair(realtime_pair(counter, 8));
    let before = counter.read();
    let ns = unix_ns();
    let after = counter.read();
    converter.pair(realtime_pair(counter, 8));
    let change = converter.refresh();
    let stamped = converter.convert(RawStamp::Clock(KernelClock::Realtime, ns));
    (ns, before, after, stamped, change)
}

/// Until the clock says something new: a quiet one is looked at once a millisecond, and looked for
/// once a second.
fn next_change(converter: &mut Converter) -> Change {
    for _ in 0..2_000 {
        if let Some(change) = converter.refresh() {
            return change;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("nothing changed within ten seconds");
}

#[test]
fn stamps_of_this_machine_lie_where_they_were_taken() {
    let mut daemon = Daemon::new(Choice::Auto);
    daemon.publish(|_| ());
    let mut converter = Converter::new(daemon.counter, Some(daemon.clock())).unwrap();
    for _ in 0..200 {
        let (ns, before, after, stamped, _) = stamp(&mut converter);
        let Counted { count, error, epoch } = stamped.counted.unwrap();
        assert!(count.at_or_after(before - error) && (after + error).at_or_after(count));
        assert_eq!((epoch, stamped.quality), (Epoch(1), Quality::Bounded));
        let off = Span::from_nanos(stamped.unix_ns - (ns + AHEAD_NS));
        assert!(off.abs() <= stamped.bound.unwrap(), "{off}");
    }
    assert_eq!(converter.breaks(), 0);
}

#[test]
fn a_clock_may_come_later() {
    let directory = Daemon::directory();
    let counter = Counter::open(Choice::Auto).unwrap();
    let search = Search::At(directory.join("clock"));
    assert!(convert::clock(&search).unwrap().is_none());
    let mut converter = Converter::new(counter, None).unwrap().looking(search);
    let (ns, _, _, stamped, change) = stamp(&mut converter);
    let change = change.unwrap();
    assert_eq!((change.status, change.hand, change.epoch), (None, None, Counted::NO_EPOCH));
    assert!(change.reason.is_some());
    assert_eq!((stamped.quality, stamped.unix_ns), (Quality::Unsynchronised, ns));
    assert_eq!(stamped.counted.unwrap().epoch, Counted::NO_EPOCH);

    let mut daemon = Daemon::within(directory, Choice::Auto);
    daemon.publish(|_| ());
    let change = loop {
        let change = next_change(&mut converter);
        if change.hand.is_some() {
            break change;
        }
    };
    assert_eq!((change.status, change.epoch), (Some(Status::Synchronised), Epoch(1)));
    assert_eq!(change.reason, None);
    let stamped = stamp(&mut converter).3;
    assert_eq!(stamped.quality, Quality::Bounded);
    assert_eq!(Some(stamped.generation), change.hand.map(|used| used.generation));
}

#[test]
fn a_page_that_was_replaced_is_found_again() {
    let mut daemon = Daemon::new(Choice::Auto);
    daemon.publish(|_| ());
    let path = daemon.directory.join("clock");
    let mut converter = Converter::new(daemon.counter, Some(daemon.clock()))
        .unwrap()
        .looking(Search::At(path.clone()));
    assert_eq!(stamp(&mut converter).3.quality, Quality::Bounded);
    daemon.remove();
    // The old writer goes; the new one begins a file of its own, in another epoch.
    daemon.writer = PageWriter::create(&path).unwrap();
    daemon.publish(|_| ());
    daemon.publish(|hand| hand.counter.epoch = Epoch(9));
    while next_change(&mut converter).epoch != Epoch(9) {}
    stamp(&mut converter);
    assert_eq!(stamp(&mut converter).3.counted.unwrap().epoch, Epoch(9));
}

#[test]
fn a_hand_of_another_page_is_told_whatever_its_number() {
    let mut daemon = Daemon::new(Choice::Auto);
    daemon.publish(|_| ());
    let path = daemon.directory.join("clock");
    let mut converter = Converter::new(daemon.counter, Some(daemon.clock()))
        .unwrap()
        .looking(Search::At(path.clone()));
    let mut restamper = Restamper::recorded();
    let (.., first, change) = stamp(&mut converter);
    restamper.change(&change.unwrap());
    // Another daemon's page, whose first hand has the number of the other's first, and a second
    // more.
    daemon.remove();
    daemon.writer = PageWriter::create(&path).unwrap();
    daemon.publish(|hand| hand.time += Span::from_secs(1));
    let deadline = std::time::Instant::now() + Duration::from_secs(10);
    loop {
        let (ns, .., stamped, change) = stamp(&mut converter);
        change.iter().for_each(|change| restamper.change(change));
        assert_eq!(restamper.stamp(&Recorded::from(&stamped)), stamped);
        if stamped.unix_ns - (ns + AHEAD_NS) > 500_000_000 {
            assert_eq!(stamped.generation, first.generation, "this test is about that");
            break;
        }
        assert!(std::time::Instant::now() < deadline, "it is looked for once a second");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(restamper.report().differing, 0);
}

#[test]
fn a_time_is_what_the_clock_says_of_that_moment() {
    let mut daemon = Daemon::new(Choice::Auto);
    daemon.publish(|_| ());
    let clock = daemon.clock();
    let mut converter = Converter::new(daemon.counter, Some(daemon.clock())).unwrap();
    for step in 0..200 {
        // In good standing, far from its base, and void by now.
        let hand = daemon.publish(|hand| match step % 3 {
            0 => {}
            1 => {
                let away = hand.period.counts(Span::from_secs(100));
                hand.base = hand.base - away;
                hand.time = hand.time - Span::from_secs(100);
            }
            _ => hand.void_after = hand.base + hand.period.counts(Span::from_millis(1)),
        });
        let moment = clock.moment().unwrap();
        if step % 3 == 2 {
            std::thread::sleep(Duration::from_millis(2));
        }
        let counter = converter.counter();
        converter.pair(realtime_pair(counter, 8));
        converter.refresh();
        let stamped = converter.convert(RawStamp::Count(moment.count));
        let reading = clock.time_of(moment).unwrap();
        if !hand.void_after.at_or_after(moment.count) {
            // Held up.
            assert_eq!((stamped.bound, reading.bound()), (None, None));
            continue;
        }
        assert_eq!(stamped.instant, Some(reading.best), "{step}");
        assert_eq!(stamped.counted.unwrap().epoch, moment.epoch);
        let (ours, its) = (stamped.bound.unwrap(), reading.bound().unwrap());
        // That the counter goes in steps and is not fenced is in ours.
        let own = hand.period.span(stamped.counted.unwrap().error) + Span::from_nanos(3);
        assert!(its <= ours && ours <= its + own, "{its} {ours}");
        let unix = reading.utc().unix_nanos();
        assert_eq!(i128::from(stamped.unix_ns), unix);
    }
}

#[test]
fn every_change_is_told_and_makes_restamping_identity() {
    let mut daemon = Daemon::new(Choice::Auto);
    daemon.publish(|_| ());
    let mut converter = Converter::new(daemon.counter, Some(daemon.clock())).unwrap();
    let mut restamper = Restamper::recorded();
    let mut qualities = vec![];
    for step in 0..6 {
        match step {
            1 => drop(daemon.publish(|hand| hand.time += Span::from_micros(7))),
            2 => drop(daemon.publish(|hand| hand.status = Status::Disrupted)),
            3 => drop(daemon.publish(|hand| hand.counter.epoch = Epoch(2))),
            4 => drop(daemon.publish(|hand| {
                hand.status = Status::Unknown;
                hand.counter.epoch = Epoch(2);
            })),
            5 => drop(daemon.publish(|hand| {
                hand.status = Status::Holdover;
                hand.counter.epoch = Epoch(2);
            })),
            _ => {}
        }
        let mut told = false;
        for _ in 0..10 {
            let (.., stamped, change) = stamp(&mut converter);
            if let Some(change) = change {
                told |= change.hand.is_some();
                let text = serde_json::to_string(&change).unwrap();
                restamper.change(&serde_json::from_str(&text).unwrap());
            }
            assert_eq!(restamper.stamp(&Recorded::from(&stamped)), stamped);
            qualities.push((step, stamped.quality));
        }
        assert!(told, "step {step}");
    }
    assert_eq!(restamper.report().differing, 0);
    for (step, quality) in [
        (0, Quality::Bounded),
        (1, Quality::Bounded),
        (2, Quality::Unsynchronised),
        (4, Quality::Unsynchronised),
        (5, Quality::Bounded),
    ] {
        let all = qualities.iter().filter(|(at, _)| *at == step);
        assert!(
            all.clone().all(|(_, one)| *one == quality),
            "{step}: {:?}",
            all.collect::<Vec<_>>()
        );
    }
    // The first stamp of a new epoch is between pairs of the old one.
    assert_eq!(qualities.last().unwrap().1, Quality::Bounded);
    assert!(qualities.contains(&(3, Quality::Bounded)));
}

#[test]
fn a_clock_of_another_counter_is_no_clock() {
    let mut daemon = Daemon::new(Choice::Raw);
    daemon.publish(|_| ());
    let clock = daemon.clock();
    assert_eq!(convert::choose(Some(&clock)).unwrap().kind(), CounterKind::Raw);
    let auto = Counter::open(Choice::Auto).unwrap();
    if auto.kind() == CounterKind::Raw {
        return;
    }
    let mut converter = Converter::new(auto, Some(clock)).unwrap();
    let (.., stamped, change) = stamp(&mut converter);
    let reason = change.unwrap().reason.unwrap();
    assert!(reason.contains("'raw'") && reason.contains(auto.kind().name()), "{reason}");
    assert_eq!(stamped.quality, Quality::Unsynchronised);
}

#[test]
fn a_page_of_nonsense_is_an_error_with_its_name() {
    let directory = Daemon::directory();
    let path = directory.join("clock");
    fs::write(&path, vec![7; 1 << 16]).unwrap();
    let error = convert::clock(&Search::At(path.clone())).unwrap_err();
    assert!(matches!(error, ConvertError::Clock(_)));
    assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
    fs::remove_dir_all(directory).unwrap();
    let device = ConvertError::Device(CounterKind::Hpet).to_string();
    assert!(device.contains("hpet") && device.contains("--counter raw"), "{device}");
}

#[test]
fn counts_that_were_kept_have_a_time_later() {
    let mut daemon = Daemon::new(Choice::Auto);
    daemon.publish(|_| ());
    let clock = daemon.clock();
    let kind = daemon.counter.kind();
    let mut converter = Converter::new(daemon.counter, Some(daemon.clock())).unwrap();
    let first = stamp(&mut converter).3;
    let counted = first.counted.unwrap();
    let again = convert::time_of(&clock, kind, &counted).unwrap();
    assert_eq!(again, first);
    // By a better hand of after it.
    daemon.publish(|hand| hand.path_bound = Span::from_nanos(500));
    let later = convert::time_of(&clock, kind, &counted).unwrap();
    assert!(later.bound.unwrap() < first.bound.unwrap());
    assert_ne!(later.generation, first.generation);
    // Of no epoch, of another one.
    for epoch in [Counted::NO_EPOCH, Epoch(5)] {
        let error = convert::time_of(&clock, kind, &Counted { epoch, ..counted });
        assert!(matches!(error, Err(ReadError::OtherEpoch { .. })), "{error:?}");
    }
    // Of another counter, whatever its epoch.
    let other = CounterKind::Simulated;
    let refusal = ReadError::OtherCounter { moment: other, clock: kind };
    assert_eq!(convert::time_of(&clock, other, &counted), Err(refusal));
    // By a clock that promises nothing.
    daemon.publish(|hand| hand.status = Status::Unknown);
    assert_eq!(convert::time_of(&clock, kind, &counted), Err(ReadError::Void));
}

#[test]
fn a_capture_without_a_clock_is_joined_with_the_present_page() {
    let counter = Counter::open(Choice::Auto).unwrap();
    let mut converter = Converter::new(counter, None).unwrap();
    let (ns, _, _, stamped, change) = stamp(&mut converter);
    let counted = stamped.counted.unwrap();
    let changes = [change.unwrap(), converter.finish()];

    let mut daemon = Daemon::new(Choice::Auto);
    daemon.publish(|_| ());
    let identity = *converter.identity();
    let hands = || {
        let mut hands = Hands::new(identity, counted.count, counted.count);
        changes.iter().for_each(|change| hands.recorded(change));
        hands
    };
    let mut ours = hands();
    ours.page(&daemon.clock()).unwrap();
    let mut restamper = Restamper::best(ours);
    restamper.change(&changes[0]);
    let joined = restamper.stamp(&Recorded::from(&stamped));
    assert_eq!(joined.quality, Quality::Bounded);
    let off = Span::from_nanos(joined.unix_ns - (ns + AHEAD_NS));
    assert!(off.abs() <= joined.bound.unwrap(), "{off}");

    // A clock that promises nothing, and one of another boot: refused, with the reason.
    daemon.publish(|hand| hand.status = Status::Unknown);
    let error = hands().page(&daemon.clock()).unwrap_err().to_string();
    assert!(error.contains("unknown") && error.contains("wait"), "{error}");
    daemon.publish(|_| ());
    let other = convert::Identity { boot: BootId([1; 16]), ..identity };
    let error = Hands::new(other, Count(0), Count(0) + CountSpan(1)).page(&daemon.clock());
    let error = error.unwrap_err().to_string();
    assert!(error.contains("boot 01010101"), "{error}");
}
