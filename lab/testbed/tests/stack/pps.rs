//! A pulse per second beside a server: a plain file, as sysfs has it, written by a thread that
//! knows when the seconds of `CLOCK_REALTIME` begin.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::Value;
use truechimer::Status;
use truechimer_testbed::chrony::Chronyd;
use truechimer_testbed::daemon::{Daemon, SOON, Server, Setup};
use truechimer_testbed::lacking::or_skip;
use truechimer_testbed::namespace::Pair;
use truechimer_testbed::process::{Process, Signal};
use truechimer_testbed::truth::Truth;
use truechimer_testbed::watch::{Sample, long, median};
use truechimer_testbed::{binary, temp};

use crate::number;

const SECOND: u128 = 1_000_000_000;

/// Shows edges in a file, each as if stamped 0 to 4 µs late.
struct Pulse {
    path: PathBuf,
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Pulse {
    /// With edges this long after the seconds of the system clock, ns.
    fn start(dir: &temp::Dir, after: u128) -> Pulse {
        let path = dir.join("assert");
        show(&path, 0, 0);
        let ended = Arc::new(AtomicBool::new(false));
        let (file, end) = (path.clone(), ended.clone());
        let thread = thread::spawn(move || {
            let mut sequence = 0;
            while !end.load(Ordering::Relaxed) {
                let now = unix_ns();
                let edge = (now - after) / SECOND * SECOND + SECOND + after;
                thread::sleep(Duration::from_nanos(u64::try_from(edge - now).unwrap()));
                while unix_ns() < edge {}
                sequence += 1;
                show(&file, edge + u128::from(sequence * 1_543 % 4_000), sequence);
            }
        });
        Pulse { path, ended, thread: Some(thread) }
    }

    fn stop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }

    /// Pulse as a source of the configuration.
    fn source(&self) -> String {
        format!("[[source]]\npps = {:?}\nname = \"pulse\"\n", self.path)
    }
}

impl Drop for Pulse {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
    }
}

fn unix_ns() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos()
}

/// Nobody sees half a line.
fn show(path: &Path, edge: u128, sequence: u64) {
    let line = format!("{}.{:09}#{sequence}\n", edge / SECOND, edge % SECOND);
    let new = path.with_extension("new");
    std::fs::write(&new, line).unwrap();
    std::fs::rename(&new, path).unwrap();
}

/// A source of the daemon's, by its name.
fn source(daemon: &Daemon, name: &str) -> Value {
    let answer = daemon.ask(&["sources"]);
    let all = answer.json.as_array().cloned().unwrap_or_default();
    all.into_iter()
        .find(|source| source["name"].as_str().is_some_and(|n| n.starts_with(name)))
        .unwrap_or_else(|| panic!("no source {name}: {answer:?}"))
}

/// Watches until a source is as wanted.
fn watch_until(
    daemon: &Daemon,
    watch: &mut truechimer_testbed::watch::Watch,
    name: &str,
    wanted: impl Fn(&Value) -> bool,
) -> Value {
    let end = Instant::now() + SOON;
    loop {
        let found = source(daemon, name);
        if wanted(&found) {
            return found;
        }
        assert!(Instant::now() < end, "not as wanted: {found:#}");
        watch.run(Duration::from_millis(200));
    }
}

#[test]
fn a_pulse_beside_chronyd_is_followed_and_every_reading_is_within_its_bound() {
    let Some(net) = or_skip(Pair::new()) else { return };
    let dir = temp::Dir::new();
    let Some(_server) = or_skip(Chronyd::start(&net.server, &dir, "")) else { return };
    // So far away that its word is a thousand times as vague as the pulse's.
    let mut relay = net.server.command(binary::testbed());
    let path = "delay=3ms,jitter=1ms";
    relay.args(["relay", "192.0.2.1:11123", "127.0.0.1:123", "7", path, path]);
    let mut relay = Process::start(relay, &dir.join("relay.log"));
    relay.expect_output("relaying", SOON);
    let mut pulse = Pulse::start(&dir, 0);
    let setup = Setup {
        network: Some(&net.client),
        sections: &pulse.source(),
        ..Setup::new(&dir, "192.0.2.1:11123")
    };
    let mut daemon = setup.start();
    let mut watch = daemon.watch(Truth::host());
    watch_until(&daemon, &mut watch, "pulse", |s| s["selection"] == "selected");
    watch.run(long(Duration::from_secs(40)));
    println!("{}", watch.summary());
    let found = source(&daemon, "pulse");
    println!("{found:#}");
    assert_eq!((&found["reference"], &found["pulse"]), (&"PPS".into(), &true.into()));
    let (used, edges) = (number(&found, "accepted"), number(&found, "requests"));
    assert!(used * 2 > edges && edges > 20, "{found:#}");
    // The server alone leaves half of its round trip open.
    let floor = number(&source(&daemon, "192.0.2.1"), "rtt_floor_ns");
    let bound = median(watch.since(Duration::from_secs(20)).iter().map(Sample::bound_ns));
    assert!(bound < floor / 4, "{bound} ns are no better than the server's {} ns", floor / 2);
    println!("bound {bound} ns, half of the server's round trip {} ns", floor / 2);

    // It falls silent: the server goes on.
    pulse.stop();
    let silent = watch_until(&daemon, &mut watch, "pulse", |s| s["selection"] == "truechimer");
    assert!(silent["trouble"].as_str().is_some_and(|t| t.starts_with("no edges")), "{silent:#}");
    watch.run(Duration::from_secs(3));
    assert_eq!(watch.samples.last().unwrap().status, Status::Synchronised);
    assert!(source(&daemon, "192.0.2.1")["selection"] == "selected");
}

#[test]
fn without_its_server_the_pulse_goes_on_and_the_log_repeats_it() {
    let dir = temp::Dir::new();
    let server = Server::start(&dir, &["--listen", "127.0.0.1:0", "--offset", "-2.5s"]);
    // What is served has its seconds half-way between those of the system clock.
    let pulse = Pulse::start(&dir, SECOND / 2);
    let log = dir.join("replay.jsonl");
    let setup = Setup {
        settings: &format!("replay-log = {log:?}\n"),
        sections: &pulse.source(),
        ..Setup::new(&dir, &server.address)
    };
    let mut daemon = setup.start();
    let mut watch = daemon.watch(server.truth);
    watch_until(&daemon, &mut watch, "pulse", |s| s["selection"] == "selected");
    server.process.signal(Signal::Stop);
    watch_until(&daemon, &mut watch, &server.address, |s| s["reach"] == 0);
    let from = watch.samples.len();
    watch.run(Duration::from_secs(10));
    let alone = &watch.samples[from..];
    println!("{}; alone {} ns", watch.summary(), median(alone.iter().map(Sample::bound_ns)));
    assert_eq!(source(&daemon, "pulse")["selection"], "selected");

    // Lines that are no edges are told, and what comes after them is used again.
    let before = number(&source(&daemon, "pulse"), "accepted");
    assert!(before > 5);
    drop(pulse);
    thread::sleep(Duration::from_millis(1100));
    std::fs::write(dir.join("assert"), "nonsense\n").unwrap();
    let told = watch_until(&daemon, &mut watch, "pulse", |s| !s["refused"]["unreadable"].is_null());
    assert!(told["trouble"].as_str().is_some_and(|t| t.contains("nonsense")), "{told:#}");
    let pulse = Pulse::start(&dir, SECOND / 2);
    watch_until(&daemon, &mut watch, "pulse", |s| number(s, "accepted") > before + 2);
    drop(pulse);
    daemon.process.signal(Signal::Term);
    let status = daemon.process.wait(SOON).expect("SIGTERM ends it");
    assert_eq!(status.code(), Some(0), "{}", daemon.process.output());

    let mut command = Command::new(binary::lab());
    let output = command.args(["replay", "--summary", "--json"]).arg(&log).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{said}{}", String::from_utf8_lossy(&output.stderr));
    println!("{said}");
}
