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

/// When the truth was outside of the bound, s since `start`, and by how much at most, ns.
fn outside(clock: &Clock, start: Instant, time: Duration) -> (Vec<f64>, i64) {
    let (mut when, mut most) = (Vec::new(), 0);
    while start.elapsed() < time {
        let (sample, _) = Sample::look(clock, || LINE.unix_ns(raw_ns()), start).unwrap();
        if sample.status.bound_holds() && sample.outside_ns() > 0 {
            when.push(sample.at.as_secs_f64());
            most = most.max(sample.outside_ns());
        }
        std::thread::sleep(EVERY);
    }
    (when, most)
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
    let (when, _) = outside(&clock, start, right);
    assert!(when.is_empty(), "outside while the server was right: {when:?}");

    let source = daemon.source();
    let bound = Sample::look(&clock, || LINE.unix_ns(raw_ns()), start).unwrap().0.bound_ns();
    server.from.store(raw_ns(), Ordering::Relaxed);
    // Not until newcomers are believed, which have agreed for as long as they contradict.
    let (when, most) = outside(&clock, Instant::now(), right * 3 / 4);
    let width = 2 * (number(&source, "rtt_floor_ns") / 2 + number(&source, "root_distance_ns"));
    println!("outside at {when:.1?} s, by {most} ns; bound {bound} ns, the path hides {width} ns");
    // Where the scheduler made the newest replies slow, these hide as much.
    let open = width.max(2 * bound);
    let hidden_s = open as f64 / 1000.0 / PPM as f64;
    let last = when.last().copied().unwrap_or(0.0);
    assert!(most <= 2 * open, "outside by {most} ns: {when:?}");
    // The rate is known to that width in the time before, and one poll passes unseen.
    assert!(last <= 2.0 * hidden_s + 3.0, "still outside after {last} s: {when:?}");
}
