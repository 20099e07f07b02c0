//! `truechimer qos --peer`: one point here, and one on another host.

use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;
use truechimer_testbed::binary;
use truechimer_testbed::daemon::SOON;
use truechimer_testbed::namespace::Namespace;
use truechimer_testbed::process::{Process, Signal};

use super::bed;
use super::clock::hosts;
use super::traffic::{OURS, inject, last, numbered};

/// Packets sent, of which every tenth does not arrive.
const SENT: u32 = 100;

/// A command as a shell has it.
fn words(command: &Command) -> String {
    let all = std::iter::once(command.get_program()).chain(command.get_args());
    all.map(|word| format!("'{}'", word.to_str().unwrap())).collect::<Vec<_>>().join(" ")
}

/// `truechimer qos` here, and its peer.
fn watch(here: &Namespace, arguments: &[&str], peer: &str) -> Command {
    let mut command = here.command(binary::truechimer());
    command.args(["qos", "-i", "wire", "-f", OURS, "--json", "--interval", "200ms"]);
    command.args(["--peer", peer]).args(arguments);
    command
}

/// Something, once it is there.
fn eventually<T>(within: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let end = Instant::now() + within;
    loop {
        match look() {
            None if Instant::now() < end => std::thread::sleep(Duration::from_millis(50)),
            found => return found,
        }
    }
}

/// The newest report.
fn newest(process: &Process) -> Option<Value> {
    let said = process.output();
    // The last line may be there in part.
    said.lines().rev().find_map(|line| serde_json::from_str(line).ok())
}

#[test]
fn delays_and_losses_to_another_host_come_as_they_happen() {
    let Some((net, dir)) = bed() else { return };
    let Some((_server, near, far)) = hosts(&net, &dir) else { return };
    let mut there = net.server.command(binary::truechimer());
    there.args(["capture", "-i", "wire", "-w", "-", "--page", far.page.to_str().unwrap()]);
    // Long ones do not arrive, as far as it sees.
    there.arg(format!("{OURS} and not greater 150"));
    let page = near.page.to_str().unwrap();
    let command = watch(&net.client, &["--page", page], &words(&there));
    let mut process = Process::start(command, &dir.join("peer.log"));
    let seen = |report: &Value, point: usize| report["points"][point]["packets"].as_u64().unwrap();
    // Both watch, once each has seen one of these.
    let both = eventually(SOON, || {
        inject(&net.client, &[last()]);
        newest(&process).filter(|report| seen(report, 0) > 0 && seen(report, 1) > 0)
    });
    assert!(both.is_some(), "{}", process.output());
    let frames: Vec<_> =
        (0..SENT).map(|n| numbered(n, if n % 10 == 0 { 200 } else { 20 })).collect();
    inject(&net.client, &frames);
    // What is still waited for is no loss yet; what both see afterwards ends the wait.
    let report = eventually(SOON, || {
        inject(&net.client, &[last()]);
        newest(&process).filter(|report| {
            let way = &report["ways"][0];
            way["lost"] == SENT / 10 && way["arrived"] == SENT - SENT / 10
        })
    });
    let report = report.unwrap_or_else(|| panic!("{}", process.output()));
    let way = &report["ways"][0];
    assert_eq!((&way["negative"], &way["unbounded"]), (&0.into(), &0.into()), "{report:#}");
    let (delay, bound) = (&way["delay"], way["bound_max_ns"].as_i64().unwrap());
    assert_eq!(delay["n"], SENT - SENT / 10, "{report:#}");
    // Nothing arrives before it was sent, and nothing takes a second here.
    assert!(delay["min_ns"].as_i64().unwrap() + bound >= 0, "{report:#}");
    assert!(delay["max_ns"].as_i64().unwrap() - bound < 1_000_000_000, "{report:#}");
    assert_eq!(report["points"][1]["name"], "peer");
    process.signal(Signal::Term);
    assert!(process.wait(SOON).is_some_and(|status| status.success()), "{}", process.output());
    let last = newest(&process).unwrap();
    let ended =
        last["notes"].as_array().unwrap().iter().any(|n| n.to_string().contains("by itself"));
    assert!(!ended, "it was ended: {last:#}");
}

#[test]
fn a_peer_that_ends_or_sends_no_capture_is_told() {
    let Some((net, dir)) = bed() else { return };
    for (peer, words) in [
        ("echo no capture at all", "no capture at all"),
        ("exit 7", "--peer 'exit 7': it is empty; it ended with exit status 7"),
        ("kill -9 $$", "it is empty; it ended with signal 9"),
    ] {
        let mut process = Process::start(watch(&net.client, &[], peer), &dir.join("told.log"));
        let ended = process.wait(SOON).and_then(|status| status.code());
        let said = process.output();
        assert_eq!(ended, Some(2), "{peer}: {said}");
        assert!(said.contains(words), "{peer}: {said}");
    }
    // One that ends in the midst of it.
    let capture =
        format!("{} capture -i wire -w - --duration 500ms", binary::truechimer().display());
    let mut process = Process::start(watch(&net.client, &[], &capture), &dir.join("midst.log"));
    assert!(process.wait(SOON).is_some(), "{}", process.output());
    let notes = newest(&process).unwrap()["notes"].to_string();
    assert!(notes.contains("ended by itself: exit status 0"), "{notes}");
}

#[test]
fn no_peer_keeps_us_and_none_is_left() {
    let Some((net, dir)) = bed() else { return };
    let capture = format!("{} capture -q -i wire -w -", binary::truechimer().display());
    for peer in [
        // Nothing has come when it ends; it does not mind being told to; another has its output as well.
        "exec sleep 1000".to_owned(),
        format!("trap '' TERM; {capture} & sleep 1000 >&2"),
        format!("sleep 1000 & exec {capture}"),
    ] {
        let pids = dir.join("pids");
        let peer = format!("echo $$ >{}; {peer}", pids.display());
        let mut process = Process::start(watch(&net.client, &[], &peer), &dir.join("keeps.log"));
        let leader =
            eventually(SOON, || std::fs::read_to_string(&pids).ok()?.trim().parse::<u32>().ok());
        let leader = leader.unwrap_or_else(|| panic!("{peer}: {}", process.output()));
        // It watches for a while.
        eventually(SOON, || newest(&process)).unwrap_or_else(|| panic!("{peer}"));
        process.signal(Signal::Term);
        let ended = process.wait(SOON).and_then(|status| status.code());
        let said = process.output();
        // No packet has passed.
        assert_eq!(ended, Some(1), "{peer}: {said}");
        let notes = newest(&process).unwrap()["notes"].to_string();
        assert!(!notes.contains("by itself") && !notes.contains("midst"), "{peer}: {notes}");
        let left = eventually(SOON, || in_session(leader).is_empty().then_some(()));
        assert!(left.is_some(), "{peer}: {:?}", in_session(leader));
        std::fs::remove_file(&pids).unwrap();
    }
}

/// Processes in that session that have not ended.
fn in_session(leader: u32) -> Vec<String> {
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let stats = all.filter_map(|entry| std::fs::read_to_string(entry.path().join("stat")).ok());
    let belongs = |stat: &String| {
        // After the name: state, parent, group, session.
        let rest: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
        rest.get(3) == Some(&leader.to_string().as_str()) && rest.first() != Some(&"Z")
    };
    stats.filter(belongs).collect()
}

#[test]
fn a_capture_to_a_pipe_ends_when_nobody_reads_it() {
    let Some((net, dir)) = bed() else { return };
    let ours = format!("{} capture -i wire -w - '{OURS}'", binary::truechimer().display());
    // Its first bytes are read, and no packet ever comes.
    let mut command = net.client.command("sh");
    command.args(["-c", &format!("{ours} | head -c 64 >&2")]);
    let mut process = Process::start(command, &dir.join("pipe.log"));
    assert!(process.wait(SOON).is_some_and(|status| status.success()), "{}", process.output());
}
