//! The test bed itself: does it do what the other tests take for granted?

use std::net::IpAddr;
use std::time::Duration;

use truechimer_testbed::chrony::{Chronyd, query};
use truechimer_testbed::lacking::or_skip;
use truechimer_testbed::namespace::{Means, Pair, SERVER, SERVER_V6};
use truechimer_testbed::process::{Process, Signal, is_root};
use truechimer_testbed::{binary, temp};

/// First answer to a query that is repeated for ten seconds: a busy machine takes longer than one waits.
fn answer(net: &Pair, address: IpAddr, port: u16) -> Option<u8> {
    (0..50).find_map(|_| query(&net.client, address, port))
}

#[test]
fn chronyd_answers_over_the_wire_until_it_is_stopped() {
    let Some(net) = or_skip(Pair::new()) else { return };
    let dir = temp::Dir::new();
    let Some(mut server) = or_skip(Chronyd::start(&net.server, &dir, "")) else { return };
    assert_eq!(answer(&net, SERVER, 123), Some(2));
    assert_eq!(answer(&net, SERVER_V6, 123), Some(2));
    server.stop();
    assert_eq!(query(&net.client, SERVER, 123), None);
    server.resume();
    assert_eq!(answer(&net, SERVER, 123), Some(2));
}

#[test]
fn root_needs_no_user_namespace() {
    if !is_root() {
        return;
    }
    // Whether this root may make network namespaces is not ours to say.
    if let Ok(net) = Pair::by(Means::Root) {
        assert_eq!(query(&net.client, SERVER, 123), None);
    }
}

#[test]
fn a_relay_in_a_namespace_passes_queries() {
    let Some(net) = or_skip(Pair::new()) else { return };
    let dir = temp::Dir::new();
    let Some(_server) = or_skip(Chronyd::start(&net.server, &dir, "")) else { return };
    let mut command = net.server.command(binary::testbed());
    command.args(["relay", "192.0.2.1:11123", "127.0.0.1:123", "1", "delay=20ms", "delay=20ms"]);
    let mut relay = Process::start(command, &dir.join("relay.log"));
    relay.expect_output("relaying", Duration::from_secs(10));
    assert_eq!(answer(&net, SERVER, 11123), Some(2));
}

#[test]
fn processes_die_with_their_owner() {
    let dir = temp::Dir::new();
    let mut command = std::process::Command::new("sleep");
    command.arg("1000");
    let mut process = Process::start(command, &dir.join("log"));
    let proc = format!("/proc/{}/stat", process.pid());
    process.signal(Signal::Stop);
    assert!(process.is_running() && std::fs::exists(&proc).unwrap());
    drop(process);
    assert!(!std::fs::exists(&proc).unwrap());
}
