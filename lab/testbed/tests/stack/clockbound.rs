//! ClockBound's unmodified clients read our pages. Those of the system clock (layouts 1 and 2) are in
//! `tests/vm/guest/clockbound.sh`, as nobody may steer this machine's.

use std::net::UdpSocket;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use std::time::Duration;

use serde_json::Value;
use truechimer::{Clock, Status};
use truechimer_testbed::daemon::{Daemon, SOON, Setup};
use truechimer_testbed::lacking::{Lacking, or_skip};
use truechimer_testbed::process::{self, Process, Signal};
use truechimer_testbed::{binary, temp};

use crate::number;
use crate::pods::Pod;

/// The truth: in November 2026, 30 ppm faster than the raw clock.
const LINE: [&str; 2] = ["1795700000", "30000"];
/// A daemon that counts as the clients do.
const SETTINGS: &str = "counter = \"tsc\"\nleap-file = \"none\"\nmax-step = \"none\"";

/// The folder with the clients, built once.
fn clients() -> Option<PathBuf> {
    static BUILT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let built = BUILT.get_or_init(|| {
        let target = binary::truechimer().parent().unwrap().join("../test/clockbound");
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let Output { status, stderr, .. } =
            Command::new(root.join("tests/clockbound/build")).arg(&target).output().unwrap();
        let told = String::from_utf8_lossy(&stderr);
        if status.success() { Ok(target.join("debug")) } else { Err(told.into_owned()) }
    });
    or_skip(built.clone().map_err(|why| Lacking(format!("ClockBound's clients: {why}"))))
}

/// True if clients of layout 3 can read the counter of this machine.
fn has_counter() -> bool {
    let tsc = truechimer_counter::Counter::open(truechimer_counter::Choice::Tsc { fenced: false });
    or_skip(tsc.map_err(|why| Lacking(format!("a TSC: {why}")))).is_some()
}

/// A server of the line, and its address.
fn serve(dir: &temp::Dir) -> (Process, String) {
    let address = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let mut command = process::command(binary::testbed());
    command.args(["serve", &address, &LINE.join("+")]);
    let mut server = Process::start(command, &dir.join("serve.log"));
    server.expect_output("serving", SOON);
    (server, address)
}

fn sections(dir: &Path) -> String {
    format!("[clockbound]\npages = [\"shm1\"]\ndirectory = {dir:?}\n")
}

/// A client of our page, in the background.
struct Reader(Process);

impl Reader {
    fn start(dir: &temp::Dir, program: &Path, arguments: &[&str]) -> Reader {
        let name = format!("{}.log", arguments.join("-").replace('/', "_"));
        let mut command = process::command(program);
        command.args(arguments);
        Reader::by(dir, &name, command)
    }

    fn by(dir: &temp::Dir, name: &str, command: Command) -> Reader {
        let mut reader = Process::start(command, &dir.join(name));
        reader.expect_output("opened", SOON);
        Reader(reader)
    }

    /// Waits for its end. Returns what it found.
    fn result(mut self) -> Value {
        let ended = self.0.wait(Duration::from_secs(300)).expect("it ends");
        let output = self.0.output();
        assert!(ended.success(), "{output}");
        println!("{}", output.trim());
        serde_json::from_str(output.lines().last().unwrap()).unwrap()
    }
}

fn start(dir: &temp::Dir, address: &str, sections: &str) -> (Daemon, Clock) {
    let mut daemon = Setup { settings: SETTINGS, sections, ..Setup::new(dir, address) }.start();
    let clock = daemon.clock();
    daemon.process.expect_output("synchronised", SOON);
    (daemon, clock)
}

/// The statuses that were seen, in order.
fn changes(result: &Value) -> Vec<&str> {
    let changes = result["changes"].as_array().unwrap();
    changes.iter().map(|change| change[1].as_str().unwrap()).collect()
}

#[test]
fn clockbound_3_reads_a_million_times_while_the_daemon_is_stopped_and_killed() {
    let Some(clients) = clients() else { return };
    if !has_counter() {
        return;
    }
    let dir = temp::Dir::new();
    let pages = dir.join("cb");
    let page = pages.join("shm1").display().to_string();
    let sections = sections(&pages);
    let (_server, address) = serve(&dir);
    let (daemon, clock) = start(&dir, &address, &sections);
    let line = LINE.join("+");
    let arguments = ["3", page.as_str(), "120", "1000000", line.as_str()];
    let long = Reader::start(&dir, &clients.join("clockbound-clients"), &arguments);
    // ScyllaDB takes synchronized bounds alone.
    let scylla = |seconds| {
        let arguments = [page.as_str(), seconds, "100000", LINE[0], LINE[1]];
        Reader::start(&dir, &clients.join("clockbound-scylla"), &arguments)
    };
    let healthy = scylla("4").result();
    assert_eq!(number(&healthy, "trusted"), 100_000, "{healthy}");
    assert_eq!((number(&healthy, "broken"), number(&healthy, "changes")), (0, 0), "{healthy}");
    let left = scylla("120");
    assert_eq!(clock.now().unwrap().status, Status::Synchronised);
    daemon.process.signal(Signal::Stop);
    std::thread::sleep(Duration::from_secs(2));
    daemon.process.signal(Signal::Continue);
    std::thread::sleep(Duration::from_secs(1));
    drop(daemon);
    // Another takes its place: clients stay with the page.
    let (daemon, _) = start(&dir, &address, &sections);
    std::thread::sleep(Duration::from_secs(2));
    drop(daemon);
    let result = long.result();
    assert!(number(&result, "readings") >= 1_000_000, "{result}");
    assert_eq!((number(&result, "broken"), number(&result, "errors")), (0, 0), "{result}");
    assert_eq!(result["promised"], result["readings"], "{result}");
    let left = left.result();
    // It goes without from then on, and is never given an error.
    let trusted = number(&left, "trusted");
    assert!(trusted > 0 && trusted + number(&left, "free_running") == 100_000, "{left}");
    assert_eq!((number(&left, "broken"), number(&left, "errors")), (0, 0), "{left}");
    assert_eq!(number(&left, "changes"), 1, "{left}");
    // For a minute after the last word they take it for good.
    assert_eq!(changes(&result), ["Synchronized", "FreeRunning"], "{result}");
}

/// With `vmclock = true` clients look at the machine's device by themselves, before the daemon has.
#[test]
fn clockbound_3_sees_a_migration_by_the_device() {
    use std::os::unix::fs::FileExt;
    let Some(clients) = clients() else { return };
    if !has_counter() {
        return;
    }
    let (dir, place) = (temp::Dir::new(), temp::Dir::new());
    let device = dir.join("vmclock");
    std::fs::write(&device, crate::moved::page(100)).unwrap();
    let hypervisor = std::fs::File::options().write(true).open(&device).unwrap();
    // Clients look at the marker only where the sequence has moved, which is odd meanwhile.
    let sequence = |n: u32| hypervisor.write_all_at(&n.to_le_bytes(), 12).unwrap();
    sequence(2);
    let Some(machine) = or_skip(Pod::with_vmclock(&device, place.path())) else { return };
    let pages = dir.join("cb");
    let (_server, address) = serve(&dir);
    let sections = format!("{}vmclock = true\n", sections(&pages));
    let setup = Setup { settings: SETTINGS, sections: &sections, ..Setup::new(&dir, &address) };
    let mut command = machine.truechimer(&["run", "--config"]);
    command.arg(setup.write());
    let mut daemon = setup.run(command);
    daemon.process.expect_output("synchronised", SOON);
    let mut scylla = machine.command(clients.join("clockbound-scylla"));
    scylla.arg(pages.join("shm1")).args(["12", "100000", LINE[0], LINE[1]]);
    let scylla = Reader::by(&dir, "scylla.log", scylla);
    let mut third = machine.command(clients.join("clockbound-clients"));
    third.arg("3").arg(pages.join("shm1")).args(["12", "100000", LINE.join("+").as_str()]);
    let third = Reader::by(&dir, "third.log", third);
    std::thread::sleep(Duration::from_secs(3));
    sequence(3);
    hypervisor.write_all_at(&101u64.to_le_bytes(), 16).unwrap();
    sequence(4);
    let result = scylla.result();
    assert_eq!((number(&result, "broken"), number(&result, "errors")), (0, 0), "{result}");
    // Trusted, not any more, and again by the daemon's new word.
    assert_eq!((number(&result, "changes"), number(&result, "free_running")), (2, 0), "{result}");
    let result = third.result();
    assert_eq!((number(&result, "broken"), number(&result, "errors")), (0, 0), "{result}");
    assert_eq!(changes(&result), ["Synchronized", "Disrupted", "Synchronized"], "{result}");
    let log = daemon.process.output();
    assert!(!log.contains("clients of ClockBound are not told"), "{log}");
}

#[test]
fn whoever_watches_is_told_what_a_page_says_and_that_it_is_somebody_elses() {
    use std::os::unix::fs::FileExt;
    if !has_counter() {
        return;
    }
    let dir = temp::Dir::new();
    let pages = dir.join("cb");
    let (_server, address) = serve(&dir);
    let (daemon, _clock) = start(&dir, &address, &sections(&pages));
    let state = || daemon.ask(&["status"]).json["daemon"]["clockbound"][0].clone();
    assert_eq!(state(), serde_json::json!({"name": "shm1", "state": "synchronized"}));
    let page = std::fs::File::options().write(true).open(pages.join("shm1")).unwrap();
    let end = std::time::Instant::now() + SOON;
    while state()["state"] != "lost" {
        // A generation that is not ours.
        page.write_all_at(&[0x77, 0x77], 14).unwrap();
        assert!(std::time::Instant::now() < end, "{}", daemon.process.output());
    }
    assert!(daemon.process.output().contains("is written no more: somebody else writes it"));
}

#[test]
fn what_is_in_the_way_of_a_clockbound_page_is_named_at_the_start() {
    let dir = temp::Dir::new();
    let refused = |directory: &Path, wanted: &str| {
        let sections = sections(directory);
        let setup =
            Setup { settings: SETTINGS, sections: &sections, ..Setup::new(&dir, "127.0.0.1:9") };
        let mut daemon = Process::start(setup.command(), &dir.join("refused.log"));
        let ended = daemon.wait(SOON).expect("it ends");
        assert!(!ended.success() && daemon.output().contains(wanted), "{}", daemon.output());
    };
    if !has_counter() {
        return;
    }
    let pages = dir.join("socket");
    std::fs::create_dir(&pages).unwrap();
    let _socket = UnixListener::bind(pages.join("shm1")).unwrap();
    refused(&pages, "is a socket, and no ClockBound page");
    refused(&dir.join("neither/nor"), "there is no directory");
    // A ClockBound: here, whatever has its name.
    let pages = dir.join("beside");
    std::fs::create_dir(&pages).unwrap();
    std::fs::write(pages.join("shm1"), "").unwrap();
    let program = dir.join("clockbound");
    std::fs::copy("/bin/sleep", &program).unwrap();
    let mut other = process::command(&program);
    other.arg("60");
    let other = Process::start(other, &dir.join("other.log"));
    // Not before it has become that program.
    let named = format!("/proc/{}/comm", other.pid());
    while std::fs::read_to_string(&named).unwrap() != "clockbound\n" {
        std::thread::sleep(Duration::from_millis(5));
    }
    refused(&pages, "a ClockBound runs (process ");
    // Also where its pages are others than are wanted here.
    std::fs::rename(pages.join("shm1"), pages.join("shm")).unwrap();
    refused(&pages, "a ClockBound runs (process ");
    std::fs::rename(pages.join("shm"), pages.join("shm1")).unwrap();
    drop(other);
    refused(&pages, "is another file, and no ClockBound page");
}
