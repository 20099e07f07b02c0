//! Captures of tcpdump whose stamps are moved off UTC, and put back by the NTP that passed.

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use truechimer::Status;
use truechimer_testbed::binary;
use truechimer_testbed::chrony::{self, Chronyd};
use truechimer_testbed::daemon::{SOON, Server, Setup};
use truechimer_testbed::lacking::or_skip;
use truechimer_testbed::namespace::Namespace;
use truechimer_testbed::process::{Process, Signal};

use super::traffic::{LAST_WORDS, OURS, inject, last, numbered};
use super::{bed, tools};

/// Runs a program, and gives what it prints.
fn ran(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// Ends a capture once it has the last frame that is sent to it.
fn end(capture: &mut tools::Capture, server: &Namespace) {
    inject(server, &[last()]);
    while !capture.has(LAST_WORDS) {
        inject(server, &[last()]);
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    capture.process.signal(Signal::Term);
    capture.ended();
}

fn restamp(from: &Path, to: &Path) -> Value {
    let mut command = Command::new(binary::truechimer());
    command.args(["restamp", "--json", "--comments", "-o"]).args([to, from]);
    serde_json::from_str(&ran(&mut command)).unwrap()
}

#[test]
fn a_capture_in_tai_is_put_on_utc_by_chronys_packets() {
    let Some((net, dir)) = bed() else { return };
    if or_skip(chrony::installed()).is_none() {
        return;
    }
    let _server = or_skip(Chronyd::start(&net.server, &dir, "")).unwrap();
    // dumpcap and tcpdump stamp by the system clock, which is the server's time.
    let mut theirs =
        tools::theirs(&net.client, &dir, "scales", "udp port 123 or ether[12:2] = 0x88b5");
    let conf = dir.join("client.conf");
    let text = "server 192.0.2.1 minpoll -2 maxpoll -2 iburst\ncmdport 0\nuser root\n";
    let pid = dir.join("client.pid");
    std::fs::write(&conf, format!("{text}bindcmdaddress /\npidfile {}\n", pid.display())).unwrap();
    let mut command = net.client.command(binary::system("chronyd"));
    command.args(["-d", "-x", "-f"]).arg(&conf);
    let mut client = Process::start(command, &dir.join("client.log"));
    client.expect_output("Selected source", SOON);
    std::thread::sleep(std::time::Duration::from_secs(3));
    client.signal(Signal::Term);
    end(&mut theirs, &net.server);

    let truth = tools::packets(&theirs.file);
    assert!(truth.len() > 10, "{}", truth.len());
    for (shift, scale) in [("0", "UTC"), ("37", "TAI"), ("-1000000000.25", "")] {
        let (moved, put) = (dir.join("moved.pcapng"), dir.join("put.pcapng"));
        let mut editcap = Command::new(binary::system("editcap"));
        ran(editcap.args(["-F", "pcapng", "-t", shift]).args([&theirs.file, &moved]));
        let summary = restamp(&moved, &put);
        let account = &summary["others"][0];
        assert_eq!((&account["by"], &account["breaks"]), (&"ntp".into(), &0.into()), "{summary:#}");
        assert_eq!(summary["restamped"], truth.len());
        let ahead = account["last"]["ahead_ns"].as_i64().unwrap() as f64 / 1e9;
        assert!((ahead - shift.parse::<f64>().unwrap()).abs() < 0.05, "{scale}: {ahead}");
        for (packet, truth) in tools::packets(&put).iter().zip(&truth) {
            let bound = packet.record.unwrap().bound_ns.unwrap();
            let off = packet.unix_ns.abs_diff(truth.unix_ns);
            assert!(off <= bound.into(), "{off} ns, ± {bound}");
            assert!(bound < 50_000_000, "± {bound}");
        }
        // tshark reads it, and its comments say so.
        let mut tshark = Command::new(binary::system("tshark"));
        let words = ran(tshark.args(["-n", "-T", "fields", "-e", "frame.comment", "-r"]).arg(&put));
        assert!(words.lines().all(|line| line.contains("bounded, method restamp")), "{words}");
    }
}

#[test]
fn a_capture_by_the_system_clock_is_put_on_true_time_by_a_log_of_it() {
    const AHEAD_NS: i64 = 1_500_000_000;
    let Some((net, dir)) = bed() else { return };
    // True time is 1.5 s ahead of the system clock, by which tcpdump stamps.
    let server = Server::start(&dir, &["--listen", "127.0.0.1:0", "--offset", "1.5s"]);
    let mut daemon = Setup::new(&dir, &server.address).start();
    daemon.watch(server.truth).run_until_status(Status::Synchronised, SOON);
    let mut theirs = tools::theirs(&net.client, &dir, "logged", OURS);
    let log = dir.join("day.clocks");
    let mut check = net.client.command(binary::truechimer());
    check.args(["capture", "check", "wire", "--silent", "--duration", "4s", "--clock-log"]);
    check.arg(&log).arg("--page").arg(dir.join("clock"));
    let mut check = Process::start(check, &dir.join("check.log"));
    // What is captured before it has begun has no reading on either side.
    while !log.exists() {
        assert!(check.is_running(), "{}", check.output());
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    for from in (0..100).step_by(5) {
        let frames: Vec<_> = (from..from + 5).map(|n| numbered(n, 20)).collect();
        inject(&net.server, &frames);
        std::thread::sleep(std::time::Duration::from_millis(150));
    }
    assert!(check.wait(SOON).is_some(), "{}", check.output());
    assert!(check.output().contains("readings of the system"), "{}", check.output());
    end(&mut theirs, &net.server);

    let put = dir.join("put.pcapng");
    let mut command = Command::new(binary::truechimer());
    command.args(["restamp", "--json", "--clock", &format!("0=system:{}", log.display()), "-o"]);
    let summary: Value = serde_json::from_str(&ran(command.args([&put, &theirs.file]))).unwrap();
    assert_eq!(summary["others"][0]["by"], "log", "{summary:#}");
    let (before, after) = (tools::packets(&theirs.file), tools::packets(&put));
    assert_eq!((before.len(), &summary["restamped"]), (after.len(), &before.len().into()));
    assert!(before.len() > 100);
    for (then, now) in before.iter().zip(&after) {
        let bound = now.record.unwrap().bound_ns.unwrap();
        let off = (now.unix_ns - then.unix_ns - AHEAD_NS).unsigned_abs();
        assert!(off <= bound.into(), "{off} ns, ± {bound}");
        assert!(bound < 20_000_000, "± {bound}");
    }
}
