//! `truechimer capture check` beside what tcpdump sees of it, and `capture -D` beside ethtool.

use std::process::Command;

use serde_json::Value;
use truechimer_testbed::binary;
use truechimer_testbed::namespace::Namespace;
use truechimer_testbed::process::Signal;

use super::traffic::{LAST_WORDS, inject, last, numbered};
use super::{bed, tools};

/// Runs our program in a network, with its exit status.
fn ran(network: &Namespace, words: &[&str]) -> (Option<i32>, Value) {
    let output = network.command(binary::truechimer()).args(words).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    let report = serde_json::from_slice(&output.stdout);
    (output.status.code(), report.unwrap_or_else(|why| panic!("{why}: {errors}")))
}

fn comparison<'r>(report: &'r Value, from: &str, to: &str) -> &'r Value {
    let mut all = report["comparisons"].as_array().unwrap().iter();
    all.find(|c| (&c["from"], &c["to"]) == (&from.into(), &to.into()))
        .unwrap_or_else(|| panic!("{from} {to}: {report:#}"))
}

#[test]
fn the_list_has_what_came_beside_what_is_claimed() {
    let Some((net, _dir)) = bed() else { return };
    let (status, all) = ran(&net.client, &["capture", "-D", "--measure", "--json"]);
    assert_eq!(status, Some(0), "{all:#}");
    let one = |name: &str| {
        let mut all = all.as_array().unwrap().iter();
        all.find(|one| one["name"] == name).unwrap_or_else(|| panic!("{name}: {all:?}")).clone()
    };
    let wire = one("wire");
    for (stamp, all) in [("queue, sent", true), ("driver, sent", true), ("card, sent", false)] {
        let mut came = wire["came"].as_array().unwrap().iter();
        let found = came.find(|came| came["stamp"] == stamp);
        let found = found.unwrap_or_else(|| panic!("{stamp}: {wire:#}"));
        let (came, of) = (found["came"].as_u64().unwrap(), found["of"].as_u64().unwrap());
        assert!(of > 0 && came == if all { of } else { 0 }, "{wire:#}");
    }
    assert!(one("any")["came"].is_null());
    // Without it nothing is sent, and nothing said of it.
    let (_, plain) = ran(&net.client, &["capture", "-D", "--json"]);
    assert!(plain.as_array().unwrap().iter().all(|one| one["came"].is_null()), "{plain:#}");
}

#[test]
fn what_is_sent_is_seen_and_stays_on_the_link() {
    let Some((net, dir)) = bed() else { return };
    let mut theirs = tools::theirs(&net.server, &dir, "check", "ether[12:2] = 0x88b5");
    let words = ["capture", "check", "wire", "--duration", "2s", "--interval", "20ms", "--json"];
    let (status, report) = ran(&net.client, &words);
    assert_eq!((status, &report["good"]), (Some(0), &true.into()), "{report:#}");
    let sent = report["sent"].as_u64().unwrap();
    assert!(sent >= 20, "{report:#}");
    // A veth has the queue's and the driver's stamps of every frame, in their order.
    for stamp in report["stamps"].as_array().unwrap() {
        let came = stamp["came"].as_u64().unwrap();
        match stamp["stamp"].as_str().unwrap() {
            "queue, sent" | "driver, sent" => assert_eq!(came, sent, "{stamp}"),
            "card, sent" | "card, received" => assert_eq!(came, 0, "{stamp}"),
            _ => {}
        }
    }
    let whole = comparison(&report, "program", "driver");
    assert_eq!((&whole["frames"], &whole["backwards"]), (&sent.into(), &0.into()));

    // What arrives is looked at, and nothing is sent.
    let words = ["capture", "check", "wire", "--duration", "4s", "--silent", "--json"];
    let silent = std::thread::scope(|scope| {
        let check = scope.spawn(|| ran(&net.client, &words));
        let frames: Vec<_> = (0..10).map(|n| numbered(n, 40)).collect();
        // Whenever it begins, and however long it takes to send them.
        while !check.is_finished() {
            inject(&net.server, &frames);
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        check.join().unwrap().1
    });
    assert_eq!(silent["sent"], 0);
    let late = comparison(&silent, "kernel", "program");
    assert!(late["frames"].as_u64().unwrap() >= 10, "{silent:#}");
    assert!(late["least_ns"].as_i64().unwrap() >= 0, "{silent:#}");

    inject(&net.client, &[last()]);
    while !theirs.has(LAST_WORDS) {
        inject(&net.client, &[last()]);
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    theirs.process.signal(Signal::Term);
    theirs.ended();
    let seen = tools::packets(&theirs.file);
    let ours = seen.iter().filter(|p| p.data.get(14..30) == Some(b"truechimer check"));
    let ours: Vec<_> = ours.collect();
    assert_eq!(ours.len() as u64, sent);
    for frame in ours {
        assert_eq!((frame.length, &frame.data[..6]), (60, &[1, 0x80, 0xc2, 0, 0, 0x0e][..]));
    }
}

#[test]
fn a_full_queue_is_counted_and_stamps_stay_those_of_their_frames() {
    let Some((net, _dir)) = bed() else { return };
    let mut tc = net.client.command(binary::system("tc"));
    tc.args(["qdisc", "add", "dev", "wire", "root", "tbf", "rate", "100kbit", "burst", "1540"]);
    if !tc.args(["limit", "3000"]).status().is_ok_and(|status| status.success()) {
        return eprintln!("SKIPPED capture check: no tc with tbf");
    }
    // Some 200 frames a second pass of 1000.
    let words = ["capture", "check", "wire", "--duration", "2s", "--interval", "1ms", "--json"];
    let (_, report) = ran(&net.client, &words);
    let notes = report["notes"].to_string();
    assert!(notes.contains("frames were not sent, as a queue was full"), "{report:#}");
    let sent = report["sent"].as_u64().unwrap();
    assert!((100..1_000).contains(&sent), "{report:#}");
    let queue = comparison(&report, "program", "queue");
    assert_eq!((&queue["frames"], &queue["backwards"]), (&sent.into(), &0.into()), "{report:#}");
    // A stamp of another frame would be a millisecond away, or many.
    assert!(queue["offset_ns"].as_i64().unwrap() < 500_000, "{queue}");
}

#[test]
fn claims_are_those_that_ethtool_tells() {
    let Some((net, _dir)) = bed() else { return };
    let (_, all) = ran(&net.client, &["capture", "-D", "--json"]);
    let wire = all.as_array().unwrap().iter().find(|i| i["name"] == "wire").unwrap();
    let ethtool = net.client.command(binary::system("ethtool")).args(["-T", "wire"]).output();
    let Ok(ethtool) = ethtool.map(|o| String::from_utf8_lossy(&o.stdout).into_owned()) else {
        return eprintln!("SKIPPED capture check: no ethtool");
    };
    let stamps = &wire["stamps"];
    for (ours, theirs) in [
        ("kernel", "software-receive"),
        ("driver", "software-transmit"),
        ("card_out", "hardware-transmit"),
    ] {
        assert_eq!(stamps[ours], ethtool.contains(theirs), "{ours}: {ethtool}{stamps}");
    }
    assert_eq!(stamps["card_in"] == "none", !ethtool.contains("hardware-receive"));
}

#[test]
fn an_interface_that_is_not_there_is_named() {
    let Some((net, _dir)) = bed() else { return };
    let mut command: Command = net.client.command(binary::truechimer());
    let output = command.args(["capture", "check", "nowhere"]).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{errors}");
    assert!(errors.contains("nowhere"), "{errors}");
}
