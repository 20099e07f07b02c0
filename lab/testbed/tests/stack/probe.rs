//! `truechimer probe` between two hosts, over a path that delays and loses as it is told to; the STAMP of others at the
//! other end.

use std::fs::Permissions;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use truechimer_testbed::daemon::{Daemon, SOON, Setup};
use truechimer_testbed::lacking::{Lacking, or_skip};
use truechimer_testbed::namespace::{Namespace, Pair, SERVER};
use truechimer_testbed::process::{self, Process, Signal};
use truechimer_testbed::truth::Truth;
use truechimer_testbed::{binary, ports, temp};

use crate::number;

/// The key that both ends have.
const SECRET: &str = "000102030405060708090A0B0C0D0E0F10111213";
/// Time by which the servers of both clocks are ahead of the host's clock.
const AHEAD_NS: i64 = 1_000_000;

fn key_file(dir: &temp::Dir, name: &str, secret: &str) -> PathBuf {
    let path = dir.join(name);
    std::fs::write(&path, format!("1 SHA256 HEX:{secret}\n")).unwrap();
    std::fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    path
}

/// A clock that follows a server of its own, all in one network.
struct Clock {
    daemon: Daemon,
    _source: Process,
}

impl Clock {
    fn start(network: &Namespace, dir: &temp::Dir, name: &str) -> Clock {
        let mut command = network.command(binary::truechimer());
        command.args(["serve", "--clock", "system", "--listen", "127.0.0.1:11123"]);
        command.args(["--offset", "1ms"]);
        let mut source = Process::start(command, &dir.join(&format!("{name}.source")));
        source.expect_output("serving on", SOON);
        let setup = Setup { name, network: Some(network), ..Setup::new(dir, "127.0.0.1:11123") };
        let mut daemon = setup.start();
        drop(daemon.watch(Truth { offset_ns: AHEAD_NS, ..Truth::host() }));
        Clock { daemon, _source: source }
    }
}

/// A reflector, and where it listens.
fn reflector(mut command: Command, dir: &temp::Dir, words: &[&str]) -> (Process, SocketAddr) {
    command.args(["probe", "reflect", "--json"]).args(words);
    let mut reflector = Process::start(command, &dir.join("reflector.log"));
    reflector.expect_output("\"bound_ns\"", SOON);
    let said = reflector.output();
    let begun: Value = serde_json::from_str(said.lines().next().unwrap()).unwrap();
    (reflector, begun["listen"][0].as_str().unwrap().parse().unwrap())
}

/// Ends a reflector; the counts that it ends with.
fn ends(mut reflector: Process) -> Value {
    reflector.signal(Signal::Term);
    assert_eq!(reflector.wait(SOON).and_then(|status| status.code()), Some(0));
    serde_json::from_str(reflector.output().lines().last().unwrap()).unwrap()
}

/// Report of a sender, and its exit status.
fn probe(mut command: Command, words: &[&str]) -> (Option<i32>, Value) {
    let output = command.args(["probe", "--json"]).args(words).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    let report = serde_json::from_slice(&output.stdout);
    (output.status.code(), report.unwrap_or_else(|why| panic!("{why}: {errors}")))
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Where the path begins, at the sender's host.
const ENTRANCE: &str = "127.0.0.1:8620";
/// Decides what is lost and copied.
const SEED: u64 = 27;
/// The path there and back: nothing overtakes, and what is copied is on its way back.
const ROADS: [&str; 2] = ["delay=20ms,loss=0.1", "delay=45ms,loss=0.06,duplicate=0.05"];

/// The path, from the sender's host on.
fn relay(network: &Namespace, dir: &temp::Dir) -> Process {
    let mut command = network.command(binary::testbed());
    command.args(["relay", ENTRANCE, &SocketAddr::new(SERVER, 862).to_string()]);
    command.arg(SEED.to_string()).args(ROADS);
    let mut relay = Process::start(command, &dir.join("relay.log"));
    relay.expect_output("relaying", SOON);
    relay
}

/// Fates of so many datagrams one way: how many were lost, and how many came twice.
fn truth(road: &str, seed: u64, count: i64) -> (i64, i64) {
    let road: truechimer_testbed::relay::Path = road.parse().unwrap();
    let fates: Vec<_> = (0..count.unsigned_abs()).map(|n| road.fate(seed, n).len()).collect();
    let with = |copies| fates.iter().filter(|fate| **fate == copies).count() as i64;
    (with(0), with(2))
}

#[test]
fn each_way_has_its_delay_within_the_bound_and_its_losses_to_the_packet() {
    let Some(net) = or_skip(Pair::new()) else { return };
    let dir = temp::Dir::new();
    let key = key_file(&dir, "keys", SECRET);
    // The reflector comes first, as it may at boot, and takes up the clock once there is one.
    let page = dir.join("far");
    let words = ["--keys", text(&key), "--page", text(&page)];
    let command = net.server.command(binary::truechimer());
    let (mut reflector, _) = reflector(command, &dir, &words);
    let _far = Clock::start(&net.server, &dir, "far");
    let near = Clock::start(&net.client, &dir, "near");
    reflector.expect_output("\"synchronised\":true", SOON);
    let ask = |words: &[&str]| {
        let command = net.client.command(binary::truechimer());
        probe(command, &[words, &["--page", text(&near.daemon.page)]].concat())
    };
    let direct = SERVER.to_string();
    // Whoever has no key, or another one, is not answered.
    let other = key_file(&dir, "other", &SECRET.replace("00", "01"));
    let few = ["-c", "5", "--wait", "300ms", direct.as_str()];
    for words in [few.to_vec(), [few.as_slice(), &["--keys", text(&other)]].concat()] {
        let (status, report) = ask(&words);
        assert_eq!((status, &report["answered"]), (Some(1), &0.into()), "{report:#}");
    }
    let _relay = relay(&net.client, &dir);
    let sheet = dir.join("path.html");
    let words = ["-c", "600", "--rate", "150", "--keys", text(&key), "--size", "200", ENTRANCE];
    let (status, report) = ask(&[&words[..], &["--html", text(&sheet)]].concat());
    assert_eq!((status, &report["counted_by_reflector"]), (Some(0), &true.into()), "{report:#}");
    assert_eq!(number(&report, "undetermined"), 0, "{report:#}");
    let sent = number(&report, "sent");
    let there = truth(ROADS[0], SEED, sent);
    let back = truth(ROADS[1], !SEED, sent - there.0);
    for (name, told, (lost, copies)) in
        [("forward", 20_000_000, there), ("backward", 45_000_000, back)]
    {
        let way = &report[name];
        let delay = &way["delay"];
        let (least, bound) = (number(&delay["spread"], "min_ns"), number(delay, "bound_max_ns"));
        println!("{name}: least {least} ns ± {bound} ns, told to be {told} ns; {}", way["loss"]);
        // No packet takes less than the path was told; the quickest of hundreds hardly more, were it not for the
        // scheduler.
        assert!(least + bound >= told, "{delay:#}");
        assert!(least - bound <= told + 10_000_000, "{delay:#}");
        assert!(bound < 10_000_000, "{delay:#}");
        assert_eq!((number(delay, "negative"), number(way, "unbounded")), (0, 0), "{delay:#}");
        assert_eq!(number(&way["loss"], "lost"), lost, "{name}: {:#}", way["loss"]);
        assert_eq!(number(way, "duplicates"), copies, "{name}: {:#}", way["loss"]);
        assert_eq!(number(&way["reordering"], "reordered"), 0, "{name}");
    }
    assert!(there.0 > 20 && back.0 > 10 && back.1 > 10, "{there:?} {back:?}");
    let least = number(&report["round_trip"]["time"], "min_ns");
    let bound = number(&report["round_trip"], "bound_max_ns");
    assert!(least + bound >= 65_000_000, "{:#}", report["round_trip"]);
    assert_eq!(report["hop_limits"], serde_json::json!([64, 64]));
    let sheet = std::fs::read_to_string(sheet).unwrap();
    for part in ["<dt>host</dt>", "synchronised, ± ", "of 200 bytes, with a key", "no answer"] {
        assert!(sheet.contains(part), "{part}");
    }
    assert_eq!(sheet.matches("<div><dt>median delay ").count(), 2);
    let counts = ends(reflector);
    assert_eq!(number(&counts, "unauthentic"), 10, "{counts:#}");
    assert_eq!(number(&counts, "answered"), sent - there.0, "{counts:#}");
}

#[test]
fn others_speak_stamp_with_us_both_ways() {
    let Some(theirs) = or_skip(stamp_suite()) else { return };
    let dir = temp::Dir::new();
    let key = key_file(&dir, "keys", SECRET);
    let none = dir.join("no-clock");
    let page = ["--page", text(&none)];
    // Theirs asks ours, with extensions that ours does not understand, and codes over them.
    let words = ["--keys", text(&key), "--open", "--listen", "127.0.0.1:0"];
    let words = [words.as_slice(), &page].concat();
    let (ours, to) = reflector(process::command(binary::truechimer()), &dir, &words);
    let port = to.port().to_string();
    let asked = ["-r", "127.0.0.1", "-p", &port, "-c", "20", "-d", "5", "--output-format", "json"];
    let extended = ["--cos", "--timestamp-info", "--extra-padding", "60"];
    let keyed = ["-A", "A", "--hmac-key", SECRET, "--require-hmac"];
    for with in [extended.to_vec(), [extended.as_slice(), &keyed].concat()] {
        let output = process::command(&theirs).args(asked).args(&with).output().unwrap();
        let (said, errors) = (output.stdout, String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{errors}");
        let said = String::from_utf8(said).unwrap();
        let summary: Value = serde_json::from_str(said.lines().last().unwrap()).unwrap();
        let said = &summary["measurements"];
        assert_eq!(number(said, "unique_replies"), 20, "{summary:#}");
        let flags = &said["tlv_validation"]["flags"];
        assert_eq!((number(flags, "unrecognized"), number(flags, "malformed")), (40, 0));
        assert_eq!(number(flags, "integrity_failed"), 0, "{summary:#}");
        let verified = number(&said["tlv_validation"]["hmac"], "verified");
        assert_eq!(verified, if with.len() > extended.len() { 20 } else { 0 });
    }
    let counts = ends(ours);
    assert_eq!((number(&counts, "answered"), number(&counts, "unsynchronised")), (40, 40));
    // Ours asks theirs, which counts or does not.
    let modes = [vec!["--stateful-reflector"], keyed[..4].to_vec()];
    for (port, mode) in ports::free(2).into_iter().zip(modes) {
        let mut command = process::command(&theirs);
        let port = port.to_string();
        command.args(["-i", "-S", "127.0.0.1", "-o", &port]).args(&mode);
        let mut reflector = Process::start(command, &dir.join(&format!("theirs-{port}")));
        reflector.expect_output("Starting up", SOON);
        let to = format!("127.0.0.1:{port}");
        let mut words = vec!["-c", "20", "--interval", "5ms", "--size", "250"];
        if mode.len() > 1 {
            words.extend(["--keys", text(&key)]);
        }
        words.extend(page);
        words.push(&to);
        let (status, report) = probe(process::command(binary::truechimer()), &words);
        assert_eq!((status, &report["answered"]), (Some(0), &20.into()), "{report:#}");
        // Neither clock promises anything: no delay one way, and that is said.
        assert_eq!(report["forward"]["delay"], Value::Null);
        assert!(report["notes"].to_string().contains("is not synchronised"), "{report:#}");
    }
}

/// Program of the crate `stamp-suite`: an implementation of STAMP by others.
fn stamp_suite() -> Result<PathBuf, Lacking> {
    let program = binary::system("stamp-suite");
    let missing = || Lacking("stamp-suite (cargo install stamp-suite)".into());
    program.is_file().then_some(program).ok_or_else(missing)
}
