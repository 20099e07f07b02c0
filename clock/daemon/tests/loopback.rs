//! The whole daemon, in this process, against a server of our own on loopback.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)] // a test may

use std::fs;
use std::io::BufReader;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use truechimer_counter::{Choice, Counter};
use truechimer_daemon::{DaemonError, Level, Options, Service, control, run};
use truechimer_serve::{Running, ServedClock, Server};
use truechimer_time::{Rate, Span};
use truechimer_timehands::{PageReader, Reference, Status};

const TIMEOUT: Duration = Duration::from_secs(300);

/// A directory of its own, removed at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Scratch {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir()
            .join(format!("truechimer-loopback-{}-{number}", std::process::id()));
        fs::create_dir(&path).unwrap();
        Scratch(path)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn options(&self, server: SocketAddr) -> Options {
        Options {
            servers: vec![server.to_string()],
            poll: Some(1),
            page: Some(self.file("clock")),
            state: Some("none".into()),
            ..Options::default()
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A daemon on a thread.
struct Daemon {
    stop: Arc<AtomicBool>,
    reload: Arc<AtomicBool>,
    notes: Arc<Mutex<Vec<String>>>,
    thread: Option<JoinHandle<Result<(), DaemonError>>>,
}

impl Daemon {
    fn start(options: Options) -> Daemon {
        let (stop, reload) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let notes = Arc::new(Mutex::new(Vec::new()));
        let thread = thread::spawn({
            let (stop, reload, notes) = (stop.clone(), reload.clone(), notes.clone());
            move || {
                run(&options, &stop, &reload, &mut Service::none(), &mut |level, text| {
                    if level >= Level::Info {
                        notes.lock().unwrap().push(text.to_owned());
                    }
                })
            }
        });
        Daemon { stop, reload, notes, thread: Some(thread) }
    }

    fn end(mut self) -> Result<(), DaemonError> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap()
    }

    /// Waits until `found` finds what it looks for.
    fn wait_for<T>(&self, what: &str, mut found: impl FnMut() -> Option<T>) -> T {
        let start = Instant::now();
        loop {
            if let Some(it) = found() {
                return it;
            }
            let notes = self.notes.lock().unwrap().clone();
            assert!(start.elapsed() < TIMEOUT, "still waiting for {what}; notes: {notes:#?}");
            thread::sleep(Duration::from_millis(20));
        }
    }

    fn wait_for_note(&self, part: &str) {
        self.wait_for(part, || {
            self.notes.lock().unwrap().iter().any(|note| note.contains(part)).then_some(())
        });
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn serve(offset: &str) -> Running {
    let clock = ServedClock::starting_now(offset.parse().unwrap(), Rate::from_ppb(37_000)).unwrap();
    Server::bind("127.0.0.1:0".parse().unwrap(), clock, 10).unwrap().start().unwrap()
}

/// Offset of the page's clock from the served one, and the bound that it promises.
fn error(page: &PageReader, clock: ServedClock, counter: Counter) -> Option<(Span, Span)> {
    let truth = clock.sandwich(counter);
    let (hand, _) = page.read()?;
    if !hand.status.bound_holds() {
        return None;
    }
    let count = truth.count();
    let served = hand.leaps.instant(
        truth.unix_ns.div_euclid(1_000_000_000),
        truechimer_time::Instant::from_nanos(truth.unix_ns.rem_euclid(1_000_000_000).into()).frac(),
    );
    let half = hand.period.span(truth.width()).half();
    Some((hand.time_at(count) - served, hand.bound_at(count) + half))
}

#[test]
fn it_follows_its_server_tells_of_itself_and_can_be_replayed() {
    let scratch = Scratch::new();
    let server = serve("1.5s");
    let log = scratch.file("log");
    fs::write(&log, "from before").unwrap();
    fs::set_permissions(&log, fs::Permissions::from_mode(0o644)).unwrap();
    let options = Options { replay_log: Some(log.clone()), ..scratch.options(server.address()) };
    let page_path = scratch.file("clock");
    let daemon = Daemon::start(options.clone());
    let page = daemon.wait_for("the page", || PageReader::open(&page_path).ok());
    let counter = Counter::open(Choice::Auto).unwrap();
    daemon.wait_for("a small bound", || {
        error(&page, server.clock(), counter).filter(|(_, bound)| *bound < Span::from_millis(10))
    });
    for _ in 0..100 {
        let (error, bound) = error(&page, server.clock(), counter).unwrap();
        assert!(error.abs() <= bound, "off by {error}, bound {bound}");
        thread::sleep(Duration::from_millis(30));
    }
    // Who serves the clock on knows from the page whom it follows.
    let port = server.address().port();
    let reference = Reference { stratum: 10, id: [127, 0, 0, 1], port, ipv6: false };
    daemon.wait_for("what it follows", || (page.reference() == Some(reference)).then_some(()));
    let heartbeat = page.heartbeat();
    daemon.wait_for("a heartbeat", || (page.heartbeat() != heartbeat).then_some(()));

    let socket = control::default_path(&page_path);
    let answer = control::report(&socket, TIMEOUT).unwrap();
    assert_eq!(answer.daemon.page, page_path);
    assert_eq!(answer.daemon.pid, std::process::id());
    assert_eq!(answer.daemon.system_clock, "left alone");
    assert!(answer.daemon.memory > 0 && answer.daemon.uptime > Span::from_secs(2));
    let source = &answer.report.sources[0];
    assert!(source.accepted > 0 && source.reach & 1 == 1, "{source:?}");

    // A second daemon is kept out, and the first does not notice.
    let second = Daemon::start(options.clone());
    second.wait_for("the refusal", || second.thread.as_ref().unwrap().is_finished().then_some(()));
    assert!(matches!(second.end(), Err(DaemonError::Page(_))));
    assert!(control::version(&socket, TIMEOUT).is_ok());

    daemon.end().unwrap();
    assert!(!socket.exists());
    let mode = fs::metadata(&log).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let summary = truechimer_replay::verify(BufReader::new(fs::File::open(&log).unwrap())).unwrap();
    assert!(!summary.truncated && summary.hands > 3 && summary.events > 10, "{summary:?}");
    assert!(summary.actions > summary.hands);
}

#[test]
fn a_restarted_daemon_goes_on_where_the_last_one_ended() {
    let scratch = Scratch::new();
    let server = serve("-2s");
    let state = scratch.file("rate.json");
    let options = Options { state: Some(state.clone()), ..scratch.options(server.address()) };
    let first = Daemon::start(options.clone());
    let page = first.wait_for("the page", || PageReader::open(scratch.file("clock")).ok());
    let counter = Counter::open(Choice::Auto).unwrap();
    first.wait_for("synchronisation", || error(&page, server.clock(), counter));
    // Who agrees is kept while it runs: a daemon that is killed leaves it as well.
    let agreed = format!("\"{}\"", server.address());
    first.wait_for("who agrees", || {
        let kept = fs::read_to_string(&state).ok()?;
        kept.contains("\"agreed\"").then_some(()).filter(|()| kept.contains(&agreed))
    });
    first.end().unwrap();
    // However soon after the end anybody looks: nobody tends it any more, and that is said.
    let (left, _) = page.read().unwrap();
    assert_eq!(left.status, Status::Holdover);
    let silence = counter.read() - page.heartbeat();
    assert!(silence.0.unsigned_abs() > 1 << 62, "and nobody relies on its heartbeat: {silence:?}");

    let second = Daemon::start(options);
    second.wait_for("synchronisation", || error(&page, server.clock(), counter));
    let (hand, _) = page.read().unwrap();
    assert_eq!(hand.counter, left.counter, "the same epoch");
    let (error, bound) = error(&page, server.clock(), counter).unwrap();
    assert!(error.abs() <= bound, "off by {error}, bound {bound}");
    second.end().unwrap();
}

#[test]
fn the_configuration_is_read_again_and_a_bad_one_is_not_taken() {
    let scratch = Scratch::new();
    let (server, other) = (serve("0"), serve("0"));
    let file = scratch.file("truechimer.toml");
    let source = |server: &Running| format!("[[source]]\nhost = \"{}\"\n", server.address());
    fs::write(&file, source(&server)).unwrap();
    let options = Options {
        servers: Vec::new(),
        config: Some(file.clone()),
        ..scratch.options(server.address())
    };
    let daemon = Daemon::start(options);
    let socket = control::default_path(&scratch.file("clock"));
    let report = || control::report(&socket, TIMEOUT).ok().map(|answer| answer.report);
    daemon.wait_for("a reply", || report().filter(|r| r.sources[0].accepted > 0));

    fs::write(&file, "pol = 1\n").unwrap();
    daemon.reload.store(true, Ordering::Relaxed);
    daemon.wait_for_note("unknown key `pol`");
    let accepted = report().unwrap().sources[0].accepted;
    assert!(accepted > 0);

    fs::write(&file, source(&server) + &source(&other) + "burst = false\n").unwrap();
    control::reload(&socket, TIMEOUT).unwrap();
    let both = daemon.wait_for("the second source", || report().filter(|r| r.sources.len() == 2));
    assert!(both.sources[0].accepted >= accepted, "nothing learnt is lost");
    daemon.wait_for("its reply", || report().filter(|r| r.sources[1].accepted > 0));

    fs::write(&file, "page = \"/elsewhere\"\ncounter = \"raw\"\n".to_owned() + &source(&other))
        .unwrap();
    daemon.reload.store(true, Ordering::Relaxed);
    daemon.wait_for_note("only at the next start: counter");
    daemon.wait_for("the removal", || report().filter(|r| r.sources.len() == 1));
    daemon.end().unwrap();
}

#[test]
fn a_name_and_raw_counts_and_no_answer() {
    let scratch = Scratch::new();
    let server = serve("0");
    // The port is bound, but nobody answers there: ICMP does not come, only silence.
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let options = Options {
        servers: vec![
            format!("localhost:{}", server.address().port()),
            silent.local_addr().unwrap().to_string(),
        ],
        counter: Some(Choice::Raw),
        ..scratch.options(server.address())
    };
    let daemon = Daemon::start(options);
    let page = daemon.wait_for("the page", || PageReader::open(scratch.file("clock")).ok());
    let counter = Counter::open(Choice::Raw).unwrap();
    daemon.wait_for("synchronisation", || error(&page, server.clock(), counter));
    let (error, bound) = error(&page, server.clock(), counter).unwrap();
    assert!(error.abs() <= bound, "off by {error}, bound {bound}");
    daemon.end().unwrap();
}
