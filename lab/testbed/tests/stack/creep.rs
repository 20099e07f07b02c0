//! A server that is right for a while and then creeps away, over loopback. The truth is a line over
//! the kernel's raw clock, so that nothing that is done to the system clock is taken for a creep.

use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use truechimer::{Clock, Span, Status};
use truechimer_ntp::server::{ServerState, respond};
use truechimer_ntp::{LeapIndicator, Log2, RefId, Short, Timestamp};
use truechimer_testbed::daemon::{SOON, Setup};
use truechimer_testbed::scale::Line;
use truechimer_testbed::temp;
use truechimer_testbed::truth::raw_ns;
use truechimer_testbed::udp::receive;
use truechimer_testbed::watch::Sample;

use crate::number;

/// The truth.
const LINE: Line = Line { unix_ns: 1_800_000_000_000_000_000, ppb: 0, leap: None };
/// Error that the server claims at most.
const DISPERSION: Span = Span::from_micros(15);
/// Interval between readings of the clock.
const EVERY: Duration = Duration::from_millis(50);

/// A server on a thread of its own, which ends with it.
struct Creeper {
    address: String,
    /// When it begins to creep, by the raw clock, ns.
    from: Arc<AtomicI64>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Creeper {
    fn start(ppm: i64) -> Creeper {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(EVERY)).unwrap();
        let address = socket.local_addr().unwrap().to_string();
        let (from, stop) = (Arc::new(AtomicI64::new(i64::MAX)), Arc::new(AtomicBool::new(false)));
        let (since, ended) = (Arc::clone(&from), Arc::clone(&stop));
        let now = move || {
            let raw = raw_ns();
            let crept = raw.saturating_sub(since.load(Ordering::Relaxed)).max(0);
            timestamp(LINE.unix_ns(raw) + crept * ppm / 1_000_000)
        };
        let thread = std::thread::spawn(move || {
            let mut state = ServerState {
                leap: LeapIndicator::None,
                stratum: 1,
                precision: Log2::at_least(Span::from_micros(1)),
                root_delay: Short::default(),
                root_dispersion: Short::at_least(DISPERSION),
                reference_id: RefId(*b"LINE"),
                reference_timestamp: Timestamp::UNKNOWN,
            };
            let mut request = [0; 512];
            while !ended.load(Ordering::Relaxed) {
                let Ok((length, from)) = receive(&socket, &mut request) else { continue };
                let received = now();
                state.reference_timestamp = received;
                if let Some(reply) = respond(&request[..length], received, now(), &state) {
                    let _ = socket.send_to(&reply, from);
                }
            }
        });
        Creeper { address, from, stop, thread: Some(thread) }
    }
}

impl Drop for Creeper {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn timestamp(unix_ns: i64) -> Timestamp {
    let (seconds, ns) = (unix_ns.div_euclid(1_000_000_000), unix_ns.rem_euclid(1_000_000_000));
    Timestamp::from_unix(seconds, (((ns as u128) << 64) / 1_000_000_000) as u64)
}

/// Readings with the truth outside of their bound.
#[derive(Default, Debug)]
struct Outside {
    /// Their times, s since a start.
    when: Vec<f64>,
    /// Distance of the truth from its bound at most, ns.
    most: i64,
    /// Largest bound of all readings up to the last of them, ns.
    bound: i64,
}

/// Reads the clock for so long and gathers those, by the time since `start`.
fn outside(clock: &Clock, start: Instant, time: Duration) -> Outside {
    let (mut all, mut bound) = (Outside::default(), 0);
    while start.elapsed() < time {
        let (sample, _) = Sample::look(clock, || LINE.unix_ns(raw_ns()), start).unwrap();
        if sample.status.bound_holds() {
            bound = bound.max(sample.bound_ns());
            if sample.outside_ns() > 0 {
                all.when.push(sample.at.as_secs_f64());
                all.most = all.most.max(sample.outside_ns());
                all.bound = bound;
            }
        }
        std::thread::sleep(EVERY);
    }
    all
}

/// A minute and a half of right replies, then 20 ppm: nothing tells it before the creep has used up
/// what the path leaves open, from one end to the other. (The rate was taken for what the creep made
/// of it; what was known before was not covered: the truth was outside for up to 28 s, by 254 µs.)
#[test]
fn a_creep_shows_as_soon_as_the_path_no_longer_hides_it() {
    const PPM: i64 = 20;
    let right = Duration::from_secs(90);
    let dir = temp::Dir::new();
    let server = Creeper::start(PPM);
    let mut daemon = Setup::new(&dir, &*server.address).start();
    let clock = daemon.clock();
    let start = Instant::now();
    while clock.status().ok() != Some(Status::Synchronised) {
        assert!(start.elapsed() < SOON, "not synchronised: {:#}", daemon.ask(&["sources"]).json);
        std::thread::sleep(EVERY);
    }
    let start = Instant::now();
    let before = outside(&clock, start, right);
    assert!(before.when.is_empty(), "outside while the server was right: {before:?}");

    let source = daemon.source();
    server.from.store(raw_ns(), Ordering::Relaxed);
    // Not until newcomers are believed, which have agreed for as long as they contradict.
    let after = outside(&clock, Instant::now(), right * 3 / 4);
    let width = 2 * (number(&source, "rtt_floor_ns") / 2 + number(&source, "root_distance_ns"));
    println!("the path hides {width} ns: {after:.1?}");
    // Where the scheduler made replies slow, these hide as much; and the bound is as wide.
    let open = width.max(2 * after.bound);
    let hidden_s = open as f64 / 1000.0 / PPM as f64;
    let last = after.when.last().copied().unwrap_or(0.0);
    assert!(after.most <= 2 * open, "outside by more than {} ns: {after:.1?}", 2 * open);
    // The rate is known to that width in the time before, and one poll passes unseen.
    assert!(last <= 2.0 * hidden_s + 3.0, "still outside: {after:.1?}; {open} ns are hidden");
}
