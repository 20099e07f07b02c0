//! A counter that loses its continuity while packets come: a daemon that says so is made up, as the
//! counter of the machine does no such thing.

use std::time::Duration;

use serde_json::Value;
use truechimer::{Span, Status};
use truechimer_counter::{Choice, Counter, boot_id, host_reading, nominal, realtime_pair};
use truechimer_testbed::binary;
use truechimer_time::{CounterId, Epoch, Instant, Rate};
use truechimer_timehands::{Hand, Made, PageWriter};

use super::traffic::{OURS, inject, last, numbered};
use super::{bed, tools};

const HOUR_NS: i64 = 3_600_000_000_000;

/// Publishes a hand of now, whose time is so many hours ahead of the system clock: whose it is
/// shows.
fn publish(writer: &mut PageWriter, epoch: u32, hours: i64, status: Status) {
    let counter = Counter::open(Choice::Auto).unwrap();
    let period = nominal(counter).unwrap().period;
    let (pair, host) = (realtime_pair(counter, 8), host_reading(counter));
    let id = CounterId { kind: counter.kind(), boot: boot_id().unwrap(), epoch: Epoch(epoch) };
    let hand = Hand {
        difference_error: Rate::from_ppb(1_000_000),
        path_bound: Span::from_micros(50),
        statistical_bound: Span::from_micros(5),
        // The system clock may be steered meanwhile.
        growth: Rate::from_ppb(2_000_000),
        status,
        ..Hand::exact(
            id,
            pair.mid(),
            Instant::from_nanos(i128::from(pair.unix_ns + hours * HOUR_NS)),
            period,
            host.count + period.counts(Span::from_secs(1000)),
        )
    };
    let made = Made {
        count: host.count,
        monotonic_ns: host.monotonic_ns,
        raw_ns: host.raw_ns,
        suspended_ns: host.suspended_ns,
        device: None,
    };
    writer.publish(&hand, &made);
    // What is stamped before the capture has seen a break has no count.
    std::thread::sleep(Duration::from_millis(1500));
}

/// Each packet's row of `restamp --list`, and the summary after them.
fn listed(arguments: &[&str]) -> (Vec<Value>, Value) {
    let mut command = std::process::Command::new(binary::truechimer());
    let output = command.args(["restamp", "--list", "--json"]).args(arguments).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut rows: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let summary = rows.pop().unwrap();
    (rows, summary)
}

#[test]
fn a_counter_that_breaks_splits_the_capture() {
    let Some((net, dir)) = bed() else { return };
    let page = dir.join("clock");
    let mut writer = PageWriter::create(&page).unwrap();
    publish(&mut writer, 1, 2, Status::Synchronised);
    let arguments = ["--page", page.to_str().unwrap(), OURS];
    let mut capture = tools::truechimer(&net.client, &dir, "broken", &arguments);
    let mut send = |from: u32| {
        let frames: Vec<_> = (from..from + 20).map(|n| numbered(n, 40)).collect();
        inject(&net.server, &frames);
        capture.until(format!("number {:010}", from + 19).as_bytes());
    };
    send(0);
    publish(&mut writer, 2, 3, Status::Disrupted);
    send(20);
    publish(&mut writer, 2, 3, Status::Synchronised);
    send(40);
    inject(&net.server, &[last()]);
    assert!(capture.end().success(), "{}", capture.process.output());
    let file = capture.file.to_str().unwrap();
    let parts = |rows: &[Value]| {
        assert_eq!(rows.len(), 61);
        let part = |from: usize| rows[from..from + 20].to_vec();
        [part(0), part(20), part(40)]
    };
    let system = capture.packets().iter().map(|packet| packet.unix_ns).collect::<Vec<_>>();
    let hours = |row: &Value| {
        let then = system[0] - 2 * HOUR_NS;
        (row["unix_ns"].as_i64().unwrap() - then).div_euclid(HOUR_NS)
    };
    let assert_all = |rows: &[Value], quality: &str, epoch: u32, ahead: i64| {
        for row in rows {
            let found = (row["quality"].as_str().unwrap(), row["epoch"].as_u64(), hours(row));
            assert_eq!(found, (quality, Some(epoch.into()), ahead), "{row}");
        }
    };
    // As it stands: marked while nothing was known, and an epoch for each stretch.
    let [before, broken, after] = parts(&listed(&[file]).0);
    assert_all(&before, "bounded", 1, 2);
    assert_all(&broken, "unsynchronised", 2, 0);
    assert_all(&after, "bounded", 2, 3);
    let told = comments(file);
    assert!(told.contains("disrupted"), "{told}");

    // By whatever hands: those of one stretch say nothing about the other.
    for more in [vec!["--by", "best"], vec!["--page", page.to_str().unwrap()]] {
        let (rows, summary) = listed(&[more.as_slice(), &[file]].concat());
        let [before, broken, after] = parts(&rows);
        assert_all(&before, "bounded", 1, 2);
        assert_all(&broken, "bounded", 2, 3);
        assert_all(&after, "bounded", 2, 3);
        assert_eq!(summary["contradicted"], 0, "{summary:#}");
    }
}

/// The comments in a file, as tshark reads them.
fn comments(file: &str) -> String {
    tools::fields(file.as_ref(), &["-e", "frame.comment"])
}
