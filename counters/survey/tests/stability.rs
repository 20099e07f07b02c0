//! A measurement whose reference misbehaves.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use truechimer_counter::Choice;
use truechimer_survey::analysis::Options;
use truechimer_survey::stability::{Against, Setup, Stability, StabilityError, measure};
use truechimer_survey::stress::{Phases, Stress};

/// Seconds from 1900 to 1970.
const NTP_EPOCH: u64 = 2_208_988_800;

/// An NTP server whose `nth` reply (from 0) is off by so many seconds.
struct Server {
    port: u16,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

fn setup() -> Setup {
    Setup {
        counter: Choice::Raw,
        against: Against::Raw,
        interval_s: 0.05,
        duration: Duration::from_secs(3600),
        best_of: 1,
        phases: Phases { stress: Stress::None, each: Duration::from_secs(1) },
        log: None,
        resume: false,
        options: Options::default(),
    }
}

impl Server {
    fn start(off: fn(u32) -> i64) -> Server {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        let port = socket.local_addr().unwrap().port();
        let stop = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&stop);
        let serve = move || {
            let mut nth = 0;
            while !ended.load(Ordering::Relaxed) {
                let mut request = [0; 128];
                let Ok((length, from)) = socket.recv_from(&mut request) else { continue };
                let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
                let secs = (now.as_secs() + NTP_EPOCH).wrapping_add_signed(off(nth));
                let fraction = (u64::from(now.subsec_nanos()) << 32) / 1_000_000_000;
                let stamp = (secs << 32) | fraction;
                let mut reply = [0; 48];
                // Synchronised, version 4, a server of stratum 1.
                reply[..4].copy_from_slice(&[0x24, 1, request[2], 0xec]);
                reply[12..16].copy_from_slice(b"TEST");
                reply[16..24].copy_from_slice(&stamp.to_be_bytes());
                reply[24..32].copy_from_slice(&request[40..48]);
                reply[32..40].copy_from_slice(&stamp.to_be_bytes());
                reply[40..48].copy_from_slice(&stamp.to_be_bytes());
                if length >= 48 {
                    socket.send_to(&reply, from).unwrap();
                    nth += 1;
                }
            }
        };
        Server { port, stop, thread: Some(std::thread::spawn(serve)) }
    }

    fn measured(&self) -> Result<Stability, StabilityError> {
        let against = Against::Ntp("127.0.0.1".into(), self.port);
        let setup = Setup { against, ..setup() };
        let stop = AtomicBool::new(false);
        measure(&setup, &stop, &mut |progress| {
            assert!(progress.phase_s.abs() < 1.0, "{progress:?}");
            stop.store(progress.samples >= 12, Ordering::Relaxed);
        })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().unwrap().join();
    }
}

#[test]
fn a_single_reply_that_cannot_be_is_left_out() {
    let server = Server::start(|nth| match nth {
        3 => 86_400 * 365,
        6 => -100,
        _ => 0,
    });
    let found = server.measured().unwrap();
    assert!(found.analysis.samples >= 10, "{:?}", found.notes);
    assert!(found.missed >= 2, "{found:?}");
    assert!(!found.notes.iter().any(|note| note.contains("error")), "{:?}", found.notes);
}

#[test]
fn what_was_measured_is_kept_where_the_reference_is_set() {
    for off in
        [
            (|nth| if nth > 5 { 1000 } else { 0 }) as fn(u32) -> i64,
            |nth| {
                if nth > 5 { -1000 } else { 0 }
            },
        ]
    {
        let found = Server::start(off).measured().unwrap();
        assert!(found.ended_early && found.phase.len() >= 3, "{found:?}");
        let said =
            found.notes.iter().any(|n| n.contains("ended by an error") && n.contains("set it"));
        assert!(said, "{:?}", found.notes);
    }
}

/// Edges as a plain file shows them, the fourth of which comes 0.6 s late.
#[test]
fn a_single_pulse_gone_astray_is_left_out() {
    let folder =
        std::env::temp_dir().join(format!("truechimer-survey-pulses-{}", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    let (file, next) = (folder.join("assert"), folder.join("next"));
    let show = move |unix_ns: u128, sequence: u32| {
        let (secs, nanos) = (unix_ns / 1_000_000_000, unix_ns % 1_000_000_000);
        std::fs::write(&next, format!("{secs}.{nanos:09}#{sequence}\n")).unwrap();
        std::fs::rename(&next, &file).unwrap();
    };
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos();
    let start = now();
    show(start, 0);
    let path = folder.join("assert");
    let pulses = std::thread::spawn(move || {
        for second in 1..=6_u32 {
            let edge = start + u128::from(second) * 1_000_000_000;
            let late = if second == 4 { 600_000_000 } else { 0 };
            while now() < edge + late {
                std::thread::sleep(Duration::from_millis(1));
            }
            show(edge + late, second);
        }
    });
    let setup = Setup { against: Against::Pps(path), interval_s: 1.0, ..setup() };
    let stop = AtomicBool::new(false);
    let found = std::thread::scope(|scope| {
        scope.spawn(|| {
            pulses.join().unwrap();
            std::thread::sleep(Duration::from_millis(300));
            stop.store(true, Ordering::Relaxed);
        });
        measure(&setup, &stop, &mut |progress| {
            assert!(progress.phase_s.abs() < 0.01, "{progress:?}");
        })
    });
    std::fs::remove_dir_all(&folder).unwrap();
    let found = found.unwrap();
    assert!(!found.notes.iter().any(|note| note.contains("error")), "{:?}", found.notes);
    // One or none: a machine that was held up has not seen it at all.
    assert!(found.missed <= 1, "{found:?}");
}

#[test]
fn without_two_samples_it_is_an_error() {
    let why = Server::start(|nth| -i64::from(nth) * 100).measured().unwrap_err().to_string();
    assert!(why.contains("went back"), "{why}");
}
