//! Following chronyd, with nothing but packets between it and us.

use std::time::Duration;

use truechimer::Status;
use truechimer_testbed::chrony::Chronyd;
use truechimer_testbed::daemon::{SOON, Setup};
use truechimer_testbed::lacking::or_skip;
use truechimer_testbed::namespace::{Namespace, Pair};
use truechimer_testbed::process::Process;
use truechimer_testbed::truth::Truth;
use truechimer_testbed::watch::{Sample, long, median};
use truechimer_testbed::{binary, temp};

use crate::{SETTLED, assert_kernel_stamps, assert_tight, number};

const MINUTE: Duration = Duration::from_secs(60);

#[test]
fn every_reading_is_within_its_bound_at_one_second_polls() {
    follow(1, "192.0.2.1");
}

#[test]
fn every_reading_is_within_its_bound_at_sixteen_second_polls() {
    follow(16, "192.0.2.1");
}

#[test]
fn every_reading_is_within_its_bound_over_ipv6() {
    follow(2, "[2001:db8::1]");
}

fn follow(poll: u32, server: &str) {
    let Some(net) = or_skip(Pair::new()) else { return };
    let dir = temp::Dir::new();
    let Some(_server) = or_skip(Chronyd::start(&net.server, &dir, "")) else { return };
    let mut daemon = Setup { network: Some(&net.client), poll, ..Setup::new(&dir, server) }.start();
    let mut watch = daemon.watch(Truth::host());
    // What a rate is known to between polls of 16 s takes a longer baseline than a minute.
    let settled = SETTLED.max(Duration::from_secs(8) * poll);
    watch.run(long(settled + Duration::from_secs(20)));
    println!("{}", watch.summary());
    assert_kernel_stamps(&daemon);
    assert_tight(&watch, &daemon, settled);
    assert!(watch.samples.iter().all(|s| s.status == Status::Synchronised));
}

#[test]
fn the_bound_holds_while_the_server_is_away() {
    let Some(net) = or_skip(Pair::new()) else { return };
    let dir = temp::Dir::new();
    let Some(mut server) = or_skip(Chronyd::start(&net.server, &dir, "")) else { return };
    let mut daemon = Setup { network: Some(&net.client), ..Setup::new(&dir, "192.0.2.1") }.start();
    let mut watch = daemon.watch(Truth::host());
    watch.run(Duration::from_secs(20));
    server.stop();
    let left = watch.samples.len();
    watch.run_until_status(Status::Holdover, SOON);
    watch.run(Duration::from_secs(20));
    let away = &watch.samples[left..];
    let (first, last) = (away[0].bound_ns(), away[away.len() - 1].bound_ns());
    println!(
        "the bound grew from {first} to {last} ns within {:?}",
        away[away.len() - 1].at - away[0].at
    );
    assert!(last > first, "the bound does not grow: {first}, then {last} ns");
    server.resume();
    watch.run_until_status(Status::Synchronised, SOON);
    let back = watch.samples[watch.samples.len() - 1].at;
    watch.run(long(Duration::from_secs(20)));
    println!("{}", watch.summary());
    let settled = median(watch.since(back + Duration::from_secs(5)).iter().map(Sample::bound_ns));
    assert!(settled < last, "the bound stays wide: {settled} ns, {last} ns before");
}

#[test]
fn a_bad_path_costs_tightness_and_never_truth() {
    let Some(net) = or_skip(Pair::new()) else { return };
    let dir = temp::Dir::new();
    let Some(_server) = or_skip(Chronyd::start(&net.server, &dir, "")) else { return };
    let _relay = relay(
        &net.server,
        &dir,
        "delay=3ms,jitter=2ms,loss=0.2,duplicate=0.05",
        "delay=5ms,jitter=2ms,loss=0.2,duplicate=0.05",
    );
    let mut daemon =
        Setup { network: Some(&net.client), ..Setup::new(&dir, "192.0.2.1:11123") }.start();
    let mut watch = daemon.watch(Truth::host());
    watch.run(long(MINUTE + Duration::from_secs(20)));
    println!("{}", watch.summary());
    let source = daemon.source();
    let floor = number(&source, "rtt_floor_ns");
    assert!(floor >= 8_000_000, "faster than the path: {source:#}");
    let (lost, asked) = (number(&source, "timeouts"), number(&source, "requests"));
    println!("{lost} of {asked} requests without an answer; least round trip {floor} ns");
    assert!(lost * 10 > asked, "of {asked} requests only {lost} lost: {source:#}");
    assert!(number(&source["refused"], "duplicate") > 0, "{source:#}");
    // Half the floor is all that asymmetry can make of it; the rest is the filter's to remove.
    let bound = median(watch.since(MINUTE).iter().map(Sample::bound_ns));
    assert!(bound < floor, "{bound} ns is no use over a path of {floor} ns");
}

/// The relay on the server's side of the wire, at port 11123.
fn relay(network: &Namespace, dir: &temp::Dir, there: &str, back: &str) -> Process {
    let mut command = network.command(binary::testbed());
    command.args(["relay", "192.0.2.1:11123", "127.0.0.1:123", "20261121", there, back]);
    let mut relay = Process::start(command, &dir.join("relay.log"));
    relay.expect_output("relaying", SOON);
    relay
}
