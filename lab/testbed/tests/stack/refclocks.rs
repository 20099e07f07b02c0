//! Reference clocks that show the whole time: samples over a socket beside a server, and a real gpsd
//! by shared memory.

use std::net::TcpListener;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::Value;
use truechimer_stamp::sock::{self, SockSample};
use truechimer_testbed::chrony::Chronyd;
use truechimer_testbed::daemon::{Daemon, SOON, Server, Setup};
use truechimer_testbed::lacking::{Lacking, or_skip};
use truechimer_testbed::namespace::Pair;
use truechimer_testbed::process::{self, Process, Signal};
use truechimer_testbed::truth::Truth;
use truechimer_testbed::{binary, receiver, temp};

use crate::number;

/// Sends samples to a socket, ten a second, of a clock that is so far ahead of the system clock.
pub(crate) struct Sender {
    pub(crate) path: PathBuf,
    ahead: Arc<AtomicI64>,
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Sender {
    pub(crate) fn start(dir: &temp::Dir, ahead_ns: i64) -> Sender {
        let path = dir.join("receiver.sock");
        let (ahead, ended) = (Arc::new(AtomicI64::new(ahead_ns)), Arc::new(AtomicBool::new(false)));
        let (to, by, end) = (path.clone(), ahead.clone(), ended.clone());
        let thread = thread::spawn(move || {
            let socket = UnixDatagram::unbound().unwrap();
            while !end.load(Ordering::Relaxed) {
                let unix_ns = unix_ns();
                let true_ns = unix_ns + by.load(Ordering::Relaxed);
                let sample = SockSample { unix_ns, true_ns, pulse: false, leap: 0 };
                // Before the daemon is there, and between what is none.
                let _ = socket.send_to(&sock::write(&sample), &to);
                let _ = socket.send_to(b"nonsense", &to);
                thread::sleep(Duration::from_millis(500));
            }
        });
        Sender { path, ahead, ended, thread: Some(thread) }
    }

    fn source(&self, more: &str) -> String {
        format!("[[source]]\nsock = {:?}\nerror = \"50us\"\nname = \"gps\"\n{more}\n", self.path)
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn unix_ns() -> i64 {
    i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos()).unwrap()
}

/// The reference clock, once it is as wanted.
fn refclock_when(daemon: &Daemon, name: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    let end = Instant::now() + SOON;
    loop {
        let answer = daemon.ask(&["sources"]);
        let all = answer.json.as_array().cloned().unwrap_or_default();
        let found = all.into_iter().find(|source| source["name"] == name);
        if let Some(found) = found.clone().filter(|found| wanted(found)) {
            return found;
        }
        assert!(Instant::now() < end, "not as wanted: {found:#?}");
        thread::sleep(Duration::from_millis(200));
    }
}

#[test]
fn samples_over_a_socket_are_followed_beside_a_server_and_not_against_it() {
    let dir = temp::Dir::new();
    let server = Server::start(&dir, &["--listen", "127.0.0.1:0", "--offset", "-2.5s"]);
    let sender = Sender::start(&dir, -2_500_000_000);
    let setup = Setup { sections: &sender.source(""), ..Setup::new(&dir, &server.address) };
    let mut daemon = setup.start();
    let mut watch = daemon.watch(server.truth);
    let found = refclock_when(&daemon, "gps", |s| number(s, "accepted") > 5);
    assert_eq!((&found["kind"], &found["pulse"]), (&"sock".into(), &false.into()));
    assert_eq!(found["root_distance_ns"], 50_000);
    watch.run(Duration::from_secs(3));
    // Somebody sets the receiver: the clock stays where the server has it.
    sender.ahead.store(-1_500_000_000, Ordering::Relaxed);
    let refused = refclock_when(&daemon, "gps", |s| !s["refused"]["off-time"].is_null());
    assert!(refused["trouble"].as_str().is_some_and(|t| t.contains("off the time")), "{refused:#}");
    watch.run(Duration::from_secs(3));
    println!("{}", watch.summary());
}

#[test]
fn a_trusted_socket_needs_no_server_and_chronyd_reads_the_clock_from_another() {
    let Some(net) = or_skip(Pair::new()) else { return };
    let dir = temp::Dir::new();
    let out = dir.join("out.sock");
    let refclock = format!(
        "refclock SOCK {} refid TC poll 0 filter 2\nlogdir {}\nlog refclocks",
        out.display(),
        dir.join("log").display()
    );
    let Some(_chronyd) = or_skip(Chronyd::start(&net.server, &dir, &refclock)) else { return };
    let sender = Sender::start(&dir, 250_000_000);
    let setup = Setup {
        servers: Vec::new(),
        settings: &format!("sock-out = {out:?}\n"),
        sections: &sender.source("trust = true"),
        ..Setup::new(&dir, "")
    };
    let daemon = setup.start();
    refclock_when(&daemon, "gps", |s| s["status"] == "selected" && number(s, "accepted") > 8);
    let log = dir.join("log").join("refclocks.log");
    let end = Instant::now() + SOON;
    let lines = loop {
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        let lines: Vec<String> =
            text.lines().filter(|line| line.contains(" TC ")).map(str::to_owned).collect();
        if lines.len() > 3 {
            break lines;
        }
        assert!(Instant::now() < end, "chronyd has taken nothing: {text}");
        thread::sleep(Duration::from_millis(200));
    };
    // Date, time, reference, number of the sample, leap, pulse, offsets raw and cooked, dispersion. The true time
    // is ahead of the system clock's: positive to chronyd as to us.
    let offsets: Vec<f64> = lines
        .iter()
        .filter_map(|line| {
            line.split_whitespace()
                .filter_map(|word| word.parse().ok())
                .find(|x: &f64| (x - 0.25).abs() < 0.01)
        })
        .collect();
    println!("{lines:#?}");
    assert!(!offsets.is_empty(), "0.25 s ahead, as chronyd has it");
}

fn gpsd(dir: &Path, receiver: u16) -> Result<Process, Lacking> {
    let program = binary::system("gpsd");
    Command::new(&program)
        .arg("-V")
        .output()
        .map_err(|why| Lacking(format!("gpsd (package gpsd): {why}")))?;
    if !process::is_root() {
        return Err(Lacking("segment 0 belongs to root, as gpsd does".into()));
    }
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    // Segments of its own: on the host somebody may follow others by those names.
    let mut command = process::command("unshare");
    command.arg("--ipc").arg(program).args(["-N", "-n", "-D", "4", "-S", &port.to_string()]);
    command.arg(format!("tcp://127.0.0.1:{receiver}"));
    Ok(Process::start(command, &dir.join("gpsd.log")))
}

/// The command, once there is one, with the shared memory of that process.
fn beside(process: &Process, command: &Command) -> Command {
    let memory = format!("/proc/{}/ns/ipc", process.pid());
    let end = Instant::now() + SOON;
    while std::fs::read_link(&memory).unwrap() == std::fs::read_link("/proc/self/ns/ipc").unwrap() {
        assert!(Instant::now() < end, "no shared memory of its own: {}", process.output());
        thread::sleep(Duration::from_millis(20));
    }
    let mut within = process::command("nsenter");
    within.arg(format!("--ipc={memory}")).arg("--").arg(command.get_program());
    within.args(command.get_args());
    within
}

#[test]
fn a_real_gpsd_is_followed_by_shared_memory() {
    let dir = temp::Dir::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let end = Arc::new(AtomicBool::new(false));
    let (of_thread, place) = (end.clone(), dir.join(""));
    let Some(gpsd) = or_skip(gpsd(&place, port)) else { return };
    let thread = thread::spawn(move || {
        receiver::serve(&listener, unix_ns, || of_thread.load(Ordering::Relaxed))
    });
    let source = "[[source]]\nshm = 0\nerror = \"500ms\"\noffset = \"50ms\"\ntrust = true\n";
    let setup = Setup { servers: Vec::new(), sections: source, ..Setup::new(&dir, "") };
    let mut daemon = setup.run(beside(&gpsd, &setup.command()));
    let mut watch = daemon.watch(Truth::host());
    let found = refclock_when(&daemon, "shm0", |s| number(s, "accepted") > 5);
    println!("{found:#}\n{}", gpsd.output().lines().filter(|l| l.contains("NTP")).count());
    assert_eq!((&found["kind"], &found["status"]), (&"shm".into(), &"selected".into()));
    watch.run(Duration::from_secs(3));
    println!("{}", watch.summary());
    end.store(true, Ordering::Relaxed);
    gpsd.signal(Signal::Term);
    let _ = thread.join();
}
