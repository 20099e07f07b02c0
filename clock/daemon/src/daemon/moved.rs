//! The daemon in a virtual machine that is moved: a made-up vmclock device and a server whose time
//! jumps with the marker, as it seems from inside, and all else real.

use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use truechimer_counter::Choice;
use truechimer_engine::{Config, SourceConfig};
use truechimer_ntp::server::{ServerState, respond};
use truechimer_ntp::{LeapIndicator, Log2, RefId, Short, Timestamp};
use truechimer_time::CounterKind;
use truechimer_timehands::{Marker, PageReader, Status};

use super::*;
use crate::config::Place;
use crate::hypervisor::tests::Device;

/// Far more than anything here takes.
const LONG: Duration = Duration::from_secs(60);
/// Where time begins, Unix time, s.
const ORIGIN: i64 = 1_900_000_000;

/// A server whose time is the raw clock's, and so much more.
struct Server {
    port: u16,
    ahead_s: Arc<AtomicI64>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    fn start() -> Server {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        let port = socket.local_addr().unwrap().port();
        let (ahead_s, stop) = (Arc::new(AtomicI64::new(0)), Arc::new(AtomicBool::new(false)));
        let (ahead, ended) = (Arc::clone(&ahead_s), Arc::clone(&stop));
        let thread = std::thread::spawn(move || {
            let raw = Counter::of_kind(CounterKind::Raw).unwrap();
            let begun = raw.read();
            let now = || {
                let passed = Period::NANOSECOND.span(raw.read() - begun);
                let second = ORIGIN + ahead.load(Ordering::SeqCst);
                let time = truechimer_time::Instant::new(second, 0) + passed;
                Timestamp::from_instant(time, &Leaps::default())
            };
            let mut request = [0; 512];
            while !ended.load(Ordering::SeqCst) {
                let Ok((length, from)) = socket.recv_from(&mut request) else { continue };
                let received = now();
                let state = ServerState {
                    leap: LeapIndicator::None,
                    stratum: 1,
                    precision: Log2::at_least(Span::from_micros(1)),
                    root_delay: Short::default(),
                    root_dispersion: Short::at_least(Span::from_micros(15)),
                    reference_id: RefId(*b"TEST"),
                    reference_timestamp: received,
                };
                if let Some(reply) = respond(&request[..length], received, now(), &state) {
                    let _ = socket.send_to(&reply, from);
                }
            }
        });
        Server { port, ahead_s, stop, thread: Some(thread) }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A daemon with its page, log and device in this directory.
fn daemon<'n>(
    directory: &Path,
    server: &Server,
    notes: &'n mut dyn FnMut(Level, &str),
) -> Daemon<'n> {
    let mut source = SourceConfig::new("127.0.0.1");
    (source.port, source.poll) = (server.port, 1);
    let settings = Settings {
        engine: Config { sources: vec![source], ..Config::default() },
        counter: Choice::Raw,
        page: Some(directory.join("clock")),
        vmclock: Place::At(directory.join("vmclock")),
        replay_log: Some(directory.join("log")),
        control: Place::None,
        state: Place::None,
        leap_file: Place::None,
        sandbox: false,
        ..Settings::default()
    };
    Daemon::start(settings, notes).unwrap()
}

fn directory(name: &str) -> PathBuf {
    let name = format!("truechimer-moved-{name}-{}", std::process::id());
    let directory = std::env::temp_dir().join(name);
    std::fs::create_dir_all(&directory).unwrap();
    directory
}

/// Lets the daemon work until the newest hand is like that, and says which other statuses came before.
fn until(daemon: &mut Daemon<'_>, status: Status) -> Vec<Status> {
    let (begun, mut before) = (Instant::now(), Vec::new());
    loop {
        let newest = daemon.page.last_hand().unwrap().0.status;
        if newest == status {
            return before;
        }
        if before.last() != Some(&newest) {
            before.push(newest);
        }
        daemon.turn().unwrap();
        assert!(begun.elapsed() < LONG, "{status} never came after {before:?}");
    }
}

/// Marker and epoch of the newest hand, as readers see them.
fn marked(page: &PageReader) -> (Option<u64>, u32) {
    let newest = page.newest_in_full().unwrap().unwrap();
    (newest.marker.map(|marker| marker.value), newest.hand.counter.epoch.0)
}

#[test]
fn a_machine_that_is_moved_has_the_time_again_with_the_first_reply() {
    let (server, directory) = (Server::start(), directory("again"));
    let device = Device::new(&directory, 40);
    let mut notes = Vec::new();
    let mut note = |_: Level, text: &str| notes.push(text.to_owned());
    let mut daemon = daemon(&directory, &server, &mut note);
    until(&mut daemon, Status::Synchronised);
    let page = PageReader::open(directory.join("clock")).unwrap();
    let (_, epoch) = marked(&page);
    assert_eq!(marked(&page).0, Some(40));
    // A day ahead, then ten milliseconds' worth of nothing: what matters is the word.
    for (n, ahead) in [(1, 86_400), (2, 86_400), (3, 30 * 86_400)] {
        server.ahead_s.store(ahead, Ordering::SeqCst);
        device.put(0x10, 40 + n);
        let by_now = marked(&page);
        assert_eq!(by_now.0, Some(39 + n), "the daemon has had no turn");
        // No hand of before is published under the new marker.
        let hand = *daemon.engine.hand();
        daemon.publish(&hand);
        daemon.tend(daemon.counter.read(), None);
        assert_eq!(marked(&page), by_now);
        daemon.turn().unwrap();
        let (marker, now) = marked(&page);
        assert_eq!((marker, now), (Some(40 + n), epoch + n as u32));
        let before = until(&mut daemon, Status::Synchronised);
        assert!(before.iter().all(|status| *status == Status::Disrupted), "{before:?}");
        let hand = page.read().unwrap().0;
        let off = hand.time_at(daemon.counter.read()).secs() - ORIGIN - ahead;
        assert!((0..3600).contains(&off), "{off} s");
    }
    daemon.finish();
    let said = |text: &str| notes.iter().filter(|note| note.contains(text)).count();
    assert_eq!(
        said("disrupted: the hypervisor says that the machine was migrated"),
        3,
        "{notes:?}"
    );
    assert_eq!(said("held off") + said("step-suspected"), 0, "{notes:?}");
    assert_eq!(said("tells when the machine was migrated"), 1, "{notes:?}");
    // All of it can be repeated, bit for bit.
    let log = std::fs::File::open(directory.join("log")).unwrap();
    let repeated = truechimer_replay::verify(std::io::BufReader::new(log)).unwrap();
    assert!(repeated.used > 0 || repeated.events > 10, "{repeated:?}");
    std::fs::remove_dir_all(directory).unwrap();
}

/// A page whose generation alone changes has no other marker for readers: they hear of it by the daemon.
#[test]
fn another_generation_alone_is_a_disruption_with_the_next_look() {
    let (server, directory) = (Server::start(), directory("generation"));
    let device = Device::new(&directory, 1);
    device.put(0x68, 5);
    device.put(0x18, 1 << 8);
    let mut notes = Vec::new();
    let mut note = |_: Level, text: &str| notes.push(text.to_owned());
    let mut daemon = daemon(&directory, &server, &mut note);
    until(&mut daemon, Status::Synchronised);
    let page = PageReader::open(directory.join("clock")).unwrap();
    let (marker, epoch) = marked(&page);
    device.put(0x68, 6);
    daemon.turn().unwrap();
    assert_eq!(marked(&page), (marker, epoch + 1));
    let before = until(&mut daemon, Status::Synchronised);
    assert!(before.iter().all(|status| *status == Status::Disrupted), "{before:?}");
    daemon.finish();
    let said = notes.iter().filter(|note| note.contains("or cloned (generation)")).count();
    assert_eq!(said, 1, "{notes:?}");
    std::fs::remove_dir_all(directory).unwrap();
}

#[test]
fn replies_that_were_under_way_when_it_moved_are_not_used() {
    let (server, directory) = (Server::start(), directory("under-way"));
    let device = Device::new(&directory, 1);
    let mut ignore = |_: Level, _: &str| ();
    let mut daemon = daemon(&directory, &server, &mut ignore);
    until(&mut daemon, Status::Synchronised);
    let epoch = daemon.epoch;
    let reading = system_clock::read(daemon.counter, daemon.nominal);
    daemon.events.push_back(Event::SystemClock(reading));
    device.put(0x10, 2);
    // Whatever comes first, the word is heard before it.
    daemon.drain();
    assert_eq!(daemon.epoch.0, epoch.0 + 1);
    assert!(daemon.events.iter().all(|event| !has_counts(event)), "{:?}", daemon.events);
    daemon.finish();
    std::fs::remove_dir_all(directory).unwrap();
}

#[test]
fn a_successor_goes_on_only_under_the_same_marker() {
    let (server, directory) = (Server::start(), directory("successor"));
    let device = Device::new(&directory, 1);
    let mut ignore = |_: Level, _: &str| ();
    let mut first = daemon(&directory, &server, &mut ignore);
    until(&mut first, Status::Synchronised);
    let epoch = first.epoch.0;
    first.finish();
    let mut ignore = |_: Level, _: &str| ();
    let mut second = daemon(&directory, &server, &mut ignore);
    let (hand, _) = second.page.last_hand().unwrap();
    assert_eq!((hand.status, hand.counter.epoch.0), (Status::Holdover, epoch));
    until(&mut second, Status::Synchronised);
    second.finish();
    device.put(0x10, 2);
    let page = PageReader::open(directory.join("clock")).unwrap();
    // What a dead daemon left bears the marker of its time.
    assert_eq!(marked(&page), (Some(1), epoch));
    let mut notes = Vec::new();
    let mut note = |_: Level, text: &str| notes.push(text.to_owned());
    let mut third = daemon(&directory, &server, &mut note);
    let (hand, _) = third.page.last_hand().unwrap();
    assert_eq!((hand.status, hand.counter.epoch.0), (Status::Unknown, epoch + 1));
    assert_eq!(third.page.marker(), Some(Marker { device: Marker::ELSEWHERE, value: 2 }));
    until(&mut third, Status::Synchronised);
    third.finish();
    assert!(notes.iter().any(|note| note.contains("since the last daemon")), "{notes:?}");
    std::fs::remove_dir_all(directory).unwrap();
}
