//! The daemon by the rules of LD_PRELOAD clock simulators, as `lab/strict` enforces them.

use std::path::Path;
use std::process::Output;
use std::time::{Duration, Instant};

use serde_json::Value;
use truechimer::Status;
use truechimer_testbed::daemon::{SOON, Server, Setup};
use truechimer_testbed::process::{self, Signal};
use truechimer_testbed::watch::long;
use truechimer_testbed::{binary, temp};

/// The environment of a process that must obey.
fn strict() -> Vec<(&'static str, String)> {
    let library = binary::strict().to_str().expect("a path of plain text").to_owned();
    vec![("LD_PRELOAD", library), ("TRUECHIMER_SIMULATED_CLOCKS", "1".to_owned())]
}

#[test]
fn the_daemon_keeps_the_rules_of_a_simulator() {
    let dir = temp::Dir::new();
    let server =
        Server::start(&dir, &["--listen", "127.0.0.1:0", "--offset", "-1.5s", "--skew-ppm", "40"]);
    let log = dir.join("replay.jsonl");
    let settings = format!("counter = \"raw\"\nreplay-log = {log:?}\n");
    let mut daemon = Setup {
        settings: &settings,
        sections: "[system-clock]\ndiscipline = true\n",
        environment: strict(),
        ..Setup::new(&dir, &*server.address)
    }
    .start();
    // Every reading of its page is held against the truth in here.
    let mut watch = daemon.watch(server.truth);
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", daemon.process.pid()));
    assert!(maps.expect("our own child").contains("libtruechimer_strict.so"), "not preloaded");
    let end = Instant::now() + long(Duration::from_secs(30));
    while Instant::now() < end {
        watch.run(Duration::from_millis(500));
        assert!(daemon.process.is_running(), "a broken rule:\n{}", daemon.process.output());
    }
    println!("{}", watch.summary());
    let settled = watch.since(Duration::from_secs(5));
    assert!(!settled.is_empty() && settled.iter().all(|s| s.status == Status::Synchronised));

    daemon.process.signal(Signal::Term);
    let status = daemon.process.wait(SOON).expect("SIGTERM ends it");
    assert_eq!(status.code(), Some(0), "{}", daemon.process.output());
    // There is no control socket to ask.
    let stamps = stamps(&log);
    let kernel = stamps.iter().filter(|both| both == &&["kernel", "kernel"]).count();
    println!("{kernel} of {} exchanges stamped by the kernel both ways", stamps.len());
    assert!(stamps.len() > 15, "few replies: {}", stamps.len());
    // The machine may begin to stamp a moment after it is asked to.
    assert!(kernel + 1 >= stamps.len(), "{stamps:?}");
}

/// Methods by which each exchange in a replay log was stamped at departure and arrival.
fn stamps(log: &Path) -> Vec<[String; 2]> {
    let text = std::fs::read_to_string(log).expect("the daemon wrote its log");
    let lines = text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON"));
    lines
        .filter_map(|line: Value| {
            let reply = line["event"].get("reply")?;
            let method = |stamp: &str| reply[stamp]["method"].as_str().expect("text").to_owned();
            Some([method("sent"), method("received")])
        })
        .collect()
}

/// Runs the helper under the rules.
fn helper(arguments: &[&str]) -> Output {
    let mut command = process::command(binary::testbed());
    command.args(arguments).envs(strict()).output().expect("it runs")
}

#[test]
fn whoever_breaks_a_rule_is_told_and_ended() {
    use std::os::unix::process::ExitStatusExt;
    const ABORTED: Option<i32> = Some(6);
    for (rule, named) in [
        ("thread", "first thread"),
        ("sleep", "nanosleep"),
        ("wait", "waits for a time in poll alone"),
        ("receive", "what poll has just reported"),
    ] {
        let output = helper(&["breach", rule]);
        let said = String::from_utf8_lossy(&output.stderr);
        println!("{}", said.trim());
        assert_eq!(output.status.signal(), ABORTED, "{rule}: {said}");
        assert!(said.contains(named), "{rule}: {said}");
    }
    let output = helper(&["breach", "sockets"]);
    let refused = "InvalidInput\n".repeat(3);
    assert_eq!(String::from_utf8_lossy(&output.stdout), refused, "{output:?}");
}

#[test]
fn the_clocks_stand_still_but_for_being_read() {
    let output = helper(&["clock"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let numbers: Vec<i64> = text.split_whitespace().map(|n| n.parse().expect("ns")).collect();
    let [before, _, after] = numbers[..] else { panic!("`{text}` {output:?}") };
    assert_eq!(after - before, 2 * 101, "two readings");
}
