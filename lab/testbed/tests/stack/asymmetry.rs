//! Asymmetry of a path, learnt beside a receiver: used once that is gone, and by the next daemon.

use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use truechimer_testbed::chrony::Chronyd;
use truechimer_testbed::daemon::{Daemon, SOON, Setup};
use truechimer_testbed::lacking::or_skip;
use truechimer_testbed::namespace::Pair;
use truechimer_testbed::process::{Process, Signal};
use truechimer_testbed::truth::Truth;
use truechimer_testbed::watch::{Sample, Watch};
use truechimer_testbed::{binary, temp};

use crate::number;
use crate::refclocks::Sender;

/// Requests and replies take so long at least, ms: much longer than a scheduler lets them wait.
const THERE: i64 = 240;
const BACK: i64 = 60;
const MS: i64 = 1_000_000;
const SERVER: &str = "192.0.2.1:11123";

/// The server as `sources` shows it.
fn server(daemon: &Daemon) -> Value {
    let all = daemon.ask(&["sources"]).json;
    let found = all.as_array().into_iter().flatten().find(|source| source["name"] == SERVER);
    found.unwrap_or_else(|| panic!("no {SERVER}: {all:#}")).clone()
}

/// Watches until an asymmetry is used; returns it and its error, ns.
fn used(daemon: &Daemon, watch: &mut Watch) -> (i64, i64) {
    watch.run_until_so(SOON, "an asymmetry is used", || !server(daemon)["asymmetry_ns"].is_null());
    let found = server(daemon);
    let used = (number(&found, "asymmetry_ns"), number(&found, "asymmetry_error_ns"));
    println!("asymmetry {} ± {} ns, {}", used.0, used.1, watch.summary());
    used
}

#[test]
fn an_asymmetry_is_learnt_beside_a_receiver_and_used_without_it_by_the_next_daemon() {
    let Some(net) = or_skip(Pair::new()) else { return };
    let dir = temp::Dir::new();
    let Some(_server) = or_skip(Chronyd::start(&net.server, &dir, "")) else { return };
    let mut relay = net.server.command(binary::testbed());
    relay.args(["relay", SERVER, "127.0.0.1:123", "7"]);
    relay.args([THERE, BACK].map(|ms| format!("delay={ms}ms")));
    let mut relay = Process::start(relay, &dir.join("relay.log"));
    relay.expect_output("relaying", SOON);
    let receiver = Sender::start(&dir, 0);
    let sections = format!(
        "[[source]]\nhost = {SERVER:?}\npoll = 1\nasymmetry = \"learn\"\n\
         [[source]]\nsock = {:?}\nname = \"gps\"\nerror = \"1ms\"\n",
        receiver.path
    );
    let settings = format!("state = {:?}\n", dir.join("state"));
    let setup = Setup { settings: &settings, ..Setup::within(&net.client, &dir, &sections) };
    let mut daemon = setup.start();
    let mut watch = daemon.watch(Truth::host());
    used(&daemon, &mut watch);
    // Until it is known so well that a bound by it is worth something.
    let half = (THERE + BACK) * MS / 2;
    watch.run_until_so(SOON, "half of its error is a part of half of the round trip", || {
        number(&server(&daemon), "asymmetry_error_ns") < half / 2
    });
    let (learnt, before) = used(&daemon, &mut watch);
    assert!(learnt > 0, "requests take longer: {learnt} ± {before}");
    let mut table = Command::new(binary::truechimer());
    table.args(["sources", "--asymmetry", "--page"]).arg(&daemon.page);
    let table = String::from_utf8(table.output().unwrap().stdout).unwrap();
    println!("{table}");
    assert!(table.contains("to use one when that clock fails"), "{table}");
    drop(receiver);
    daemon.process.signal(Signal::Term);
    assert!(daemon.process.wait(SOON).is_some(), "SIGTERM ends it");

    // Without the page, which has the time of before: it has to hear the path first.
    std::fs::remove_file(&daemon.page).unwrap();
    let mut daemon = setup.start();
    let mut watch = daemon.watch(Truth::host());
    let first = watch.samples[0].bound_ns();
    let again = "learnt before the start";
    let already = daemon.process.output().contains(again);
    assert!(already || first >= half, "{first} ns: half of the round trip is {half} ns");
    let (kept, error) = used(&daemon, &mut watch);
    assert!(daemon.process.output().contains(again), "{}", daemon.process.output());
    assert!(
        (kept - learnt).abs() <= before + error,
        "{kept} ± {error}, before {learnt} ± {before}"
    );
    let narrow = |sample: &Sample| sample.bound_ns() < half / 2;
    assert!(watch.run_until(SOON, narrow), "{}", watch.summary());
    watch.run(Duration::from_secs(5));
    println!("{}", watch.summary());
}
