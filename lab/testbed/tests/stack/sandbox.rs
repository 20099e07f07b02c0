//! Rights of a daemon and a server that have started: none that they do not need.

use std::fs;
use std::time::{Duration, Instant};

use truechimer_testbed::daemon::{SOON, Server, Setup};
use truechimer_testbed::process::{self, Signal};
use truechimer_testbed::temp;

/// The words of this key in the status of a process's first thread, as the kernel has them.
fn status(pid: u32, key: &str) -> String {
    value(&fs::read_to_string(format!("/proc/{pid}/status")).unwrap(), key)
}

fn value(text: &str, key: &str) -> String {
    let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
    line.unwrap().trim().to_owned()
}

/// True if this process, and so those that it starts, has `CAP_IPC_LOCK`.
fn may_lock_memory() -> bool {
    const IPC_LOCK: u32 = 14;
    let rights = u64::from_str_radix(&status(std::process::id(), "CapEff"), 16).unwrap();
    rights >> IPC_LOCK & 1 == 1
}

fn server(dir: &temp::Dir) -> Server {
    Server::start(dir, &["--listen", "127.0.0.1:0"])
}

#[test]
fn a_daemon_has_no_rights_and_goes_on() {
    let (dir, elsewhere) = (temp::Dir::new(), temp::Dir::new());
    let server = server(&dir);
    let state = format!("state = {:?}", dir.join("rate.json"));
    // By name: the threads that look it up are confined too.
    let port = server.address.rsplit_once(':').unwrap().1;
    // What it goes on writing, makes in time, and removes at its end.
    let (record, metrics) = (dir.join("audit"), dir.join("metrics"));
    let sections = format!(
        "[audit]\ndirectory = {record:?}\ninterval = \"1s\"\n[metrics]\nlisten = {metrics:?}\n"
    );
    let settings = "seccomp = \"kill\"";
    let source = format!("localhost:{port}");
    let mut setup = Setup { settings, sections: &sections, ..Setup::new(&dir, source) };
    let text = |setup: &Setup<'_>, state: &str, more: &str| {
        let path = setup.write();
        let text = fs::read_to_string(&path).unwrap();
        let text = text.replace("state = \"none\"", state) + more;
        // As editors do it: the next file of this name.
        let new = path.with_extension("new");
        fs::write(&new, text).unwrap();
        fs::rename(new, path).unwrap();
    };
    let mut command = setup.command();
    text(&setup, &state, "");
    let log = dir.join("clock.log");
    command.arg("--verbose");
    let mut daemon = setup.run(command);
    // The page is there before all else is.
    daemon.source_when(|source| source["status"] == "selected");
    let pid = daemon.process.pid();
    let told = || fs::read_to_string(&log).unwrap();
    let line = told();
    let line = line.lines().find(|line| line.contains("sandbox: ")).expect("the log says it");
    println!("{line}");
    for key in ["CapPrm", "CapEff", "CapInh", "CapAmb"] {
        assert_eq!(status(pid, key), "0000000000000000", "{key}");
    }
    assert_eq!(status(pid, "NoNewPrivs"), "1");
    // What the list allows is shown by all that follows: no call of the daemon's life ends it.
    let filter = if line.contains("any other ends the process") { "2" } else { "0" };
    assert_eq!(status(pid, "Seccomp"), filter, "{line}");

    // Another configuration by the same name, with a state where it may not write and a right that it
    // has given up.
    setup.poll = 2;
    text(
        &setup,
        &format!("state = {:?}", elsewhere.join("rate.json")),
        "[system-clock]\ndiscipline = true\n",
    );
    daemon.process.signal(Signal::Hangup);
    let end = Instant::now() + SOON;
    while !told().contains("was read again") {
        assert!(Instant::now() < end, "{}", told());
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(told().contains("shuts out") && told().contains("CAP_SYS_TIME: restart"), "{}", told());
    if !line.contains("not limited") {
        assert!(!elsewhere.join("rate.json").exists(), "written outside");
    } else {
        println!("SKIPPED what is written outside: {line}");
    }
    text(&setup, &state, "");
    daemon.process.signal(Signal::Hangup);
    while told().matches("was read again").count() < 2 {
        assert!(Instant::now() < end, "{}", told());
        std::thread::sleep(Duration::from_millis(50));
    }
    // Files are made anew: the rate is not known well enough for its own so soon.
    let left = dir.join("clock.state");
    fs::remove_file(&left).unwrap();
    daemon.process.signal(Signal::Term);
    let ended = daemon.process.wait(SOON).expect("SIGTERM ends it");
    assert_eq!(ended.code(), Some(0), "{}", told());
    // Sockets are removed, and what the next daemon should know is kept, at the end.
    assert!(!dir.join("clock.control").exists() && !metrics.exists(), "{}", told());
    assert!(left.exists(), "{}", told());
    let lines: String = fs::read_dir(record)
        .unwrap()
        .map(|file| fs::read_to_string(file.unwrap().path()).unwrap())
        .collect();
    assert!(lines.contains("\"stop\""), "{lines}");
}

#[test]
fn it_can_be_turned_off() {
    let dir = temp::Dir::new();
    let server = server(&dir);
    // What the test bed leaves to whatever it starts.
    let own = process::command("cat").arg("/proc/self/status").output().unwrap();
    let own = String::from_utf8(own.stdout).unwrap();
    let own = value(&own, "CapEff");
    let by_option = Setup { name: "option", ..Setup::new(&dir, &*server.address) };
    let by_file =
        Setup { name: "file", settings: "sandbox = false", ..Setup::new(&dir, &*server.address) };
    let mut command = by_option.command();
    command.arg("--no-sandbox");
    for mut daemon in [by_option.run(command), by_file.start()] {
        daemon.source_when(|source| source["status"] == "selected");
        let pid = daemon.process.pid();
        assert_eq!(status(pid, "CapEff"), own);
        assert_eq!(status(pid, "NoNewPrivs"), status(std::process::id(), "NoNewPrivs"));
        assert!(!daemon.process.output().contains("sandbox: "));
    }
}

#[test]
fn memory_is_locked_if_that_is_wanted_and_allowed() {
    let dir = temp::Dir::new();
    let server = server(&dir);
    let settings = "seccomp = \"kill\"\nlock-memory = true";
    let setup = Setup { settings, ..Setup::new(&dir, server.address.clone()) };
    let mut daemon = setup.start();
    daemon.source_when(|source| source["status"] == "selected");
    let locked = status(daemon.process.pid(), "VmLck") != "0 kB";
    assert!(locked || !may_lock_memory(), "{}", daemon.process.output());
    // What it takes later has room as well.
    daemon.process.signal(Signal::Hangup);
    daemon.process.expect_output("the configuration was read again", SOON);
    daemon.source_when(|source| source["status"] == "selected");
}
