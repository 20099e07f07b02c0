//! Servers that are held off, and what the user can do about it: with real packets.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;
use truechimer_testbed::daemon::{SOON, Server, ask};
use truechimer_testbed::process::{self, Process, Signal};
use truechimer_testbed::truth::Truth;
use truechimer_testbed::{binary, temp};

/// Runs the daemon with its page in `dir`, whoever is followed: with the state that a trial has.
fn run(dir: &temp::Dir, servers: &[&str], more: &[&str]) -> (Process, PathBuf) {
    let page = dir.join("clock");
    let mut command = process::command(binary::truechimer());
    command.args(["run", "--poll", "1", "--page"]).arg(&page).args(more);
    for server in servers {
        command.args(["--server", server]);
    }
    (Process::start(command, &dir.join("run.log")), page)
}

/// A server whose log is its own.
fn serve(offset: &str, at: &str) -> (Server, temp::Dir) {
    let dir = temp::Dir::new();
    let server = ["--listen", at, "--offset", offset, "--skew-ppm", "37"];
    (Server::start(&dir, &server), dir)
}

/// Waits until the status is as wanted, and returns what `truechimer status` says.
fn status_when(page: &Path, daemon: &mut Process, wanted: impl Fn(&Value) -> bool) -> Value {
    let end = Instant::now() + SOON;
    loop {
        let status = ask(page, &["status"]).json;
        if wanted(&status) {
            return status;
        }
        assert!(Instant::now() < end, "{status:#}\n{}", daemon.output());
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn text<'v>(value: &'v Value, name: &str) -> &'v str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn is_synchronised(status: &Value) -> bool {
    text(status, "status") == "synchronised" && status.get("disputed_bound_ns") == Some(&0.into())
}

/// The published clock − the system clock, s, between these; none while there is no clock, as when a
/// daemon has just taken over the page of the one before.
fn ahead(page: &Path) -> Option<(f64, f64)> {
    let before = Truth::host().now_ns();
    let now = ask(page, &["now"]).json;
    let after = Truth::host().now_ns();
    let best = now.get("best_unix_ns").and_then(Value::as_i64)?;
    Some(((best - after) as f64 / 1e9, (best - before) as f64 / 1e9))
}

fn is_near(page: &Path, seconds: f64) -> bool {
    // However long the program took that read it.
    ahead(page).is_some_and(|(least, most)| least < seconds + 0.1 && most > seconds - 0.1)
}

fn end(mut daemon: Process) -> String {
    daemon.signal(Signal::Term);
    daemon.wait(SOON).expect("it ends");
    daemon.output()
}

fn is_held(status: &Value) -> bool {
    text(status, "reason").contains("truechimer run --fresh")
}

/// (The example of the README for ten seconds, and then a right server: 1.5 s wrong for an hour.)
#[test]
fn a_trial_is_not_held_against_the_next_server() {
    let dir = temp::Dir::new();
    let (shifted, _log) = serve("1.5s", "127.0.0.1:0");
    let (right, _log) = serve("0s", "127.0.0.1:0");
    let (mut daemon, page) = run(&dir, &[&shifted.address], &[]);
    status_when(&page, &mut daemon, is_synchronised);
    std::thread::sleep(Duration::from_secs(10));
    assert!(is_near(&page, 1.5), "{:?}", ahead(&page));
    end(daemon);
    let (mut daemon, page) = run(&dir, &[&right.address], &[]);
    status_when(&page, &mut daemon, |status| is_synchronised(status) && is_near(&page, 0.0));
    let log = end(daemon);
    assert!(log.contains("has the word of 127.0.0.1:"), "{log}");
    // Nor by one that was killed.
    let (mut daemon, page) = run(&dir, &[&shifted.address], &[]);
    status_when(&page, &mut daemon, |status| is_synchronised(status) && is_near(&page, 1.5));
    daemon.signal(Signal::Kill);
    daemon.wait(SOON).expect("it ends");
    let (mut daemon, page) = run(&dir, &[&right.address], &[]);
    status_when(&page, &mut daemon, |status| is_synchronised(status) && is_near(&page, 0.0));
    end(daemon);
}

/// A server that says otherwise than it did is held off, and every such word names the remedies.
#[test]
fn what_is_held_can_be_accepted_or_forgotten() {
    let dir = temp::Dir::new();
    let before = serve("1.5s", "127.0.0.1:0");
    let address = before.0.address.clone();
    // Without state nobody knows for how long it had been known: all of the hour.
    let config = dir.join("none.toml");
    std::fs::write(&config, "state = \"none\"\n").expect("it can be written");
    let none = ["--config", config.to_str().expect("a name"), "--replay-log"];
    let log = |name: &str| dir.join(name).to_str().expect("a name").to_owned();
    let (mut daemon, page) = run(&dir, &[&address], &[none[0], none[1], none[2], &log("first")]);
    status_when(&page, &mut daemon, is_synchronised);
    end(daemon);
    drop(before);
    let right = serve("0s", &address);

    let (mut daemon, page) = run(&dir, &[&address], &[none[0], none[1], none[2], &log("second")]);
    let status = status_when(&page, &mut daemon, is_held);
    let remedies = format!("truechimer accept {address}, or truechimer run --fresh");
    assert!(text(&status, "reason").contains(&remedies), "{status:#}");
    let sources = ask(&page, &["sources"]).json;
    let trouble = sources.get(0).map(|source| text(source, "trouble").to_owned());
    assert!(trouble.as_ref().is_some_and(|text| text.contains(&remedies)), "{sources:#}");
    assert!(daemon.output().contains(&remedies), "{}", daemon.output());
    assert!(is_near(&page, 1.5), "{:?}", ahead(&page));
    // Nobody else's.
    let refused = ask(&page, &["accept", "127.0.0.1:1"]);
    assert_eq!(refused.code, 2);
    assert!(refused.error.contains("no such server; there are 127.0.0.1:"), "{refused:?}");
    let accepted = ask(&page, &["accept"]);
    assert_eq!((accepted.code, text(&accepted.json, "accepted")), (0, &*address), "{accepted:?}");
    assert!(text(&accepted.json, "status").starts_with("synchronised: "), "{accepted:?}");
    assert!(is_near(&page, 0.0), "{:?}", ahead(&page));
    let nothing = ask(&page, &["accept"]);
    assert!(nothing.error.contains("nothing is held off"), "{nothing:?}");
    let said = end(daemon);
    assert!(
        said.contains("accepted by the user: the clock goes by it from now on, -1.5"),
        "{said}"
    );
    // It is in the replay log, which repeats.
    let replay = Command::new(binary::lab()).args(["replay", &log("second")]).output();
    let replay = replay.expect("it runs");
    assert!(replay.status.success(), "{}", String::from_utf8_lossy(&replay.stderr));
    let lines = std::fs::read_to_string(log("second")).expect("it is there");
    assert!(lines.contains("{\"accept\":{\"source\":0}}"));

    // The other remedy.
    drop(right);
    let _shifted = serve("-2.5s", &address);
    let (mut daemon, page) =
        run(&dir, &[&address], &["--config", config.to_str().expect("a name")]);
    status_when(&page, &mut daemon, is_held);
    end(daemon);
    let fresh = ["--fresh", "--config", config.to_str().expect("a name")];
    let (mut daemon, page) = run(&dir, &[&address], &fresh);
    let status = status_when(&page, &mut daemon, is_synchronised);
    assert!(is_near(&page, -2.5), "{:?}", ahead(&page));
    assert!(status.get("epoch").and_then(Value::as_i64).is_some_and(|epoch| epoch > 0));
    assert!(end(daemon).contains("is forgotten (--fresh)"));
}

/// One server of three, alone: there is no time until another agrees, or the user does.
#[test]
fn one_of_three_makes_no_time() {
    let dir = temp::Dir::new();
    let (liar, _log) = serve("30s", "127.0.0.1:0");
    let silent: Vec<_> =
        (0..2).map(|_| std::net::UdpSocket::bind("127.0.0.1:0").expect("a port")).collect();
    let silent: Vec<String> =
        silent.iter().map(|s| s.local_addr().expect("an address").to_string()).collect();
    let servers = [&*silent[0], &*silent[1], &*liar.address];
    let (mut daemon, page) = run(&dir, &servers, &[]);
    let status = status_when(&page, &mut daemon, |s| text(s, "reason").contains("min-sources"));
    assert_eq!(text(&status, "status"), "unknown", "{status:#}");
    assert!(text(&status, "reason").contains("only 1 of min-sources = 2 says so"), "{status:#}");
    let accepted = ask(&page, &["accept", &liar.address]);
    assert_eq!(accepted.code, 0, "{accepted:?}");
    status_when(&page, &mut daemon, is_synchronised);
    assert!(is_near(&page, 30.0), "{:?}", ahead(&page));
    end(daemon);
}
