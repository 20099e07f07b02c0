//! Captures of tcpdump whose stamps are moved off UTC, and put back by the NTP that passed.

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use truechimer_testbed::binary;
use truechimer_testbed::chrony::{self, Chronyd};
use truechimer_testbed::daemon::SOON;
use truechimer_testbed::lacking::or_skip;
use truechimer_testbed::process::{Process, Signal};

use super::traffic::{LAST_WORDS, inject, last};
use super::{bed, tools};

/// Runs a program, and gives what it prints.
fn ran(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
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
    inject(&net.server, &[last()]);
    while !theirs.has(LAST_WORDS) {
        inject(&net.server, &[last()]);
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    theirs.process.signal(Signal::Term);
    theirs.ended();

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
