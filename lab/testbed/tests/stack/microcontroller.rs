//! A microcontroller in QEMU, without an operating system, that follows real servers through its own Ethernet controller
//! (`examples/follow/src/live`).
//!
//! `$TRUECHIMER_MICROCONTROLLER` names its program. It runs in real time: nothing is judged by how fast
//! that is. It is asked for the time on a serial line, and stamps the question; the truth is read before that and after
//! the answer, and must be compatible with what it said.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use truechimer_testbed::chrony::Chronyd;
use truechimer_testbed::daemon::SOON;
use truechimer_testbed::lacking::{Lacking, or_skip};
use truechimer_testbed::namespace::{Namespace, Pair};
use truechimer_testbed::process::Process;
use truechimer_testbed::truth::Truth;
use truechimer_testbed::watch::{long, median};
use truechimer_testbed::{binary, temp};

const SECOND_NS: i64 = 1_000_000_000;
/// The most by which a pulse may be stamped late: emulated interrupts wait for the host's scheduler.
const LATENCY: Duration = Duration::from_millis(100);
/// A second whose beginning was missed by as much has no pulse.
const MISSED: Duration = Duration::from_millis(20);

/// A running board.
struct Board {
    process: Process,
    questions: UnixStream,
    said: BufReader<UnixStream>,
    pulses: UnixStream,
    readings: Vec<Reading>,
}

/// An answer, and the truth around it, Unix time in ns.
#[derive(Clone, Copy, Debug)]
struct Reading {
    before: i64,
    after: i64,
    earliest: i64,
    latest: i64,
}

impl Reading {
    fn width(&self) -> i64 {
        self.latest - self.earliest
    }

    /// Sees that the moment, between `before` and `after`, can lie between `earliest` and `latest`.
    fn check(&self) {
        assert!(self.earliest <= self.after && self.latest >= self.before, "{self:?}");
    }
}

/// A source as the board tells it: name, how far it is believed, and the numbers after `used`, `floor` and `root`.
type Source = (String, String, [i64; 3]);

fn program() -> Result<PathBuf, Lacking> {
    let named = std::env::var_os("TRUECHIMER_MICROCONTROLLER").filter(|path| !path.is_empty());
    let named =
        named.ok_or_else(|| Lacking("$TRUECHIMER_MICROCONTROLLER names no program".into()))?;
    let emulator = binary::system("qemu-system-arm");
    let there = emulator.is_file();
    there.then(|| named.into()).ok_or_else(|| Lacking("qemu-system-arm".into()))
}

impl Board {
    /// Starts one that follows the server at this port of the host's loopback, once a second.
    fn start(network: &Namespace, dir: &temp::Dir, port: u16) -> Result<Board, Lacking> {
        let program = program()?;
        let lines = ["questions", "pulses", "said"].map(|name| dir.join(name));
        let [questions, pulses, said] = lines.each_ref().map(|path| {
            let _ = std::fs::remove_file(path);
            UnixListener::bind(path).unwrap()
        });
        let mut arguments = String::from("enable=on,target=native,chardev=said");
        let latency = LATENCY.as_micros();
        for argument in ["live", &format!("10.0.2.2:{port}"), "4711", "1", &latency.to_string()] {
            let _ = write!(arguments, ",arg={argument}");
        }
        let mut command = network.command(binary::system("qemu-system-arm"));
        command.args(["-machine", "mps2-an385", "-display", "none", "-monitor", "none"]);
        command.args(["-nic", "user,model=lan9118", "-semihosting-config", &arguments]);
        for line in &lines[..2] {
            command.arg("-serial").arg(format!("unix:{}", line.display()));
        }
        command.arg("-chardev").arg(format!("socket,id=said,path={}", lines[2].display()));
        command.arg("-kernel").arg(program);
        let mut process = Process::start(command, &dir.join("qemu.log"));
        let [questions, pulses, said] =
            [questions, pulses, said].map(|line| connected(&line, &mut process));
        said.set_read_timeout(Some(SOON)).unwrap();
        let said = BufReader::new(said);
        Ok(Board { process, questions, said, pulses, readings: Vec::new() })
    }

    /// The next line that it says.
    fn line(&mut self) -> String {
        let mut line = String::new();
        self.said.read_line(&mut line).expect("it says something");
        assert!(line.ends_with('\n'), "it has ended: {}", self.process.output());
        line.trim_end().to_owned()
    }

    /// Asks for the time; keeps the answer.
    fn ask(&mut self) -> Option<Reading> {
        let before = Truth::host().now_ns();
        self.questions.write_all(b"?").unwrap();
        loop {
            let line = self.line();
            let after = Truth::host().now_ns();
            let words: Vec<&str> = line.split(' ').collect();
            match words[..] {
                ["at", _, "earliest", earliest, "best", _, "latest", latest, "synchronised"] => {
                    let [earliest, latest] = [earliest, latest].map(|ns| ns.parse().unwrap());
                    let reading = Reading { before, after, earliest, latest };
                    self.readings.push(reading);
                    return Some(reading);
                }
                ["at", ..] => return None,
                _ => println!("{line}"),
            }
        }
    }

    /// Asks again and again, until a reading is as wanted, or for too long.
    fn until(&mut self, wanted: impl Fn(&Reading) -> bool) -> Option<Reading> {
        let end = Instant::now() + SOON;
        while Instant::now() < end {
            if let Some(reading) = self.ask().filter(&wanted) {
                return Some(reading);
            }
            thread::sleep(Duration::from_millis(200));
        }
        println!("not as wanted: {:?}", self.readings.last());
        None
    }

    /// Asks for so long; the least width, ns, if it was ever synchronised.
    fn watch(&mut self, time: Duration) -> Option<i64> {
        let (end, mut widths) = (Instant::now() + time, Vec::new());
        while Instant::now() < end {
            // On a busy machine it may hear nothing for so long that it says holdover.
            widths.extend(self.ask().map(|reading| reading.width()));
            thread::sleep(Duration::from_millis(100));
        }
        let least = widths.iter().copied().min()?;
        println!(
            "intervals are {least} ns wide and more, {} ns in the median",
            median(widths.into_iter())
        );
        Some(least)
    }

    /// Sees that all it ever said was right.
    fn check(&self) {
        self.readings.iter().for_each(Reading::check);
        println!("{} readings, all of them right", self.readings.len());
    }

    /// Asks for the sources.
    fn sources(&mut self) -> Vec<Source> {
        self.questions.write_all(b"s").unwrap();
        let mut sources = Vec::new();
        loop {
            let line = self.line();
            println!("{line}");
            if line.contains(" replies, ") {
                return sources;
            }
            let words: Vec<&str> = line.split(' ').collect();
            if let ["source", name, status, ..] = words[..] {
                let after = |word| words.iter().skip_while(|w| **w != word).nth(1);
                let number = |word| after(word).and_then(|n| n.parse().ok()).unwrap();
                let numbers = ["used", "floor", "root"].map(number);
                sources.push((name.to_owned(), status.to_owned(), numbers));
            }
        }
    }

    /// Asks for the sources until they are as wanted, or for too long.
    fn sources_when(&mut self, wanted: impl Fn(&[Source]) -> bool) -> Vec<Source> {
        let end = Instant::now() + SOON;
        loop {
            let sources = self.sources();
            if wanted(&sources) || Instant::now() > end {
                return sources;
            }
            thread::sleep(Duration::from_millis(500));
        }
    }

    /// Lets it end, and sees that it ends well.
    fn end(mut self) {
        self.questions.write_all(b"q").unwrap();
        let mut last = String::new();
        self.said.read_to_string(&mut last).unwrap();
        println!("{last}");
        let status = self.process.wait(SOON).expect("it ends");
        assert!(status.success(), "{status}: {last}");
    }
}

/// The emulator's end of a line.
fn connected(line: &UnixListener, process: &mut Process) -> UnixStream {
    line.set_nonblocking(true).unwrap();
    let end = Instant::now() + SOON;
    while Instant::now() < end {
        match line.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(false).unwrap();
                return stream;
            }
            Err(why) if why.kind() == ErrorKind::WouldBlock => {
                assert!(process.is_running(), "the emulator does not start: {}", process.output());
                thread::sleep(Duration::from_millis(5));
            }
            Err(why) => panic!("{why}"),
        }
    }
    panic!("the emulator opens no line: {}", process.output())
}

/// Sends a pulse when a second of the system clock begins. The board sends it back once it is stamped.
struct Pulses {
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<Duration>>,
}

impl Pulses {
    fn start(board: &Board) -> Pulses {
        let mut line = board.pulses.try_clone().unwrap();
        line.set_read_timeout(Some(SOON)).unwrap();
        let ended = Arc::new(AtomicBool::new(false));
        let end = ended.clone();
        let thread = thread::spawn(move || {
            let mut latest = Duration::ZERO;
            while !end.load(Ordering::Relaxed) {
                let now = Truth::host().now_ns();
                let second = now - now % SECOND_NS + SECOND_NS;
                thread::sleep(since(now, second));
                if since(second, Truth::host().now_ns()) > MISSED {
                    continue;
                }
                line.write_all(b"P").unwrap();
                line.read_exact(&mut [0]).unwrap();
                latest = latest.max(since(second, Truth::host().now_ns()));
            }
            latest
        });
        Pulses { ended, thread: Some(thread) }
    }

    /// Ends it; the most by which a pulse can have been stamped late.
    fn end(mut self) -> Duration {
        self.ended.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap()
    }
}

impl Drop for Pulses {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
    }
}

fn since(from_ns: i64, to_ns: i64) -> Duration {
    Duration::from_nanos(u64::try_from(to_ns - from_ns).unwrap_or(0))
}

#[test]
fn a_microcontroller_follows_chronyd_and_every_reading_is_within_its_bound() {
    let Some(net) = or_skip(Pair::new()) else { return };
    let dir = temp::Dir::new();
    let Some(_server) = or_skip(Chronyd::start(&net.server, &dir, "")) else { return };
    let Some(mut board) = or_skip(Board::start(&net.server, &dir, 123)) else { return };
    board.until(|_| true).expect("it synchronises");
    let sources = board.sources_when(|sources| sources[0].2[0] >= 5);
    let width = board.watch(long(Duration::from_secs(20)));
    board.check();
    let [server, pulse] = &sources[..] else { panic!("{sources:?}") };
    let (_, status, [used, floor, root]) = server;
    assert!(status == "selected" && *used >= 5, "{server:?}");
    assert_eq!(pulse.2[0], 0, "no pulse was sent");
    // An interval is as wide as a round trip, in which the emulator waits now and then, and what the server may be
    // off, and grows until the next reply, by 1 ms a second while the oscillator is hardly known.
    let least = floor + 2 * root;
    let width = width.expect("it was synchronised for a while");
    assert!(width < 4 * least + 10_000_000, "{width} ns wide, {least} ns at least");
    board.end();
}

#[test]
fn a_pulse_on_a_microcontrollers_serial_line_tells_what_a_far_server_cannot() {
    let Some(net) = or_skip(Pair::new()) else { return };
    let dir = temp::Dir::new();
    let Some(_server) = or_skip(Chronyd::start(&net.server, &dir, "")) else { return };
    let mut relay = net.server.command(binary::testbed());
    let path = "delay=250ms,jitter=1ms";
    relay.args(["relay", "127.0.0.1:11123", "127.0.0.1:123", "7", path, path]);
    let mut relay = Process::start(relay, &dir.join("relay.log"));
    relay.expect_output("relaying", SOON);
    // A pulse that came later than it may breaks a promise: from that nothing follows.
    for _ in 0..4 {
        let Some(mut board) = or_skip(Board::start(&net.server, &dir, 11123)) else { return };
        let alone = board.until(|_| true).expect("it synchronises").width();
        assert!(alone >= 500_000_000, "a path of 500 ms leaves open no less: {alone} ns");
        let pulses = Pulses::start(&board);
        let better = board.until(|reading| reading.width() < alone / 2);
        board.watch(long(Duration::from_secs(10)));
        let sources = board.sources_when(|sources| sources[1].2[0] >= 5);
        let late = pulses.end();
        println!(
            "pulses were stamped {late:?} late at the most; the server alone: {alone} ns wide"
        );
        if late > LATENCY {
            continue;
        }
        board.check();
        assert!(better.is_some(), "pulses do not help: {sources:?}");
        let [_, (name, status, [used, ..])] = &sources[..] else { panic!("{sources:?}") };
        assert!(name == "pulse" && status == "selected" && *used >= 5, "{sources:?}");
        return board.end();
    }
    let busy = "four times a pulse was stamped later than it may be: the machine is too busy";
    or_skip::<()>(Err(Lacking(busy.into())));
}
