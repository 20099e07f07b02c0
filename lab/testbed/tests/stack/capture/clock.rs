//! Worth of a packet's time: without a clock, with one, and while that changes.

use std::time::Duration;

use truechimer::Status;
use truechimer_counter::{Choice, Counter, nominal};
use truechimer_pcapng::records::PacketRecord;
use truechimer_testbed::chrony::Chronyd;
use truechimer_testbed::daemon::{Daemon, SOON, Setup};
use truechimer_testbed::lacking::or_skip;
use truechimer_testbed::namespace::Pair;
use truechimer_testbed::process::Signal;
use truechimer_testbed::temp::Dir;
use truechimer_testbed::truth::Truth;

use super::bed;
use super::tools::{self, Capture, Packet, assert_readable};
use super::traffic::{OURS, Sent, inject, last, number, numbered};

#[test]
fn without_a_clock_packets_are_marked_and_that_is_said_once() {
    let Some((net, dir)) = bed() else { return };
    let page = dir.join("none");
    let page = page.to_str().unwrap();
    let mut capture =
        tools::truechimer(&net.client, &dir, "unsynchronised", &["--page", page, OURS]);
    let mut frames: Vec<_> = (0..50).map(|n| numbered(n, 20)).collect();
    frames.push(last());
    let sent = inject(&net.server, &frames);
    assert!(capture.end().success(), "{}", capture.process.output());
    let output = capture.process.output();
    assert_eq!(output.matches("no clock").count(), 1, "{output}");
    assert!(output.contains("truechimer run --server"), "says what helps: {output}");
    assert!(output.contains("none bounded"), "{output}");
    let packets = capture.packets();
    assert_eq!(packets.len(), sent.len());
    for packet in &packets {
        let record = packet.record.as_ref().unwrap();
        assert!(bound(record).is_none(), "{record:?}");
    }
    let counted = packets.iter().filter(|packet| count(packet).is_some()).count();
    assert!(counted * 2 > packets.len(), "{counted} of {} have a count", packets.len());
    assert_readable(&capture.file, packets.len());
}

/// Frames go out with the system clock read before and after, which is the truth that chronyd
/// serves: the time of every packet that has a bound must be right by it.
fn assert_right(packets: &[Packet], sent: &[(u32, Sent)]) -> usize {
    let mut bounded = 0;
    for packet in packets.iter().filter(|packet| packet.length < 100 && packet.length > 60) {
        let (_, (before, after)) =
            sent.iter().find(|(n, _)| *n == number(&packet.data)).copied().unwrap();
        let record = packet.record.as_ref().unwrap();
        let Some(bound) = bound(record) else { continue };
        bounded += 1;
        assert!(
            packet.unix_ns + bound >= before && packet.unix_ns - bound <= after,
            "{} ± {bound} ns is not from {before} to {after}",
            packet.unix_ns
        );
    }
    bounded
}

fn synchronised(daemon: &mut Daemon) {
    let mut watch = daemon.watch(Truth::host());
    watch.run_until_status(Status::Synchronised, SOON);
}

/// Sends so many numbered frames, a few milliseconds apart.
fn send(net: &Pair, from: u32, to: u32) -> Vec<(u32, Sent)> {
    let mut sent = Vec::new();
    for n in (from..to).step_by(10) {
        let frames: Vec<_> = (n..n + 10).map(|n| numbered(n, 20)).collect();
        // The sender's own side of the wire, where a packet is stamped while it is sent.
        sent.extend((n..).zip(inject(&net.client, &frames)));
        std::thread::sleep(Duration::from_millis(50));
    }
    sent
}

fn capture(net: &Pair, dir: &Dir, daemon: &Daemon) -> Capture {
    let page = daemon.page.to_str().unwrap();
    tools::truechimer(&net.client, dir, "clock", &["--json", "--page", page, OURS])
}

#[test]
fn every_packets_time_is_right_within_its_bound() {
    let Some((net, dir)) = bed() else { return };
    let Some(_server) = or_skip(Chronyd::start(&net.server, &dir, "")) else { return };
    let mut daemon = Setup { network: Some(&net.client), ..Setup::new(&dir, "192.0.2.1") }.start();
    synchronised(&mut daemon);
    let mut capture = capture(&net, &dir, &daemon);
    let sent = send(&net, 0, 200);
    inject(&net.client, &[last()]);
    assert!(capture.end().success(), "{}", capture.process.output());
    let packets = capture.packets();
    let bounded = assert_right(&packets, &sent);
    let stamps = &capture.summary()["stamps"];
    println!("{bounded} of {} packets bounded: {stamps}", sent.len());
    assert_eq!(bounded, sent.len(), "{stamps:#}");
    assert_eq!(stamps["bounded"], packets.len() as u64);
    assert_readable(&capture.file, packets.len());
}

#[test]
fn the_clock_may_come_go_and_change_while_packets_come() {
    let Some((net, dir)) = bed() else { return };
    let Some(_server) = or_skip(Chronyd::start(&net.server, &dir, "")) else { return };
    let setup = Setup { network: Some(&net.client), ..Setup::new(&dir, "192.0.2.1") };
    // It begins without any clock.
    let page = dir.join("clock");
    let arguments = ["--json", "--page", page.to_str().unwrap(), OURS];
    let mut capture = tools::truechimer(&net.client, &dir, "clock", &arguments);
    let mut sent = send(&net, 0, 50);
    let mut daemon = setup.start();
    synchronised(&mut daemon);
    // It looks for one once a second.
    std::thread::sleep(Duration::from_secs(2));
    sent.extend(send(&net, 50, 100));
    daemon.process.signal(Signal::Kill);
    sent.extend(send(&net, 100, 150));
    let mut daemon = setup.start();
    synchronised(&mut daemon);
    sent.extend(send(&net, 150, 200));
    inject(&net.client, &[last()]);
    assert!(capture.end().success(), "{}", capture.process.output());
    let packets = capture.packets();
    assert_eq!(packets.len(), 201);
    let first = packets.iter().filter(|packet| packet.length < 100 && packet.length > 60);
    let first: Vec<_> = first.filter(|packet| number(&packet.data) < 50).collect();
    assert!(first.iter().all(|packet| bound(packet.record.as_ref().unwrap()).is_none()));
    let bounded = assert_right(&packets, &sent);
    println!("{bounded} of 200 packets bounded: {:#}", capture.summary()["stamps"]);
    assert!(bounded >= 100, "{:#}", capture.summary());
    assert_readable(&capture.file, packets.len());
}

fn bound(record: &PacketRecord) -> Option<i64> {
    record.bound_ns.map(i64::from)
}

fn count(packet: &Packet) -> Option<u64> {
    packet.record.as_ref()?.counted.map(|(count, ..)| count.0)
}

/// A daemon on either of two hosts that follows a server on the second, once both are synchronised.
pub fn hosts<'d>(net: &'d Pair, dir: &'d Dir) -> Option<(Chronyd<'d>, Daemon, Daemon)> {
    let server = or_skip(Chronyd::start(&net.server, dir, ""))?;
    let setup = |name, network, server: &str| {
        let mut daemon = Setup { network: Some(network), name, ..Setup::new(dir, server) }.start();
        synchronised(&mut daemon);
        daemon
    };
    let near = setup("near", &net.client, "192.0.2.1");
    Some((server, near, setup("far", &net.server, "127.0.0.1")))
}

/// Two hosts, a daemon each, and a capture at either end of the wire between them. Both are on one
/// machine and count by the same counter, so that the truth is known: what lies between two counts.
#[test]
fn one_way_delays_between_two_captures_are_right_within_their_bounds() {
    let Some((net, dir)) = bed() else { return };
    let Some((_server, near, far)) = hosts(&net, &dir) else { return };
    let take = |name, network, daemon: &Daemon| {
        let page = daemon.page.to_str().unwrap();
        tools::truechimer(network, &dir, name, &["--json", "--page", page, OURS])
    };
    let mut left = take("left", &net.client, &near);
    let mut right = take("right", &net.server, &far);
    let sent = send(&net, 0, 200);
    inject(&net.client, &[last()]);
    for capture in [&mut left, &mut right] {
        assert!(capture.end().success(), "{}", capture.process.output());
    }
    let (left, right) = (left.packets(), right.packets());
    let at = |packets: &[Packet], n: u32| {
        let ours = packets.iter().filter(|packet| packet.length < 100 && packet.length > 60);
        let mut those = ours.filter(|packet| number(&packet.data) == n);
        let packet = those.next().unwrap_or_else(|| panic!("packet {n} is not there"));
        let record = packet.record.unwrap();
        let bound = bound(&record).unwrap_or_else(|| panic!("packet {n} has no bound"));
        let (count, error, _) = record.counted.unwrap();
        (packet.unix_ns, bound, count, error)
    };
    // Over some microseconds its nominal rate will do.
    let counter = Counter::open(Choice::Auto).unwrap();
    let period = nominal(counter).unwrap().period;
    let mut delays = Vec::new();
    for (n, _) in &sent {
        let (out, out_bound, from, from_error) = at(&left, *n);
        let (come, come_bound, to, to_error) = at(&right, *n);
        let (delay, bound) = (come - out, out_bound + come_bound);
        let truth = period.span(to - from).as_nanos() as i64;
        let known = period.span(from_error + to_error).as_nanos() as i64 + 1 + truth.abs() / 1000;
        // The bounds cover the errors of the counts, by which the truth is known here.
        assert!(
            delay - bound <= truth + known && truth - known <= delay + bound,
            "packet {n} took {delay} ± {bound} ns, and in truth {truth} ± {known}"
        );
        delays.push((delay, bound, truth));
    }
    delays.sort_unstable();
    let (delay, bound, truth) = delays[delays.len() / 2];
    println!("{delay} ± {bound} ns (median), in truth {truth}");
    assert_eq!(assert_right(&left, &sent), sent.len());
}
