//! The daemon with a counter that rolls over: a made-up device, and all else real.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use truechimer_counter::{Cost, Hardware, KeptAt, Nominal, NominalSource};
use truechimer_engine::{Config, SourceConfig};
use truechimer_serve::{ServedClock, Server as NtpServer};
use truechimer_time::{CounterKind, Rate};
use truechimer_timehands::{Device as Said, Made, PageReader, Status};

use super::*;
use crate::config::Place;

/// An ACPI timer's rate; with 24 bits, it rolls over every 4.7 s.
const HZ: i128 = 3_579_545;
/// Far more than anything here takes.
const LONG: Duration = Duration::from_secs(60);

/// A timer of so many bits that the raw clock is not made of, but could be.
#[derive(Debug)]
struct Timer(u32);

impl Hardware for Timer {
    fn kind(&self) -> CounterKind {
        CounterKind::AcpiPm
    }

    fn description(&self) -> &'static str {
        "a timer that is made up"
    }

    fn raw(&self) -> u64 {
        let raw = Counter::of_kind(CounterKind::Raw).unwrap();
        let count = i128::from(raw.read().0) * HZ / 1_000_000_000;
        count as u64 & ((1 << self.0) - 1)
    }

    fn bits(&self) -> u32 {
        self.0
    }

    fn cost(&self) -> Cost {
        Cost::Device
    }

    fn stated(&self) -> Option<Nominal> {
        let (period, error) = (Period::from_hz(HZ as u64), Rate::from_ppb(500_000));
        Some(Nominal { period, error, source: NominalSource::Definition })
    }

    fn step(&self) -> Option<CountSpan> {
        Some(CountSpan(1))
    }
}

/// Timer that may lose its power.
#[derive(Debug)]
struct Powered(Timer, &'static AtomicU64);

/// Reading of a device that is not there any more, once the timer has none.
const ON: u64 = u64::MAX;

impl Hardware for Powered {
    fn kind(&self) -> CounterKind {
        self.0.kind()
    }

    fn description(&self) -> &'static str {
        self.0.description()
    }

    fn raw(&self) -> u64 {
        match self.1.load(Ordering::SeqCst) {
            ON => self.0.raw(),
            off => off,
        }
    }

    fn bits(&self) -> u32 {
        self.0.bits()
    }

    fn cost(&self) -> Cost {
        self.0.cost()
    }

    fn stated(&self) -> Option<Nominal> {
        self.0.stated()
    }

    fn step(&self) -> Option<CountSpan> {
        self.0.step()
    }
}

/// A daemon of its own process, as far as its counter goes.
fn daemon<'n>(
    bits: u32,
    directory: &Path,
    server: SocketAddr,
    notes: &'n mut dyn FnMut(Level, &str),
) -> Daemon<'n> {
    with(Counter::of_hardware(Timer(bits)).unwrap(), directory, server, notes)
}

/// A daemon with this counter.
fn with<'n>(
    counter: Counter,
    directory: &Path,
    server: SocketAddr,
    notes: &'n mut dyn FnMut(Level, &str),
) -> Daemon<'n> {
    let mut source = SourceConfig::new(server.ip().to_string());
    source.port = server.port();
    let settings = Settings {
        engine: Config { sources: vec![source], ..Config::default() },
        page: Some(directory.join("clock")),
        control: Place::None,
        state: Place::None,
        leap_file: Place::None,
        sandbox: false,
        ..Settings::default()
    };
    Daemon::of(counter, settings, notes).unwrap()
}

fn newest(daemon: &Daemon<'_>) -> (Hand, Made) {
    daemon.page.last_hand().unwrap()
}

/// Lets the daemon work until the clock is like that.
fn until(daemon: &mut Daemon<'_>, status: Status) {
    let begun = Instant::now();
    while newest(daemon).0.status != status {
        daemon.turn().unwrap();
        assert!(begun.elapsed() < LONG, "{status} never came: {:?}", newest(daemon));
    }
}

/// A server of true time, and a directory for the page.
fn place(name: &str) -> (truechimer_serve::Running, PathBuf) {
    let served = ServedClock::starting_now(Span::ZERO, Rate::ZERO).unwrap();
    let server = NtpServer::bind("127.0.0.1:0".parse().unwrap(), served, 3).unwrap();
    let name = format!("truechimer-narrow-{name}-{}", std::process::id());
    let directory = std::env::temp_dir().join(name);
    std::fs::create_dir_all(&directory).unwrap();
    (server.start().unwrap(), directory)
}

/// Count that another process reads that continues from the page.
fn elsewhere(page: &PageReader, bits: u32) -> Result<Count, truechimer_counter::CounterError> {
    let Kept { wide, at_ns } = page.kept().unwrap();
    Counter::of_hardware(Timer(bits)).unwrap().read_from(&KeptAt { wide, at_ns })
}

#[test]
fn others_continue_from_the_page() {
    let (server, directory) = place("others");
    let mut ignore = |_: Level, _: &str| ();
    let mut daemon = daemon(32, &directory, server.address(), &mut ignore);
    until(&mut daemon, Status::Synchronised);
    let page = PageReader::open(directory.join("clock")).unwrap();
    let (hand, made) = page.read().unwrap();
    // The kernel does not keep time by this timer: nobody is told to go by the raw clock.
    assert_eq!(made.device, Some(Said { bits: 32, by_raw: None }));
    assert_eq!(hand.counter.kind, CounterKind::AcpiPm);
    for _ in 0..3 {
        daemon.turn().unwrap();
        let before = daemon.counter.read();
        let count = elsewhere(&page, 32).unwrap();
        assert!(count.at_or_after(before) && daemon.counter.read().at_or_after(count));
    }
    std::fs::remove_dir_all(directory).unwrap();
}

#[test]
fn a_successor_continues_the_row_while_it_is_fresh() {
    let (server, directory) = place("warm");
    let [mut ignore, mut ignore_too] = [(); 2].map(|()| |_: Level, _: &str| ());
    let mut first = daemon(32, &directory, server.address(), &mut ignore);
    until(&mut first, Status::Synchronised);
    let (left, _) = newest(&first);
    let count = first.counter.read();
    drop(first);
    let mut second = daemon(32, &directory, server.address(), &mut ignore_too);
    let (hand, made) = newest(&second);
    assert_eq!((hand.counter, hand.status), (left.counter, Status::Holdover));
    // Half a minute is far less than the roll-over of 20, any of which would be a row of its own.
    let passed = second.nominal.span(made.count - count);
    assert!(!passed.is_negative() && passed < Span::from_secs(30), "{passed}");
    until(&mut second, Status::Synchronised);
    assert_eq!(newest(&second).0.counter, left.counter);
    std::fs::remove_dir_all(directory).unwrap();
}

#[test]
fn a_successor_that_comes_too_late_begins_a_new_epoch() {
    let (server, directory) = place("late");
    let [mut ignore, mut ignore_too] = [(); 2].map(|()| |_: Level, _: &str| ());
    let mut first = daemon(24, &directory, server.address(), &mut ignore);
    until(&mut first, Status::Synchronised);
    let (left, _) = newest(&first);
    let at = Timer(24).raw();
    drop(first);
    // Until the timer has rolled over: it would be where its row says, by chance, without.
    sleep(Duration::from_millis(2_400));
    while Timer(24).raw() >= at {
        sleep(Duration::from_millis(50));
    }
    let mut second = daemon(24, &directory, server.address(), &mut ignore_too);
    let (hand, _) = newest(&second);
    assert_eq!((hand.counter.epoch.0, hand.status), (left.counter.epoch.0 + 1, Status::Unknown));
    assert_eq!(second.page.last_kept(), None, "nothing to continue from until its first check");
    until(&mut second, Status::Synchronised);
    std::fs::remove_dir_all(directory).unwrap();
}

#[test]
fn a_daemon_that_was_stopped_for_too_long_begins_a_new_epoch() {
    let (server, directory) = place("stopped");
    let mut notes = Vec::new();
    let mut note = |_: Level, text: &str| notes.push(text.to_owned());
    let mut daemon = daemon(24, &directory, server.address(), &mut note);
    until(&mut daemon, Status::Synchronised);
    let page = PageReader::open(directory.join("clock")).unwrap();
    let (before, _) = newest(&daemon);
    sleep(Duration::from_millis(2_500));
    let why = elsewhere(&page, 24);
    assert!(matches!(why, Err(truechimer_counter::CounterError::Stale { .. })), "{why:?}");
    until(&mut daemon, Status::Disrupted);
    assert!(newest(&daemon).0.counter.epoch > before.counter.epoch);
    until(&mut daemon, Status::Synchronised);
    assert!(elsewhere(&page, 24).is_ok());
    drop(daemon);
    assert!(notes.iter().any(|note| note.contains("rolled over")), "{notes:?}");
    std::fs::remove_dir_all(directory).unwrap();
}

#[test]
fn a_counter_that_has_lost_its_power_ends_the_daemon() {
    for off in [0, 0xff_ffff] {
        let (server, directory) = place(&format!("power-{off}"));
        let mut notes = Vec::new();
        let mut note = |_: Level, text: &str| notes.push(text.to_owned());
        let power: &'static AtomicU64 = Box::leak(Box::new(AtomicU64::new(ON)));
        let counter = Counter::of_hardware(Powered(Timer(24), power)).unwrap();
        let mut daemon = with(counter, &directory, server.address(), &mut note);
        until(&mut daemon, Status::Synchronised);
        power.store(off, Ordering::SeqCst);
        let begun = Instant::now();
        let why = loop {
            match daemon.turn() {
                Ok(()) => assert!(begun.elapsed() < LONG, "{:?}", newest(&daemon)),
                Err(why) => break why.to_string(),
            }
        };
        let said = "acpi-pm stands still, for ";
        assert!(why.contains(said) && why.contains("restart with --counter raw"), "{why}");
        let (hand, _) = newest(&daemon);
        assert_eq!(hand.status, Status::Disrupted);
        // What is to be done at a count that never comes is not waited for again and again.
        assert_eq!(daemon.wait(), MAX_WAIT);
        drop(daemon);
        // And servers are not asked again as fast as they answer.
        let disrupted = notes.iter().filter(|note| note.contains("disrupted")).count();
        assert!((1..=5).contains(&disrupted), "{notes:?}");
        std::fs::remove_dir_all(directory).unwrap();
    }
}
