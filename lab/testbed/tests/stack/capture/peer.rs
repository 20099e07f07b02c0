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
    let until = |process: &mut Process, what: &dyn Fn(&Value) -> bool| {
        let deadline = Instant::now() + SOON;
        loop {
            match newest(process) {
                Some(report) if what(&report) => return report,
                _ => assert!(
                    Instant::now() < deadline && process.is_running(),
                    "{}",
                    process.output()
                ),
            }
            std::thread::sleep(Duration::from_millis(200));
        }
    };
    let seen = |report: &Value, point: usize| report["points"][point]["packets"].as_u64().unwrap();
    // Both watch, once each has seen one of these.
    let begin = Instant::now() + SOON;
    while newest(&process).is_none_or(|report| seen(&report, 0) == 0 || seen(&report, 1) == 0) {
        assert!(Instant::now() < begin && process.is_running(), "{}", process.output());
        inject(&net.client, &[last()]);
        std::thread::sleep(Duration::from_millis(50));
    }
    let frames: Vec<_> =
        (0..SENT).map(|n| numbered(n, if n % 10 == 0 { 200 } else { 20 })).collect();
    inject(&net.client, &frames);
    // What is still waited for is no loss yet; what both see afterwards ends the wait.
    let report = until(&mut process, &|report| {
        inject(&net.client, &[last()]);
        report["ways"][0]["lost"] == SENT / 10 && report["ways"][0]["arrived"] == SENT - SENT / 10
    });
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
    for (peer, status, words) in [
        ("echo no capture at all", 2, "no capture at all"),
        ("exit 7", 2, "--peer 'exit 7': it is empty"),
        ("cat /nonexistent/capture.pcapng", 2, "it is empty"),
    ] {
        let mut process = Process::start(watch(&net.client, &[], peer), &dir.join("told.log"));
        let ended = process.wait(SOON).and_then(|status| status.code());
        let said = process.output();
        assert_eq!(ended, Some(status), "{peer}: {said}");
        assert!(said.contains(words), "{peer}: {said}");
    }
    // One that ends in the midst of it.
    let mut process = Process::start(
        watch(
            &net.client,
            &[],
            &format!("{} capture -i wire -w - --duration 500ms", binary::truechimer().display()),
        ),
        &dir.join("midst.log"),
    );
    assert!(process.wait(SOON).is_some(), "{}", process.output());
    let notes = newest(&process).unwrap()["notes"].to_string();
    assert!(notes.contains("ended by itself: exit status: 0"), "{notes}");
}
