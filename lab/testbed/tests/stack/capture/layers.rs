//! `truechimer qos --layers` beside a program that answers.

use std::net::UdpSocket;
use std::time::Duration;

use serde_json::Value;
use truechimer_testbed::binary;
use truechimer_testbed::daemon::SOON;
use truechimer_testbed::lacking::{Lacking, or_skip};
use truechimer_testbed::process::{Process, Signal};

use super::bed;

/// Number of requests.
const ASKED: usize = 20;

/// One request after the other, each from a port of its own, and what answers it.
fn ask_and_answer() {
    let answers = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = answers.local_addr().unwrap();
    let mut bytes = [0; 100];
    for number in 0..ASKED {
        let asks = UdpSocket::bind("127.0.0.1:0").unwrap();
        asks.send_to(&[number as u8; 100], address).unwrap();
        let (length, from) = answers.recv_from(&mut bytes).unwrap();
        answers.send_to(&bytes[..length], from).unwrap();
        asks.recv_from(&mut bytes).unwrap();
        // Events of several processors come in no order that is kept for ever.
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Delays from one layer to another.
fn pair<'r>(report: &'r Value, from: &str, to: &str) -> &'r Value {
    let mut all = report["layers"]["pairs"].as_array().unwrap().iter();
    all.find(|pair| (&pair["from"], &pair["to"]) == (&from.into(), &to.into()))
        .unwrap_or_else(|| panic!("{from} {to}: {report:#}"))
}

/// Mean of the delays from one layer to another, ns, and of how many.
fn mean(report: &Value, from: &str, to: &str) -> (f64, usize) {
    let delay = &pair(report, from, to)["delay"];
    (delay["mean_ns"].as_f64().unwrap(), delay["n"].as_u64().unwrap() as usize)
}

/// The mean delays from layer to layer add up to that of the whole: on the way up, on the way down, and of those that
/// were answered by all.
fn adds_up(report: &Value) {
    let close = |parts: f64, whole: f64| {
        assert!((parts - whole).abs() < 2.0, "{parts} of {whole}: {report:#}")
    };
    for way in
        [["driver", "stack", "socket", "application"], ["send", "scheduler", "transmit", "sent"]]
    {
        let parts: Vec<_> = way.windows(2).map(|two| mean(report, two[0], two[1])).collect();
        let whole = mean(report, way[0], way[3]);
        assert!(parts.iter().all(|part| part.1 == whole.1), "{parts:?} of {whole:?}: {report:#}");
        close(parts.iter().map(|part| part.0).sum(), whole.0);
    }
    for (from, through) in [("driver", "stack"), ("stack", "socket"), ("socket", "application")] {
        // Of the requests alone the first part is what its end is nearer to a layer of the answer.
        let [of_send, of_sent] = ["send", "sent"].map(|to| {
            let (far, near) = (mean(report, from, to), mean(report, through, to));
            assert_eq!((far.1, near.1), (ASKED, ASKED), "{report:#}");
            far.0 - near.0
        });
        close(of_send, of_sent);
    }
}

#[test]
fn a_request_and_its_answer_are_one_way_up_and_down() {
    let Some((net, dir)) = bed() else { return };
    let up = net.client.command(binary::system("ip")).args(["link", "set", "lo", "up"]).status();
    assert!(up.unwrap().success());
    let mut command = net.client.command(binary::truechimer());
    command.args(["qos", "-i", "lo", "--layers", "--json", "--interval", "200ms"]);
    let mut process = Process::start(command, &dir.join("layers.log"));
    while !process.output().contains("\"pairs\"") {
        if let Some(status) = process.wait(Duration::from_millis(20)) {
            let said = process.output();
            assert!(said.contains("watching the layers"), "{status}: {said}");
            or_skip::<()>(Err(Lacking(said)));
            return;
        }
    }
    let way = net.client.way();
    let talk = std::thread::spawn(move || {
        way.enter().unwrap();
        ask_and_answer();
    });
    talk.join().unwrap();
    process.signal(Signal::Term);
    assert!(process.wait(SOON).is_some_and(|status| status.success()), "{}", process.output());
    let said = process.output();
    let last = said.lines().rev().find(|line| line.starts_with('{')).unwrap();
    let report: Value = serde_json::from_str(last).unwrap();
    let seen = report["layers"]["seen"].as_array().unwrap();
    let seen: Vec<(&str, u64)> =
        seen.iter().map(|one| (one[0].as_str().unwrap(), one[1].as_u64().unwrap())).collect();
    let names: Vec<&str> = seen.iter().map(|(name, _)| *name).collect();
    let all = ["driver", "stack", "socket", "application", "send", "scheduler", "transmit", "sent"];
    assert_eq!(names, all, "{report:#}");
    // Each request and each answer is sent.
    for (name, number) in &seen[4..] {
        assert_eq!(*number as usize, 2 * ASKED, "{name}: {report:#}");
    }
    let whole = pair(&report, "driver", "sent");
    assert_eq!(whole["delay"]["n"], ASKED, "{report:#}");
    assert!(whole["delay"]["min_ns"].as_i64().unwrap() > 0, "{report:#}");
    adds_up(&report);
    let program = pair(&report, "application", "send");
    assert_eq!((&program["adjacent"], &program["negative"]), (&true.into(), &0.into()));
}
