//! Captures that are killed, held up, cut off, or never allowed to begin.

use std::fs;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use truechimer_testbed::binary;
use truechimer_testbed::daemon::SOON;
use truechimer_testbed::lacking::{Lacking, or_skip};
use truechimer_testbed::namespace::Namespace;
use truechimer_testbed::process::{Process, Signal, is_root};
use truechimer_testbed::temp::Dir;

use super::bed;
use super::tools::{self, Packet, assert_readable, tshark};
use super::traffic::{OURS, inject, last, number, numbered};

fn numbers(packets: &[Packet]) -> Vec<u32> {
    packets.iter().filter(|packet| packet.length > 60).map(|p| number(&p.data)).collect()
}

fn ip(network: &Namespace, arguments: &[&str]) {
    let status = network.command(binary::system("ip")).args(arguments).status().unwrap();
    assert!(status.success(), "ip {arguments:?}");
}

/// Waits until a capture around which a file system was mounted has begun.
fn has_begun(process: &mut Process) -> Result<(), Lacking> {
    while !process.output().contains("\"start\"") {
        if let Some(status) = process.wait(Duration::from_millis(20)) {
            if status.code() == Some(77) {
                return Err(Lacking("no tmpfs may be mounted in a namespace".into()));
            }
            panic!("{status}: {}", process.output());
        }
    }
    Ok(())
}

#[test]
fn a_killed_capture_leaves_a_file_that_can_be_read() {
    let Some((net, dir)) = bed() else { return };
    let mut capture = tools::truechimer(&net.client, &dir, "killed", &[OURS]);
    let mut frames: Vec<_> = (0..200).map(|n| numbered(n, 300)).collect();
    frames.push(last());
    inject(&net.server, &frames);
    capture.until_last();
    // More, of which nobody can tell how much is written.
    let more: Vec<_> = (200..2000).map(|n| numbered(n, 300)).collect();
    inject(&net.server, &more);
    capture.process.signal(Signal::Kill);
    assert!(!capture.ended().success());
    let found = numbers(&capture.packets());
    assert!(found.len() >= 200, "{}", found.len());
    assert_eq!(found, (0..found.len() as u32).collect::<Vec<_>>());
    assert_readable(&capture.file, found.len() + 1);
}

/// Waits until it says that packets were lost to the disk.
fn until_lost(capture: &mut tools::Capture) {
    let end = std::time::Instant::now() + SOON;
    let lost = |output: String| {
        let states = output.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        states.filter_map(|state| state["lost"]["writer"].as_u64()).any(|lost| lost > 0)
    };
    while !lost(capture.process.output()) {
        let late = std::time::Instant::now() >= end;
        assert!(capture.process.is_running() && !late, "{}", capture.process.output());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A compressed capture in a process group of its own, as one at a terminal is.
fn compressed(network: &Namespace, dir: &Dir, name: &str) -> tools::Capture {
    let file = dir.join(&format!("{name}.pcapng.zst"));
    let mut command = network.command(binary::truechimer());
    command.args(["capture", "-i", "wire", "--json", "--zstd", "-w"]).arg(&file).arg(OURS);
    command.process_group(0);
    tools::ready(command, dir, name, file)
}

/// Waits until it says that it has so many packets.
fn has_packets(capture: &mut tools::Capture, packets: usize) {
    capture.process.expect_output(&format!("\"packets\":{packets},"), SOON);
}

/// Unpacks a file, once it has its end: zstd may still write it.
fn unpacked(file: &std::path::Path) -> Vec<Packet> {
    let plain = file.with_extension("");
    let end = std::time::Instant::now() + SOON;
    loop {
        let output =
            Command::new("zstd").args(["-q", "-d", "-f", "-o"]).arg(&plain).arg(file).output();
        let output = output.unwrap();
        if output.status.success() {
            return tools::packets(&plain);
        }
        let why = String::from_utf8_lossy(&output.stderr);
        assert!(std::time::Instant::now() < end, "it has no end: {why}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_killed_compressed_capture_has_an_end() {
    let Some((net, dir)) = bed() else { return };
    if or_skip(tools::installed("zstd")).is_none() {
        return;
    }
    let mut capture = compressed(&net.client, &dir, "killed");
    inject(&net.server, &(0..2000).map(|n| numbered(n, 300)).collect::<Vec<_>>());
    has_packets(&mut capture, 2000);
    capture.process.signal(Signal::Kill);
    assert!(!capture.ended().success());
    // Some 400 bytes each: two pieces of 256 KiB were handed on at least.
    let found = numbers(&unpacked(&capture.file));
    assert!(found.len() > 1000, "{}", found.len());
    assert_eq!(found, (0..found.len() as u32).collect::<Vec<_>>());
}

#[test]
fn an_interrupted_compressed_capture_is_whole() {
    let Some((net, dir)) = bed() else { return };
    if or_skip(tools::installed("zstd")).is_none() {
        return;
    }
    let mut capture = compressed(&net.client, &dir, "interrupted");
    inject(&net.server, &(0..500).map(|n| numbered(n, 300)).collect::<Vec<_>>());
    has_packets(&mut capture, 500);
    // As by Ctrl-C: to all of the group.
    let group = format!("-{}", capture.process.pid());
    assert!(Command::new("kill").args(["-INT", "--", &group]).status().unwrap().success());
    assert!(capture.ended().success(), "{}", capture.process.output());
    assert_eq!(capture.summary()["packets"], 500);
    assert_eq!(capture.summary()["lost"]["writer"], 0);
    assert_eq!(numbers(&unpacked(&capture.file)), (0..500).collect::<Vec<_>>());
}

/// A shell around the program, as a place for what must be set up there.
fn around(network: &Namespace, script: &str, arguments: &[&str]) -> Command {
    let mut command = network.command("unshare");
    command.args(["-m", "sh", "-c", script, "sh"]);
    command.arg(binary::truechimer()).args(arguments);
    command
}

#[test]
fn a_full_disk_is_told_and_what_fits_is_whole() {
    let Some((net, dir)) = bed() else { return };
    let small = dir.join("small");
    fs::create_dir(&small).unwrap();
    let small = small.to_str().unwrap();
    let kept = dir.join("kept.pcapng");
    let script = format!(
        "mount -t tmpfs -o size=64k none {small} || exit 77
         \"$@\" & pid=$!; trap \"kill $pid\" TERM; wait $pid; wait $pid; code=$?
         cp {small}/full.pcapng {}; exit $code",
        kept.display()
    );
    let file = format!("{small}/full.pcapng");
    let command = around(
        &net.client,
        &script,
        &["capture", "-i", "wire", "--json", "-c", "301", "-w", &file, OURS],
    );
    let mut process = Process::start(command, &dir.join("full.log"));
    if or_skip(has_begun(&mut process)).is_none() {
        return;
    }
    let mut capture = tools::Capture { process, file: kept };
    let mut frames: Vec<_> = (0..300).map(|n| numbered(n, 1000)).collect();
    frames.push(last());
    inject(&net.server, &frames);
    // What is lost does not count, so that the capture goes on.
    until_lost(&mut capture);
    capture.process.signal(Signal::Term);
    let status = capture.ended();
    assert_eq!(status.code(), Some(1), "{}", capture.process.output());
    let summary = capture.summary();
    assert_eq!(summary["end"], "stopped", "{summary:#}");
    let found = capture.packets();
    let packets = found.len() as u64;
    assert!(packets > 20 && packets < 100, "{packets} packets in 64 KiB");
    assert_eq!(summary["packets"], packets, "{summary:#}");
    assert_eq!(summary["lost"]["writer"], 301 - packets, "{summary:#}");
    assert!(capture.process.output().contains("full.pcapng"), "says which file");
    assert_readable(&capture.file, found.len());
}

#[test]
fn a_device_that_is_always_full_is_an_error() {
    let Some((net, dir)) = bed() else { return };
    let mut command = net.client.command(binary::truechimer());
    command.args(["capture", "-i", "wire", "-w", "/dev/full", "--duration", "5s"]);
    let mut process = Process::start(command, &dir.join("devfull.log"));
    let status = process.wait(SOON).expect("it ends");
    assert!(matches!(status.code(), Some(1 | 2)), "{status}: {}", process.output());
    assert!(process.output().contains("/dev/full"), "{}", process.output());
}

#[test]
fn a_reader_that_takes_his_time_gets_everything() {
    let Some((net, dir)) = bed() else { return };
    let log = fs::File::create(dir.join("slow.log")).unwrap();
    let mut command = net.client.command(binary::truechimer());
    command.args(["capture", "-i", "wire", "-w", "-", "--json", "-c", "2001", OURS]);
    let mut child = command.stdout(Stdio::piped()).stderr(log).spawn().unwrap();
    let said = || fs::read_to_string(dir.join("slow.log")).unwrap();
    while !said().contains("\"start\"") {
        assert!(child.try_wait().unwrap().is_none(), "{}", said());
        std::thread::sleep(Duration::from_millis(20));
    }
    let mut frames: Vec<_> = (0..2000).map(|n| numbered(n, 1000)).collect();
    frames.push(last());
    // Thirty times what a pipe holds, before anybody reads.
    inject(&net.server, &frames);
    let mut bytes = Vec::new();
    child.stdout.take().unwrap().read_to_end(&mut bytes).unwrap();
    assert!(child.wait().unwrap().success(), "{}", said());
    let file = dir.join("slow.pcapng");
    fs::write(&file, bytes).unwrap();
    assert_eq!(numbers(&tools::packets(&file)), (0..2000).collect::<Vec<_>>());
    assert_readable(&file, 2001);
}

#[test]
fn a_reader_that_goes_ends_it_well_packets_or_not() {
    let Some((net, dir)) = bed() else { return };
    for busy in [false, true] {
        let log = fs::File::create(dir.join("gone.log")).unwrap();
        let mut command = net.client.command(binary::truechimer());
        command.args(["capture", "-i", "wire", "-w", "-", OURS]);
        let mut child = command.stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let said = || fs::read_to_string(dir.join("gone.log")).unwrap();
        let mut output = child.stdout.take().unwrap();
        output.read_exact(&mut [0; 28]).unwrap();
        drop(output);
        if busy {
            inject(&net.server, &(0..100).map(|n| numbered(n, 100)).collect::<Vec<_>>());
        }
        let end = std::time::Instant::now() + SOON;
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            assert!(std::time::Instant::now() < end, "it goes on: {}", said());
            std::thread::sleep(Duration::from_millis(20));
        };
        assert!(status.success(), "{status}: {}", said());
    }
}

#[test]
fn an_interface_may_go_down_and_come_back() {
    let Some((net, dir)) = bed() else { return };
    let mut capture = tools::truechimer(&net.client, &dir, "updown", &["--json", OURS]);
    let mut lines = {
        let mut command = net.client.command(binary::truechimer());
        command.args(["capture", "-i", "wire", OURS]);
        tools::ready(command, &dir, "lines", dir.join("lines"))
    };
    inject(&net.server, &(0..10).map(|n| numbered(n, 50)).collect::<Vec<_>>());
    lines.process.expect_output(".7007: UDP", SOON);
    ip(&net.client, &["link", "set", "wire", "down"]);
    lines.process.expect_output("wire is down", SOON);
    ip(&net.client, &["link", "set", "wire", "up"]);
    lines.process.expect_output("wire is up", SOON);
    let mut frames: Vec<_> = (10..20).map(|n| numbered(n, 50)).collect();
    frames.push(last());
    inject(&net.server, &frames);
    assert!(capture.end().success(), "{}", capture.process.output());
    assert_eq!(capture.summary()["downs"], 1, "{:#}", capture.summary());
    assert_eq!(numbers(&capture.packets()), (0..20).collect::<Vec<_>>());
    assert_readable(&capture.file, 21);
}

#[test]
fn an_interface_that_vanishes_ends_it_with_a_whole_file() {
    let Some((net, dir)) = bed() else { return };
    let mut capture = tools::truechimer(&net.client, &dir, "vanished", &["--json", OURS]);
    let mut frames: Vec<_> = (0..100).map(|n| numbered(n, 50)).collect();
    frames.push(last());
    inject(&net.server, &frames);
    ip(&net.server, &["link", "delete", "wire"]);
    let status = capture.ended();
    let output = capture.process.output();
    assert_eq!(status.code(), Some(1), "{output}");
    assert!(output.contains("the interface wire has vanished"), "{output}");
    assert_eq!(numbers(&capture.packets()), (0..100).collect::<Vec<_>>());
    let (found, errors) = tshark(&capture.file);
    assert!(found == 101 && !errors.contains("cut short"), "{found}, {errors}");
}

#[test]
fn without_privilege_it_says_what_is_missing() {
    let Some((net, dir)) = bed() else { return };
    let mut command = Command::new("setpriv");
    if is_root() {
        command.args(["--bounding-set", "-all", "--inh-caps", "-all"]);
    }
    // On the host, where nobody else's packets are taken, as nothing is allowed.
    command.arg("--").arg(binary::truechimer()).args(["capture", "-i", "lo", "-c", "1"]);
    let mut process = Process::start(command, &dir.join("unprivileged.log"));
    let status = process.wait(SOON).expect("it ends");
    let output = process.output();
    assert_eq!(status.code(), Some(2), "{output}");
    assert!(output.contains("setcap") && output.contains("cap_net_raw"), "{output}");
    drop(net);
}

#[test]
fn what_is_wrong_with_the_wishes_is_told() {
    let Some((net, dir)) = bed() else { return };
    let absent = dir.join("absent/file.pcapng");
    let absent = absent.to_str().unwrap();
    for (arguments, words) in [
        (vec!["-i", "nowhere"], "nowhere"),
        (vec!["-i", "wire", "udp", "prt", "53"], "prt"),
        (vec!["-i", "wire", "-w", absent], absent),
        (vec!["-i", "wire", "--cores", "reader=1"], "no part 'reader'"),
        (vec!["-i", "wire", "--page", "/dev/null"], "/dev/null"),
        (vec!["-i", "wire", "--rotate-size", "1M"], "--write"),
    ] {
        let mut command = net.client.command(binary::truechimer());
        let output = command.arg("capture").args(&arguments).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains(words), "{arguments:?}: {said}");
    }
}

/// Packet steering of the namespace's own interface, seen through a `/sys` of its own.
#[test]
fn steering_is_put_back_whatever_happens() {
    let Some((net, dir)) = bed() else { return };
    let rps = "/sys/class/net/wire/queues/rx-0/rps_cpus";
    let script = format!(
        "mount -t sysfs none /sys 2>/dev/null || exit 77
         echo before $(cat {rps})
         \"$@\" & pid=$!
         until grep -q capturing.on {log}; do sleep 0.02; done
         echo meanwhile $(cat {rps})
         kill -$SIGNAL $pid; wait $pid
         n=0; until [ $(cat {rps} | tr -d 0,)x = x ] || [ $n = 500 ]; do sleep 0.02; n=$((n+1)); done
         echo after $(cat {rps})",
        log = dir.join("steer.log").display()
    );
    for signal in ["TERM", "KILL"] {
        let log = dir.join("steer.log");
        let _ = fs::remove_file(&log);
        let arguments = ["capture", "-i", "wire", "--cores", "softirq=0", OURS];
        let mut command = around(&net.client, &script, &arguments);
        command.env("SIGNAL", signal);
        let mut process = Process::start(command, &log);
        let status = process.wait(SOON).expect("it ends");
        let output = process.output();
        if status.code() == Some(77) {
            or_skip::<()>(Err(Lacking("no sysfs may be mounted in a namespace".into())));
            return;
        }
        let value = |name: &str| {
            let line = output.lines().find_map(|line| line.strip_prefix(name));
            let line = line.unwrap_or_else(|| panic!("no `{name}`: {output}"));
            line.trim().trim_matches(['0', ',']).to_owned()
        };
        if !is_root() {
            // It is not for root in a user namespace to set; the capture goes on without.
            assert!(output.contains("softirq=0: ") && output.contains("takes root"), "{output}");
            assert_eq!(value("meanwhile"), "", "{output}");
            continue;
        }
        assert_eq!((value("before"), value("meanwhile")), (String::new(), "1".into()), "{output}");
        assert_eq!(value("after"), "", "{signal}: {output}");
    }
}

#[test]
fn a_limit_on_files_is_like_a_full_disk() {
    let Some((net, dir)) = bed() else { return };
    let file = dir.join("limited.pcapng");
    let mut command = net.client.command("sh");
    // In blocks of 512 bytes, or of 1024.
    command.args(["-c", "ulimit -f 100 && exec \"$@\"", "sh"]).arg(binary::truechimer());
    command.args(["capture", "-i", "wire", "--json", "-c", "301", OURS, "-w"]).arg(&file);
    let process = {
        let mut process = Process::start(command, &dir.join("limited.log"));
        process.expect_output("\"start\"", SOON);
        process
    };
    let mut capture = tools::Capture { process, file };
    let mut frames: Vec<_> = (0..300).map(|n| numbered(n, 1000)).collect();
    frames.push(last());
    inject(&net.server, &frames);
    until_lost(&mut capture);
    capture.process.signal(Signal::Term);
    assert_eq!(capture.ended().code(), Some(1), "{}", capture.process.output());
    let (summary, found) = (capture.summary(), capture.packets());
    assert_eq!(summary["packets"], found.len(), "{summary:#}");
    assert_eq!(summary["lost"]["writer"], 301 - found.len(), "{summary:#}");
    assert_readable(&capture.file, found.len());
}

#[test]
fn a_terminal_that_is_closed_leaves_a_whole_file() {
    let Some((net, dir)) = bed() else { return };
    let mut capture = tools::truechimer(&net.client, &dir, "hup", &["--json", OURS]);
    inject(&net.server, &[numbered(1, 50), last()]);
    capture.until_last();
    capture.process.signal(Signal::Hangup);
    assert!(capture.ended().success(), "{}", capture.process.output());
    assert_eq!(capture.summary()["packets"], 2);
    assert_readable(&capture.file, 2);
}

/// Wireshark shows whatever stands there as an error.
#[test]
fn wireshark_is_told_errors_only() {
    let Some((net, dir)) = bed() else { return };
    let capture = |interface: &str, name: &str| {
        let file = dir.join(&format!("{name}.pcapng"));
        fs::write(&file, "").unwrap();
        let mut command = net.client.command(binary::truechimer());
        let page = dir.join("none");
        command.args(["extcap", "--capture", "--extcap-interface", interface, "--page"]).arg(page);
        command.arg("--fifo").arg(&file);
        let process = Process::start(command, &dir.join(&format!("{name}.log")));
        tools::Capture { process, file }
    };
    let mut good = capture("truechimer-wire", "good");
    // It says nothing when it begins.
    while !good.has(b"wire") {
        assert!(good.process.is_running(), "{}", good.process.output());
        std::thread::sleep(Duration::from_millis(20));
    }
    inject(&net.server, &[last()]);
    assert!(good.end().success(), "{}", good.process.output());
    assert_eq!(good.process.output().trim(), "");
    let mut bad = capture("truechimer-nowhere", "bad");
    assert_eq!(bad.ended().code(), Some(2));
    assert!(bad.process.output().contains("nowhere"), "{}", bad.process.output());
}

#[test]
fn where_no_other_file_can_begin_the_last_one_goes_on() {
    let Some((net, dir)) = bed() else { return };
    let small = dir.join("inodes");
    fs::create_dir(&small).unwrap();
    let small = small.to_str().unwrap();
    let kept = dir.join("kept.pcapng");
    // Room for the folder itself and two files.
    let script = format!(
        "mount -t tmpfs -o size=8m,nr_inodes=3 none {small} || exit 77
         \"$@\"; code=$?
         cat {small}/row_00002_*.pcapng > {}; exit $code",
        kept.display()
    );
    let file = format!("{small}/row.pcapng");
    let arguments =
        ["capture", "-i", "wire", "--json", "-c", "301", "--rotate-size", "50k", "-w", &file, OURS];
    let command = around(&net.client, &script, &arguments);
    let mut process = Process::start(command, &dir.join("inodes.log"));
    if or_skip(has_begun(&mut process)).is_none() {
        return;
    }
    let mut capture = tools::Capture { process, file: kept };
    let mut frames: Vec<_> = (0..300).map(|n| numbered(n, 1000)).collect();
    frames.push(last());
    inject(&net.server, &frames);
    assert_eq!(capture.ended().code(), Some(0), "{}", capture.process.output());
    let summary = capture.summary();
    assert_eq!((&summary["packets"], &summary["files"]), (&301.into(), &2.into()), "{summary:#}");
    let found = numbers(&capture.packets());
    assert!(found.len() > 200 && *found.last().unwrap() == 299, "{found:?}");
    assert_readable(&capture.file, found.len() + 1);
}
