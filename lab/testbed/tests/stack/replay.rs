//! The replay log of a daemon that went through everything: a server that falls silent, a new
//! configuration, a counter that loses its continuity.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;
use truechimer::Status;
use truechimer_testbed::daemon::{Daemon, SOON, Server, Setup};
use truechimer_testbed::lacking::{Lacking, or_skip};
use truechimer_testbed::process::{self, Process, Signal, is_root};
use truechimer_testbed::{binary, temp};

use crate::number;

/// Where the kernel names the clocksource that its clocks, and so the raw clock, are made of.
const CLOCKSOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";

/// A command that runs `program` where the kernel seems to name the clocksource that stands in
/// `named`: in a mount namespace of its own. The host is left alone.
fn with_clocksource(named: &Path, program: &Path) -> Command {
    let mut command = process::command("unshare");
    if !is_root() {
        command.arg("--map-root-user");
    }
    command.args(["--mount", "--", "sh", "-c"]);
    command.arg("mount --bind \"$1\" \"$2\" && shift 2 && exec \"$@\"");
    command.args(["sh".as_ref(), named.as_os_str(), CLOCKSOURCE.as_ref()]).arg(program);
    command
}

/// Checks that this machine lets us do that.
fn clocksource_can_be_named(named: &Path) -> Result<(), Lacking> {
    let cat = with_clocksource(named, Path::new("cat")).arg(CLOCKSOURCE).output();
    match cat {
        Ok(output) if output.stdout == std::fs::read(named).expect("we wrote it") => Ok(()),
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            Err(Lacking(format!("a mount namespace: {}", said.trim())))
        }
        Err(error) => Err(Lacking(format!("unshare (package util-linux): {error}"))),
    }
}

/// Server whose time gains nothing, so that two of them agree however long after each other they
/// began.
fn serve(dir: &temp::Dir) -> Server {
    Server::start(dir, &["--listen", "127.0.0.1:0", "--offset", "-2.5s", "--skew-ppm", "0"])
}

/// The lines that `truechimer-lab replay` prints, as JSON; it must find nothing wrong.
fn replay(log: &Path, more: &[&str]) -> Vec<Value> {
    let mut command = Command::new(binary::lab());
    let output = command.args(["replay", "--json"]).args(more).arg(log).output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let last = text.lines().last().unwrap_or_default();
    assert_eq!(output.status.code(), Some(0), "{more:?}: {last} {said}");
    text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}

#[test]
fn the_log_of_a_troubled_daemon_repeats_bit_for_bit() {
    let (dir, other_dir) = (temp::Dir::new(), temp::Dir::new());
    let named = dir.join("clocksource");
    std::fs::write(&named, "tsc\n").unwrap();
    if or_skip(clocksource_can_be_named(&named)).is_none() {
        return;
    }
    let (server, other) = (serve(&dir), serve(&other_dir));
    let log = dir.join("replay.jsonl");
    let settings = format!("counter = \"raw\"\nreplay-log = {log:?}\n");
    let setup = |servers: Vec<String>, poll| Setup {
        servers,
        poll,
        settings: &settings,
        ..Setup::new(&dir, "")
    };
    let alone = setup(vec![server.address.clone()], 1);
    let mut command = with_clocksource(&named, &binary::truechimer());
    command.args(["run", "--config"]).arg(alone.write());
    let output = dir.join("clock.log");
    let mut daemon = Daemon {
        started: Instant::now(),
        process: Process::start(command, &output),
        page: dir.join("clock"),
    };
    // Every reading of its page is held against the truth in here.
    let mut watch = daemon.watch(server.truth);
    watch.run(Duration::from_secs(5));

    // The server falls silent until that is said, and comes back.
    server.process.signal(Signal::Stop);
    watch.run_until_status(Status::Holdover, SOON);
    watch.run(Duration::from_secs(2));
    server.process.signal(Signal::Continue);
    watch.run_until_status(Status::Synchronised, SOON);
    watch.run(Duration::from_secs(3));

    // Another poll interval, and a second server.
    setup(vec![server.address.clone(), other.address.clone()], 2).write();
    daemon.process.signal(Signal::Hangup);
    watch.run_until_so(SOON, "SIGHUP adds a server", || {
        daemon.ask(&["sources"]).json.as_array().map_or(0, Vec::len) == 2
    });
    watch.run_until_so(SOON, "either is used", || {
        let sources = daemon.ask(&["sources"]).json;
        sources.as_array().is_some_and(|all| all.iter().all(|one| number(one, "accepted") > 2))
    });

    // Another clocksource: the raw clock is another clock from now on.
    std::fs::write(&named, "hpet\n").unwrap();
    // The next reply may come before we see the status that says so.
    let noticed = |daemon: &Daemon| daemon.process.output().contains("disrupted:");
    watch.run_until_so(SOON, "it is noticed", || noticed(&daemon));
    watch.run_until_status(Status::Synchronised, SOON);
    watch.run(Duration::from_secs(5));
    daemon.process.signal(Signal::Term);
    let status = daemon.process.wait(SOON).expect("SIGTERM ends it");
    assert_eq!(status.code(), Some(0), "{}", daemon.process.output());
    println!("{}", watch.summary());

    let lines = replay(&log, &[]);
    let (summary, rows) = lines.split_last().expect("a summary");
    let same = &summary["same"];
    println!("{same}");
    assert_eq!((number(same, "reloads"), number(same, "disruptions")), (1, 1), "{same}");
    assert!(number(same, "holdovers") >= 1 && same["truncated"] == false, "{same}");
    let used = rows.iter().filter(|row| row["outcome"] == "used").count();
    assert_eq!(used as i64, number(same, "used"));
    assert!(used > 15, "{used} replies used");
    let text = std::fs::read_to_string(&log).unwrap();
    let replies = text.lines().filter(|line| line.contains("\"reply\":")).count();
    assert_eq!(rows.iter().filter(|row| row["event"] == "reply").count(), replies);
    for event in ["reload", "disruption"] {
        assert_eq!(rows.iter().filter(|row| row["event"] == event).count(), 1, "{event}");
    }

    // What another estimator would have made of it.
    for estimator in ["ours", "published", "pi", "ntp-pll"] {
        let lines = replay(&log, &["--summary", "--estimator", estimator]);
        let [summary] = lines.as_slice() else { panic!("one line: {lines:?}") };
        let summary = &summary["other"];
        println!("{summary}");
        assert_eq!(summary["estimator"], estimator);
        assert_eq!(number(summary, "unmatched"), 0, "{summary}");
        assert_eq!(number(summary, "events"), number(same, "events"));
    }
}
