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
use super::traffic::{OURS, Sent, ethernet, inject, inject_on, ipv4, last, numbered, tap, udp};

/// Packets sent, of which every tenth does not arrive.
const SENT: u32 = 100;

/// A command as a shell has it.
fn words_of(command: &Command) -> String {
    let all = std::iter::once(command.get_program()).chain(command.get_args());
    all.map(|word| format!("'{}'", word.to_str().unwrap())).collect::<Vec<_>>().join(" ")
}

/// `truechimer qos` here, and its peer.
fn watch(here: &Namespace, arguments: &[&str], peer: &str) -> Command {
    watch_on(here, "wire", arguments, peer)
}

fn watch_on(here: &Namespace, device: &str, arguments: &[&str], peer: &str) -> Command {
    let mut command = here.command(binary::truechimer());
    command.args(["qos", "-i", device, "-f", OURS, "--json", "--interval", "200ms"]);
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
    let command = watch(&net.client, &["--page", page], &words_of(&there));
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

/// Packets of one way: a path without a wire of its own, so that each delay, loss and overtaking is known.
struct Way {
    frames: Vec<Vec<u8>>,
    /// Places in `frames` in the order of arrival: some are missing, some are there twice, one is overtaken.
    order: Vec<usize>,
}

impl Way {
    fn new(port: u16) -> Way {
        let payload = |n: u32| [&n.to_be_bytes()[..], &[b'.'; 20]].concat();
        let frame = |n| ethernet(0x0800, &ipv4(17, 0, &udp(port, port + 1, &payload(n))));
        let mut order: Vec<usize> = (0..SENT as usize).filter(|n| n % 10 != 3).collect();
        order.extend([SENT as usize - 1; 4]);
        let twenty = order.iter().position(|n| *n == 20).unwrap();
        order.swap(twenty, twenty + 1);
        Way { frames: (0..SENT).map(frame).collect(), order }
    }

    fn arriving(&self) -> Vec<Vec<u8>> {
        self.order.iter().map(|n| self.frames[*n].clone()).collect()
    }

    /// Least and greatest that the least delay, and the greatest, can be.
    fn delays(&self, sent: &[Sent], arrived: &[Sent]) -> [[i64; 2]; 2] {
        let mut first: Vec<Option<[i64; 2]>> = vec![None; self.frames.len()];
        for (n, (before, after)) in self.order.iter().zip(arrived) {
            first[*n].get_or_insert([before - sent[*n].1, after - sent[*n].0]);
        }
        let first: Vec<[i64; 2]> = first.into_iter().flatten().collect();
        let of = |end: usize| first.iter().map(move |delay| delay[end]);
        [[of(0).min().unwrap(), of(1).min().unwrap()], [of(0).max().unwrap(), of(1).max().unwrap()]]
    }
}

#[test]
fn both_ways_have_their_delays_losses_copies_and_order() {
    let Some((net, dir)) = bed() else { return };
    let Some((_server, near, far)) = hosts(&net, &dir) else { return };
    tap(&net.client);
    let mut there = net.server.command(binary::truechimer());
    there.args(["capture", "-q", "-i", "wire", "-w", "-", "--page", far.page.to_str().unwrap()]);
    there.arg(OURS);
    let page = near.page.to_str().unwrap();
    let words = ["--page", page, "--timeout", "5s"];
    let command = watch_on(&net.client, "tap0", &words, &words_of(&there));
    let mut process = Process::start(command, &dir.join("ways.log"));
    // One that both see, and that belongs to neither way.
    let tick = || {
        inject_on(&net.client, "tap0", &[last()]);
        inject(&net.client, &[last()]);
        newest(&process)
    };
    let seen = |report: &Value, point: usize| report["points"][point]["packets"].as_u64().unwrap();
    let both = eventually(SOON, || tick().filter(|r| seen(r, 0) > 0 && seen(r, 1) > 0));
    assert!(both.is_some(), "{}", process.output());
    let ways = [Way::new(6_000), Way::new(7_000)];
    // There they leave by the tap and arrive by the wire; back they leave by the wire and arrive by the tap.
    let sent = inject_on(&net.client, "tap0", &ways[0].frames);
    std::thread::sleep(Duration::from_millis(50));
    let arrived = inject(&net.client, &ways[0].arriving());
    let there = ways[0].delays(&sent, &arrived);
    let sent = inject(&net.server, &ways[1].frames);
    std::thread::sleep(Duration::from_millis(200));
    let arrived = inject_on(&net.client, "tap1", &ways[1].arriving());
    let back = ways[1].delays(&sent, &arrived);
    let decided = eventually(SOON, || {
        tick().filter(|report| {
            let lost = |way: usize| report["ways"][way]["lost"] == SENT / 10;
            lost(0) && lost(1)
        })
    });
    let report = decided.unwrap_or_else(|| panic!("{}", process.output()));
    for (way, [least, most]) in report["ways"].as_array().unwrap().iter().zip([there, back]) {
        let number = |value: &Value| value.as_i64().unwrap_or_else(|| panic!("{report:#}"));
        let counts = ["arrived", "reordered", "duplicates", "negative", "unbounded"];
        let counts = counts.map(|name| number(&way[name]));
        assert_eq!(counts, [i64::from(SENT - SENT / 10), 1, 4, 0, 0], "{way:#}");
        let bound = number(&way["bound_max_ns"]);
        for (name, [low, high]) in [("min_ns", least), ("max_ns", most)] {
            let found = number(&way["delay"][name]);
            assert!(found + bound >= low, "{name} {found} ± {bound}: {low} to {high}");
            assert!(found - bound <= high, "{name} {found} ± {bound}: {low} to {high}");
        }
    }
    process.signal(Signal::Term);
    assert!(process.wait(SOON).is_some_and(|status| status.success()), "{}", process.output());
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
